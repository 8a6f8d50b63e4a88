"""Stand at the door of the app: tokens, headers, figures, the log, and the last word on errors.

A plain ASGI middleware around everything, so that no answer leaves without its headers. The log has the method, the
route and the time of a request, but nothing that the client wrote: no text, no query, no unknown address; of an
error that nobody expected it has the kind and the lines of code, since its message might quote the text.
"""

from __future__ import annotations

import hashlib
import hmac
import logging
import time
import traceback
from typing import TYPE_CHECKING, Final

from starlette.datastructures import Headers, MutableHeaders

from zishu.serve.problems import ClientGone, Problem, response

if TYPE_CHECKING:
    from collections.abc import Iterable

    from starlette.types import ASGIApp, Message, Receive, Scope, Send

    from zishu.serve.metrics import Metrics

log: Final = logging.getLogger("zishu.serve")

SECURITY_HEADERS: Final = {
    # Pictures may also come from the page itself, which draws PNG files to save.
    "Content-Security-Policy": "default-src 'self'; img-src 'self' data: blob:; base-uri 'none'; "
    "form-action 'self'; frame-ancestors 'none'; object-src 'none'",
    "X-Frame-Options": "DENY",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=()",
}
GONE: Final = 499  # in the log and the figures: the client closed the connection before its answer

# What needs no token: health, and the pages that a browser must load before it can send one. They tell nothing.
_OPEN: Final = (
    "/v1/health",
    "/v1/health/live",
    "/v1/health/ready",
    "/",
    "/docs",
    "/docs/style.css",
    "/openapi.json",
)
_OPEN_FOLDER: Final = "/static/"


class Guard:
    """The outermost layer of the app."""

    def __init__(self, app: ASGIApp, *, tokens: Iterable[str], metrics: Metrics) -> None:
        self._app = app
        self._tokens = [_digest(token.encode()) for token in tokens]
        self._metrics = metrics

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Let a request through, or not."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        began = time.perf_counter()
        status = GONE

        async def send_guarded(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                headers = MutableHeaders(scope=message)
                headers.update(SECURITY_HEADERS)
                headers.setdefault("Cache-Control", "no-store")
            await send(message)

        try:
            self._check_token(scope)
            await self._app(scope, receive, send_guarded)
        except ClientGone:
            pass
        except Problem as problem:
            await response(problem)(scope, receive, send_guarded)
        except Exception as error:
            log.error("%s\n%s", type(error).__qualname__, "".join(traceback.format_tb(error.__traceback__)))
            if status == GONE:
                failure = Problem("internal", "the service failed; its log says where")
                await response(failure)(scope, receive, send_guarded)
            else:
                raise ConnectionAbortedError from None  # too late to tell: the server closes the connection
        finally:
            seconds = time.perf_counter() - began
            path = getattr(scope.get("route"), "path", "other")
            self._metrics.request(path, status, seconds)
            log.info("%s %s %d %.0f ms", _method(scope), path, status, 1000 * seconds)

    def _check_token(self, scope: Scope) -> None:
        path = _path_in_app(scope)
        if not self._tokens or path in _OPEN or path.startswith(_OPEN_FOLDER):
            return
        kind, _, token = Headers(scope=scope).get("authorization", "").partition(" ")
        given = _digest(token.strip().encode())
        # Digests have one length and every token is looked at, so the time it takes tells nothing.
        known = [hmac.compare_digest(given, token) for token in self._tokens]
        if kind.lower() != "bearer" or not any(known):
            raise Problem("unauthorized", "a valid token is needed: Authorization: Bearer TOKEN")


def _path_in_app(scope: Scope) -> str:
    """Return the path as the routes see it: without the prefix below which the app is mounted in another one."""
    path: str = scope["path"]
    prefix: str = scope.get("root_path", "")
    return path.removeprefix(prefix) if path.startswith(f"{prefix}/") else path


def _digest(token: bytes) -> bytes:
    return hashlib.sha256(token).digest()


def _method(scope: Scope) -> str:
    method: str = scope["method"]
    return method if method in ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS") else "other"
