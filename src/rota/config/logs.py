"""Logging: one line per fact on stderr, for people on a terminal and as JSON elsewhere."""

import logging
import os
import re
import sys
from collections.abc import MutableMapping
from typing import Any

import structlog

# Every log entry passes through this filter, so that a secret cannot get into the log by accident.
_SECRET = re.compile(r"rota_[A-Za-z0-9_-]{20,}|(?<=://)[^/@\s:]*:[^/@\s]+(?=@)")
_HIDDEN_KEYS = frozenset({"authorization", "token", "secret", "password", "claim_token"})


def _redact(
    _logger: Any, _method: str, entry: MutableMapping[str, Any]
) -> MutableMapping[str, Any]:
    for key, value in entry.items():
        if key.lower() in _HIDDEN_KEYS:
            entry[key] = "[hidden]"
        elif isinstance(value, str):
            entry[key] = _SECRET.sub("[hidden]", value)
    return entry


def configure_logging(level: int = logging.INFO) -> None:
    render: Any = structlog.processors.JSONRenderer()
    if sys.stderr.isatty():
        render = structlog.dev.ConsoleRenderer(colors=not os.environ.get("NO_COLOR"))
    noting: list[Any] = [
        structlog.processors.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
        structlog.processors.format_exc_info,
    ]
    structlog.configure(
        processors=[*noting, _redact, render],
        wrapper_class=structlog.make_filtering_bound_logger(level),
        logger_factory=structlog.PrintLoggerFactory(sys.stderr),
        cache_logger_on_first_use=False,  # else earlier loggers keep the old configuration
    )
    _take_in(level, noting, render)


def _take_in(level: int, noting: list[Any], render: Any) -> None:
    """Entries of the standard library's logging, from libraries and our own client, look the same
    and are redacted the same way. From other libraries, only warnings are shown."""
    finish = [structlog.stdlib.ProcessorFormatter.remove_processors_meta, _redact, render]
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(foreign_pre_chain=noting, processors=finish)
    )
    root = logging.getLogger()
    for old in root.handlers[:]:
        if isinstance(old.formatter, structlog.stdlib.ProcessorFormatter):
            root.removeHandler(old)
    root.addHandler(handler)
    root.setLevel(max(level, logging.WARNING))
    logging.getLogger("rota").setLevel(level)
