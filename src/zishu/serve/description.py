"""Describe the service in OpenAPI: its addresses, requests, answers and errors.

The schemas of requests come from the models that validate them, with the limits of this service; those of sentences and
words from `zishu.formats.schema`. Answers are assembled from strings (`zishu.serve.jobs`), so their schemas are here
only. Tests validate real answers against this description, and call every address in it.
"""

from __future__ import annotations

from copy import deepcopy
from typing import TYPE_CHECKING, Any, Final

from pydantic.json_schema import models_json_schema

from zishu import __version__
from zishu.formats.schema import SENTENCE, TOKENS, WORD, Schema, record
from zishu.serve.exchange import JSON, NDJSON
from zishu.serve.problems import CODES
from zishu.serve.schema import COUNTED, ConvertRequest, TextRequest, TextsRequest, WordsRequest

if TYPE_CHECKING:
    from collections.abc import Iterable

    from zishu.serve.limits import Limits

_REF: Final = "#/components/schemas/{model}"
_REQUESTS: Final = (TextRequest, TextsRequest, WordsRequest)
_ABOUT: Final = """Zishu parses Chinese text character by character: words, their dependency tree, and the tree inside \
every word. Offsets are half-open and count code points. Every error has the shape \
`{"error": {"code": ..., "message": ...}}`."""


def _ref(name: str) -> Schema:
    return {"$ref": _REF.format(model=name)}


def _either(*names: str) -> Schema:
    return {"anyOf": [_ref(name) for name in names]}


def _list(items: Schema, description: str = "") -> Schema:
    return {"type": "array", "items": items, **({"description": description} if description else {})}


def _text(description: str = "") -> Schema:
    return {"type": "string", **({"description": description} if description else {})}


# --- answers ------------------------------------------------------------------------------------------------------

_IN_SENTENCE: Final = {
    **SENTENCE["properties"],
    "words": {**SENTENCE["properties"]["words"], "items": _ref("Word")},
}
_ALTERNATIVES: Final = "With `k_best` above 1: its analyses, the most probable first."
SHAPES: Final[dict[str, Schema]] = {
    "Word": WORD,
    "Sentence": {**SENTENCE, "properties": _IN_SENTENCE},
    "Tokens": TOKENS,
    "RankedSentence": {
        **SENTENCE,
        "description": "The best analysis of a sentence, and the best few if requested.",
        "properties": {**_IN_SENTENCE, "alternatives": _list(_ref("Sentence"), _ALTERNATIVES)},
    },
    "Figure": record(
        "The drawing of the best analysis of a sentence, and of the best few if requested.",
        {
            "svg": _text(),
            "alternatives": _list(record("A drawing of an analysis.", {"svg": _text()}), _ALTERNATIVES),
        },
        optional=("alternatives",),
    ),
    "JsonDocument": record(
        "A text and its sentences.",
        {"text": _text(), "sentences": _list(_either("RankedSentence", "Tokens"))},
    ),
    "ConlluDocument": record("A text and its sentences as CoNLL-U.", {"text": _text(), "conllu": _text()}),
    "SvgDocument": record(
        "A text and its sentences as drawings.", {"text": _text(), "sentences": _list(_ref("Figure"))}
    ),
    "ModelName": record(
        "The model that answered.",
        {
            "name": _text(),
            "version": _text(),
            "styles": _list(_text(), "The styles that a request may name; the first one is the default."),
        },
    ),
    "ParseAnswer": record(
        "One document for the text, for each of the texts, or for the sentences of words.",
        {
            "model": _ref("ModelName"),
            "documents": _list(_either("JsonDocument", "ConlluDocument", "SvgDocument")),
        },
    ),
    "ConvertAnswer": record(
        "The text with its sentences in the requested format.",
        {"documents": _list(_either("ConlluDocument", "SvgDocument"))},
    ),
    "ErrorAnswer": record(
        "The common format of all errors.",
        {
            "error": record(
                "What went wrong.", {"code": _text("For programs."), "message": _text("For people.")}
            )
        },
    ),
    "ModelAnswer": record(
        "Information about the model, and the limits of the service.",
        {
            "name": _text(),
            "version": _text("The version of Zishu that made it."),
            "zishu": _text("The version of Zishu that runs it."),
            "task": _text(),
            "roles": {"type": "integer"},
            "encoder": _text(),
            **{name: _list(_text()) for name in ("styles", "labels", "upos")},
            "scores": {
                "type": "object",
                "additionalProperties": {"type": "object", "additionalProperties": {"type": "number"}},
            },
            "limits": {"type": "object", "additionalProperties": {"type": "number"}},
        },
    ),
    "HealthAnswer": record(
        "Whether the service runs, and whether it accepts requests.",
        {"live": {"type": "boolean"}, "ready": {"type": "boolean"}},
    ),
}


# --- addresses ----------------------------------------------------------------------------------------------------

_PARSING: Final = (
    "invalid_json", "unauthorized", "body_timeout", "too_large", "unsupported_media_type", "invalid_request",
    "invalid_input", "too_long", "too_many", "internal", "busy", "stopping", "timeout",
)  # fmt: skip
_READING: Final = ("unauthorized", "internal")


def _answer(description: str, content: dict[str, Schema]) -> dict[str, Any]:
    return {
        "description": description,
        "content": {kind: {"schema": schema} for kind, schema in content.items()},
    }


def _operation(
    summary: str, description: str, answer: dict[str, Any], errors: Iterable[str] = (), **more: Any
) -> dict[str, Any]:
    """Return an operation with its answer and the errors that it may have besides those of any address."""
    answers = {"200": answer}
    for code in errors:
        status, meaning = CODES[code]
        entry = answers.setdefault(str(status), _answer("", {JSON: _ref("ErrorAnswer")}))
        entry["description"] += f"{' ' if entry['description'] else ''}`{code}`: {meaning}"
        if status == 503:
            entry["headers"] = {"Retry-After": {"description": "Seconds.", "schema": {"type": "integer"}}}
    return {"summary": summary, "description": description, "responses": answers, **more}


_LINES: Final = {
    "schema": _text("One request per line."),
    "example": '{"text": "上海计划发展金融业。"}\n{"text": "我喜欢北京。"}\n',
}
_HEALTH: Final = {JSON: _ref("HealthAnswer")}
_RUNS: Final = _answer("It runs.", _HEALTH)
OPERATIONS: Final[dict[tuple[str, str], dict[str, Any]]] = {
    ("post", "/v1/parse"): _operation(
        "Parse texts or words",
        "Parse a text, several texts, or sentences of given words.\n\n"
        f"With the type `{NDJSON}` the body is a stream: every line is a request, and every line of the answer is "
        "its answer or an error, in the same order.",
        _answer(
            "The documents; for a stream, one line per line.", {JSON: _ref("ParseAnswer"), NDJSON: _text()}
        ),
        _PARSING,
        requestBody={
            "required": True,
            "content": {
                JSON: {"schema": {"oneOf": [_ref(model.__name__) for model in _REQUESTS]}},
                NDJSON: _LINES,
            },
        },
    ),
    ("post", "/v1/convert"): _operation(
        "Write parsed sentences in another format",
        "Return sentences that this service has parsed as CoNLL-U or SVG, for example those chosen by a user.",
        _answer("The sentences.", {JSON: _ref("ConvertAnswer")}),
        _PARSING,
        requestBody={"required": True, "content": {JSON: {"schema": _ref("ConvertRequest")}}},
    ),
    ("get", "/v1/model"): _operation(
        "Describe the model",
        "Return the name of the model, its labels and scores, and the limits of a request.",
        _answer("The model.", {JSON: _ref("ModelAnswer")}),
        _READING,
    ),
    ("get", "/v1/health"): _operation(
        "Tell both",
        "Return whether the service runs and whether it accepts requests; the status is always 200.",
        _RUNS,
    ),
    ("get", "/v1/health/live"): _operation(
        "Tell whether it runs", "Return 200 as long as the process answers: restart it if it does not.", _RUNS
    ),
    ("get", "/v1/health/ready"): _operation(
        "Tell whether it accepts requests",
        "Return 200 if the next request would be accepted, 503 while the queue is full, stuck or being closed.",
        _RUNS,
    ),
    ("get", "/metrics"): _operation(
        "Return figures for Prometheus",
        "Return counters of the service, summed over all worker processes.",
        _answer("Prometheus' text format.", {"text/plain": _text()}),
        _READING,
    ),
}


def describe_api(limits: Limits, *, secured: bool) -> dict[str, Any]:
    """Return the description of a service with these limits; `secured` if it needs a token."""
    models = (*_REQUESTS, ConvertRequest)
    _, shapes = models_json_schema([(model, "validation") for model in models], ref_template=_REF)
    schemas = shapes["$defs"] | deepcopy(SHAPES)
    schemas["ConvertRequest"]["properties"]["sentences"]["items"] = _ref("Sentence")
    _add_limits(schemas, limits)
    paths: dict[str, dict[str, Any]] = {}
    for (method, path), operation in deepcopy(OPERATIONS).items():
        paths[path] = {method: operation}
        if not secured:
            operation["responses"].pop("401", None)
        elif not path.startswith("/v1/health"):
            operation["security"] = [{"token": []}]
    unready = _answer("It runs, but accepts no requests now.", _HEALTH)
    paths["/v1/health/ready"]["get"]["responses"]["503"] = unready
    components: dict[str, Any] = {"schemas": schemas}
    if secured:
        components["securitySchemes"] = {"token": {"type": "http", "scheme": "bearer"}}
    about = {"title": "Zishu", "version": __version__, "summary": "A Chinese parser", "description": _ABOUT}
    return {"openapi": "3.1.0", "info": about, "paths": paths, "components": components}


def _add_limits(schemas: dict[str, Any], limits: Limits) -> None:
    for model in (*_REQUESTS, ConvertRequest):
        keys = schemas[model.__name__]["properties"]
        for name, (_, limit) in COUNTED.items():
            if name in keys:
                keys[name]["maxItems"] = getattr(limits, limit)
        if "text" in keys:
            keys["text"]["maxLength"] = limits.chars
        # In lists the characters count together, which a schema cannot express.
        for name in keys.keys() & {"texts", "words"}:
            keys[name]["description"] += f" At most {limits.chars} characters together."
        if "lexicon" in keys:
            keys["lexicon"]["items"]["maxLength"] = limits.lexicon_word
            keys["lexicon"]["description"] += (
                f" They count towards the {limits.chars} characters of a request."
            )
            keys["k_best"]["maximum"] = limits.k_best
