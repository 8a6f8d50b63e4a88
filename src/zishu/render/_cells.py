r"""Make any string safe to display, and compute its width on a terminal.

`visible` escapes whatever has no glyph or would disturb its neighbours: control and format characters (an escape code,
a mark that reverses the direction of writing), lone surrogates, white space other than the space, and combining marks
without a base letter. They become `\x1b`, `\u202e`. The result can be printed and written into XML 1.0. `cells` returns
the terminal columns that a visible string fills: two for a Chinese character or an emoji, none for a combining mark. A
grapheme cluster never takes more than two. `drawn_heads` decides which trees inside words are drawn.
"""

from __future__ import annotations

import unicodedata
from functools import lru_cache
from typing import TYPE_CHECKING, Final

import regex
from rich.cells import get_character_cell_size

from zishu.text import characters

if TYPE_CHECKING:
    from zishu.document import Word

_HAN: Final = regex.compile(r"\p{Han}")
_HIDDEN = frozenset(("Cc", "Cf", "Cs", "Cn", "Zl", "Zp", "Zs"))
_EMOJI_STYLE = "\ufe0f"  # requests the wide, coloured form of the preceding sign
_JOINERS = frozenset(("Mn", "Me", "Cf"))  # what may follow the first code point of a grapheme cluster


@lru_cache(maxsize=16384)
def visible(text: str) -> str:
    """Return the text with everything that has no glyph of its own escaped."""
    if text.isascii() and text.isprintable():
        return text
    return "".join(map(_visible_char, characters(text)))


@lru_cache(maxsize=16384)
def cells(text: str) -> int:
    """Return the number of terminal columns that a visible text fills."""
    return len(text) if text.isascii() else sum(map(_char_cells, characters(text)))


@lru_cache(maxsize=8192)
def _visible_char(char: str) -> str:
    first = unicodedata.category(char[0])
    if char == " ":
        return char
    if first in _HIDDEN or first[0] == "M":
        return "".join(map(_escape, char))
    # Keep a letter with marks or an emoji of several parts. Direction marks never belong to a grapheme cluster.
    return char[0] + "".join(
        part
        if unicodedata.category(part) in _JOINERS or unicodedata.category(part)[0] not in "CZ"
        else _escape(part)
        for part in char[1:]
    )


def _escape(char: str) -> str:
    code = ord(char)
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


@lru_cache(maxsize=8192)
def _char_cells(char: str) -> int:
    if len(char) == 1:
        return get_character_cell_size(char)
    if _EMOJI_STYLE in char or "\U0001f1e6" <= char[0] <= "\U0001f1ff":
        return 2
    return max(map(get_character_cell_size, char))


def drawn_heads(word: Word) -> tuple[int, ...] | None:
    """Return the inner tree of a word if it is meaningful, otherwise None.

    Latent trees also have arcs between the letters of a Latin word or the digits of a number. These mean nothing.
    """
    return word.char_heads if _HAN.search(word.form) else None
