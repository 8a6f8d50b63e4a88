"""Read traditional characters as simplified ones, so that a word is found in either script.

The table is that of the bundled model (`chars.json`), which looks up characters that it has not learned by it; so there
is one table in the package. It maps characters one by one: 髮 and 發 are both 发. What depends on the words around a
character is beyond it.
"""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_VOCABULARY: Final = Path(__file__).parent / "models" / "default" / "chars.json"
_FIRST_IDEOGRAPH: Final = "\u3400"  # full-width letters come later, but are no ideographs
_LAST_IDEOGRAPH: Final = "\U0003ffff"


def simplify(chars: Sequence[str]) -> list[str]:
    """Return the characters with simplified forms for traditional ones."""
    return list(map(_simplified().get, chars, chars))


@cache
def _simplified() -> Mapping[str, str]:
    table: dict[str, str] = json.loads(_VOCABULARY.read_text(encoding="utf-8"))["stand_ins"]
    return {
        char: form
        for char, form in table.items()
        if _FIRST_IDEOGRAPH <= char <= _LAST_IDEOGRAPH and not "\uff00" <= char <= "\uffef"
    }
