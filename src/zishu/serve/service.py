"""Answer requests: read a body within its limits, wait for the answer, and notice a client that leaves.

Here lies what is between HTTP and the batcher. `Service` is the state of one worker process.
"""

from __future__ import annotations

import asyncio
import json
import logging
import time
import traceback
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from zishu import __version__
from zishu.errors import InputError
from zishu.serve.batching import Batcher
from zishu.serve.jobs import Job
from zishu.serve.metrics import Metrics
from zishu.serve.problems import ClientGone, Problem
from zishu.serve.schema import read_request

if TYPE_CHECKING:
    from collections.abc import Callable

    from starlette.types import Receive

    from zishu.parser import Parser
    from zishu.serve.batching import Answer
    from zishu.serve.limits import Limits

log: Final = logging.getLogger("zishu.serve")

_RETRY: Final = 0.05  # seconds until a line of a stream asks again for a place in the queue

# The limits that a client may want to know.
_TOLD = ("body", "chars", "texts", "lexicon", "lexicon_word", "constraints", "kbest", "seconds")


class Service:
    """A parser, its batcher, and the limits. `stopping` tells whether the process has been asked to end."""

    def __init__(
        self, parser: Parser, limits: Limits, *, stopping: Callable[[], bool] = lambda: False
    ) -> None:
        self.limits = limits
        self.metrics = Metrics()
        self.stopping = stopping
        self.model = describe(parser, limits)
        name = json.dumps({key: self.model[key] for key in ("name", "version")}, ensure_ascii=False)
        self._make_batcher = partial(Batcher, parser, limits, self.metrics, model=name)
        # Not first in `open`: an app that is mounted in another one is never told that it starts.
        self.batcher = self._make_batcher()
        self._streams = 0

    def open(self) -> None:
        """Take requests, also if the app was stopped before and is started once more."""
        if self.batcher.closed:
            self.batcher = self._make_batcher()

    @property
    def ready(self) -> bool:
        """Tell whether the next request would be accepted."""
        return not self.stopping() and not self.batcher.full

    def read(self, data: bytes) -> Job:
        """Read a request; whatever is wrong with it is a `Problem`."""
        return Job(read_request(data, self.limits))

    async def answer(self, data: bytes, receive: Receive, *, deadline: float) -> bytes:
        """Return the answer to a request, and give up when the client leaves.

        Everything that can go wrong is a `Problem`, or `ClientGone`.
        """
        return await self._wait(self.batcher.submit(self.read(data)), receive, deadline=deadline)

    async def answer_line(self, job: Job) -> bytes:
        """Return the answer to a line of a stream, which waits where a single request would be turned away.

        Its time begins when it is accepted: how long it waits before is up to others, not to its client.
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
        gone = None
        if receive is not None:
            gone = asyncio.ensure_future(client_left(receive))
            watched.add(gone)
        try:
            await asyncio.wait(
                watched, timeout=max(0.0, deadline - time.monotonic()), return_when=asyncio.FIRST_COMPLETED
            )
            if answer.done():
                return answer.result()
        except InputError as error:
            raise Problem("invalid_input", str(error)) from None
        finally:
            # Whatever is not done is given up: this frees the place in the queue.
            for future in watched:
                future.cancel()
        if gone is not None and gone.done():
            raise ClientGone
        raise Problem("timeout", f"the request was not done after {self.limits.seconds:g} s")

    def open_stream(self) -> None:
        """Count a stream in; too many are a `Problem`."""
        if self.stopping():
            raise Problem("stopping", "the service is being stopped")
        if self._streams >= self.limits.streams:
            raise Problem("busy", "too many streams are open; try again in 5 s", retry_after=5)
        self._streams += 1
        self.metrics.streams(self._streams)

    def close_stream(self) -> None:
        """Count a stream out."""
        self._streams -= 1
        self.metrics.streams(self._streams)


def as_problem(error: Exception) -> Problem:
    """Return what to tell a client about an error in the middle of a stream; the log gets its place, not its text."""
    if isinstance(error, Problem):
        return error
    log.error("%s\n%s", type(error).__qualname__, "".join(traceback.format_tb(error.__traceback__)))
    return Problem("internal", "the service failed; its log says where")


async def read_body(receive: Receive, length: str | None, *, limit: int, deadline: float) -> bytes:
    """Read the body of a request; `length` is what its headers say."""
    too_large = Problem("too_large", f"the body has more than the {limit} bytes that are allowed")
    if length is not None and length.isdecimal() and int(length[:20]) > limit:
        raise too_large
    parts: list[bytes] = []
    size = 0
    more = True
    while more:
        try:
            async with asyncio.timeout(deadline - time.monotonic()):
                message = await receive()
        except TimeoutError:
            raise Problem("body_timeout", "the body did not arrive in time") from None
        if message["type"] == "http.disconnect":
            raise ClientGone
        part = message.get("body", b"")
        size += len(part)
        if size > limit:
            raise too_large
        parts.append(part)
        more = message.get("more_body", False)
    return b"".join(parts)


def describe(parser: Parser, limits: Limits) -> dict[str, Any]:
    """Return what clients may know of the model: no paths, and not how it was trained."""
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
        **{key: info[key] for key in ("task", "roles", "encoder", "labels", "upos")},
        "scores": scores,
        "limits": {name: getattr(limits, name) for name in _TOLD},
    }


async def client_left(receive: Receive) -> None:
    """Return when the client has closed the connection."""
    while (await receive())["type"] != "http.disconnect":
        pass
