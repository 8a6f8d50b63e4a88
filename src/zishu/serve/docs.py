"""Write the documentation of the service as one HTML page, from its OpenAPI description.

The page has no script and loads only its own style sheet, so it works offline. It lists every address with its
parameters, bodies and answers, and every schema with its keys.
"""

from __future__ import annotations

import json
import re
from html import escape
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

_EXAMPLE: Final = """\
curl -H 'Content-Type: application/json' -d '{"text": "上海计划发展金融业。"}' http://127.0.0.1:8000/v1/parse"""

_CODE = re.compile(r"`([^`]*)`")


def page(description: Mapping[str, Any]) -> str:
    """Return the whole page."""
    return "\n".join(_page(description)) + "\n"


def _page(description: Mapping[str, Any]) -> Iterator[str]:
    info = description["info"]
    title = f"{info['title']} {info['version']}"
    yield "<!DOCTYPE html>"
    yield f'<html lang="en"><head><meta charset="utf-8"><title>{escape(title)}</title>'
    yield '<meta name="viewport" content="width=device-width, initial-scale=1">'
    yield '<link rel="stylesheet" href="/docs/style.css"></head><body>'
    yield f"<h1>{escape(title)}</h1>{_paragraphs(info['description'])}<pre>{escape(_EXAMPLE)}</pre>"
    yield '<p>For programs: <a href="/openapi.json">openapi.json</a>. <a href="/">Back to the page.</a></p>'
    for path, methods in description["paths"].items():
        for method, operation in methods.items():
            yield from _operation(method.upper(), path, operation)
    yield "<h2>Shapes</h2>"
    for name, schema in sorted(description["components"]["schemas"].items()):
        yield from _shape(name, schema)
    yield "</body></html>"


def _operation(method: str, path: str, operation: Mapping[str, Any]) -> Iterator[str]:
    yield f'<h2><span class="method">{escape(method)}</span><code>{escape(path)}</code></h2>'
    yield _paragraphs(operation.get("description", operation.get("summary", "")))
    if "security" in operation:
        yield "<p>Needs the header <code>Authorization: Bearer TOKEN</code>.</p>"
    if "requestBody" in operation:
        content = operation["requestBody"]["content"]
        yield "<h3>Body</h3>"
        yield _table(
            (f"<code>{escape(kind)}</code>", _type(body.get("schema", {}))) for kind, body in content.items()
        )
    yield "<h3>Answers</h3>"
    yield _table(
        (
            f"<code>{escape(status)}</code>",
            " or ".join(_type(body.get("schema", {})) for body in answer.get("content", {}).values()),
            _inline(answer["description"]),
        )
        for status, answer in operation["responses"].items()
    )


def _shape(name: str, schema: Mapping[str, Any]) -> Iterator[str]:
    yield f'<h3 id="{escape(name)}">{escape(name)}</h3>{_paragraphs(schema.get("description", ""))}'
    required = schema.get("required", ())
    yield _table(
        (
            f"<code>{escape(key)}</code>{'' if key in required else ' (optional)'}",
            _type(value),
            _inline(" ".join(_remarks(value))),
        )
        for key, value in schema.get("properties", {}).items()
    )


def _remarks(schema: Mapping[str, Any]) -> Iterator[str]:
    if "description" in schema:
        yield schema["description"]
    for key, words in (("maxLength", "characters"), ("maxItems", "items"), ("maximum", "")):
        if key in schema:
            yield f"At most {schema[key]} {words}".rstrip() + "."
    if "default" in schema:
        yield f"Default: `{json.dumps(schema['default'], ensure_ascii=False)}`."
    for example in schema.get("examples", ()):
        yield f"Example: `{json.dumps(example, ensure_ascii=False)}`."


def _type(schema: Mapping[str, Any]) -> str:
    """Describe in a few words what a schema accepts, as HTML."""
    if "$ref" in schema:
        name = escape(schema["$ref"].rpartition("/")[2])
        return f'<a href="#{name}">{name}</a>'
    for key in ("anyOf", "oneOf"):
        if key in schema:
            return " or ".join(map(_type, schema[key]))
    if "enum" in schema:
        return " or ".join(f"<code>{escape(json.dumps(value))}</code>" for value in schema["enum"])
    kind = schema.get("type", "anything")
    if isinstance(kind, list):
        return " or ".join(_type({**schema, "type": one}) for one in kind)
    if kind != "array":
        return escape(kind)
    if "prefixItems" in schema:
        return f"list of {len(schema['prefixItems'])}: {', '.join(map(_type, schema['prefixItems']))}"
    return f"list of {_type(schema.get('items', {}))}"


def _table(rows: Iterable[Iterable[str]]) -> str:
    lines = "".join(f"<tr>{''.join(f'<td>{cell}</td>' for cell in row)}</tr>" for row in rows)
    return f"<table>{lines}</table>" if lines else ""


def _paragraphs(text: str) -> str:
    return "".join(f"<p>{_inline(part)}</p>" for part in text.split("\n\n") if part.strip())


def _inline(text: str) -> str:
    return _CODE.sub(r"<code>\1</code>", escape(text))
