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

from itertools import chain, pairwise, repeat
from typing import TYPE_CHECKING, Any, Final, Literal, get_args

import numpy as np

from zishu.chart import TreeDistribution
from zishu.document import CELLS, Sentence, Token, Tokens
from zishu.errors import InputError
from zishu.gaps import FREE
from zishu.model import beam
from zishu.model.batch import ScoredBatch, word_spans
from zishu.model.confidence import Confidence, measure_trees, measure_vanilla, measure_words
from zishu.model.k_best import distinct_trees
from zishu.model.labels import at_temperature, best_labels, label_scores
from zishu.model.mbr import probable_heads
from zishu.model.scores import all_known, inner_gaps, may_be_inside
from zishu.model.tags import best_tags
from zishu.model.words import Words, find_words
from zishu.projectivity import LIFTED, lower_arcs
from zishu.tags import values_of
from zishu.tree import CharTree, keep_pieces, recover

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from numpy.typing import NDArray

    from zishu.chart import Trees
    from zishu.model.settings import Settings

Decoding = Literal["mbr", "viterbi", "vanilla"]
DECODINGS: Final = get_args(Decoding)

# The probabilities of trees and of boundaries without the lexicon; None where it found nothing.
_WithoutLexicon = tuple[list[float | None], list[float | None]]


def decode(batch: ScoredBatch, *, confidence: bool = False, decoding: Decoding = "mbr") -> list[Sentence]:
    """Return the tree of every sentence of a batch.

    The trees inside words are those of the structure scorer; without one they are latent. Vanilla decoding is for
    networks with one role. It cannot honour constraints, so sentences with any known gap use "viterbi".
    """
    settings = batch.settings
    if decoding not in DECODINGS:
        raise InputError(f"unknown decoding {decoding!r}: choose from {', '.join(DECODINGS)}")
    if decoding == "vanilla" and (not settings.can.finds_structures or settings.roles != 1):
        raise InputError("vanilla decoding needs a character-level model with one role")
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
        typed = decode(batch.pick(numbers), confidence=confidence, decoding="viterbi")
        found.update(zip(numbers.tolist(), typed, strict=True))
    if not constrained.all():
        [numbers] = (~constrained).nonzero()
        untyped = _decode_vanilla(batch.pick(numbers), confidence=confidence)
        found.update(zip(numbers.tolist(), untyped, strict=True))
    return [found[b] for b in range(len(batch.sentences))]


def decode_k_best(batch: ScoredBatch, k: int) -> list[list[Sentence]]:
    """Return the k best analyses of every sentence of a batch that differ in their words or in the words' heads.

    The most probable comes first, with the trees inside words summed out. There may be fewer than k, because they are
    searched among the best character trees (see `zishu.model.k_best`).
    """
    if k < 1:
        raise InputError(f"the number of analyses must be at least 1, not {k}")
    if batch.settings.beam:
        return _decode_beam(batch, k, confidence=True)
    trees = batch.trees()
    numbers, found = distinct_trees(trees, k)
    ranked = _by_sentence(batch, numbers, _label(batch, trees, numbers, found, confidence=True))
    return [sorted(several, key=lambda sentence: -(sentence.prob or 0.0)) for several in ranked]


def decode_words(batch: ScoredBatch, *, tags: bool = False) -> list[Tokens]:
    """Return only the words of every sentence of a batch, as found by `decode`, and with `tags` their parts of speech.

    This takes one chart, and only those labels that a network with one role needs for it.
    """
    found = beam.search(batch)[1] if batch.settings.beam else batch.trees().best()
    words = find_words(found.heads, found.intra, batch.lengths)
    columns = best_tags(batch, words)[0] if tags else {}
    upos, xpos = (columns.get(name, repeat(None)) for name in ("upos", "xpos"))
    tokens = list(map(Token, *_spans(batch, words), upos, xpos))
    return [
        Tokens(raw.text, raw.start, tuple(tokens[first:last]), raw.cut, raw.after)
        for raw, (first, last) in zip(batch.sentences, pairwise(words.bounds.tolist()), strict=True)
    ]


def paper_decoding(settings: Settings, *, given_words: bool = False) -> Decoding:
    """Return the decoding algorithm behind the paper's scores of such a model."""
    one_role = settings.can.finds_structures and settings.roles == 1
    return "vanilla" if one_role and not given_words else "viterbi"


def _label(
    batch: ScoredBatch, trees: TreeDistribution, numbers: NDArray[np.int64], found: Trees, confidence: bool
) -> list[Sentence]:
    """Find the words and labels of legal trees with two roles; tree t belongs to sentence `numbers[t]`."""
    words = find_words(found.heads, found.intra, batch.lengths, numbers)
    names, of_labels = best_labels(batch, words, confidence)
    if of_labels is None:
        return _sentences(batch, words, names)
    sure = measure_trees(trees, words)
    return _sentences(batch, words, names, of_labels, sure, _without_lexicon(batch, numbers, found, words))


def _without_lexicon(
    batch: ScoredBatch, numbers: NDArray[np.int64], found: Trees, words: Words
) -> _WithoutLexicon | None:
    """Return the probabilities of trees and boundaries without the lexicon."""
    aided = np.array([sentence.gaps_without_lexicon is not None for sentence in batch.sentences])
    if batch.word_lengths is not None or not aided.any():  # where words are given, a lexicon finds none
        return None
    bare = batch.pick(np.flatnonzero(aided)).without_lexicon()
    chosen, row = aided[numbers], np.cumsum(aided) - 1  # of trees; of sentences in the smaller batch
    same = find_words(found.heads[chosen], found.intra[chosen], bare.lengths, row[numbers[chosen]])
    of_trees, of_words = np.full(len(chosen), None), np.full(len(words.tree), None)
    of_trees[chosen], of_words[chosen[words.tree]] = measure_words(bare.trees(), same)
    return of_trees.tolist(), of_words.tolist()


def _decode_beam(batch: ScoredBatch, k: int, *, confidence: bool) -> list[list[Sentence]]:
    """Find up to k analyses of each sentence with a transition parser."""
    if any(batch.arcs):
        raise InputError("a transition parser cannot honour fixed arcs, only known words")
    numbers, found, sure = beam.search(batch, k)
    words = find_words(found.heads, found.intra, batch.lengths, numbers)
    names, of_labels = best_labels(batch, words, confidence)
    analyses = _sentences(batch, words, names, of_labels, sure if confidence else None)
    return _by_sentence(batch, numbers, analyses)


def _by_sentence(
    batch: ScoredBatch, numbers: NDArray[np.int64], analyses: Sequence[Sentence]
) -> list[list[Sentence]]:
    """Return the analyses of each sentence; analysis t belongs to sentence `numbers[t]`."""
    ranked: list[list[Sentence]] = [[] for _ in batch.sentences]
    for b, analysis in zip(numbers.tolist(), analyses, strict=True):
        ranked[b].append(analysis)
    return ranked


def _decode_vanilla(batch: ScoredBatch, *, confidence: bool) -> list[Sentence]:
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
        each.sentence[each.tree],
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
    if not confidence:
        return _sentences(batch, words, deprels)
    # A repair may have introduced a label that the network does not know: its probability is 0.
    number = {name: k for k, name in enumerate(settings.labels)}
    columns = np.array([number.get(name, -1) for name in deprels])
    places = each.bounds[words.tree] + words.root - 1
    calibrated = at_temperature(labels, settings.label_temperature)
    of_labels = np.where(columns < 0, 0.0, np.exp(calibrated[places, columns]))
    return _sentences(batch, words, deprels, of_labels, measure_vanilla(trees, best.score, words))


def _sentences(
    batch: ScoredBatch,
    words: Words,
    deprels: Sequence[str],
    of_labels: NDArray[np.float64] | None = None,  # probabilities of the labels
    sure: Confidence | None = None,
    without_lexicon: _WithoutLexicon | None = None,
) -> list[Sentence]:
    """Build the words of the batch column by column."""
    bounds = words.bounds.tolist()
    forms, starts, ends = _spans(batch, words)
    heads, deprels = words.head.tolist(), list(deprels)
    if any(LIFTED in label for label in batch.settings.labels):
        for first, last in pairwise(bounds):
            heads[first:last], deprels[first:last] = lower_arcs(heads[first:last], deprels[first:last])
    tags, of_upos = best_tags(batch, words)
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
    trees_without, words_without = without_lexicon or (unknown, unknown)
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
        unknown if of_labels is None else of_labels.tolist(),
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
            [batch.sentences[b] for b in words.sentence.tolist()],
            bounds[:-1],
            bounds[1:],
            unknown if sure is None else sure.trees.tolist(),
            trees_without,
            strict=False,
        )
    ]
    if batch.inner is not None and batch.outputs.encoded is not None:
        for w, t in zip(waiting, words.tree[waiting].tolist(), strict=True):
            encoded = batch.outputs.encoded[words.sentence[t], words.start[w] : words.end[w]]
            batch.inner.wait(forms[w], encoded, sentences[t].cells, w - bounds[t])
    return sentences


def _spans(batch: ScoredBatch, words: Words) -> tuple[list[str], list[int], list[int]]:
    """Return the forms of all words, and where they start and end in the text."""
    forms: list[str] = []
    starts: list[int] = []
    ends: list[int] = []
    sizes = (words.end - words.start).tolist()
    for b, (first, last) in zip(words.sentence.tolist(), pairwise(words.bounds.tolist()), strict=True):
        lengths = sizes[first:last] if batch.word_lengths is None else batch.word_lengths[b]
        found = word_spans(batch.sentences[b], lengths)
        forms += found[0]
        starts += found[1]
        ends += found[2]
    return forms, starts, ends
