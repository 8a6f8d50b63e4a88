"""Distribute tasks to processes, and return the results in the order of the tasks.

    with workers(4, setup) as run:               # `setup()` runs once in each process and returns the function for a task
        for task, result in run(tasks): ...      # tasks are taken when needed, a few per process

Processes are spawned, not forked, because the libraries below use threads. Each has its own pipe to the parent. If a
process dies, its pipe closes, and the parent reports it instead of waiting forever. If the parent dies, all processes
end. `setup`, tasks and results must be picklable. This module is independent of parsing.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import signal
from collections import deque
from concurrent.futures import Future, ThreadPoolExecutor
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any, TypeVar

from zishu.errors import ZishuError, portable, until_error

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from multiprocessing.connection import Connection
    from multiprocessing.context import SpawnProcess

_Task = TypeVar("_Task")
_Result = TypeVar("_Result")

_AHEAD = 2  # number of running or waiting tasks per process
_PATIENCE = 5.0  # seconds for a process to end by itself


@contextlib.contextmanager
def workers(
    count: int, setup: Callable[[], Callable[[_Task], _Result]]
) -> Iterator[Callable[[Iterable[_Task]], Iterator[tuple[_Task, _Result]]]]:
    """Start processes and provide a function that maps over tasks with them, for one caller at a time."""
    context = multiprocessing.get_context("spawn")
    processes: dict[Connection, SpawnProcess] = {}
    # One thread per process sends a task and waits for the result, so no pipe can fill up in both directions.
    threads = ThreadPoolExecutor(count, thread_name_prefix="worker")
    ended = False
    try:
        for _ in range(count):
            ours, theirs = context.Pipe()
            process = context.Process(target=_serve, args=(theirs, setup), daemon=True)
            process.start()
            theirs.close()  # from now on only the process holds it
            processes[ours] = process
        for pipe, process in processes.items():
            _receive(pipe, process)  # wait until it is ready; raises its error
        idle: SimpleQueue[Connection] = SimpleQueue()
        for pipe in processes:
            idle.put(pipe)

        def ask(task: _Task) -> Any:
            pipe = idle.get()
            try:
                with contextlib.suppress(OSError):  # the process has died: `_receive` reports it
                    pipe.send(task)
                return _receive(pipe, processes[pipe])
            finally:
                idle.put(pipe)

        def run(tasks: Iterable[_Task]) -> Iterator[tuple[_Task, _Result]]:
            waiting: deque[tuple[_Task, Future[Any]]] = deque()
            errors: list[Exception] = []
            # If there are no more tasks because of an error, the results of earlier ones are still returned.
            for task in until_error(tasks, errors, Exception):
                waiting.append((task, threads.submit(ask, task)))
                if len(waiting) >= _AHEAD * count:
                    done, answer = waiting.popleft()
                    yield done, answer.result()
            for done, answer in waiting:
                yield done, answer.result()
            for error in errors:
                raise error

        yield run
        ended = True
    finally:
        _stop(processes, gently=ended)
        threads.shutdown(cancel_futures=True)
        for pipe in processes:
            pipe.close()


def _receive(pipe: Connection, process: SpawnProcess) -> Any:
    try:
        value = pipe.recv()
    except (EOFError, OSError):
        process.join(_PATIENCE)
        code = process.exitcode
        how = f"was killed by signal {-code}" if code is not None and code < 0 else f"ended with code {code}"
        hint = ", perhaps out of memory; try fewer jobs" if code == -9 else ""
        raise ZishuError(f"a worker process {how}{hint}") from None
    if isinstance(value, ZishuError):
        raise value
    return value


def _stop(processes: dict[Connection, SpawnProcess], *, gently: bool) -> None:
    if gently:
        for pipe in processes:
            # Closing would not help while a thread waits for it; none does now.
            with contextlib.suppress(OSError):
                pipe.send(None)
        for process in processes.values():
            process.join(_PATIENCE)
    for process in processes.values():
        process.kill()
        process.join()


def _serve(pipe: Connection, setup: Callable[[], Callable[[Any], Any]]) -> None:
    """Run tasks until None arrives or the parent is gone."""
    # Ctrl-C reaches all processes of a terminal; the parent decides what to do.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        try:
            work = setup()
        except Exception as error:
            pipe.send(portable(error))
            return
        pipe.send(None)
        while (task := pipe.recv()) is not None:
            try:
                answer = work(task)
            except Exception as error:
                answer = portable(error)
            pipe.send(answer)
    except (EOFError, OSError):
        return
