"""`zishu serve`: answer requests over HTTP, and show the page. The work is done in `zishu.serve`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from zishu.cli._options import ModelOption


def serve_command(
    host: Annotated[
        str, typer.Option(metavar="ADDRESS", help="Address to serve on (default: this machine only).")
    ] = "127.0.0.1",
    port: Annotated[
        int, typer.Option(metavar="N", min=0, max=65535, help="Port to serve on; 0 means any free port.")
    ] = 8000,
    model: ModelOption = None,
    workers: Annotated[
        int,
        typer.Option(metavar="N", min=1, help="Processes, each with its own model and share of the cores."),
    ] = 1,
    token_file: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Answer only requests with a bearer token from this file, one per line.",
        ),
    ] = None,
    allowed_host: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME",
            help="Without tokens, also answer requests for this host name; may be repeated. "
            "By default only loopback names.",
        ),
    ] = None,
) -> None:
    """Serve the parser and its page over HTTP.

    The page is at /, the documentation of the service at /docs. SIGTERM and Ctrl-C stop it gracefully: accepted
    requests are still answered.
    """
    from zishu import serve

    settings = serve.ServerSettings(
        host=host,
        port=port,
        model=model,
        workers=workers,
        tokens=() if token_file is None else serve.read_tokens(token_file),
        hosts=tuple(allowed_host or ()),
    )
    serve.serve(settings)
