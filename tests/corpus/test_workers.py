"""Tasks in processes: the order of results, and every way a process can end."""

from __future__ import annotations

import os
import signal

import pytest

from zishu.corpus.workers import workers
from zishu.errors import InputError, ZishuError

# Work for other processes; they import this module to find it.


def give_doubles():
    return lambda task: 1 / 0 if task == 0 else task * 2


def fail_to_start():
    raise InputError("no model here")


def die():
    os.kill(os.getpid(), signal.SIGKILL)


def die_at_work():
    return lambda task: die() if task == 3 else task


@pytest.mark.skipif(os.name != "posix", reason="signals as on POSIX")
def test_processes_keep_the_order_and_their_failures_are_told():
    with workers(2, give_doubles) as work:
        assert list(work(range(1, 30))) == [(k, 2 * k) for k in range(1, 30)]
        with pytest.raises(ZishuError, match="internal error: ZeroDivisionError"):
            list(work([1, 0]))
    with pytest.raises(InputError, match="no model here"), workers(1, fail_to_start):
        pass
    with pytest.raises(ZishuError, match="a worker process was killed by signal 9"), workers(1, die):
        pass
    seen = []
    with pytest.raises(ZishuError, match="killed by signal 9"), workers(2, die_at_work) as work:  # noqa: PT012
        for task, result in work(range(100)):
            seen.append((task, result))
    assert seen == [(0, 0), (1, 1), (2, 2)]
