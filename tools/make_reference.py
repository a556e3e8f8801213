"""Writes the parts of docs/reference that follow from the code: the HTTP calls and the commands.

    python -m tools.make_reference           write what has changed
    python -m tools.make_reference --check   only say what would; exit 1 if anything

A page marks such a part by `<!-- made: NAME -->` and `<!-- /made -->`; the rest of the page is
written by hand.
"""

import json
import re
import sys
import tempfile
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import click

from rota.api import Api
from rota.app import make_asgi, open_store
from rota.cli.root import SECTIONS, rota
from rota.client.inprocess import InProcessTransport
from rota.client.transport import Request
from rota.config.settings import Settings
from rota.queue.ledger import Ledger
from rota.signals import Signals

REFERENCE = Path(__file__).parents[1] / "docs" / "reference"
WIDTH = 96

_PART = re.compile(r"(<!-- made: (\w+) -->\n).*?(<!-- /made -->)", re.S)
_SHARED = re.compile(r"\n\nAll commands have:\n.*?(?=\n\n|\Z)", re.S)
_OF_ALL = "Wrong types and unknown fields are refused."  # docstring of every body's base class
_ALWAYS = frozenset({"401", "403", "405", "408", "421", "429", "431", "500", "503"})

Schema = dict[str, Any]


# the HTTP calls


def api_document() -> dict[str, Any]:
    """The answer of a server to GET /openapi.json."""

    @asynccontextmanager
    async def app() -> AsyncIterator[Api]:
        async with open_store(str(Path(directory) / "rota.db")) as store:
            yield make_asgi(Ledger.on(store), Signals(store), Settings())

    with tempfile.TemporaryDirectory() as directory:
        transport = InProcessTransport(app)
        try:
            answer = transport.send(Request("GET", "/openapi.json", {}))
        finally:
            transport.close()
    document: dict[str, Any] = json.loads(answer.body)
    return document


def calls() -> str:
    document = api_document()
    sections = []
    for tag in document["tags"]:
        found = [one for one in _operations(document) if one[2]["tags"] == [tag["name"]]]
        rows = "".join(_row(*one) for one in found)
        sections.append(
            f"## {tag['name'].capitalize()}\n\n| call | |\n|---|---|\n{rows}\n"
            + "\n".join(_operation(*one) for one in found)
        )
    models = document["components"]["schemas"]
    sections.append("## Models\n\n" + "\n".join(_model(*one) for one in sorted(models.items())))
    return "\n".join(sections)


def _operations(document: dict[str, Any]) -> Iterator[tuple[str, str, Schema]]:
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            yield method.upper(), path, operation


def _title(method: str, path: str) -> str:
    return f"{method} {path}"


def _row(method: str, path: str, operation: Schema) -> str:
    title = _title(method, path)
    return f"| [`{title}`](#{_anchor(title)}) | {operation['summary']} |\n"


def _anchor(title: str) -> str:
    """The anchor of a heading in the page."""
    return re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-")


def _operation(method: str, path: str, operation: Schema) -> str:
    lines = [f"### `{_title(method, path)}`", "", f"{operation['summary']}."]
    if operation["description"]:
        lines += ["", operation["description"]]
    parameters = [one for one in operation["parameters"] if one["in"] != "path"]
    if parameters:
        lines += ["", "| parameter | in | is |", "|---|---|---|"]
        lines += [
            f"| `{one['name']}` | {one['in']} | {_kind(one['schema'])}{_text(one)} |"
            for one in parameters
        ]
    body = operation.get("requestBody", {}).get("content", {}).get("application/json")
    if body:
        optional = "" if operation["requestBody"]["required"] else " (may be left out)"
        lines += ["", f"Body{optional}: {_kind(body['schema'])}."]
    lines += ["", f"Answers: {_answers(operation['responses'])}.", ""]
    return "\n".join(lines)


def _text(one: Schema) -> str:
    return f". {one['description']}" if "description" in one else ""


def _answers(responses: Schema) -> str:
    found = []
    for status, answer in responses.items():
        if status in _ALWAYS:
            continue
        content = answer.get("content", {})
        kinds = [
            _kind(one["schema"]) if media == "application/json" else f"`{media}`"
            for media, one in content.items()
        ]
        headers = [f"`{name}`" for name in answer.get("headers", {})]
        said = " or ".join(kinds) + (f" with {', '.join(headers)}" if headers else "")
        found.append(f"{status} {said}".strip())
    return "; ".join(found)


def _model(name: str, schema: Schema) -> str:
    required = schema.get("required", [])
    lines = [f"### {name}", ""]
    if schema.get("description", _OF_ALL) != _OF_ALL:
        lines += [schema["description"], ""]
    fields = schema.get("properties", {})
    if not fields:
        return "\n".join([*lines, "No fields." if "properties" in schema else _kind(schema), ""])
    lines += ["| field | | is |", "|---|---|---|"]
    lines += [
        f"| `{field}` | {'always' if field in required else ''} | {_kind(one)}{_default(one)} |"
        for field, one in fields.items()
    ]
    return "\n".join([*lines, ""])


def _default(schema: Schema) -> str:
    default = schema.get("default")
    return "" if default in (None, [], False) else f"; default {json.dumps(default)}"


def _kind(schema: Schema) -> str:
    """A schema in a few words, with a link where it is a model."""
    if "$ref" in schema:
        name = schema["$ref"].rpartition("/")[2]
        return f"[{name}](#{_anchor(name)})"
    if "anyOf" in schema:
        return " or ".join(map(_kind, schema["anyOf"]))
    if "enum" in schema:
        return ", ".join(f"`{one}`" for one in schema["enum"])
    if schema.get("type") == "array":
        most = f", {schema['maxItems']:,} at most" if "maxItems" in schema else ""
        return f"list of {_kind(schema.get('items', {}))}{most}"
    return str(schema.get("format") or schema.get("type") or "any JSON") + _limits(schema)


def _limits(schema: Schema) -> str:
    if "minimum" in schema:
        least, most = schema["minimum"], schema["maximum"]
        return f" ({least} or more)" if most >= 2**53 else f" ({least:,} to {most:,})"
    if schema.get("type") == "string" and "maxLength" in schema:
        return f" (at most {schema['maxLength']:,} characters)"
    return ""


# the commands


def commands() -> str:
    sections = []
    for title, members in SECTIONS.items():
        sections.append(f"## {title}\n")
        sections += [_command(name) for name in members]
    return "\n".join(sections)


def _command(name: str) -> str:
    context = _context(rota, "rota")
    command = rota.get_command(context, name)
    if command is None:
        raise LookupError(name)
    text = f"### rota {name}\n\n{_help(command, context, name)}"
    if isinstance(command, click.Group):
        inner = _context(command, name, context)
        for member, one in command.commands.items():
            text += f"\n#### rota {name} {member}\n\n{_help(one, inner, member)}"
    return text


def _context(
    command: click.Command, name: str, parent: click.Context | None = None
) -> click.Context:
    return click.Context(
        command, info_name=name, parent=parent, terminal_width=WIDTH, max_content_width=WIDTH
    )


def _help(command: click.Command, parent: click.Context, name: str) -> str:
    context = _context(command, name, parent)
    context.help_option_names = ["-h", "--help"]
    with context:
        text = _SHARED.sub("", command.get_help(context))
    return f"```text\n{_stripped(text)}\n```\n"


def _stripped(text: str) -> str:
    return "\n".join(line.rstrip() for line in text.splitlines())


# the pages

PARTS: dict[str, Callable[[], str]] = {"calls": calls, "commands": commands}


def made(page: Path) -> str:
    """The page as it should be."""

    def filled(found: re.Match[str]) -> str:
        return f"{found[1]}\n{PARTS[found[2]]().strip()}\n\n{found[3]}"

    return _PART.sub(filled, page.read_text())


def pages() -> list[Path]:
    return [page for page in sorted(REFERENCE.glob("*.md")) if _PART.search(page.read_text())]


def out_of_step() -> list[Path]:
    return [page for page in pages() if page.read_text() != made(page)]


def main(arguments: list[str]) -> int:
    stale = out_of_step()
    for page in stale:
        print(f"docs/reference/{page.name} is out of step with the code")
        if "--check" not in arguments:
            page.write_text(made(page))
    return int(bool(stale) and "--check" in arguments)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
