"""Distribute the sentences of a batch over threads; the kernels release the GIL.

We use plain threads instead of Numba's own: several callers may run at once, a forked process is unaffected, and the
kernels compile in a third of the time.
"""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from threading import Lock
from typing import TYPE_CHECKING

import numpy as np

from zishu.deal import deal

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

# Below this number of steps (sum of cubed lengths) a batch finishes before a second thread has started.
_WORTH_A_THREAD = 200_000

_lock = Lock()
_threads = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
_pool: ThreadPoolExecutor | None = None
_pool_size = 0


def set_threads(count: int) -> None:
    """Set the number of threads per batch; the default is one per core available to this process."""
    global _threads
    if count < 1:
        raise ValueError(f"the number of threads must be at least 1, not {count}")
    _threads = count


def get_threads() -> int:
    """Return the number of threads per batch."""
    return _threads


def for_each_sentence(kernel: Callable[[NDArray[np.int64]], None], lengths: NDArray[np.int64]) -> None:
    """Call `kernel` in threads, each with the numbers of sentences that are about the same amount of work."""
    longest_first = np.argsort(-lengths, kind="stable")
    shares = min(_threads, lengths.size)
    if shares > 1:
        work = lengths.astype(np.float64) ** 3
        shares = min(shares, int(work.sum() // _WORTH_A_THREAD))
    if shares <= 1:
        kernel(longest_first)
        return
    dealt = deal(work.tolist(), shares)
    pool = _get_pool(shares)
    running, mine = [], dealt[:1]
    for order in dealt[1:]:
        try:
            running.append(pool.submit(kernel, np.array(order)))
        except RuntimeError:  # the interpreter is shutting down and starts no threads
            mine.append(order)
    for order in mine:
        kernel(np.array(order))
    for future in running:
        future.result()


def _get_pool(size: int) -> ThreadPoolExecutor:
    global _pool, _pool_size
    with _lock:
        if _pool is None or _pool_size < size:
            _pool = ThreadPoolExecutor(max_workers=size, thread_name_prefix="zishu-chart")
            _pool_size = size
        return _pool


def _forget_threads() -> None:
    """Let a forked child start its own threads: it has none of its parent's, but any lock that one of them held."""
    global _lock, _pool
    _lock, _pool = Lock(), None


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_threads)
