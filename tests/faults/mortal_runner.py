"""A minimal server: runs one agent until it is killed. Arguments: its directory, the agent."""

import asyncio
import os
import sys
from pathlib import Path

from rota.model.clock import SystemClock
from rota.model.fleet import RunSettings, RuntimeKind
from rota.runner import LocalRunner, RunRequest


async def main(directory: Path, command: tuple[str, ...]) -> None:
    runner = LocalRunner(directory, environ=os.environ, clock=SystemClock(), grace=0.3)
    settings = RunSettings(
        runtime=RuntimeKind.COMMAND, command=command, working_directory=directory
    )
    request = RunRequest(
        run_id="run-1", agent="mortal", settings=settings, prompt="", log=directory / "log.jsonl"
    )
    await runner.execute(request)


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1]), tuple(sys.argv[2:])))
