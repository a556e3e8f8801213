"""`python`: calls your function in a Python process of its own."""

import json
import sys

from rota.model.errors import InvalidInput
from rota.runner import python_child
from rota.runner.port import RunRequest
from rota.runner.runtimes.command import Plain
from rota.runner.runtimes.port import Launch
from rota.runner.scratch import Scratch


class PythonRuntime:
    streams = False

    def launch(self, request: RunRequest, scratch: Scratch) -> Launch:
        target = request.settings.callable
        if not target or target.count(":") != 1:
            raise InvalidInput(
                f"callable: {target!r} is not a function; write package.module:function"
            )
        call = {
            "run_id": request.run_id,
            "agent": request.agent,
            "prompt": request.prompt,
            "system_prompt": request.settings.system_prompt,
            "context": dict(request.context),
            "arguments": list(request.settings.arguments),
        }
        program = request.settings.command or (sys.executable,)
        # -P: do not import from the script's own directory. -u: unbuffered, so that the log can be
        # followed while the function runs.
        argv = (*program, "-u", "-P", python_child.__file__, target)
        return Launch(argv, stdin=json.dumps(call, default=str).encode())

    def listener(self) -> Plain:
        return Plain()
