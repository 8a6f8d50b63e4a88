"""A parser in a process that forks, and in one that ends while threads parse; each test runs its own process."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import textwrap
import threading
from typing import TYPE_CHECKING

import numpy as np
import pytest

from zishu.errors import InputError
from zishu.model import sessions
from zishu.model.files import find_model

if TYPE_CHECKING:
    from pathlib import Path

needs_fork = pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")

# Long enough for threads in the network and in the chart.
SETUP = """
import os, signal, sys, threading, time
import zishu
nlp = zishu.load("fast", threads=2)
TEXT = "上海计划发展金融业，我们昨天在图书馆里看了很多新书。" * 20

def words(text=TEXT):
    return [word.form for sentence in nlp(text) for word in sentence]

def parse_on():
    while True:
        words()

here = words()
"""


def run(script: str, *, seconds: float = 240) -> str:
    """Run a script and return its output; an error, a signal or a hang is a failure."""
    done = subprocess.run(
        [sys.executable, "-W", "ignore::DeprecationWarning", "-c", SETUP + textwrap.dedent(script)],
        capture_output=True,
        text=True,
        timeout=seconds,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


@needs_fork
def test_children_parse_while_threads_of_the_parent_do() -> None:
    out = run("""
        for _ in range(2):
            threading.Thread(target=parse_on, daemon=True).start()
        for number in range(8):
            child = os.fork()
            if not child:
                signal.alarm(60)  # ends a child that hangs
                same = words() == here
                # Threads of a child share the sessions that the first of them opens again.
                found = []
                several = [threading.Thread(target=lambda: found.append(words() == here)) for _ in range(3)]
                for one in several: one.start()
                for one in several: one.join()
                os._exit(0 if same and found == [True] * 3 else 1)
            print(os.waitpid(child, 0)[1], flush=True)
    """)
    assert out.split() == ["0"] * 8


@needs_fork
def test_a_child_ends_like_any_other_process_and_so_does_its_own_child() -> None:
    out = run("""
        for depth in range(3):
            child = os.fork()
            if child:
                print(depth, os.waitpid(child, 0)[1], words() == here, flush=True)
                break
        else:
            print("innermost", words() == here, flush=True)
    """)
    assert sorted(out.splitlines()) == ["0 0 True", "1 0 True", "2 0 True", "innermost True"]


@needs_fork
def test_a_pool_of_forked_processes_parses() -> None:
    out = run("""
        import multiprocessing
        with multiprocessing.get_context("fork").Pool(2) as pool:
            print(pool.map(words, [TEXT] * 4) == [here] * 4)
    """)
    assert out == "True\n"


def test_the_process_ends_cleanly_while_daemon_threads_parse() -> None:
    for _ in range(4):
        out = run("""
            for _ in range(3):
                threading.Thread(target=parse_on, daemon=True).start()
            time.sleep(0.3)
            print("end", flush=True)
        """)
        assert out == "end\n"


def test_functions_that_run_at_exit_may_parse() -> None:
    out = run("""
        import atexit
        # Registered late, it runs before Zishu's own; called by an early one, it runs after it.
        atexit.register(lambda: print(words("我来。")))
        from zishu.model.sessions import _gate
        _gate.end()
        print(words("他来。"))
    """)
    assert out.count("来") == 2


def test_a_fork_waits_for_work_and_work_for_a_fork() -> None:
    gate = sessions._Gate()
    log: list[str] = []
    began, go_on = threading.Event(), threading.Event()

    def work() -> None:
        gate.enter()
        began.set()
        go_on.wait(10)
        log.append("worked")
        gate.leave()

    worker = threading.Thread(target=work)
    worker.start()
    assert began.wait(10)

    def fork() -> None:
        gate.before_fork()
        log.append("forked")
        gate.after_fork()

    forker = threading.Thread(target=fork)
    forker.start()
    while not gate.forks:
        pass
    late = threading.Thread(target=lambda: (gate.enter(), log.append("late"), gate.leave()))  # type: ignore[func-returns-value]
    late.start()
    go_on.set()
    for thread in (worker, forker, late):
        thread.join(10)
    assert log == ["worked", "forked", "late"]


def test_a_thread_at_work_may_fork(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sessions, "PATIENCE", 60.0)
    gate = sessions._Gate()
    gate.enter()
    gate.before_fork()  # a signal handler, for example
    gate.after_fork()
    gate.enter()
    gate.leave()
    gate.leave()
    assert not gate.working


def test_a_daemon_thread_begins_nothing_at_the_end() -> None:
    gate = sessions._Gate()
    gate.end()
    gate.enter()  # the main thread may still begin
    gate.leave()
    late = threading.Thread(target=gate.enter, daemon=True)
    late.start()
    late.join(0.2)
    assert late.is_alive()
    gate.ended = False  # release it
    with gate.changed:
        gate.changed.notify_all()
    late.join(10)
    assert not late.is_alive()


def test_a_child_says_so_if_its_model_is_gone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "labels.onnx"
    shutil.copyfile(find_model("fast") / path.name, path)
    session = sessions.Session(path, threads=1)
    width = session._session.get_inputs()[0].shape[1]
    ends = {name: np.zeros((1, width), np.float32) for name in session.inputs}
    before = session.run(["labels"], ends)[0]
    monkeypatch.setattr(os, "getpid", lambda: -1)  # as in a child
    assert (session.run(["labels"], ends)[0] == before).all()
    path.unlink()
    monkeypatch.setattr(os, "getpid", lambda: -2)
    with pytest.raises(InputError, match=r"labels\.onnx: no such file"):
        session.run(["labels"], ends)
