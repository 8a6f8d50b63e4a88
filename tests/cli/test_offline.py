"""Offline means offline: no lookup, no connection, no file in the user's home or cache.

The installed command runs with an empty home and cache folder under `strace`, which also sees what C libraries do.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Sequence

COMMAND = Path(sys.executable).with_name("zishu")

pytestmark = pytest.mark.skipif(shutil.which("strace") is None, reason="needs strace")


# Data sent to an address of the internet, and a socket for look-ups of names.
_OUTSIDE = re.compile(
    r"\b(connect|sendto|sendmsg|sendmmsg)\(.*(AF_INET|sin_port|sin6_port)|\bsocket\(AF_INET6?, SOCK_DGRAM"
)


def traced(tmp_path: Path, arguments: Sequence[object]) -> subprocess.Popen[bytes]:
    """Start the command with an empty home; its calls about the network go to `trace`."""
    home = tmp_path / "home"
    (home / "cache").mkdir(parents=True)
    environment = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("XDG_", "HF_", "ORT_")) and name != "HOME"
    }
    environment |= {"HOME": str(home), "XDG_CACHE_HOME": str(home / "cache")}
    calls = ["strace", "-f", "-qq", "-e", "trace=network", "-o", str(tmp_path / "trace")]
    return subprocess.Popen(
        [*calls, str(COMMAND), *map(str, arguments)],
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )


def strange_calls(tmp_path: Path) -> list[str]:
    """Return the calls that reach beyond this machine, or could."""
    lines = (tmp_path / "trace").read_text(encoding="utf-8", errors="replace").splitlines()
    return [line for line in lines if _OUTSIDE.search(line)]


def test_the_trace_sees_a_look_up(tmp_path: Path) -> None:
    code = "import socket\ntry: socket.create_connection(('127.0.0.1', 9), 1)\nexcept OSError: pass"
    calls = ["strace", "-f", "-qq", "-e", "trace=network", "-o", str(tmp_path / "trace")]
    if subprocess.run([*calls, sys.executable, "-c", code], check=False).returncode:
        pytest.skip("strace may not trace here")
    assert strange_calls(tmp_path)


@pytest.mark.parametrize("jobs", [1, pytest.param(2, marks=pytest.mark.slow)])
def test_parsing_stays_on_this_machine(tmp_path: Path, jobs: int) -> None:
    (tmp_path / "in.txt").write_text("我喜欢北京。", encoding="utf-8")
    arguments = ["parse", "-i", tmp_path / "in.txt", "-o", tmp_path / "out.conllu", "--jobs", jobs]
    process = traced(tmp_path, arguments)
    assert process.wait(timeout=300) == 0
    assert (tmp_path / "out.conllu").read_text(encoding="utf-8")
    assert strange_calls(tmp_path) == []
    assert [path for path in (tmp_path / "home").rglob("*") if path.is_file()] == []


@pytest.mark.slow
def test_the_service_stays_on_this_machine(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    process = traced(tmp_path, ["serve", "--port", port])
    try:
        end = time.monotonic() + 120
        while True:
            try:
                with urllib.request.urlopen(f"http://127.0.0.1:{port}/v1/health/ready", timeout=5):
                    break
            except OSError:
                assert process.poll() is None
                assert time.monotonic() < end
                time.sleep(0.5)
        time.sleep(40)  # ONNX Runtime would report after half a minute
    finally:
        os.killpg(process.pid, signal.SIGTERM)
        process.wait(timeout=60)
    assert strange_calls(tmp_path) == []
    assert [path for path in (tmp_path / "home").rglob("*") if path.is_file()] == []
