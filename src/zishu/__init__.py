"""Read Chinese text character by character: words, their dependency tree, and the tree inside every word."""

from zishu.errors import (
    ConfigError,
    FormatError,
    Infeasible,
    InputError,
    InvalidTree,
    MissingExtra,
    ZishuError,
)

__all__ = [
    "ConfigError",
    "FormatError",
    "Infeasible",
    "InputError",
    "InvalidTree",
    "MissingExtra",
    "ZishuError",
    "__version__",
]

__version__ = "0.1.0.dev0"
