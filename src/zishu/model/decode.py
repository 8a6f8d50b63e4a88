"""Turn a network's scores into trees: the chart's best tree, its labels, its words, their parts of speech.

The contract between torch, ONNX Runtime and decoding. A *unit* is what the chart parses: a character (task
"parse" and "segment") or a word (task "parse-words", where a word is the mean of its characters'
encodings). A network reads

    chars    int64 [b, N+1]           position 0 stands for ROOT; padding beyond the length
    bigrams  int64 [b, N+1]           only if the encoder reads pairs of characters
    lengths  int64 [b]                characters, ROOT not counted
    pool     float32 [b, W+1, N+1]    only for "parse-words": row w averages the characters of word w

and returns the fields of `Outputs`. Labels are scored by a second network, for the arcs of the predicted tree
only. What the labels may be depends on their place: a label called `root` is the relation of ROOT's child and
of nothing else, and INTRA marks arcs inside words and never leaves ROOT.

Decoding follows section 3 of the paper: with two roles the coarse-to-fine algorithm, always a legal tree;
with one role vanilla Eisner and labels that say which arcs lie inside words, with the repairs of
`zishu.tree.recover` counted; with given words the constrained algorithm.

Cost: the chart's O(n^3) a sentence, and one call of the label network a batch.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from zishu.chart import Trees, best_tree
from zishu.chart.chain import constrain, viterbi, word_lengths
from zishu.errors import InputError
from zishu.gaps import BREAK, FREE, JOIN
from zishu.tree import INTRA, CharTree, WordTree, recover

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from zishu.model.settings import Settings

    Floats = NDArray[np.float32] | NDArray[np.float64]
    # n + 1 values of zishu.gaps for n characters; [k] lies between k and k+1; the first and last are unread.
    Gaps = NDArray[np.int8]

# The representations [m, 100] of the dependents and of the heads of m arcs -> log-probabilities [m, labels].
LabelScorer = Callable[[Any, Any], Any]


@dataclass(frozen=True, slots=True, eq=False)
class Outputs:
    """What a network returns for a batch; None is what its task does not have. U counts units, ROOT is 0."""

    inter: Floats | None = None  # batch U+1 U+1, dependent first
    intra: Floats | None = None  # batch U+1 U+1; only with two roles
    label_dep: Floats | None = None  # batch U+1 100
    label_head: Floats | None = None  # batch U+1 100
    upos: Floats | None = None  # batch U+1 tags, log-probabilities
    tags: Floats | None = None  # batch N+1 4; only of a segmenter

    @classmethod
    def from_mapping(cls, arrays: Mapping[str, Any]) -> Outputs:
        """Take the outputs that a network returned by name."""
        return cls(**{name: np.asarray(array) for name, array in arrays.items()})


@dataclass(frozen=True, slots=True)
class Analysis:
    """The tree of one sentence."""

    tree: WordTree
    # Each word's inner tree, numbered from 1 in the word, 0 = root; None if the parser sees words only.
    char_heads: tuple[tuple[int, ...], ...] | None
    repairs: int = 0  # arcs whose label had to change to make the tree legal


@dataclass(frozen=True, slots=True, eq=False)
class _Arcs:
    """The arcs of a batch whose labels are asked for."""

    sentences: NDArray[np.int64]
    dependents: NDArray[np.int64]
    heads: NDArray[np.int64]


def decode(
    outputs: Outputs,
    units: Sequence[Sequence[str]],
    settings: Settings,
    label_scorer: LabelScorer,
    *,
    gaps: Sequence[Gaps | None] | None = None,
) -> list[Analysis]:
    """Return the best tree of every sentence of a batch.

    `units` are the characters of each sentence or, for the task "parse-words", its words. `gaps` says what
    is known of the segmentation; `word_gaps` makes it from words. A network with one role takes all gaps or
    none.
    """
    lengths = _lengths(units)
    if not units:
        return []
    if outputs.inter is None:
        raise InputError(f"a model for the task {settings.task!r} has no arcs to decode")
    if settings.task == "parse-words":
        if gaps is not None:
            raise InputError("a model that parses words takes no gaps")
        trees = best_tree(outputs.inter, lengths)
        arcs = _arcs(trees.heads, lengths)
        nowhere = np.zeros(len(arcs.sentences), dtype=np.bool_)
        labels = _labels(outputs, settings, label_scorer, arcs, may_be_intra=nowhere)
        return _word_trees(outputs, units, settings, trees.heads, labels)

    trees, typed = _best_trees(outputs, lengths, settings, gaps)
    # In a typed tree the arcs inside words need no label; in an untyped one the labels say which they are.
    wanted = ~(trees.intra & typed[:, None])
    arcs = _arcs(trees.heads, lengths, wanted)
    labels = _labels(outputs, settings, label_scorer, arcs, may_be_intra=~typed[arcs.sentences])
    return _char_trees(outputs, units, settings, trees.heads, labels)


def decode_words(
    outputs: Outputs,
    units: Sequence[Sequence[str]],
    settings: Settings,
    *,
    gaps: Sequence[Gaps | None] | None = None,
) -> list[tuple[str, ...]]:
    """Return the words of every sentence of a batch, from the scores of a segmenter."""
    lengths = _lengths(units)
    if not units:
        return []
    if outputs.tags is None:
        raise InputError(f"a model for the task {settings.task!r} does not segment")
    if not settings.transitions:
        raise InputError("the settings of the segmenter hold no scores of tag pairs")
    emissions = np.asarray(outputs.tags, dtype=np.float64)[:, 1:]  # without ROOT
    if gaps is not None:
        emissions = emissions.copy()
        for b, (n, known) in enumerate(zip(lengths, gaps, strict=True)):
            if known is not None:
                emissions[b, :n] = constrain(emissions[b, :n], known)
    tags = viterbi(emissions, lengths, settings.transitions, settings.starts, settings.ends)
    return [join(chars, word_lengths(row[:n])) for chars, row, n in zip(units, tags, lengths, strict=True)]


def word_gaps(lengths: Sequence[int]) -> Gaps:
    """Return the gaps of a sentence whose words have these numbers of characters."""
    gaps = np.full(sum(lengths) + 1, JOIN, dtype=np.int8)
    gaps[0] = BREAK
    gaps[np.cumsum(lengths)] = BREAK
    return gaps


def join(chars: Sequence[str], lengths: Sequence[int]) -> tuple[str, ...]:
    """Join characters to words of the given numbers of characters."""
    ends = np.cumsum(lengths)
    return tuple("".join(chars[end - size : end]) for end, size in zip(ends, lengths, strict=True))


def _lengths(units: Sequence[Sequence[str]]) -> NDArray[np.int64]:
    lengths = np.array([len(sentence) for sentence in units], dtype=np.int64)
    for b in np.flatnonzero(lengths == 0):
        raise InputError(f"sentence {b} is empty")
    return lengths


def _best_trees(
    outputs: Outputs, lengths: NDArray[np.int64], settings: Settings, gaps: Sequence[Gaps | None] | None
) -> tuple[Trees, NDArray[np.bool_]]:
    """Return the best trees, and which of them are typed: where the chart knew the words or chose them."""
    assert outputs.inter is not None
    known = _pad(gaps, lengths, outputs.inter.shape[1])
    if settings.roles == 2:
        trees = best_tree(outputs.inter, lengths, outputs.intra, known, root_as_head=settings.root_as_head)
        return trees, np.ones(len(lengths), dtype=np.bool_)

    places = np.arange(known.shape[1])
    inner = (places >= 1) & (places < lengths[:, None])
    free = ((known == FREE) & inner).sum(axis=1)
    if ((free > 0) & (free < lengths - 1)).any():
        raise InputError("a model with one role takes all words of a sentence or none, not some")
    typed = free == 0
    heads = np.zeros(known.shape, dtype=np.int64)
    intra = np.zeros(known.shape, dtype=np.bool_)
    score = np.zeros(len(lengths))
    for chosen, constraints in ((typed, known[typed]), (~typed, None)):
        if chosen.any():
            part = best_tree(
                outputs.inter[chosen],
                lengths[chosen],
                None,
                constraints,
                root_as_head=settings.root_as_head,
            )
            heads[chosen], intra[chosen], score[chosen] = part.heads, part.intra, part.score
    return Trees(heads, intra, score), typed


def _pad(gaps: Sequence[Gaps | None] | None, lengths: NDArray[np.int64], width: int) -> NDArray[np.int8]:
    """Put the gaps of sentences of different lengths into one array."""
    padded = np.full((len(lengths), width), FREE, dtype=np.int8)
    padded[:, 0] = BREAK
    if gaps is None:
        return padded
    if len(gaps) != len(lengths):
        raise InputError(f"gaps for {len(gaps)} sentences, but there are {len(lengths)}")
    for row, known, n in zip(padded, gaps, lengths, strict=True):
        if known is not None:
            if len(known) < n:
                raise InputError(f"{len(known)} gaps for {n} characters")
            row[1:n] = known[1:n]
    return padded


def _arcs(
    heads: NDArray[np.int64], lengths: NDArray[np.int64], wanted: NDArray[np.bool_] | None = None
) -> _Arcs:
    """List the arcs of the trees of a batch, or those of them that are wanted, by sentence and dependent."""
    places = np.arange(heads.shape[1])
    inside = (places >= 1) & (places <= lengths[:, None])
    sentences, dependents = np.nonzero(inside if wanted is None else inside & wanted)
    return _Arcs(sentences, dependents, heads[sentences, dependents])


def _labels(
    outputs: Outputs,
    settings: Settings,
    label_scorer: LabelScorer,
    arcs: _Arcs,
    *,
    may_be_intra: NDArray[np.bool_],
) -> list[dict[int, str]]:
    """Return, for every sentence, the best legal label of each of its arcs by dependent."""
    assert outputs.inter is not None
    assert outputs.label_dep is not None
    assert outputs.label_head is not None
    scores = np.array(
        label_scorer(
            outputs.label_dep[arcs.sentences, arcs.dependents], outputs.label_head[arcs.sentences, arcs.heads]
        ),
        dtype=np.float64,
    )
    below_root, between_words, anywhere = legal_labels(settings.labels)
    legal = np.where(may_be_intra[:, None], anywhere, between_words)
    legal = np.where((arcs.heads == 0)[:, None], below_root, legal)
    best = np.where(legal, scores, -np.inf).argmax(axis=1)
    labels: list[dict[int, str]] = [{} for _ in range(len(outputs.inter))]
    for b, d, label in zip(arcs.sentences.tolist(), arcs.dependents.tolist(), best.tolist(), strict=True):
        labels[b][d] = settings.labels[label]
    return labels


def legal_labels(
    labels: Sequence[str],
) -> tuple[NDArray[np.bool_], NDArray[np.bool_], NDArray[np.bool_]]:
    """Tell which labels an arc from ROOT may have, which an arc between words, and which any other arc.

    A label set without `root`, or with no other label for words, has no such rule. The case of the letters
    does not matter: Penn treebanks say ROOT, Universal Dependencies root.
    """
    intra = np.array([label == INTRA for label in labels])
    root = np.array([label.lower() == "root" for label in labels])
    below_root = root if root.any() else ~intra
    between_words = ~(root | intra)
    if not between_words.any():
        between_words = ~intra
    return below_root, between_words, between_words | intra


def _char_trees(
    outputs: Outputs,
    units: Sequence[Sequence[str]],
    settings: Settings,
    heads: NDArray[np.int64],
    labels: Sequence[Mapping[int, str]],
) -> list[Analysis]:
    """Recover the words of the character trees of a batch; an arc without a label lies inside a word."""
    analyses = []
    for b, chars in enumerate(units):
        n = len(chars)
        found = recover(
            CharTree(
                chars=tuple(chars),
                heads=tuple(heads[b, 1 : n + 1].tolist()),
                labels=tuple(labels[b].get(d, INTRA) for d in range(1, n + 1)),
            )
        )
        upos = None if outputs.upos is None else _tag(outputs.upos[b], found.spans, settings.upos)
        words = found.tree
        tree = WordTree(words.forms, words.heads, words.deprels, upos)
        analyses.append(Analysis(tree, found.char_heads, found.repairs))
    return analyses


def _word_trees(
    outputs: Outputs,
    units: Sequence[Sequence[str]],
    settings: Settings,
    heads: NDArray[np.int64],
    labels: Sequence[Mapping[int, str]],
) -> list[Analysis]:
    """Build the word trees of a batch whose units are words."""
    analyses = []
    for b, words in enumerate(units):
        numbers = range(1, len(words) + 1)
        spans = [(w, w + 1) for w in numbers]
        upos = None if outputs.upos is None else _tag(outputs.upos[b], spans, settings.upos)
        deprels = tuple(labels[b][w] for w in numbers)
        tree = WordTree(tuple(words), tuple(heads[b, 1 : len(words) + 1].tolist()), deprels, upos)
        analyses.append(Analysis(tree, None))
    return analyses


def _tag(upos: Floats, spans: Sequence[tuple[int, int]], names: Sequence[str]) -> tuple[str, ...]:
    """Return each word's part of speech: the best by the mean of its characters' log-probabilities."""
    starts = np.array([start for start, _ in spans])
    ends = np.array([end for _, end in spans])
    # Double precision and one sum a word keep ties and neighbours in the batch out of the result.
    sums = np.add.reduceat(upos[: ends[-1]].astype(np.float64), starts, axis=0)
    means = sums / (ends - starts)[:, None]
    return tuple(names[tag] for tag in means.argmax(axis=1).tolist())
