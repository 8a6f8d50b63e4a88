"""Turn treebanks into batches of tensors.

A treebank is read once, and every sentence becomes an `Example`: the numbers of its characters, and its forest as
slots. The slots of a unit are its allowed heads with their labels. So labels of all allowed arcs are scored as `[units,
slots, labels]`, and no array of size n x n x labels is needed. Batches contain sentences of similar length. They depend
only on the seed and the epoch, so that a run can be resumed anywhere.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field, fields, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from zishu.annotations import read_annotations
from zishu.chart import TreeDistribution
from zishu.chart.chain import word_tags
from zishu.errors import InputError
from zishu.forest import Forest, Structures, build_forest, build_partial_forest
from zishu.formats.conllu import read_conllu, trees_of
from zishu.model.features import number, pooling
from zishu.model.settings import TASKS
from zishu.model.vocabulary import Vocabulary, bigrams
from zishu.projectivity import projectivize
from zishu.tags import COLUMNS, tags_of
from zishu.tree import INTRA, WordTree

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from numpy.typing import NDArray
    from torch import Tensor

    from zishu.model.settings import TaskName
    from zishu.partial import PartialTree
    from zishu.train.config import StructureConfig


@dataclass(frozen=True, slots=True)
class Treebank:
    """Hold the trees of a training set, and the number of skipped non-projective trees."""

    trees: tuple[WordTree, ...]
    styles: tuple[str, ...]  # the name of each tree's style
    left_out: int = 0
    partial: tuple[PartialTree, ...] = ()
    partial_styles: tuple[str, ...] = ()
    problems: tuple[str, ...] = ()  # one line about each partial tree that was left out

    @property
    def sentences(self) -> list[tuple[WordTree | PartialTree, str]]:
        """Return all sentences with their styles."""
        full = zip(self.trees, self.styles, strict=True)
        return [*full, *zip(self.partial, self.partial_styles, strict=True)]

    @property
    def deprels(self) -> Counter[str]:
        """Count all relations."""
        return Counter(label for tree, _ in self.sentences for label in tree.deprels)


@dataclass(frozen=True, slots=True)
class Inventory:
    """Hold what is numbered in a training set: characters, bigrams, labels, tags, styles."""

    chars: Vocabulary
    bigrams: Vocabulary | None
    labels: tuple[str, ...]
    tags: Mapping[str, tuple[str, ...]]  # the tags of each learned column, in the order of COLUMNS
    styles: tuple[str, ...] = ()  # empty if the training set has no styles
    absent_tags: Mapping[str, tuple[str, ...]] = field(default_factory=dict)  # style -> missing columns


@dataclass(frozen=True, slots=True, eq=False)
class Example:
    """Hold one sentence in numbers; position 0 is ROOT. Unused slots are -1."""

    chars: NDArray[np.int64]  # n+1
    bigrams: NDArray[np.int64]  # n+1
    word_lengths: tuple[int, ...]
    tags: NDArray[np.int64]  # n+1: BMES tags
    columns: NDArray[np.int64]  # c u+1: the tags in each column, -1 unknown
    shares: NDArray[np.float32]  # u+1: the units of a word share its weight of 1
    slot_heads: NDArray[np.int64]  # u+1 k
    slot_labels: NDArray[np.int64]  # u+1 k
    slot_intra: NDArray[np.bool_]  # u+1 k
    gaps: NDArray[np.int8]  # u+1
    style: int = 0

    @property
    def length(self) -> int:
        """Count the characters."""
        return len(self.chars) - 1


@dataclass(frozen=True, slots=True, eq=False)
class ExampleBatch:
    """Hold padded examples; see `Example`. `pool` averages characters to words, for word-level models."""

    chars: Tensor  # b n+1
    bigrams: Tensor  # b n+1
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


def read_trees(paths: Iterable[str]) -> tuple[WordTree, ...]:
    """Read the trees of CoNLL-U files."""
    trees: list[WordTree] = []
    for path in paths:
        found = trees_of(read_conllu(path))
        if not found:
            raise InputError(f"{path}: contains no sentence")
        trees += found
    return tuple(trees)


def read_treebank(
    files: Mapping[str, Iterable[str]],
    partial: Mapping[str, Iterable[str]] | None = None,
    *,
    projective_only: bool = False,
    pseudo_projective: bool = False,
) -> Treebank:
    """Read the training trees of all styles, and what is known of other sentences."""
    trees = [(tree, style) for style, paths in files.items() for tree in read_trees(paths)]
    if pseudo_projective:
        trees = [(projectivize(tree), number) for tree, number in trees]
    kept = [(tree, style) for tree, style in trees if not projective_only or tree.is_projective]
    if trees and not kept:
        raise InputError(
            f"{', '.join(p for paths in files.values() for p in paths)}: contains no projective sentence"
        )
    read = [(style, read_annotations(path)) for style, paths in (partial or {}).items() for path in paths]
    return Treebank(
        tuple(tree for tree, _ in kept),
        tuple(style for _, style in kept),
        len(trees) - len(kept),
        tuple(tree for _, found in read for tree in found.trees),
        tuple(style for style, found in read for _ in found.trees),
        tuple(problem for _, found in read for problem in found.problems),
    )


def take_inventory(
    treebank: Treebank,
    chars: Vocabulary | None,
    pairs: Vocabulary | None = None,
    *,
    bigram_min_count: int,
    joint: bool,
    tags: Mapping[str, tuple[str, ...]],
    styles: tuple[str, ...] = (),
    absent_tags: Mapping[str, tuple[str, ...]] | None = None,
) -> Inventory:
    """Number everything that occurs in the training trees; a pre-trained encoder has its own vocabularies.

    Bigrams are omitted if `bigram_min_count` is 0. `joint` models also label the arcs inside words.
    """
    char_counts: Counter[str] = Counter()
    bigram_counts: Counter[str] = Counter()
    for tree, _ in treebank.sentences:
        sentence = list(tree.chars)
        char_counts.update(sentence)
        bigram_counts.update(bigrams(sentence))
    return Inventory(
        chars or Vocabulary.build(char_counts),
        (pairs or Vocabulary.build(bigram_counts, min_count=bigram_min_count)) if bigram_min_count else None,
        ((INTRA,) if joint else ()) + _by_count(treebank.deprels),
        tags,
        styles,
        absent_tags or {},
    )


def take_tags(
    treebank: Treebank, styles: Sequence[str]
) -> tuple[dict[str, tuple[str, ...]], dict[str, tuple[str, ...]]]:
    """Return the tags of every column in the trees, and the columns that each style lacks."""
    counts = {column: Counter[str]() for column in COLUMNS}
    known: dict[str, set[str]] = {column: set() for column in COLUMNS}
    for tree, style in zip(treebank.trees, treebank.styles, strict=True):
        for column in COLUMNS:
            tags = [tag for tag in tags_of(tree, column) if tag is not None]
            counts[column].update(tags)
            if tags:
                known[column].add(style)
    for partial, style in zip(treebank.partial, treebank.partial_styles, strict=True):
        for column, tag in (pair for word in partial.words for pair in word.tags.items()):
            counts[column][tag] += 1
            known[column].add(style)
    found = {column: _by_count(counts[column]) for column in COLUMNS if counts[column]}
    absent = {style: tuple(column for column in found if style not in known[column]) for style in styles}
    return found, {style: columns for style, columns in absent.items() if columns}


def add_tags(inventory: Inventory, treebank: Treebank) -> Inventory:
    """Add the tag columns of a treebank that an inventory lacks; a style has the columns of both."""
    tags, absent = take_tags(treebank, inventory.styles)
    all_tags = {**tags, **inventory.tags}
    before = {style: set(inventory.absent_tags.get(style, ())) for style in inventory.styles}
    new = set(all_tags) - set(inventory.tags)
    both = {
        style: tuple(c for c in all_tags if c in absent.get(style, ()) and (c in new or c in before[style]))
        for style in inventory.styles
    }
    return replace(
        inventory,
        tags={column: all_tags[column] for column in COLUMNS if column in all_tags},
        absent_tags={style: columns for style, columns in both.items() if columns},
    )


def make_example(
    tree: WordTree,
    inventory: Inventory,
    structure: StructureConfig,
    structures: Structures | None,
    *,
    task: TaskName,
    objective: str = "tree-crf",
    style: int = 0,
) -> Example:
    """Number one training sentence and build its forest (for word-level models: its tree, one unit per word)."""
    chars = tree.chars
    lengths = tree.lengths
    units_of_word = np.array((1, *lengths) if TASKS[task].finds_structures else (1,) * (len(lengths) + 1))
    forest = _make_forest(tree, inventory, structure, structures, task=task, objective=objective)
    slot_heads, slot_labels, slot_intra = _slots(forest)
    vocabulary = inventory.chars
    numbers, pairs = number(chars, vocabulary, inventory.bigrams)
    return Example(
        chars=np.array([vocabulary.bos, *numbers]),
        bigrams=np.array([inventory.bigrams.bos if inventory.bigrams else 0, *pairs]),
        word_lengths=lengths,
        tags=np.array([0, *word_tags(lengths)]),
        columns=np.repeat(_number_tags(tree, inventory), units_of_word, axis=1),
        shares=np.repeat(1 / units_of_word, units_of_word).astype(np.float32),
        slot_heads=slot_heads,
        slot_labels=slot_labels,
        slot_intra=slot_intra,
        gaps=forest.gaps,
        style=style,
    )


def make_partial_example(
    tree: PartialTree,
    inventory: Inventory,
    structure: StructureConfig,
    structures: Structures | None,
    *,
    root_as_head: bool,
    style: int = 0,
) -> Example:
    """Do the same for a partly known sentence; raise `InputError` if no tree agrees with it."""
    index = {label: number for number, label in enumerate(inventory.labels)}
    try:
        forest = build_partial_forest(tree, index, policy=structure.policy, structures=structures)
        _check_feasible(forest, root_as_head=root_as_head)
    except InputError as error:
        raise InputError(f"{tree.source or 'a sentence'}: {error}") from None
    n = len(tree.chars)
    columns = np.full((len(inventory.tags), n + 1), -1)
    shares = np.zeros(n + 1, dtype=np.float32)
    for word in tree.words:
        chars = slice(*word.span)
        shares[chars] = 1 / (word.span[1] - word.span[0])
        for row, (column, tags) in zip(columns, inventory.tags.items(), strict=True):
            if word.tags.get(column) in tags:
                row[chars] = tags.index(word.tags[column])
    slot_heads, slot_labels, slot_intra = _slots(forest)
    vocabulary = inventory.chars
    numbers, pairs = number(tree.chars, vocabulary, inventory.bigrams)
    return Example(
        chars=np.array([vocabulary.bos, *numbers]),
        bigrams=np.array([inventory.bigrams.bos if inventory.bigrams else 0, *pairs]),
        word_lengths=(),
        tags=np.zeros(n + 1, dtype=np.int64),
        columns=columns,
        shares=shares,
        slot_heads=slot_heads,
        slot_labels=slot_labels,
        slot_intra=slot_intra,
        gaps=forest.gaps,
        style=style,
    )


def _check_feasible(forest: Forest, *, root_as_head: bool) -> None:
    """Reject a forest without a tree."""
    shape = (1, forest.length + 1, forest.length + 1)
    inter, intra = np.full(shape, -np.inf), np.full(shape, -np.inf)
    inter[0, forest.inter.dependents, forest.inter.heads] = 0.0
    intra[0, forest.intra.dependents, forest.intra.heads] = 0.0
    trees = TreeDistribution(inter, [forest.length], intra, forest.gaps[None], root_as_head=root_as_head)
    if not np.isfinite(trees.log_partition()[0]):
        raise InputError("no projective tree agrees with what is known")


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


def count_units(examples: Iterable[Any], *, task: TaskName) -> int:
    """Count the units that the loss of a batch of these examples is averaged over: words if given, else characters."""
    by_word = TASKS[task].units == "words"
    return sum(len(example.gaps) - 1 if by_word else example.length for example in examples)


def collate(examples: Sequence[Example], inventory: Inventory, *, task: TaskName) -> ExampleBatch:
    """Combine examples into a padded batch."""
    lengths = np.array([example.length for example in examples])
    units = np.array([len(example.gaps) - 1 for example in examples])
    width = int(lengths.max()) + 1
    pool = None
    if TASKS[task].units == "words":
        pool = torch.from_numpy(pooling([example.word_lengths for example in examples]))
    unit_width = int(units.max()) + 1
    slots = max(example.slot_heads.shape[1] for example in examples)
    bigram_pad = inventory.bigrams.pad if inventory.bigrams else 0

    def stack(name: str, shape: tuple[int, ...], value: float) -> Tensor:
        return torch.from_numpy(pad([getattr(example, name) for example in examples], shape, value))

    return ExampleBatch(
        chars=stack("chars", (width,), inventory.chars.pad),
        bigrams=stack("bigrams", (width,), bigram_pad),
        lengths=torch.from_numpy(lengths),
        styles=torch.tensor([example.style for example in examples]) if inventory.styles else None,
        units=torch.from_numpy(units),
        pool=pool,
        tags=stack("tags", (width,), 0),
        columns=stack("columns", (len(inventory.tags), unit_width), -1),
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


def _number_tags(tree: WordTree, inventory: Inventory) -> NDArray[np.int64]:
    """Return the numbers `[c, w+1]` of the words' tags, -1 for ROOT and for unknown tags."""
    numbers = np.full((len(inventory.tags), len(tree.forms) + 1), -1)
    for row, (column, tags) in zip(numbers, inventory.tags.items(), strict=True):
        index = {tag: number for number, tag in enumerate(tags)}
        row[1:] = [-1 if tag is None else index.get(tag, -1) for tag in tags_of(tree, column)]
    return numbers


def _make_forest(
    tree: WordTree,
    inventory: Inventory,
    structure: StructureConfig,
    structures: Structures | None,
    *,
    task: TaskName,
    objective: str,
) -> Forest:
    if TASKS[task].finds_structures:
        index = {label: number for number, label in enumerate(inventory.labels)}
        return build_forest(
            tree,
            index,
            policy=structure.policy,
            structures=structures,
            single_root=structure.single_root,
            one_tree=objective != "tree-crf",
        )
    # Represent every word by a single character: then the forest is the word tree itself.
    words = WordTree(("字",) * len(tree.forms), tree.heads, tree.deprels)
    index = {label: number for number, label in enumerate((*inventory.labels, INTRA))}
    return build_forest(words, index)


def _slots(forest: Forest) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.bool_]]:
    """List the allowed heads of every unit, with their labels and roles."""
    dependents = np.concatenate([forest.inter.dependents, forest.intra.dependents])
    heads = np.concatenate([forest.inter.heads, forest.intra.heads])
    labels = np.concatenate([forest.inter.labels, forest.intra.labels])
    intra = np.repeat([False, True], (len(forest.inter), len(forest.intra)))
    order = np.argsort(dependents, kind="stable")
    dependents = dependents[order]
    counts = np.bincount(dependents, minlength=forest.length + 1)
    place = np.arange(len(dependents)) - np.repeat(np.cumsum(counts) - counts, counts)
    shape = (forest.length + 1, int(counts.max()))
    slot_heads = np.full(shape, -1)
    slot_labels = np.zeros(shape, dtype=np.int64)
    slot_intra = np.zeros(shape, dtype=np.bool_)
    slot_heads[dependents, place] = heads[order]
    slot_labels[dependents, place] = labels[order]
    slot_intra[dependents, place] = intra[order]
    return slot_heads, slot_labels, slot_intra


def _by_count(counts: Mapping[str, int]) -> tuple[str, ...]:
    return tuple(sorted(counts, key=lambda symbol: (-counts[symbol], symbol)))
