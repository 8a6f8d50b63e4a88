"""Find the tree inside each word, with relations, by the structure scorer of a model.

The scorer is a small network of its own, in two files of a model directory. `zishu train-structures` writes them after
the parser has been trained, and nothing else depends on them:

    structures.onnx   characters of words -> scores of arcs and of relations inside words
    structures.json   `InnerSettings`

The network reads the words of a batch, L characters at most:

    encoded   float32 [w, L, width]   what the parser's encoder says about each character, in its sentence
    chars     int64   [w, L]          the characters' numbers in the model's vocabulary
    pairs     float32 [w, L]          1 where a character and the next one are a word of the lexicon by themselves
    lengths   int64   [w]

and returns

    arcs      float32 [w, L, L+1]     score of the head h of each character d; head 0 makes d the root of the word
    relations float32 [w, L, L, R]    log-probabilities of the relations given the arc, for heads 1 to L

A tree's probability is proportional to the exponential of its arcs' scores. The chart finds the best projective tree and
its probability; the probability of a structure counts the relations, too. Only words of two or more Chinese
characters have a structure. One character is its own root. Other words (letters, digits, symbols) have no inner tree.

Cost: one call of the network per batch, and charts of a few characters.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from math import isfinite
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import regex

from zishu.chart import TreeDistribution
from zishu.errors import InputError
from zishu.structures import RELATIONS
from zishu.tree import ROOT_LABEL

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from zishu.model.outputs import Floats
    from zishu.model.vocabulary import Vocabulary

FORMAT: Final = 1
HAN: Final = regex.compile(r"\p{Han}{2,}")


@dataclass(frozen=True, slots=True)
class InnerSettings:
    """What the runtime must know of a structure scorer, and where it came from: the content of structures.json."""

    relations: tuple[str, ...]
    words: tuple[str, ...]  # the lexicon's words of two characters
    temperature: float = 1.0  # scores are divided by it
    training: Mapping[str, Any] = field(default_factory=dict)  # the run's settings and scores; only shown

    def to_json(self) -> dict[str, Any]:
        """Return the settings as plain objects, for JSON."""
        return {
            "format": FORMAT,
            "relations": list(self.relations),
            "temperature": self.temperature,
            "training": dict(self.training),
            "words": " ".join(self.words),
        }

    @classmethod
    def from_json(cls, data: object) -> InnerSettings:
        """Rebuild settings from what `to_json` gave; every wrong value is an `InputError`."""
        if not isinstance(data, dict) or not isinstance(data.get("format"), int):
            raise InputError("not the settings of a structure scorer")
        if data["format"] > FORMAT:
            raise InputError(f"format {data['format']} is newer than this version of Zishu: update it")
        relations, words = data.get("relations"), data.get("words")
        if not isinstance(relations, list) or any(name not in RELATIONS for name in relations):
            raise InputError(f"'relations' must be a list of these: {', '.join(RELATIONS)}")
        if not relations or len(set(relations)) < len(relations):
            raise InputError("'relations' is empty or holds a value twice")
        if not isinstance(words, str):
            raise InputError("'words' must be a string of words with spaces between them")
        temperature = data.get("temperature")
        if not isinstance(temperature, int | float) or not isfinite(temperature) or temperature <= 0:
            raise InputError("'temperature' must be a number above 0")
        training = data.get("training", {})
        return cls(
            tuple(relations),
            tuple(words.split()),
            float(temperature),
            training if isinstance(training, Mapping) else {},
        )


@dataclass(frozen=True, slots=True)
class Inner:
    """The tree inside one word, numbered from 1, with the relation of each character and the probability of all."""

    heads: tuple[int, ...]
    relations: tuple[str, ...]
    prob: float


SINGLE: Final = Inner((0,), (ROOT_LABEL,), 1.0)


@dataclass(frozen=True, slots=True, eq=False)
class StructureScorer:
    """The structure scorer of a model."""

    settings: InnerSettings
    vocabulary: Vocabulary
    session: Any  # onnxruntime.InferenceSession
    known: frozenset[str]  # `settings.words`, to look up

    def score(self, encoded: Floats, words: Sequence[str]) -> tuple[Floats, Floats]:
        """Return the scores of arcs and relations inside words whose characters are encoded, one row per character."""
        inputs = word_inputs(encoded, words, self.vocabulary, self.known)
        arcs, relations = self.session.run(["arcs", "relations"], inputs)
        return arcs, relations


def word_inputs(
    encoded: Floats, words: Sequence[str], vocabulary: Vocabulary, known: frozenset[str]
) -> dict[str, NDArray[Any]]:
    """Return what the network reads; `encoded` has the characters of all words, one after the other."""
    lengths = np.array([len(word) for word in words], dtype=np.int64)
    inside = np.arange(lengths.max(initial=1)) < lengths[:, None]
    text = vocabulary.known("".join(words))
    numbers = np.zeros(inside.shape, dtype=np.int64)
    numbers[inside] = vocabulary.ids(text)
    table = np.zeros((*inside.shape, encoded.shape[1]), dtype=np.float32)
    table[inside] = encoded
    pairs = np.zeros(inside.shape, dtype=np.float32)
    # A word of two characters is not its own part. The last character of a word has no next one.
    place = 0
    for row, length in enumerate(lengths.tolist()):
        if length > 2:
            for k in range(length - 1):
                pairs[row, k] = text[place + k] + text[place + k + 1] in known
        place += length
    return {"encoded": table, "chars": numbers, "pairs": pairs, "lengths": lengths}


def best_structures(
    arcs: Floats, relations: Floats, lengths: NDArray[np.int64], settings: InnerSettings
) -> list[Inner]:
    """Return the best tree inside each word and the best relations on its arcs."""
    words, width = relations.shape[:2]
    scores = np.full((words, width + 1, width + 1), -np.inf)
    scores[:, 1:] = arcs / settings.temperature
    trees = TreeDistribution(scores, lengths)
    best = trees.best()
    log_probs = best.score - trees.log_partition()
    heads = best.heads[:, 1:]
    rows, places = np.nonzero((np.arange(width) < lengths[:, None]) & (heads > 0))
    chosen = relations[rows, places, heads[rows, places] - 1] / settings.temperature
    top = chosen.max(axis=1)
    of_relation = -np.log(np.exp(chosen - top[:, None]).sum(axis=1))
    log_probs = log_probs + np.bincount(rows, of_relation, minlength=words)
    names = np.full(heads.shape, len(settings.relations))
    names[rows, places] = chosen.argmax(axis=1)
    spelled = (*settings.relations, ROOT_LABEL)
    return [
        Inner(tuple(found[:n]), tuple(spelled[k] for k in kinds[:n]), prob)
        for found, kinds, n, prob in zip(
            heads.tolist(),
            names.tolist(),
            lengths.tolist(),
            np.exp(np.minimum(log_probs, 0.0)).tolist(),
            strict=True,
        )
    ]
