"""Turn treebanks into batches of tensors.

A treebank is read once (`TrainingTree`), and every sentence becomes an `Example`: its characters, the numbers of its tags,
and its forest, which lists the k allowed heads of every unit with their labels. So labels of all allowed arcs are scored
as `[units, k, labels]`, and no array of size n x n x labels is needed. Batches contain sentences of similar length. They
depend only on the seed and the epoch, so that a run can be resumed anywhere. `Targets` is what the loss of a batch needs.

A sentence of which only a part is known (`zishu.partial`) takes the same way; its forest is larger.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import torch

from zishu.annotations import read_annotations
from zishu.chart import TreeDistribution
from zishu.errors import InputError
from zishu.forest import Forest, Structures, build_forest
from zishu.formats.conllu import read_conllu, trees_of
from zishu.partial import PartialTree, known_words
from zishu.projectivity import projectivize
from zishu.train.config import Config, Files, StructureConfig, by_style
from zishu.tree import WordTree
from zishu.treebank.wist import read_wist

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray
    from torch import Tensor

    from zishu.train.network import Network

# --- treebanks ----------------------------------------------------------------------------------------------------


class TrainingTree(NamedTuple):
    """Hold the tree of a training sentence, or what is known of it."""

    tree: WordTree | PartialTree
    style: str = ""
    weight: float = 1.0  # how often an epoch sees it


Gold = dict[str, list[WordTree]]  # by style; without styles there is one with an empty name


def read_gold(files: Files) -> Gold:
    """Read the trees of CoNLL-U files."""
    gold: Gold = {}
    for style, paths in by_style(files).items():
        for path in paths:
            trees = trees_of(read_conllu(path))
            if not trees:
                raise InputError(f"{path}: contains no sentence")
            gold.setdefault(style, []).extend(trees)
    return gold


def read_treebank(config: Config) -> tuple[list[TrainingTree], list[str]]:
    """Read the training trees of all styles, and what is known of other sentences; say what was left out."""
    data, left_out = config.data, 0
    treebank: list[TrainingTree] = []
    for style, trees in read_gold(data.train).items():
        for tree in map(projectivize, trees) if config.can.parses and data.pseudo_projective else trees:
            if config.can.parses and not tree.is_projective:
                left_out += 1
            else:
                treebank.append(TrainingTree(tree, style, data.weights.get(style, 1.0)))
    if left_out and not treebank:
        files = (path for paths in by_style(data.train).values() for path in paths)
        raise InputError(f"{', '.join(files)}: contains no projective sentence")
    problems = [f"{left_out:,} non-projective sentence{'s' if left_out > 1 else ''}"] if left_out else []
    for style, paths in by_style(data.partial).items():
        weight = data.weights.get(style, 1.0) * data.partial_weight
        for partial, contradictions in map(read_annotations, paths):
            treebank += [TrainingTree(tree, style, weight) for tree in partial]
            problems += contradictions
    return treebank, problems


# --- examples -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, eq=False)
class Example:
    """Hold one training sentence in numbers: n characters, and u units, which are words or characters; position 0 is ROOT.

    Raw text has only characters and a style: a network learns from it what a teacher finds (`zishu.train.teacher`).
    """

    chars: tuple[str, ...]  # n
    style: int = 0
    weight: float = 1.0  # how often an epoch sees it
    word_lengths: tuple[int, ...] = ()  # of the words whose boundaries are known
    columns: NDArray[np.int64] | None = None  # c u+1: the tags in each column, -1 unknown
    shares: NDArray[np.float32] | None = None  # u+1: the units of a word share its weight of 1
    forest: Forest | None = None  # a segmenter has none
    raw: bool = False

    @property
    def length(self) -> int:
        """Count the characters."""
        return len(self.chars)

    @property
    def units(self) -> int:
        """Count the words if the network reads words, otherwise the characters."""
        return self.length if self.forest is None else self.forest.length


def make_examples(
    config: Config, network: Network, treebank: Sequence[TrainingTree], problems: list[str]
) -> list[Example]:
    """Turn all training sentences into examples; add one line to `problems` about each that no tree agrees with."""
    annotated = config.can.finds_structures and config.structure.policy == "annotated"
    structures = read_wist(config.data.structures) if annotated else None
    examples = []
    for item in treebank:
        try:
            examples.append(make_example(item, network, config.structure, structures))
        except InputError as error:
            if isinstance(item.tree, WordTree):
                raise
            problems.append(f"{item.tree.source or 'a sentence'}: {error}")
    if not examples:
        raise InputError(f"{problems[0] if problems else 'no sentences'}: no training data is left")
    return examples


def make_example(
    item: TrainingTree, network: Network, structure: StructureConfig, structures: Structures | None = None
) -> Example:
    """Turn a training sentence into an example and build its forest (for word-level models: its tree, one unit per word).

    A partial tree that no tree agrees with is an `InputError`.
    """
    tree, settings = item.tree, network.settings
    words = known_words(tree)
    by_words = settings.can.units == "words"
    units = len(words) if by_words else len(tree.chars)
    columns = np.full((len(settings.tags), units + 1), -1)
    shares = np.zeros(units + 1, dtype=np.float32)
    for k, word in enumerate(words, start=1):
        start, end = (k, k + 1) if by_words else word.span
        shares[start:end] = 1 / (end - start)
        for row, (column, known) in zip(columns, network.tag_numbers.items(), strict=True):
            row[start:end] = known.get(word.tags.get(column, ""), -1)
    forest = None
    if settings.can.parses:
        forest = build_forest(
            tree,
            network.label_numbers,
            policy=structure.policy if settings.can.finds_structures else "latent",
            structures=structures,
            single_root=structure.single_root,
            one_tree=network.objective != "tree-crf" and settings.can.finds_structures,
            by_words=by_words,
        )
        if not (isinstance(tree, WordTree) or _has_tree(forest, root_as_head=settings.root_as_head)):
            raise InputError("no projective tree agrees with what is known")
    return Example(
        chars=tuple(tree.chars),
        style=settings.styles.index(item.style) if item.style else 0,
        weight=item.weight,
        word_lengths=tuple(word.span[1] - word.span[0] for word in words),
        columns=columns,
        shares=shares,
        forest=forest,
    )


def _has_tree(forest: Forest, *, root_as_head: bool) -> bool:
    """Tell whether any tree is in a forest."""
    n = forest.length
    inter, intra = scores = np.full((2, 1, n + 1, n + 1), -np.inf)
    for role in (False, True):
        dependents, heads, _ = forest.arcs(intra=role)
        scores[int(role), 0, dependents, heads] = 0.0
    trees = TreeDistribution(inter, [n], intra, forest.gaps[None], root_as_head=root_as_head)
    return bool(np.isfinite(trees.log_partition()[0]))


# --- batches ------------------------------------------------------------------------------------------------------


def epoch_batches(config: Config, examples: Sequence[Example], epoch: int) -> list[list[Example]]:
    """Return the batches of an epoch; their number varies slightly.

    Raw text has batches of its own, one style each, because a teacher parses a batch in one style.
    """
    seed, size = config.seed, config.optimiser.batch_chars
    lengths = np.array([e.units if config.optimiser.batch_by_words else e.length for e in examples])
    kinds = np.array([e.raw * (1 + e.style) for e in examples])
    chosen = repeat_sentences(np.array([e.weight for e in examples]), seed=seed, epoch=epoch)
    dealt = []
    for kind in np.unique(kinds[chosen]):
        own = chosen[kinds[chosen] == kind]
        dealt += [own[batch] for batch in random_batches(lengths[own], size, seed=seed, epoch=epoch)]
    if kinds.any():
        order = np.random.default_rng((seed, epoch, 2)).permutation(len(dealt))
        dealt = [dealt[k] for k in order]
    return [[examples[k] for k in batch] for batch in dealt]


def random_batches(
    lengths: NDArray[np.int64], batch_chars: int, *, seed: int, epoch: int
) -> list[NDArray[np.int64]]:
    """Group sentences into batches of at most `batch_chars` characters, including padding, in random order.

    Sentences are sorted by length plus random noise, so that each epoch has different batches.
    """
    random = np.random.default_rng((seed, epoch))
    sizes = lengths + 1
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


@dataclass(frozen=True, slots=True, eq=False)
class Targets:
    """Hold what a parser should find in a batch of sentences, padded; see `Example` and `Forest`."""

    units: Tensor  # b
    columns: Tensor  # b c u+1
    shares: Tensor  # b u+1
    heads: Tensor  # b u+1 k
    labels: Tensor  # b u+1 k
    intra: Tensor  # b u+1 k
    gaps: NDArray[np.int8]  # b u+1; where the chart reads them


def collate(examples: Sequence[Example], device: torch.device) -> Targets:
    """Combine the tags and forests of examples into a padded batch."""
    forests = [example.forest for example in examples if example.forest is not None]

    def stack(arrays: list[Any], value: float) -> Tensor:
        return torch.from_numpy(pad(arrays, value)).to(device)

    return Targets(
        units=torch.tensor([example.units for example in examples], device=device),
        columns=stack([example.columns for example in examples], -1),
        shares=stack([example.shares for example in examples], 0),
        heads=stack([forest.heads for forest in forests], -1),
        labels=stack([forest.labels for forest in forests], 0),
        intra=stack([forest.intra for forest in forests], 0),
        gaps=pad([forest.gaps for forest in forests], 0),
    )


def pad(arrays: Sequence[NDArray[Any]], value: float) -> NDArray[Any]:
    """Stack arrays of different sizes, padded with a value to the largest size."""
    largest = np.max([array.shape for array in arrays], axis=0)
    padded = np.full((len(arrays), *largest), value, dtype=arrays[0].dtype)
    for row, array in zip(padded, arrays, strict=True):
        row[tuple(slice(size) for size in array.shape)] = array
    return padded
