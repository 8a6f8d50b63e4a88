"""Assemble the service as an ASGI app: addresses, errors, the page, the description.

    app = create_app(zishu.load())

Nothing in a request ever becomes a path: the files of the page are read once and found in a table.
"""

from __future__ import annotations

import asyncio
import hashlib
import mimetypes
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from fastapi import FastAPI, Request, Response
from fastapi.responses import JSONResponse
from starlette.exceptions import HTTPException

from zishu import __version__
from zishu.serve import docs, problems
from zishu.serve.description import (
    ANSWERS,
    CONVERT_BODY,
    CONVERTED,
    FIGURES,
    REQUEST_BODY,
    describe_api,
    errors,
)
from zishu.serve.guard import Guard
from zishu.serve.limits import Limits
from zishu.serve.metrics import CONTENT_TYPE
from zishu.serve.problems import Problem
from zishu.serve.schema import HealthAnswer, ModelAnswer, read_convert_request
from zishu.serve.service import Service
from zishu.serve.streams import MEDIA_TYPE, StreamAnswer

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterable

    from zishu.parser import Parser

STATIC: Final = Path(__file__).parent / "static"
_JSON: Final = "application/json"
_HTML: Final = "text/html; charset=utf-8"
_CODE_OF_STATUS: Final = {404: "not_found", 405: "method_not_allowed"}


def create_app(
    parser: Parser,
    limits: Limits | None = None,
    *,
    tokens: Iterable[str] = (),
    hosts: Iterable[str] = (),
    stopping: Callable[[], bool] = lambda: False,
) -> FastAPI:
    """Return the app.

    With `tokens` a request needs one of them. Without, it must be for a loopback name or one of `hosts`. `stopping`
    tells whether the process is about to end.
    """
    limits = limits or Limits()
    tokens = tuple(tokens)
    service = Service(parser, limits, stopping=stopping)

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        service.open()
        yield
        # The server calls this when all connections are done; closing waits for the thread.
        await asyncio.to_thread(service.batcher.close, limits.seconds)

    app = FastAPI(
        title="Zishu",
        version=__version__,
        lifespan=lifespan,
        docs_url=None,  # FastAPI's own pages load scripts from other sites
        redoc_url=None,
        openapi_url="/openapi.json",
        redirect_slashes=False,
    )
    app.state.service = service
    app.add_middleware(Guard, tokens=tokens, hosts=hosts, metrics=service.metrics, stopping=stopping)
    app.add_exception_handler(Problem, _tell_problem)
    app.add_exception_handler(HTTPException, _tell_http)
    _add_api(app, service)
    _add_pages(app)
    description = describe_api(app, limits, secured=bool(tokens))
    app.openapi = lambda: description  # type: ignore[method-assign]
    return app


def _add_api(app: FastAPI, service: Service) -> None:
    @app.post(
        "/v1/parse",
        summary="Parse texts or words",
        tags=["parse"],
        response_class=Response,
        responses=ANSWERS | errors("parse"),
        openapi_extra={"requestBody": REQUEST_BODY},
    )
    async def parse(request: Request) -> Response:
        """Parse a text, several texts, or sentences of given words.

        With the type `application/x-ndjson` the body is a stream: every line is a request, and every line of the answer
        is its answer or an error, in the same order.
        """
        kind = _kind(request)
        if kind == MEDIA_TYPE:
            return StreamAnswer(service)
        if kind != _JSON:
            raise Problem("unsupported_media_type", f"the Content-Type must be {_JSON} or {MEDIA_TYPE}")
        length = request.headers.get("content-length")
        answer = await service.answer(request.receive, length, limit=service.limits.body)
        return Response(answer, media_type=_JSON)

    @app.post(
        "/v1/convert",
        summary="Write parsed sentences in another format",
        tags=["parse"],
        response_class=Response,
        responses=CONVERTED | errors("convert"),
        openapi_extra={"requestBody": CONVERT_BODY},
    )
    async def convert(request: Request) -> Response:
        """Return sentences that this service has parsed as CoNLL-U or SVG, for example those chosen by a user."""
        if _kind(request) != _JSON:
            raise Problem("unsupported_media_type", f"the Content-Type must be {_JSON}")
        answer = await service.answer(
            request.receive,
            request.headers.get("content-length"),
            limit=service.limits.convert_body,
            decode=read_convert_request,
        )
        return Response(answer, media_type=_JSON)

    @app.get(
        "/v1/model",
        summary="Describe the model",
        tags=["service"],
        response_model=ModelAnswer,
        responses=errors("model"),
    )
    async def model() -> Response:
        """Return the name of the model, its labels and scores, and the limits of a request."""
        return JSONResponse(service.model)

    def health(*, ready: bool) -> Response:
        state = {"live": True, "ready": service.ready}
        return JSONResponse(state, status_code=503 if ready and not state["ready"] else 200)

    unready: dict[int | str, dict[str, Any]] = {
        503: {"model": HealthAnswer, "description": "It runs, but accepts no requests now."}
    }

    @app.get("/v1/health", summary="Tell both", tags=["service"], response_model=HealthAnswer)
    async def both() -> Response:
        """Return whether the service runs and whether it accepts requests; the status is always 200."""
        return health(ready=False)

    @app.get("/v1/health/live", summary="Tell whether it runs", tags=["service"], response_model=HealthAnswer)
    async def live() -> Response:
        """Return 200 as long as the process answers: restart it if it does not."""
        return health(ready=False)

    @app.get(
        "/v1/health/ready",
        summary="Tell whether it accepts requests",
        tags=["service"],
        response_model=HealthAnswer,
        responses=unready,
    )
    async def ready() -> Response:
        """Return 200 if the next request would be accepted, 503 while the queue is full, stuck or being closed."""
        return health(ready=True)

    @app.get(
        "/metrics",
        summary="Return figures for Prometheus",
        tags=["service"],
        response_class=Response,
        responses=FIGURES | errors("metrics"),
    )
    async def metrics() -> Response:
        """Return counters of the service, summed over all worker processes."""
        return Response(service.metrics.text(), headers={"Content-Type": CONTENT_TYPE})


def _add_pages(app: FastAPI) -> None:
    files = _read_files(STATIC)

    def file(request: Request, name: str) -> Response:
        if name not in files:
            raise HTTPException(404)
        data, kind, tag = files[name]
        headers = {"ETag": tag, "Cache-Control": "no-cache"}
        if request.headers.get("if-none-match") == tag:
            return Response(status_code=304, headers=headers)
        return Response(data, headers=headers | {"Content-Type": kind})

    @app.api_route("/", methods=["GET", "HEAD"], include_in_schema=False)
    async def index(request: Request) -> Response:
        return file(request, "index.html")

    @app.api_route("/static/{name:path}", methods=["GET", "HEAD"], include_in_schema=False)
    async def static(request: Request, name: str) -> Response:
        return file(request, name)

    @app.api_route("/docs", methods=["GET", "HEAD"], include_in_schema=False)
    async def documentation() -> Response:
        return Response(docs.page(app.openapi()), headers={"Content-Type": _HTML})

    @app.api_route("/docs/style.css", methods=["GET", "HEAD"], include_in_schema=False)
    async def style() -> Response:
        return Response(docs.STYLE, headers={"Content-Type": "text/css; charset=utf-8"})


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


async def _tell_problem(_: Request, problem: Exception) -> Response:
    assert isinstance(problem, Problem)
    return problems.response(problem)


async def _tell_http(_: Request, error: Exception) -> Response:
    """Return the framework's own errors in our format: only wrong addresses and wrong methods."""
    assert isinstance(error, HTTPException)
    code = _CODE_OF_STATUS.get(error.status_code, "invalid_request")
    problem = Problem(code, problems.CODES[code][1])
    problem.status = error.status_code
    return problems.response(problem, error.headers)
