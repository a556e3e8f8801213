"""OpenTelemetry traces: optional, off by default, and almost free while they are off.

`ROTA_TRACES=on` sends them; this needs the extra `traces`. The standard OpenTelemetry variables say
where to, above all `OTEL_EXPORTER_OTLP_ENDPOINT`.
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any

from rota import __version__
from rota.config.settings import switch
from rota.model.errors import InvalidInput

Fact = str | int | float | bool
_begin: Callable[..., AbstractContextManager[Any]] | None = None
_NOTHING: AbstractContextManager[None] = nullcontext()


def span(
    name: str, parent: bytes | None = None, **facts: Fact | None
) -> AbstractContextManager[Any]:
    """A span. `parent` is the `traceparent` of the caller."""
    if _begin is None:
        return _NOTHING
    told = {f"rota.{key}": value for key, value in facts.items() if value is not None}
    return _begin(name, parent, told)


def note(current: Any, **facts: Fact | None) -> None:
    """Add attributes to an open span; `current` is None while traces are off."""
    if current is not None:
        told = {f"rota.{key}": value for key, value in facts.items() if value is not None}
        current.set_attributes(told)


def traceparent() -> str | None:
    """The `traceparent` of the current span, for a process that is started in it."""
    if _begin is None:
        return None
    from opentelemetry.propagate import inject  # noqa: PLC0415 - an extra

    carrier: dict[str, str] = {}
    inject(carrier)
    return carrier.get("traceparent")


def wanted(environ: Mapping[str, str]) -> bool:
    return switch(environ, "ROTA_TRACES", default=False)


@contextmanager
def sending(environ: Mapping[str, str]) -> Iterator[None]:
    """Send spans inside the block, if traces are on; the rest is sent at its end."""
    global _begin  # noqa: PLW0603 - one process has one trace of itself
    if not wanted(environ):
        yield
        return
    try:
        provider = _provider(environ)
    except ImportError as error:
        raise InvalidInput(
            f"ROTA_TRACES=on needs packages that are not here ({error.name});"
            " install them: pip install 'rota[traces]'"
        ) from None
    _begin = _beginning(provider)
    try:
        yield
    finally:
        _begin = None
        provider.shutdown()


def _provider(environ: Mapping[str, str]) -> Any:
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import (  # noqa: PLC0415 - an extra
        OTLPSpanExporter,
    )
    from opentelemetry.sdk.resources import Resource  # noqa: PLC0415 - an extra
    from opentelemetry.sdk.trace import TracerProvider  # noqa: PLC0415 - an extra
    from opentelemetry.sdk.trace.export import BatchSpanProcessor  # noqa: PLC0415 - an extra

    facts = {"service.version": __version__}
    if not environ.get("OTEL_SERVICE_NAME"):
        facts["service.name"] = "rota"
    provider = TracerProvider(resource=Resource.create(facts))
    provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
    return provider


def _beginning(provider: Any) -> Callable[..., AbstractContextManager[Any]]:
    from opentelemetry.propagate import extract  # noqa: PLC0415 - an extra

    tracer = provider.get_tracer("rota", __version__)

    def begin(
        name: str, parent: bytes | None, facts: dict[str, Fact]
    ) -> AbstractContextManager[Any]:
        context = extract({"traceparent": parent.decode("latin-1")}) if parent else None
        made: AbstractContextManager[Any] = tracer.start_as_current_span(
            name, context=context, attributes=facts
        )
        return made

    return begin
