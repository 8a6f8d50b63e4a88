"""Make the table of characters that stand for others: traditional for simplified, full-width for half-width.

A network that learnt from simplified text has no numbers for traditional characters, though it knows their
simplified forms. `stand_ins` makes the table for the symbols of a vocabulary; it is baked into the vocabulary when a
model is written (`Vocabulary.stand_ins`), so parsing needs neither this module nor its source. Two steps, the second on
what the first gives:

1. Unicode's compatibility form (NFKC), where it is one code point: full-width letters and digits, circled numbers,
   compatibility ideographs, ...
2. OpenCC's table of characters from traditional to simplified Chinese, of which the first alternative in the
   vocabulary is taken. It comes with the package `opencc-python-reimplemented` (Apache-2.0), of the extra `train`.

Only characters that are not in the vocabulary have a stand-in, and only one that is. What depends on the
words around it (乾 is 干 or 乾) is beyond a table of characters. Cost: a second, once.
"""

from __future__ import annotations

import sys
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING, Final
from unicodedata import decomposition, normalize

from zishu.errors import MissingExtra

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

_PACKAGE: Final = "opencc-python-reimplemented"


def stand_ins(
    symbols: Collection[str],
    *,
    lowercase: bool = False,
    simplified: Mapping[str, tuple[str, ...]] | None = None,
) -> dict[str, str]:
    """Return what characters outside a vocabulary with these symbols stand for, by code point.

    With `lowercase` the vocabulary looks letters up in lower case, too. `simplified` is the table of the second
    step, OpenCC's if there is none given.
    """
    known = frozenset(symbols)
    simplified = simplified_characters() if simplified is None else simplified
    table = {}
    for char in sorted(_compatible().keys() | simplified.keys()):
        if char in known:
            continue
        plain = _compatible().get(char, char)
        forms = [plain, *simplified.get(plain, ())]
        if lowercase:
            forms = [variant for form in forms for variant in (form, form.lower())]
        stand_in = next((form for form in forms if form in known), None)
        # The lower case of the character itself is found without the table.
        if stand_in is not None and not (lowercase and stand_in == char.lower()):
            table[char] = stand_in
    return table


@cache
def _compatible() -> dict[str, str]:
    """Return Unicode's compatibility form of every code point that has one of one code point."""
    decomposed = (char for char in map(chr, range(sys.maxunicode + 1)) if decomposition(char))
    forms = {char: normalize("NFKC", char) for char in decomposed if not char.isspace()}
    return {char: form for char, form in forms.items() if len(form) == 1}


def simplified_characters() -> dict[str, tuple[str, ...]]:
    """Read OpenCC's table: every traditional character with its simplified forms, the usual one first."""
    try:
        text = (files("opencc") / "dictionary" / "TSCharacters.txt").read_text(encoding="utf-8")
    except (ModuleNotFoundError, FileNotFoundError):
        # The second: another package of the name `opencc`, which keeps its tables in a format of its own.
        raise MissingExtra(_PACKAGE, "train") from None
    pairs = (line.split("\t") for line in text.splitlines() if "\t" in line)
    return {traditional: tuple(forms.split()) for traditional, forms in pairs}
