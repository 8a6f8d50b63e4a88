"""`zishu serve` as a process: start, orderly shutdown, crashes."""

from __future__ import annotations

import http.client
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

pytest.importorskip("httptools", reason="the extra `serve` is not installed")

from serving import PATIENCE, Answer, Client, Command, eventually, served, starting
from zishu.errors import InputError, MissingExtra, ZishuError
from zishu.serve import Limits, read_tokens
from zishu.serve.server import bind, is_loopback

if TYPE_CHECKING:
    from concurrent.futures import Future

LONG = "上海计划发展金融业，我昨天在图书馆借了两本书。" * 400  # about a quarter of a second of work


def load(client: Client, count: int = 6) -> list[Future[Answer]]:
    """Send requests that take a while, and wait until all are accepted."""
    futures = [client.later(text=LONG) for _ in range(count)]
    client.until_waiting(count)
    return futures


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", "from zishu.cli import main; main()", "serve", *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE, check=False)


PROC = Path("/proc")

needs_proc = pytest.mark.skipif(not (PROC / "self" / "task").exists(), reason="finds processes in /proc")


def worker_pids(command: Command) -> set[int]:
    pid = command.process.pid
    children = map(int, (PROC / f"{pid}/task/{pid}/children").read_text().split())
    return {child for child in children if b"spawn_main" in (PROC / f"{child}/cmdline").read_bytes()}


def is_alive(pid: int) -> bool:
    try:
        return (PROC / f"{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def test_sigterm_answers_what_was_accepted() -> None:
    with served() as command:
        futures = load(command.client)
        command.process.send_signal(signal.SIGTERM)
        answers = [future.result(PATIENCE) for future in futures]
        assert [answer.status for answer in answers] == [200] * len(futures)
        assert len({answer.body for answer in answers}) == 1
        assert command.process.wait(PATIENCE) == 0
        with pytest.raises(ConnectionRefusedError):
            command.client.get("/v1/health")
    assert "图书馆" not in "".join(command.log)


STOPPED_IN = """
import os, signal
from zishu.serve import server

function = server.{name}
def stopped(*arguments, **options):
    os.kill(os.getpid(), signal.SIGTERM)
    return function(*arguments, **options)

server.{name} = stopped
server.serve(server.ServerSettings(port=0))
"""


@pytest.mark.parametrize("name", ["load_parser", "create_app"])
def test_sigterm_ends_a_service_that_is_starting(name: str) -> None:
    code = STOPPED_IN.format(name=name)
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, timeout=PATIENCE, check=False)
    assert (done.returncode, done.stderr) == (0, b"")


@needs_proc
def test_sigterm_ends_workers_that_are_starting() -> None:
    with starting("--workers", "2") as command:
        eventually(lambda: len(worker_pids(command)) == 2)
        pids = worker_pids(command)
        # They handle signals themselves once they have threads, that is, while they load the model.
        eventually(lambda: all(len(list((PROC / f"{pid}/task").iterdir())) > 1 for pid in pids))
        sent = time.monotonic()
        command.process.send_signal(signal.SIGTERM)
        assert command.process.wait(PATIENCE) == 0
        assert time.monotonic() - sent < Limits().seconds / 2
        assert not any(map(is_alive, pids))
    assert not any("serving on" in line for line in command.log)


def test_sigkill_ends_connections_with_an_error() -> None:
    with served() as command:
        futures = load(command.client)
        command.process.kill()
        for future in futures:
            with pytest.raises((http.client.HTTPException, ConnectionError)):
                future.result(PATIENCE)


@needs_proc
@pytest.mark.slow
def test_workers_share_the_port_and_are_replaced() -> None:
    with served("--workers", "2") as command:
        client = command.client
        before = worker_pids(command)
        assert len(before) == 2
        answers = [client.later(text="我喜欢北京。") for _ in range(20)]
        assert {answer.result(PATIENCE).status for answer in answers} == {200}
        assert client.figure("zishu_sentences_total") == 20  # of both together
        os.kill(min(before), signal.SIGKILL)
        eventually(lambda: len(worker_pids(command) - before) == 1)
        for _ in range(5):
            try:
                assert client.parse(text="我喜欢北京。").status == 200
            except (http.client.HTTPException, ConnectionError):
                time.sleep(0.2)  # it was the one that died
        futures = [client.later(text=LONG) for _ in range(4)]
        client.until_waiting(4)
        command.process.send_signal(signal.SIGTERM)
        assert [future.result(PATIENCE).status for future in futures] == [200] * 4
        assert command.process.wait(PATIENCE) == 0
    assert any("died" in line for line in command.log)


@needs_proc
@pytest.mark.slow
def test_workers_end_when_their_parent_is_killed() -> None:
    with served("--workers", "2") as command:
        pids = worker_pids(command)
        command.process.kill()
        command.process.wait(PATIENCE)
        assert len(pids) == 2
        eventually(lambda: not any(map(is_alive, pids)))


def test_tokens_come_from_a_file(tmp_path: Path) -> None:
    path = tmp_path / "tokens"
    path.write_text("\n one-token \ntwo-token\n", encoding="utf-8")
    assert read_tokens(path) == ("one-token", "two-token")
    for text in ("", "\n \n", "a b", "é"):
        path.write_text(text, encoding="utf-8")
        with pytest.raises(InputError, match="token"):
            read_tokens(path)
    path.write_bytes(b"one-token\ntwo-\xff\n")
    with pytest.raises(InputError, match="tokens:2: not valid UTF-8"):
        read_tokens(path)


def test_wrong_usage_is_told_in_a_line(tmp_path: Path) -> None:
    for arguments, status, words in [
        (["--model", str(tmp_path / "no-model"), "--port", "0"], 2, "no such model"),
        (["--token-file", str(tmp_path / "no-file")], 2, "No such file"),
        (["--port", "99999"], 2, "port"),
    ]:
        done = run(*arguments)
        assert done.returncode == status, done.stderr
        assert words in done.stderr.splitlines()[-1]
        assert "Traceback" not in done.stderr


@pytest.mark.slow
def test_a_worker_that_cannot_start_ends_the_service(tmp_path: Path) -> None:
    done = run("--model", str(tmp_path / "no-model"), "--port", "0", "--workers", "2")
    assert done.returncode == 1
    assert "no such model" in done.stderr
    assert "a worker could not start" in done.stderr.splitlines()[-1]
    assert "Traceback" not in done.stderr


def test_an_address_that_cannot_be_had_is_told() -> None:
    with bind("127.0.0.1", 0) as listener:
        listener.listen()
        port = listener.getsockname()[1]
        with pytest.raises(ZishuError, match=f"port {port}: .*in use"):
            bind("127.0.0.1", port)
    with pytest.raises(ZishuError, match=r"no\.such\.host"):
        bind("no.such.host.invalid", 0)


def test_loopback() -> None:
    assert all(map(is_loopback, ["127.0.0.1", "127.9.9.9", "::1", "localhost"]))
    assert not any(map(is_loopback, ["0.0.0.0", "::", "192.168.1.1", "example.org", ""]))


@pytest.mark.parametrize("package", ["httptools", "prometheus_client", "uvicorn"])
def test_a_missing_package_names_the_extra_before_anything_is_loaded(package: str) -> None:
    code = f"import sys; sys.modules['{package}'] = None; from zishu import serve; serve.serve"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert re.search(
        rf"{MissingExtra.__name__}: {package} is not installed: run pip install 'zishu\[serve\]'", done.stderr
    )
