"""Assemble the service as an ASGI app: addresses, the page, the documentation.

    app = create_app(zishu.load())

`zishu.serve.guard` wraps all of it. Nothing in a request ever becomes a path: the files of the page are read once and
found in a table.
"""

from __future__ import annotations

import asyncio
import hashlib
import mimetypes
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from starlette.responses import HTMLResponse, JSONResponse, Response
from starlette.routing import Route, Router

from zishu.serve import docs
from zishu.serve.description import JSON, NDJSON, OPERATIONS, describe_api
from zishu.serve.guard import STATIC_ROUTE, Guard
from zishu.serve.limits import Limits
from zishu.serve.metrics import CONTENT_TYPE
from zishu.serve.problems import CODES, Problem
from zishu.serve.schema import read_convert_request
from zishu.serve.service import Service
from zishu.serve.streams import StreamAnswer

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Iterable

    from starlette.requests import Request

    from zishu.parser import Parser

    Handler = Callable[[Request], Awaitable[Response]]

STATIC: Final = Path(__file__).parent / "static"


def create_app(
    parser: Parser,
    limits: Limits | None = None,
    *,
    tokens: Iterable[str] = (),
    hosts: Iterable[str] = (),
    stopping: Callable[[], bool] = lambda: False,
    threads: int = 1,
) -> Guard:
    """Return the app.

    With `tokens` a request needs one of them. Without, it must be for a loopback name or one of `hosts`. `stopping`
    tells whether the process is about to end. The sentences of a batch are shared among `threads` threads; if there are
    several, load the parser with `threads=1`.
    """
    limits = limits or Limits()
    tokens = tuple(tokens)
    service = Service(parser, limits, stopping=stopping, threads=threads)

    @asynccontextmanager
    async def lifespan(_: object) -> AsyncIterator[None]:
        service.open()
        yield
        # The server calls this when all connections are done; closing waits for the thread.
        await asyncio.to_thread(service.batcher.close, limits.seconds)

    api = _api(service)
    routes = [Route(path, api[path], methods=[method]) for method, path in OPERATIONS]
    routes += [Route(path, page) for path, page in _pages(describe_api(limits, secured=bool(tokens))).items()]
    return Guard(
        Router(routes, redirect_slashes=False, lifespan=lifespan), service, tokens=tokens, hosts=hosts
    )


def _api(service: Service) -> dict[str, Handler]:
    """Return the functions behind the addresses that `zishu.serve.description` describes."""

    async def parse(request: Request) -> Response:
        kind = _kind(request)
        if kind == NDJSON:
            return StreamAnswer(service)
        if kind != JSON:
            raise Problem("unsupported_media_type", f"the Content-Type must be {JSON} or {NDJSON}")
        return Response(await service.answer(request), media_type=JSON)

    async def convert(request: Request) -> Response:
        if _kind(request) != JSON:
            raise Problem("unsupported_media_type", f"the Content-Type must be {JSON}")
        answer = await service.answer(request, read_convert_request, limit=service.limits.convert_body)
        return Response(answer, media_type=JSON)

    async def model(_: Request) -> Response:
        return JSONResponse(service.model)

    async def health(_: Request) -> Response:
        return JSONResponse({"live": True, "ready": service.ready})

    async def ready(_: Request) -> Response:
        state = service.ready
        return JSONResponse({"live": True, "ready": state}, status_code=200 if state else 503)

    async def metrics(_: Request) -> Response:
        return Response(service.metrics.text(), headers={"Content-Type": CONTENT_TYPE})

    return {
        "/v1/parse": parse,
        "/v1/convert": convert,
        "/v1/model": model,
        "/v1/health": health,
        "/v1/health/live": health,
        "/v1/health/ready": ready,
        "/metrics": metrics,
    }


def _pages(description: dict[str, Any]) -> dict[str, Handler]:
    """Return the functions behind the addresses for people: the page, its files, the documentation."""
    files = _read_files(STATIC)
    page = docs.page(description)

    async def file(request: Request) -> Response:
        name = request.path_params.get("name", "index.html")
        if name not in files:
            raise Problem("not_found", CODES["not_found"][1])
        data, kind, tag = files[name]
        headers = {"ETag": tag, "Cache-Control": "no-cache"}
        if request.headers.get("if-none-match") == tag:
            return Response(status_code=304, headers=headers)
        return Response(data, headers=headers | {"Content-Type": kind})

    async def openapi(_: Request) -> Response:
        return JSONResponse(description)

    async def documentation(_: Request) -> Response:
        return HTMLResponse(page)

    async def style(_: Request) -> Response:
        return Response(docs.STYLE, media_type="text/css")

    return {
        "/": file,
        STATIC_ROUTE: file,
        "/openapi.json": openapi,
        "/docs": documentation,
        "/docs/style.css": style,
    }


def _kind(request: Request) -> str:
    return request.headers.get("content-type", "").partition(";")[0].strip().lower()


def _read_files(folder: Path) -> dict[str, tuple[bytes, str, str]]:
    """Return the content, the type and an ETag of every file in a folder, by its relative name."""
    files = {}
    for path in sorted(folder.rglob("*")):
        if not path.is_file():
            continue
        data = path.read_bytes()
        kind = mimetypes.guess_type(path.name)[0] or "application/octet-stream"
        if kind.startswith("text/"):
            kind += "; charset=utf-8"
        tag = f'"{hashlib.sha256(data).hexdigest()[:16]}"'
        files[path.relative_to(folder).as_posix()] = (data, kind, tag)
    return files
