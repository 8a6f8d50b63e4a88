"""Train the structure scorer of a finished model, and write it into the model's directory.

The parser itself does not change: its encoder is run over text, and a small network (`zishu.train.structure_network`)
learns the structures of lexicon words from their encodings. This happens twice. The first run holds out a tenth of the
words and the words inside these, to measure the scores in structures.json and to find the temperature of the
probabilities. The second run learns from all words and is written to the directory.

The parts of almost all lexicon words are in the lexicon, too; those of other words often are not. So training hides what
is known about some of the parts.

Cost: a few minutes on one core.
"""

from __future__ import annotations

import math
import zlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch.nn.utils import clip_grad_norm_

from zishu.errors import InputError, ZishuError
from zishu.model.files import STRUCTURES, STRUCTURES_CONFIG, write_json
from zishu.model.inner import InnerSettings, best_structures, pair_numbers, word_inputs
from zishu.model.model import Model
from zishu.model.networks import Networks
from zishu.model.runtime import load_model
from zishu.structures import CLASSES, RELATIONS, Structure, by_form, load_structures
from zishu.train.export import write_graph
from zishu.train.optimisation import denormals_flushed
from zishu.train.structure_data import Occurrence, Samples, collect
from zishu.train.structure_network import StructureNetwork, structure_loss
from zishu.tree import projective_trees

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from pathlib import Path

    from torch import Tensor

    from zishu.model.vocabulary import Vocabulary

_NAMES = tuple(RELATIONS)
_NUMBERS = {name: number for number, name in enumerate(_NAMES)}
_BATCH = 128  # number of words
_RATE = 3e-3
_WARMUP = 100  # number of steps
_STATIC_WIDTH = 64
_SMALL = 64  # hidden units of a small network; others have twice as many
_LONGEST = 5  # maximum number of characters of a training word: there are 143 trees
_HELD_OUT = 10  # one word in ten
_HIDDEN_RELATION = 0.3  # share of parts in training of which only the frequency is known
_HIDDEN = 0.1  # share of parts of which nothing is known
_TEMPERATURES = [round(0.5 + 0.05 * k, 2) for k in range(51)]


@dataclass(frozen=True, slots=True, eq=False)
class _Group:
    """Hold occurrences of words of one length as tensors."""

    entries: list[Structure]
    inputs: dict[str, Tensor]
    classes: Tensor  # `pairs` of the inputs, if no word was in the lexicon
    trees: Tensor  # index of each gold tree in `projective_trees`
    relations: Tensor  # numbers of the gold relations, 0 for the root

    def sample(self, batch: Tensor) -> dict[str, Tensor]:
        """Return the inputs of some words, and hide what is known about some of their parts."""
        inputs = {name: tensor[batch] for name, tensor in self.inputs.items()}
        chance = torch.rand(inputs["pairs"].shape)
        inputs["pairs"] = torch.where(
            chance < _HIDDEN + _HIDDEN_RELATION, self.classes[batch], inputs["pairs"]
        ) * (chance >= _HIDDEN)
        return inputs


def train_structures(
    directory: Path,
    files: Sequence[Path],
    *,
    entries: Sequence[Structure] | None = None,
    epochs: int = 6,
    sentences: int = 20_000,
    seed: int = 0,
    small: bool = False,
    report: Callable[[str], None] = lambda _: None,
) -> InnerSettings:
    """Train a structure scorer for the model in a directory on words of `entries` in files, and write it there.

    The default `entries` are the bundled lexicon. A `small` network has no tables of characters, and takes about 150 kB.
    """
    model = load_model(directory)
    if not isinstance(model, Model) or not isinstance(model.networks, Networks):
        raise InputError(f"{directory}: train the structure scorers of its parts separately")
    if not model.settings.can.finds_structures:
        raise InputError(f"{directory}: only a character-level parser has trees inside words")
    entries = load_structures() if entries is None else entries
    short = [entry for entry in entries if len(entry.form) <= _LONGEST]
    samples = collect(model, short, files, sentences=sentences, seed=seed)
    found = sum(map(len, samples.occurrences.values()))
    report(f"{found:,} occurrences of {len(samples.occurrences):,} words")
    vocabulary = model.networks.chars
    static = None if small else _static_vectors(samples, vocabulary)
    hidden = _held_out(samples.occurrences)
    learned = {form: found for form, found in samples.occurrences.items() if form not in hidden}
    held_out = {form: found for form, found in samples.occurrences.items() if form in hidden}
    network, pairs = _train(learned, static, vocabulary, epochs, seed, report)
    temperature, scores = _evaluate(network, held_out, vocabulary, pairs)
    network, _ = _train(samples.occurrences, static, vocabulary, epochs, seed, report)
    training = {
        "files": [path.name for path in files],
        "words": len(samples.occurrences),
        "occurrences": found,
        "epochs": epochs,
        "seed": seed,
        "held_out": scores,
    }
    settings = InnerSettings(_NAMES, _texts(entries), temperature, CLASSES, training)
    _write(network, settings, directory, vocabulary)
    return settings


def _texts(entries: Iterable[Structure]) -> dict[str, tuple[str, ...]]:
    """Return words and their structures as text, in the order of the entries."""
    return {
        form: tuple(str(entry).split(" ", 2)[2] for entry in own) for form, own in by_form(entries).items()
    }


def _pairs(lexicon: Mapping[str, tuple[str, ...]]) -> dict[str, int]:
    """Return what is known about pairs of characters, given the words of a lexicon."""
    return pair_numbers(InnerSettings(_NAMES, lexicon, classes=CLASSES))


def is_held_out(form: str) -> bool:
    """Tell whether a word belongs to the held-out tenth."""
    return zlib.crc32(form.encode()) % _HELD_OUT == 0


def _held_out(forms: Iterable[str]) -> set[str]:
    """Return the held-out tenth of these words and all pairs of characters inside them."""
    chosen = {form for form in forms if is_held_out(form)}
    return chosen | {form[k : k + 2] for form in chosen for k in range(len(form) - 1)}


def _static_vectors(samples: Samples, vocabulary: Vocabulary) -> Tensor:
    """Return one vector per character: the main components of its mean encoding as a one-character word.

    Means of few occurrences are shrunk towards the overall mean, which is 0; without occurrences the vector is 0.
    """
    width = next(iter(samples.occurrences.values()))[0].encoded.shape[1]
    means = torch.zeros(len(vocabulary), width)
    numbers = torch.tensor(vocabulary.ids(list(samples.sums)), dtype=torch.long)
    if len(numbers):
        counts = torch.tensor([samples.counts[char] for char in samples.sums])[:, None]
        found = torch.from_numpy(np.stack(list(samples.sums.values()))).float() / counts
        means[numbers] = (found - found.mean(0)) * counts / (counts + 2)
        means[vocabulary.unknown] = 0
    components = torch.linalg.svd(means, full_matrices=False)[2][:_STATIC_WIDTH]
    vectors = means @ components.T
    scaled: Tensor = 0.5 * vectors / vectors.std(0).mean().clamp(min=1e-6)
    return scaled


def _train(
    occurrences: Mapping[str, Sequence[Occurrence]],
    static: Tensor | None,
    vocabulary: Vocabulary,
    epochs: int,
    seed: int,
    report: Callable[[str], None],
) -> tuple[StructureNetwork, Mapping[str, int]]:
    """Return a network trained on these words, and those of them that may be parts of longer ones."""
    # Each word occurs by itself at the end, with its first structure.
    pairs = _pairs(_texts(found[-1].entry for found in occurrences.values()))
    groups = _groups((found for several in occurrences.values() for found in several), vocabulary, pairs)
    torch.manual_seed(seed)
    encodings = torch.cat([group.inputs["encoded"].flatten(0, 1) for group in groups])
    network = StructureNetwork(encodings, static, _NAMES, hidden=(2 if static is not None else 1) * _SMALL)
    optimiser = torch.optim.AdamW(network.parameters(), lr=_RATE, weight_decay=0.01)
    steps = epochs * sum(math.ceil(len(group.trees) / _BATCH) for group in groups)
    rate = torch.optim.lr_scheduler.LambdaLR(optimiser, lambda k: min(1.0, k / _WARMUP) * (1 - k / steps))
    network.train()
    with denormals_flushed():
        for epoch in range(epochs):
            batches = [
                (group, batch)
                for group in groups
                for batch in torch.split(torch.randperm(len(group.trees)), _BATCH)
            ]
            total = 0.0
            for number in torch.randperm(len(batches)).tolist():
                group, batch = batches[number]
                arcs, relations = network(**group.sample(batch))
                loss = structure_loss(arcs, relations, group.trees[batch], group.relations[batch]).mean()
                optimiser.zero_grad()
                loss.backward()  # type: ignore[no-untyped-call]
                clip_grad_norm_(network.parameters(), 5.0)
                optimiser.step()
                rate.step()
                total += loss.item()
            report(
                f"{len(occurrences):,} words, epoch {epoch + 1} of {epochs}: loss {total / len(batches):.3f}"
            )
    network.compact()
    return network.eval(), pairs


def _groups(
    occurrences: Iterable[Occurrence], vocabulary: Vocabulary, pairs: Mapping[str, int]
) -> list[_Group]:
    """Group occurrences of words of the same length."""
    by_length: dict[int, list[Occurrence]] = {}
    for occurrence in occurrences:
        by_length.setdefault(len(occurrence.entry.form), []).append(occurrence)
    groups = []
    unrelated = _pairs({})
    for length, found in sorted(by_length.items()):
        gold = [occurrence.entry for occurrence in found]
        encoded = np.concatenate([occurrence.encoded for occurrence in found])
        forms = [entry.form for entry in gold]
        arrays = word_inputs(encoded, forms, vocabulary, pairs)
        classes = torch.from_numpy(word_inputs(encoded, forms, vocabulary, unrelated)["pairs"])
        place = {heads: k for k, heads in enumerate(projective_trees(length))}
        trees = [place[entry.heads] for entry in gold]
        relations = [[_NUMBERS.get(name, 0) for name in entry.relations] for entry in gold]
        tensors = {name: torch.from_numpy(array) for name, array in arrays.items()}
        groups.append(_Group(gold, tensors, classes, torch.tensor(trees), torch.tensor(relations)))
    return groups


def _evaluate(
    network: StructureNetwork,
    occurrences: Mapping[str, Sequence[Occurrence]],
    vocabulary: Vocabulary,
    pairs: Mapping[str, int],
) -> tuple[float, dict[str, Any]]:
    """Return the temperature with the lowest loss on held-out words, and accuracies by length.

    An accuracy counts words by themselves: those with the correct tree, and with the correct tree and relations.
    """
    if not occurrences:
        return 1.0, {}
    groups = _groups((several[-1] for several in occurrences.values()), vocabulary, pairs)
    losses = np.zeros(len(_TEMPERATURES))
    scores: dict[str, Any] = {}
    with torch.inference_mode():
        for group in groups:
            arcs, relations = network(**group.inputs)
            for k, temperature in enumerate(_TEMPERATURES):
                cooled = (relations / temperature).log_softmax(3)
                losses[k] += float(
                    structure_loss(arcs / temperature, cooled, group.trees, group.relations).sum()
                )
            lengths = group.inputs["lengths"].numpy()
            found = best_structures(arcs.numpy(), relations.numpy(), lengths, InnerSettings(_NAMES, {}))
            compared = list(zip(found, group.entries, strict=True))
            trees = [inner for inner, gold in compared if inner.heads == gold.heads]
            both = [
                inner
                for inner, gold in compared
                if (inner.heads, inner.relations) == (gold.heads, gold.relations)
            ]
            scores[str(lengths[0])] = {
                "words": len(compared),
                "tree": round(100 * len(trees) / len(compared), 1),
                "tree_and_relations": round(100 * len(both) / len(compared), 1),
            }
    return _TEMPERATURES[int(losses.argmin())], scores


def _write(
    network: StructureNetwork, settings: InnerSettings, directory: Path, vocabulary: Vocabulary
) -> None:
    """Write both files, then load the model and compare its scores with the network's."""
    encoded = np.random.default_rng(0).normal(size=(7, len(network.mean))).astype(np.float32)
    words = ["火车", "科学家", "车站"]
    pairs = pair_numbers(settings)
    arrays = word_inputs(encoded, words, vocabulary, pairs)
    inputs = {name: torch.from_numpy(array) for name, array in arrays.items()}
    with torch.no_grad():
        write_graph(network, inputs, ["arcs", "relations"], directory / STRUCTURES, fold=False)
        expected = network(**inputs)
    write_json(directory / STRUCTURES_CONFIG, settings.to_json())
    model = load_model(directory)
    assert isinstance(model, Model)
    assert model.networks.structures is not None
    scored = model.networks.structures.score(encoded, words)
    for found, tensor in zip(scored, expected, strict=True):
        if not np.allclose(found, tensor.numpy(), rtol=1e-3, atol=1e-3):
            raise ZishuError("the exported structure scorer differs from the trained one")
