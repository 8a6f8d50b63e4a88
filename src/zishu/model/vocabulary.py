"""Give every character, and every pair of neighbouring characters, its number.

A vocabulary is an ordered list of symbols. Four of them are special: padding, unknown, the begin of a
sentence (which stands for ROOT, too) and its end. No character can be taken for one of them, because the
name of a special symbol is always longer than one character. What an unknown character looks like is tried
in a fixed order: the character as it is, in lower case (if the vocabulary says so), then its first code
point in the same two ways, so that a letter with an unseen combining mark is still that letter.

Cost: one or a few dictionary look-ups a character.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final

from zishu.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

PAD: Final = "<pad>"
UNKNOWN: Final = "<unk>"
BOS: Final = "<bos>"
EOS: Final = "<eos>"


@dataclass(frozen=True, slots=True)
class Vocabulary:
    """Symbols and their numbers; a symbol's number is its place in `symbols`."""

    symbols: tuple[str, ...]
    pad: int
    unknown: int
    bos: int
    eos: int
    lowercase: bool = False  # look an unknown character up in lower case, too
    _numbers: dict[str, int] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        for name in ("pad", "unknown", "bos", "eos"):
            if not 0 <= getattr(self, name) < len(self.symbols):
                raise InputError(f"vocabulary: {name} is not the number of a symbol")
        numbers = {symbol: number for number, symbol in enumerate(self.symbols)}
        if len(numbers) != len(self.symbols):
            raise InputError("vocabulary: a symbol stands in it twice")
        object.__setattr__(self, "_numbers", numbers)

    def __len__(self) -> int:
        return len(self.symbols)

    def ids(self, chars: Sequence[str]) -> list[int]:
        """Return the number of each character."""
        get = self._numbers.get
        return [self._similar(char) if (number := get(char)) is None else number for char in chars]

    def _similar(self, char: str) -> int:
        """Return the number of what a character that is not in the vocabulary may stand for."""
        for form in (char, char[:1]):
            for variant in (form, form.lower()) if self.lowercase else (form,):
                if (number := self._numbers.get(variant)) is not None:
                    return number
        return self.unknown

    @classmethod
    def build(cls, counts: Mapping[str, int], *, min_count: int = 1) -> Vocabulary:
        """Make a vocabulary: special symbols, then what was counted, by falling count, ties by code point."""
        specials = (PAD, UNKNOWN, BOS, EOS)
        frequent = (s for s, count in counts.items() if count >= min_count and s not in specials)
        ordered = sorted(frequent, key=lambda symbol: (-counts[symbol], symbol))
        return cls((*specials, *ordered), pad=0, unknown=1, bos=2, eos=3)

    def to_json(self) -> dict[str, Any]:
        """Return the vocabulary as plain objects, for JSON."""
        return {
            "pad": self.pad,
            "unknown": self.unknown,
            "bos": self.bos,
            "eos": self.eos,
            "lowercase": self.lowercase,
            "symbols": list(self.symbols),
        }

    @classmethod
    def from_json(cls, data: object) -> Vocabulary:
        """Rebuild a vocabulary from what `to_json` gave."""
        if not isinstance(data, dict):
            raise InputError("vocabulary: not a JSON object")
        symbols = data.get("symbols")
        if not isinstance(symbols, list) or not all(isinstance(symbol, str) for symbol in symbols):
            raise InputError("vocabulary: 'symbols' must be a list of strings")
        specials = {}
        for name in ("pad", "unknown", "bos", "eos"):
            number = data.get(name)
            if not isinstance(number, int) or isinstance(number, bool):
                raise InputError(f"vocabulary: '{name}' must be a number")
            specials[name] = number
        return cls(tuple(symbols), **specials, lowercase=bool(data.get("lowercase", False)))


def bigrams(chars: Sequence[str]) -> list[str]:
    """Return the pair of the previous character and this one for each; the first one's partner is `<bos>`."""
    return [previous + char for previous, char in pairwise([BOS, *chars])]
