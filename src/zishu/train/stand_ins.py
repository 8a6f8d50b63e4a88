"""Build the table of characters that are replaced by others: traditional by simplified, full-width by half-width.

A network trained on simplified text does not know traditional characters, but it knows their simplified forms.
`stand_ins` builds the table for the symbols of a vocabulary. It is stored in the vocabulary when a model is written
(`Vocabulary.stand_ins`), so parsing needs neither this module nor its source. There are two steps, the second applied
to the result of the first:

1. Unicode's compatibility form (NFKC), if it is one code point: full-width letters and digits, circled numbers,
   compatibility ideographs, ...
2. OpenCC's table of characters from traditional to simplified Chinese; the first alternative in the vocabulary is
   used. It comes with the package `opencc-python-reimplemented` (Apache-2.0) of the extra `train`.

Only characters outside the vocabulary have a stand-in, and only one that is inside. A table of characters cannot handle
cases that depend on the context (乾 is 干 or 乾). Cost: a second, once.
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
    """Map code points outside a vocabulary to their stand-ins among its symbols.

    With `lowercase`, the vocabulary also looks up letters in lower case. `simplified` is the table of the second step
    (default: OpenCC's).
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
    """Return Unicode's compatibility form of every code point, if that is a single code point."""
    decomposed = (char for char in map(chr, range(sys.maxunicode + 1)) if decomposition(char))
    forms = {char: normalize("NFKC", char) for char in decomposed if not char.isspace()}
    return {char: form for char, form in forms.items() if len(form) == 1}


def simplified_characters() -> dict[str, tuple[str, ...]]:
    """Read OpenCC's table: every traditional character with its simplified forms, the usual one first."""
    try:
        text = (files("opencc") / "dictionary" / "TSCharacters.txt").read_text(encoding="utf-8")
    except (ModuleNotFoundError, FileNotFoundError):
        # The second case is another package named `opencc`, which stores its tables in its own format.
        raise MissingExtra(_PACKAGE, "train") from None
    pairs = (line.split("\t") for line in text.splitlines() if "\t" in line)
    return {traditional: tuple(forms.split()) for traditional, forms in pairs}
