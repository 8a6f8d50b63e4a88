"""What one client sends within the limits does not keep the service from answering others."""

from __future__ import annotations

import contextlib
import json
import logging
import re
import socket
import threading
import time
import tracemalloc
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

pytest.importorskip("httptools", reason="the extra `serve` is not installed")

import zishu
from serving import NDJSON, PATIENCE, Client, eventually, held_parser, served, serving
from zishu.serve import Limits, read_tokens, schema
from zishu.serve.app import _OPEN, _OPEN_FOLDER
from zishu.serve.connections import Repeats
from zishu.serve.exchange import SECURITY_HEADERS
from zishu.serve.problems import CODES, Problem
from zishu.serve.server import load_parser

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from zishu.text import RawSentence

JSON_HEAD = "Content-Type: application/json\r\n"
LONG = "我喜欢北京。" * 200
PINS = [[390 * i, 390 * (256 - j)] for i in range(100) for j in range(100)]
COSTLY: list[dict[str, Any]] = [
    {"text": ("a" + "\u0301" * 389) * 256, "pins": PINS},
    {"text": "字。" * 49_000, "lexicon": ["。字"]},
    {"text": "a" * 99_000, "lexicon": ["a" * k for k in range(1, 33)]},
    {"text": "a" * 98_000, "k_best": 10},
]


@pytest.fixture(scope="module")
def parser() -> zishu.Parser:
    return load_parser(None)


class HeldByLongBatches:
    """A model that stops at batches of many characters until it is released."""

    def __init__(self, model: Any) -> None:
        self._model = model
        self.entered = threading.Event()
        self.released = threading.Event()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._model, name)

    def parse(self, sentences: Sequence[RawSentence], **options: Any) -> Any:
        if sum(map(len, sentences)) > 100:
            self.entered.set()
            assert self.released.wait(PATIENCE)
        return self._model.parse(sentences, **options)


@pytest.fixture
def held(parser: zishu.Parser) -> Iterator[tuple[zishu.Parser, HeldByLongBatches]]:
    model = HeldByLongBatches(parser.model)
    yield zishu.Parser(model), model  # type: ignore[arg-type]
    model.released.set()


def read_all(connection: socket.socket) -> bytes:
    """Read until the service closes the connection."""
    data = b""
    while part := connection.recv(65536):
        data += part
    return data


# ---- expensive requests


def test_a_short_request_is_answered_beside_the_most_expensive_ones(parser: zishu.Parser) -> None:
    with serving(parser) as client:
        connections = []
        for request in COSTLY * 3:
            body = json.dumps(request).encode()
            connection = client.connect(f"{JSON_HEAD}Content-Length: {len(body)}\r\n")
            threading.Thread(target=connection.sendall, args=(body,), daemon=True).start()
            connections.append(connection)
        try:
            times = []
            for _ in range(20):
                began = time.monotonic()
                assert client.parse(text="我昨天在图书馆借了两本书。").status == 200
                times.append(time.monotonic() - began)
                assert client.get("/v1/health/ready").status == 200
            assert sorted(times)[15] < 2, times
            assert max(times) < 10, times  # the machine may be busy
        finally:
            for connection in connections:
                connection.close()


def test_a_long_request_does_not_hold_a_short_one_up(
    held: tuple[zishu.Parser, HeldByLongBatches],
) -> None:
    parser, model = held
    with serving(parser) as client:
        long = client.later(text=LONG)
        assert model.entered.wait(PATIENCE)
        for _ in range(3):
            assert client.parse(text="我喜欢北京。").status == 200
        assert client.get("/v1/health/ready").status == 200
        assert not long.done()
        model.released.set()
        assert long.result(PATIENCE).status == 200


def test_long_requests_leave_room_for_short_ones(held: tuple[zishu.Parser, HeldByLongBatches]) -> None:
    parser, model = held
    with serving(parser, Limits(queue=8, queue_chars=10 * len(LONG))) as client:
        accepted = []
        for _ in range(6):  # three quarters
            accepted.append(client.later(text=LONG))
            client.until_waiting(len(accepted))
        refused = client.parse(text=LONG)
        assert (refused.status, refused.code) == (503, "busy")
        assert client.parse(text="我喜欢北京。").status == 200
        model.released.set()
        assert [future.result(PATIENCE).status for future in accepted] == [200] * 6


def test_the_service_is_not_ready_while_nothing_moves(parser: zishu.Parser) -> None:
    stuck, model = held_parser(parser)
    with serving(stuck, Limits(stalled=0.3)) as client:
        answer = client.later(text="我")
        assert model.entered.acquire(timeout=PATIENCE)
        eventually(lambda: client.get("/v1/health/ready").status == 503)
        assert client.get("/v1/health/live").status == 200
        model.release()
        assert answer.result(PATIENCE).status == 200
        eventually(lambda: client.get("/v1/health/ready").status == 200)


@pytest.mark.parametrize("value", ["[]", "{}", "0"])
def test_more_values_than_any_request_has_are_refused_unread(
    value: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(schema, "_ADAPTER", None)
    body = f'{{"text": "a", "breaks": [{",".join([value] * 400_000)}]}}'
    with pytest.raises(Problem, match="more than") as caught:
        schema.read_request(body.encode(), Limits())
    assert caught.value.code == "too_many"


def test_more_brackets_than_sentences_have_are_refused_unread(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(schema, "_CONVERT", None)
    for value in ("[]", "{}"):
        body = f'{{"text": "", "format": "svg", "sentences": [{",".join([value] * 300_000)}]}}'
        with pytest.raises(Problem, match="more than") as caught:
            schema.read_convert_request(body.encode(), Limits())
        assert caught.value.code == "too_many"


def test_the_largest_requests_are_not_refused_for_their_values() -> None:
    limits = Limits()
    pins = [[k, k + 1] for k in range(limits.constraints)]
    schema.read_request(
        json.dumps(
            {
                "text": ",[{" * 30_000,
                "pins": pins,
                "breaks": [0] * limits.constraints,
                "arcs": [[k, 0, "obj"] for k in range(limits.constraints)],
                "lexicon": ["a"] * 10_000,
            }
        ).encode(),
        limits,
    )
    words = [[","] * (limits.chars // limits.texts)] * limits.texts
    schema.read_request(json.dumps({"words": words}).encode(), limits)


def test_large_bodies_are_decoded_beside_the_event_loop(
    parser: zishu.Parser, monkeypatch: pytest.MonkeyPatch
) -> None:
    entered, released = threading.Event(), threading.Event()
    decode = schema._ADAPTER

    class Decoder:
        @staticmethod
        def validate_json(data: bytes) -> Any:
            if len(data) > 100_000:
                entered.set()
                assert released.wait(PATIENCE)
            return decode.validate_json(data)

    monkeypatch.setattr(schema, "_ADAPTER", Decoder)
    with serving(parser) as client:
        large = client.later(text="我" * 100_001)
        assert entered.wait(PATIENCE)
        assert client.get("/v1/health/live").status == 200
        assert client.parse(text="我").status == 200
        released.set()
        assert large.result(PATIENCE).code == "too_long"


# ---- connections


@pytest.mark.parametrize("start", ["", "POST /v1/parse HTT", "GET / HTTP/1.1\r\nHost: localhost\r\nX: "])
def test_a_head_that_does_not_come_is_given_up(parser: zishu.Parser, start: str) -> None:
    with serving(parser, Limits(head_seconds=0.3)) as client, client.connect() as connection:
        connection.sendall(start.encode())
        answer = read_all(connection)
        if start:
            head, _, body = answer.decode().partition("\r\n\r\n")
            assert " 408 " in head
            assert json.loads(body)["error"]["code"] == "head_timeout"
        else:
            assert answer == b""
        eventually(lambda: client.connections == 0)


def test_connections_between_requests_end_too(parser: zishu.Parser) -> None:
    request = b"GET /v1/health/live HTTP/1.1\r\nHost: localhost\r\n\r\n"
    with serving(parser, Limits(head_seconds=0.3, idle_seconds=1)) as client:
        for rest in (b"", b"GET /v1/he"):
            with client.connect() as connection:
                connection.sendall(request)
                assert b" 200 " in connection.recv(65536)
                connection.sendall(rest)
                read_all(connection)
        # A request that is rejected before its body has arrived does not keep the connection either.
        with client.connect("Content-Type: text/plain\r\nContent-Length: 1000000\r\n") as connection:
            assert b" 415 " in connection.recv(65536)
            connection.sendall(b" ")
            read_all(connection)


def test_a_slow_body_is_given_up(parser: zishu.Parser) -> None:
    head = f"{JSON_HEAD}Content-Length: 1000\r\n"
    with serving(parser, Limits(body_seconds=0.5)) as client, client.connect(head) as connection:
        for _ in range(3):
            connection.sendall(b" ")
            time.sleep(0.1)
        assert b"body_timeout" in read_all_soon(connection)


def read_all_soon(connection: socket.socket) -> bytes:
    connection.settimeout(PATIENCE)
    data = b""
    while b"\r\n\r\n" not in data or b"}}" not in data:
        part = connection.recv(65536)
        assert part, data
        data += part
    return data


def test_bodies_on_their_way_share_a_limit(parser: zishu.Parser) -> None:
    with serving(parser, Limits(bodies=1_000_000)) as client:
        head = f"{JSON_HEAD}Content-Length: 3900000\r\n"
        with client.connect(head) as first, client.connect(head) as second:
            first.sendall(b" " * 900_000)
            eventually(lambda: client.app.service._held > 700_000)
            second.sendall(b" " * 900_000)
            assert b'"busy"' in read_all_soon(second)
            assert client.parse(text="我喜欢北京。").status == 200  # a small one is welcome
        eventually(lambda: client.app.service._held == 0)


def test_a_body_is_not_kept_while_its_request_waits(parser: zishu.Parser) -> None:
    held, model = held_parser(parser)
    body, part = '{"text": "我"}'.encode(), b" " * 50_000
    with serving(held) as client:
        tracemalloc.start()
        try:
            before, _ = tracemalloc.get_traced_memory()
            length = 60 * len(part) + len(body)
            with client.connect(f"{JSON_HEAD}Content-Length: {length}\r\n") as connection:
                for _ in range(60):
                    connection.sendall(part)
                connection.sendall(body)
                client.until_waiting(1)
                after, _ = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
            model.release()
    assert after - before < 1_000_000


def test_lines_of_streams_share_the_limit_of_bodies(parser: zishu.Parser) -> None:
    head = f"Content-Type: {NDJSON}\r\nTransfer-Encoding: chunked\r\n"
    with serving(parser, Limits(bodies=500_000)) as client, client.connect(head) as connection:
        connection.sendall(b"100000\r\n" + b" " * 0x100000 + b"\r\n")
        assert b'"busy"' in read_all_soon(connection)
        line = '\n{"text": "我喜欢北京。"}\n'.encode()
        connection.sendall(f"{len(line):x}\r\n".encode() + line + b"\r\n")
        data = b""
        while "北京".encode() not in data:
            data += connection.recv(65536)
        assert client.app.service._held == 0


def test_too_many_connections_cost_the_one_that_has_waited_longest(parser: zishu.Parser) -> None:
    with serving(parser, Limits(connections=3)) as client:
        idle = [client.connect() for _ in range(3)]
        eventually(lambda: client.connections == 3)
        assert client.get("/v1/health/live").status == 200
        with contextlib.suppress(ConnectionResetError):
            assert idle[0].recv(1) == b""
        for connection in idle:
            connection.close()


def test_where_all_connections_are_busy_the_next_is_refused(parser: zishu.Parser) -> None:
    stuck, model = held_parser(parser)
    with serving(stuck, Limits(connections=2)) as client:
        answers = [client.later(text="我") for _ in range(2)]
        eventually(lambda: client.app.service.batcher._waiting()[0] == 2)
        with client.connect() as connection:
            answer = read_all(connection).decode()
        assert " 503 " in answer
        assert '"busy"' in answer
        model.release()
        assert [answer.result(PATIENCE).status for answer in answers] == [200, 200]


def test_an_answer_that_nobody_reads_is_given_up(parser: zishu.Parser) -> None:
    limits = Limits(write_seconds=0.3, write_speed=100_000_000)
    with serving(parser, limits) as client:
        body = json.dumps({"texts": ["我"] * 500, "format": "svg"}).encode()
        connection = socket.socket()
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        connection.connect(("127.0.0.1", client.port))
        with connection:
            head = f"POST /v1/parse HTTP/1.1\r\nHost: localhost\r\n{JSON_HEAD}Content-Length: {len(body)}\r\n\r\n"
            for _ in range(20):  # more than the system's own buffers hold
                connection.sendall(head.encode() + body)
            eventually(lambda: client.connections == 1)
            eventually(lambda: client.connections == 0)


def test_a_stream_has_an_end(parser: zishu.Parser) -> None:
    with serving(parser, Limits(stream_seconds=1)) as client:
        head = f"Content-Type: {NDJSON}\r\nTransfer-Encoding: chunked\r\n"
        with client.connect(head) as connection:
            data = b""
            connection.settimeout(0.05)
            deadline = time.monotonic() + PATIENCE
            while b'"timeout"' not in data:
                assert time.monotonic() < deadline
                line = '{"text": "我"}\n'.encode()
                try:
                    connection.sendall(f"{len(line):x}\r\n".encode() + line + b"\r\n")
                    data += connection.recv(65536)
                except TimeoutError:
                    pass
            assert "我" in data.decode()


def test_many_idle_connections_neither_end_the_service_nor_fill_its_log() -> None:
    with served("--allowed-host", "parser.example", files=256) as command:
        client = command.client
        assert client.get("/v1/model", headers={"Host": "parser.example"}).status == 200
        assert client.get("/v1/model", headers={"Host": "other.example"}).status == 421
        idle = [client.connect() for _ in range(300)]
        for connection in idle[:100]:
            connection.sendall(b"POST /v1/par")
        for _ in range(3):
            assert client.parse(text="我喜欢北京。").status == 200
            time.sleep(0.5)
        assert client.get("/v1/health/ready").status == 200
        for connection in idle:
            connection.close()
    assert len("".join(command.log)) < 20_000


def test_lines_of_the_log_that_repeat_are_counted() -> None:
    repeats = Repeats(seconds=0.2)

    def record(message: str, level: int = logging.ERROR) -> logging.LogRecord:
        return logging.LogRecord("zishu", level, "", 0, message, (), None)

    assert [repeats.filter(record("no more files")) for _ in range(1000)] == [True] + 999 * [False]
    assert repeats.filter(record("something else"))
    assert all(repeats.filter(record("GET / 200", logging.INFO)) for _ in range(3))
    time.sleep(0.25)
    told = record("no more files")
    assert repeats.filter(told)
    assert told.getMessage() == "no more files (and 999 times before)"


def test_errors_below_the_app_have_the_shape_and_the_headers(parser: zishu.Parser) -> None:
    with serving(parser) as client:
        for data in (
            b"NONSENSE\r\n\r\n",
            b"GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n",
            b"GET /" + b"x" * 100_000,
        ):
            with client.connect() as connection:
                connection.sendall(data)
                head, _, body = read_all(connection).decode().partition("\r\n\r\n")
            assert " 400 " in head.splitlines()[0]
            assert json.loads(body)["error"]["code"] == "invalid_http"
            for name, value in SECURITY_HEADERS.items():
                assert f"{name}: {value}".lower() in head.lower()


@pytest.mark.parametrize("method", ["POST", "HEAD", "PUT"])
@pytest.mark.parametrize("path", ["/v1/parse", "/nowhere"])
def test_a_broken_body_is_no_failure_of_the_service(
    parser: zishu.Parser, method: str, path: str, caplog: pytest.LogCaptureFixture
) -> None:
    head = (
        f"{method} {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
        "Transfer-Encoding: chunked\r\n\r\n"
    )
    with serving(parser) as client:
        for wait in (0.0, 0.1):
            with client.connect() as connection:
                connection.sendall(head.encode())
                time.sleep(wait)
                connection.sendall(b"zz\r\n{}")
                # The app may have answered first.
                assert read_all(connection).startswith((b"HTTP/1.1 400 ", b"HTTP/1.1 404 ", b"HTTP/1.1 405 "))
        time.sleep(0.2)  # for what might still be written to the log
    assert not [record for record in caplog.records if record.levelno >= logging.ERROR]


LIVE = b"GET /v1/health/live HTTP/1.1\r\nHost: localhost\r\n\r\n"


def test_requests_sent_ahead_are_answered_up_to_a_number(parser: zishu.Parser) -> None:
    with serving(parser) as client:
        with client.connect() as connection:
            connection.sendall(20 * LIVE + LIVE.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n") + LIVE)
            assert read_all(connection).count(b" 200 OK") == 21
        with client.connect() as connection:
            connection.sendall(1000 * LIVE)
            with contextlib.suppress(ConnectionResetError):
                assert 20 < read_all(connection).count(b" 200 OK") < 100
        eventually(lambda: client.connections == 0)
        assert client.get("/v1/health/live").status == 200


def test_a_request_before_a_broken_one_is_answered(parser: zishu.Parser) -> None:
    body = '{"text": "我"}'.encode()
    head = f"POST /v1/parse HTTP/1.1\r\nHost: localhost\r\n{JSON_HEAD}Content-Length: {len(body)}\r\n\r\n"
    stuck, model = held_parser(parser)
    with serving(stuck) as client, client.connect() as connection:
        connection.sendall(head.encode() + body + b"NONSENSE\r\n\r\n")
        assert model.entered.acquire(timeout=PATIENCE)
        connection.sendall(b"x" * 100_000)
        model.release()
        answer = read_all(connection)
        assert answer.startswith(b"HTTP/1.1 200 ")
        assert answer.count(b"HTTP/1.1") == 1


def test_what_is_no_body_is_limited_too(parser: zishu.Parser) -> None:
    """Trailers and extensions of chunks may be as long as the client likes, and must not fill the memory."""
    head = f"{JSON_HEAD}Transfer-Encoding: chunked\r\n"
    for start in (b"1;", b"0\r\nx: "):
        with serving(parser) as client, client.connect(head) as connection:
            connection.sendall(start)
            with contextlib.suppress(ConnectionError):
                for _ in range(100):
                    connection.sendall(b"x" * 10_000)
                    time.sleep(0.01)
                assert b"invalid_http" in read_all(connection)
            eventually(lambda: client.connections == 0)


def test_an_upgrade_is_not_made(parser: zishu.Parser) -> None:
    request = b"GET /v1/health/live HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n"
    with serving(parser) as client:
        with client.connect() as connection:
            connection.sendall(request)
            assert b" 200 " in connection.recv(65536)
            connection.sendall(LIVE)
            with contextlib.suppress(ConnectionResetError):
                connection.recv(65536)
        assert client.get("/v1/health/live").status == 200


# ---- hosts, tokens, stopping


def test_without_a_token_only_known_hosts_are_answered(parser: zishu.Parser) -> None:
    with serving(parser, hosts=["parser.example", "10.1.2.3"]) as client:
        for host in (
            "localhost", "LOCALHOST:8000", "localhost.", "127.0.0.1:80", "127.1.2.3", "[::1]:8000", "[::1]",
            "parser.example", "Parser.Example:443", "10.1.2.3:8000",
        ):  # fmt: skip
            assert client.get("/v1/model", headers={"Host": host}).status == 200, host
        for host in (
            "evil.example", "evil.example:8000", "localhost.evil.example", "127.0.0.1.evil.example", "",
            "10.1.2.4", "[::2]", "0.0.0.0", "a@localhost", "localhost:x",
        ):  # fmt: skip
            for path in ("/v1/model", "/", "/docs", "/metrics"):
                answer = client.get(path, headers={"Host": host})
                assert (answer.status, answer.code) == (421, "unknown_host"), host
            assert client.get("/v1/health/live", headers={"Host": host}).status == 200


def test_with_a_token_any_host_is_answered(parser: zishu.Parser) -> None:
    with serving(parser, tokens=["a-token-of-some-length"]) as client:
        headers = {"Host": "parser.example", "Authorization": "Bearer a-token-of-some-length"}
        assert client.get("/v1/model", headers=headers).status == 200
        assert client.get("/v1/model", headers={"Host": "parser.example"}).code == "unauthorized"


def test_answers_after_the_signal_close_the_connection(parser: zishu.Parser) -> None:
    stopping = False
    with serving(parser, stopping=lambda: stopping) as client:
        assert "connection" not in client.get("/v1/health/live").headers
        stopping = True
        for path in ("/v1/health/live", "/v1/model", "/", "/nothing"):
            assert client.get(path).headers["connection"] == "close"


def test_weak_tokens_are_warned_of(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = tmp_path / "tokens"
    path.write_text("a-token-of-some-length\n", encoding="utf-8")
    path.chmod(0o600)
    read_tokens(path)
    assert not caplog.records
    path.write_text("a-token-of-some-length\nshort\n", encoding="utf-8")
    path.chmod(0o644)
    read_tokens(path)
    assert "token 2 has fewer than 16 characters" in caplog.text
    assert "every user of this machine can read" in caplog.text
    assert "short" not in caplog.text.replace("shorter", "")


DOCS = Path(__file__).parents[2] / "docs" / "serve.md"


def test_the_documentation_lists_what_needs_no_token_and_every_error() -> None:
    text = DOCS.read_text(encoding="utf-8")
    found = re.search(r"No token is needed for (.*?)\.\n", text, re.DOTALL)
    assert found
    assert set(re.findall("`([^`]*)`", found[1])) == {*_OPEN, _OPEN_FOLDER}
    for code, (status, _) in CODES.items():
        assert re.search(rf"\|[^|\n]*{status}[^|\n]*\|[^\n]*`{code}`", text), code


def test_a_client_is_told_when_it_sends_too_much_at_once(parser: zishu.Parser) -> None:
    with serving(parser) as client:
        answer: Any = Client(client.port)("POST", "/v1/parse", b"[" * 3_000_000)
        assert (answer.status, answer.code) == (422, "too_many")
