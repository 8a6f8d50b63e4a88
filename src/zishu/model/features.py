"""Turn sentences into the arrays that a network reads; `zishu.model.outputs` has their names and shapes."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from zishu.model.vocabulary import BEGIN, SEVERAL, Vocabulary, bigrams, code_points

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray


def features(
    sentences: Sequence[Sequence[str]],
    chars: Vocabulary,
    pairs: Vocabulary | None,
    style: int | None = None,
) -> dict[str, NDArray[np.int64]]:
    """Map the characters of a batch of sentences to numbers, and their bigrams if there is a vocabulary for them.

    `style` is the number of the style of all sentences; None for a model without styles.
    """
    lengths = np.array([len(sentence) for sentence in sentences], dtype=np.int64)
    numbers = _number_codes("".join(map("".join, sentences)), lengths, chars, pairs)
    if numbers is None:
        listed = [number(sentence, chars, pairs) for sentence in sentences]
        numbers = tuple(np.concatenate(rows) for rows in zip(*listed, strict=True))
    arrays = {"chars": _table(numbers[0], lengths, chars)}
    if pairs is not None:
        arrays["bigrams"] = _table(numbers[1], lengths, pairs)
    if style is not None:
        arrays["styles"] = np.full(len(sentences), style, dtype=np.int64)
    return {**arrays, "lengths": lengths}


def _number_codes(
    text: str, lengths: NDArray[np.int64], chars: Vocabulary, pairs: Vocabulary | None
) -> tuple[NDArray[np.int64], ...] | None:
    """Do the same as `number` for a whole batch, without its dictionaries.

    None if characters, or their known forms, have several code points; that is rare.
    """
    if len(text) != lengths.sum() or not (pairs is None or pairs.has_plain_pairs):
        return None
    numbers, known = chars.number_codes(code_points(text))
    if pairs is None:
        return (numbers,)
    if (known == SEVERAL).any():
        return None
    before = np.empty_like(known)
    before[1:] = known[:-1]
    before[np.cumsum(lengths) - lengths] = BEGIN
    return numbers, pairs.number_pairs(before, known)


def number(
    sentence: Sequence[str], chars: Vocabulary, pairs: Vocabulary | None
) -> tuple[list[int], list[int]]:
    """Map the characters and bigrams of a sentence to numbers; without a bigram vocabulary those are 0.

    Bigrams use the known forms of characters, so a traditional character has the bigrams of its simplified form.
    """
    known = chars.known(sentence)
    return chars.ids(known), [0] * len(known) if pairs is None else pairs.ids(bigrams(known))


def pooling(word_lengths: Sequence[Sequence[int]]) -> NDArray[np.float32]:
    """Return `[b, W+1, N+1]`, whose rows average the characters of each word; row 0 selects ROOT."""
    width = max(map(sum, word_lengths)) + 1
    pool = np.zeros((len(word_lengths), max(map(len, word_lengths)) + 1, width), dtype=np.float32)
    for b, sizes in enumerate(word_lengths):
        rows = np.repeat(np.arange(len(sizes) + 1), (1, *sizes))
        pool[b, rows, np.arange(len(rows))] = (1 / np.array((1, *sizes)))[rows]
    return pool


def length_batches(
    lengths: Sequence[int], size: int, pairs: int | None = None, padding: int | None = None
) -> list[NDArray[np.int64]]:
    """Group sentences of similar length into batches of at most `size` characters and `pairs` pairs of them.

    Padding and ROOT count; a batch ends before its padding exceeds `padding` characters. A longer sentence is a batch by
    itself. Long ones come first, so that memory is allocated once.
    """
    order = np.argsort(-np.asarray(lengths, dtype=np.int64), kind="stable")
    ordered = np.asarray(lengths, dtype=np.int64)[order]
    dealt: list[NDArray[np.int64]] = []
    start = 0
    while start < len(order):
        width = lengths[order[start]] + 1
        count = max(1, min(size, size if pairs is None else pairs // width) // width)
        if padding is not None:
            padded = np.cumsum(width - 1 - ordered[start : start + count])
            count = int(np.searchsorted(padded, padding, side="right"))
        dealt.append(order[start : start + count])
        start += count
    return dealt


def _table(
    numbers: NDArray[np.int64], lengths: NDArray[np.int64], vocabulary: Vocabulary
) -> NDArray[np.int64]:
    """Arrange the numbers of all sentences in rows, after the begin-of-sentence symbol and before padding."""
    table = np.full((len(lengths), int(lengths.max(initial=0)) + 1), vocabulary.pad, dtype=np.int64)
    table[:, 0] = vocabulary.bos
    table[:, 1:][np.arange(1, table.shape[1]) <= lengths[:, None]] = numbers
    return table
