"""Read the tagged text for `zishu pretrain` into a few bytes per character.

The text has one sentence per line; words have tags (`上海/ns 计划/v`), split at the last slash. `tools/tag_text.py` takes
them from a dictionary, but any source will do. The file is read twice, first to count and then to number its content;
only arrays of numbers stay in memory, four bytes per character. Sentences longer than the limit are split between
words.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from zishu.chart.chain import word_tags
from zishu.errors import ConfigError, FormatError
from zishu.model.vocabulary import Vocabulary, bigrams
from zishu.reading import read_lines
from zishu.text import characters
from zishu.train.data import pad, read_gold

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from numpy.typing import NDArray
    from torch import Tensor

    from zishu.train.config import Config

IGNORED = -100  # a target that is ignored by `cross_entropy`


@dataclass(frozen=True, slots=True, eq=False)
class TaggedText:
    """Hold a tagged text in numbers, all sentences concatenated."""

    chars: Vocabulary
    pairs: Vocabulary | None
    tags: tuple[str, ...]
    starts: NDArray[np.int64]  # start of each sentence, and end of the last one
    char_ids: NDArray[np.uint16]
    places: NDArray[np.int8]  # B M E S
    tag_ids: NDArray[np.uint8]

    @property
    def lengths(self) -> NDArray[np.int64]:
        """Return the number of characters of every sentence."""
        return np.diff(self.starts)

    def batch(self, numbers: NDArray[np.int64]) -> dict[str, Tensor]:
        """Return sentences as a padded batch; position 0 is the beginning of the sentence."""
        spans = [slice(self.starts[k], self.starts[k + 1]) for k in numbers]

        def stack(values: NDArray[Any], first: int, padding: int) -> Tensor:
            rows = [np.concatenate(([first], values[span])).astype(np.int64) for span in spans]
            return torch.from_numpy(pad(rows, padding))

        return {
            "chars": stack(self.char_ids, self.chars.bos, self.chars.pad),
            "places": stack(self.places, IGNORED, IGNORED),
            "tags": stack(self.tag_ids, IGNORED, IGNORED),
            "lengths": torch.tensor([span.stop - span.start for span in spans]),
        }


def read_tagged_text(
    config: Config, vocabularies: tuple[Vocabulary, Vocabulary | None] | None = None
) -> TaggedText:
    """Read the text of a configuration; without `vocabularies`, build them from text and treebank."""
    settings = config.pretrain
    counts: Counter[str] = Counter()
    pairs: Counter[str] = Counter()
    tag_counts: Counter[str] = Counter()
    sizes: list[int] = []
    for words, tags in _read(settings.text, settings.longest):
        chars = [char for word in words for char in word]
        counts.update(chars)
        if config.encoder.bigram_width and not vocabularies:
            pairs.update(bigrams(chars))
        tag_counts.update(tags)
        sizes.append(len(chars))
    if not sizes:
        raise ConfigError(f"pretrain.text: {settings.text} contains no sentence")
    char_vocabulary, pair_vocabulary = vocabularies or _vocabularies(config, counts, pairs)
    tags_by_count = tuple(tag for tag, _ in tag_counts.most_common())
    if len(char_vocabulary) > 2**16 or len(tags_by_count) > 2**8:
        raise ConfigError(
            f"pretrain.text: {len(char_vocabulary)} characters and {len(tags_by_count)} tags: "
            "at most 65,536 and 256 can be numbered; raise pretrain.min_count"
        )
    tag_numbers = {tag: number for number, tag in enumerate(tags_by_count)}
    starts = np.concatenate(([0], np.cumsum(sizes)))
    char_ids = np.zeros(starts[-1], dtype=np.uint16)
    places = np.zeros(starts[-1], dtype=np.int8)
    tag_ids = np.zeros(starts[-1], dtype=np.uint8)
    for start, (words, tags) in zip(starts, _read(settings.text, settings.longest), strict=False):
        lengths = [len(word) for word in words]
        span = slice(start, start + sum(lengths))
        char_ids[span] = char_vocabulary.ids([char for word in words for char in word])
        places[span] = word_tags(lengths)
        tag_ids[span] = np.repeat([tag_numbers[tag] for tag in tags], lengths)
    return TaggedText(char_vocabulary, pair_vocabulary, tags_by_count, starts, char_ids, places, tag_ids)


class PairTable:
    """Look up the numbers of bigrams by the numbers of their characters."""

    def __init__(self, chars: Vocabulary, pairs: Vocabulary) -> None:
        numbers = {symbol: number for number, symbol in enumerate(chars.symbols)}
        self._unknown, self._bos, self._size = pairs.unknown, pairs.bos, len(chars)
        # A character may have several code points, so a bigram may be split in more than one way.
        rows = sorted(
            (numbers[pair[:cut]] * self._size + numbers[pair[cut:]], number)
            for number, pair in enumerate(pairs.symbols)
            for cut in range(1, len(pair))
            if pair[:cut] in numbers and pair[cut:] in numbers
        )
        self._keys = torch.tensor([key for key, _ in rows] or [0])
        self._numbers = torch.tensor([number for _, number in rows] or [pairs.unknown])

    def __call__(self, chars: Tensor) -> Tensor:
        """Return the bigram of each character with its predecessor, `[batch, n+1]` to the same shape."""
        keys = chars[:, :-1] * self._size + chars[:, 1:]
        places = torch.searchsorted(self._keys, keys).clamp(max=len(self._keys) - 1)
        found = torch.where(self._keys[places] == keys, self._numbers[places], self._unknown)
        return torch.nn.functional.pad(found, (1, 0), value=self._bos)


def _vocabularies(
    config: Config, counts: Mapping[str, int], pairs: Counter[str]
) -> tuple[Vocabulary, Vocabulary | None]:
    """Build vocabularies of what is frequent in the text or in the treebank."""
    treebank = [tree.chars for trees in read_gold(config.data.train).values() for tree in trees]
    chars = Counter({char: count for char, count in counts.items() if count >= config.pretrain.min_count})
    for sentence in treebank:
        chars.update(sentence)
    if not config.encoder.bigram_width:
        return Vocabulary.build(chars), None
    known = Counter(pair for sentence in treebank for pair in bigrams(sentence))
    least = config.encoder.bigram_min_count
    frequent = Counter(dict(pairs.most_common(config.pretrain.bigrams)))
    frequent.update({pair: count for pair, count in known.items() if count >= least})
    return Vocabulary.build(chars), Vocabulary.build(frequent)


def _read(path: str, longest: int) -> Iterator[tuple[list[list[str]], list[str]]]:
    """Yield the words (as lists of characters) and the tags of every sentence; split long sentences."""
    for place, line in enumerate(read_lines(path, path), start=1):
        words: list[list[str]] = []
        tags: list[str] = []
        size = 0
        for token in line.split():
            form, slash, tag = token.rpartition("/")
            if not (slash and form and tag):
                raise FormatError(f"{token!r}: expected a word, a slash and a tag", path=path, line=place)
            chars = characters(form)
            if words and size + len(chars) > longest:
                yield words, tags
                words, tags, size = [], [], 0
            words.append(chars[:longest])
            tags.append(tag)
            size += len(words[-1])
        if words:
            yield words, tags
