"""Serve a parser over HTTP, with a web page that shows the results.

    zishu serve                                    # http://127.0.0.1:8000
    uvicorn.run(create_app(zishu.load()))          # the same as an ASGI app, without connection limits

Read the modules in this order: `limits`; `exchange` (a request and its response); `problems` (errors that clients get),
`schema` (requests, and the sentences in them); `jobs` (analyses to answer), `batching` (parse requests together);
`service` (between HTTP and the batcher), `streams` (one request per line); `description` and `docs` (OpenAPI, and a page of
it), `app` (addresses; around every request: hosts, tokens, errors, the log); `connections` (time limits, maximum number),
`server` (sockets, signals, worker processes). All of it needs the extra `serve`.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from zishu.errors import MissingExtra

if TYPE_CHECKING:
    from zishu.serve.app import create_app
    from zishu.serve.limits import Limits
    from zishu.serve.server import ServerSettings, read_tokens, serve

__all__ = ["Limits", "ServerSettings", "create_app", "read_tokens", "serve"]

_HOMES = {
    "Limits": "limits",
    "ServerSettings": "server",
    "create_app": "app",
    "read_tokens": "server",
    "serve": "server",
}
_PACKAGES = {"httptools", "prometheus_client", "pydantic", "uvicorn"}


def __getattr__(name: str) -> Any:
    """Import a public name from its module; if a package is missing, name the extra to install."""
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    try:
        return getattr(import_module(f"zishu.serve.{_HOMES[name]}"), name)
    except ModuleNotFoundError as error:
        package = (error.name or "").partition(".")[0]
        if package not in _PACKAGES:
            raise
        raise MissingExtra(package, "serve") from error
