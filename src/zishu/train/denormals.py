"""Flush denormal numbers to 0 while a network is trained."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

import torch

if TYPE_CHECKING:
    from collections.abc import Iterator


@contextmanager
def denormals_flushed() -> Iterator[None]:
    """Flush denormal numbers inside the block only, because this is a state of the processor.

    The optimiser's averages of vanished gradients decay into denormal numbers, which are slow.
    """
    torch.set_flush_denormal(True)
    try:
        yield
    finally:
        torch.set_flush_denormal(False)
