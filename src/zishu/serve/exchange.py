"""Hold a request and its response, between ASGI and the functions that answer.

Every response gets the same safety headers here, also those that are sent without the app.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, MutableMapping

    Scope = MutableMapping[str, Any]
    Message = MutableMapping[str, Any]
    Receive = Callable[[], Awaitable[Message]]
    Send = Callable[[Message], Awaitable[None]]

JSON: Final = "application/json"
NDJSON: Final = "application/x-ndjson"

SECURITY_HEADERS: Final = {
    # Images may also come from the page itself, which draws PNG files to save.
    "Content-Security-Policy": "default-src 'self'; img-src 'self' data: blob:; base-uri 'none'; "
    "form-action 'self'; frame-ancestors 'none'; object-src 'none'",
    "X-Frame-Options": "DENY",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=()",
}


_SAFETY: Final = [(name.lower().encode(), value.encode()) for name, value in SECURITY_HEADERS.items()]
_METHODS: Final = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS")


class ClientLeft(Exception):
    """Report that the client has closed the connection."""


class Request:
    """Hold a request whose head has arrived."""

    __slots__ = ("_headers", "method", "path", "receive")

    def __init__(self, scope: Scope, receive: Receive) -> None:
        self.method: str = scope["method"] if scope["method"] in _METHODS else "other"
        # Without the prefix of an app that this one is mounted in.
        path, prefix = scope["path"], scope.get("root_path", "")
        self.path: str = path.removeprefix(prefix) if path.startswith(f"{prefix}/") else path
        self.receive = receive
        self._headers: dict[bytes, bytes] = dict(scope["headers"])

    def header(self, name: bytes) -> str:
        """Return a header, which may be empty."""
        return self._headers.get(name, b"").decode("latin-1")

    @property
    def kind(self) -> str:
        """Return its Content-Type without parameters."""
        return self.header(b"content-type").partition(";")[0].strip().lower()

    async def parts(self) -> AsyncIterator[bytes]:
        """Yield the parts of the body."""
        while True:
            message = await self.receive()
            if message["type"] == "http.disconnect":
                raise ClientLeft
            yield message.get("body", b"")
            if not message.get("more_body", False):
                return

    async def left(self) -> None:
        """Wait until the client has closed the connection."""
        while (await self.receive())["type"] != "http.disconnect":
            pass


@dataclass(slots=True)
class Response:
    """Hold what to send."""

    body: bytes | None  # None: of unknown length, or no body at all
    kind: str = JSON
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)

    def raw_headers(self, *, closing: bool) -> list[tuple[bytes, bytes]]:
        """Return all headers, in lower case; with `closing`, the connection ends after the response."""
        headers = [
            *_SAFETY,
            *((name.lower().encode(), value.encode()) for name, value in self.headers.items()),
        ]
        if self.kind:
            headers.append((b"content-type", self.kind.encode()))
        if self.body is not None:
            headers.append((b"content-length", b"%d" % len(self.body)))
        if "Cache-Control" not in self.headers:
            headers.append((b"cache-control", b"no-store"))
        if closing:
            headers.append((b"connection", b"close"))
        return headers

    def start(self, *, closing: bool) -> Message:
        """Return the first message of the response."""
        headers = self.raw_headers(closing=closing)
        return {"type": "http.response.start", "status": self.status, "headers": headers}

    async def send(self, send: Send, *, closing: bool) -> None:
        """Send the response."""
        await send(self.start(closing=closing))
        await send({"type": "http.response.body", "body": self.body or b""})
