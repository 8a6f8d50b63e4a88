"""Run networks in ONNX Runtime, safely across forks and at the end of the process.

    with at_work(): scores = Session(path).run(["encoded"], inputs)

ONNX Runtime and the chart's kernels do not handle two events in a Python process:

- **Fork.** A child inherits the sessions of its parent, but not their threads: running or closing one would wait
  forever. So a `Session` opens its file again in a child. A child also inherits every lock that some thread holds at
  that moment, so a fork waits until no thread is `at_work`.
- **Exit.** The interpreter ends daemon threads when they next request its lock. Inside C++ this aborts the process. So
  exit waits for threads that are `at_work`, and lets no daemon thread begin.

Both wait at most `PATIENCE` seconds. Cost: a few microseconds per batch.
"""

from __future__ import annotations

import atexit
import contextlib
import ctypes
import os
import threading
import weakref
from typing import TYPE_CHECKING, Any, Final

import onnxruntime

from zishu.errors import InputError
from zishu.model.files import LARGEST_NETWORK, check_file
from zishu.model.operators import check_network

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

    from numpy.typing import NDArray

PATIENCE: Final = 10.0  # seconds; a batch takes less than one


class _Gate:
    """Track the threads at work; a fork or the end of the process closes the gate."""

    def __init__(self) -> None:
        self.changed = threading.Condition()
        self.working: dict[int, int] = {}  # number of entries by thread
        self.forks = 0  # number of forks about to happen
        self.ended = False  # the interpreter is about to exit

    def enter(self) -> None:
        me, daemon = threading.get_ident(), threading.current_thread().daemon
        with self.changed:
            # A thread that is already at work must not wait for a fork that waits for it.
            if me not in self.working:
                self.changed.wait_for(lambda: not self.forks and not (self.ended and daemon))
            self.working[me] = self.working.get(me, 0) + 1

    def leave(self) -> None:
        me = threading.get_ident()
        with self.changed:
            self.working[me] -= 1
            if not self.working[me]:
                del self.working[me]
                self.changed.notify_all()

    def wait(self) -> None:
        """Wait until no other thread works; the caller holds the lock."""
        me = threading.get_ident()
        self.changed.wait_for(lambda: not self.working.keys() - {me}, PATIENCE)

    def before_fork(self) -> None:
        self.changed.acquire()
        self.forks += 1
        self.wait()

    def after_fork(self) -> None:
        self.forks -= 1
        self.changed.notify_all()
        self.changed.release()

    def end(self) -> None:
        with self.changed:
            self.ended = True
            self.wait()


_gate = _Gate()
_opened: weakref.WeakSet[Session] = weakref.WeakSet()


def _begin_anew() -> None:
    """Forget the threads of the parent, which the child does not have."""
    global _gate
    me, before = threading.get_ident(), _gate.working
    _gate = _Gate()
    if me in before:
        _gate.working[me] = before[me]
    for session in list(_opened):
        session.abandon()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(
        before=lambda: _gate.before_fork(),
        after_in_parent=lambda: _gate.after_fork(),
        after_in_child=_begin_anew,
    )
atexit.register(lambda: _gate.end())


@contextlib.contextmanager
def at_work() -> Iterator[None]:
    """Make forks and the end of the process wait while this thread uses networks or the chart."""
    _gate.enter()
    try:
        yield
    finally:
        _gate.leave()


class Session:
    """Run a network in ONNX Runtime; threads may share it."""

    __slots__ = ("__weakref__", "_lock", "_path", "_process", "_session", "_threads", "inputs", "outputs")

    def __init__(self, path: Path, *, threads: int = 0) -> None:
        self._path, self._threads = path.absolute(), threads
        self._session = _open(path, threads)
        self._process, self._lock = os.getpid(), threading.Lock()
        self.inputs = frozenset(node.name for node in self._session.get_inputs())
        self.outputs = tuple(node.name for node in self._session.get_outputs())
        _opened.add(self)

    def run(self, outputs: Sequence[str], inputs: Mapping[str, NDArray[Any]]) -> list[Any]:
        """Return the named outputs."""
        if self._process != os.getpid():
            self._open_again()
        found: list[Any] = self._session.run(list(outputs), dict(inputs))
        return found

    def abandon(self) -> None:
        """Never close this session: in a child, that would wait for threads of the parent."""
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(self._session))

    def _open_again(self) -> None:
        with self._lock:
            if self._process != os.getpid():
                self._session = _open(self._path, self._threads)
                self._process = os.getpid()


def _open(path: Path, threads: int) -> Any:
    check_file(path, LARGEST_NETWORK)
    check_network(path)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.inter_op_num_threads = 1
    # Otherwise a network's threads would spin for a while, waiting for the next run, while the chart or another process
    # needs the cores.
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    options.log_severity_level = 4  # fatal errors only: errors are also raised
    try:
        return onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    except Exception as error:  # ONNX Runtime's exceptions have no common base class
        raise InputError(f"{path}: not a network that ONNX Runtime can read: {first_line(error)}") from error


def first_line(error: Exception) -> str:
    """Return the first line of an exception's message, or its type if it has none."""
    return (str(error).strip().splitlines() or [type(error).__name__])[0]
