"""Parse Chinese text character by character: words, their dependency tree, and the tree inside every word.

    import zishu

    nlp = zishu.load()
    print(nlp("上海计划发展金融业。"))

Everything that runs a model or reads text is imported on first use (PEP 562), so that `import zishu` itself is fast:
ONNX Runtime and the chart's compiler alone take half a second.
"""

from __future__ import annotations

import os
from importlib import import_module
from typing import TYPE_CHECKING, Any

from zishu.errors import (
    ConfigError,
    FormatError,
    Infeasible,
    InputError,
    InvalidTree,
    MissingExtra,
    ZishuError,
)

if TYPE_CHECKING:
    from zishu.document import Document, Sentence, Word
    from zishu.lexicon import Lexicon
    from zishu.parser import Parser, load

__all__ = [
    "ConfigError",
    "Document",
    "FormatError",
    "Infeasible",
    "InputError",
    "InvalidTree",
    "Lexicon",
    "MissingExtra",
    "Parser",
    "Sentence",
    "Word",
    "ZishuError",
    "__version__",
    "load",
]

__version__ = "0.1.0"

# ONNX Runtime reports to its maker unless this is set before it is imported. Zishu only uses the network on request.
os.environ["ORT_DISABLE_TELEMETRY"] = "1"

_HOMES = {
    "Document": "zishu.document",
    "Lexicon": "zishu.lexicon",
    "Parser": "zishu.parser",
    "Sentence": "zishu.document",
    "Word": "zishu.document",
    "load": "zishu.parser",
}


def __getattr__(name: str) -> Any:
    """Import a public name from its module."""
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = globals()[name] = getattr(import_module(_HOMES[name]), name)
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
