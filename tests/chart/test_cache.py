"""The compiled kernels on disk: damaged, full, shared by processes, absent."""

from __future__ import annotations

import errno
import importlib.util
import logging
import os
import subprocess
import sys
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from numba.core import caching, config

from zishu.chart import _cache

if TYPE_CHECKING:
    from collections.abc import Callable

COMMAND = Path(sys.executable).with_name("zishu")
KERNEL = """
from numba import njit
from zishu.chart._cache import keep_on_disk
def add(x, y):
    return x + y
kernel = keep_on_disk(njit(add))
"""
_numbers = count()


@pytest.fixture
def fresh(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[], Any]:
    """Return a function that loads a small kernel as a new process would, with a cache in `tmp_path / "cache"`."""
    source = tmp_path / "small_kernel.py"
    source.write_text(KERNEL, encoding="utf-8")
    monkeypatch.setattr(config, "CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setattr(_cache, "_said", set())

    def load() -> Any:
        spec = importlib.util.spec_from_file_location(f"small_kernel_{next(_numbers)}", source)
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        return module.kernel

    return load


def files(folder: Path, ending: str = "") -> list[Path]:
    return sorted(path for path in folder.rglob(f"*{ending}") if path.is_file())


def test_a_kernel_is_compiled_once(tmp_path: Path, fresh: Callable[[], Any]) -> None:
    first, second = fresh(), fresh()
    assert first(1, 2) == 3
    assert second(1, 2) == 3
    assert sum(first.stats.cache_misses.values()) == 1
    assert sum(second.stats.cache_hits.values()) == 1
    assert not files(tmp_path / "cache", ".lock")
    assert _cache.folder_of(first).startswith(str(tmp_path / "cache"))


@pytest.mark.parametrize("ending", [".nbi", ".nbc"])
@pytest.mark.parametrize("content", [b"", b"\x80\x05garbage", None])
def test_a_damaged_cache_is_compiled_again(
    tmp_path: Path,
    fresh: Callable[[], Any],
    caplog: pytest.LogCaptureFixture,
    ending: str,
    content: bytes | None,
) -> None:
    fresh()(1, 2)
    [path] = files(tmp_path / "cache", ending)
    path.write_bytes(path.read_bytes()[:-20] if content is None else content)
    with caplog.at_level(logging.WARNING, "zishu.chart"):
        assert fresh()(1, 2) == 3
    assert [record.getMessage() for record in caplog.records if "is damaged" in record.getMessage()]
    assert len(caplog.records) == 1
    again = fresh()
    assert again(1, 2) == 3
    assert sum(again.stats.cache_hits.values()) == 1


def test_a_full_disk_costs_no_run(
    tmp_path: Path,
    fresh: Callable[[], Any],
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    def fail(*_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(caching.IndexDataCacheFile, "_save_data", fail)
    with caplog.at_level(logging.WARNING, "zishu.chart"):
        assert fresh()(1, 2) == 3
    assert "cannot save the compiled chart" in caplog.text
    assert "No space left on device" in caplog.text
    assert not files(tmp_path / "cache", ".lock")
    assert fresh()(1, 2) == 3


def test_without_a_folder_a_hint_is_given(
    fresh: Callable[[], Any], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def refuse(self: object) -> None:
        raise OSError(errno.EROFS, os.strerror(errno.EROFS))

    monkeypatch.setattr(caching._CacheLocator, "ensure_cache_path", refuse)
    kernel = fresh()
    assert _cache.folder_of(kernel) is None
    with caplog.at_level(logging.WARNING, "zishu.chart"):
        assert kernel(1, 2) == 3
        assert kernel(1.5, 2) == 3.5
    [record] = caplog.records
    assert "NUMBA_CACHE_DIR" in record.getMessage()


def test_of_many_processes_one_compiles(tmp_path: Path) -> None:
    (tmp_path / "small_kernel.py").write_text(KERNEL, encoding="utf-8")
    code = "from small_kernel import kernel; kernel(1, 2); print(sum(kernel.stats.cache_misses.values()))"
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path / "cache")}
    environment["PYTHONPATH"] = os.pathsep.join([str(tmp_path), *sys.path])
    processes = [
        subprocess.Popen([sys.executable, "-c", code], env=environment, stdout=subprocess.PIPE)
        for _ in range(6)
    ]
    compiled = [int(process.communicate(timeout=300)[0]) for process in processes]
    assert sum(compiled) == 1


def test_who_hangs_while_compiling_holds_nobody_up(
    tmp_path: Path, fresh: Callable[[], Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    fcntl = pytest.importorskip("fcntl")
    monkeypatch.setattr(_cache, "_PATIENCE", 0.3)
    kernel = fresh()
    lock = Path(kernel._cache._lock_path)
    lock.parent.mkdir(parents=True, exist_ok=True)
    with lock.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        assert kernel(1, 2) == 3
        assert lock.exists()  # not ours to remove


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
