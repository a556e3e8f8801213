"""A tracker stub to test against, with faults on demand.

It is a server that behaves like GitHub's REST API and, below `/api/v1`, like Gitea's:

    with tracker_stub(seed=7) as stub:
        stub.control.repo("ada/engine")
        stub.control.issue("ada/engine", "Mend the mill", labels=["ready"])
        token = stub.control.token("ada")
        stub.control.fault(FaultKind.STALE, seconds=0.5)
        ...  # clients, in as many processes as you like, talk to stub.url
        assert stub.control.counts()["by_status"] == {"200": 3}

It keeps everything in memory, counts and logs every request, has its own clock, and draws all
faults from one seed. `TrackerApp` is the same as an ASGI application, for tests that need no second
process. By hand: `python -m rota.testing.tracker`.
"""

from rota.testing.tracker.app import TrackerApp
from rota.testing.tracker.faults import FaultKind
from rota.testing.tracker.handle import Control, ControlRefused
from rota.testing.tracker.hub import TokenKind
from rota.testing.tracker.process import TrackerStub, TrackerStubFailed, tracker_stub

__all__ = [
    "Control",
    "ControlRefused",
    "FaultKind",
    "TokenKind",
    "TrackerApp",
    "TrackerStub",
    "TrackerStubFailed",
    "tracker_stub",
]
