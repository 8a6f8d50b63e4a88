"""The compiled kernels on disk: damaged, full, shared by processes, absent."""

from __future__ import annotations

import errno
import logging
import os
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from zishu.chart import _compiled

if TYPE_CHECKING:
    from collections.abc import Callable

COMMAND = Path(sys.executable).with_name("zishu")
CODE = b"machine code"


@pytest.fixture
def compiled(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[bytes]:
    """Return what was compiled so far, with a cache in `tmp_path` and a compiler that takes a moment."""
    done: list[bytes] = []

    def compile_kernels() -> bytes:
        time.sleep(0.1)
        done.append(CODE)
        return CODE

    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setattr(_compiled, "_compile", compile_kernels)
    return done


def files(folder: Path) -> list[Path]:
    return sorted(path for path in folder.rglob("*") if path.is_file())


def test_kernels_are_compiled_once(tmp_path: Path, compiled: list[bytes]) -> None:
    assert _compiled._object() == _compiled._object() == CODE
    assert len(compiled) == 1
    assert files(tmp_path) == [_compiled.object_path()]


def test_other_sources_and_processors_have_other_kernels(
    compiled: list[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    _compiled._object()
    monkeypatch.setattr(_compiled, "_processor", lambda: ("i8088", ""))
    _compiled._object()
    monkeypatch.setattr(_compiled, "_SOURCES", ("_kernels.py",))
    _compiled._object()
    assert len(compiled) == 3


@pytest.mark.parametrize("change", [lambda _: b"", lambda old: old[:-1], lambda old: b"garbage" + old])
def test_damaged_kernels_are_compiled_again(
    compiled: list[bytes], caplog: pytest.LogCaptureFixture, change: Callable[[bytes], bytes]
) -> None:
    _compiled._object()
    path = _compiled.object_path()
    assert path is not None
    path.write_bytes(change(path.read_bytes()))
    with caplog.at_level(logging.WARNING, "zishu.chart"):
        assert _compiled._object() == CODE
    [record] = caplog.records
    assert "is damaged" in record.getMessage()
    assert _compiled._object() == CODE
    assert len(compiled) == 2


def test_a_full_disk_costs_no_run(
    tmp_path: Path, compiled: list[bytes], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(*_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "replace", fail)
    with caplog.at_level(logging.WARNING, "zishu.chart"):
        assert _compiled._object() == CODE
    assert "cannot save the compiled chart" in caplog.text
    assert "No space left on device" in caplog.text
    assert files(tmp_path) == []
    assert _compiled._object() == CODE
    assert len(compiled) == 2


def test_without_a_folder_a_hint_is_given(
    tmp_path: Path, compiled: list[bytes], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path / "file" / "cache"))
    assert _compiled.object_path() is None
    with caplog.at_level(logging.WARNING, "zishu.chart"):
        assert _compiled._object() == CODE
    [record] = caplog.records
    assert "NUMBA_CACHE_DIR" in record.getMessage()
    assert len(compiled) == 1


def test_where_the_installation_is_not_writable_the_home_is_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("NUMBA_CACHE_DIR", raising=False)
    monkeypatch.setenv("LOCALAPPDATA" if os.name == "nt" else "XDG_CACHE_HOME", str(tmp_path))
    here, home = _compiled._folders()
    assert here == Path(_compiled.__file__).parent / "__pycache__"
    assert home == tmp_path / "zishu"


def test_of_many_at_once_one_compiles(compiled: list[bytes]) -> None:
    pytest.importorskip("fcntl")
    with ThreadPoolExecutor(6) as pool:
        assert set(pool.map(lambda _: _compiled._object(), range(6))) == {CODE}
    assert len(compiled) == 1


def test_who_hangs_while_compiling_holds_nobody_up(
    compiled: list[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    fcntl = pytest.importorskip("fcntl")
    monkeypatch.setattr(_compiled, "_PATIENCE", 0.3)
    path = _compiled.object_path()
    assert path is not None
    lock = path.with_suffix(".lock")
    with lock.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        assert _compiled._object() == CODE
        assert len(compiled) == 1
        assert lock.exists()  # not ours to remove


def test_without_an_interpreter_this_process_compiles(monkeypatch: pytest.MonkeyPatch) -> None:
    from zishu.chart import _build

    monkeypatch.setattr(sys, "executable", "/nowhere/python")
    monkeypatch.setattr(_build, "compile_kernels", lambda: CODE)
    assert _compiled._compile() == CODE


def test_numba_has_the_methods_that_compiling_goes_around() -> None:
    from numba.core import codegen, cpu

    assert callable(codegen.JITCodeLibrary._finalize_specific)
    assert callable(cpu.CPUContext.get_executable)


@pytest.mark.slow
def test_after_a_warm_up_nothing_is_compiled(tmp_path: Path) -> None:
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path)}
    done = subprocess.run([COMMAND, "warm-up"], env=environment, capture_output=True, text=True, check=True)
    assert done.stderr == ""
    assert done.stdout.startswith(str(tmp_path))
    before = files(tmp_path)
    assert before
    times = [path.stat().st_mtime_ns for path in before]
    for arguments in (["上海计划发展金融业。"], ["--k-best", "3", "我来。"], ["--words", "我 来"]):
        subprocess.run([COMMAND, "parse", *arguments], env=environment, capture_output=True, check=True)
    assert files(tmp_path) == before
    assert [path.stat().st_mtime_ns for path in before] == times


PARSE = """
import sys
import zishu
zishu.load()("上海计划发展金融业。")
assert not {"numba", "torch"} & set(sys.modules)
"""


def test_who_parses_needs_no_compiler() -> None:
    subprocess.run([sys.executable, "-c", PARSE], check=True)
