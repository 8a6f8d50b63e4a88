"""`zishu warm-up`: compile the chart now, so that no later process waits for it."""

from __future__ import annotations

import typer


def warm_up_command() -> None:
    """Compile the chart in advance.

    Useful when building a container image, for example. Later processes load it from the printed folder.
    NUMBA_CACHE_DIR sets another folder, which must be the same for all of them.
    """
    from zishu.chart._compiled import load_kernels, object_path
    from zishu.errors import ZishuError

    load_kernels()
    path = object_path()
    if path is None or not path.exists():
        raise ZishuError("the compiled chart cannot be saved: set NUMBA_CACHE_DIR to a writable folder")
    typer.echo(path.parent)
