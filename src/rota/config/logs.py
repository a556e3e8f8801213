"""Logging: one line per fact on stderr, for people on a terminal and as JSON elsewhere."""

import logging
import re
import sys
from collections.abc import MutableMapping
from typing import Any

import structlog

# Whatever is logged passes here, so a secret cannot reach the log by accident.
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
    people = sys.stderr.isatty()
    render: Any = structlog.dev.ConsoleRenderer() if people else structlog.processors.JSONRenderer()
    structlog.configure(
        processors=[
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            structlog.processors.format_exc_info,
            _redact,
            render,
        ],
        wrapper_class=structlog.make_filtering_bound_logger(level),
        logger_factory=structlog.PrintLoggerFactory(sys.stderr),
        cache_logger_on_first_use=False,  # whoever logged before would keep the old ways
    )
