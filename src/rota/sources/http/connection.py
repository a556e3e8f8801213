"""How a tracker's API is reached; everything has a default, and tests inject their own."""

import asyncio
import random
from collections.abc import Awaitable, Callable, Mapping
from typing import TypedDict

import httpx2

from rota import surroundings
from rota.model.clock import Clock, SystemClock
from rota.sources.http.calls import Patience, Service
from rota.sources.http.client import ApiClient, Follow
from rota.sources.http.limits import (
    LimitWatch,
    RateLimitInfo,
    RateLimitWarningOptions,
    RetryOptions,
)
from rota.sources.http.tokens import Token
from rota.sources.http.wire import Address, Timeouts, Wire


class Connection(TypedDict, total=False):
    retry: RetryOptions
    timeout: Timeouts
    warning: RateLimitWarningOptions
    on_warning: Callable[[RateLimitInfo], None] | None
    transport: httpx2.AsyncBaseTransport | None
    pause: Callable[[float], Awaitable[None]]
    rng: random.Random
    clock: Clock
    environ: Mapping[str, str]


def connect(
    service: Service, address: Address, token_env: str, follow: Follow, connection: Connection
) -> ApiClient:
    patience = _patience(connection)
    environ = connection.get("environ")
    return ApiClient(
        service=service,
        address=address,
        token=Token(
            token_env,
            surroundings.environ if environ is None else environ,
            service,
        ),
        wire=Wire(address, patience.timeouts, connection.get("transport")),
        patience=patience,
        watch=LimitWatch(
            connection.get("warning") or RateLimitWarningOptions(), connection.get("on_warning")
        ),
        follow=follow,
    )


def _patience(connection: Connection) -> Patience:
    return Patience(
        retry=connection.get("retry") or RetryOptions(),
        timeouts=connection.get("timeout") or Timeouts(),
        pause=connection.get("pause") or asyncio.sleep,
        rng=connection.get("rng") or random.SystemRandom(),
        clock=connection.get("clock") or SystemClock(),
    )
