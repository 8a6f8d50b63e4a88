"""Define characters and sentences of raw text, with exact offsets into the original string.

A *character* is an extended grapheme cluster (UAX #29) inside a run of non-white-space: a letter with its combining
marks is one, and so is a family emoji. White space (`str.isspace`) separates words and belongs to none.

A `RawSentence` is a sentence on its way to a model. `zishu.splitting` finds the sentences of a text, and
`zishu.constraints` what is known about their words.
"""

from __future__ import annotations

import unicodedata
from dataclasses import dataclass, field
from itertools import pairwise
from typing import TYPE_CHECKING

import regex  # type: ignore[import-untyped, unused-ignore]

from zishu.gaps import BREAK, FREE

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import numpy as np
    from numpy.typing import NDArray

    from zishu.arcs import FixedArc

LIMIT = 256  # maximum number of characters of a sentence; the chart's cost grows with its cube

# There is always a boundary between two of these: a run of them does not need \X, which is much slower.
_PLAIN = regex.compile(r"[\p{GCB=Other}\p{GCB=Control}]*+")
# \X alone counts back over all regional indicators before each one, which is quadratic on a long row of flags. Taking
# them in pairs from the left is the same rule (GB12, GB13).
_CLUSTER = regex.compile(
    r"\p{GCB=Regional_Indicator}{1,2}[\p{GCB=Extend}\p{GCB=ZWJ}\p{GCB=SpacingMark}]*+|\X"
)


def characters(form: str) -> list[str]:
    """Split a form without white space into its characters."""
    if _PLAIN.fullmatch(form):
        return list(form)
    clusters: list[str] = _CLUSTER.findall(form)
    return clusters


def is_punctuation(form: str) -> bool:
    """Tell whether a form is punctuation: not empty, and every code point has a Unicode category P.

    The paper excludes punctuation from its scores (section 4) without defining it. Symbols (category S: $ + = ～) are
    not punctuation here: a sign such as $ has a syntactic function that a score should count.
    """
    return bool(form) and all(unicodedata.category(c)[0] == "P" for c in form)


def space_between(left: str, right: str) -> str:
    """Return the separator of two Chinese words: a space only between two ASCII letters or digits."""
    western = (left[-1:] + right[:1]).isascii() and left[-1:].isalnum() and right[:1].isalnum()
    return " " if western else ""


def join_words(forms: Sequence[str]) -> str:
    """Join words as Chinese is written."""
    pieces = list(forms[:1])
    for left, right in pairwise(forms):
        pieces += space_between(left, right), right
    return "".join(pieces)


# Not frozen, like `zishu.document.Word`: building a frozen object costs several times as much.
@dataclass(slots=True)
class RawSentence:
    """Hold a sentence on its way to a model: its characters, their offsets, and what is known about its words.

    Offsets count code points of the source text, where `text[starts[i]:ends[i]] == chars[i]`. A model reads this object
    and passes its offsets on to the words.
    """

    chars: tuple[str, ...]
    starts: tuple[int, ...]
    ends: tuple[int, ...]
    text: str  # from its first character to its last
    after: str = ""  # the white space after it
    cut: bool = False  # it was cut because of its length and continues in the next sentence
    # A value of `zishu.gaps` for each gap, n + 1 for n characters: [k] lies between k and k + 1, counted from 1. The
    # first and the last are not read. None: nothing is known.
    gaps: NDArray[np.int8] | None = field(default=None, compare=False)
    arcs: tuple[FixedArc, ...] = ()  # arcs that its tree must have, between known words
    # Parts of speech of known words, by half-open spans of characters, numbered from 1.
    tags: Mapping[tuple[int, int], str] = field(default_factory=dict, compare=False)
    # What a lexicon found: the scores of boundaries that a soft one favours, n + 1; and the gaps known without it. None
    # if it found nothing.
    favoured: NDArray[np.float64] | None = field(default=None, compare=False)
    gaps_without_lexicon: NDArray[np.int8] | None = field(default=None, compare=False)

    def __len__(self) -> int:
        return len(self.chars)

    @property
    def start(self) -> int:
        """Return the offset of the first character."""
        return self.starts[0]

    @property
    def end(self) -> int:
        """Return the offset after the last character."""
        return self.ends[-1]

    @property
    def breaks(self) -> tuple[int, ...]:
        """Return the gaps that contain white space."""
        # Without white space and characters of several code points, which is common, offsets simply add up.
        if self.end - self.start == len(self.chars):
            return ()
        return tuple(k for k in range(1, len(self.chars)) if self.ends[k - 1] < self.starts[k])

    @property
    def word_lengths(self) -> list[int] | None:
        """Count the characters of each word; None unless all words are known."""
        n = len(self.chars)
        if n == 1:
            return [1]
        if self.gaps is None or (self.gaps[1:n] == FREE).any():
            return None
        inner = (self.gaps[1:n] == BREAK).nonzero()[0] + 1
        return [end - start for start, end in pairwise([0, *inner.tolist(), n])]

    def part(self, first: int, last: int) -> RawSentence:
        """Return the sentence of the characters `first` to `last`, exclusive and counted from 0."""
        chosen, offset = slice(first, last), self.starts[0]
        starts, ends = self.starts[chosen], self.ends[chosen]
        text = self.text[starts[0] - offset : ends[-1] - offset]
        if last == len(self):
            return RawSentence(self.chars[chosen], starts, ends, text, self.after, self.cut)
        after = self.text[ends[-1] - offset : self.starts[last] - offset]
        return RawSentence(self.chars[chosen], starts, ends, text, after, cut=True)

    def __add__(self, right: RawSentence) -> RawSentence:
        """Join this sentence with the one that follows it; known gaps are dropped."""
        return RawSentence(
            self.chars + right.chars,
            self.starts + right.starts,
            self.ends + right.ends,
            self.text + self.after + right.text,
            right.after,
            right.cut,
        )
