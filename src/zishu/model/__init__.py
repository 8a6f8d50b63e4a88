"""Hold what a trained parser is on disk, run it, and turn its scores into trees.

In the order to read: `vocabulary` and `features` (characters to numbers), `settings` (config.json), `windows`
(sentences too long for an encoder), `decode` (scores to trees), `runtime` (ONNX sessions, and all of it
together). Nothing here imports torch: a user who only parses never installs it. Training shares everything but
`runtime`, so a parser is evaluated in training by the code that people run.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from zishu.model.runtime import Model, Pipeline, load_model

__all__ = ["Model", "Pipeline", "load_model"]


def __getattr__(name: str) -> Any:
    """Import the runtime when it is first asked for: it brings ONNX Runtime and the chart's compiler along."""
    if name in __all__:
        from zishu.model import runtime

        return getattr(runtime, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
