"""Tag words: one tag per word in every column that the network predicts (`zishu.tags`).

The network tags units, which are characters or words. The score of a word's tag is the mean of its characters'
log-probabilities, and

    P_t(tag | word) = exp(score(tag) / t) / SUM over all tags of exp(score / t)

is its probability at the temperature t (`zishu.model.calibration`).

Cost: linear in the number of characters, for each column.
"""

from __future__ import annotations

from itertools import accumulate, pairwise
from typing import TYPE_CHECKING

import numpy as np

from zishu.model.labels import best_at_temperature
from zishu.model.words import Words, sum_rows

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from zishu.chart import Floats
    from zishu.model.batch import ScoredBatch


def best_tags(
    batch: ScoredBatch, words: Words
) -> tuple[dict[str, list[str | None]], NDArray[np.float64] | None]:
    """Return the best tag of every word in each column, and the probabilities of the parts of speech.

    Fixed parts of speech replace predicted ones; other tags that depend on the replaced ones become unknown.
    """
    settings = batch.settings
    columns = {name: getattr(batch.outputs, name) for name in settings.tags}
    columns = {name: of_units for name, of_units in columns.items() if of_units is not None}
    tags: dict[str, list[str | None]] = {}
    of_upos = None
    if not columns:
        return tags, of_upos
    scores = tag_scores(np.concatenate(list(columns.values()), axis=2), words)
    start = 0
    for column, of_units in columns.items():
        own = scores[:, start : start + of_units.shape[2]]
        start += own.shape[1]
        if column == "upos":
            best, of_upos = best_at_temperature(own, settings.upos_temperature)
        else:
            best = own.argmax(axis=1)
        names = settings.tags[column]
        tags[column] = [names[tag] for tag in best.tolist()]
    if of_upos is not None:
        for place, tag in _fixed_tags(batch, words):
            if tags["upos"][place] != tag:
                for name in tags.keys() & {"xpos", "feats"}:
                    tags[name][place] = None
            tags["upos"][place], of_upos[place] = tag, 1.0
    return tags, of_upos


def tag_scores(of_units: Floats, words: Words) -> NDArray[np.float64]:
    """Return the scores `[w, tags]` of the tags of words, given those of units `[b, U+1, tags]`."""
    # One sum per word makes the result independent of the rest of the batch.
    first = words.sentence[words.tree] * of_units.shape[1] + words.start
    sizes = words.end - words.start
    return sum_rows(of_units.reshape(-1, of_units.shape[2]), first, sizes) / sizes[:, None]


def _fixed_tags(batch: ScoredBatch, words: Words) -> Iterator[tuple[int, str]]:
    """Yield the fixed parts of speech that the model knows, and the positions of their words."""
    for t, b in enumerate(words.sentence.tolist()):
        tags = batch.sentences[b].tags
        if not tags:
            continue
        mine = slice(int(words.bounds[t]), int(words.bounds[t + 1]))
        spans = zip(words.start[mine].tolist(), words.end[mine].tolist(), strict=True)
        if batch.word_lengths is not None:
            spans = pairwise(accumulate(batch.word_lengths[b], initial=1))  # type: ignore[assignment]
        for place, span in enumerate(spans, start=mine.start):
            if (tag := tags.get(span)) in batch.settings.upos:
                yield place, tag
