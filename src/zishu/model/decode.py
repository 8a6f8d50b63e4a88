"""Turn a network's scores into trees: the chart's best tree, its labels, its words, their parts of speech.

There are three ways of decoding:

    mbr       the words of the best character tree, with the heads that are most probable in sum over all trees
              (`zishu.model.mbr`); the default
    viterbi   the best character tree. That is the paper's decoding (section 3.3) of models with two roles (the
              coarse-to-fine algorithm), and of all models where the words are given (the constrained one)
    vanilla   the paper's decoding of models with one role: vanilla Eisner, then labels, which say what arcs lie inside
              words, with the repairs of `zishu.tree.recover` counted

The first two make two roles of the arcs and labels of a model with one role (`zishu.model.scores`), so that the tree is
always legal and all that is known of the words is kept. Trees and probabilities come from one `TreeDistribution`, at the
model's temperature: with confidence, `mbr` runs three charts over the characters of a sentence, and sums a forest.

Cost: the chart's O(n^3) per sentence, one call of the label network per batch, a few microseconds per character.
"""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Final, Literal, get_args

import numpy as np

from zishu.chart import TreeDistribution
from zishu.errors import InputError
from zishu.gaps import FREE
from zishu.model.confidence import Confidence, OfWords, measure, measure_vanilla, measure_words
from zishu.model.k_best import distinct_trees
from zishu.model.labels import LabelScorer, at_temperature, label_probabilities, legal_labels
from zishu.model.mbr import probable_heads
from zishu.model.outputs import Analysis, Floats, Gaps, Outputs, check_gaps, join, lengths_of, word_gaps
from zishu.model.scores import all_known, inner_gaps, no_gaps, tree_distribution
from zishu.model.segments import Segments, decode_segments, decode_words
from zishu.model.tags import best_tags
from zishu.model.words import Words, find_words
from zishu.tags import values_of
from zishu.tree import CharTree, WordTree, recover

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from zishu.chart import Trees
    from zishu.model.settings import Settings

__all__ = [
    "DECODINGS",
    "Analysis",
    "Confidence",
    "Decoding",
    "Floats",
    "Gaps",
    "LabelScorer",
    "Outputs",
    "Segments",
    "decode",
    "decode_k_best",
    "decode_segments",
    "decode_words",
    "join",
    "legal_labels",
    "paper_decoding",
    "word_gaps",
]

Decoding = Literal["mbr", "viterbi", "vanilla"]
DECODINGS: Final = get_args(Decoding)


def decode(
    outputs: Outputs,
    units: Sequence[Sequence[str]],
    settings: Settings,
    label_scorer: LabelScorer,
    *,
    gaps: Sequence[Gaps | None] | None = None,
    confidence: bool = False,
    decoding: Decoding = "mbr",
) -> list[Analysis]:
    """Return the tree of every sentence of a batch.

    `units` are the characters of each sentence or, for the task "parse-words", its words. `gaps` says what
    is known of the segmentation; `word_gaps` makes it from words. Vanilla decoding is for networks with one
    role, and takes all the words of a sentence or none.
    """
    lengths = lengths_of(units)
    _check_decoding(decoding)
    if decoding == "vanilla" and (settings.task != "parse" or settings.roles != 1):
        raise InputError("vanilla decoding is for models of characters with one role")
    if not units:
        return []
    known = _known_gaps(outputs, lengths, settings, gaps)
    if decoding == "vanilla":
        return _decode_vanilla(outputs, units, settings, label_scorer, known, confidence=confidence)
    return _decode_typed(
        outputs, units, settings, label_scorer, known, mbr=decoding == "mbr", confidence=confidence
    )


def paper_decoding(settings: Settings, *, given_words: bool = False) -> Decoding:
    """Return the way of decoding that the paper's scores of a model come from."""
    one_role = settings.task == "parse" and settings.roles == 1
    return "vanilla" if one_role and not given_words else "viterbi"


def _check_decoding(name: str) -> None:
    """Refuse a way of decoding that does not exist."""
    if name not in DECODINGS:
        raise InputError(f"unknown decoding {name!r}: choose from {', '.join(DECODINGS)}")


def decode_k_best(
    outputs: Outputs,
    units: Sequence[Sequence[str]],
    settings: Settings,
    label_scorer: LabelScorer,
    k: int,
    *,
    gaps: Sequence[Gaps | None] | None = None,
) -> list[list[Analysis]]:
    """Return the k best analyses of every sentence of a batch, different in their words or in the words' heads.

    The most probable comes first, with the trees inside words summed out. There are fewer if the sentence has fewer, or
    not as many among its best character trees, where they are found (see `zishu.model.k_best`).
    """
    if k < 1:
        raise InputError(f"the number of analyses must be at least 1, not {k}")
    lengths = lengths_of(units)
    if not units:
        return []
    known = _known_gaps(outputs, lengths, settings, gaps)
    trees = _trees(outputs, lengths, settings, label_scorer, known)
    sentences, found = distinct_trees(trees, k)
    analyses = _analyses(outputs, units, settings, label_scorer, trees, sentences, found, confidence=True)
    ranked: list[list[Analysis]] = [[] for _ in units]
    for sentence, analysis in zip(sentences.tolist(), analyses, strict=True):
        ranked[sentence].append(analysis)
    return [sorted(several, key=_improbability) for several in ranked]


def _improbability(analysis: Analysis) -> float:
    assert analysis.confidence is not None
    return -analysis.confidence.tree


def _known_gaps(
    outputs: Outputs, lengths: NDArray[np.int64], settings: Settings, gaps: Sequence[Gaps | None] | None
) -> NDArray[np.int8]:
    """Put the gaps of sentences of different lengths into one array."""
    if outputs.inter is None:
        raise InputError(f"a model for the task {settings.task!r} has no arcs to decode")
    if gaps is not None and settings.task == "parse-words":
        raise InputError("a model that parses words takes no gaps")
    padded = no_gaps(*outputs.inter.shape[:2])
    check_gaps(lengths.tolist(), gaps)
    for row, known, n in zip(padded, gaps or (), lengths.tolist(), strict=False):
        if known is not None:
            row[1:n] = known[1:n]
    return padded


def _trees(
    outputs: Outputs,
    lengths: NDArray[np.int64],
    settings: Settings,
    label_scorer: LabelScorer,
    gaps: NDArray[np.int8],
) -> TreeDistribution:
    """Return the distribution that all answers come from: that at the model's temperature.

    A temperature leaves the order of trees as it is, so only sums over trees depend on it.
    """
    return tree_distribution(outputs, lengths, settings, label_scorer, gaps).at(settings.temperature)


def _decode_typed(
    outputs: Outputs,
    units: Sequence[Sequence[str]],
    settings: Settings,
    label_scorer: LabelScorer,
    gaps: NDArray[np.int8],
    *,
    mbr: bool,
    confidence: bool,
) -> list[Analysis]:
    """Find one tree of each sentence, of two roles or of words."""
    trees = _trees(outputs, lengths_of(units), settings, label_scorer, gaps)
    found = probable_heads(trees) if mbr else trees.best()
    sentences = np.arange(len(trees))
    return _analyses(outputs, units, settings, label_scorer, trees, sentences, found, confidence=confidence)


def _analyses(
    outputs: Outputs,
    units: Sequence[Sequence[str]],
    settings: Settings,
    label_scorer: LabelScorer,
    trees: TreeDistribution,
    sentences: NDArray[np.int64],
    found: Trees,
    *,
    confidence: bool,
) -> list[Analysis]:
    """Find the words and labels of trees that are legal in their two roles, or trees of words.

    Tree t is one of the sentence `sentences[t]`.
    """
    words = find_words(found.heads, found.intra, trees.lengths[sentences])
    labels = label_probabilities(
        outputs, settings.labels, label_scorer, sentences[words.tree], words.root, words.root_head
    )
    best = labels.argmax(axis=1)
    names = [settings.labels[label] for label in best.tolist()]
    tags, of_upos = best_tags(outputs, settings, sentences, words)
    confidences = None
    if confidence:
        calibrated = at_temperature(labels, settings.label_temperature)
        of_words = OfWords(np.exp(calibrated[np.arange(len(best)), best]), of_upos)
        if settings.task == "parse-words":
            confidences = measure_words(trees, sentences, found.score, words, of_words)
        else:
            confidences = measure(trees, sentences, words, of_words)
    return _assemble(units, settings, sentences, words, names, tags, confidences)


def _decode_vanilla(
    outputs: Outputs,
    units: Sequence[Sequence[str]],
    settings: Settings,
    label_scorer: LabelScorer,
    gaps: NDArray[np.int8],
    *,
    confidence: bool,
) -> list[Analysis]:
    """Decode a network with one role as the paper does.

    Where words are given that is the constrained algorithm, elsewhere the best tree of arcs, with labels that say which
    of them lie inside words.
    """
    assert outputs.inter is not None
    lengths = lengths_of(units)
    complete = all_known(gaps, lengths)
    inner = inner_gaps(gaps.shape, lengths)
    if (~complete & ((gaps != FREE) & inner).any(axis=1)).any():
        raise InputError("vanilla decoding takes all words of a sentence or none, not some")

    def some(chosen: NDArray[np.int64]) -> tuple[Outputs, list[Sequence[str]], Settings, LabelScorer]:
        return outputs.pick(chosen), [units[b] for b in chosen.tolist()], settings, label_scorer

    analyses: dict[int, Analysis] = {}
    given, free = np.flatnonzero(complete), np.flatnonzero(~complete)
    if len(given):
        found = _decode_typed(*some(given), gaps[given], mbr=False, confidence=confidence)
        analyses.update(zip(given.tolist(), found, strict=True))
    if len(free):
        found = _decode_untyped(*some(free), confidence=confidence)
        analyses.update(zip(free.tolist(), found, strict=True))
    return [analyses[b] for b in range(len(units))]


def _decode_untyped(
    outputs: Outputs,
    units: Sequence[Sequence[str]],
    settings: Settings,
    label_scorer: LabelScorer,
    *,
    confidence: bool,
) -> list[Analysis]:
    """Find the best untyped trees, and the words that the labels of their arcs make."""
    assert outputs.inter is not None
    trees = TreeDistribution(outputs.inter, lengths_of(units)).at(settings.temperature)
    best = trees.best()
    sentences = np.arange(len(trees))
    # As long as no label is known every character is a word.
    each = find_words(best.heads, best.intra, trees.lengths)
    labels = label_probabilities(
        outputs, settings.labels, label_scorer, each.tree, each.root, each.root_head, may_be_intra=True
    )
    names = [settings.labels[label] for label in labels.argmax(axis=1).tolist()]
    intra = np.zeros_like(best.intra)
    deprels: list[str] = []
    repairs = []
    for b, chars in enumerate(units):
        n = len(chars)
        mine = names[each.bounds[b] : each.bounds[b + 1]]
        tree = CharTree(tuple(chars), tuple(best.heads[b, 1 : n + 1].tolist()), tuple(mine))
        found = recover(tree, settings.labels)
        intra[b, 1 : n + 1] = True
        intra[b, list(found.roots)] = False
        deprels += found.tree.deprels
        repairs.append(found.repairs)
    words = find_words(best.heads, intra, trees.lengths)
    tags, of_upos = best_tags(outputs, settings, sentences, words)
    confidences = None
    if confidence:
        # A repair may have made up a label, one that the network does not even know: nothing speaks for it.
        number = {name: k for k, name in enumerate(settings.labels)}
        columns = np.array([number.get(name, -1) for name in deprels])
        places = each.bounds[words.tree] + words.root - 1
        calibrated = at_temperature(labels, settings.label_temperature)
        of_labels = np.where(columns < 0, 0.0, np.exp(calibrated[places, columns]))
        confidences = measure_vanilla(trees, best.score, words, OfWords(of_labels, of_upos))
    return _assemble(units, settings, sentences, words, deprels, tags, confidences, repairs)


def _assemble(
    units: Sequence[Sequence[str]],
    settings: Settings,
    sentences: NDArray[np.int64],
    words: Words,
    labels: Sequence[str],
    tags: Mapping[str, Sequence[str]],
    confidences: Sequence[Confidence] | None,
    repairs: Sequence[int] | None = None,
) -> list[Analysis]:
    """Build the objects: the analysis of tree t, which is one of the sentence `sentences[t]`."""
    # Plain lists: this loop is all that Python does for each word.
    heads, inner, bounds = words.head.tolist(), words.inner_head.tolist(), words.bounds.tolist()
    starts, ends, places = (words.start - 1).tolist(), (words.end - 1).tolist(), words.first_char.tolist()
    places.append(len(inner))
    analyses = []
    for t, b in enumerate(sentences.tolist()):
        mine = slice(bounds[t], bounds[t + 1])
        chars = units[b]
        # A slice of a string is cheaper than joining, if characters are code points.
        text = "".join(chars)
        spans = zip(starts[mine], ends[mine], strict=True)
        if len(text) == len(chars):
            forms = tuple([text[i:j] for i, j in spans])
        else:
            forms = tuple(["".join(chars[i:j]) for i, j in spans])
        columns = {name: values_of(name, column[mine], forms) for name, column in tags.items()}
        tree = WordTree(forms, tuple(heads[mine]), tuple(labels[mine]), **columns)
        char_heads = None
        if settings.task == "parse":
            borders = places[bounds[t] : bounds[t + 1] + 1]
            char_heads = tuple([tuple(inner[i:j]) for i, j in pairwise(borders)])
        analyses.append(
            Analysis(tree, char_heads, repairs[t] if repairs else 0, confidences[t] if confidences else None)
        )
    return analyses
