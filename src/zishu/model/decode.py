"""Turn a network's scores into trees: the chart's best tree, its labels, its words, their parts of speech.

There are three decoding algorithms:

    mbr       the words of the best character tree, with the heads of highest probability summed over all trees
              (`zishu.model.mbr`); the default
    viterbi   the best character tree. This is the paper's decoding (section 3.3) for models with two roles (the
              coarse-to-fine algorithm), and for all models if the words are given (the constrained algorithm)
    vanilla   the paper's decoding for models with one role: vanilla Eisner, then labels, which tell which arcs lie
              inside words, with the repairs of `zishu.tree.recover`

The first two derive two roles from the arcs and labels of a model with one role (`zishu.model.scores`), so that the
tree is always legal and all constraints hold. Trees and probabilities come from one `TreeDistribution` at the model's
temperature: with confidence, `mbr` runs three charts over the characters of a sentence and sums a forest.

Cost: O(n^3) per sentence for the chart, the label network for one arc per word, a few microseconds per character.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import accumulate, chain, pairwise, repeat
from typing import TYPE_CHECKING, Any, Final, Literal, get_args

import numpy as np

from zishu.chart import TreeDistribution
from zishu.document import CELLS, Sentence, Token, Tokens
from zishu.errors import InputError
from zishu.gaps import FREE
from zishu.model import beam
from zishu.model.confidence import (
    Confidence,
    measure_trees,
    measure_vanilla,
    measure_without_lexicon,
    measure_words,
)
from zishu.model.fixed_arcs import allowed_arcs, fix_relations, over_words
from zishu.model.k_best import distinct_trees
from zishu.model.labels import LabelScorer, at_temperature, best_at_temperature, label_scores
from zishu.model.mbr import probable_heads
from zishu.model.outputs import (
    Outputs,
    favoured_boundaries,
    known_gaps,
    lengths_of,
    no_gaps,
    word_lengths_of,
)
from zishu.model.scores import all_known, inner_gaps, may_be_inside, tree_distribution
from zishu.model.tags import best_tags, fixed_tags
from zishu.model.words import Words, find_words
from zishu.projectivity import LIFTED, lower_arcs
from zishu.tags import values_of
from zishu.tree import CharTree, keep_pieces, recover

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from numpy.typing import NDArray

    from zishu.arcs import FixedArc
    from zishu.chart import Trees
    from zishu.model.inner import InnerTrees
    from zishu.model.settings import Settings
    from zishu.text import RawSentence

Decoding = Literal["mbr", "viterbi", "vanilla"]
DECODINGS: Final = get_args(Decoding)


def decode(
    outputs: Outputs,
    sentences: Sequence[RawSentence],
    settings: Settings,
    label_scorer: LabelScorer,
    *,
    confidence: bool = False,
    decoding: Decoding = "mbr",
    inner: InnerTrees | None = None,
) -> list[Sentence]:
    """Return the tree of every sentence of a batch.

    The trees inside words are those of the structure scorer; without one they are latent. For the task "parse-words"
    the words of every sentence must be known. Vanilla decoding is for networks with one role. It cannot honour
    constraints, so sentences with any known gap use "viterbi".
    """
    if decoding not in DECODINGS:
        raise InputError(f"unknown decoding {decoding!r}: choose from {', '.join(DECODINGS)}")
    if decoding == "vanilla" and (not settings.can.finds_structures or settings.roles != 1):
        raise InputError("vanilla decoding needs a character-level model with one role")
    if not sentences:
        return []
    batch = _Batch(outputs, sentences, settings, label_scorer, inner)
    if settings.beam:
        return [best for [best] in _decode_beam(batch, 1, confidence=confidence)]
    if decoding != "vanilla":
        trees = batch.trees()
        best = probable_heads(trees, batch.allowed) if decoding == "mbr" else trees.best()
        return _label(batch, trees, np.arange(len(trees)), best, confidence)
    between = inner_gaps(batch.gaps.shape, batch.lengths)
    constrained = all_known(batch.gaps, batch.lengths) | ((batch.gaps != FREE) & between).any(axis=1)
    if batch.favoured is not None:
        constrained |= batch.favoured.any(axis=1)
    found: dict[int, Sentence] = {}
    if constrained.any():
        [numbers] = constrained.nonzero()
        part = batch.pick(numbers)
        trees = part.trees()
        typed = _label(part, trees, np.arange(len(trees)), trees.best(), confidence)
        found.update(zip(numbers.tolist(), typed, strict=True))
    if not constrained.all():
        [numbers] = (~constrained).nonzero()
        untyped = _decode_vanilla(batch.pick(numbers), confidence=confidence)
        found.update(zip(numbers.tolist(), untyped, strict=True))
    return [found[b] for b in range(len(sentences))]


def decode_k_best(
    outputs: Outputs,
    sentences: Sequence[RawSentence],
    settings: Settings,
    label_scorer: LabelScorer,
    k: int,
    *,
    inner: InnerTrees | None = None,
) -> list[list[Sentence]]:
    """Return the k best analyses of every sentence of a batch that differ in their words or in the words' heads.

    The most probable comes first, with the trees inside words summed out. There may be fewer than k, because they are
    searched among the best character trees (see `zishu.model.k_best`).
    """
    if k < 1:
        raise InputError(f"the number of analyses must be at least 1, not {k}")
    if not sentences:
        return []
    batch = _Batch(outputs, sentences, settings, label_scorer, inner)
    if settings.beam:
        return _decode_beam(batch, k, confidence=True)
    trees = batch.trees()
    numbers, found = distinct_trees(trees, k)
    ranked: list[list[Sentence]] = [[] for _ in sentences]
    for b, sentence in zip(numbers.tolist(), _label(batch, trees, numbers, found, True), strict=True):
        ranked[b].append(sentence)
    return [sorted(several, key=lambda sentence: -(sentence.prob or 0.0)) for several in ranked]


def decode_words(
    outputs: Outputs,
    sentences: Sequence[RawSentence],
    settings: Settings,
    label_scorer: LabelScorer,
    *,
    tags: bool = False,
) -> list[Tokens]:
    """Return only the words of every sentence of a batch, as found by `decode`, and with `tags` their parts of speech.

    This takes one chart, and only those labels that a network with one role needs for it.
    """
    if not sentences:
        return []
    batch = _Batch(outputs, sentences, settings, label_scorer)
    if settings.beam:
        assert outputs.states is not None
        found = beam.search(outputs.states, batch.lengths, batch.gaps, settings)
        words = find_words(found.heads, found.intra, batch.lengths)
    elif settings.can.units == "words":
        nothing = np.zeros(batch.gaps.shape, dtype=np.int64)
        words = find_words(nothing, nothing.astype(np.bool_), batch.lengths)
    else:
        best = batch.trees().best()
        words = find_words(best.heads, best.intra, batch.lengths)
    numbers = np.arange(len(sentences))
    columns = _tags(batch, numbers, words)[0] if tags else {}
    upos, xpos = (columns.get(name, repeat(None)) for name in ("upos", "xpos"))
    tokens = list(map(Token, *_spans(batch, numbers, words), upos, xpos))
    return [
        Tokens(raw.text, raw.start, tuple(tokens[first:last]), raw.cut, raw.after)
        for raw, (first, last) in zip(sentences, pairwise(words.bounds.tolist()), strict=True)
    ]


def paper_decoding(settings: Settings, *, given_words: bool = False) -> Decoding:
    """Return the decoding algorithm behind the paper's scores of such a model."""
    one_role = settings.can.finds_structures and settings.roles == 1
    return "vanilla" if one_role and not given_words else "viterbi"


class _Batch:
    """Hold sentences, the network's outputs for them, and what is known about their trees."""

    def __init__(
        self,
        outputs: Outputs,
        sentences: Sequence[RawSentence],
        settings: Settings,
        label_scorer: LabelScorer,
        inner: InnerTrees | None = None,  # None: trees inside words are latent
    ) -> None:
        units = outputs.states if settings.beam else outputs.inter
        if units is None:
            raise InputError(f"a model for the task {settings.task!r} has no arcs to decode")
        self.outputs, self.sentences, self.settings = outputs, sentences, settings
        self.label_scorer, self.inner = label_scorer, inner
        width = units.shape[1]
        arcs: Sequence[Sequence[FixedArc]] = [sentence.arcs for sentence in sentences]
        # By units, which are characters or words. The number of characters of each word is for words only.
        self.word_lengths: Sequence[Sequence[int]] | None = None
        self.favoured: NDArray[np.float64] | None = None  # batch N+1: scores of boundaries
        if settings.can.units == "words":
            self.word_lengths = word_lengths_of(sentences)
            self.lengths = np.array(list(map(len, self.word_lengths)))
            self.gaps = no_gaps(len(sentences), width)
            arcs = list(map(over_words, arcs, self.word_lengths))
        else:
            self.lengths = lengths_of(sentences)
            self.gaps = known_gaps(sentences, width)
            self.favoured = favoured_boundaries(sentences, width)
        self.arcs = arcs
        self.allowed = allowed_arcs(arcs, width)  # batch N+1 N+1: inter-word arcs; None: all
        if self.favoured is not None and settings.beam:
            raise InputError("a transition parser cannot weigh words: it takes a hard lexicon only")

    def pick(self, numbers: NDArray[np.int64]) -> _Batch:
        """Return a batch of some of the sentences."""
        sentences = [self.sentences[b] for b in numbers.tolist()]
        return _Batch(self.outputs.pick(numbers), sentences, self.settings, self.label_scorer, self.inner)

    def trees(self, *, known: bool = True) -> TreeDistribution:
        """Return the distribution behind all answers: at the model's temperature, given the fixed arcs.

        Unless `known`, nothing is known about words. Favoured boundaries count in full: their scores are not divided by
        the temperature. A temperature does not change the order of trees; only sums over trees depend on it.
        """
        gaps = self.gaps if known else no_gaps(*self.gaps.shape)
        trees = tree_distribution(self.outputs, self.lengths, self.settings, self.label_scorer, gaps)
        trees = trees.at(self.settings.temperature).given(inter=self.allowed)
        return trees.favouring(self.favoured) if known and self.favoured is not None else trees


def _label(
    batch: _Batch, trees: TreeDistribution, numbers: NDArray[np.int64], found: Trees, confidence: bool
) -> list[Sentence]:
    """Find the words and labels of legal trees with two roles, or of trees over words.

    Tree t belongs to sentence `numbers[t]`.
    """
    words = find_words(found.heads, found.intra, trees.lengths[numbers])
    names, of_labels = _best_labels(batch, numbers, words, confidence)
    sure = None
    if of_labels is not None and batch.settings.can.units == "words":
        sure = measure_words(trees, numbers, found.score, words, of_labels)
    elif of_labels is not None:
        sure = measure_trees(trees, numbers, words, of_labels)
        sure.without_lexicon = _without_lexicon(batch, numbers, words)
    return _sentences(batch, numbers, words, names, sure)


def _best_labels(
    batch: _Batch, numbers: NDArray[np.int64], words: Words, confidence: bool
) -> tuple[list[str], NDArray[np.float64] | None]:
    """Return the best label of each word, and optionally its probability; tree t belongs to sentence `numbers[t]`."""
    settings = batch.settings
    scores = label_scores(
        batch.outputs, settings.labels, batch.label_scorer, numbers[words.tree], words.root, words.root_head
    )
    fix_relations(scores, batch.arcs, settings.labels, numbers, words)
    sure = None
    if confidence:
        best, sure = best_at_temperature(scores, settings.label_temperature)
    else:
        best = scores.argmax(axis=1)
    return [settings.labels[label] for label in best.tolist()], sure


def _without_lexicon(
    batch: _Batch, numbers: NDArray[np.int64], words: Words
) -> tuple[list[float | None], list[float | None]] | None:
    """Return the probabilities of trees and boundaries without the lexicon; None where it found nothing."""
    aided = [b for b, sentence in enumerate(batch.sentences) if sentence.gaps_without_lexicon is not None]
    if not aided:
        return None
    part = batch.pick(np.array(aided))
    bare = [replace(raw, gaps=raw.gaps_without_lexicon) for raw in part.sentences]
    known = known_gaps(bare, part.gaps.shape[1])
    free = part.trees(known=False)
    row = {b: k for k, b in enumerate(aided)}
    chosen = [t for t, b in enumerate(numbers.tolist()) if b in row]
    rows = np.array([row[int(numbers[t])] for t in chosen])
    found, boundaries = measure_without_lexicon(free, known, rows, words, chosen)
    of_trees: list[float | None] = [None] * len(numbers)
    of_words: list[float | None] = [None] * len(words.tree)
    for t, prob in zip(chosen, found, strict=True):
        mine = slice(int(words.bounds[t]), int(words.bounds[t + 1]))
        of_trees[t], of_words[mine] = prob, boundaries[mine]
    return of_trees, of_words


def _decode_beam(batch: _Batch, k: int, *, confidence: bool) -> list[list[Sentence]]:
    """Find up to k analyses of each sentence with a transition parser."""
    settings = batch.settings
    if any(batch.arcs):
        raise InputError("a transition parser cannot honour fixed arcs, only known words")
    assert batch.outputs.states is not None
    found = beam.search(batch.outputs.states, batch.lengths, batch.gaps, settings, k)
    words = find_words(found.heads, found.intra, batch.lengths[found.numbers])
    names, of_labels = _best_labels(batch, found.numbers, words, confidence)
    sure = None if of_labels is None else beam.confidence(found, of_labels)
    ranked: list[list[Sentence]] = [[] for _ in batch.sentences]
    sentences = _sentences(batch, found.numbers, words, names, sure)
    for b, sentence in zip(found.numbers.tolist(), sentences, strict=True):
        ranked[b].append(sentence)
    return ranked


def _decode_vanilla(batch: _Batch, *, confidence: bool) -> list[Sentence]:
    """Find the best untyped trees, and the words defined by the labels of their arcs."""
    outputs, settings = batch.outputs, batch.settings
    assert outputs.inter is not None
    trees = TreeDistribution(outputs.inter, batch.lengths).at(settings.temperature)
    best = trees.best()
    # Until labels are known, every character counts as a word.
    each = find_words(best.heads, best.intra, trees.lengths)
    labels = label_scores(
        outputs,
        settings.labels,
        batch.label_scorer,
        each.tree,
        each.root,
        each.root_head,
        may_be_intra=may_be_inside(each.root, each.root_head, settings),
    )
    names = [settings.labels[label] for label in labels.argmax(axis=1).tolist()]
    heads, intra = best.heads.copy(), np.zeros_like(best.intra)
    deprels: list[str] = []
    for b, sentence in enumerate(batch.sentences):
        n = len(sentence)
        mine = names[each.bounds[b] : each.bounds[b + 1]]
        tree = CharTree(sentence.chars, tuple(best.heads[b, 1 : n + 1].tolist()), tuple(mine))
        if settings.release_recovery:
            tree = keep_pieces(tree, settings.labels)
            heads[b, 1 : n + 1] = tree.heads
        found = recover(tree, settings.labels)
        intra[b, 1 : n + 1] = True
        intra[b, list(found.roots)] = False
        deprels += found.tree.deprels
    words = find_words(heads, intra, trees.lengths)
    sure = None
    if confidence:
        # A repair may have introduced a label that the network does not know: its probability is 0.
        number = {name: k for k, name in enumerate(settings.labels)}
        columns = np.array([number.get(name, -1) for name in deprels])
        places = each.bounds[words.tree] + words.root - 1
        calibrated = at_temperature(labels, settings.label_temperature)
        of_labels = np.where(columns < 0, 0.0, np.exp(calibrated[places, columns]))
        sure = measure_vanilla(trees, best.score, words, of_labels)
    return _sentences(batch, np.arange(len(trees)), words, deprels, sure)


def _sentences(
    batch: _Batch, numbers: NDArray[np.int64], words: Words, deprels: Sequence[str], sure: Confidence | None
) -> list[Sentence]:
    """Build the words of the batch column by column; tree t belongs to sentence `numbers[t]`."""
    bounds = words.bounds.tolist()
    forms, starts, ends = _spans(batch, numbers, words)
    heads, deprels = words.head.tolist(), list(deprels)
    if any(LIFTED in label for label in batch.settings.labels):
        for first, last in pairwise(bounds):
            heads[first:last], deprels[first:last] = lower_arcs(heads[first:last], deprels[first:last])
    tags, of_upos = _tags(batch, numbers, words)
    columns = {name: values_of(name, column, forms) for name, column in tags.items()}
    unknown: Iterable[Any] = repeat(None)
    char_heads = char_rels = structures = unknown
    waiting: list[int] = []
    if batch.inner is not None:
        (char_heads, char_rels, structures), waiting = batch.inner.known(
            forms, (words.end - words.start).tolist()
        )
    elif batch.word_lengths is None:
        heads_inside, places = words.inner_head.tolist(), words.first_char.tolist()
        char_heads = [tuple(heads_inside[i:j]) for i, j in pairwise([*places, len(heads_inside)])]
    trees_without, words_without = (sure and sure.without_lexicon) or (unknown, unknown)
    # The fields of `Word`, in their order.
    rows = zip(
        (np.arange(1, len(forms) + 1) - words.bounds[words.tree]).tolist(),
        forms,
        starts,
        ends,
        columns.get("upos", unknown),
        heads,
        deprels,
        char_heads,
        unknown if sure is None or sure.boundaries is None else sure.boundaries.tolist(),
        unknown if sure is None else sure.heads.tolist(),
        unknown if sure is None else sure.labels.tolist(),
        unknown if sure is None or of_upos is None else of_upos.tolist(),
        *(columns.get(name, unknown) for name in ("xpos", "feats", "lemma")),
        char_rels,
        structures,
        words_without,
        strict=False,  # what is unknown never ends
    )
    cells = list(chain.from_iterable(rows))
    sentences = [
        Sentence.from_cells(
            raw.text, raw.start, cells[CELLS * first : CELLS * last], raw.cut, prob, raw.after, without
        )
        for raw, first, last, prob, without in zip(
            [batch.sentences[b] for b in numbers.tolist()],
            bounds[:-1],
            bounds[1:],
            unknown if sure is None else sure.trees.tolist(),
            trees_without,
            strict=False,
        )
    ]
    if batch.inner is not None and batch.outputs.encoded is not None:
        for w, t in zip(waiting, words.tree[waiting].tolist(), strict=True):
            encoded = batch.outputs.encoded[numbers[t], words.start[w] : words.end[w]]
            batch.inner.wait(forms[w], encoded, sentences[t].cells, w - bounds[t])
    return sentences


def _tags(
    batch: _Batch, numbers: NDArray[np.int64], words: Words
) -> tuple[dict[str, list[str | None]], NDArray[np.float64] | None]:
    """Return the tags of all words by column, and the probabilities of the parts of speech.

    Fixed parts of speech replace predicted ones; other tags that depend on the replaced ones become unknown.
    """
    columns, of_upos = best_tags(batch.outputs, batch.settings, numbers, words)
    if "upos" in columns:
        fixed = fixed_tags(batch.sentences, batch.word_lengths, numbers, words, batch.settings.upos)
        for place, tag in fixed.items():
            if columns["upos"][place] != tag:
                for name in columns.keys() & {"xpos", "feats"}:
                    columns[name][place] = None
            columns["upos"][place] = tag
            if of_upos is not None:
                of_upos[place] = 1.0
    return columns, of_upos


def _spans(batch: _Batch, numbers: NDArray[np.int64], words: Words) -> tuple[list[str], list[int], list[int]]:
    """Return the forms of all words, and where they start and end in the text."""
    bounds, firsts, lasts = words.bounds.tolist(), (words.start - 1).tolist(), (words.end - 2).tolist()
    starts: list[int] = []
    ends: list[int] = []
    forms: list[str] = []
    for b, first, last in zip(numbers.tolist(), bounds[:-1], bounds[1:], strict=True):
        sentence = batch.sentences[b]
        unit_starts, unit_ends = sentence.starts, sentence.ends
        if batch.word_lengths is not None:
            edges = list(accumulate(batch.word_lengths[b], initial=0))
            unit_starts = tuple([unit_starts[edge] for edge in edges[:-1]])
            unit_ends = tuple([unit_ends[edge - 1] for edge in edges[1:]])
        begin = [unit_starts[unit] for unit in firsts[first:last]]
        end = [unit_ends[unit] for unit in lasts[first:last]]
        text, offset = sentence.text, sentence.start
        forms += [text[i - offset : j - offset] for i, j in zip(begin, end, strict=True)]
        starts += begin
        ends += end
    return forms, starts, ends
