"""Traces: off unless they are wanted, and then what happened is seen by whoever collects them."""

import sys
import threading
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from rota import tracing
from rota.model.errors import InvalidInput
from tests.acceptance.fleet_site import Site, site

PARENT = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
SAYS = "import os, sys; print(os.environ.get('TRACEPARENT', 'none'))"


@contextmanager
def collector() -> Iterator[tuple[str, list[bytes]]]:
    """What programs with OpenTelemetry send their spans to."""
    heard: list[bytes] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            heard.append(self.rfile.read(int(self.headers["content-length"])))
            self.send_response(200)
            self.send_header("content-length", "0")
            self.end_headers()

        def log_message(self, *words: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}", heard
    finally:
        server.shutdown()
        server.server_close()


def spans(heard: list[bytes]) -> dict[str, list[Any]]:
    found: dict[str, list[Any]] = {}
    for body in heard:
        for resource in ExportTraceServiceRequest.FromString(body).resource_spans:
            names = {one.key: one.value.string_value for one in resource.resource.attributes}
            assert names["service.name"] == "rota"
            for scope in resource.scope_spans:
                for one in scope.spans:
                    found.setdefault(one.name, []).append(one)
    return found


def facts(span: Any) -> dict[str, Any]:
    return {one.key: one.value.string_value or one.value.int_value for one in span.attributes}


def work_through(place: Site) -> str:
    """One item, from its submission to the end of its run."""
    runtime = {"type": "command", "command": [sys.executable, "-S", "-c", SAYS]}
    place.configure(place.agent("smith", runtime=runtime))
    node = place.up()
    request = urllib.request.Request(
        f"{node.url}/work",
        b'{"type": "chore", "description": "Mend the gate"}',
        {"content-type": "application/json", "traceparent": PARENT},
    )
    with urllib.request.urlopen(request) as answer:
        assert answer.status == 201
    (item,) = place.json("list")
    place.await_status(item["id"], "completed")
    (run,) = place.runs(item["id"])
    assert node.stop() == 0
    return str(run["summary"])


def test_requests_and_runs_are_traced_when_that_is_wanted(tmp_path: Path) -> None:
    with collector() as (url, heard):
        wanted = {"ROTA_TRACES": "on", "OTEL_EXPORTER_OTLP_ENDPOINT": url}
        with site(tmp_path, **wanted) as place:
            said = work_through(place)
    found = spans(heard)
    (submitted,) = found["POST /work"]
    assert (submitted.trace_id.hex(), submitted.parent_span_id.hex()) == tuple(
        PARENT.split("-")[1:3]
    )
    assert facts(submitted) == {"rota.status": 201}
    (run,) = found["run"]
    assert facts(run)["rota.agent"] == "smith"
    assert facts(run)["rota.status"] == "succeeded"
    # The agent can go on with the trace.
    assert said.startswith(f"00-{run.trace_id.hex()}-{run.span_id.hex()}-")


def test_nothing_is_traced_unless_it_is_wanted(tmp_path: Path) -> None:
    with collector() as (url, heard), site(tmp_path, OTEL_EXPORTER_OTLP_ENDPOINT=url) as place:
        assert work_through(place) == "none"
    assert heard == []


def test_a_switch_that_says_nothing_known_is_refused(tmp_path: Path) -> None:
    with site(tmp_path, ROTA_TRACES="perhaps") as place:
        told = place.run("up", "--port", "0")
        assert (told.returncode, "write on or off" in told.stderr) == (2, True)
        assert not list(tmp_path.iterdir())


def test_without_its_packages_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "opentelemetry.sdk.trace", None)
    with (
        pytest.raises(InvalidInput, match=r"pip install 'rota\[traces\]'"),
        tracing.sending({"ROTA_TRACES": "on"}),
    ):
        pass
