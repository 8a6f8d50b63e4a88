"""Answer a stream: one request per line in, one answer per line out, in order, for up to `stream_seconds`.

Lines are answered while others are still being sent. The number of lines and characters of a stream in progress is
limited: the batcher lets them take turns, so all of them must finish within the time of one line. At the limit nothing
more is read from the connection, so memory stays bounded however fast a client writes or how slowly it reads. An
invalid line gets an error as its answer, and the stream continues. Blank lines are skipped.

There are three tasks: one receives slightly ahead, so that a client that leaves is noticed while its lines wait; one
reads lines and starts them; one writes their answers.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from typing import TYPE_CHECKING

from zishu.serve.exchange import NDJSON, Response
from zishu.serve.problems import Problem, as_problem

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from typing import TypeAlias

    from zishu.serve.exchange import Message, Request, Send
    from zishu.serve.jobs import Job
    from zishu.serve.service import Service

    Parts: TypeAlias = asyncio.Queue[Message]

_TICK = 0.5  # seconds between two checks whether the service is being stopped


class Stream(Response):
    """Answer a stream; the request is read while the answer is sent."""

    def __init__(self, service: Service, request: Request) -> None:
        service.count_streams(1)
        super().__init__(None, NDJSON)
        self._service = service
        self._request = request
        # Lines that are not answered, in order: their answers and sizes. None after the last one.
        self._lines: deque[tuple[asyncio.Task[bytes], int] | None] = deque()
        self._changed = asyncio.Event()  # a line was added or removed

    async def send(self, send: Send, *, closing: bool) -> None:
        """Read, answer and write until the client is done, leaves, or the service is stopped."""
        parts: Parts = asyncio.Queue(1)
        listener = asyncio.create_task(self._listen(parts))
        reader = asyncio.create_task(self._read(parts, listener))
        writer = asyncio.create_task(self._write(send, closing=closing))
        tasks = {listener, reader, writer}
        try:
            # The writer ends first, or the listener if the client leaves; the reader only if it fails.
            for task in (await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED))[0]:
                task.result()
        finally:
            unfinished = [*tasks, *(line[0] for line in self._lines if line)]
            for unwanted in unfinished:
                unwanted.cancel()
            await asyncio.gather(*unfinished, return_exceptions=True)
            self._service.count_streams(-1)

    async def _listen(self, parts: Parts) -> None:
        """Receive the body, one part ahead of its reader; return when the client leaves."""
        while (message := await self._request.receive())["type"] != "http.disconnect":
            await parts.put(message)

    async def _read(self, parts: Parts, listener: asyncio.Task[None]) -> None:
        """Start lines while there is room for them; at their end, wait until the client leaves."""
        try:
            async for line in _lines(parts, self._service):
                await self._start(line)
        except Problem as problem:
            await self._start(problem)
        self._lines.append(None)
        self._changed.set()
        await listener

    async def _start(self, line: bytes | Problem) -> None:
        """Read a line, and start to answer it when there is room."""
        limits = self._service.limits
        job: Job | Problem
        try:
            job = line if isinstance(line, Problem) else await self._service.read(line)
        except Exception as error:
            job = as_problem(error)
        size = 0 if isinstance(job, Problem) else job.size
        while len(self._lines) >= limits.stream_lines or self._size() > limits.batch_chars:
            await self._change()
        self._lines.append((asyncio.create_task(self._answer(job)), size))
        self._changed.set()

    def _size(self) -> int:
        return sum(line[1] for line in self._lines if line)

    async def _change(self) -> None:
        self._changed.clear()
        await self._changed.wait()

    async def _answer(self, job: Job | Problem) -> bytes:
        """Return the answer to a line, which may be an error."""
        try:
            if isinstance(job, Problem):
                raise job
            return await self._service.answer_line(job)
        except Exception as error:
            return as_problem(error).body

    async def _write(self, send: Send, *, closing: bool) -> None:
        """Write the answers in the order of the lines."""
        await send(self.start(closing=closing))
        while True:
            while not self._lines:
                await self._change()
            if (line := self._lines[0]) is None:
                break
            await send({"type": "http.response.body", "body": await line[0] + b"\n", "more_body": True})
            self._lines.popleft()
            self._changed.set()
        await send({"type": "http.response.body", "body": b"", "more_body": False})


async def _lines(parts: Parts, service: Service) -> AsyncIterator[bytes | Problem]:
    """Yield the lines of a body that are not blank, and a problem in the place of one that is too large."""
    limit = service.limits.body
    too_large = Problem("too_large", f"the line has more than the {limit} bytes that are allowed")
    rest = bytearray()
    skipping = False  # skip the rest of a line that is too long, or that memory does not allow
    with service.holding() as hold:
        async for part in _texts(parts, service):
            *whole, last = part.split(b"\n")
            for piece in whole:
                rest += piece
                line = bytes(rest).strip()
                rest.clear()  # the line may have to wait
                if line and not skipping:
                    yield line if len(line) <= limit else too_large
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


async def _texts(parts: Parts, service: Service) -> AsyncIterator[bytes]:
    """Yield the body as it arrives; raise a `Problem` if the service is stopped or it takes too long."""
    limits = service.limits
    end = time.monotonic() + limits.stream_seconds
    silent_until = time.monotonic() + limits.seconds
    while True:
        try:
            async with asyncio.timeout(_TICK):
                message = await parts.get()
        except TimeoutError:
            pass
        else:
            yield message.get("body", b"")
            if not message.get("more_body", False):
                return
            silent_until = time.monotonic() + limits.seconds
        now = time.monotonic()
        if service.stopping():
            raise Problem("stopping", "the service is being stopped; the lines before were all answered")
        if now >= end:
            seconds = limits.stream_seconds
            raise Problem("timeout", f"a stream may take {seconds:g} s; the lines before were answered")
        if now >= silent_until:
            raise Problem("body_timeout", f"nothing arrived for {limits.seconds:g} s")
