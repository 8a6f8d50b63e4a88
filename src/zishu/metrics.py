"""Compare predicted word trees with gold ones: counts per sentence that add up, then scores.

What is scored follows the paper's section 4 ("Evaluation metrics"):

    seg       F1 of words; a word is right when the prediction has a word over the same characters.
    uf, lf    F1 of arcs between words, without and with the label; an arc is right when its modifier and its
              head are both right words (the head may be ROOT). Arcs of punctuation words are left out: of
              gold punctuation for recall, of predicted for precision. What the head is makes no difference.
    ucm, lcm  Complete match: the share of sentences where every counted arc of both trees is right.
              Punctuation is left out as above, so how it is attached or cut into words cannot spoil a match;
              a sentence of nothing but punctuation has no arc to get wrong and is a match.
    upos      F1 of words with their part of speech, punctuation included.
              None unless every sentence has tags on both sides.
    uas, las  Attachment scores. None unless both sides have the same words in every sentence; precision and
              recall are then one number, so these are uf and lf under the name that the literature uses.

All but complete match, which belongs to sentences, is also given by the length of the word (of the modifier,
for arcs) in characters: 1, 2, 3, 4 and more. With `punct=True, subtypes=False` the scores seg, upos, uf and
lf are the Words, UPOS, UAS and LAS of the CoNLL 2018 scorer, wherever both files have the same sentences and
no multiword tokens.

A sentence is reduced to a small table of integers; tables of several sentences may be added, and a score is a
function of the sum. That makes resampling sentences (`bootstrap`) a matrix product. This module reads no
files and draws no tables. Cost: linear in the number of words.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from enum import IntEnum
from itertools import accumulate, pairwise, zip_longest
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from zishu.errors import InputError
from zishu.text import characters, is_punctuation
from zishu.tree import ROOT, WordTree

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

LENGTHS = ("1", "2", "3", "4+")  # columns 1 to 4 of a table of counts; column 0 is for words of every length


class Count(IntEnum):
    """Name the rows of a table of counts. Rows about sentences fill column 0 only."""

    GOLD_WORDS = 0
    PRED_WORDS = 1
    WORDS = 2
    TAGS = 3
    GOLD_ARCS = 4
    PRED_ARCS = 5
    ARCS = 6
    LABELED_ARCS = 7
    SENTENCES = 8
    MATCHES = 9
    LABELED_MATCHES = 10
    RESEGMENTED = 11  # sentences whose predicted words are not the gold words: no attachment score
    UNTAGGED = 12  # sentences without parts of speech on one side: no upos


# Every metric is an F1 of (correct, predicted, gold); for a share of sentences the last two are the same.
_TRIPLES: Mapping[str, tuple[Count, Count, Count]] = MappingProxyType(
    {
        "seg": (Count.WORDS, Count.PRED_WORDS, Count.GOLD_WORDS),
        "upos": (Count.TAGS, Count.PRED_WORDS, Count.GOLD_WORDS),
        "uf": (Count.ARCS, Count.PRED_ARCS, Count.GOLD_ARCS),
        "lf": (Count.LABELED_ARCS, Count.PRED_ARCS, Count.GOLD_ARCS),
        "uas": (Count.ARCS, Count.PRED_ARCS, Count.GOLD_ARCS),
        "las": (Count.LABELED_ARCS, Count.PRED_ARCS, Count.GOLD_ARCS),
        "ucm": (Count.MATCHES, Count.SENTENCES, Count.SENTENCES),
        "lcm": (Count.LABELED_MATCHES, Count.SENTENCES, Count.SENTENCES),
    }
)
METRICS = tuple(_TRIPLES)

# What must not have happened in any sentence for a metric to exist.
_NEEDS: Mapping[str, tuple[Count, str]] = MappingProxyType(
    {
        "upos": (Count.UNTAGGED, "parts of speech on both sides of every sentence"),
        "uas": (Count.RESEGMENTED, "the same words on both sides of every sentence"),
        "las": (Count.RESEGMENTED, "the same words on both sides of every sentence"),
    }
)

Counts = NDArray[np.int64]  # [Count, 1 + LENGTHS], or [sentence, Count, 1 + LENGTHS]


@dataclass(frozen=True, slots=True)
class Ratio:
    """Hold precision, recall and F1 in per cent, with the counts behind them. Nothing over nothing is 0."""

    precision: float
    recall: float
    f1: float
    correct: int
    predicted: int
    gold: int


@dataclass(frozen=True, slots=True)
class WordScores:
    """Hold the scores that belong to words: of all words, or of the words of one length."""

    seg: Ratio
    upos: Ratio | None
    uf: Ratio
    lf: Ratio
    uas: float | None
    las: float | None


@dataclass(frozen=True, slots=True)
class Scores:
    """Hold all scores, in per cent."""

    sentences: int
    overall: WordScores
    ucm: float
    lcm: float
    by_length: Mapping[str, WordScores]


class _Word(NamedTuple):
    column: int
    counted: bool
    head: tuple[int, int] | None  # the span of the head word, None for ROOT
    label: str
    tag: str | None


def sentence_counts(gold: WordTree, pred: WordTree, *, punct: bool = False, subtypes: bool = True) -> Counts:
    """Count what is right in one sentence, as a table [Count, 1 + LENGTHS] that adds up with others.

    `punct` counts the arcs of punctuation too; without `subtypes`, labels are compared up to their colon.
    """
    _check_same_text(gold, pred)
    gold_spans, pred_spans = _spans(gold), _spans(pred)
    gold_words = _words(gold, gold_spans, punct=punct, subtypes=subtypes)
    pred_words = _words(pred, pred_spans, punct=punct, subtypes=subtypes)

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
        # The same span is the same form, hence the same length and the same verdict on punctuation.
        # Equal head spans mean that the head, too, is a word of both sides.
        attached = word.counted and match.head == word.head
        counts[Count.WORDS, word.column] += 1
        counts[Count.TAGS, word.column] += word.tag is not None and match.tag == word.tag
        counts[Count.ARCS, word.column] += attached
        counts[Count.LABELED_ARCS, word.column] += attached and match.label == word.label
    counts[:, 0] = counts.sum(axis=1)

    total = counts[:, 0]  # a view: the rows about sentences go into column 0
    needed = max(total[Count.GOLD_ARCS], total[Count.PRED_ARCS])
    total[Count.SENTENCES] = 1
    total[Count.MATCHES] = total[Count.ARCS] == needed
    total[Count.LABELED_MATCHES] = total[Count.LABELED_ARCS] == needed
    total[Count.RESEGMENTED] = gold_spans != pred_spans
    total[Count.UNTAGGED] = gold.upos is None or pred.upos is None
    return counts


def score(counts: Counts) -> Scores:
    """Turn a table of counts, of one sentence or summed over several, into scores."""
    total = counts[:, 0]
    return Scores(
        sentences=int(total[Count.SENTENCES]),
        overall=_word_scores(counts, 0),
        ucm=_ratio(counts, "ucm", 0).f1,
        lcm=_ratio(counts, "lcm", 0).f1,
        by_length=MappingProxyType(
            {length: _word_scores(counts, column) for column, length in enumerate(LENGTHS, start=1)}
        ),
    )


@dataclass(frozen=True, slots=True, eq=False)
class Evaluation:
    """Hold the counts of every sentence, [sentence, Count, 1 + LENGTHS], and the choices behind them."""

    counts: Counts
    punct: bool = False
    subtypes: bool = True

    @property
    def scores(self) -> Scores:
        """Score all sentences together."""
        return score(self.counts.sum(axis=0))

    def value(self, metric: str) -> float:
        """Return one of METRICS in per cent (F1 where there is one); InputError where it does not exist."""
        return _f1(*_columns(self, metric).sum(axis=0).tolist())

    def signature(self) -> str:
        """Name the choices behind the scores, to be quoted with them."""
        return signature(punct=self.punct, subtypes=self.subtypes)

    def as_dict(self) -> dict[str, Any]:
        """Return the scores and their signature as plain values."""
        scores = self.scores
        return {
            "signature": self.signature(),
            "sentences": scores.sentences,
            **asdict(scores.overall),
            "ucm": scores.ucm,
            "lcm": scores.lcm,
            "by_length": {length: asdict(words) for length, words in scores.by_length.items()},
        }

    def to_json(self) -> str:
        """Return `as_dict` as one JSON object."""
        return json.dumps(self.as_dict(), ensure_ascii=False, indent=2)


def evaluate(
    pairs: Iterable[tuple[WordTree, WordTree]],
    *,
    punct: bool = False,
    subtypes: bool = True,
    ids: Iterable[str | None] = (),
) -> Evaluation:
    """Count every (gold, predicted) pair. `ids` are names of the sentences for error messages."""
    tables = []
    names = iter(ids)
    for number, (gold, pred) in enumerate(pairs, start=1):
        name = next(names, None)
        try:
            tables.append(sentence_counts(gold, pred, punct=punct, subtypes=subtypes))
        except InputError as error:
            where = f"sentence {number}" if name is None else f"sentence {number} ({name})"
            raise InputError(f"{where}: {error}") from error
    if not tables:
        raise InputError("there are no sentences to evaluate")
    return Evaluation(np.stack(tables), punct=punct, subtypes=subtypes)


def pair(gold: Iterable[WordTree], pred: Iterable[WordTree]) -> Iterator[tuple[WordTree, WordTree]]:
    """Walk through both sides at once; InputError when one has more sentences than the other."""
    numbers = [0, 0]
    complete = True
    for gold_tree, pred_tree in zip_longest(gold, pred):
        numbers[0] += gold_tree is not None
        numbers[1] += pred_tree is not None
        complete = gold_tree is not None and pred_tree is not None
        if complete:
            yield gold_tree, pred_tree
    if not complete:
        raise InputError(f"the gold side has {numbers[0]} sentences, the predicted side {numbers[1]}")


def signature(*, punct: bool = False, subtypes: bool = True) -> str:
    """Name the choices behind a score in one line, for example `punct:no|labels:full|version:zishu-1.0`."""
    from zishu import __version__  # here, so that the package may import this module

    kept = "yes" if punct else "no"
    labels = "full" if subtypes else "universal"
    return f"punct:{kept}|labels:{labels}|version:zishu-{__version__}"


@dataclass(frozen=True, slots=True)
class Bootstrap:
    """Hold a comparison of two systems: per cent, `difference = b - a` and its confidence interval."""

    metric: str
    a: float
    b: float
    difference: float
    low: float
    high: float
    p_value: float
    samples: int


def bootstrap(
    a: Evaluation,
    b: Evaluation,
    metric: str,
    *,
    samples: int = 1000,
    seed: int = 0,
    confidence: float = 0.95,
) -> Bootstrap:
    """Compare two systems on the same gold sentences by resampling the sentences (paired bootstrap).

    The interval takes the percentiles of the resampled differences D. The two-sided p-value is that of the
    null hypothesis "no difference", under which the observed difference d would vary as D - d does:
    p = (1 + #{|D - d| >= |d|}) / (1 + samples).
    """
    if samples < 1 or not 0 < confidence < 1:
        raise InputError("bootstrap needs at least one sample and a confidence between 0 and 1")
    if (a.punct, a.subtypes) != (b.punct, b.subtypes):
        raise InputError(f"the evaluations differ in their choices: {a.signature()} and {b.signature()}")
    if not _same_gold(a, b):
        raise InputError("the evaluations are not of the same gold sentences")
    columns_a, columns_b = _columns(a, metric), _columns(b, metric)
    value_a, value_b = a.value(metric), b.value(metric)
    observed = value_b - value_a

    # A sample of n sentences with replacement is a vector of how often each was drawn, its counts a product.
    # One sample at a time: a matrix of all samples would need samples * n integers.
    n = len(columns_a)
    rng = np.random.default_rng(seed)
    differences = np.empty(samples)
    for s in range(samples):
        drawn = np.bincount(rng.integers(n, size=n), minlength=n)
        differences[s] = _f1(*(drawn @ columns_b).tolist()) - _f1(*(drawn @ columns_a).tolist())
    # The margin is for rounding: a difference that equals the observed one in exact arithmetic must count.
    extreme = np.abs(differences - observed) >= abs(observed) - 1e-9
    low, high = np.quantile(differences, [(1 - confidence) / 2, (1 + confidence) / 2])
    return Bootstrap(
        metric=metric,
        a=value_a,
        b=value_b,
        difference=observed,
        low=float(low),
        high=float(high),
        p_value=float((1 + extreme.sum()) / (1 + samples)),
        samples=samples,
    )


def _spans(tree: WordTree) -> list[tuple[int, int]]:
    """Return the half-open span of every word in the sentence without its white space.

    Spans count code points: a prediction that cuts a user-perceived character in two is then merely wrong,
    and the words around it keep their places. White space belongs to no word, yet CoNLL-U allows it in forms.
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
    tags = tree.upos if tree.upos is not None else (None,) * len(spans)
    rows = zip(spans, tree.forms, tree.lengths, tree.heads, tree.deprels, tags, strict=True)
    return {
        span: _Word(
            column=min(length, len(LENGTHS)),
            counted=punct or not is_punctuation(form),
            head=None if head == ROOT else spans[head - 1],
            label=label if subtypes else label.partition(":")[0],
            tag=tag,
        )
        for span, form, length, head, label, tag in rows
    }


def _word_scores(counts: Counts, column: int) -> WordScores:
    absent = {metric for metric, (obstacle, _) in _NEEDS.items() if counts[obstacle, 0]}
    uf, lf = _ratio(counts, "uf", column), _ratio(counts, "lf", column)
    return WordScores(
        seg=_ratio(counts, "seg", column),
        upos=None if "upos" in absent else _ratio(counts, "upos", column),
        uf=uf,
        lf=lf,
        uas=None if "uas" in absent else uf.f1,
        las=None if "las" in absent else lf.f1,
    )


def _ratio(counts: Counts, metric: str, column: int) -> Ratio:
    correct, predicted, gold = (int(counts[row, column]) for row in _TRIPLES[metric])
    return Ratio(
        precision=100 * correct / predicted if predicted else 0.0,
        recall=100 * correct / gold if gold else 0.0,
        f1=_f1(correct, predicted, gold),
        correct=correct,
        predicted=predicted,
        gold=gold,
    )


def _f1(correct: int, predicted: int, gold: int) -> float:
    # F1 = 2PR / (P + R) with P = correct / predicted, R = correct / gold
    return 200 * correct / (predicted + gold) if predicted + gold else 0.0


def _columns(evaluation: Evaluation, metric: str) -> NDArray[np.int64]:
    """Return (correct, predicted, gold) of every sentence, [sentence, 3], or say why there is none."""
    if metric not in _TRIPLES:
        raise InputError(f"unknown metric {metric!r}: choose from {', '.join(METRICS)}")
    if metric in _NEEDS:
        obstacle, need = _NEEDS[metric]
        if evaluation.counts[:, obstacle, 0].any():
            raise InputError(f"{metric} needs {need}")
    return evaluation.counts[:, list(_TRIPLES[metric]), 0]


def _same_gold(a: Evaluation, b: Evaluation) -> bool:
    # The counts hold no text, but as many words and arcs of every length in every sentence are a strong sign.
    rows = [Count.GOLD_WORDS, Count.GOLD_ARCS]
    return np.array_equal(a.counts[:, rows], b.counts[:, rows])
