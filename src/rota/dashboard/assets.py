"""Styles, scripts and icons, from the package itself."""

import hashlib
from dataclasses import dataclass
from functools import cache
from importlib import resources

from rota.api.answers import Answer
from rota.api.call import Call
from rota.api.routing import endpoint
from rota.model.errors import NotFound

_TYPES = {"css": b"text/css", "js": b"text/javascript", "svg": b"image/svg+xml"}
_MOST_SHOWN = 99


@dataclass(frozen=True, slots=True)
class Asset:
    content: bytes
    media_type: bytes


@cache
def assets() -> dict[str, Asset]:
    """By name; no other file is served."""
    folder = resources.files("rota.dashboard") / "static"
    return {
        file.name: Asset(file.read_bytes(), _TYPES[file.name.rpartition(".")[2]])
        for file in folder.iterdir()
        if file.name.rpartition(".")[2] in _TYPES
    }


@cache
def edition() -> str:
    """A hash of all files, so that a browser may keep them for ever. It is part of the path, so
    that modules which import each other by relative names share it."""
    digest = hashlib.sha256()
    for name, asset in sorted(assets().items()):
        digest.update(name.encode() + b"\0" + asset.content)
    return digest.hexdigest()[:12]


def address(name: str) -> str:
    if name not in assets():
        raise KeyError(name)
    return f"/static/{edition()}/{name}"


@endpoint("GET", "/static/{edition}/{name}", scope=None, tag="dashboard", hidden=True)
async def static(call: Call) -> Answer:
    """Style, script and icons."""
    asked, name = call.parameters
    found = assets().get(name)
    if found is None:
        raise NotFound(f"there is no file {name[:100]!r}")
    kept = b"public, max-age=31536000, immutable" if asked == edition() else b"no-store"
    return Answer(200, found.content, found.media_type, [(b"cache-control", kept)])


@endpoint("GET", "/icon/{count}", scope=None, tag="dashboard", hidden=True)
async def icon(call: Call) -> Answer:
    """The icon, with the number of items that need a person."""
    text = call.id
    if not (text.isdigit() and len(text) < 10):
        raise NotFound(f"{text!r} is no number")
    plain = assets()["rota.svg"]
    count = int(text)
    if count == 0:
        return Answer(200, plain.content, plain.media_type)
    shown = str(count) if count <= _MOST_SHOWN else f"{_MOST_SHOWN}+"
    badge = (
        '<circle cx="22" cy="10" r="10" fill="#b3261e"/><text x="22" y="14.5" fill="#fff"'
        f' font-family="sans-serif" font-size="{13 if count <= 9 else 10}" font-weight="700"'
        f' text-anchor="middle">{shown}</text></svg>'
    )
    return Answer(200, plain.content.replace(b"</svg>", badge.encode()), plain.media_type)


ENDPOINTS = (static, icon)
