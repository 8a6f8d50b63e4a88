"""The schema of a sentence, compared with what the writer, the command and the service really send."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given

pytest.importorskip("httptools", reason="the extra `serve` is not installed")
pytest.importorskip("jsonschema_rs", reason="comes with schemathesis")

import jsonschema_rs
from typer.testing import CliRunner

import zishu
from parsed_sentences import SHANGHAI, sentences
from serving import serving
from zishu.cli import make_app
from zishu.formats.jsonl import from_json, to_json
from zishu.formats.schema import LINE, SENTENCE, WORD

if TYPE_CHECKING:
    from collections.abc import Iterator

    from serving import Client

TEXT = "我喜欢北京。她昨天 在图书馆借了两本书！\n\n<b>&\"'</b>"
STATIC = Path(zishu.__file__).parent / "serve" / "static"


def check(schema: Any, value: Any) -> None:
    jsonschema_rs.validator_for(schema).validate(value)


@pytest.fixture(scope="module")
def parser() -> zishu.Parser:
    return zishu.load()


@pytest.fixture(scope="module")
def client(parser: zishu.Parser) -> Iterator[Client]:
    with serving(parser) as client:
        yield client


@pytest.fixture(scope="module")
def description(client: Client) -> Any:
    return client.get("/openapi.json").json()


def shape(description: Any, name: str) -> Any:
    """Return one schema of the description so that it can be used by itself."""
    return {"$ref": f"#/components/schemas/{name}", "components": description["components"]}


@given(sentences())
def test_the_writer_sends_what_the_schema_says(sentence: zishu.Sentence) -> None:
    line = to_json(sentence)
    if "\\ud" not in line:  # the validator rejects half of a surrogate pair
        check(SENTENCE, json.loads(line))


def test_the_schema_is_strict() -> None:
    record = json.loads(to_json(SHANGHAI))
    check(SENTENCE, record)
    for change in (
        {"colour": "red"},
        {"words": []},
        {"prob": 1.5},
        {"start": -1},
        {"words": [{**record["words"][0], "sense": "上海"}]},
        {"words": [{key: value for key, value in record["words"][0].items() if key != "root"}]},
    ):
        with pytest.raises(jsonschema_rs.ValidationError):
            check(SENTENCE, {**record, **change})
    with pytest.raises(jsonschema_rs.ValidationError):
        check(WORD, {})


@pytest.mark.parametrize("options", [[], ["--k-best", "2"]])
def test_the_command_writes_what_the_schema_says(options: list[str]) -> None:
    done = CliRunner().invoke(make_app(), ["parse", TEXT, "--format", "json", *options])
    assert done.exit_code == 0, done.output
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    assert len(lines) >= 3
    for line in lines:
        check(LINE, line)


@pytest.mark.parametrize("form", ["json", "conllu", "svg"])
@pytest.mark.parametrize(
    "request_",
    [
        {"text": TEXT},
        {"text": TEXT, "k_best": 3},
        {"text": TEXT, "confidence": False},
        {"texts": [TEXT, "", " "]},
        {"words": [["我", "喜欢", "北京"], ["好"]]},
    ],
)
def test_the_service_sends_what_its_description_says(
    client: Client, description: Any, request_: dict[str, Any], form: str
) -> None:
    answer = client.parse(**request_, format=form)
    assert answer.status == 200
    check(shape(description, "ParseAnswer"), answer.json())


def test_the_description_has_the_schema_itself(description: Any) -> None:
    shapes = description["components"]["schemas"]
    assert shapes["Word"] == WORD
    for name in ("Sentence", "RankedSentence"):
        assert shapes[name]["required"] == SENTENCE["required"]
        for key, value in SENTENCE["properties"].items():
            expected = {**value, "items": {"$ref": "#/components/schemas/Word"}} if key == "words" else value
            assert shapes[name]["properties"][key] == expected
    kinds = shapes["JsonDocument"]["properties"]["sentences"]["items"]["anyOf"]
    assert [kind["$ref"].rsplit("/", 1)[1] for kind in kinds] == ["RankedSentence", "Tokens"]
    assert shapes["ConvertRequest"]["properties"]["sentences"]["items"]["$ref"].endswith("/Sentence")


def test_other_answers_are_described_too(client: Client, description: Any) -> None:
    for path, name in (("/v1/model", "ModelAnswer"), ("/v1/health", "HealthAnswer"), ("/x", "ErrorAnswer")):
        check(shape(description, name), client.get(path).json())


def test_requests_are_refused_where_their_schema_refuses_them(client: Client, description: Any) -> None:
    for name, request in (
        ("WordsRequest", {"words": [[]]}),
        ("WordsRequest", {"words": [[""]]}),
        ("TextRequest", {"text": "a", "lexicon": [""]}),
        ("ConvertRequest", {"text": "a", "sentences": []}),
    ):
        with pytest.raises(jsonschema_rs.ValidationError):
            check(shape(description, name), request)
        path = "/v1/convert" if name == "ConvertRequest" else "/v1/parse"
        answer = client("POST", path, json.dumps(request))
        assert (answer.status, answer.code) == (422, "invalid_request")


def test_the_page_reads_keys_of_the_schema_only() -> None:
    scripts = "".join(path.read_text(encoding="utf-8") for path in STATIC.glob("*.js"))
    read = set(re.findall(r"\.([a-z]+(?:_[a-z]+)+)\b", scripts))
    assert read
    assert read <= WORD["properties"].keys() | SENTENCE["properties"].keys()


# ---- changing the format of sentences


def convert(client: Client, description: Any, **request: Any) -> Any:
    check(shape(description, "ConvertRequest"), request)
    answer = client("POST", "/v1/convert", json.dumps(request))
    assert answer.status == 200, answer.body
    check(shape(description, "ConvertAnswer"), answer.json())
    return answer.json()["documents"]


def test_sentences_are_converted_as_the_library_does(
    client: Client, description: Any, parser: zishu.Parser
) -> None:
    lines = parser(TEXT).to_json().splitlines()
    document = zishu.Document(TEXT, tuple(map(from_json, lines)))
    records = [json.loads(line) for line in lines]
    (found,) = convert(client, description, text=TEXT, sentences=records, format="conllu")
    assert found == {"text": TEXT, "conllu": document.to_conllu()}
    (found,) = convert(client, description, text=TEXT, sentences=records, format="svg")
    assert found["sentences"] == [{"svg": sentence.to_svg()} for sentence in document]
    # A part of a text keeps its numbers and the white space after it.
    (found,) = convert(client, description, text=TEXT, sentences=records[1:2], first=2, format="conllu")
    assert found["conllu"] == document.to_conllu().split("\n\n")[1] + "\n\n"
    (found,) = convert(client, description, text=TEXT, sentences=[], format="conllu")
    assert found["conllu"] == ""


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"start": 1}, "is not at"),
        ({"text": "我喜欢南京。"}, "is not at"),
        ({"after": " "}, "the white space after it is not at 6"),
        ({"words": []}, "at least one word"),
        ({"word": {"start": 1}}, "word 1 is not at"),
        ({"word": {"form": "你"}}, "word 1 is not at"),
        ({"word": {"head": 9}}, "outside"),
        ({"word": {"char_heads": [2, 0], "char_rels": ["att", "root"]}}, "2 char_heads"),
        ({"word": {"deprel": "a\tb"}}, "tab"),
    ],
)
def test_sentences_that_do_not_fit_are_refused(
    client: Client, parser: zishu.Parser, change: dict[str, Any], message: str
) -> None:
    text = "我喜欢北京。"
    record = json.loads(parser(text).to_json())
    record["words"][0] |= change.pop("word", {})
    record |= change
    body = json.dumps({"text": text, "sentences": [record], "format": "conllu"})
    answer = client("POST", "/v1/convert", body)
    assert (answer.status, answer.code) == (422, "invalid_input")
    assert message in answer.json()["error"]["message"]


def test_converting_needs_json_of_the_right_shape(client: Client) -> None:
    assert client("POST", "/v1/convert", "{}", kind="text/plain").code == "unsupported_media_type"
    assert client("POST", "/v1/convert", "{").code == "invalid_json"
    large = json.dumps({"text": "a" * 1_000_001, "sentences": [], "format": "svg"})
    assert client("POST", "/v1/convert", large).code == "too_large"
    long = json.dumps({"text": "a" * 100_001, "sentences": [], "format": "svg"})
    assert client("POST", "/v1/convert", long).code == "too_long"
    answer = client("POST", "/v1/convert", '{"text": "a", "sentences": [3], "format": "svg"}')
    assert answer.code == "invalid_input"
