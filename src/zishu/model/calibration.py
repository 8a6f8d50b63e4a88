"""Find the temperatures at which a model's probabilities are calibrated: neither too high nor too low.

A parser that has memorised its training data is overconfident on new data. Divided by a temperature t, its scores
define

    P_t(tree) = P(tree)^(1/t) / Z_t

The order of the trees stays the same, and the probabilities are flatter if t > 1. Minimum Bayes risk decoding and
confidence use these probabilities. The temperature maximises the probability of the word trees of a held-out treebank,
from raw text:

    loss(t) = SUM over sentences of  log Z_t(all trees) - log Z_t(the trees of the gold word tree)

with any tree inside the words. This is the training loss as a function of one number. Golden-section search finds its
minimum. (A second, distant minimum is possible in theory; we have not seen one.)

Relations have their own probabilities, given the arc, and their own temperature, found in the same way:

    loss(t) = SUM over words of  - log P_t(gold relation | gold arc)

where the arc connects the characters that it connects in the best tree of the gold word tree. The same holds for parts
of speech, given the words (`zishu.model.tags`).

`reliability` compares a model's confidence with its accuracy on a gold treebank.

Cost: one run of the networks on the treebank, and for each sentence about twenty partition functions and one best tree;
`reliability` parses it twice.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import exp, log, sqrt
from typing import TYPE_CHECKING, Final

import numpy as np

from zishu.errors import InputError
from zishu.forest import Forest, build_forest
from zishu.model.batch import no_gaps
from zishu.model.features import length_batches
from zishu.model.files import CONFIG, write_json
from zishu.model.labels import at_temperature, word_label_scores
from zishu.model.model import Model, Pipeline, gold_sentence
from zishu.model.scores import tree_distribution
from zishu.model.settings import Settings, read_settings
from zishu.model.tags import tag_scores
from zishu.model.words import find_words
from zishu.tags import tags_of
from zishu.tree import INTRA, WordTree

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from pathlib import Path

    from numpy.typing import NDArray

    from zishu.chart import TreeDistribution
    from zishu.document import Sentence

LOWEST, HIGHEST, PRECISION = 0.25, 8.0, 0.005
_GOLDEN: Final = (sqrt(5) - 1) / 2


@dataclass(frozen=True, slots=True)
class Fit:
    """Hold a temperature, and the losses per unit before and after."""

    temperature: float
    before: float
    after: float
    units: int


@dataclass(frozen=True, slots=True)
class Calibration:
    """Hold the temperatures. Units are characters, or words if given; for relations and tags always words."""

    trees: Fit
    labels: Fit
    upos: Fit


def calibrate(model: Model, treebank: Iterable[WordTree]) -> Calibration:
    """Find the temperatures of a model on a treebank that it was not trained on; skip non-projective trees."""
    if model.settings.beam:
        raise InputError("a transition parser has no temperature: its probabilities come from its beam")
    if not model.settings.can.parses:
        raise InputError(f"a model for the task {model.settings.task!r} has no temperature")
    trees = [tree for tree in treebank if tree.is_projective]
    if not trees:
        raise InputError("no projective sentence to calibrate on")
    problems = [
        _gold_batch(model, [trees[k] for k in batch])
        for batch in length_batches([sum(tree.lengths) for tree in trees], model.batch_chars)
    ]
    units = sum(int(problem.everything.lengths.sum()) for problem in problems)
    settings = model.settings
    labels = _Choices.join([problem.labels for problem in problems])
    upos = _Choices.join([problem.upos for problem in problems if problem.upos is not None])
    return Calibration(
        _fit(lambda t: sum(problem.tree_loss(t) for problem in problems), settings.temperature, units),
        _fit(labels.loss, settings.label_temperature, len(labels.right)),
        _fit(upos.loss, settings.upos_temperature, len(upos.right)),
    )


def _fit(loss: Callable[[float], float], present: float, units: int) -> Fit:
    """Find the temperature with the lowest loss; without units keep the present one."""
    if not units:
        return Fit(present, 0.0, 0.0, 0)
    found = round(exp(_minimum(lambda x: loss(exp(x)), log(LOWEST), log(HIGHEST))), 2)
    return Fit(found, loss(present) / units, loss(found) / units, units)


@dataclass(frozen=True, slots=True)
class Reliability:
    """Hold a model's confidence in its decisions and its accuracy; all but the number are shares."""

    sure: float  # mean probability
    right: float
    error: float  # expected calibration error: the mean difference of the two, over ten bins
    decisions: int


def reliability(model: Model | Pipeline, treebank: Iterable[WordTree]) -> dict[str, Reliability]:
    """Measure the reliability of the probabilities of words, heads, tags and relations.

    Relations count if the head is correct, parts of speech if the treebank has them. Word-level parsers have no entry
    for words.
    """
    trees = list(treebank)
    decisions: dict[str, list[tuple[float, bool]]] = {}
    if model.settings.can.finds_words:
        raw = model.parse([gold_sentence(tree, words=False) for tree in trees], confidence=True)
        decisions["words"] = [word for pair in zip(trees, raw, strict=True) for word in _words(*pair)]
    given = model.parse([gold_sentence(tree, words=True) for tree in trees], confidence=True)
    heads, relations = [], []
    upos: list[tuple[float, bool]] = []
    for gold, sentence in zip(trees, given, strict=True):
        for word, head, deprel in zip(sentence, gold.heads, gold.deprels, strict=True):
            assert word.head_prob is not None
            assert word.label_prob is not None
            heads.append((word.head_prob, head == word.head))
            if head == word.head:
                relations.append((word.label_prob, deprel == word.deprel))
        for word, right in zip(sentence, tags_of(gold, "upos"), strict=True):
            if right is not None and word.upos_prob is not None:
                upos.append((word.upos_prob, right == word.upos))
    decisions |= {"heads": heads, "relations": relations, "parts of speech": upos}
    return {name: _reliability(pairs) for name, pairs in decisions.items() if pairs}


def _words(gold: WordTree, sentence: Sentence) -> Iterator[tuple[float, bool]]:
    spans = set(gold.spans)
    for word, span in zip(sentence, sentence.tree.spans, strict=True):
        assert word.boundary_prob is not None
        yield word.boundary_prob, span in spans


def _reliability(decisions: Sequence[tuple[float, bool]]) -> Reliability:
    sure, right = np.array(decisions, dtype=np.float64).T
    tenth = np.minimum((10 * sure).astype(np.int64), 9)
    distance = np.abs(np.bincount(tenth, sure - right, minlength=10)).sum() / len(sure)
    return Reliability(float(sure.mean()), float(right.mean()), float(distance), len(sure))


def set_temperatures(folder: Path, found: Calibration) -> None:
    """Write temperatures into the settings of a model directory."""
    settings = replace(
        read_settings(folder),
        temperature=found.trees.temperature,
        label_temperature=found.labels.temperature,
        upos_temperature=found.upos.temperature,
    )
    write_json(folder / CONFIG, settings.to_json())


@dataclass(frozen=True, slots=True, eq=False)
class _Choices:
    """Hold the network's log-probabilities of choices from a list, one row per word."""

    logp: NDArray[np.float64]  # [w, list]: log-probabilities
    right: NDArray[np.int64]  # [w]: index of the gold choice

    @classmethod
    def of(cls, logp: NDArray[np.float64], names: Sequence[str], gold: Iterable[str | None]) -> _Choices:
        """Compare with gold; skip values that the model does not know or never predicts."""
        number = {name: k for k, name in enumerate(names)}
        right = np.array([-1 if name is None else number.get(name, -1) for name in gold])
        possible = (right >= 0) & (logp[np.arange(len(right)), right] > -np.inf)
        return cls(logp[possible], right[possible])

    @classmethod
    def join(cls, several: Sequence[_Choices]) -> _Choices:
        """Concatenate the choices of several batches."""
        if not several:
            return cls(np.zeros((0, 1)), np.zeros(0, dtype=np.int64))
        return cls(
            np.concatenate([choices.logp for choices in several]),
            np.concatenate([choices.right for choices in several]),
        )

    def loss(self, temperature: float) -> float:
        """Return the negative log-probability of the gold choices at a temperature."""
        return -float(at_temperature(self.logp, temperature)[np.arange(len(self.right)), self.right].sum())


@dataclass(frozen=True, slots=True, eq=False)
class _GoldBatch:
    """Hold the network's outputs for a batch of gold word trees."""

    everything: TreeDistribution
    gold: TreeDistribution  # conditioned on the gold word trees
    labels: _Choices
    upos: _Choices | None  # None if the model or the treebank has none

    def tree_loss(self, temperature: float) -> float:
        """Return the negative log-probability of the gold word trees at a temperature."""
        everything, gold = (trees.at(temperature).log_partition() for trees in (self.everything, self.gold))
        return float((everything - gold).sum())


def _gold_batch(model: Model, trees: Sequence[WordTree]) -> _GoldBatch:
    settings = model.settings
    batch = model.run([gold_sentence(tree, words=settings.can.units == "words") for tree in trees])
    everything = tree_distribution(batch.outputs, batch.lengths, settings, batch.gaps)
    gold = _given_forests(everything, [_forest(tree, settings) for tree in trees])
    best = gold.best()
    words = find_words(best.heads, best.intra, batch.lengths)
    labels = word_label_scores(batch.outputs, settings.labels, words)
    relations = _Choices.of(labels, settings.labels, (label for tree in trees for label in tree.deprels))
    upos = None
    if batch.outputs.upos is not None:
        tags = (tag for tree in trees for tag in tags_of(tree, "upos"))
        upos = _Choices.of(tag_scores(batch.outputs.upos, words), settings.upos, tags)
    return _GoldBatch(everything, gold, relations, upos)


def _forest(tree: WordTree, settings: Settings) -> Forest:
    """Return the character trees of a word tree; relations do not matter here."""
    labels = {INTRA: 0, **dict.fromkeys(tree.deprels, 1)}
    return build_forest(tree, labels, by_words=settings.can.units == "words")


def _given_forests(trees: TreeDistribution, forests: Sequence[Forest]) -> TreeDistribution:
    """Condition on the forest of each sentence."""
    gaps = no_gaps(*trees.gaps.shape)
    inter, intra = np.zeros((2, *trees.gaps.shape, trees.gaps.shape[1]), dtype=np.bool_)
    for b, forest in enumerate(forests):
        gaps[b, : forest.length] = forest.gaps[: forest.length]
        for allowed, inside in ((inter, False), (intra, True)):
            dependents, heads, _ = forest.arcs(intra=inside)
            allowed[b, dependents, heads] = True
    return trees.given(gaps, inter=inter, intra=intra)


def _minimum(function: Callable[[float], float], low: float, high: float) -> float:
    """Return the position of a function's minimum by golden-section search."""
    left, right = high - _GOLDEN * (high - low), low + _GOLDEN * (high - low)
    at_left, at_right = function(left), function(right)
    while high - low > PRECISION:
        if at_left < at_right:
            high, right, at_right = right, left, at_left
            left = high - _GOLDEN * (high - low)
            at_left = function(left)
        else:
            low, left, at_left = left, right, at_right
            right = low + _GOLDEN * (high - low)
            at_right = function(right)
    return (low + high) / 2
