"""Call the compiled kernels: load them from disk, or compile them first.

Numba compiles `_kernels` in a process of its own (`_build`), which returns an object file. LLVM alone loads that, so a
process that parses never imports Numba, which would take more time and memory than the bundled model. The object file is
kept on disk. Its name has a digest of everything that it depends on: the sources, LLVM, the processor.

- A damaged file or a full disk never fails a run: the kernels are compiled again, and a warning gives the reason.
- If several processes find no file, one compiles. The others wait for it and load the result.
- A message tells the user about the wait. It goes to the logger `zishu.chart`, which `zishu` shows on a terminal.

The folder is `NUMBA_CACHE_DIR`, otherwise the one of Python's own compiled files, otherwise one in the user's home. If
none is writable, every process compiles the kernels.
"""

from __future__ import annotations

import contextlib
import ctypes
import hashlib
import logging
import os
import subprocess
import sys
import tempfile
import time
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import llvmlite
import numpy as np
from llvmlite import binding

from zishu.chart._layout import SAMPLE

try:
    import fcntl
except ModuleNotFoundError:  # Windows
    fcntl = None  # type: ignore[assignment]

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from zishu.chart._layout import Answers, Batch

_LOG: Final = logging.getLogger("zishu.chart")
_PATIENCE: Final = 180.0  # seconds to wait for another process to compile; it may hang
_POLL: Final = 0.2
_SOURCES: Final = ("_kernels.py", "_vectors.py", "_layout.py", "_build.py", "_compiled.py", "../gaps.py")
_DIGEST: Final = 32  # bytes of a digest, which precede the object


# --- calls


def prepare(
    scores: NDArray[np.float64],
    lengths: NDArray[np.int64],
    offset: NDArray[np.float64],
    allowed: NDArray[np.int64],
) -> None:
    """Shift the scores of a batch and count the allowed arcs: see `_kernels.prepare`."""
    address = scores.ctypes.data
    load_kernels()["prepare"](
        address, address, lengths.ctypes.data, offset.ctypes.data, allowed.ctypes.data, *scores.shape[:3]
    )


def run(
    task: int, order: NDArray[np.int64], batch: Batch, answers: Answers, chart: NDArray[np.float64], seed: int
) -> None:
    """Run a task for the sentences in `order`, in the memory of `chart`: see `_kernels.run`."""
    m, trees = chart.shape[1], answers.heads.shape[1]
    stack, draws = np.empty((3 * m, 3), dtype=np.int64), np.zeros((trees, 3 * m))
    if task == SAMPLE:
        # Drawn in this order, the numbers of a tree do not depend on m.
        draws[:] = np.random.default_rng(seed).random((3 * m, trees)).T
    arrays = (order, *batch[:5], *answers, chart, stack, draws)
    load_kernels()["run"](
        *(array.ctypes.data for array in arrays), task, order.size, *batch.scores.shape[1:3], batch.gap_scores.shape[2],
        answers.arcs.shape[3], trees, m, batch.root_as_head,
    )  # fmt: skip


@cache
def load_kernels() -> dict[str, Any]:
    """Return the entries of the kernels; compile them if needed."""
    engine = binding.create_mcjit_compiler(binding.parse_assembly(""), target_machine())
    engine.add_object_file(binding.ObjectFileRef.from_data(_object()))
    engine.finalize_object()
    entries = {
        name: ctypes.CFUNCTYPE(None, *[ctypes.c_int64] * count)(engine.get_function_address(name))
        for name, count in (("prepare", 8), ("run", 23))
    }
    return entries | {"engine": engine}  # which owns the code


def target_machine() -> Any:
    """Return LLVM's description of this processor."""
    binding.initialize_native_target()
    binding.initialize_native_asmprinter()
    target = binding.Target.from_triple(binding.get_process_triple())
    name, features = _processor()
    return target.create_target_machine(cpu=name, features=features, opt=3, codemodel="jitdefault", jit=True)


def _processor() -> tuple[str, str]:
    return binding.get_host_cpu_name(), binding.get_host_cpu_features().flatten()


# --- the object file


def object_path() -> Path | None:
    """Return where the object file is or would be; None if no folder is writable."""
    parts = [Path(__file__, "..", source).resolve().read_bytes() for source in _SOURCES]
    parts += [part.encode() for part in (llvmlite.__version__, binding.get_process_triple(), *_processor())]
    digest = hashlib.sha256(b"".join(hashlib.sha256(part).digest() for part in parts)).hexdigest()
    for folder in _folders():
        path = folder / f"zishu-chart-{digest[:20]}.o"
        with contextlib.suppress(OSError):
            if path.exists():
                return path
            folder.mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryFile(dir=folder):
                return path
    return None


def _folders() -> Iterator[Path]:
    if given := os.environ.get("NUMBA_CACHE_DIR"):
        yield Path(given)
        return
    yield Path(__file__).parent / "__pycache__"
    home = os.environ.get("LOCALAPPDATA" if os.name == "nt" else "XDG_CACHE_HOME")
    with contextlib.suppress(RuntimeError):  # there is no home
        yield (Path(home) if home else Path.home() / ".cache") / "zishu"


def _object() -> bytes:
    """Return the object file; compile it if it is not on disk."""
    path = object_path()
    if path is None:
        _LOG.warning(
            "compiling the chart for this process only (some seconds): no cache folder is writable (set NUMBA_CACHE_DIR)"
        )
        return _compile()
    if (found := _read(path)) is not None:
        return found
    _LOG.info("compiling the chart once; this takes some seconds")
    with _locked(path.with_suffix(".lock")):
        if (found := _read(path)) is not None:
            return found
        compiled = _compile()
        try:
            _write(path, compiled)
        except OSError as error:
            _LOG.warning(
                "cannot save the compiled chart in %s (%s); the next process will compile it again",
                path.parent,
                error.strerror or error,
            )
    return compiled


def _read(path: Path) -> bytes | None:
    """Return the content of the object file; None if there is none, or a damaged one, which is removed."""
    try:
        content = path.read_bytes()
    except FileNotFoundError:
        return None
    except OSError as error:
        content = b""
        reason = error.strerror
    else:
        reason = "its digest is wrong"
    if content and hashlib.sha256(content[_DIGEST:]).digest() == content[:_DIGEST]:
        return content[_DIGEST:]
    _LOG.warning("the compiled chart %s is damaged (%s); compiling it again", path, reason)
    path.unlink(missing_ok=True)
    return None


def _write(path: Path, compiled: bytes) -> None:
    """Write the object file at once, so that no other process reads a part of it."""
    with tempfile.NamedTemporaryFile(dir=path.parent, prefix=path.stem, suffix=".part", delete=False) as file:
        try:
            file.write(hashlib.sha256(compiled).digest() + compiled)
            file.close()
            os.chmod(file.name, 0o644)  # noqa: PTH101
            os.replace(file.name, path)  # noqa: PTH105
        except BaseException:
            file.close()
            os.unlink(file.name)  # noqa: PTH108
            raise


def _compile() -> bytes:
    """Compile the kernels in another process; in this one if there is no interpreter to start."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "NUMBA_OPT": "0"}  # see `_build`
    try:
        return subprocess.run(
            [sys.executable, "-m", "zishu.chart._build"], env=environment, check=True, stdout=subprocess.PIPE
        ).stdout
    except (OSError, subprocess.SubprocessError):
        from zishu.chart._build import compile_kernels

        return compile_kernels()


@contextlib.contextmanager
def _locked(path: Path) -> Iterator[None]:
    """Hold a lock; go on without it after a while, or if there are no file locks."""
    lock = _acquire(path)
    try:
        yield
    finally:
        if lock is not None:
            # Remove it before unlocking. Waiting processes find the object file, and later ones need no lock.
            with contextlib.suppress(OSError):
                path.unlink()
            os.close(lock)


def _acquire(path: Path) -> int | None:
    if fcntl is None:
        return None
    with contextlib.suppress(OSError):
        descriptor = os.open(path, os.O_CREAT | os.O_RDWR | getattr(os, "O_NOFOLLOW", 0), 0o666)
        end = time.monotonic() + _PATIENCE
        while time.monotonic() < end:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                time.sleep(_POLL)
            except OSError:
                break
            else:
                return descriptor
        os.close(descriptor)
    return None
