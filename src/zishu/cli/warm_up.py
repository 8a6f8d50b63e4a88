"""`zishu warm-up`: compile the chart now, so that no later process waits for it."""

from __future__ import annotations

import typer


def warm_up_command() -> None:
    """Compile the chart in advance.

    Useful when building a container image, for example. Later processes load it from the printed folder.
    NUMBA_CACHE_DIR sets another folder, which must be the same for all of them.
    """
    from zishu.chart import _kernels
    from zishu.chart._cache import folder_of
    from zishu.errors import ZishuError
    from zishu.parser import load

    parser = load()
    text = "上海计划发展金融业。"
    for decoding in ("mbr", "viterbi"):
        for confidence in (True, False):
            parser(text, confidence=confidence, decoding=decoding)
    parser(text, pins=[(0, 2)])
    parser.parse_words([["上海", "计划"]])
    parser.k_best(text, 2)
    folder = folder_of(_kernels.run)
    if folder is None:
        raise ZishuError("the compiled chart cannot be saved: set NUMBA_CACHE_DIR to a writable folder")
    typer.echo(folder)
