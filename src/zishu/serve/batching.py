"""Parse the requests that arrive together, together.

One thread takes what has come in, parses it in one call of the model, and hands out the answers. When it was idle it
waits a few milliseconds for company; when it was busy the next batch has gathered meanwhile. A batch holds sentences
of several requests, and a long request goes through several batches, a slice of it in each, so that short ones need not
wait for its end. Sentences are parsed together if they have the same `Mode`.

The queue is bounded, in requests and in characters: what goes beyond is refused at once. A request holds its place until
its future is done; whoever gives a request up cancels the future, which frees the place. Closing answers all that was
accepted. An error of one request never reaches another: a batch that fails is parsed again request by request.
"""

from __future__ import annotations

import contextlib
import math
import threading
import time
from collections import deque
from concurrent.futures import Future, InvalidStateError
from typing import TYPE_CHECKING

from zishu.serve.jobs import Job, Mode, analyse
from zishu.serve.problems import Problem

if TYPE_CHECKING:
    from collections.abc import Sequence

    from zishu.document import Sentence
    from zishu.items import Item
    from zishu.parser import Parser
    from zishu.serve.limits import Limits
    from zishu.serve.metrics import Metrics

_FIRST_SPEED = 5_000.0  # characters per second, until the first batch has told
_LONGEST_RETRY = 60

Answer = Future[bytes]
Place = tuple[Job, Answer]


class Batcher:
    """A queue of jobs, and the thread that works on them."""

    def __init__(self, parser: Parser, limits: Limits, metrics: Metrics, *, model: str) -> None:
        self._parser = parser
        self._limits = limits
        self._metrics = metrics
        self._model = model  # the JSON object that names the model in every answer
        self._lock = threading.Lock()
        self._arrival = threading.Condition(self._lock)
        self._queue: deque[Place] = deque()
        self._jobs = 0  # accepted and not answered
        self._chars = 0
        self._speed = _FIRST_SPEED
        self._closing = False
        self._thread = threading.Thread(target=self._run, name="zishu-batcher", daemon=True)
        self._thread.start()

    @property
    def closed(self) -> bool:
        """Tell whether it takes no more requests, for good."""
        return self._closing

    @property
    def full(self) -> bool:
        """Tell whether the next request would be refused."""
        return self._closing or self._jobs >= self._limits.queue or self._chars >= self._limits.queue_chars

    def submit(self, job: Job) -> Answer:
        """Accept a job, or raise a `Problem`; its future gets the answer."""
        answer: Answer = Future()
        limits = self._limits
        with self._lock:
            if self._closing:
                raise Problem("stopping", "the service is being stopped")
            # A request that is alone is welcome whatever its size: the limits of a request have let it pass.
            if self._jobs >= limits.queue or (self._jobs and self._chars + job.size > limits.queue_chars):
                retry = min(_LONGEST_RETRY, max(1, math.ceil(self._chars / self._speed)))
                raise Problem(
                    "busy", f"too many requests are waiting; try again in {retry} s", retry_after=retry
                )
            self._count(1, job.size)
            self._queue.append((job, answer))
            self._arrival.notify()
        answer.add_done_callback(lambda _: self._leave(job))
        return answer

    def close(self, timeout: float | None = None) -> None:
        """Answer what was accepted, then end the thread."""
        with self._lock:
            self._closing = True
            self._arrival.notify()
        self._thread.join(timeout)

    def _leave(self, job: Job) -> None:
        with self._lock:
            self._count(-1, -job.size)

    def _count(self, jobs: int, chars: int) -> None:
        self._jobs += jobs
        self._chars += chars
        self._metrics.waiting(self._jobs, self._chars)

    # ---- the thread

    def _run(self) -> None:
        limits = self._limits
        while True:
            with self._lock:
                if not self._queue:
                    self._arrival.wait_for(lambda: self._queue or self._closing)
                    self._arrival.wait_for(
                        lambda: self._closing or self._chars >= limits.batch_chars, timeout=limits.wait
                    )
                if not self._queue:
                    return
                mode, places = self._gather()
            if places:
                self._work(mode, places)

    def _gather(self) -> tuple[Mode, list[Place]]:
        """Take the oldest job and those of the same mode that fit into a batch with it; the lock is held."""
        mode = self._queue[0][0].mode
        budget = self._budget(mode)
        chosen: list[Place] = []
        others: list[Place] = []
        size = 0
        for place in self._queue:
            job, answer = place
            if answer.done():
                continue  # given up
            if job.mode == mode and size < budget:
                chosen.append(place)
                size += max(1, min(job.left, self._limits.share))
            else:
                others.append(place)
        self._queue = deque(others)
        return mode, chosen

    def _budget(self, mode: Mode) -> int:
        # The time that several analyses take grows with their number.
        return max(1, self._limits.batch_chars // mode.kbest)

    def _work(self, mode: Mode, places: Sequence[Place]) -> None:
        """Parse a slice of each job, answer those that are done, and put the others back."""
        began = time.perf_counter()
        size = max(1, min(self._limits.share, self._budget(mode)), self._budget(mode) // len(places))
        slices: list[tuple[Place, list[Item]]] = []
        for place in places:
            job, answer = place
            try:
                slices.append((place, job.take(size)))
            except Exception as error:
                _fail(answer, error)
        unfinished = []
        for (job, answer), analyses in self._analyse(mode, slices):
            try:
                job.put(analyses)
                if not job.done:
                    unfinished.append((job, answer))
                    continue
                result = job.answer(self._model)
            except Exception as error:
                _fail(answer, error)
                continue
            self._metrics.parsed(job.sentences, job.size)
            with contextlib.suppress(InvalidStateError):  # given up at this very moment
                answer.set_result(result)
        if unfinished:
            with self._lock:
                self._queue.extend(unfinished)
        chars = sum(len(item.text) for _, items in slices for item in items)
        self._note(len(slices), chars, time.perf_counter() - began)

    def _analyse(
        self, mode: Mode, slices: Sequence[tuple[Place, list[Item]]]
    ) -> list[tuple[Place, list[list[Sentence]]]]:
        """Parse slices in one call of the model; if that fails, in a call each."""
        try:
            found = iter(analyse(self._parser, mode, [item for _, items in slices for item in items]))
            return [(place, [next(found) for _ in items]) for place, items in slices]
        except Exception as error:
            if len(slices) == 1:
                _fail(slices[0][0][1], error)
                return []
        return [result for part in slices for result in self._analyse(mode, [part])]

    def _note(self, jobs: int, chars: int, seconds: float) -> None:
        self._metrics.batch(jobs, chars, seconds)
        if chars and seconds > 0:
            self._speed = max(1.0, 0.8 * self._speed + 0.2 * chars / seconds)


def _fail(answer: Answer, error: Exception) -> None:
    with contextlib.suppress(InvalidStateError):
        answer.set_exception(error)
