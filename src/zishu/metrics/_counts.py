"""Count the correct parts of a sentence by word length. `zishu.metrics` defines what is counted."""

from __future__ import annotations

from enum import IntEnum
from itertools import accumulate, count, pairwise, zip_longest
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from zishu.errors import InputError
from zishu.text import characters, is_punctuation
from zishu.tree import ROOT, WordTree

LENGTHS = ("1", "2", "3", "4+")  # columns 1 to 4 of a table of counts; column 0 holds words of any length


class Count(IntEnum):
    """Name the rows of a table of counts. Rows about sentences use column 0 only."""

    GOLD_WORDS = 0
    PRED_WORDS = 1
    WORDS = 2
    TAGS = 3  # words with the correct part of speech
    XPOS = 4
    FEATS = 5
    LEMMAS = 6
    GOLD_ARCS = 7
    PRED_ARCS = 8
    ARCS = 9
    LABELED_ARCS = 10
    SENTENCES = 11
    MATCHES = 12
    LABELED_MATCHES = 13
    RESEGMENTED = 14  # sentences whose predicted words differ from the gold words: no attachment score
    UNTAGGED = 15  # sentences without parts of speech on one side: no upos
    NO_XPOS = 16  # likewise for the other tag columns
    NO_FEATS = 17
    NO_LEMMAS = 18


# For each tag column: the row of words with the correct tag, and the row of sentences without tags on one side.
TAG_ROWS: Final = {
    "upos": (Count.TAGS, Count.UNTAGGED),
    "xpos": (Count.XPOS, Count.NO_XPOS),
    "feats": (Count.FEATS, Count.NO_FEATS),
    "lemma": (Count.LEMMAS, Count.NO_LEMMAS),
}


Counts = NDArray[np.int64]  # [Count, 1 + LENGTHS], or [sentence, Count, 1 + LENGTHS]


class _Word(NamedTuple):
    column: int
    counted: bool
    head: tuple[int, int] | None  # the span of the head word, None for ROOT
    label: str
    number: int  # position in the sentence, from 0


def sentence_counts(gold: WordTree, pred: WordTree, *, punct: bool = False, subtypes: bool = True) -> Counts:
    """Count what is correct in one sentence, as a table [Count, 1 + LENGTHS]; tables add up.

    `punct` includes arcs of punctuation; without `subtypes`, labels are compared up to their colon.
    """
    _check_same_text(gold, pred)
    gold_spans, pred_spans = _spans(gold), _spans(pred)
    gold_words = _words(gold, gold_spans, punct=punct, subtypes=subtypes)
    pred_words = _words(pred, pred_spans, punct=punct, subtypes=subtypes)

    columns = [
        (right, getattr(gold, name), getattr(pred, name))
        for name, (right, _) in TAG_ROWS.items()
        if getattr(gold, name) is not None and getattr(pred, name) is not None
    ]
    counts = np.zeros((len(Count), 1 + len(LENGTHS)), dtype=np.int64)
    for word in pred_words.values():
        counts[Count.PRED_WORDS, word.column] += 1
        counts[Count.PRED_ARCS, word.column] += word.counted
    for span, word in gold_words.items():
        counts[Count.GOLD_WORDS, word.column] += 1
        counts[Count.GOLD_ARCS, word.column] += word.counted
        match = pred_words.get(span)
        if match is None:
            continue
        # Equal spans have equal forms, so their lengths and punctuation flags agree. Equal head spans mean that the
        # head is a word on both sides, too.
        attached = word.counted and match.head == word.head
        counts[Count.WORDS, word.column] += 1
        for row, gold_tags, pred_tags in columns:
            counts[row, word.column] += gold_tags[word.number] == pred_tags[match.number]
        counts[Count.ARCS, word.column] += attached
        counts[Count.LABELED_ARCS, word.column] += attached and match.label == word.label
    counts[:, 0] = counts.sum(axis=1)

    total = counts[:, 0]  # a view; rows about sentences use column 0
    needed = max(total[Count.GOLD_ARCS], total[Count.PRED_ARCS])
    total[Count.SENTENCES] = 1
    total[Count.MATCHES] = total[Count.ARCS] == needed
    total[Count.LABELED_MATCHES] = total[Count.LABELED_ARCS] == needed
    total[Count.RESEGMENTED] = gold_spans != pred_spans
    for name, (_, absent) in TAG_ROWS.items():
        total[absent] = getattr(gold, name) is None or getattr(pred, name) is None
    return counts


def _spans(tree: WordTree) -> list[tuple[int, int]]:
    """Return the half-open span of every word, not counting white space in the sentence.

    Spans count code points: a prediction that splits a grapheme cluster is wrong, but the words around it keep their
    positions. White space is ignored because CoNLL-U allows it in forms.
    """
    return list(pairwise(accumulate((sum(not c.isspace() for c in form) for form in tree.forms), initial=0)))


def _check_same_text(gold: WordTree, pred: WordTree) -> None:
    gold_text, pred_text = ("".join("".join(tree.forms).split()) for tree in (gold, pred))
    if gold_text == pred_text:
        return
    both = zip_longest(characters(gold_text), characters(pred_text))
    place, sides = next((place, sides) for place, sides in enumerate(both, start=1) if sides[0] != sides[1])
    in_gold, in_pred = ("the end" if side is None else repr(side) for side in sides)
    raise InputError(f"the texts differ at character {place}: {in_gold} in gold, {in_pred} in the prediction")


def _words(
    tree: WordTree, spans: list[tuple[int, int]], *, punct: bool, subtypes: bool
) -> dict[tuple[int, int], _Word]:
    rows = zip(spans, tree.forms, tree.lengths, tree.heads, tree.deprels, count(), strict=False)
    return {
        span: _Word(
            column=min(length, len(LENGTHS)),
            counted=punct or not is_punctuation(form),
            head=None if head == ROOT else spans[head - 1],
            label=label if subtypes else label.partition(":")[0],
            number=number,
        )
        for span, form, length, head, label, number in rows
    }
