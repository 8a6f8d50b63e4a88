"""Answer a stream: one request per line in, one answer per line out, in the same order, for up to `stream_seconds`.

Lines are answered while others are still on their way. Only so many of a stream are in work at once, and only so many
characters: the batcher gives all of them their turns, so what is in work together must be done within the time of one
line. Then nothing more is read from the connection, so memory stays bounded however fast a client writes or slowly it
reads. A line that is wrong gets an error as its answer, and the stream goes on. Blank lines are passed over.

Three tasks do this: one receives, a little ahead, so that a client that leaves is noticed while its lines wait; one
reads lines and puts them in work; one writes their answers.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from typing import TYPE_CHECKING, NamedTuple

from starlette.responses import Response
from starlette.types import Message

from zishu.serve import problems
from zishu.serve.problems import Problem
from zishu.serve.service import Service, as_problem

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from starlette.types import Receive, Scope, Send

    from zishu.serve.jobs import Job

MEDIA_TYPE = "application/x-ndjson"

_TICK = 0.5  # seconds between two looks at whether the service is being stopped

_Parts = asyncio.Queue[Message]


class _Line(NamedTuple):
    """A line that is in work, or whose answer is not written yet."""

    answer: asyncio.Task[bytes]
    size: int


class StreamAnswer(Response):
    """The answer to a stream; it reads the request while it is sent."""

    media_type = MEDIA_TYPE

    def __init__(self, service: Service) -> None:
        super().__init__()
        del self.headers["content-length"]
        self._service = service
        self._lines: deque[_Line | None] = deque()  # in their order; None says that there are no more
        self._changed = asyncio.Condition()  # there is a line more or less

    async def __call__(self, _: Scope, receive: Receive, send: Send) -> None:
        """Read, answer and write until the client has said all, leaves, or the service is stopped."""
        self._service.open_stream()
        parts: _Parts = asyncio.Queue(1)
        listener = asyncio.create_task(_listen(receive, parts))
        reader = asyncio.create_task(self._read(parts, listener))
        writer = asyncio.create_task(self._write(send))
        tasks = {listener, reader, writer}
        try:
            # The writer ends first, or the listener if the client leaves; the reader only if it fails.
            for task in (await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED))[0]:
                task.result()
        finally:
            self._service.close_stream()
            unfinished = [*tasks, *(line.answer for line in self._lines if line)]
            for unwanted in unfinished:
                unwanted.cancel()
            await asyncio.gather(*unfinished, return_exceptions=True)

    async def _read(self, parts: _Parts, listener: asyncio.Task[None]) -> None:
        """Put lines in work while there is room for them; at their end, wait until the client leaves."""
        async for line in _lines(parts, self._service):
            job = await self._read_line(line)
            async with self._changed:
                await self._changed.wait_for(self._has_room)
                self._lines.append(self._start(job))
                self._changed.notify_all()
        async with self._changed:
            self._lines.append(None)
            self._changed.notify_all()
        await listener

    async def _read_line(self, line: bytes | Problem) -> Job | Exception:
        try:
            return line if isinstance(line, Problem) else await self._service.read(line)
        except Exception as error:
            return error

    def _start(self, job: Job | Exception) -> _Line:
        if isinstance(job, Exception):
            return _Line(asyncio.create_task(_error(job)), 0)
        return _Line(asyncio.create_task(self._service.answer_line(job)), job.size)

    def _has_room(self) -> bool:
        limits = self._service.limits
        size = sum(line.size for line in self._lines if line)
        return len(self._lines) < limits.stream_lines and size <= limits.batch_chars

    async def _write(self, send: Send) -> None:
        """Write the answers in the order of the lines."""
        await send({"type": "http.response.start", "status": 200, "headers": self.raw_headers})
        while (line := await self._oldest()) is not None:
            try:
                answer = await line.answer
            except Exception as error:
                problem = as_problem(error)
                answer = problems.body(problem.code, problem.message)
            await send({"type": "http.response.body", "body": answer + b"\n", "more_body": True})
            async with self._changed:
                self._lines.popleft()
                self._changed.notify_all()
        await send({"type": "http.response.body", "body": b"", "more_body": False})

    async def _oldest(self) -> _Line | None:
        async with self._changed:
            await self._changed.wait_for(lambda: self._lines)
            return self._lines[0]


async def _listen(receive: Receive, parts: _Parts) -> None:
    """Receive the body, a part ahead of its reader; return when the client leaves."""
    while (message := await receive())["type"] != "http.disconnect":
        await parts.put(message)


async def _error(error: Exception) -> bytes:
    raise error


async def _lines(parts: _Parts, service: Service) -> AsyncIterator[bytes | Problem]:
    """Yield the lines of a body that are not blank, and problems where they stand; the last ones end it."""
    limit = service.limits.body
    too_large = Problem("too_large", f"the line has more than the {limit} bytes that are allowed")
    rest = bytearray()
    skipping = False  # the rest of a line that is too long, or for which there is no memory
    with service.holding() as hold:
        async for part in _texts(parts, service):
            if isinstance(part, Problem):
                yield part
                return
            *whole, last = part.split(b"\n")
            for piece in whole:
                rest += piece
                if not skipping and (line := bytes(rest).strip()):
                    yield line if len(line) <= limit else too_large
                rest.clear()
                skipping = False
            if not skipping:
                rest += last
                try:
                    if len(rest) > limit:
                        raise too_large
                    hold(len(rest))
                except Problem as problem:
                    yield problem
                    rest.clear()
                    skipping = True
            if not rest:
                hold(0)
        if not skipping and (line := bytes(rest).strip()):
            yield line


async def _texts(parts: _Parts, service: Service) -> AsyncIterator[bytes | Problem]:
    """Yield the body as it comes; a problem ends it when the service is stopped or it takes too long."""
    limits = service.limits
    end = time.monotonic() + limits.stream_seconds
    stopping = Problem("stopping", "the service is being stopped; the lines before were all answered")
    too_long = Problem(
        "timeout", f"a stream may take {limits.stream_seconds:g} s; the lines before were answered"
    )
    more = True
    while more:
        waiting = asyncio.ensure_future(parts.get())
        deadline = time.monotonic() + limits.seconds
        try:
            while not (await asyncio.wait({waiting}, timeout=_TICK))[0]:
                if service.stopping():
                    yield stopping
                    return
                if time.monotonic() >= end:
                    yield too_long
                    return
                if time.monotonic() >= deadline:
                    yield Problem("body_timeout", f"nothing came for {limits.seconds:g} s")
                    return
            message = waiting.result()
        finally:
            waiting.cancel()
        yield message.get("body", b"")
        more = message.get("more_body", False)
        if more and (service.stopping() or time.monotonic() >= end):
            yield stopping if service.stopping() else too_long
            return
