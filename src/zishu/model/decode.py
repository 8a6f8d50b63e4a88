"""Turn a network's scores into trees: the chart's best tree, its labels, its words, their parts of speech.

There are three ways of decoding:

    mbr       the words of the best character tree, with the heads that are most probable in sum over all trees
              (`zishu.model.mbr`); the default
    viterbi   the best character tree. That is the paper's decoding (section 3) of models with two roles (the
              coarse-to-fine algorithm), and of all models where the words are given (the constrained one)
    vanilla   the paper's decoding of models with one role: vanilla Eisner, then labels, which say what arcs lie inside
              words, with the repairs of `zishu.tree.recover` counted

The first two make two roles of the arcs and labels of a model with one role (`zishu.model.scores`), so that the tree is
always legal and all that is known of the words is kept.

Cost: the chart's O(n^3) a sentence, one call of the label network a batch, and a few microseconds a character.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Final, Literal, get_args

import numpy as np

from zishu.errors import InputError
from zishu.gaps import FREE
from zishu.model.confidence import Confidence, Measured, measure, measure_vanilla, measure_words
from zishu.model.k_best import Ranked, distinct_trees
from zishu.model.labels import LabelScorer, at_temperature, label_probabilities, legal_labels
from zishu.model.mbr import probable_heads
from zishu.model.outputs import Analysis, Floats, Gaps, Outputs, check_gaps, join, lengths_of, word_gaps
from zishu.model.scores import Scores, all_known, inner_gaps, no_gaps, unit_scores
from zishu.model.segments import Segments, decode_segments, decode_words
from zishu.model.words import Words, find_words
from zishu.tree import CharTree, WordTree, recover

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from zishu.chart import Marginals
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
    scores = unit_scores(outputs, lengths, settings, label_scorer, known)
    trees, given = scores.best_tree(), None
    if decoding == "mbr":
        trees, given = probable_heads(scores, trees)
    ranked = Ranked(np.arange(len(lengths)), trees.heads, trees.intra, trees.score)
    return _analyses(outputs, units, settings, label_scorer, scores, ranked, given, confidence=confidence)


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

    They come by the score of their best character tree, the best first, with confidence; there are fewer if
    the sentence has fewer, or not as many among its best character trees (see `zishu.model.k_best`).
    """
    if k < 1:
        raise InputError(f"the number of analyses must be at least 1, not {k}")
    lengths = lengths_of(units)
    if not units:
        return []
    known = _known_gaps(outputs, lengths, settings, gaps)
    scores = unit_scores(outputs, lengths, settings, label_scorer, known)
    ranked = distinct_trees(scores, k)
    found: list[list[Analysis]] = [[] for _ in units]
    analyses = _analyses(outputs, units, settings, label_scorer, scores, ranked, confidence=True)
    for sentence, analysis in zip(ranked.sentences.tolist(), analyses, strict=True):
        found[sentence].append(analysis)
    return found


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


def _analyses(
    outputs: Outputs,
    units: Sequence[Sequence[str]],
    settings: Settings,
    label_scorer: LabelScorer,
    scores: Scores,
    ranked: Ranked,
    given: Marginals | None = None,
    *,
    confidence: bool,
) -> list[Analysis]:
    """Give trees that are legal in their two roles, or trees of words, their words and labels.

    `given` are the marginals with these words given, one sentence a tree, if they are known already.
    """
    words = find_words(ranked.heads, ranked.intra, scores.lengths[ranked.sentences])
    sentences = ranked.sentences[words.tree]
    labels = label_probabilities(
        outputs, settings.labels, label_scorer, sentences, words.root, words.root_head
    )
    best = labels.argmax(axis=1)
    measured = None
    if confidence:
        of_words = settings.task == "parse-words"
        how = measure_words if of_words else measure
        heat = settings.temperature
        known = given if heat == 1.0 else None
        measured = how(scores.at(heat), ranked.sentences, ranked.score / heat, words, known)
    names = [settings.labels[label] for label in best.tolist()]
    told = at_temperature(labels, settings.label_temperature)
    chosen = _Labels(names, np.exp(told[np.arange(len(best)), best]))
    return _assemble(outputs, units, settings, ranked.sentences, words, chosen, measured)


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

    analyses: dict[int, Analysis] = {}
    given, free = np.flatnonzero(complete), np.flatnonzero(~complete)
    if len(given):
        both = Scores(outputs.inter, lengths, outputs.inter, gaps, settings.root_as_head)
        trees = both.pick(given).best_tree()
        ranked = Ranked(given, trees.heads, trees.intra, trees.score)
        typed = _analyses(outputs, units, settings, label_scorer, both, ranked, confidence=confidence)
        analyses.update(zip(given.tolist(), typed, strict=True))
    if len(free):
        scores = Scores(outputs.inter, lengths, root_as_head=settings.root_as_head).pick(free)
        untyped = _labelled(outputs, units, settings, label_scorer, scores, free, confidence=confidence)
        analyses.update(zip(free.tolist(), untyped, strict=True))
    return [analyses[b] for b in range(len(units))]


def _labelled(
    outputs: Outputs,
    units: Sequence[Sequence[str]],
    settings: Settings,
    label_scorer: LabelScorer,
    scores: Scores,
    sentences: NDArray[np.int64],
    *,
    confidence: bool,
) -> list[Analysis]:
    """Find the best untyped trees of some sentences, and the words that the labels of their arcs make."""
    trees = scores.best_tree()
    # As long as no label is known every character is a word.
    each = find_words(trees.heads, trees.intra, scores.lengths)
    labels = label_probabilities(
        outputs,
        settings.labels,
        label_scorer,
        sentences[each.tree],
        each.root,
        each.root_head,
        may_be_intra=True,
    )
    names = [settings.labels[label] for label in labels.argmax(axis=1).tolist()]
    intra = np.zeros_like(trees.intra)
    deprels: list[str] = []
    repairs = []
    for t, b in enumerate(sentences.tolist()):
        n = len(units[b])
        mine = names[each.bounds[t] : each.bounds[t + 1]]
        found = recover(CharTree(tuple(units[b]), tuple(trees.heads[t, 1 : n + 1].tolist()), tuple(mine)))
        intra[t, 1 : n + 1] = True
        intra[t, list(found.roots)] = False
        deprels += found.tree.deprels
        repairs.append(found.repairs)
    words = find_words(trees.heads, intra, scores.lengths)
    heat = settings.temperature
    measured = measure_vanilla(scores.at(heat), trees.score / heat, words) if confidence else None
    # A repair may have made up a label, one that the network does not even know: nothing speaks for it.
    number = {name: k for k, name in enumerate(settings.labels)}
    columns = np.array([number.get(name, -1) for name in deprels])
    places = each.bounds[words.tree] + words.root - 1
    told = at_temperature(labels, settings.label_temperature)
    chosen = _Labels(deprels, np.where(columns < 0, 0.0, np.exp(told[places, columns])))
    return _assemble(outputs, units, settings, sentences, words, chosen, measured, repairs)


@dataclass(frozen=True, slots=True, eq=False)
class _Labels:
    """The relations of the words of a batch and their probabilities."""

    names: list[str]
    probabilities: NDArray[np.float64]


def _assemble(
    outputs: Outputs,
    units: Sequence[Sequence[str]],
    settings: Settings,
    sentences: NDArray[np.int64],
    words: Words,
    labels: _Labels,
    measured: Measured | None,
    repairs: Sequence[int] | None = None,
) -> list[Analysis]:
    """Build the objects: the analysis of tree t, which is one of the sentence `sentences[t]`."""
    upos = _tag(outputs, settings, sentences, words)
    # Plain lists: this loop is all that Python does for each word.
    heads, inner, bounds = words.head.tolist(), words.inner_head.tolist(), words.bounds.tolist()
    starts, ends, places = (words.start - 1).tolist(), (words.end - 1).tolist(), words.first_char.tolist()
    places.append(len(inner))
    confidences = _confidences(labels, measured, bounds)
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
        tree = WordTree(
            forms, tuple(heads[mine]), tuple(labels.names[mine]), None if upos is None else tuple(upos[mine])
        )
        char_heads = None
        if settings.task == "parse":
            borders = places[bounds[t] : bounds[t + 1] + 1]
            char_heads = tuple([tuple(inner[i:j]) for i, j in pairwise(borders)])
        analyses.append(
            Analysis(tree, char_heads, repairs[t] if repairs else 0, confidences[t] if confidences else None)
        )
    return analyses


def _confidences(labels: _Labels, measured: Measured | None, bounds: Sequence[int]) -> list[Confidence]:
    """Deal the probabilities of a batch to its trees."""
    if measured is None:
        return []
    of_labels, of_heads = labels.probabilities.tolist(), measured.heads.tolist()
    of_words = None if measured.boundaries is None else measured.boundaries.tolist()
    return [
        Confidence(
            tree,
            None if of_words is None else tuple(of_words[start:end]),
            tuple(of_heads[start:end]),
            tuple(of_labels[start:end]),
        )
        for tree, (start, end) in zip(measured.tree.tolist(), pairwise(bounds), strict=True)
    ]


def _tag(
    outputs: Outputs, settings: Settings, sentences: NDArray[np.int64], words: Words
) -> list[str] | None:
    """Return each word's part of speech: the best by the mean of its characters' log-probabilities."""
    if outputs.upos is None:
        return None
    of_chars = outputs.upos[sentences[words.tree_of_char], words.char].astype(np.float64)
    # Double precision and one sum a word keep ties and neighbours in the batch out of the result.
    means = np.add.reduceat(of_chars, words.first_char, axis=0) / (words.end - words.start)[:, None]
    return [settings.upos[tag] for tag in means.argmax(axis=1).tolist()]
