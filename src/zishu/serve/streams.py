"""Answer a stream: a request a line in, an answer a line out, in the same order, for as long as the client likes.

Lines are answered while others are still on their way. Only so many of a stream are in work at once: then nothing more
is read from the connection, so memory stays bounded however fast a client writes or slowly it reads. A line that is
wrong gets an error as its answer, and the stream goes on. Blank lines are passed over.
"""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING

from starlette.responses import Response

from zishu.serve import problems
from zishu.serve.problems import ClientGone, Problem
from zishu.serve.service import Service, as_problem, client_left

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from starlette.types import Receive, Scope, Send

MEDIA_TYPE = "application/x-ndjson"

_TICK = 0.5  # seconds between two looks at whether the service is being stopped

_Line = asyncio.Task[bytes]


class StreamAnswer(Response):
    """The answer to a stream; it reads the request while it is sent."""

    media_type = MEDIA_TYPE

    def __init__(self, service: Service) -> None:
        super().__init__()
        del self.headers["content-length"]
        self._service = service

    async def __call__(self, _: Scope, receive: Receive, send: Send) -> None:
        """Read, answer and write until the client has said all, leaves, or the service is stopped."""
        service = self._service
        service.open_stream()
        # The writer takes answers in the order of the lines; None says that there are no more.
        lines: asyncio.Queue[_Line | None] = asyncio.Queue(service.limits.stream_lines)
        reader = asyncio.create_task(self._read(receive, lines))
        writer = asyncio.create_task(self._write(send, lines))
        try:
            # The reader ends first only if the client leaves.
            await asyncio.wait({reader, writer}, return_when=asyncio.FIRST_COMPLETED)
            if writer.done():
                writer.result()
            else:
                reader.result()
        finally:
            service.close_stream()
            writer.cancel()
            reader.cancel()
            await asyncio.gather(reader, writer, return_exceptions=True)
            while not lines.empty():
                if (line := lines.get_nowait()) is not None:
                    line.cancel()

    async def _read(self, receive: Receive, lines: asyncio.Queue[_Line | None]) -> None:
        answer = self._service.answer_line
        inputs = _lines(receive, self._service)
        try:
            async for line in inputs:
                await lines.put(
                    asyncio.create_task(_error(line) if isinstance(line, Problem) else answer(line))
                )
        except ClientGone:
            return
        await lines.put(None)
        await client_left(receive)

    async def _write(self, send: Send, lines: asyncio.Queue[_Line | None]) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": self.raw_headers})
        while (line := await lines.get()) is not None:
            try:
                answer = await line
            except Exception as error:
                problem = as_problem(error)
                answer = problems.body(problem.code, problem.message)
            finally:
                line.cancel()  # if this task is cancelled while it waits for that one
            await send({"type": "http.response.body", "body": answer + b"\n", "more_body": True})
        await send({"type": "http.response.body", "body": b"", "more_body": False})


async def _error(problem: Problem) -> bytes:
    raise problem


async def _lines(receive: Receive, service: Service) -> AsyncIterator[bytes | Problem]:
    """Yield the lines of a body that are not blank, and problems where they stand; the last ones end it."""
    limit = service.limits.body
    too_large = Problem("too_large", f"the line has more than the {limit} bytes that are allowed")
    rest = bytearray()
    skipping = False  # the rest of a line that is too long
    async for part in _parts(receive, service):
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
            if len(rest) > limit:
                yield too_large
                rest.clear()
                skipping = True
    if not skipping and (line := bytes(rest).strip()):
        yield line


async def _parts(receive: Receive, service: Service) -> AsyncIterator[bytes | Problem]:
    """Yield the body as it comes; a problem ends it when the service is stopped or nothing comes for too long."""
    more = True
    while more:
        waiting = asyncio.ensure_future(receive())
        deadline = time.monotonic() + service.limits.seconds
        try:
            while not (await asyncio.wait({waiting}, timeout=_TICK))[0]:
                if service.stopping():
                    yield Problem(
                        "stopping", "the service is being stopped; the lines before were all answered"
                    )
                    return
                if time.monotonic() >= deadline:
                    yield Problem("body_timeout", f"nothing came for {service.limits.seconds:g} s")
                    return
            message = waiting.result()
        finally:
            waiting.cancel()
        if message["type"] == "http.disconnect":
            raise ClientGone
        yield message.get("body", b"")
        more = message.get("more_body", False)
        if more and service.stopping():
            yield Problem("stopping", "the service is being stopped; the lines before were all answered")
            return
