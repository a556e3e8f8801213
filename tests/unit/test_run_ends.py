"""What a run's end holds."""

import json
from pathlib import Path

from rota.model.clock import SystemClock
from rota.model.fleet import Limits
from rota.model.runs import RunEnd, RunStatus, Usage
from rota.runner.conclusion import conclude
from rota.runner.execution import Finished, Stop, Stopped
from rota.runner.hearing import Hearing
from rota.runner.logs import RunLog
from rota.runner.port import Meter
from rota.runner.redaction import Redactor
from rota.runner.runtimes.claude import ClaudeStream

SAID = {
    "type": "assistant",
    "session_id": "s-1",
    "message": {"id": "m-1", "content": [], "usage": {"input_tokens": 70, "output_tokens": 7}},
}


async def test_a_run_that_is_out_of_time_has_used_what_it_said_until_then(tmp_path: Path) -> None:
    log = RunLog(tmp_path / "log.jsonl", 1000, Redactor({}), SystemClock())
    log.open()
    with log:
        limits = Limits()
        hearing = Hearing(ClaudeStream(), log, streams=True, limits=limits, stop=Stop(), heard=None)
        hearing.out(json.dumps(SAID).encode())
        hearing.finish()
    finished = Finished(-15, Stopped(RunStatus.TIMED_OUT, "too long"))
    end = conclude(finished, hearing, None, limits, SystemClock().now())
    assert (end.status, end.usage, end.session_id) == (RunStatus.TIMED_OUT, Usage(70, 7), "s-1")


def test_who_ended_a_run_before_it_told_anything_has_nothing_to_charge() -> None:
    end = RunEnd(RunStatus.CANCELLED, error="shut_down")
    assert Meter().charge(end) == end
