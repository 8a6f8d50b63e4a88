"""Turn treebanks into batches of tensors.

A treebank is read once, and every sentence becomes an `Example`: its characters, and its forest as slots. The slots of
a unit are its allowed heads with their labels. So labels of all allowed arcs are scored as `[units, slots, labels]`,
and no array of size n x n x labels is needed. Batches contain sentences of similar length. They depend only on the seed
and the epoch, so that a run can be resumed anywhere.

A sentence of which only a part is known (`zishu.partial`) takes the same way; its forest is larger.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import torch

from zishu.annotations import read_annotations
from zishu.chart import TreeDistribution
from zishu.chart.chain import word_tags
from zishu.errors import InputError
from zishu.forest import Forest, Structures, build_forest
from zishu.formats.conllu import read_conllu, trees_of
from zishu.model.features import features, pooling
from zishu.partial import PartialTree, known_words
from zishu.projectivity import projectivize
from zishu.tags import COLUMNS
from zishu.train.config import Config, StructureConfig, by_style
from zishu.tree import INTRA, WordTree
from zishu.treebank.wist import read_wist

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from numpy.typing import NDArray
    from torch import Tensor

    from zishu.train.network import Network

# --- treebanks ----------------------------------------------------------------------------------------------------


class TrainingTree(NamedTuple):
    """Hold the tree of a training sentence, or what is known of it."""

    tree: WordTree | PartialTree
    style: str = ""
    weight: float = 1.0  # how often an epoch sees it


@dataclass(frozen=True, slots=True)
class Treebank:
    """Hold the trees of a training set, and what was left out of it."""

    trees: tuple[TrainingTree, ...]
    left_out: int = 0  # non-projective trees
    problems: tuple[str, ...] = ()  # one line about each partial tree that contradicts itself

    @property
    def deprels(self) -> Counter[str]:
        """Count all relations."""
        return Counter(label for tree, *_ in self.trees for label in tree.deprels)

    def count_tags(self) -> tuple[dict[str, Counter[str]], set[tuple[str, str]]]:
        """Count the tags of every column, and return the pairs of style and column that have any."""
        counts = {column: Counter[str]() for column in COLUMNS}
        present = set()
        for tree, style, _ in self.trees:
            for word in known_words(tree):
                for column, tag in word.tags.items():
                    counts[column][tag] += 1
                    present.add((style, column))
        return counts, present


def read_trees(paths: Iterable[str]) -> tuple[WordTree, ...]:
    """Read the trees of CoNLL-U files."""
    trees: list[WordTree] = []
    for path in paths:
        found = trees_of(read_conllu(path))
        if not found:
            raise InputError(f"{path}: contains no sentence")
        trees += found
    return tuple(trees)


def read_treebank(config: Config) -> Treebank:
    """Read the training trees of all styles, and what is known of other sentences."""
    data, weights = config.data, config.data.weights
    trees = [
        TrainingTree(tree, style, weights.get(style, 1.0))
        for style, paths in by_style(data.train).items()
        for tree in read_trees(paths)
    ]
    kept = trees
    if config.can.parses:
        if data.pseudo_projective:
            trees = [item._replace(tree=projectivize(item.tree)) for item in trees]  # type: ignore[arg-type]
        kept = [item for item in trees if item.tree.is_projective]  # type: ignore[union-attr]
        if trees and not kept:
            files = (path for paths in by_style(data.train).values() for path in paths)
            raise InputError(f"{', '.join(files)}: contains no projective sentence")
    problems: list[str] = []
    partial = []
    for style, paths in by_style(data.partial).items():
        for found in map(read_annotations, paths):
            weight = weights.get(style, 1.0) * data.partial_weight
            partial += [TrainingTree(tree, style, weight) for tree in found.trees]
            problems += found.problems
    return Treebank((*kept, *partial), len(trees) - len(kept), tuple(problems))


def read_structures(config: Config) -> Structures | None:
    """Read the structures of words that the policy `annotated` needs."""
    if not config.can.finds_structures or config.structure.policy != "annotated":
        return None
    return read_wist(config.data.structures)


# --- examples -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, eq=False)
class Example:
    """Hold one sentence and its forest; position 0 is ROOT. Unused slots are -1. A segmenter has neither slots nor gaps."""

    chars: tuple[str, ...]  # n
    word_lengths: tuple[int, ...]
    units: int  # u: words if the network reads words, otherwise characters
    tags: NDArray[np.int64]  # n+1: BMES tags, for a segmenter
    columns: NDArray[np.int64]  # c u+1: the tags in each column, -1 unknown
    shares: NDArray[np.float32]  # u+1: the units of a word share its weight of 1
    slot_heads: NDArray[np.int64]  # u+1 k
    slot_labels: NDArray[np.int64]  # u+1 k
    slot_intra: NDArray[np.bool_]  # u+1 k
    gaps: NDArray[np.int8]  # u+1
    style: int = 0
    weight: float = 1.0  # how often an epoch sees it

    @property
    def length(self) -> int:
        """Count the characters."""
        return len(self.chars)

    @property
    def kind(self) -> int:
        """Return the kind of example: 0 for trees."""
        return 0


@dataclass(frozen=True, slots=True)
class Unlabelled:
    """Hold a sentence of raw text in a style, to learn from a teacher (`zishu.train.teacher`)."""

    chars: tuple[str, ...]
    style: int  # number of the style
    weight: float = 1.0

    @property
    def length(self) -> int:
        """Count the characters."""
        return len(self.chars)

    units = length

    @property
    def kind(self) -> int:
        """Return the kind of example: one for each style, because a batch is parsed in one style."""
        return 1 + self.style


Trainable = Example | Unlabelled


@dataclass(frozen=True, slots=True, eq=False)
class ExampleBatch:
    """Hold padded examples; see `Example`. `pool` averages characters to words, for word-level models."""

    chars: Tensor  # b n+1
    bigrams: Tensor | None  # b n+1; None if the encoder reads none
    lengths: Tensor  # b, characters
    styles: Tensor | None  # b; None if the training set has no styles
    units: Tensor  # b, characters or words
    pool: Tensor | None  # b u+1 n+1
    tags: Tensor  # b n+1
    columns: Tensor  # b c u+1
    shares: Tensor  # b u+1
    slot_heads: Tensor  # b u+1 k
    slot_labels: Tensor  # b u+1 k
    slot_intra: Tensor  # b u+1 k
    gaps: NDArray[np.int8]  # b u+1

    def to(self, device: torch.device) -> ExampleBatch:
        """Move the tensors to a device; gaps stay where the chart reads them."""
        values = ((field.name, getattr(self, field.name)) for field in fields(self))
        moved: dict[str, Any] = {k: v.to(device) for k, v in values if isinstance(v, torch.Tensor)}
        return replace(self, **moved)


def make_examples(config: Config, network: Network, treebank: Treebank) -> tuple[list[Example], list[str]]:
    """Turn all training sentences into examples; return them, and one line about each that no tree agrees with."""
    structures = read_structures(config)
    styles = {style: number for number, style in enumerate(network.settings.styles or ("",))}
    examples, problems = [], list(treebank.problems)
    for tree, style, weight in treebank.trees:
        try:
            example = make_example(tree, network, config.structure, structures)
        except InputError as error:
            if isinstance(tree, WordTree):
                raise
            problems.append(f"{tree.source or 'a sentence'}: {error}")
        else:
            examples.append(replace(example, style=styles[style], weight=weight))
    if not examples:
        raise InputError(f"{problems[0] if problems else 'no sentences'}: no training data is left")
    return examples, problems


def make_example(
    tree: WordTree | PartialTree,
    network: Network,
    structure: StructureConfig,
    structures: Structures | None = None,
) -> Example:
    """Turn a training sentence into an example and build its forest (for word-level models: its tree, one unit per word).

    A partial tree that no tree agrees with is an `InputError`.
    """
    settings = network.settings
    words = known_words(tree)
    by_words = settings.can.units == "words"
    spans = [(k, k + 1) if by_words else word.span for k, word in enumerate(words, start=1)]
    lengths = tuple(end - start for start, end in (word.span for word in words))
    chars = tuple(tree.chars)
    n = len(chars)
    units = len(words) if by_words else n
    columns = [[-1] * (units + 1) for _ in settings.tags]
    shares = [0.0] * (units + 1)
    for (start, end), word in zip(spans, words, strict=True):
        size = end - start
        shares[start:end] = [1 / size] * size
        for row, (column, known) in zip(columns, network.tag_numbers.items(), strict=True):
            row[start:end] = [known.get(word.tags.get(column, ""), -1)] * size
    tags = np.zeros(n + 1, dtype=np.int64)
    gaps = np.zeros(1, dtype=np.int8)
    slots = _no_slots(1, 1)
    if settings.can.parses:
        forest = build_forest(
            tree,
            {label: number for number, label in enumerate(dict.fromkeys((*settings.labels, INTRA)))},
            policy=structure.policy if settings.can.finds_structures else "latent",
            structures=structures,
            single_root=structure.single_root,
            one_tree=network.objective != "tree-crf" and settings.can.finds_structures,
            by_words=by_words,
        )
        if not isinstance(tree, WordTree):
            _check_feasible(forest, root_as_head=settings.root_as_head)
        gaps, slots = forest.gaps, _slots(forest)
    else:
        tags[1:] = word_tags(lengths)
    return Example(
        chars=chars,
        word_lengths=lengths,
        units=units,
        tags=tags,
        columns=np.array(columns, dtype=np.int64).reshape(-1, units + 1),
        shares=np.array(shares, dtype=np.float32),
        slot_heads=slots[0],
        slot_labels=slots[1],
        slot_intra=slots[2],
        gaps=gaps,
    )


def _check_feasible(forest: Forest, *, root_as_head: bool) -> None:
    """Refuse a forest without a tree."""
    shape = (1, forest.length + 1, forest.length + 1)
    inter, intra = np.full(shape, -np.inf), np.full(shape, -np.inf)
    inter[0, forest.inter.dependents, forest.inter.heads] = 0.0
    intra[0, forest.intra.dependents, forest.intra.heads] = 0.0
    trees = TreeDistribution(inter, [forest.length], intra, forest.gaps[None], root_as_head=root_as_head)
    if not np.isfinite(trees.log_partition()[0]):
        raise InputError("no projective tree agrees with what is known")


_Slots = tuple["NDArray[np.int64]", "NDArray[np.int64]", "NDArray[np.bool_]"]


def _no_slots(*shape: int) -> _Slots:
    return np.full(shape, -1), np.zeros(shape, dtype=np.int64), np.zeros(shape, dtype=np.bool_)


def _slots(forest: Forest) -> _Slots:
    """List the allowed heads of every unit, with their labels and roles."""
    dependents = np.concatenate([forest.inter.dependents, forest.intra.dependents])
    heads = np.concatenate([forest.inter.heads, forest.intra.heads])
    labels = np.concatenate([forest.inter.labels, forest.intra.labels])
    intra = np.repeat([False, True], (len(forest.inter), len(forest.intra)))
    order = np.argsort(dependents, kind="stable")
    dependents = dependents[order]
    counts = np.bincount(dependents, minlength=forest.length + 1)
    place = np.arange(len(dependents)) - np.repeat(np.cumsum(counts) - counts, counts)
    slots = _no_slots(forest.length + 1, int(counts.max()))
    for slot, values in zip(slots, (heads, labels, intra), strict=True):
        slot[dependents, place] = values[order]
    return slots


# --- batches ------------------------------------------------------------------------------------------------------


def epoch_batches(config: Config, examples: Sequence[Trainable], epoch: int) -> list[NDArray[np.int64]]:
    """Return the batches of an epoch as numbers of examples, each of one kind; the number of batches varies slightly."""
    lengths = np.array([e.units if config.optimiser.batch_by_words else e.length for e in examples])
    kinds = np.array([e.kind for e in examples])
    chosen = repeat_sentences(np.array([e.weight for e in examples]), seed=config.seed, epoch=epoch)
    dealt = []
    for kind in np.unique(kinds[chosen]):
        own = chosen[kinds[chosen] == kind]
        size = config.optimiser.batch_chars
        dealt += [own[batch] for batch in random_batches(lengths[own], size, seed=config.seed, epoch=epoch)]
    if kinds.any():
        order = np.random.default_rng((config.seed, epoch, 2)).permutation(len(dealt))
        dealt = [dealt[k] for k in order]
    return dealt


def random_batches(
    lengths: Sequence[int] | NDArray[np.int64], batch_chars: int, *, seed: int, epoch: int
) -> list[NDArray[np.int64]]:
    """Group sentences into batches of at most `batch_chars` characters, including padding, in random order.

    Sentences are sorted by length plus random noise, so that each epoch has different batches.
    """
    random = np.random.default_rng((seed, epoch))
    sizes = np.asarray(lengths) + 1
    order = np.argsort(sizes + random.uniform(0, 4, len(sizes)), kind="stable")
    dealt: list[NDArray[np.int64]] = []
    start, longest = 0, 0
    for place, example in enumerate(order):
        longest = max(longest, int(sizes[example]))
        if place > start and longest * (place - start + 1) > batch_chars:
            dealt.append(order[start:place])
            start, longest = place, int(sizes[example])
    dealt.append(order[start:])
    return [dealt[k] for k in random.permutation(len(dealt))]


def repeat_sentences(weights: NDArray[np.float64], *, seed: int, epoch: int) -> NDArray[np.int64]:
    """Return the numbers of the sentences in an epoch, each as often as its weight says.

    Fractions are drawn at random in every epoch.
    """
    random = np.random.default_rng((seed, epoch, 1))
    times = np.floor(weights + random.uniform(0, 1, len(weights))).astype(np.int64)
    return np.repeat(np.arange(len(weights)), times)


def collate(examples: Sequence[Example], network: Network) -> ExampleBatch:
    """Combine examples into a padded batch for a network."""
    settings = network.settings
    arrays = features([e.chars for e in examples], network.vocabulary, network.bigram_vocabulary)
    inputs = {name: torch.from_numpy(array) for name, array in arrays.items()}
    units = np.array([example.units for example in examples])
    width, unit_width = inputs["chars"].shape[1], int(units.max()) + 1
    slots = max(example.slot_heads.shape[1] for example in examples)
    pool = None
    if settings.can.units == "words":
        pool = torch.from_numpy(pooling([example.word_lengths for example in examples]))

    def stack(name: str, shape: tuple[int, ...], value: float) -> Tensor:
        return torch.from_numpy(pad([getattr(example, name) for example in examples], shape, value))

    return ExampleBatch(
        chars=inputs["chars"],
        bigrams=inputs.get("bigrams"),
        lengths=inputs["lengths"],
        styles=torch.tensor([example.style for example in examples]) if settings.styles else None,
        units=torch.from_numpy(units),
        pool=pool,
        tags=stack("tags", (width,), 0),
        columns=stack("columns", (len(settings.tags), unit_width), -1),
        shares=stack("shares", (unit_width,), 0),
        slot_heads=stack("slot_heads", (unit_width, slots), -1),
        slot_labels=stack("slot_labels", (unit_width, slots), 0),
        slot_intra=stack("slot_intra", (unit_width, slots), 0),
        gaps=pad([example.gaps for example in examples], (unit_width,), 0),
    )


def pad(arrays: Sequence[NDArray[Any]], shape: tuple[int, ...], value: float) -> NDArray[Any]:
    """Stack arrays of different sizes, padded with a value."""
    padded = np.full((len(arrays), *shape), value, dtype=arrays[0].dtype)
    for row, array in zip(padded, arrays, strict=True):
        row[tuple(slice(size) for size in array.shape)] = array
    return padded


def by_count(counts: Mapping[str, int]) -> tuple[str, ...]:
    """Return symbols, the most frequent first."""
    return tuple(sorted(counts, key=lambda symbol: (-counts[symbol], symbol)))
