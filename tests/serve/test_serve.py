"""The service over a real connection: formats, modes, limits, errors, safety."""

from __future__ import annotations

import asyncio
import json
import logging
import re
import subprocess
import sys
import time
from typing import TYPE_CHECKING, Any

import pytest

pytest.importorskip("httptools", reason="the extra `serve` is not installed")
pytest.importorskip("jsonschema_rs", reason="comes with schemathesis")

import jsonschema_rs
from pydantic import ValidationError

import zishu
from serving import NDJSON, PATIENCE, Client, eventually, held_parser, serving, serving_app
from zishu.formats.jsonl import from_json
from zishu.formats.schema import TOKENS
from zishu.granularity import coarsen
from zishu.serve import Limits, create_app
from zishu.serve.description import SHAPES
from zishu.serve.problems import Problem
from zishu.serve.schema import _ADAPTER, read_request
from zishu.serve.service import Service

if TYPE_CHECKING:
    import socket
    from collections.abc import Iterator

TEXT = "我喜欢北京。上海计划发展金融业。"
TEXTS = [TEXT, "", "她昨天 在图书馆借了两本书！\n\n<b>&\"'</b>"]
WORDS = [["我", "喜欢", "北京"], ["上海", "计划", "发展", "金融业", "。"]]
SMALL = Limits(body=2_000, chars=100, texts=3, lexicon=2, constraints=2, k_best=3)


@pytest.fixture(scope="module")
def parser() -> zishu.Parser:
    return zishu.load()


@pytest.fixture(scope="module")
def client(parser: zishu.Parser) -> Iterator[Client]:
    with serving(parser) as client:
        yield client


@pytest.fixture(scope="module")
def small(parser: zishu.Parser) -> Iterator[Client]:
    with serving(parser, SMALL) as client:
        yield client


def check_shape(name: str, value: Any) -> None:
    """Compare what was sent with its shape in the description."""
    schema = {"$ref": f"#/components/schemas/{name}", "components": {"schemas": SHAPES}}
    jsonschema_rs.validator_for(schema).validate(value)


def documents(client: Client, **request: Any) -> list[Any]:
    answer = client.parse(**request)
    assert answer.status == 200, answer.body
    assert answer.headers["content-type"] == "application/json"
    check_shape("ParseAnswer", answer.json())
    return list(answer.json()["documents"])


# ---- formats and modes


@pytest.mark.parametrize("kind", ["text", "texts", "words"])
@pytest.mark.parametrize("form", ["json", "conllu", "svg"])
def test_answers_are_those_of_the_parser(client: Client, parser: zishu.Parser, kind: str, form: str) -> None:
    given = {"text": TEXT, "texts": TEXTS, "words": WORDS}[kind]
    expected = {
        "text": lambda: [parser(TEXT)],
        "texts": lambda: list(map(parser, TEXTS)),
        "words": lambda: [parser.parse_words(WORDS)],
    }[kind]()
    found = documents(client, **{kind: given}, format=form)
    assert [document["text"] for document in found] == [document.text for document in expected]
    for shown, document in zip(found, expected, strict=True):
        match form:
            case "json":
                assert shown["sentences"] == [json.loads(line) for line in document.to_json().splitlines()]
            case "conllu":
                assert shown["conllu"] == document.to_conllu()
            case _:
                assert shown["sentences"] == [{"svg": sentence.to_svg()} for sentence in document]


def test_without_confidence_there_are_no_probabilities(client: Client) -> None:
    (document,) = documents(client, text=TEXT, confidence=False)
    assert {word["prob"] for sentence in document["sentences"] for word in sentence["words"]} == {None}


def test_pins_breaks_and_a_lexicon_are_kept(client: Client) -> None:
    (document,) = documents(client, text="我喜欢北京。", pins=[[0, 3]], breaks=[4])
    assert [word["form"] for word in document["sentences"][0]["words"]][:2] == ["我喜欢", "北"]
    found = documents(client, texts=["我喜欢北京。", "北京。"], lexicon=["欢北"])
    assert "欢北" in [word["form"] for word in found[0]["sentences"][0]["words"]]
    assert "欢北" not in [word["form"] for word in found[1]["sentences"][0]["words"]]


def test_arcs_are_kept(client: Client) -> None:
    request = {"text": "我喜欢北京。", "pins": [[0, 1], [1, 3], [3, 5]]}
    for k_best in (1, 3):
        (document,) = documents(
            client, **request, arcs=[[3, None, None], [1, 3, None], [0, 3, "iobj"]], k_best=k_best
        )
        words = document["sentences"][0]["words"]
        assert [(word["head"], word["deprel"]) for word in (words[0], words[2])] == [(3, "iobj"), (0, "root")]
        assert words[1]["head"] == 3
    answer = client.parse(**request, arcs=[[0, 3, None], [3, 0, None]])
    assert (answer.status, answer.code) == (422, "invalid_input")
    assert "the arcs 0:3, 3:0 form a cycle" in answer.body.decode()
    answer = client.parse(**request, arcs=[[0, 3, "nowhere"]])
    assert (answer.status, answer.code) == (422, "invalid_input")
    assert "unknown relation 'nowhere'" in answer.body.decode()


def test_tags_are_kept(client: Client) -> None:
    request = {"text": "我喜欢北京。", "pins": [[3, 5]]}
    free = documents(client, **request)[0]["sentences"][0]["words"]
    fixed = documents(client, **request, tags=[[3, "VERB"]])[0]["sentences"][0]["words"]
    assert [word["upos"] for word in free] == ["PRON", "VERB", "PROPN", "PUNCT"]
    assert [word["upos"] for word in fixed] == ["PRON", "VERB", "VERB", "PUNCT"]
    assert fixed[2]["upos_prob"] == 1
    assert [word["head"] for word in fixed] == [word["head"] for word in free]
    (document,) = documents(client, **request, tags=[[3, "VERB"]], only="tags")
    assert [word["upos"] for word in document["sentences"][0]["words"]] == [word["upos"] for word in fixed]
    for tags, message in (
        ([[3, "NOWHERE"]], "unknown part of speech 'NOWHERE'"),
        ([[0, "NOUN"]], "needs a pinned word that begins at 0"),
    ):
        answer = client.parse(**request, tags=tags)
        assert (answer.status, answer.code) == (422, "invalid_input")
        assert message in answer.body.decode()


def test_words_and_tags_without_trees(client: Client, parser: zishu.Parser) -> None:
    jsonschema = pytest.importorskip("jsonschema_rs")
    for only, keys in (("words", set()), ("tags", {"upos", "xpos"})):
        found = documents(client, texts=TEXTS, only=only)
        for text, document in zip(TEXTS, found, strict=True):
            assert document["text"] == text
            words = [word for sentence in document["sentences"] for word in sentence["words"]]
            assert [word["form"] for word in words] == parser.segment(text)
            assert all(set(word) == {"id", "form", "start", "end"} | keys for word in words)
            if only == "tags":
                assert [(word["form"], word["upos"]) for word in words] == parser.tag(text)
            for sentence in document["sentences"]:
                jsonschema.validate(TOKENS, sentence)
    (document,) = documents(client, words=WORDS, only="tags", format="conllu")
    rows = [row.split("\t") for row in document["conllu"].splitlines() if row[:1].isdigit()]
    assert [row[1] for row in rows] == [word for words in WORDS for word in words]
    assert {(row[6], row[7]) for row in rows} == {("_", "_")}
    assert "_" not in {row[3] for row in rows}


@pytest.mark.parametrize(
    ("request_", "message"),
    [
        ({"text": "我来", "only": "words", "format": "svg"}, "the format svg cannot be combined with only"),
        (
            {"text": "我来", "only": "words", "k_best": 2},
            "finds no trees: it cannot be combined",
        ),
        (
            {"text": "我来", "only": "tags", "granularity": "coarse"},
            "finds no trees: it cannot be combined",
        ),
        (
            {"text": "我来", "only": "tags", "pins": [[0, 1]], "arcs": [[0, None, None]]},
            "arcs cannot be combined with only",
        ),
        (
            {"text": "我来", "only": "words", "pins": [[0, 1]], "tags": [[0, "NOUN"]]},
            "tags cannot be fixed if only words",
        ),
        ({"words": WORDS, "only": "words"}, "but the words are given"),
        ({"text": "我来", "only": "trees"}, "only: "),
    ],
)
def test_only_does_not_go_with_trees(client: Client, request_: dict[str, Any], message: str) -> None:
    answer = client.parse(**request_)
    assert (answer.status, answer.code) == (422, "invalid_request")
    assert message in answer.body.decode()


def test_contradictions_are_found_where_python_skips_assertions() -> None:
    code = (
        "from zishu.serve import Limits; from zishu.serve.schema import read_request; "
        """read_request(b'{"text": "a", "only": "words", "k_best": 2}', Limits())"""
    )
    done = subprocess.run([sys.executable, "-O", "-c", code], capture_output=True, text=True, check=False)
    assert "Problem: only='words' finds no trees" in done.stderr


def test_the_best_few_analyses(client: Client, parser: zishu.Parser) -> None:
    (document,) = documents(client, text=TEXT, k_best=3)
    expected = parser.k_best(TEXT, 3)
    for sentence, ranked in zip(document["sentences"], expected, strict=True):
        alternatives = sentence.pop("alternatives")
        assert sentence == alternatives[0]
        assert alternatives == [json.loads(one.to_json()) for one in ranked]
    (document,) = documents(client, text=TEXT, k_best=2, format="svg")
    assert [len(sentence["alternatives"]) for sentence in document["sentences"]] == [2, 2]
    (document,) = documents(client, text=TEXT, k_best=2, format="conllu")
    assert re.findall("# sent_id = (.*)", document["conllu"]) == ["1-1", "1-2", "2-1", "2-2"]


@pytest.mark.parametrize("form", ["json", "conllu", "svg"])
@pytest.mark.parametrize("text", ["", " \n\t", "\u2028我\x85爱\u2029", "𠀀😀\u200d", "</script>]]>&amp;"])
def test_odd_texts_pass(client: Client, text: str, form: str) -> None:
    (document,) = documents(client, text=text, format=form)
    assert document["text"] == text


def test_nothing_to_parse_is_answered_with_nothing(client: Client) -> None:
    assert documents(client, texts=[]) == []
    assert documents(client, words=[]) == [{"text": "", "sentences": []}]


# ---- errors, all in the same format


@pytest.mark.parametrize(
    ("body", "status", "code"),
    [
        ("", 400, "invalid_json"),
        ("{", 400, "invalid_json"),
        ('{"text": "\\ud800"}', 400, "invalid_json"),
        ("[" * 100_000, 400, "invalid_json"),
        (b"\xff", 400, "invalid_json"),
        ("[]", 422, "invalid_request"),
        ("{}", 422, "invalid_request"),
        ('{"text": "a", "texts": []}', 422, "invalid_request"),
        ('{"text": 3}', 422, "invalid_request"),
        ('{"text": null}', 422, "invalid_request"),
        ('{"text": "a", "colour": 1}', 422, "invalid_request"),
        ('{"text": "a", "format": "../../etc/passwd"}', 422, "invalid_request"),
        ('{"text": "a", "k_best": 0}', 422, "invalid_request"),
        ('{"text": "a", "pins": [[0]]}', 422, "invalid_request"),
        ('{"text": "a", "pins": [[-1, 1]]}', 422, "invalid_request"),
        ('{"texts": ["a"], "pins": [[0, 1]]}', 422, "invalid_request"),
        ('{"words": [["a"]], "k_best": 2}', 422, "invalid_request"),
        ('{"text": "我们", "pins": [[0, 9]]}', 422, "invalid_input"),
        ('{"text": "我们", "arcs": [[0, 1]]}', 422, "invalid_request"),
        ('{"text": "我们", "arcs": [[0, 1, null]]}', 422, "invalid_input"),
        ('{"text": "我们", "breaks": [1], "pins": [[0, 2]]}', 422, "invalid_input"),
        ('{"text": "我们", "breaks": [1000000000000000000000000000000]}', 422, "invalid_input"),
        ('{"text": "我们", "lexicon": ["a b"]}', 422, "invalid_input"),
        ('{"words": [[]]}', 422, "invalid_request"),
        ('{"words": [["a b"]]}', 422, "invalid_input"),
    ],
)
def test_wrong_requests_are_told(client: Client, body: str | bytes, status: int, code: str) -> None:
    answer = client("POST", "/v1/parse", body)
    assert (answer.status, answer.code) == (status, code)
    check_shape("ErrorAnswer", answer.json())


@pytest.mark.parametrize(
    ("body", "place"),
    [
        ('{"texts": [%s]}', "texts.0"),
        ('{"words": [%s]}', "words.0"),
        ('{"words": [[%s]]}', "words.0.0"),
        ('{"text": "a", "lexicon": [%s]}', "lexicon.0"),
        ('{"text": "a", "pins": [%s]}', "pins.0"),
        ('{"text": "a", "breaks": [%s]}', "breaks.0"),
        ('{"text": "a", "arcs": [%s]}', "arcs.0"),
    ],
)
def test_only_the_first_of_many_errors_is_looked_for(body: str, place: str) -> None:
    with pytest.raises(ValidationError) as caught:
        _ADAPTER.validate_json(body % ",".join(["null"] * 1000))
    assert caught.value.error_count() == 1
    with pytest.raises(Problem, match=rf"^{place}: "):
        read_request((body % "null,null").encode(), Limits())


def test_trees_inside_words_and_granularity_are_options(client: Client, parser: zishu.Parser) -> None:
    text = "科学家研究图书馆。"

    def sentence(**request: Any) -> Any:
        return documents(client, **request)[0]["sentences"][0]

    latent = sentence(text=text, inner="latent")
    assert all(word["char_rels"] is None for word in latent["words"])
    assert [word["char_heads"] for word in latent["words"]] == [
        list(word.char_heads) for word in parser(text, inner="latent")[0]
    ]
    requests: list[dict[str, Any]] = [{"text": text}, {"texts": [text]}, {"text": text, "k_best": 2}]
    for request in requests:
        assert sentence(**request) == sentence(**request, inner="structure", granularity="fine")
        coarse = sentence(**request, granularity="coarse")
        best = parser.k_best(text, 2)[0][0] if "k_best" in request else parser(text)[0]
        assert [word["form"] for word in coarse["words"]] == [word.form for word in coarsen(best)]
    for wrong in ({"inner": "gold"}, {"granularity": "huge"}):
        assert client.parse(text=text, **wrong).status == 422


def test_an_unknown_style_is_refused_before_anything_is_parsed(client: Client) -> None:
    styles = client.get("/v1/model").json()["styles"]
    for request in ({"text": "我们"}, {"texts": ["我们"]}, {"words": [["我们"]]}):
        answer = client.parse(**request, style="nowhere")
        assert (answer.status, answer.code) == (422, "invalid_input")
        assert "unknown style 'nowhere'" in answer.body.decode()
        assert client.parse(**request, style=None).status == 200
        for style in styles:
            assert client.parse(**request, style=style).status == 200
    assert client.parse(text="我们").json()["model"]["styles"] == styles


def test_keys_are_not_told_without_end(client: Client) -> None:
    keys = {f"key{number}": 1 for number in range(1000)}
    for request in ({"text": "a", **keys}, keys, {"text": "a", "x" * 10_000: 1}):
        answer = client.parse(**request)
        assert (answer.status, answer.code) == (422, "invalid_request")
        assert len(answer.body) < 300
    assert "at most 16 keys, not 1001" in client.parse(text="a", **keys).body.decode()


@pytest.mark.parametrize(
    ("request_", "code"),
    [
        ({"text": "我" * 101}, "too_long"),
        ({"texts": ["我" * 60, "我" * 60]}, "too_long"),
        ({"words": [["我" * 60, "我" * 60]]}, "too_long"),
        ({"text": "我" * 80, "lexicon": ["我" * 21]}, "too_long"),
        ({"texts": ["我"], "lexicon": ["我" * 33]}, "too_long"),
        ({"texts": ["我"] * 4}, "too_many"),
        ({"words": [["我"]] * 4}, "too_many"),
        ({"text": "我们", "breaks": [1, 1, 1]}, "too_many"),
        ({"text": "我们", "pins": [[0, 1]] * 3}, "too_many"),
        ({"text": "我们", "arcs": [[0, 1, None]] * 3}, "too_many"),
        ({"text": "我们", "tags": [[0, "NOUN"]] * 3}, "too_many"),
        ({"text": "我们", "lexicon": ["a", "b", "c"]}, "too_many"),
        ({"text": "我们", "k_best": 4}, "too_many"),
    ],
)
def test_limits_of_a_request(small: Client, request_: dict[str, Any], code: str) -> None:
    answer = small.parse(**request_)
    assert (answer.status, answer.code) == (422, code)


def test_the_limits_themselves_are_allowed(small: Client) -> None:
    assert small.parse(text="我" * 100).status == 200
    assert small.parse(texts=["我"] * 3, lexicon=["a" * 32, "b"], k_best=3).status == 200


def test_a_large_body_is_refused_before_it_is_read(small: Client) -> None:
    with small.connect("Content-Type: application/json\r\nContent-Length: 1000000000\r\n") as connection:
        assert b" 413 " in connection.recv(1000)
    with small.connect("Content-Type: application/json\r\nTransfer-Encoding: chunked\r\n") as connection:
        connection.sendall(b"bb8\r\n" + b" " * 3000 + b"\r\n")
        assert b" 413 " in connection.recv(1000)


def test_wrong_addresses_methods_and_types(client: Client) -> None:
    assert client.get("/v1/nothing").code == "not_found"
    answer = client.get("/v1/parse")
    assert (answer.status, answer.code, answer.headers["allow"]) == (405, "method_not_allowed", "POST")
    for kind in ("text/plain", "application/x-www-form-urlencoded", ""):
        answer = client("POST", "/v1/parse", '{"text": "a"}', kind=kind)
        assert (answer.status, answer.code) == (415, "unsupported_media_type")
    assert client("POST", "/v1/parse", '{"text": "我"}', kind="Application/JSON; charset=utf-8").status == 200


# ---- the queue


def test_a_full_queue_turns_away_and_says_when_to_come_back(parser: zishu.Parser) -> None:
    held, model = held_parser(parser)
    with serving(held, Limits(queue=1)) as client:
        first = client.later(text="我")
        client.until_waiting(1)
        assert client.get("/v1/health/ready").status == 503
        assert client.get("/v1/health/live").status == 200
        refused = client.parse(text="你")
        assert (refused.status, refused.code) == (503, "busy")
        assert int(refused.headers["retry-after"]) >= 1
        model.release()
        assert first.result(PATIENCE).status == 200
        assert client.parse(text="你").status == 200
        assert client.get("/v1/health/ready").status == 200


def test_a_request_that_takes_too_long_is_given_up(parser: zishu.Parser) -> None:
    held, model = held_parser(parser)
    with serving(held, Limits(seconds=0.3, queue=1)) as client:
        for _ in range(3):  # each frees its place, although the model is still blocked
            answer = client.parse(text="我")
            assert (answer.status, answer.code) == (504, "timeout")
        model.release()


def test_a_body_that_does_not_come_is_given_up(parser: zishu.Parser) -> None:
    with (
        serving(parser, Limits(seconds=0.3)) as client,
        client.connect("Content-Type: application/json\r\nContent-Length: 10\r\n") as connection,
    ):
        assert b" 408 " in connection.recv(1000)


def test_a_client_that_leaves_frees_its_place(parser: zishu.Parser) -> None:
    held, model = held_parser(parser)
    with serving(held, Limits(queue=1)) as client:
        body = '{"text": "我"}'.encode()
        head = f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n"
        for _ in range(3):
            with client.connect(head) as connection:
                connection.sendall(body)
                client.until_waiting(1)
            client.until_waiting(0)
        model.release()
        assert client.parse(text="我").status == 200
        eventually(lambda: client.figure('zishu_requests_total{path="/v1/parse",status="499"}') == 3)


def test_requests_that_arrive_together_are_parsed_together(parser: zishu.Parser) -> None:
    held, model = held_parser(parser)
    with serving(held) as client:
        first = client.later(text="一。")
        assert model.entered.acquire(timeout=PATIENCE)
        others = [client.later(text=f"{char}。") for char in "二三四五六"]
        client.until_waiting(6)
        model.release()
        answers = [future.result(PATIENCE) for future in (first, *others)]
        assert model.calls == [1, 5]
        texts = [answer.json()["documents"][0]["text"] for answer in answers]
        assert texts == [f"{char}。" for char in "一二三四五六"]


def test_a_failure_stays_with_its_request(parser: zishu.Parser, caplog: pytest.LogCaptureFixture) -> None:
    held, model = held_parser(parser, poison="坏")
    with serving(held) as client, caplog.at_level(logging.DEBUG):
        first = client.later(text="一。")
        assert model.entered.acquire(timeout=PATIENCE)
        others = [client.later(text=text) for text in ("二。", "坏。", "三。")]
        client.until_waiting(4)
        model.release()
        assert first.result(PATIENCE).status == 200
        answers = [future.result(PATIENCE) for future in others]
        assert [answer.status for answer in answers] == [200, 500, 200]
        assert answers[1].code == "internal"
        assert "frame-ancestors 'none'" in answers[1].headers["content-security-policy"]
    assert "RuntimeError" in caplog.text  # and where it was raised, but not what it said
    assert "serving.py" in caplog.text
    assert "坏" not in caplog.text


# ---- streams


def lines(client: Client, *requests: Any) -> list[Any]:
    body = "".join(
        f"{request if isinstance(request, str) else json.dumps(request)}\n" for request in requests
    )
    answer = client("POST", "/v1/parse", body, kind=NDJSON)
    assert answer.status == 200
    assert answer.headers["content-type"] == NDJSON
    return [json.loads(line) for line in answer.body.splitlines()]


def test_a_stream_is_answered_line_by_line_in_order(client: Client) -> None:
    texts = [f"我有{number}本书。" * (1 + number % 3) for number in range(100)]
    found = lines(
        client, *({"text": text, "confidence": number % 2 == 0} for number, text in enumerate(texts))
    )
    assert [line["documents"][0]["text"] for line in found] == texts


def test_wrong_lines_are_told_where_they_stand(small: Client) -> None:
    found = lines(
        small,
        {"text": "我"}, "", "  ", "{", {"text": "我" * 101}, {"text": "我", "pins": [[0, 5]]}, "x" * 3_000,
        {"words": [["你"]], "format": "conllu"},
    )  # fmt: skip
    codes = [line["error"]["code"] if "error" in line else "" for line in found]
    assert codes == ["", "invalid_json", "too_long", "invalid_input", "too_large", ""]
    assert "你" in found[-1]["documents"][0]["conllu"]


def chunk(text: str) -> bytes:
    data = text.encode()
    return f"{len(data):x}\r\n".encode() + data + b"\r\n"


def read_until(connection: socket.socket, *marks: str) -> str:
    data = b""
    while not all(mark.encode() in data for mark in marks):
        part = connection.recv(65536)
        assert part, data
        data += part
    return data.decode()


STREAM = f"Content-Type: {NDJSON}\r\nTransfer-Encoding: chunked\r\n"


def test_a_line_is_answered_before_the_next_one_comes(client: Client) -> None:
    with client.connect(STREAM) as connection:
        for text in ("一。", "二。"):
            request = json.dumps({"text": text}) + "\n"
            connection.sendall(chunk(request[:5]))
            connection.sendall(chunk(request[5:]))
            read_until(connection, text)
        connection.sendall(chunk('{"text": "三。"}'))  # the last line may lack its end
        connection.sendall(b"0\r\n\r\n")
        assert "三。" in read_until(connection, "0\r\n\r\n")


def test_a_stream_has_a_bounded_number_of_lines_in_work(parser: zishu.Parser) -> None:
    held, model = held_parser(parser)
    with serving(held, Limits(stream_lines=3)) as client:
        body = "".join(f'{{"text": "{number}"}}\n' for number in range(20))
        future = client.pool.submit(lambda: client("POST", "/v1/parse", body, kind=NDJSON))
        assert model.entered.acquire(timeout=PATIENCE)
        client.until_waiting(3)
        time.sleep(0.2)
        assert client.figure("zishu_waiting_requests") == 3
        model.release()
        assert len(future.result(PATIENCE).body.splitlines()) == 20


def test_a_stream_has_a_bounded_number_of_characters_in_work(parser: zishu.Parser) -> None:
    held, model = held_parser(parser)
    with serving(held, Limits(batch_chars=10)) as client:
        texts = ["我" * 6] * 5 + ["我" * 30, "我"]
        future = client.pool.submit(lambda: lines(client, *({"text": text} for text in texts)))
        client.until_waiting(2)  # with one of them there is room, with both there is not
        time.sleep(0.2)
        assert client.figure("zishu_waiting_characters") == 12
        model.release()
        assert [line["documents"][0]["text"] for line in future.result(PATIENCE)] == texts


def test_the_time_of_a_line_begins_when_it_is_accepted(parser: zishu.Parser) -> None:
    held, model = held_parser(parser)
    service = Service(held, Limits(queue=1, seconds=3))

    async def answer() -> bytes:
        service.batcher.submit(await service.read(b'{"text": "a"}'))
        line = asyncio.create_task(service.answer_line(await service.read(b'{"text": "b"}')))
        await asyncio.sleep(4)
        model.release()
        return await line

    assert b'"text": "b"' in asyncio.run(answer())
    service.batcher.close(PATIENCE)


def test_streams_wait_where_requests_are_turned_away(parser: zishu.Parser) -> None:
    with serving(parser, Limits(queue=1)) as client:
        found = lines(client, *({"text": str(number)} for number in range(10)))
        assert [line["documents"][0]["text"] for line in found] == list(map(str, range(10)))


def test_a_stream_whose_client_leaves_is_given_up(parser: zishu.Parser) -> None:
    held, model = held_parser(parser)
    with serving(held, Limits(streams=1)) as client:
        with client.connect(STREAM) as connection:
            connection.sendall(chunk('{"text": "我"}\n'))
            client.until_waiting(1)
            refused = client("POST", "/v1/parse", '{"text": "我"}\n', kind=NDJSON)
            assert (refused.status, refused.code) == (503, "busy")
        client.until_waiting(0)
        eventually(lambda: client.figure("zishu_streams") == 0)
        model.release()


def test_a_client_that_leaves_is_noticed_while_its_lines_wait(parser: zishu.Parser) -> None:
    held, model = held_parser(parser)
    with serving(held, Limits(stream_lines=3)) as client:
        with client.connect(STREAM) as connection:
            connection.sendall(chunk('{"text": "我"}\n' * 20))
            client.until_waiting(3)
            assert model.entered.acquire(timeout=PATIENCE)  # otherwise nothing may ever be parsed
        client.until_waiting(0)
        assert client.figure("zishu_streams") == 0
        model.release()
        eventually(lambda: client.figure("zishu_batch_seconds_total") > 0)
        assert client.figure("zishu_sentences_total") <= 3


def test_a_silent_stream_and_a_stopping_service_end_streams(parser: zishu.Parser) -> None:
    with (
        serving(parser, Limits(seconds=0.3)) as client,
        client.connect(STREAM) as connection,
    ):
        read_until(connection, "body_timeout", "0\r\n\r\n")
    stopping = False
    with serving(parser, stopping=lambda: stopping) as client, client.connect(STREAM) as connection:
        connection.sendall(chunk('{"text": "我"}\n'))
        read_until(connection, "我")
        stopping = True
        assert client.get("/v1/health/ready").status == 503
        read_until(connection, "stopping", "0\r\n\r\n")


# ---- safety


def test_every_answer_has_the_headers(client: Client) -> None:
    answers = [
        client.get(path)
        for path in ("/", "/docs", "/docs/style.css", "/openapi.json", "/v1/model", "/metrics", "/x")
    ]
    answers += [
        client.parse(text="我"),
        client.parse(),
        client("DELETE", "/v1/parse"),
        client("POST", "/v1/parse", "x"),
    ]
    for answer in answers:
        policy = answer.headers["content-security-policy"]
        assert policy.startswith("default-src 'self';")
        assert "frame-ancestors 'none'" in policy
        assert "unsafe" not in policy
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert answer.headers["referrer-policy"] == "no-referrer"
        assert answer.headers["x-frame-options"] == "DENY"


def test_other_sites_may_not_read_answers(client: Client) -> None:
    origin = {"Origin": "https://example.org", "Access-Control-Request-Method": "POST"}
    for answer in (client("OPTIONS", "/v1/parse", headers=origin), client.get("/v1/model", headers=origin)):
        assert not [name for name in answer.headers if name.startswith("access-control-")]


def test_a_token_is_needed_where_there_is_one(parser: zishu.Parser) -> None:
    with serving(parser, tokens=["first-token", "second-token"]) as client:
        for path in ("/v1/health", "/v1/health/live", "/v1/health/ready", "/docs", "/openapi.json", "/"):
            assert client.get(path).status in (200, 404), path
        for path in ("/v1/model", "/metrics", "/v1/parse", "/nowhere"):
            assert client.get(path).code == "unauthorized"
        wrong = [
            "",
            "Bearer",
            "Bearer first",
            "Bearer first-token2",
            "Basic first-token",
            "first-token",
            "Bearer é",
        ]
        for value in wrong:
            answer = client.get("/v1/model", headers={"Authorization": value})
            assert (answer.status, answer.headers["www-authenticate"]) == (401, "Bearer"), value
        for value in ("Bearer first-token", "bearer second-token"):
            assert client.get("/v1/model", headers={"Authorization": value}).status == 200
        operations = client.get("/openapi.json").json()["paths"]
        assert operations["/v1/parse"]["post"]["security"] == [{"token": []}]
        assert "security" not in operations["/v1/health"]["get"]


@pytest.mark.parametrize("prefix", ["/zishu", "/static/zishu", "/v1"])
def test_a_token_is_needed_below_a_prefix_too(parser: zishu.Parser, prefix: str) -> None:
    app = create_app(parser, tokens=["first-token"])

    async def mounted(scope: Any, receive: Any, send: Any) -> None:
        await app({**scope, "root_path": prefix}, receive, send)

    with serving_app(mounted) as client:
        for path in ("/", "/static/app.js", "/docs", "/v1/health"):
            assert client.get(prefix + path).status == 200, path
        for path in ("/v1/model", "/metrics", "/v1/parse", "/static", "/nowhere"):
            assert client.get(prefix + path).code == "unauthorized"
        client.headers["Authorization"] = "Bearer first-token"
        answer = client("POST", f"{prefix}/v1/parse", '{"text": "我"}')
        assert answer.status == 200
    app.service.batcher.close(PATIENCE)


def test_an_app_can_be_started_again(parser: zishu.Parser) -> None:
    app = create_app(parser)
    for _ in range(2):
        with serving_app(app) as client:
            assert client.parse(text="我").status == 200


def test_the_log_has_nothing_that_a_client_wrote(client: Client, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.DEBUG, logger="zishu"):
        client.parse(text="秘密一")
        client.parse(text="秘密二", pins=[[0, 9]])
        client.parse(words=[["秘密 三"]])
        client("POST", "/v1/parse", '{"text": "秘密四')
        client.get("/?text=secret-five")
        client.get("/secret-six")
        client("SECRET7", "/")
        lines(client, {"text": "秘密八"}, "秘密九")
    assert "POST /v1/parse 200" in caplog.text
    assert "POST /v1/parse 422" in caplog.text
    assert "GET other 404" in caplog.text
    assert "秘密" not in caplog.text
    assert "secret" not in caplog.text.lower()


@pytest.mark.parametrize(
    "path",
    ["/static/../app.py", "/static/%2e%2e/app.py", "/static//etc/passwd", "/static/..%2fapp.py", "/static/"],
)
def test_static_files_are_those_of_the_page_only(client: Client, path: str) -> None:
    assert client.get(path).status == 404


def test_the_page_is_served(client: Client) -> None:
    page = client.get("/")
    assert page.status == 200
    assert page.headers["content-type"] == "text/html; charset=utf-8"
    again = client.get("/", headers={"If-None-Match": page.headers["etag"]})
    assert (again.status, again.body) == (304, b"")
    assert client("HEAD", "/").headers["content-length"] == str(len(page.body))


# ---- information about the service


def test_the_model_is_described_without_paths(client: Client, parser: zishu.Parser) -> None:
    answer = client.get("/v1/model")
    check_shape("ModelAnswer", answer.json())
    found = answer.json()
    assert found["labels"] == list(parser.model.settings.labels)
    assert found["limits"]["chars"] == Limits().chars
    assert str(parser.path) not in answer.body.decode()
    assert "config" not in found["scores"]


def test_health(client: Client) -> None:
    for path in ("/v1/health", "/v1/health/live", "/v1/health/ready"):
        answer = client.get(path)
        check_shape("HealthAnswer", answer.json())
        assert (answer.status, answer.json()) == (200, {"live": True, "ready": True})


def test_figures_count(client: Client) -> None:
    before = client.figure("zishu_sentences_total")
    client.parse(text=TEXT)
    assert client.figure("zishu_sentences_total") == before + 2
    assert client.figure("zishu_waiting_requests") == 0
    assert client.figure('zishu_requests_total{path="/v1/parse",status="200"}') >= 1


def test_the_description_names_the_limits_and_every_shape(small: Client) -> None:
    found = small.get("/openapi.json").json()
    assert found["openapi"].startswith("3.1")
    assert set(found["paths"]) == {
        "/v1/parse", "/v1/convert", "/v1/model", "/v1/health", "/v1/health/live", "/v1/health/ready", "/metrics",
    }  # fmt: skip
    schemas = found["components"]["schemas"]
    references = set(re.findall('"#/components/schemas/([^"]*)"', json.dumps(found)))
    assert references <= set(schemas)
    assert schemas["TextRequest"]["properties"]["text"]["maxLength"] == SMALL.chars
    assert schemas["TextRequest"]["properties"]["lexicon"]["items"]["maxLength"] == SMALL.lexicon_word
    assert schemas["TextRequest"]["properties"]["k_best"]["maximum"] == SMALL.k_best
    assert schemas["TextRequest"]["additionalProperties"] is False
    assert set(found["paths"]["/v1/parse"]["post"]["responses"]) == {
        "200", "400", "408", "413", "415", "422", "500", "503", "504",
    }  # fmt: skip


def test_the_examples_of_the_description_are_right(client: Client) -> None:
    schemas = client.get("/openapi.json").json()["components"]["schemas"]
    for name, key in (("TextRequest", "text"), ("TextsRequest", "texts"), ("WordsRequest", "words")):
        properties = schemas[name]["properties"]
        request = {key: properties[key]["examples"][0]}
        request |= {
            name: properties[name]["examples"][0]
            for name in ("pins", "breaks", "arcs", "tags")
            if name in properties
        }
        for document in documents(client, **request):
            for sentence in document["sentences"]:
                from_json(json.dumps(sentence))


def test_the_documentation_loads_nothing_from_elsewhere(client: Client) -> None:
    page = client.get("/docs").body.decode()
    assert "/v1/parse" in page
    assert "boundary_prob" in page
    assert re.findall(r'(?:href|src)="(?!#)([^"]*)"', page) == ["/docs/style.css", "/openapi.json", "/"]
    assert "<script" not in page
    assert client.get("/docs/style.css").headers["content-type"].startswith("text/css")


@pytest.mark.slow
@pytest.mark.filterwarnings("default")
@pytest.mark.parametrize("mode", ["POSITIVE", "NEGATIVE"])
def test_schemathesis_finds_no_failure_and_no_wrong_description(small: Client, mode: str) -> None:
    schemathesis = pytest.importorskip("schemathesis")
    from hypothesis import HealthCheck, given, settings
    from schemathesis import checks

    described = [
        checks.not_a_server_error, checks.status_code_conformance, checks.content_type_conformance,
        checks.response_schema_conformance,
    ]  # fmt: skip
    schema = schemathesis.openapi.from_url(f"http://127.0.0.1:{small.port}/openapi.json")
    tried = []
    for result in schema.get_all_operations():
        operation = result.ok()
        if mode == "NEGATIVE" and operation.method != "post":
            continue  # such a request has nothing that could be invalid

        @given(case=operation.as_strategy(generation_mode=schemathesis.GenerationMode[mode]))
        @settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
        def check(case: Any) -> None:
            answer = case.call(timeout=PATIENCE)
            if answer.status_code >= 400:
                check_shape("ErrorAnswer", answer.json())
            case.validate_response(answer, checks=described)

        check()
        tried.append(operation.path)
    assert "/v1/parse" in tried
