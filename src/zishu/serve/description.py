"""Describe in OpenAPI what FastAPI cannot see by itself.

The body of `/v1/parse` is read by hand, for speed and for its limits. So its schema is added here, from the same models
that validate it, with the limits of this service.
"""

from __future__ import annotations

from copy import deepcopy
from typing import TYPE_CHECKING, Any, Final

from fastapi.openapi.utils import get_openapi
from pydantic.json_schema import models_json_schema

from zishu.serve.problems import CODES
from zishu.serve.schema import (
    REF,
    SENTENCE_SHAPES,
    ConvertAnswer,
    ConvertRequest,
    ErrorAnswer,
    ParseAnswer,
    TextRequest,
    TextsRequest,
    WordsRequest,
    ref,
)

if TYPE_CHECKING:
    from fastapi import FastAPI

    from zishu.serve.limits import Limits

Responses = dict[int | str, dict[str, Any]]

_REQUESTS: Final = (TextRequest, TextsRequest, WordsRequest)
_ONE_OF: Final = {"oneOf": [ref(model.__name__) for model in _REQUESTS]}

_STREAM: Final = {
    "schema": {"type": "string", "description": "One request per line."},
    "example": '{"text": "上海计划发展金融业。"}\n{"text": "我喜欢北京。"}\n',
}
REQUEST_BODY: Final = {
    "required": True,
    "content": {"application/json": {"schema": _ONE_OF}, "application/x-ndjson": _STREAM},
}
CONVERT_BODY: Final = {
    "required": True,
    "content": {"application/json": {"schema": ref(ConvertRequest.__name__)}},
}
CONVERTED: Final[Responses] = {200: {"model": ConvertAnswer, "description": "The sentences."}}
ANSWERS: Final[Responses] = {
    200: {
        "model": ParseAnswer,
        "description": "The documents; for a stream, one line per line.",
        "content": {"application/x-ndjson": {"schema": {"type": "string"}}},
    }
}
FIGURES: Final[Responses] = {
    200: {
        "description": "Prometheus' text format.",
        "content": {"text/plain": {"schema": {"type": "string"}}},
    }
}

# The errors of each address, in addition to those that any address may return.
_PARSE: Final = (
    "invalid_json", "unauthorized", "body_timeout", "too_large", "unsupported_media_type", "invalid_request",
    "invalid_input", "too_long", "too_many", "internal", "busy", "stopping", "timeout",
)  # fmt: skip
_ERRORS: Final = {
    "parse": _PARSE,
    "convert": _PARSE,
    "model": ("unauthorized", "internal"),
    "metrics": ("unauthorized", "internal"),
}

_ABOUT: Final = """Zishu parses Chinese text character by character: words, their dependency tree, and the tree inside \
every word. Offsets are half-open and count code points. Every error has the shape \
`{"error": {"code": ..., "message": ...}}`."""


def errors(address: str) -> Responses:
    """Return the errors of an address, by status."""
    found: Responses = {}
    for code in _ERRORS[address]:
        status, meaning = CODES[code]
        entry = found.setdefault(status, {"model": ErrorAnswer, "description": ""})
        entry["description"] += f"{' ' if entry['description'] else ''}`{code}`: {meaning}"
        if status == 503:
            entry["headers"] = {"Retry-After": {"description": "Seconds.", "schema": {"type": "integer"}}}
    return found


def describe_api(app: FastAPI, limits: Limits, *, secured: bool) -> dict[str, Any]:
    """Return the description of an app, after all its routes are defined."""
    found: dict[str, Any] = get_openapi(
        title=app.title,
        version=app.version,
        summary="A Chinese parser",
        description=_ABOUT,
        routes=app.routes,
    )
    models = (*_REQUESTS, ConvertRequest)
    _, shapes = models_json_schema([(model, "validation") for model in models], ref_template=REF)
    schemas = found["components"]["schemas"]
    schemas |= shapes["$defs"]
    schemas |= deepcopy(SENTENCE_SHAPES)
    for name in ("JsonDocument", "ConvertRequest"):
        sentences = schemas[name]["properties"]["sentences"]
        sentences["items"] = ref(sentences["items"]["title"])
    sentences = schemas["JsonDocument"]["properties"]["sentences"]
    sentences["items"] = {"anyOf": [sentences["items"], ref("Tokens")]}
    _add_limits(schemas, limits)
    if secured:
        found["components"]["securitySchemes"] = {"token": {"type": "http", "scheme": "bearer"}}
        for path, methods in found["paths"].items():
            if not path.startswith("/v1/health"):
                for operation in methods.values():
                    operation["security"] = [{"token": []}]
    else:
        for methods in found["paths"].values():
            for operation in methods.values():
                operation["responses"].pop("401", None)
    return found


def _add_limits(schemas: dict[str, Any], limits: Limits) -> None:
    text, texts, words = (schemas[model.__name__]["properties"] for model in _REQUESTS)
    convert = schemas[ConvertRequest.__name__]["properties"]
    text["text"]["maxLength"] = convert["text"]["maxLength"] = limits.chars
    convert["sentences"]["maxItems"] = limits.chars
    for name in ("pins", "breaks", "arcs", "tags"):
        text[name]["maxItems"] = limits.constraints
    texts["texts"]["maxItems"] = words["words"]["maxItems"] = limits.texts
    for raw in (text, texts):
        raw["lexicon"]["maxItems"] = limits.lexicon
        raw["lexicon"]["items"]["maxLength"] = limits.lexicon_word
        raw["k_best"]["maximum"] = limits.k_best
    # In lists the characters count together, which a schema cannot express.
    for item in (texts["texts"], words["words"]):
        item["description"] += f" At most {limits.chars} characters together."
    for raw in (text, texts):
        raw["lexicon"]["description"] += f" They count towards the {limits.chars} characters of a request."
