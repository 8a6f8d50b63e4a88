"""Map characters and character bigrams to numbers.

A vocabulary is an ordered list of symbols. Four of them are special: padding, unknown, the beginning of a sentence
(which also represents ROOT) and its end. No character can be confused with them, because the name of a special symbol
is always longer than one character.

A character that is not in the vocabulary may be replaced by one that is. The first of these that is found is used:

1. the character itself,
2. its lower case (if the vocabulary says so),
3. its stand-in: the simplified form of a traditional character, the plain form of a full-width letter
   (`zishu.train.stand_ins` builds the table, which is part of the vocabulary),
4. its first code point in the same three ways, so that a letter with an unseen combining mark is read as that letter,
   and a character with a variation selector as that character.

Bigrams are made of these replacements: see `Vocabulary.known`.

There are two ways to the same numbers. Lists of characters take one or a few dictionary lookups each. Arrays of code
points take one lookup in a table, and bigrams a binary search; that is for whole batches of characters of one code
point each.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from zishu.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

PAD: Final = "<pad>"
UNKNOWN: Final = "<unk>"
BOS: Final = "<bos>"
EOS: Final = "<eos>"

# Two numbers that stand for no code point: the beginning of a sentence, and a form of several code points.
BEGIN: Final = 0x110000
SEVERAL: Final = 0x110001
_BITS: Final = 21  # of a code point


@dataclass(frozen=True)
class Vocabulary:
    """Map symbols to numbers; a symbol's number is its index in `symbols`."""

    symbols: tuple[str, ...]
    pad: int
    unknown: int
    bos: int
    eos: int
    lowercase: bool = False  # look up unknown characters in lower case, too
    # Symbols that replace characters outside the vocabulary.
    stand_ins: Mapping[str, str] = field(default_factory=dict, hash=False)
    _numbers: dict[str, int] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        for name in ("pad", "unknown", "bos", "eos"):
            if not 0 <= getattr(self, name) < len(self.symbols):
                raise InputError(f"vocabulary: {name} is not the number of a symbol")
        numbers = dict(zip(self.symbols, range(len(self.symbols)), strict=True))
        if len(numbers) != len(self.symbols):
            raise InputError("vocabulary: it contains a symbol twice")
        for char, symbol in self.stand_ins.items():
            if symbol not in numbers:
                raise InputError(f"vocabulary: {symbol!r}, the stand-in of {char!r}, is not in it")
        object.__setattr__(self, "_numbers", numbers)

    def __len__(self) -> int:
        return len(self.symbols)

    def ids(self, chars: Sequence[str]) -> list[int]:
        """Return the number of each character."""
        get, unknown = self._numbers.get, self.unknown
        numbers = list(map(get, chars))
        if None not in numbers:
            return numbers  # type: ignore[return-value]  # mypy cannot see it
        return [
            get(self._known(char), unknown) if number is None else number
            for char, number in zip(chars, numbers, strict=True)
        ]

    def known(self, chars: Sequence[str]) -> list[str]:
        """Return the known form of each character, or the character itself if it has none."""
        numbers = self._numbers
        if all(map(numbers.__contains__, chars)):
            return list(chars)
        return [char if char in numbers else self._known(char) for char in chars]

    def _known(self, char: str) -> str:
        """Return the known form of a character outside the vocabulary, or the character itself."""
        numbers = self._numbers
        for form in (char, char[:1]):
            if form in numbers:
                return form
            if self.lowercase and (lower := form.lower()) in numbers:
                return lower
            if (stand_in := self.stand_ins.get(form)) is not None:
                return stand_in
        return char

    def number_codes(self, codes: NDArray[np.unsignedinteger]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return the numbers of characters of one code point, and the code points of their known forms."""
        numbers, known = self._by_code
        for code in set(codes[known[codes] == 0].tolist()):
            form = self._known(chr(code))
            numbers[code] = self._numbers.get(form, self.unknown)
            known[code] = ord(form) if len(form) == 1 else SEVERAL
        # U+0000 has no number: it counts as not looked up every time.
        return numbers[codes], known[codes]

    @cached_property
    def _by_code(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Hold the results of `number_codes` by code point; 0 until it is looked up. Untouched pages take no memory."""
        return np.zeros(BEGIN, dtype=np.int64), np.zeros(BEGIN, dtype=np.int64)

    def number_pairs(self, left: NDArray[np.int64], right: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the numbers of bigrams of two code points; the first may be BEGIN."""
        keys, numbers = self._pairs
        wanted = left << _BITS | right
        places = np.searchsorted(keys[:-1], wanted)
        return np.where(keys[places] == wanted, numbers[places], self.unknown)

    @cached_property
    def _pairs(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return the bigrams as sorted keys, and their numbers; the last key is larger than any bigram."""
        sizes = self._sizes
        codes = code_points("".join(self.symbols)).astype(np.int64)
        ends = np.cumsum(sizes)
        begins = sizes == len(BOS) + 1
        for place, code in enumerate(code_points(BOS).tolist()):
            begins[begins] = codes[ends[begins] - sizes[begins] + place] == code
        [pairs] = np.nonzero((sizes == 2) | begins)
        left = np.where(begins[pairs], BEGIN, codes[ends[pairs] - 2])
        keys = np.append(left << _BITS | codes[ends[pairs] - 1], 1 << 2 * _BITS)
        order = np.argsort(keys)
        return keys[order], np.append(pairs, self.unknown)[order]

    @property
    def has_plain_pairs(self) -> bool:
        """Tell whether an unknown bigram has no other form that is known."""
        return not (self.lowercase or self.stand_ins or (self._sizes == 1).any())

    @cached_property
    def _sizes(self) -> NDArray[np.int64]:
        """Count the code points of each symbol."""
        return np.fromiter(map(len, self.symbols), dtype=np.int64)

    @classmethod
    def build(cls, counts: Mapping[str, int], *, min_count: int = 1) -> Vocabulary:
        """Build a vocabulary: special symbols, then the counted ones by decreasing count, ties by code point."""
        specials = (PAD, UNKNOWN, BOS, EOS)
        frequent = (s for s, count in counts.items() if count >= min_count and s not in specials)
        ordered = sorted(frequent, key=lambda symbol: (-counts[symbol], symbol))
        return cls((*specials, *ordered), pad=0, unknown=1, bos=2, eos=3)

    def to_json(self) -> dict[str, Any]:
        """Convert the vocabulary to plain objects for JSON."""
        return {
            "pad": self.pad,
            "unknown": self.unknown,
            "bos": self.bos,
            "eos": self.eos,
            "lowercase": self.lowercase,
            "stand_ins": dict(self.stand_ins),
            "symbols": list(self.symbols),
        }

    @classmethod
    def from_json(cls, data: object) -> Vocabulary:
        """Rebuild a vocabulary from the output of `to_json`."""
        if not isinstance(data, dict):
            raise InputError("vocabulary: not a JSON object")
        symbols = data.get("symbols")
        if not isinstance(symbols, list) or not set(map(type, symbols)) <= {str}:
            raise InputError("vocabulary: 'symbols' must be a list of strings")
        specials = {}
        for name in ("pad", "unknown", "bos", "eos"):
            number = data.get(name)
            if not isinstance(number, int) or isinstance(number, bool):
                raise InputError(f"vocabulary: '{name}' must be a number")
            specials[name] = number
        stand_ins = data.get("stand_ins", {})
        if not isinstance(stand_ins, dict) or not set(map(type, stand_ins.values())) <= {str}:
            raise InputError("vocabulary: 'stand_ins' must map strings to strings")
        lowercase = bool(data.get("lowercase", False))
        return cls(tuple(symbols), **specials, lowercase=lowercase, stand_ins=stand_ins)


def code_points(text: str) -> NDArray[np.uint32]:
    """Return the code points of a text."""
    return np.frombuffer(text.encode("utf-32-le", "surrogatepass"), dtype="<u4")


def bigrams(chars: Sequence[str]) -> list[str]:
    """Return for each character the bigram with its predecessor; that of the first one is `<bos>`.

    The characters must be the output of `Vocabulary.known`, here and in training.
    """
    return [previous + char for previous, char in pairwise([BOS, *chars])]
