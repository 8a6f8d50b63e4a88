"""Check every request before the app sees it: hosts, tokens, headers, metrics, the log, unexpected errors.

Without a token, any web page could make its own name resolve to this machine and send requests (DNS rebinding). So
without a token, only requests for a loopback name or an allowed host are answered.

This is a plain ASGI middleware around everything, so no answer leaves without its headers. The log has the method, the
route and the time of a request, but nothing that the client wrote: no text, no query, no unknown address. For an
unexpected error it has the type and the lines of code, but not the message, which might quote the text.
"""

from __future__ import annotations

import hashlib
import hmac
import logging
import re
import time
import traceback
from functools import lru_cache
from ipaddress import ip_address
from typing import TYPE_CHECKING, Final

from starlette.datastructures import Headers, MutableHeaders

from zishu.serve.problems import ClientGone, Problem, response

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from starlette.types import ASGIApp, Message, Receive, Scope, Send

    from zishu.serve.metrics import Metrics

log: Final = logging.getLogger("zishu.serve")

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
GONE: Final = 499  # in the log and the metrics: the client closed the connection before its answer

# Addresses that need no token: health, and the pages that a browser must load before it can send one. They reveal
# nothing.
_HEALTH: Final = ("/v1/health", "/v1/health/live", "/v1/health/ready")
_OPEN: Final = (*_HEALTH, "/", "/docs", "/docs/style.css", "/openapi.json")
_OPEN_FOLDER: Final = "/static/"

_HOST: Final = re.compile(r"(?:\[(?P<address>[0-9a-f:.]+)\]|(?P<name>[^:\[\]/@\s]+?)\.?)(?::\d*)?")


class Guard:
    """Wrap the app as its outermost layer."""

    def __init__(
        self,
        app: ASGIApp,
        *,
        tokens: Iterable[str],
        hosts: Iterable[str],
        metrics: Metrics,
        stopping: Callable[[], bool],
        paths: Mapping[object, str],
    ) -> None:
        """Wrap an app; `paths` names the address behind each of its functions."""
        self._app = app
        self._tokens = [_digest(token.encode()) for token in tokens]
        self._hosts = {host.lower() for host in hosts}
        self._metrics = metrics
        self._stopping = stopping
        self._paths = paths

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Accept or reject a request."""
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
                if self._stopping():
                    headers["Connection"] = "close"
            await send(message)

        try:
            self._check_host(scope)
            self._check_token(scope)
            await self._app(scope, receive, send_guarded)
        except ClientGone:
            pass
        except Problem as problem:
            await response(problem)(scope, receive, send_guarded)
        except Exception as error:
            log.error("%s\n%s", type(error).__qualname__, "".join(traceback.format_tb(error.__traceback__)))
            if status == GONE:
                failure = Problem("internal", "the service failed; see its log")
                await response(failure)(scope, receive, send_guarded)
            else:
                raise ConnectionAbortedError from None  # too late for an error: the server closes the connection
        finally:
            seconds = time.perf_counter() - began
            path = self._paths.get(scope.get("endpoint"), "other")
            self._metrics.request(path, status, seconds)
            log.info("%s %s %d %.0f ms", _method(scope), path, status, 1000 * seconds)

    def _check_host(self, scope: Scope) -> None:
        # Probes ask for health under any address they know, and the answer reveals nothing.
        if self._tokens or _path_in_app(scope) in _HEALTH:
            return
        host = _host_name(Headers(scope=scope).get("host", ""))
        if not is_loopback(host) and host not in self._hosts:
            raise Problem("unknown_host", "this service does not answer for that host; see --allowed-host")

    def _check_token(self, scope: Scope) -> None:
        path = _path_in_app(scope)
        if not self._tokens or path in _OPEN or path.startswith(_OPEN_FOLDER):
            return
        kind, _, token = Headers(scope=scope).get("authorization", "").partition(" ")
        given = _digest(token.strip().encode())
        # Digests have one length and every token is compared, so the time reveals nothing.
        known = [hmac.compare_digest(given, token) for token in self._tokens]
        if kind.lower() != "bearer" or not any(known):
            raise Problem("unauthorized", "a valid token is needed: Authorization: Bearer TOKEN")


@lru_cache(maxsize=64)
def is_loopback(host: str) -> bool:
    """Tell whether a name or an address always means this machine."""
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _host_name(value: str) -> str:
    """Return the name in a Host header, without the port and without the brackets of an IPv6 address."""
    found = _HOST.fullmatch(value.strip().lower())
    return "" if found is None else (found["address"] or found["name"])


def _path_in_app(scope: Scope) -> str:
    """Return the path as the routes see it: without the prefix of an app that this one is mounted in."""
    path: str = scope["path"]
    prefix: str = scope.get("root_path", "")
    return path.removeprefix(prefix) if path.startswith(f"{prefix}/") else path


def _digest(token: bytes) -> bytes:
    return hashlib.sha256(token).digest()


def _method(scope: Scope) -> str:
    method: str = scope["method"]
    return method if method in ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS") else "other"
