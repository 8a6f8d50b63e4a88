"""Hold what a trained parser is on disk, run it, and turn its scores into trees.

In the order to read: `vocabulary` and `features` (characters to numbers; `stand_ins` for those that training never
showed), `settings` (config.json), `windows` (sentences too long for an encoder); `outputs` (what goes into
decoding), `scores`, `labels`, `words`, `confidence`, `k_best` and with all of them `decode` (scores to trees),
`segments` (scores of a segmenter to words); `networks` (characters to scores), `parsers` (all of it together), `runtime`
(a directory to ONNX sessions), `directory` (writing one). Nothing here imports torch: a user who only parses never
installs it. Training shares everything but the last four, so a parser is evaluated in training by the code that people
run.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from zishu.model.parsers import Model, Pipeline
    from zishu.model.runtime import load_model

_HOMES = {
    "Model": "parsers",
    "Pipeline": "parsers",
    "load_model": "runtime",
}

__all__ = ["Model", "Pipeline", "load_model"]


def __getattr__(name: str) -> Any:
    """Import things when they are first asked for: they bring ONNX Runtime and the chart's compiler along."""
    if name in _HOMES:
        return getattr(import_module(f"zishu.model.{_HOMES[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
