"""Decide which trees inside words are drawn."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import regex

if TYPE_CHECKING:
    from zishu.document import Word

_HAN: Final = regex.compile(r"\p{Han}")


def drawn_heads(word: Word) -> tuple[int, ...] | None:
    """Return the inner tree of a word if it is meaningful, otherwise None.

    Latent trees also have arcs between the letters of a Latin word or the digits of a number. These mean nothing.
    """
    return word.char_heads if _HAN.search(word.form) else None
