"""Convert traditional characters to simplified ones, so that a word is found in either script.

The table comes from the bundled model (`chars.json`), which uses it to look up characters that it has not learned; so
the package has only one table. It maps characters one by one: 髮 and 發 both become 发. It cannot handle cases that depend
on the context.
"""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_VOCABULARY: Final = Path(__file__).parent / "models" / "default" / "chars.json"
_FIRST_IDEOGRAPH: Final = "\u3400"  # full-width letters come later, but are not ideographs
_LAST_IDEOGRAPH: Final = "\U0003ffff"


def simplify(chars: Sequence[str]) -> list[str]:
    """Return the characters, with traditional ones replaced by simplified ones."""
    return list(map(_simplified().get, chars, chars))


@cache
def _simplified() -> Mapping[str, str]:
    table: dict[str, str] = json.loads(_VOCABULARY.read_text(encoding="utf-8"))["stand_ins"]
    return {
        char: form
        for char, form in table.items()
        if _FIRST_IDEOGRAPH <= char <= _LAST_IDEOGRAPH and not "\uff00" <= char <= "\uffef"
    }
