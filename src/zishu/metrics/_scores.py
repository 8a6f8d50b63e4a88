"""Compute scores from counts, for one sentence or a whole evaluation. `zishu.metrics` defines the scores."""

from __future__ import annotations

import hashlib
import json
import statistics
from dataclasses import asdict, dataclass
from itertools import zip_longest
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from zishu.errors import InputError
from zishu.metrics._counts import LENGTHS, TAG_ROWS, Count, Counts, sentence_counts

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from numpy.typing import NDArray

    from zishu.tree import WordTree

# Every metric is an F1 of (correct, predicted, gold); for a share of sentences the last two are equal.
_TRIPLES: Final = {
    "seg": (Count.WORDS, Count.PRED_WORDS, Count.GOLD_WORDS),
    **{name: (right, Count.PRED_WORDS, Count.GOLD_WORDS) for name, (right, _) in TAG_ROWS.items()},
    "uf": (Count.ARCS, Count.PRED_ARCS, Count.GOLD_ARCS),
    "lf": (Count.LABELED_ARCS, Count.PRED_ARCS, Count.GOLD_ARCS),
    "uas": (Count.ARCS, Count.PRED_ARCS, Count.GOLD_ARCS),
    "las": (Count.LABELED_ARCS, Count.PRED_ARCS, Count.GOLD_ARCS),
    "ucm": (Count.MATCHES, Count.SENTENCES, Count.SENTENCES),
    "lcm": (Count.LABELED_MATCHES, Count.SENTENCES, Count.SENTENCES),
}
METRICS = tuple(_TRIPLES)

# Counts that must be zero for a metric to exist.
_SAME_WORDS: Final = (Count.RESEGMENTED, "the same words on both sides of every sentence")
_NEEDS: Final = {"uas": _SAME_WORDS, "las": _SAME_WORDS} | {
    name: (absent, f"values in the column {name} on both sides of every sentence")
    for name, (_, absent) in TAG_ROWS.items()
}


@dataclass(frozen=True, slots=True)
class Ratio:
    """Hold precision, recall and F1 in per cent, with their counts. Zero over zero is 0."""

    precision: float
    recall: float
    f1: float
    correct: int
    predicted: int
    gold: int


@dataclass(frozen=True, slots=True)
class WordScores:
    """Hold the scores of words: of all words, or of the words of one length."""

    seg: Ratio
    upos: Ratio | None
    xpos: Ratio | None
    feats: Ratio | None
    lemma: Ratio | None
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


def score(counts: Counts) -> Scores:
    """Compute scores from a table of counts, of one sentence or summed over several."""
    overall, *by_length = (_word_scores(counts, column) for column in range(1 + len(LENGTHS)))
    return Scores(
        sentences=int(counts[Count.SENTENCES, 0]),
        overall=overall,
        ucm=_ratio(counts, "ucm", 0).f1,
        lcm=_ratio(counts, "lcm", 0).f1,
        by_length=MappingProxyType(dict(zip(LENGTHS, by_length, strict=True))),
    )


@dataclass(frozen=True, slots=True, eq=False)
class Evaluation:
    """Hold the counts of every sentence, [sentence, Count, 1 + LENGTHS], and the options used."""

    counts: Counts
    punct: bool = False
    subtypes: bool = True
    gold: str = ""  # the fingerprint of the gold trees; empty if unknown
    version: str = ""  # version of Zishu that counted; empty for this one

    @property
    def scores(self) -> Scores:
        """Score all sentences together."""
        return score(self.counts.sum(axis=0))

    def value(self, metric: str) -> float:
        """Return one of METRICS in per cent (F1 if it has one); raise InputError if it does not exist."""
        return float(f1(columns(self, metric).sum(axis=0)))

    def signature(self) -> str:
        """Return the options behind the scores in one line, to be quoted with them."""
        return signature(punct=self.punct, subtypes=self.subtypes, version=self.version)

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
    """Count every (gold, predicted) pair. Error messages name the sentences by `ids`."""
    tables = []
    fingerprint = hashlib.sha256()
    names = iter(ids)
    for number, (gold, pred) in enumerate(pairs, start=1):
        name = next(names, None)
        try:
            tables.append(sentence_counts(gold, pred, punct=punct, subtypes=subtypes))
        except InputError as error:
            where = f"sentence {number}" if name is None else f"sentence {number} ({name})"
            raise InputError(f"{where}: {error}") from error
        fingerprint.update(json.dumps([gold.forms, gold.heads, gold.deprels, gold.upos]).encode())
    if not tables:
        raise InputError("no sentences to evaluate")
    half = fingerprint.hexdigest()[:32]  # of the digest, which is enough
    return Evaluation(np.stack(tables), punct=punct, subtypes=subtypes, gold=half)


def pair(gold: Iterable[WordTree], pred: Iterable[WordTree]) -> Iterator[tuple[WordTree, WordTree]]:
    """Pair the sentences of both sides; raise InputError if one side has more."""
    numbers = [0, 0]
    for gold_tree, pred_tree in zip_longest(gold, pred):
        numbers[0] += gold_tree is not None
        numbers[1] += pred_tree is not None
        if gold_tree is not None and pred_tree is not None:
            yield gold_tree, pred_tree
    if numbers[0] != numbers[1]:
        raise InputError(f"the gold side has {numbers[0]} sentences, the predicted side {numbers[1]}")


def signature(*, punct: bool = False, subtypes: bool = True, version: str = "") -> str:
    """Return the options behind a score in one line, for example `punct:no|labels:full|version:zishu-1.0`.

    `version` is the version of Zishu that counted (default: this one).
    """
    from zishu import __version__  # imported here because the package imports this module

    kept, labels = "yes" if punct else "no", "full" if subtypes else "universal"
    return f"punct:{kept}|labels:{labels}|version:zishu-{version or __version__}"


def _word_scores(counts: Counts, column: int) -> WordScores:
    absent = {metric for metric, (obstacle, _) in _NEEDS.items() if counts[obstacle, 0]}
    uf, lf = _ratio(counts, "uf", column), _ratio(counts, "lf", column)
    uas, las = (None if "uas" in absent else ratio.f1 for ratio in (uf, lf))
    tags = {name: None if name in absent else _ratio(counts, name, column) for name in TAG_ROWS}
    return WordScores(seg=_ratio(counts, "seg", column), **tags, uf=uf, lf=lf, uas=uas, las=las)


def _ratio(counts: Counts, metric: str, column: int) -> Ratio:
    triple = counts[list(_TRIPLES[metric]), column]
    correct, predicted, gold = triple.tolist()
    precision, recall = (100 * correct / both if both else 0.0 for both in (predicted, gold))
    return Ratio(precision, recall, float(f1(triple)), correct, predicted, gold)


def f1(triples: NDArray[np.int64] | NDArray[np.float64]) -> NDArray[np.float64]:
    """Return F1 in per cent of arrays [..., (correct, predicted, gold)]; zero over zero is 0."""
    # F1 = 2PR / (P + R) with P = correct / predicted, R = correct / gold
    correct, both = 200.0 * triples[..., 0], triples[..., 1] + triples[..., 2]
    return np.divide(correct, both, out=np.zeros(np.shape(correct)), where=both > 0)


def columns(evaluation: Evaluation, metric: str) -> NDArray[np.int64]:
    """Return (correct, predicted, gold) of every sentence, [sentence, 3]; raise InputError without the metric."""
    if metric not in _TRIPLES:
        raise InputError(f"unknown metric {metric!r}: choose from {', '.join(METRICS)}")
    if metric in _NEEDS:
        obstacle, need = _NEEDS[metric]
        if evaluation.counts[:, obstacle, 0].any():
            raise InputError(f"{metric} needs {need}")
    return evaluation.counts[:, list(_TRIPLES[metric]), 0]


# --- several seeds ------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Average:
    """Hold the values of one number, one for each seed; at least one."""

    values: tuple[float, ...]

    @property
    def mean(self) -> float:
        """Return the mean over the seeds."""
        return statistics.fmean(self.values)

    @property
    def sd(self) -> float | None:
        """Return the sample standard deviation, or None if there is only one seed."""
        return statistics.stdev(self.values) if len(self.values) > 1 else None

    def as_dict(self) -> dict[str, Any]:
        """Return mean, standard deviation and values as plain objects."""
        return {"mean": self.mean, "std": self.sd, "seeds": list(self.values)}


def average_seeds(scores: Sequence[Mapping[str, float]]) -> dict[str, Average]:
    """Average every score that all seeds have, in the order of the first seed."""
    common = [name for name in (scores[0] if scores else ()) if all(name in one for one in scores)]
    return {name: Average(tuple(one[name] for one in scores)) for name in common}
