"""Find the words of the structure lexicon in text, with a frozen encoder's vectors for their characters.

Text is CoNLL-U, whose words are used as they are, or plain text, one sentence or paragraph per line, which the parser
segments: words that it finds and that are in the lexicon count. Sentences are distributed over the styles of the model
in turn, so the result serves all of them. Each word also occurs once by itself, for words without context.

Cost: parsing the text. Memory: the encodings of a few occurrences per word of the lexicon.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from itertools import chain, islice
from typing import TYPE_CHECKING

import numpy as np

from zishu.formats.conllu import read_conllu
from zishu.model.features import features, length_batches
from zishu.model.model import Model, gold_sentence
from zishu.model.networks import Networks
from zishu.reading import read_lines
from zishu.sentences import text_sentences
from zishu.structures import Structure, by_form

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from pathlib import Path

    from numpy.typing import NDArray

    from zishu.text import RawSentence

_BATCH_CHARS = 2000
_CHUNK = 4000  # number of sentences in memory at once
_LONGEST = 128  # maximum number of characters of a sentence
_KEPT = 3  # occurrences that are kept of a word, besides the one by itself


@dataclass(frozen=True, slots=True, eq=False)
class Occurrence:
    """Hold a word of the lexicon in a sentence, or by itself."""

    entry: Structure
    encoded: NDArray[np.float16]  # characters width


@dataclass(slots=True, eq=False)
class Samples:
    """Hold occurrences of words, and the summed encodings of characters that are words by themselves."""

    occurrences: dict[str, list[Occurrence]] = field(default_factory=dict)
    # Of the encodings of one-character words.
    sums: dict[str, NDArray[np.float64]] = field(default_factory=dict)
    counts: Counter[str] = field(default_factory=Counter)  # number of occurrences of all these words


def collect(
    model: Model,
    entries: Sequence[Structure],
    files: Iterable[Path],
    *,
    sentences: int,
    seed: int,
) -> Samples:
    """Return a few random occurrences of each word in all files, and each word by itself.

    Only the first `sentences` sentences of a plain text are read.
    """
    lexicon = by_form(entries)
    found = Samples()
    random = np.random.default_rng(seed)
    styles = model.settings.styles or (None,)
    for path in files:
        text: Iterator[RawSentence]
        if path.name.endswith(".conllu"):
            text = (gold_sentence(sentence.tree(), words=True) for sentence in read_conllu(path))
        else:  # only white space constrains the words
            text = islice(chain.from_iterable(map(text_sentences, read_lines(path))), sentences)
        while chunk := list(islice(text, _CHUNK)):
            for number, style in enumerate(styles):
                share = chunk[number :: len(styles)]
                if share:
                    _collect(model.in_style(style), lexicon, share, found, random)
    alone = [list(form) for form in lexicon]
    for (form, entries_of), encoded in zip(lexicon.items(), _encode(model, alone), strict=True):
        found.occurrences.setdefault(form, []).append(Occurrence(entries_of[0], encoded))
    return found


def _collect(
    model: Model,
    lexicon: Mapping[str, Sequence[Structure]],
    text: Sequence[RawSentence],
    found: Samples,
    random: np.random.Generator,
) -> None:
    """Add the words of some sentences."""
    text = [sentence for sentence in text if len(sentence) <= _LONGEST]
    parsed = model.parse(text, decoding="viterbi")
    for sentence, encoded in zip(parsed, _encode(model, [raw.chars for raw in text]), strict=True):
        tree = sentence.tree
        tags: Sequence[str | None] = tree.upos or (None,) * len(tree.forms)
        for form, (start, end), upos in zip(tree.forms, tree.spans, tags, strict=True):
            rows = encoded[start - 1 : end - 1]
            if end - start == 1:
                found.counts[form] += 1
                found.sums[form] = found.sums.get(form, 0.0) + rows[0].astype(np.float64)
            elif form in lexicon:
                found.counts[form] += 1
                kept = found.occurrences.setdefault(form, [])
                # Each of the occurrences so far is kept with the same probability.
                place = len(kept) if len(kept) < _KEPT else int(random.integers(found.counts[form]))
                if place < _KEPT:
                    # The entry for the part of speech, or the first one.
                    entry = next((entry for entry in lexicon[form] if upos in entry.upos), lexicon[form][0])
                    kept[place : place + 1] = [Occurrence(entry, rows)]


def _encode(model: Model, sentences: Sequence[Sequence[str]]) -> list[NDArray[np.float16]]:
    """Return the encodings of the characters of each sentence."""
    networks = model.networks
    assert isinstance(networks, Networks)
    encodings: dict[int, NDArray[np.float16]] = {}
    for batch in length_batches([len(sentence) for sentence in sentences], _BATCH_CHARS):
        chosen = [sentences[k] for k in batch]
        encoded = networks.encode(features(chosen, networks.chars, networks.bigrams, networks.style))
        for row, k in zip(encoded, batch.tolist(), strict=True):
            encodings[k] = row[1 : len(sentences[k]) + 1].astype(np.float16)
    return [encodings[k] for k in range(len(sentences))]
