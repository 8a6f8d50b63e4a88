"""Parse requests that arrive together in one batch.

A lane is a queue of jobs with a thread. There are two lanes, one for quick requests and one for all others: a single
sentence of a long request may take seconds, and a short request must not wait for it. The thread takes what has
arrived, parses it in one call of the model, and returns the answers. Before, it waits until no request has arrived for a
few milliseconds: those who got their answers from the last batch may send their next request now, and the larger a batch,
the less a character costs. Several threads may share the sentences of a batch: on several cores, this takes less time
than one call of the model that uses all of them.

A batch holds sentences of several requests with the same `Mode`, and a long request is spread over several batches.
Batches are small enough to take about `Limits.batch_seconds`. One batch takes the oldest requests first, the next one
the cheapest, and so on: none waits forever, and many large requests do not delay a small one. Between two batches of
long requests, the thread waits for the quick ones to finish, at most as long as its last batch took: the two share the
machine, and neither can starve the other.

The queue is limited, in requests and in characters: everything beyond is rejected immediately. Long requests fill at
most three quarters of it. A request keeps its place until its future is done; cancelling the future frees the place.
Closing answers everything that was accepted. An error in one request never affects another: a batch that fails is
parsed again, one request at a time.
"""

from __future__ import annotations

import contextlib
import math
import threading
import time
from concurrent.futures import Future, InvalidStateError, ThreadPoolExecutor, wait
from functools import partial
from typing import TYPE_CHECKING

from zishu.serve.jobs import parse_units
from zishu.serve.problems import Problem

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from zishu.parser import Parser
    from zishu.serve.jobs import Job, Mode, Unit
    from zishu.serve.limits import Limits
    from zishu.serve.metrics import Metrics

_FIRST_SPEED = 5_000.0  # characters per second, until the first batch is measured
_LONGEST_RETRY = 60
_LEAST_SHARE = 400  # cost of sentences that are worth another thread

Answer = Future[bytes]


class Lane:
    """Hold a queue of jobs, the thread that works on them, and those that parse for it."""

    def __init__(
        self, name: str, lock: threading.Lock, run: Callable[[Lane], None], patience: float, threads: int
    ) -> None:
        self.queue: list[Job] = []
        self.arrival = threading.Condition(lock)
        self.jobs = 0  # accepted but not answered
        self.chars = 0
        self.speeds: dict[Mode, float] = {}  # characters per second
        self.last_seconds = 0.0  # duration of the last batch
        self.oldest_first = True  # in the next batch; otherwise the cheapest first
        self.moved = math.inf  # time of the last progress, if there is something to do
        self.patience = patience  # maximum duration of a batch in seconds
        self.thread = threading.Thread(target=run, args=(self,), name=f"zishu-{name}", daemon=True)
        self.parsers = ThreadPoolExecutor(threads, thread_name_prefix=f"zishu-{name}-parser")

    def speed(self, job: Job) -> float:
        """Return how many characters of such jobs it parses per second."""
        return self.speeds.get(job.mode, _FIRST_SPEED / job.analyses)


class Batcher:
    """Manage the lanes and the limits of their queues; `threads` parse each batch."""

    def __init__(self, parser: Parser, limits: Limits, metrics: Metrics, *, threads: int = 1) -> None:
        self._parser = parser
        self._limits = limits
        self._metrics = metrics
        self._lock = threading.Lock()
        self.closed = False  # whether it has stopped accepting requests for good
        self._threads = threads
        self._quick = Lane("quick", self._lock, self._run, limits.stalled, threads)
        # A single sentence may take seconds in this lane.
        self._long = Lane("long", self._lock, self._run, max(limits.stalled, limits.seconds), threads)
        self._lanes = (self._quick, self._long)
        for lane in self._lanes:
            lane.thread.start()

    @property
    def full(self) -> bool:
        """Tell whether the next request would be rejected."""
        jobs, chars = self._waiting()
        return self.closed or jobs >= self._limits.queue or chars >= self._limits.queue_chars

    @property
    def stalled(self) -> bool:
        """Tell whether a thread has made no progress for some seconds though there is work."""
        now = time.monotonic()
        return any(now - lane.moved > lane.patience for lane in self._lanes)

    def submit(self, job: Job) -> Answer:
        """Accept a job, or raise a `Problem`; return the future that gets its answer."""
        lane = self._quick if job.cost <= self._limits.quick else self._long
        with self._lock:
            if self.closed:
                raise Problem("stopping")
            if not self._has_room(job, lane):
                retry = min(_LONGEST_RETRY, max(1, math.ceil(lane.chars / lane.speed(job))))
                raise Problem(
                    "busy",
                    f"too many requests are waiting; try again in {retry} s",
                    {"Retry-After": str(retry)},
                )
            self._count(lane, 1, job.size)
            lane.queue.append(job)
            if len(lane.queue) == 1:  # waking it up for every job would cost more than it saves
                lane.arrival.notify()
        job.answer.add_done_callback(partial(self._leave, lane, job))
        return job.answer

    def _has_room(self, job: Job, lane: Lane) -> bool:
        """Tell whether a job fits into the queue. A single job always does: the limits of a request allow it."""
        most_jobs, most_chars = self._limits.queue, self._limits.queue_chars
        if (
            lane is self._long
            and lane.jobs
            and (lane.jobs >= 3 * most_jobs // 4 or lane.chars + job.size > 3 * most_chars // 4)
        ):
            return False
        jobs, chars = self._waiting()
        return jobs < most_jobs and (not jobs or chars + job.size <= most_chars)

    def close(self, timeout: float | None = None) -> None:
        """Answer what was accepted, then end the threads."""
        deadline = None if timeout is None else time.monotonic() + timeout
        with self._lock:
            self.closed = True
            for lane in self._lanes:
                lane.arrival.notify()
        for lane in self._lanes:
            lane.thread.join(None if deadline is None else max(0.0, deadline - time.monotonic()))

    def _leave(self, lane: Lane, job: Job, _: Answer) -> None:
        with self._lock:
            self._count(lane, -1, -job.size)

    def _count(self, lane: Lane, jobs: int, chars: int) -> None:
        lane.jobs += jobs
        lane.chars += chars
        all_jobs, all_chars = self._waiting()
        self._metrics.waiting.set(all_jobs)
        self._metrics.waiting_chars.set(all_chars)

    def _waiting(self) -> tuple[int, int]:
        """Return how many requests were accepted but not answered, and their characters."""
        quick, long = self._quick, self._long
        return quick.jobs + long.jobs, quick.chars + long.chars

    # ---- a thread

    def _run(self, lane: Lane) -> None:
        limits = self._limits
        while True:
            with self._lock:
                if not lane.queue:
                    lane.moved = math.inf
                    self._long.arrival.notify()  # it may be waiting for the quick lane
                    lane.arrival.wait_for(lambda: lane.queue or self.closed)
                latest = time.monotonic() + limits.gather
                while not self.closed and lane.chars < limits.batch_chars:
                    before = len(lane.queue)
                    lane.arrival.wait(min(limits.wait, latest - time.monotonic()))
                    if len(lane.queue) == before or time.monotonic() >= latest:
                        break
                if lane is self._long:
                    pause = max(limits.batch_seconds, lane.last_seconds)
                    lane.arrival.wait_for(lambda: self.closed or self._quick.moved == math.inf, timeout=pause)
                if not lane.queue:
                    if self.closed:
                        lane.parsers.shutdown(wait=False)
                        return
                    continue
                lane.moved = time.monotonic()
                chosen = self._gather(lane)
            if chosen:
                self._work(lane, chosen)

    def _gather(self, lane: Lane) -> list[Job]:
        """Take jobs of one mode that fit into a batch; the caller holds the lock."""
        # Jobs that were given up, for example after a timeout, are removed here.
        waiting = lane.queue = [job for job in lane.queue if not job.answer.done()]
        if not waiting:
            return []
        ordered = waiting if lane.oldest_first else sorted(waiting, key=lambda job: job.left * job.analyses)
        lane.oldest_first = not lane.oldest_first
        budget = self._budget(lane, ordered[0])
        chosen: list[Job] = []
        size = 0
        for job in ordered:
            if job.mode != ordered[0].mode or size >= budget:
                continue
            # Preparing a long job takes time, too: a batch has at most one.
            if chosen and not job.prepared and job.cost > self._limits.quick:
                continue
            chosen.append(job)
            size += max(1, min(job.left, self._limits.share))
        taken = set(chosen)
        lane.queue = [job for job in waiting if job not in taken]
        return chosen

    def _budget(self, lane: Lane, job: Job) -> int:
        """Return the maximum cost of a batch of such jobs, so that it takes about `batch_seconds`.

        There is a minimum, because the model is slow with few sentences at a time.
        """
        most = max(1, self._limits.batch_chars // job.analyses)
        least = most // (2 if lane is self._quick else 4)
        return max(1, least, min(most, int(lane.speed(job) * self._limits.batch_seconds)))

    def _work(self, lane: Lane, jobs: Sequence[Job]) -> None:
        """Parse a part of each job, answer those that are done, and put the others back."""
        began = time.perf_counter()
        mode, budget = jobs[0].mode, self._budget(lane, jobs[0])
        size = max(1, min(self._limits.share, budget), budget // len(jobs))
        ready = []
        for job in jobs:
            try:
                job.take(size)
                ready.append(job)
            except Exception as error:
                _fail(job, error)
            lane.moved = time.monotonic()
        unfinished = []
        for job in self._parse(lane, mode, ready):
            lane.moved = time.monotonic()
            try:
                answer = job.finish()
            except Exception as error:  # otherwise it would end the thread of this lane
                _fail(job, error)
                continue
            if answer is None:
                unfinished.append(job)
                continue
            self._metrics.sentences.inc(job.sentences)
            self._metrics.chars.inc(job.size)
            with contextlib.suppress(InvalidStateError):  # cancelled at this very moment
                job.answer.set_result(answer)
        with self._lock:
            # A quick job that was split continues immediately; long ones take turns.
            lane.queue = [*unfinished, *lane.queue] if lane is self._quick else [*lane.queue, *unfinished]
        units = [unit for job in ready for unit in job.taken]
        lane.last_seconds = seconds = time.perf_counter() - began
        self._metrics.batches.observe(len(ready))
        self._metrics.batch_chars.inc(sum(len(unit.sentence.text) for unit in units))
        self._metrics.batch_seconds.inc(seconds)
        if units and seconds > 0:
            fresh = sum(unit.cost for unit in units) / seconds
            lane.speeds[mode] = max(1.0, 0.7 * lane.speed(jobs[0]) + 0.3 * fresh)

    def _parse(self, lane: Lane, mode: Mode, jobs: list[Job]) -> list[Job]:
        """Parse what was taken of jobs together, or if that fails one by one; return the jobs that did not fail."""
        units = [unit for job in jobs for unit in job.taken]
        threads = min(self._threads, sum(unit.cost for unit in units) // _LEAST_SHARE)
        parse = partial(parse_units, self._parser, mode)
        try:
            if threads <= 1:
                parse(units)
            else:
                shares = [lane.parsers.submit(parse, share) for share in _share_out(units, threads)]
                for share in wait(shares).done:
                    share.result()
        except Exception as error:
            if len(jobs) == 1:
                _fail(jobs[0], error)
                return []
            return [done for job in jobs for done in self._parse(lane, mode, [job])]
        return jobs


def _share_out(units: Sequence[Unit], count: int) -> list[list[Unit]]:
    """Divide sentences into shares of about the same cost; those of one share are of similar length."""
    shares: list[list[Unit]] = [[] for _ in range(count)]
    total, before = sum(unit.cost for unit in units), 0
    for unit in sorted(units, key=lambda unit: unit.cost):
        shares[before * count // total].append(unit)
        before += unit.cost
    return shares


def _fail(job: Job, error: Exception) -> None:
    with contextlib.suppress(InvalidStateError):
        job.answer.set_exception(error)
