"""Run the service in a test: in a thread of this process or as a command, with a model that can be blocked."""

from __future__ import annotations

import http.client
import json
import os
import re
import socket
import subprocess
import sys
import threading
import time
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import zishu
from zishu.serve import Limits, create_app
from zishu.serve.server import Server, make_config

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from zishu.text import RawSentence

PATIENCE = 120.0  # seconds: the machine may be busy
JSON = "application/json"
NDJSON = "application/x-ndjson"


class HeldModel:
    """Wrap a model: every call waits for a permit, and calls can be made to fail."""

    def __init__(self, model: Any, *, poison: str = "\0") -> None:
        self._model = model
        self._poison = poison
        self._permits = threading.Semaphore(0)
        self._free = False
        self.calls: list[int] = []  # sentences of each call
        self.entered = threading.Semaphore(0)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._model, name)

    def parse(self, sentences: Sequence[RawSentence], **options: Any) -> Any:
        self.calls.append(len(sentences))
        self.entered.release()
        if not self._free:
            assert self._permits.acquire(timeout=PATIENCE)
        if any(self._poison in sentence.chars for sentence in sentences):
            raise RuntimeError(f"cannot bear {sentences}")
        return self._model.parse(sentences, **options)

    def allow(self, calls: int = 1) -> None:
        self._permits.release(calls)

    def release(self) -> None:
        """Let all calls pass from now on."""
        self._free = True
        self._permits.release(1000)


def held_parser(parser: zishu.Parser, *, poison: str = "\0") -> tuple[zishu.Parser, HeldModel]:
    model = HeldModel(parser.model, poison=poison)
    return zishu.Parser(model), model  # type: ignore[arg-type]


@dataclass
class Answer:
    status: int
    headers: dict[str, str]
    body: bytes

    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def code(self) -> str:
        error = self.json()["error"]
        assert set(error) == {"code", "message"}
        assert error["message"]
        return str(error["code"])


@dataclass
class Client:
    """Speak to a service."""

    port: int
    app: Any = None
    server: Any = None
    headers: dict[str, str] = field(default_factory=dict)
    pool: ThreadPoolExecutor = field(default_factory=lambda: ThreadPoolExecutor(32))

    def __call__(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        kind: str = JSON,
        headers: dict[str, str] | None = None,
    ) -> Answer:
        sent = {**self.headers, **({"Content-Type": kind} if body is not None else {}), **(headers or {})}
        if isinstance(body, str):
            body = body.encode()
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=PATIENCE)
        try:
            connection.request(method, path, body=body, headers=sent)
            answer = connection.getresponse()
            names = {name.lower(): value for name, value in answer.getheaders()}
            return Answer(answer.status, names, answer.read())
        finally:
            connection.close()

    def get(self, path: str, **options: Any) -> Answer:
        return self("GET", path, **options)

    def parse(self, **request: Any) -> Answer:
        return self("POST", "/v1/parse", json.dumps(request))

    def later(self, **request: Any) -> Future[Answer]:
        """Send a request from another thread."""
        return self.pool.submit(lambda: self.parse(**request))

    def connect(self, head: str | None = None) -> socket.socket:
        """Open a connection and send the head of a request to parse, or nothing."""
        connection = socket.create_connection(("127.0.0.1", self.port), timeout=PATIENCE)
        if head is not None:
            connection.sendall(f"POST /v1/parse HTTP/1.1\r\nHost: localhost\r\n{head}\r\n".encode())
        return connection

    @property
    def connections(self) -> int:
        """Return how many connections the service has."""
        return len(self.server.server_state.connections)

    def figure(self, name: str) -> float:
        """Return one of the figures for Prometheus."""
        found = re.search(rf"^{re.escape(name)} (\S+)$", self.get("/metrics").body.decode(), re.MULTILINE)
        assert found, name
        return float(found[1])

    def until_waiting(self, count: int) -> None:
        """Wait until this number of requests is in the queue."""
        eventually(lambda: self.figure("zishu_waiting_requests") == count)


def eventually(test: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE
    while not test():
        assert time.monotonic() < deadline
        time.sleep(0.02)


@contextmanager
def serving(parser: zishu.Parser, limits: Limits | None = None, **options: Any) -> Iterator[Client]:
    """Serve a parser from a thread."""
    with serving_app(create_app(parser, limits, **options), limits) as client:
        yield client


@contextmanager
def serving_app(app: Any, limits: Limits | None = None) -> Iterator[Client]:
    """Serve an app from a thread."""
    server = Server(make_config(app, limits or Limits(), port=0))
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    try:
        eventually(lambda: server.started or not thread.is_alive())
        client = Client(server.servers[0].sockets[0].getsockname()[1], app, server)
        yield client
        client.pool.shutdown()
    finally:
        server.should_exit = True
        thread.join(PATIENCE)
        assert not thread.is_alive()


@dataclass
class Command:
    """A running `zishu serve`."""

    process: subprocess.Popen[str]
    log: list[str] = field(default_factory=list)
    client: Client = field(default_factory=lambda: Client(0))


@contextmanager
def starting(*arguments: str, files: int | None = None) -> Iterator[Command]:
    """Run the command on a free port, with a limit of open files, and do not wait until it serves."""
    limit = ["bash", "-c", f'ulimit -n {files}; exec "$@"', "bash"] if files else []
    code = "from zishu.cli import main; main()"
    process = subprocess.Popen(
        [*limit, sys.executable, "-c", code, "serve", "--port", "0", *arguments],
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONUNBUFFERED": "1"},
    )
    command = Command(process)
    assert process.stderr is not None
    stderr = process.stderr
    reader = threading.Thread(target=lambda: command.log.extend(iter(stderr.readline, "")), daemon=True)
    reader.start()
    try:
        yield command
    finally:
        if process.poll() is None:
            process.terminate()
        process.wait(PATIENCE)
        reader.join(PATIENCE)
        stderr.close()


@contextmanager
def served(*arguments: str, files: int | None = None) -> Iterator[Command]:
    """Run the command on a free port, and wait until it serves."""
    with starting(*arguments, files=files) as command:
        log = command.log
        eventually(lambda: any("serving on" in line for line in log) or command.process.poll() is not None)
        found = re.search(r"http://127\.0\.0\.1:(\d+)", "".join(log))
        assert found, "".join(log)
        command.client = Client(int(found[1]))
        yield command
