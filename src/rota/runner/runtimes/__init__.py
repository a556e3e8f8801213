"""The runtimes, by their kind."""

from rota.model.fleet import RuntimeKind
from rota.runner.runtimes.claude import ClaudeRuntime
from rota.runner.runtimes.codex import CodexRuntime
from rota.runner.runtimes.command import CommandRuntime
from rota.runner.runtimes.gemini import GeminiRuntime
from rota.runner.runtimes.port import Runtime
from rota.runner.runtimes.python import PythonRuntime

RUNTIMES: dict[RuntimeKind, Runtime] = {
    RuntimeKind.COMMAND: CommandRuntime(),
    RuntimeKind.CLAUDE: ClaudeRuntime(),
    RuntimeKind.CODEX: CodexRuntime(),
    RuntimeKind.GEMINI: GeminiRuntime(),
    RuntimeKind.PYTHON: PythonRuntime(),
}
