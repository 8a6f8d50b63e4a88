"""Cache the compiled kernels on disk: Numba's cache with a lock, robust against damaged files.

- A damaged cache or a full disk never fails a run: the kernels are compiled again, and a warning gives the reason.
- If several processes find an empty cache, one compiles. The others wait for it and load the result.
- A message tells the user about the wait. It goes to the logger `zishu.chart`, which `zishu` shows on a terminal.

If no folder is writable, every process compiles the kernels. `NUMBA_CACHE_DIR` sets the folder.
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
_PATIENCE: Final = 180.0  # seconds to wait for another process to compile; it may hang
_POLL: Final = 0.2

_said: set[str] = set()


def keep_on_disk(kernel: Any) -> Any:
    """Cache a kernel on disk before it is compiled; without a folder, every process compiles it."""
    try:
        kernel._cache = _Cache(kernel.py_func)
    except RuntimeError:  # neither the installation nor the home directory is writable
        kernel._cache = _NoCache()
    return kernel


def folder_of(kernel: Any) -> str | None:
    """Return the folder of a compiled kernel, None if there is none."""
    folder: str | None = kernel._cache.cache_path
    return folder


def _say(level: int, message: str) -> None:
    """Log a message once per process, because there are several kernels."""
    if message not in _said:
        _said.add(message)
        _LOG.log(level, message)


class _NoCache(NullCache):
    def load_overload(self, *_: Any) -> None:
        _say(
            logging.WARNING,
            "compiling the chart for this process only (about ten seconds): no cache folder is writable "
            "(set NUMBA_CACHE_DIR)",
        )


class _Cache(FunctionCache):
    """Cache one kernel; hold a lock from a failed lookup until the end of the compilation."""

    def __init__(self, function: Any) -> None:
        super().__init__(function)  # type: ignore[no-untyped-call]
        self._lock_path = os.path.join(self._cache_path, f"{self._impl.filename_base}.lock")  # noqa: PTH118
        self._lock: int | None = None

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        """Return the compiled kernel, or None if this process must compile it."""
        found = self._look(sig, target_context)
        if found is not None:
            return found
        _say(logging.INFO, "compiling the chart once; this takes about ten seconds")
        self._acquire()
        found = self._look(sig, target_context)
        if found is not None:
            self._release()
        return found

    def save_overload(self, sig: Any, data: Any) -> None:
        """Save the compiled kernel if the disk allows it."""
        try:
            super().save_overload(sig, data)  # type: ignore[no-untyped-call]
        except Exception as error:
            _say(
                logging.WARNING,
                f"cannot save the compiled chart in {self.cache_path} ({getattr(error, 'strerror', None) or error}); "
                "the next process will compile it again",
            )
        finally:
            self._release()

    def _look(self, sig: Any, target_context: Any) -> Any:
        try:
            return super().load_overload(sig, target_context)  # type: ignore[no-untyped-call]
        except Exception as error:  # a damaged file can make pickle raise anything
            _say(
                logging.WARNING,
                f"the compiled chart in {self.cache_path} is damaged ({type(error).__name__}); compiling it again",
            )
            with contextlib.suppress(OSError):
                os.unlink(self._cache_file._index_path)  # noqa: PTH108
            return None

    def _acquire(self) -> None:
        """Wait while another process compiles this kernel; give up after a while, or without file locks."""
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
            # Remove it before unlocking. Waiting processes find the kernel, and later ones need no lock.
            with contextlib.suppress(OSError):
                os.unlink(self._lock_path)  # noqa: PTH108
            os.close(self._lock)
            self._lock = None
