"""Answer requests: read a body within its limits, wait for the answer, and notice a client that leaves.

Large bodies are decoded in a separate thread, so the event loop can answer others meanwhile.

This layer connects HTTP and the batcher. `Service` is the state of one worker process; its public coroutines that take a
`Request` stand behind the addresses of the API.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections import deque
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from zishu import __version__
from zishu.errors import InputError
from zishu.serve.batching import Answer, Batcher
from zishu.serve.exchange import JSON, NDJSON, ClientLeft, Request, Response
from zishu.serve.jobs import Job
from zishu.serve.metrics import CONTENT_TYPE, Metrics
from zishu.serve.problems import Problem
from zishu.serve.schema import ConvertRequest, ParseRequest, read_convert_request, read_request
from zishu.serve.streams import Stream

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

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
        self.model = describe_model(parser, limits)
        named = {key: self.model[key] for key in ("name", "version", "styles")}
        self._named = json.dumps(named, ensure_ascii=False)  # in every answer
        self._parser = parser
        self._make_batcher = partial(Batcher, parser, limits, self.metrics, threads=threads)
        # Not first in `open`: an app that is mounted in another one gets no startup event.
        self.batcher = self._make_batcher()
        # To be handed to the event loop.
        self._answered: deque[tuple[asyncio.Future[bytes], Answer]] = deque()
        self._told = False  # whether the event loop knows of them
        self._streams = 0
        self._held = 0  # bytes of undecoded bodies in memory
        self._decode_from = 0.0  # earliest time to decode the next one
        self._decoder = ThreadPoolExecutor(1, thread_name_prefix="zishu-decoder")

    def open(self) -> None:
        """Accept requests, also after the app was stopped and started again."""
        self._told = False  # the event loop may be a new one
        if self.batcher.closed:
            self.batcher = self._make_batcher()

    @property
    def ready(self) -> bool:
        """Tell whether the next request would be accepted and probably answered."""
        return not (self.stopping() or self.batcher.full or self.batcher.stalled)

    # ---- addresses

    async def parse(self, request: Request) -> Response:
        """Answer one request, or a stream of them."""
        if request.kind == NDJSON:
            return Stream(self, request)
        if request.kind != JSON:
            raise Problem("unsupported_media_type", f"the Content-Type must be {JSON} or {NDJSON}")
        return await self._answer(request, read_request, self.limits.body)

    async def convert(self, request: Request) -> Response:
        """Write parsed sentences in another format."""
        if request.kind != JSON:
            raise Problem("unsupported_media_type", f"the Content-Type must be {JSON}")
        return await self._answer(request, read_convert_request, self.limits.convert_body)

    async def describe(self, _: Request) -> Response:
        """Describe the model and the limits."""
        return Response(json.dumps(self.model, ensure_ascii=False).encode())

    async def health(self, request: Request) -> Response:
        """Tell whether the process is alive and ready; one of the addresses tells it by the status, too."""
        ready = self.ready
        status = 503 if request.path.endswith("/ready") and not ready else 200
        return Response(json.dumps({"live": True, "ready": ready}).encode(), status=status)

    async def figures(self, _: Request) -> Response:
        """Return the figures for Prometheus."""
        return Response(self.metrics.text(), CONTENT_TYPE)

    # ---- one request

    async def _answer(self, request: Request, decode: Decoder, limit: int) -> Response:
        """Answer a request whose body has at most `limit` bytes; give up when the client leaves.

        All errors are a `Problem` or `ClientLeft`. No variable holds the body: waiting requests may be many.
        """
        deadline = asyncio.get_running_loop().time() + self.limits.seconds
        with self.holding() as hold:
            job = await self.read(await self._body(request, limit, hold), decode)
        return Response(await self.wait(self.batcher.submit(job), deadline, request))

    async def _body(self, request: Request, limit: int, hold: Callable[[int], None]) -> bytes:
        """Return the body of a request, while it arrives in time and has room."""
        too_large = Problem("too_large", f"the body has more than the {limit} bytes that are allowed")
        length = request.header(b"content-length")
        if length.isdecimal() and int(length[:20]) > limit:
            raise too_large
        body = bytearray()
        try:
            async with asyncio.timeout(min(self.limits.body_seconds, self.limits.seconds)):
                async for part in request.parts():
                    body += part
                    if len(body) > limit:
                        raise too_large
                    hold(len(body))
        except TimeoutError:
            raise Problem("body_timeout") from None
        return bytes(body)

    @contextmanager
    def holding(self) -> Iterator[Callable[[int], None]]:
        """Count the bytes of a body in memory, which share a limit; the block says how many they are now."""
        held = 0

        def hold(size: int) -> None:
            nonlocal held
            fresh = max(0, size - _SMALL) - held
            if fresh > 0 and self._held + fresh > self.limits.bodies:
                raise Problem("busy", "too many large bodies are being sent", {"Retry-After": "5"})
            held += fresh
            self._held += fresh

        try:
            yield hold
        finally:
            hold(0)

    async def read(self, data: bytes, decode: Decoder = read_request) -> Job:
        """Read a request; raise a `Problem` for any error."""
        if len(data) <= _SMALL:
            return self._job(data, decode)
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._decoder, self._decode, data, decode)

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

    def _job(self, data: bytes, decode: Decoder) -> Job:
        request = decode(data, self.limits)
        if request.options:
            try:
                self._parser.in_style(request.options.style)
                self._parser.check_tags(getattr(request, "tags", ()))
            except InputError as error:
                raise Problem("invalid_input", str(error)) from None
        return Job(request, self._named)

    async def wait(self, accepted: Answer, deadline: float, request: Request | None = None) -> bytes:
        """Return the answer, or give up at a time of the event loop or when the client of `request` leaves."""
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[bytes] = loop.create_future()
        accepted.add_done_callback(partial(self._hand_over, loop, answer))
        events: list[asyncio.Future[Any]] = [answer]
        if request:
            events.append(loop.create_task(request.left()))
        try:
            first, _ = await asyncio.wait(
                events, timeout=deadline - loop.time(), return_when=asyncio.FIRST_COMPLETED
            )
            if answer in first:
                return answer.result()
            if first:
                raise ClientLeft
            raise Problem("timeout", f"the request was not done after {self.limits.seconds:g} s")
        except InputError as error:
            raise Problem("invalid_input", str(error)) from None
        finally:
            for event in events:
                event.cancel()
            accepted.cancel()  # if it was given up: this frees the place in the queue

    def _hand_over(
        self, loop: asyncio.AbstractEventLoop, answer: asyncio.Future[bytes], accepted: Answer
    ) -> None:
        """Hand an answer to the event loop, from the thread of a lane; wake it up once for all answers of a batch."""
        if answer.done() or loop.is_closed():
            return
        self._answered.append((answer, accepted))
        if not self._told:
            self._told = True
            loop.call_soon_threadsafe(self._deliver)

    def _deliver(self) -> None:
        self._told = False
        while self._answered:
            answer, accepted = self._answered.popleft()
            if answer.done():
                continue
            if error := accepted.exception():
                answer.set_exception(error)
            else:
                answer.set_result(accepted.result())

    # ---- streams

    def count_streams(self, change: int) -> None:
        """Count a stream that begins (1) or ends (-1); raise a `Problem` if there are too many."""
        if change > 0 and self.stopping():
            raise Problem("stopping")
        if change > 0 and self._streams >= self.limits.streams:
            raise Problem("busy", "too many streams are open; try again in 5 s", {"Retry-After": "5"})
        self._streams += change
        self.metrics.streams.set(self._streams)

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
        return await self.wait(accepted, asyncio.get_running_loop().time() + self.limits.seconds)


def describe_model(parser: Parser, limits: Limits) -> dict[str, Any]:
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
