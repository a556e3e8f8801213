"""The API document, and a page to browse it. The server serves all of it, without scripts."""

import functools
import re
from collections.abc import Callable, Iterable, Sequence
from html import escape
from typing import Any

from rota.api import openapi
from rota.api.answers import Answer, json_answer, text_answer
from rota.api.auth import Gate
from rota.api.call import Call
from rota.api.routing import Endpoint, endpoint
from rota.model.access import READ

HTML = "text/html; charset=utf-8"

ICON = (
    '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 16 16"><circle cx="8" cy="8" r="6"'
    ' fill="none" stroke="#0a5fb8" stroke-width="2.5"/><circle cx="8" cy="8" r="2"'
    ' fill="#18702f"/></svg>'
)

STYLE = """
:root { color-scheme: light dark; --line: #8884; --soft: #8882 }
body { font: 16px/1.5 system-ui, sans-serif; max-width: 60rem; margin: 2rem auto; padding: 0 1rem }
h2 { margin-top: 2.5rem; border-bottom: 1px solid var(--line) }
details { border: 1px solid var(--line); border-radius: 6px; margin: .5rem 0 }
summary { cursor: pointer; padding: .5rem .75rem }
details > div { padding: 0 .75rem .75rem }
code { background: var(--soft); padding: .1em .3em; border-radius: 3px; overflow-wrap: anywhere }
.method { font: 600 13px ui-monospace, monospace; display: inline-block; min-width: 4.5rem }
table { border-collapse: collapse; width: 100% }
td { border-top: 1px solid var(--line); padding: .3rem .5rem; vertical-align: top }
""".strip()

_CODE = re.compile(r"`([^`]+)`")


def doc_endpoints(endpoints: Sequence[Endpoint], version: str, gate: Gate) -> tuple[Endpoint, ...]:
    @functools.cache
    def made(protected: bool) -> dict[str, Any]:
        return openapi.document(endpoints, version, protected=protected)

    @endpoint("GET", "/openapi.json", scope=READ, tag="docs", hidden=True)
    async def openapi_json(call: Call) -> Answer:
        """Describe this API."""
        return json_answer(made(await gate.protected()))

    has_board = any((one.method, one.path) == ("GET", "/") for one in endpoints)

    @endpoint("GET", "/docs", scope=READ, tag="docs", hidden=True)
    async def docs(call: Call) -> Answer:
        """Show the API as a page."""
        return text_answer(page(made(await gate.protected()), board=has_board), HTML)

    @endpoint("GET", "/docs/style.css", scope=READ, tag="docs", hidden=True)
    async def docs_style(call: Call) -> Answer:
        return text_answer(STYLE, "text/css; charset=utf-8")

    @endpoint("GET", "/docs/icon.svg", scope=READ, tag="docs", hidden=True)
    async def docs_icon(call: Call) -> Answer:
        return text_answer(ICON, "image/svg+xml")

    return openapi_json, docs, docs_style, docs_icon


def page(document: dict[str, Any], *, board: bool = False) -> str:
    """The API as HTML. `board`: link back to the board."""
    operations = [
        (method, path, operation)
        for path, methods in document["paths"].items()
        for method, operation in methods.items()
    ]
    sections = "".join(
        f"<h2>{escape(tag['name'])}</h2>"
        + "".join(_operation(*one) for one in operations if one[2]["tags"] == [tag["name"]])
        for tag in document["tags"]
    )
    models = _each(_model, document["components"]["schemas"].items())
    return (
        '<!doctype html><html lang="en"><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        '<title>Rota API</title><link rel="stylesheet" href="/docs/style.css">'
        '<link rel="icon" href="/docs/icon.svg" type="image/svg+xml">'
        + ('<p><a href="/">← Board</a></p>' if board else "")
        + f"<h1>Rota API {escape(document['info']['version'])}</h1>"
        '<p>For programs: <a href="/openapi.json">openapi.json</a> (OpenAPI 3.1), and for the'
        ' frames of the WebSocket <a href="/ws/schema.json">ws/schema.json</a> (JSON Schema).'
        " Errors are <code>application/problem+json</code> with a <code>code</code>.</p>"
        f"{sections}<h2>models</h2>{models}</html>"
    )


def _each(show: Callable[..., str], things: Iterable[Any]) -> str:
    return "".join(show(*thing) for thing in things)


def _operation(method: str, path: str, operation: dict[str, Any]) -> str:
    parameters = [
        (one["name"], one["in"], one["schema"], one.get("description", ""))
        for one in operation["parameters"]
    ]
    body = operation.get("requestBody", {}).get("content", {}).get("application/json")
    answers = ", ".join(
        f"<code>{escape(status)}</code>{_shape(answer)}"
        for status, answer in operation["responses"].items()
    )
    return (
        f'<details id="{escape(operation["operationId"])}"><summary>'
        f'<span class="method">{method.upper()}</span> <code>{escape(path)}</code>'
        f" {_words(operation['summary'])}</summary><div>"
        + _paragraphs(operation["description"])
        + (f"<table>{_each(_parameter, parameters)}</table>" if parameters else "")
        + (f"<p>Body: {_kind(body['schema'])}</p>" if body else "")
        + f"<p>Answers: {answers}</p></div></details>"
    )


def _parameter(name: str, place: str, schema: dict[str, Any], text: str) -> str:
    return (
        f"<tr><td><code>{escape(name)}</code><td>{escape(place)}<td>{_kind(schema)}"
        f"<td>{_words(text)}"
    )


def _shape(answer: dict[str, Any]) -> str:
    schema = answer.get("content", {}).get("application/json", {}).get("schema")
    return f" {_kind(schema)}" if schema else ""


def _model(name: str, schema: dict[str, Any]) -> str:
    required = schema.get("required", [])
    rows = "".join(
        f"<tr><td><code>{escape(field)}</code><td>{'required' if field in required else ''}"
        f"<td>{_kind(one)}"
        for field, one in schema.get("properties", {}).items()
    )
    return (
        f'<details id="model-{escape(name)}"><summary><code>{escape(name)}</code></summary>'
        f"<div>{_paragraphs(schema.get('description', ''))}<table>{rows}</table></div></details>"
    )


def _paragraphs(text: str) -> str:
    return "".join(f"<p>{_words(one)}</p>" for one in text.split("\n\n"))


def _words(text: str) -> str:
    """Escape a docstring; text between backticks becomes code."""
    return _CODE.sub(r"<code>\1</code>", escape(text))


def _kind(schema: dict[str, Any]) -> str:
    """A schema in a few words, with a link where it is a model."""
    if "$ref" in schema:
        name = escape(schema["$ref"].rpartition("/")[2])
        return f'<a href="#model-{name}">{name}</a>'
    if "anyOf" in schema:
        return " or ".join(map(_kind, schema["anyOf"]))
    if "enum" in schema:
        return ", ".join(f"<code>{escape(str(one))}</code>" for one in schema["enum"])
    if schema.get("type") == "array":
        return f"array of {_kind(schema.get('items', {}))}"
    return escape(str(schema.get("format") or schema.get("type") or "any JSON"))
