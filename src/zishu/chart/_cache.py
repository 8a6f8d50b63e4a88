"""Keep the compiled kernels on disk, safely: Numba's cache, with a lock, and without trust in what it finds.

- A damaged cache, or a disk that is full, costs time but never a run: the kernels are compiled, and a warning says why.
- Of several processes with an empty cache one compiles. The others wait for it, and read what it wrote.
- A user who waits for the compiler gets a message: it goes to the logger `zishu.chart`, which `zishu` shows on a terminal.

Where no folder can be written to, kernels are compiled in every process. `NUMBA_CACHE_DIR` names a folder.
"""

from __future__ import annotations

import contextlib
import logging
import os
import time
from typing import Any, Final

from numba.core.caching import FunctionCache, NullCache

try:
    import fcntl
except ModuleNotFoundError:  # Windows
    fcntl = None  # type: ignore[assignment]

_LOG: Final = logging.getLogger("zishu.chart")
_PATIENCE: Final = 180.0  # seconds to wait for a process that compiles; it may hang
_POLL: Final = 0.2

_said: set[str] = set()


def keep_on_disk(kernel: Any) -> Any:
    """Give a kernel, which is not compiled yet, its place on disk; without one it is compiled in every process."""
    try:
        kernel._cache = _Cache(kernel.py_func)
    except RuntimeError:  # neither the installation nor a home can be written to
        kernel._cache = _NoCache()
    return kernel


def folder_of(kernel: Any) -> str | None:
    """Return the folder that keeps a compiled kernel, None if there is none."""
    folder: str | None = kernel._cache.cache_path
    return folder


def _say(level: int, message: str) -> None:
    """Say something once in a process: there are several kernels."""
    if message not in _said:
        _said.add(message)
        _LOG.log(level, message)


class _NoCache(NullCache):
    def load_overload(self, *_: Any) -> None:
        _say(
            logging.WARNING,
            "compiling the chart for this process only, some ten seconds: no folder for it can be written to "
            "(the environment variable NUMBA_CACHE_DIR names one)",
        )


class _Cache(FunctionCache):
    """The cache of one kernel; between a look-up that fails and the end of the compilation it holds a lock."""

    def __init__(self, function: Any) -> None:
        super().__init__(function)  # type: ignore[no-untyped-call]
        self._lock_path = os.path.join(self._cache_path, f"{self._impl.filename_base}.lock")  # noqa: PTH118
        self._lock: int | None = None

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        """Return the compiled kernel, or None if this process has to compile it."""
        found = self._look(sig, target_context)
        if found is not None:
            return found
        _say(logging.INFO, "compiling the chart, once; this takes some ten seconds")
        self._acquire()
        found = self._look(sig, target_context)
        if found is not None:
            self._release()
        return found

    def save_overload(self, sig: Any, data: Any) -> None:
        """Keep the compiled kernel, if there is room for it."""
        try:
            super().save_overload(sig, data)  # type: ignore[no-untyped-call]
        except Exception as error:
            _say(
                logging.WARNING,
                f"cannot keep the compiled chart in {self.cache_path} ({getattr(error, 'strerror', None) or error}); "
                "the next process compiles it again",
            )
        finally:
            self._release()

    def _look(self, sig: Any, target_context: Any) -> Any:
        try:
            return super().load_overload(sig, target_context)  # type: ignore[no-untyped-call]
        except Exception as error:  # whatever the bytes of a damaged file make pickle do
            _say(
                logging.WARNING,
                f"the compiled chart in {self.cache_path} is damaged ({type(error).__name__}); it is compiled again",
            )
            with contextlib.suppress(OSError):
                os.unlink(self._cache_file._index_path)  # noqa: PTH108
            return None

    def _acquire(self) -> None:
        """Wait until no other process compiles this kernel; not for ever, and not where there are no locks."""
        if fcntl is None or self._lock is not None:
            return
        with contextlib.suppress(OSError):
            flags = os.O_CREAT | os.O_RDWR | getattr(os, "O_NOFOLLOW", 0)
            descriptor = os.open(self._lock_path, flags, 0o666)
            end = time.monotonic() + _PATIENCE
            while time.monotonic() < end:
                try:
                    fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                except BlockingIOError:
                    time.sleep(_POLL)
                except OSError:
                    break
                else:
                    self._lock = descriptor
                    return
            os.close(descriptor)

    def _release(self) -> None:
        if self._lock is not None:
            # Removed before it is unlocked. Who waits for it finds the kernel, and who comes later needs no lock.
            with contextlib.suppress(OSError):
                os.unlink(self._lock_path)  # noqa: PTH108
            os.close(self._lock)
            self._lock = None
