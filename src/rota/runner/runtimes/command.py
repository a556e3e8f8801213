"""`command`: any program. It gets its prompt by stdin, file or argument, and prints text."""

from collections.abc import Iterator

from rota.model.errors import InvalidInput
from rota.model.fleet import PromptBy
from rota.runner.port import RunRequest
from rota.runner.runtimes.port import Event, Launch, Report, with_system_prompt
from rota.runner.scratch import Scratch

# Of one argument; the kernel's limit is 128 KiB with the terminating NUL.
LONGEST_ARGUMENT = 128 * 1024 - 1


class Plain:
    """Every line is plain text."""

    def __init__(self) -> None:
        self.report = Report()

    def hear(self, line: str) -> Iterator[Event]:
        yield {"stream": "stdout", "text": line}

    def finish(self) -> Iterator[Event]:
        return iter(())


class CommandRuntime:
    streams = False

    def launch(self, request: RunRequest, scratch: Scratch) -> Launch:
        settings = request.settings
        if not settings.command or not settings.command[0]:
            raise InvalidInput("the agent has no command; name its program and arguments")
        argv = (*settings.command, *settings.arguments)
        prompt = with_system_prompt(request)
        if settings.prompt_by is PromptBy.STDIN:
            return Launch(argv, stdin=prompt)
        if settings.prompt_by is PromptBy.FILE:
            return Launch(_filled(argv, "{prompt_file}", str(scratch.write("prompt.txt", prompt))))
        return Launch(_filled(argv, "{prompt}", _argument(prompt)))

    def listener(self) -> Plain:
        return Plain()


def _filled(argv: tuple[str, ...], place: str, value: str) -> tuple[str, ...]:
    if any(place in part for part in argv):
        return tuple(part.replace(place, value) for part in argv)
    return (*argv, value)


def _argument(prompt: bytes) -> str:
    if len(prompt) > LONGEST_ARGUMENT:
        raise InvalidInput(
            f"the prompt has {len(prompt)} bytes, and an argument may have {LONGEST_ARGUMENT};"
            " set runtime.prompt to stdin or file"
        )
    if b"\0" in prompt:
        raise InvalidInput("an argument cannot hold a NUL; set runtime.prompt to stdin or file")
    return prompt.decode()
