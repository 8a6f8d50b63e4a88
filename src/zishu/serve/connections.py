"""Keep connections from blocking the service: timeouts and maximum numbers, below the app.

Uvicorn has no time limit for the head of a request or for a client that does not read its answer, no limit on the size of
a head, and its limit on connections rejects the newest one. But its protocol class can be replaced. This one adds the
limits, closes the connection that has waited longest without a request if there are too many, and sends errors in our
own format, so no other server is needed. The server calls `check` every second; nothing here sets a timer.

The limits of bodies and of streams belong to requests: see `zishu.serve.service` and `zishu.serve.streams`.
"""

from __future__ import annotations

import logging
import math
import time
from typing import TYPE_CHECKING, Any, Final

from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol

from zishu.serve.problems import Problem

if TYPE_CHECKING:
    import asyncio

    from zishu.serve.limits import Limits

log: Final = logging.getLogger("zishu.serve")

# The event loop accepts this many connections at once, and up to four times as many before the limit is checked.
ACCEPTED_AT_ONCE: Final = 16

_SPARE_FILES: Final = 64 + 4 * ACCEPTED_AT_ONCE  # files other than connections: libraries, the model, pipes
_MOST_HEAD: Final = 64 * 1024  # bytes of a head, or of anything else that is not a body
_MOST_AHEAD: Final = 32  # requests that a client may send before it has the answer to the first


class Connection(HttpToolsProtocol):
    """Handle one connection of a client."""

    def __init__(self, limits: Limits, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.limits = limits
        self._waits_since = time.monotonic()  # for the head of a request
        self._idle = False  # between two requests, with nothing of the next one received
        self._head = 0  # bytes that have arrived since the last part of a body or end of a request
        # Bytes of the answer that wait to be read, and since when.
        self._unread: tuple[float, int] | None = None

    # ---- events

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Accept a connection; beyond the limit close another one that has no request, or else this one."""
        super().connection_made(transport)
        if len(self.connections) <= self.limits.connections:
            return
        # Connections that were just closed still count until the event loop has noticed.
        alive = [one for one in self.connections if isinstance(one, Connection) and not one.closing]
        if len(alive) <= self.limits.connections:
            return
        waiting = [one for one in alive if not one.busy]
        victim = min(waiting, key=lambda one: one._waits_since, default=self)
        if victim is self:
            self._refuse(Problem("busy", "too many connections are open", {"Retry-After": "1"}))
        else:
            victim.transport.abort()
        log.warning("more than %d connections: closed one", self.limits.connections)

    def data_received(self, data: bytes) -> None:
        """Receive data; the head of a request must be complete some time after its first byte."""
        if self.busy and not (self.cycle.keep_alive or self.cycle.more_body):
            return  # this was the last request
        if self._idle:
            self._idle = False
            self._waits_since = time.monotonic()
        self._head += len(data)
        super().data_received(data)
        if self._head > _MOST_HEAD and not self.closing:
            self.send_400_response("The head of the request is too long.")

    def on_headers_complete(self) -> None:
        """Start a request; an error here makes it invalid."""
        if [name for name, _ in self.headers].count(b"host") > 1 or len(self.pipeline) >= _MOST_AHEAD:
            raise ValueError
        super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        """Receive a part of a body."""
        self._head = 0
        super().on_body(body)

    def on_message_complete(self) -> None:
        """Receive the end of a request."""
        self._head = 0
        super().on_message_complete()

    def on_response_complete(self) -> None:
        """Wait for the next request."""
        self._idle = True
        self._waits_since = time.monotonic()
        super().on_response_complete()

    # ---- time limits

    @property
    def closing(self) -> bool:
        """Tell whether the connection is being closed."""
        return self.transport.is_closing()

    @property
    def busy(self) -> bool:
        """Tell whether a request is being answered."""
        return self.cycle is not None and not self.cycle.response_complete

    def check(self, now: float) -> None:
        """Close the connection if its client has taken too long for the next step."""
        size = self.transport.get_write_buffer_size()
        if not size:
            self._unread = None
        elif self._unread is None or size > self._unread[1]:
            self._unread = (now, size)
        else:
            since, at_first = self._unread
            if now - since > self.limits.write_seconds + at_first / self.limits.write_speed:
                self.transport.abort()
                return
        if self.busy or self._idle or self.closing:
            return  # the keep-alive timer of the base class ends idle connections
        if now - self._waits_since > self.limits.head_seconds:
            if self.cycle is None and self._head:
                self._refuse(Problem("head_timeout"))
            else:
                self.transport.close()

    # ---- errors

    def send_400_response(self, msg: str) -> None:
        """Answer what is not HTTP; the answer contains nothing that the client sent."""
        if self.busy and not self.cycle.more_body:
            self.cycle.keep_alive = False  # the request before it is answered, nothing after it
        else:
            self._refuse(Problem("invalid_http", msg))

    def _refuse(self, problem: Problem) -> None:
        """Send an error without the app, and close the connection."""
        if not self.busy or not self.cycle.response_started:
            answer = problem.response()
            head = b"".join(b"%b: %b\r\n" % header for header in answer.raw_headers(closing=True))
            body = b"" if self.busy and self.cycle.scope["method"] == "HEAD" else problem.body
            self.transport.write(STATUS_LINE[answer.status] + head + b"\r\n" + body)
        if self.busy:
            # The app may be at work on the head of this request: its answer has nowhere to go.
            self.cycle.disconnected = True
            self.cycle.message_event.set()
        self.transport.close()


def allow_files(connections: int) -> int:
    """Raise the limit of open files as far as possible; return the possible number of connections."""
    try:
        import resource
    except ModuleNotFoundError:  # not a Unix
        return connections
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = connections + _SPARE_FILES
    unlimited = resource.RLIM_INFINITY
    if soft != unlimited and soft < wanted:
        most = wanted if hard == unlimited else min(wanted, hard)
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))
        soft = most
    allowed = math.inf if soft == unlimited else max(soft // 4, soft - _SPARE_FILES)
    return int(min(connections, allowed))


class Repeats(logging.Filter):
    """Let a repeated warning pass only now and then; the next one says how often it was suppressed."""

    def __init__(self, seconds: float = 60.0) -> None:
        super().__init__()
        self._seconds = seconds
        self._seen: dict[tuple[str, str], tuple[float, int]] = {}

    def filter(self, record: logging.LogRecord) -> bool:
        """Tell whether to write a record."""
        if record.levelno < logging.WARNING:
            return True
        key = (record.name, record.getMessage())
        since, count = self._seen.get(key, (-math.inf, 0))
        now = time.monotonic()
        if now - since < self._seconds:
            self._seen[key] = (since, count + 1)
            return False
        if len(self._seen) > 100:
            self._seen.clear()
        self._seen[key] = (now, 0)
        if count:
            record.msg, record.args = f"{key[1]} (and {count} times before)", ()
        return True
