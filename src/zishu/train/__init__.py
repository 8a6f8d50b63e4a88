"""Train parsers: encoders, scorers, losses, optimisation, export.

The only part of Zishu that imports torch.
"""

from __future__ import annotations

from zishu.errors import MissingExtra

try:
    import torch as _torch  # noqa: F401  (imported here so that its absence is reported once, and first)
except ModuleNotFoundError as error:
    # If torch is installed but something inside it is missing, keep the original message.
    if error.name != "torch":
        raise
    raise MissingExtra("torch", "train") from error
