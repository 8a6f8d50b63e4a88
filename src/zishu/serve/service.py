"""Answer requests: read a body within its limits, wait for the answer, and notice a client that leaves.

Large bodies are decoded in a separate thread, so the event loop can answer others meanwhile.

This layer connects HTTP and the batcher. `Service` is the state of one worker process.
"""

from __future__ import annotations

import asyncio
import json
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from starlette.requests import ClientDisconnect

from zishu import __version__
from zishu.errors import InputError
from zishu.serve.batching import Answer, Batcher
from zishu.serve.jobs import Job
from zishu.serve.metrics import Metrics
from zishu.serve.problems import Problem
from zishu.serve.schema import ConvertRequest, ParseRequest, read_request

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from starlette.requests import Request
    from starlette.types import Receive

    from zishu.parser import Parser
    from zishu.serve.limits import Limits

    Decoder = Callable[[bytes, Limits], ParseRequest | ConvertRequest]

_SMALL: Final = 64 * 1024  # bytes: too small for a thread and for the shared limit
_RETRY: Final = 0.05  # seconds until a line of a stream tries again to enter the queue

# The limits that a client may want to know.
_TOLD = (
    "body", "convert_body", "chars", "texts", "lexicon", "lexicon_word", "constraints", "k_best", "seconds",
)  # fmt: skip


class Service:
    """Hold a parser, its batcher, and the limits.

    `stopping` tells whether the process was asked to end; `threads` parse each batch.
    """

    def __init__(
        self,
        parser: Parser,
        limits: Limits,
        *,
        stopping: Callable[[], bool] = lambda: False,
        threads: int = 1,
    ) -> None:
        self.limits = limits
        self.metrics = Metrics()
        self.stopping = stopping
        self.model = describe(parser, limits)
        named = {key: self.model[key] for key in ("name", "version", "styles")}
        self._named = json.dumps(named, ensure_ascii=False)  # in every answer
        self._parser = parser
        self._make_batcher = partial(Batcher, parser, limits, self.metrics, threads=threads)
        # Not first in `open`: an app that is mounted in another one gets no startup event.
        self.batcher = self._make_batcher()
        self._streams = 0
        self._held = 0  # bytes of undecoded bodies in memory
        self._decode_from = 0.0  # earliest time to decode the next one
        self._decoder = ThreadPoolExecutor(1, thread_name_prefix="zishu-decoder")

    def open(self) -> None:
        """Accept requests, also after the app was stopped and started again."""
        if self.batcher.closed:
            self.batcher = self._make_batcher()

    @property
    def ready(self) -> bool:
        """Tell whether the next request would be accepted and probably answered."""
        return not (self.stopping() or self.batcher.full or self.batcher.stalled)

    async def answer(
        self, request: Request, decode: Decoder = read_request, *, limit: int | None = None
    ) -> bytes:
        """Return the answer to a request whose head has arrived, and give up when the client leaves.

        `limit` is the maximum size of its body in bytes (default: `limits.body`). All errors are a `Problem` or a
        `ClientDisconnect`.
        """
        deadline = time.monotonic() + self.limits.seconds
        with self.holding() as hold:
            body = await self._receive(request, limit or self.limits.body, hold)
            job = await self.read(body, decode)
        return await self._wait(self.batcher.submit(job), request.receive, deadline=deadline)

    async def _receive(self, request: Request, limit: int, hold: Callable[[int], None]) -> bytes:
        """Return the body of a request."""
        too_large = Problem("too_large", f"the body has more than the {limit} bytes that are allowed")
        length = request.headers.get("content-length", "")
        if length.isdecimal() and int(length[:20]) > limit:
            raise too_large
        body = bytearray()
        try:
            async with asyncio.timeout(min(self.limits.body_seconds, self.limits.seconds)):
                async for part in request.stream():
                    body += part
                    if len(body) > limit:
                        raise too_large
                    hold(len(body))
        except TimeoutError:
            raise Problem("body_timeout", "the body did not arrive in time") from None
        return bytes(body)

    async def read(self, data: bytes, decode: Decoder = read_request) -> Job:
        """Read a request; raise a `Problem` for any error."""
        if len(data) <= _SMALL:
            return self._job(data, decode)
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._decoder, self._decode, data, decode)

    def _job(self, data: bytes, decode: Decoder) -> Job:
        job = Job(decode(data, self.limits), self._named)
        try:
            if job.mode:
                self._parser.in_style(job.mode.style)
            self._parser.check_tags(job.tags)
        except InputError as error:
            raise Problem("invalid_input", str(error)) from None
        return job

    def _decode(self, data: bytes, decode: Decoder) -> Job:
        """Decode a body in its own thread."""
        began = time.monotonic()
        if began < self._decode_from:
            time.sleep(self._decode_from - began)
            began = time.monotonic()
        try:
            return self._job(data, decode)
        finally:
            # No other thread runs while a body is decoded, so the others get twice that time before the next one.
            ended = time.monotonic()
            self._decode_from = ended + 2 * (ended - began)

    @contextmanager
    def holding(self) -> Iterator[Callable[[int], None]]:
        """Count the bytes of a body in memory; all unread bodies share `limits.bodies` bytes.

        Call the result with the size of the body whenever it changes; it raises a `Problem` if that is too much.
        """
        held = 0

        def hold(size: int) -> None:
            nonlocal held
            fresh = max(0, size - _SMALL) - held
            if fresh > 0 and self._held + fresh > self.limits.bodies:
                raise Problem("busy", "too many large bodies are being sent", retry_after=5)
            held += fresh
            self._held += fresh

        try:
            yield hold
        finally:
            self._held -= held

    async def answer_line(self, job: Job) -> bytes:
        """Return the answer to a line of a stream; it waits if the queue is full, unlike a single request.

        Its time begins when it is accepted: how long it waits before does not depend on its client.
        """
        while True:
            try:
                accepted = self.batcher.submit(job)
                break
            except Problem as problem:
                if problem.code != "busy":
                    raise
            await asyncio.sleep(_RETRY)
        return await self._wait(accepted, None, deadline=time.monotonic() + self.limits.seconds)

    async def _wait(self, accepted: Answer, receive: Receive | None, *, deadline: float) -> bytes:
        answer = asyncio.wrap_future(accepted)
        watched: set[asyncio.Future[Any]] = {answer}
        if receive is not None:
            watched.add(asyncio.ensure_future(client_left(receive)))
        try:
            done, _ = await asyncio.wait(
                watched, timeout=max(0.0, deadline - time.monotonic()), return_when=asyncio.FIRST_COMPLETED
            )
            if answer in done:
                return answer.result()
            if done:
                raise ClientDisconnect
            raise Problem("timeout", f"the request was not done after {self.limits.seconds:g} s")
        except InputError as error:
            raise Problem("invalid_input", str(error)) from None
        finally:
            # Everything unfinished is given up: this frees the place in the queue.
            for future in watched:
                future.cancel()

    @contextmanager
    def stream(self) -> Iterator[None]:
        """Count an open stream; raise a `Problem` if there are too many."""
        if self.stopping():
            raise Problem("stopping", "the service is being stopped")
        if self._streams >= self.limits.streams:
            raise Problem("busy", "too many streams are open; try again in 5 s", retry_after=5)
        self._streams += 1
        self.metrics.streams.set(self._streams)
        try:
            yield
        finally:
            self._streams -= 1
            self.metrics.streams.set(self._streams)


def describe(parser: Parser, limits: Limits) -> dict[str, Any]:
    """Describe the model to clients: no paths, and not how it was trained."""
    info = parser.info
    scores = {
        name: {key: value for key, value in part.items() if isinstance(value, int | float)}
        for name, part in info["training"].items()
        if name != "config" and isinstance(part, dict)
    }
    return {
        "name": info["name"],
        "version": info["version"],
        "zishu": __version__,
        **{key: info[key] for key in ("task", "roles", "encoder", "styles", "labels", "upos")},
        "scores": scores,
        "limits": {name: getattr(limits, name) for name in _TOLD},
    }


async def client_left(receive: Receive) -> None:
    """Return when the client has closed the connection."""
    while (await receive())["type"] != "http.disconnect":
        pass
