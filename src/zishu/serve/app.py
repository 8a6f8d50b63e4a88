"""Answer requests as an ASGI app: check them, find what answers an address, send its response.

    app = create_app(zishu.load())

Hosts and tokens are checked here, before anything else sees a request. Without a token, any web page could make its own
name resolve to this machine and send requests (DNS rebinding). So without a token, only requests for a loopback name or
an allowed host are answered. Nothing in a request ever becomes a path: the files of the page are read once and found in
a table.

All errors become answers here. The log has the method, the route and the time of a request, but nothing that the client
wrote: no text, no query, no unknown address. For an unexpected error it has the type and the lines of code, but not the
message, which might quote the text.
"""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import json
import logging
import mimetypes
import re
import time
from functools import lru_cache
from ipaddress import ip_address
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from zishu.serve import docs
from zishu.serve.description import OPERATIONS, describe_api
from zishu.serve.exchange import JSON, ClientLeft, Request, Response
from zishu.serve.limits import Limits
from zishu.serve.problems import Problem, as_problem
from zishu.serve.service import Service

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable, Mapping

    from zishu.parser import Parser
    from zishu.serve.exchange import Receive, Scope, Send

log: Final = logging.getLogger("zishu.serve")

STATIC: Final = Path(__file__).parent / "static"
GONE: Final = 499  # in the log and the metrics: the client closed the connection before its answer
_OTHER: Final = "other"  # there, an address that does not exist

# Addresses that need no token: health, and the pages that a browser must load before it can send one. They reveal
# nothing.
_HEALTH: Final = ("/v1/health", "/v1/health/live", "/v1/health/ready")
_OPEN: Final = (*_HEALTH, "/", "/docs", "/docs/style.css", "/openapi.json")
_OPEN_FOLDER: Final = "/static/"

_HOST: Final = re.compile(r"(?:\[(?P<address>[0-9a-f:.]+)\]|(?P<name>[^:\[\]/@\s]+?)\.?)(?::\d*)?")


def create_app(
    parser: Parser,
    limits: Limits | None = None,
    *,
    tokens: Iterable[str] = (),
    hosts: Iterable[str] = (),
    stopping: Callable[[], bool] = lambda: False,
    threads: int = 1,
) -> App:
    """Return the app.

    With `tokens` a request needs one of them. Without, it must be for a loopback name or one of `hosts`. `stopping`
    tells whether the process is about to end. The sentences of a batch are shared among `threads` threads; if there are
    several, load the parser with `threads=1`.
    """
    service = Service(parser, limits or Limits(), stopping=stopping, threads=threads)
    return App(service, tokens=tokens, hosts=hosts)


class App:
    """Answer requests; this is the whole app."""

    def __init__(self, service: Service, *, tokens: Iterable[str], hosts: Iterable[str]) -> None:
        self.service = service
        self._tokens = [_digest(token.encode()) for token in tokens]
        self._hosts = {host.lower() for host in hosts}
        self._files = _files(describe_api(service.limits, secured=bool(self._tokens)))
        answers: dict[str, Callable[[Request], Awaitable[Response]]] = {
            "/v1/parse": service.parse,
            "/v1/convert": service.convert,
            "/v1/model": service.describe,
            "/v1/health": service.health,
            "/v1/health/live": service.health,
            "/v1/health/ready": service.health,
            "/metrics": service.figures,
        }
        # The methods of an address, and the function behind it.
        self._routes = {
            path: (("POST",) if method == "post" else ("GET", "HEAD"), answers[path])
            for method, path in OPERATIONS
        }
        self._routes |= dict.fromkeys(self._files, (("GET", "HEAD"), self._file))

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request, or start and stop."""
        if scope["type"] == "lifespan":
            await self._live(receive, send)
            return
        if scope["type"] != "http":
            raise NotImplementedError(scope["type"])
        began = time.perf_counter()
        request = Request(scope, receive)
        status = GONE
        try:
            try:
                response = await self._route(request)
            except ClientLeft:
                return
            except Exception as error:
                response = as_problem(error).response()
            status = response.status
            await response.send(send, closing=self.service.stopping())
        except Exception as error:
            as_problem(error)
            raise ConnectionAbortedError from None  # too late for an error: the server closes the connection
        finally:
            seconds = time.perf_counter() - began
            route = request.path if request.path in self._routes else _OTHER
            if request.path.startswith(_OPEN_FOLDER):
                route = _OPEN_FOLDER
            self.service.metrics.request(route, status, seconds)
            log.info("%s %s %d %.0f ms", request.method, route, status, 1000 * seconds)

    async def _route(self, request: Request) -> Response:
        """Check the host and the token of a request, and let the function behind its address answer it."""
        path = request.path
        # Probes ask for health under any address they know, and the answer reveals nothing.
        if not self._tokens and path not in _HEALTH:
            host = _host_name(request.header(b"host"))
            if not is_loopback(host) and host not in self._hosts:
                raise Problem(
                    "unknown_host", "this service does not answer for that host; see --allowed-host"
                )
        if self._tokens and path not in _OPEN and not path.startswith(_OPEN_FOLDER):
            self._check_token(request.header(b"authorization"))
        methods, answer = self._routes.get(path, ((), None))
        if answer is None:
            raise Problem("not_found")
        if request.method not in methods:
            raise Problem("method_not_allowed", headers={"Allow": ", ".join(methods)})
        return await answer(request)

    def _check_token(self, authorization: str) -> None:
        kind, _, token = authorization.partition(" ")
        given = _digest(token.strip().encode())
        # Digests have one length and every token is compared, so the time reveals nothing.
        known = [hmac.compare_digest(given, token) for token in self._tokens]
        if kind.lower() != "bearer" or not any(known):
            raise Problem(
                "unauthorized",
                "a valid token is needed: Authorization: Bearer TOKEN",
                {"WWW-Authenticate": "Bearer"},
            )

    async def _file(self, request: Request) -> Response:
        file = self._files[request.path]
        if request.header(b"if-none-match") == file.headers["ETag"]:
            return Response(None, "", 304, file.headers)
        return file

    async def _live(self, receive: Receive, send: Send) -> None:
        """Start and stop with the server, which stops the app when all connections are done."""
        await receive()
        self.service.open()
        await send({"type": "lifespan.startup.complete"})
        await receive()
        # Closing waits for the threads.
        await asyncio.to_thread(self.service.batcher.close, self.service.limits.seconds)
        await send({"type": "lifespan.shutdown.complete"})


def _files(description: Mapping[str, Any]) -> dict[str, Response]:
    """Return what never changes, by its address: the page, its files, the documentation."""
    files = {
        "/openapi.json": _lasting(json.dumps(description, ensure_ascii=False).encode(), JSON),
        "/docs": _lasting(docs.page(description).encode(), "text/html; charset=utf-8"),
    }
    for path in STATIC.rglob("*"):
        if path.is_file():
            kind = mimetypes.guess_type(path.name)[0] or "application/octet-stream"
            kind += "; charset=utf-8" if kind.startswith("text/") else ""
            files[_OPEN_FOLDER + path.relative_to(STATIC).as_posix()] = _lasting(path.read_bytes(), kind)
    files["/"] = files[f"{_OPEN_FOLDER}index.html"]
    files["/docs/style.css"] = files[f"{_OPEN_FOLDER}docs.css"]
    return files


def _lasting(data: bytes, kind: str) -> Response:
    """Return a response that a browser may keep; it asks whether its copy is still right."""
    tag = f'"{hashlib.sha256(data).hexdigest()[:16]}"'
    return Response(data, kind, headers={"ETag": tag, "Cache-Control": "no-cache"})


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


def _digest(token: bytes) -> bytes:
    return hashlib.sha256(token).digest()
