"""Check every request before the app sees it: hosts, tokens, headers, metrics, the log, unexpected errors.

Without a token, any web page could make its own name resolve to this machine and send requests (DNS rebinding). So
without a token, only requests for a loopback name or an allowed host are answered.

This is a plain ASGI app around the router, so no answer leaves without its headers, and all errors become answers here.
The log has the method, the route and the time of a request, but nothing that the client wrote: no text, no query, no
unknown address. For an unexpected error it has the type and the lines of code, but not the message, which might quote
the text.
"""

from __future__ import annotations

import hashlib
import hmac
import logging
import re
import time
from functools import lru_cache
from ipaddress import ip_address
from typing import TYPE_CHECKING, Final

from starlette.datastructures import Headers
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect

from zishu.serve.problems import CODES, Problem, as_problem, response

if TYPE_CHECKING:
    from collections.abc import Iterable

    from starlette.routing import Router
    from starlette.types import Message, Receive, Scope, Send

    from zishu.serve.service import Service

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
_RAW_HEADERS: Final = [(name.lower().encode(), value.encode()) for name, value in SECURITY_HEADERS.items()]
GONE: Final = 499  # in the log and the metrics: the client closed the connection before its answer

# Addresses that need no token: health, and the pages that a browser must load before it can send one. They reveal
# nothing.
_HEALTH: Final = ("/v1/health", "/v1/health/live", "/v1/health/ready")
_OPEN: Final = (*_HEALTH, "/", "/docs", "/docs/style.css", "/openapi.json")
_OPEN_FOLDER: Final = "/static/"
STATIC_ROUTE: Final = "/static/{name:path}"

_HOST: Final = re.compile(r"(?:\[(?P<address>[0-9a-f:.]+)\]|(?P<name>[^:\[\]/@\s]+?)\.?)(?::\d*)?")


class Guard:
    """Wrap the routes of a service; this is the whole app."""

    def __init__(
        self, routes: Router, service: Service, *, tokens: Iterable[str], hosts: Iterable[str]
    ) -> None:
        self.service = service
        self._routes = routes
        self._paths = {getattr(route, "path", "") for route in routes.routes}
        self._tokens = [_digest(token.encode()) for token in tokens]
        self._hosts = {host.lower() for host in hosts}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Accept or reject a request."""
        scope["app"] = self  # so the router raises an error for an unknown address instead of answering it
        if scope["type"] != "http":
            await self._routes(scope, receive, send)
            return
        began = time.perf_counter()
        path = _path_in_app(scope)
        status = GONE

        async def send_guarded(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                headers = message["headers"] = [*message["headers"], *_RAW_HEADERS]
                if not any(name == b"cache-control" for name, _ in headers):
                    headers.append((b"cache-control", b"no-store"))
                if self.service.stopping():
                    headers.append((b"connection", b"close"))
            await send(message)

        try:
            self._check_host(scope, path)
            self._check_token(scope, path)
            await self._routes(scope, receive, send_guarded)
        except ClientDisconnect:
            pass
        except HTTPException as error:  # from the router
            code = "not_found" if error.status_code == 404 else "method_not_allowed"
            problem = Problem(code, CODES[code][1])
            problem.headers.update(error.headers or {})
            await response(problem)(scope, receive, send_guarded)
        except Exception as error:
            problem = as_problem(error)
            if status != GONE:
                raise ConnectionAbortedError from None  # too late for an error: the server closes the connection
            await response(problem)(scope, receive, send_guarded)
        finally:
            seconds = time.perf_counter() - began
            route = (
                STATIC_ROUTE if path.startswith(_OPEN_FOLDER) else path if path in self._paths else "other"
            )
            self.service.metrics.request(route, status, seconds)
            log.info("%s %s %d %.0f ms", _method(scope), route, status, 1000 * seconds)

    def _check_host(self, scope: Scope, path: str) -> None:
        # Probes ask for health under any address they know, and the answer reveals nothing.
        if self._tokens or path in _HEALTH:
            return
        host = _host_name(Headers(scope=scope).get("host", ""))
        if not is_loopback(host) and host not in self._hosts:
            raise Problem("unknown_host", "this service does not answer for that host; see --allowed-host")

    def _check_token(self, scope: Scope, path: str) -> None:
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
