"""Teach an encoder about the language before it sees a treebank: masked characters, and words of a dictionary.

    zishu pretrain configs/default.toml      # writes the folder that `encoder.pretrained` names

The text has one sentence a line, its words with tags (`上海/ns 计划/v`), split at the last slash. Where they come
from does not matter; `tools/tag_text.py` takes them from a dictionary. Some characters of each sentence are hidden
behind the unknown one, and the encoder is asked for three things: the hidden characters, the place of every
character in its word (B M E S), and the tag of its word. The last two show it words that no treebank has.

The folder gets the weights of the encoder and the vocabularies of characters and of pairs of characters, which
hold those of the training treebank, too. Section 4 of the paper takes a BERT; this is our small stand-in for it.

A sentence longer than a window is read in pieces. Cost: the encoder's, on each character once, on a processor: there
is no way to a GPU.
"""

from __future__ import annotations

import math
import time
from collections import Counter
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
import torch.nn.functional as F  # noqa: N812  (torch's own convention)
from torch import nn

from zishu.chart.chain import word_tags
from zishu.errors import ConfigError, FormatError, ZishuError
from zishu.model.features import number
from zishu.model.settings import BIGRAMS, CHARS, read_json, write_json
from zishu.model.vocabulary import Vocabulary, bigrams
from zishu.reading import read_lines
from zishu.text import characters
from zishu.train.checkpoint import load_checkpoint, optimiser_state, restore_optimiser, save_checkpoint
from zishu.train.config import check_unchanged, config_from_dict, config_to_dict
from zishu.train.data import batches_of, pad, read_treebank
from zishu.train.denormals import denormals_flushed
from zishu.train.encoders import BiLSTM, Transformer, build_encoder

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from numpy.typing import NDArray
    from torch import Tensor

    from zishu.train.config import Config, EncoderConfig

WEIGHTS, LAST = "weights.safetensors", "last.safetensors"
_PLACES = 4  # B M E S
_IGNORED = -100  # cross_entropy's name for a target that does not count


@dataclass(frozen=True, slots=True)
class Losses:
    """Mean losses of a stretch of training, in nats: hidden characters, places in words, tags of words."""

    hidden: float
    places: float
    tags: float


@denormals_flushed()
def pretrain(
    config: Config, *, resume: bool = False, report: Callable[[int, int, float, Losses], None] | None = None
) -> Path:
    """Pre-train the configured encoder and return its folder; `report` hears step, steps, seconds and losses.

    A folder with weights is finished: nothing is left to go on with, and without `resume` it is not overwritten.
    """
    settings = config.pretrain
    folder = Path(config.encoder.pretrained)
    if config.encoder.kind == "bert" or not settings.text or not config.encoder.pretrained:
        raise ConfigError(
            "pre-training needs pretrain.text, encoder.pretrained (the folder to write) and an encoder that is "
            "no BERT"
        )
    if config.run.device not in ("", "cpu"):
        raise ConfigError(f"run.device: {config.run.device}: pre-training runs on the processor only")
    if (folder / WEIGHTS).exists() and not (folder / LAST).exists():
        if resume:
            return folder
        raise ConfigError(
            f"encoder.pretrained: {folder} has been pre-trained: remove it, or name another one"
        )
    folder.mkdir(parents=True, exist_ok=True)
    if config.run.threads:
        torch.set_num_threads(config.run.threads)
    torch.manual_seed(config.seed)
    corpus = read_corpus(config)
    network = _Pretraining(config, corpus)
    optimiser = torch.optim.AdamW(
        network.parameters(), lr=settings.learning_rate, betas=(0.9, 0.98), weight_decay=0.01, fused=True
    )
    batches = batches_of(corpus.lengths, settings.batch_chars, seed=config.seed, epoch=0)
    batches = batches[: settings.steps or len(batches)]
    names: dict[Tensor, str] = {weight: name for name, weight in network.named_parameters()}
    step = 0
    if resume and (folder / LAST).exists():
        tensors, state = load_checkpoint(folder / LAST)
        check_unchanged(_what_counts(config), _what_counts(config_from_dict(state["config"])))
        network.load_state_dict(
            {k.removeprefix("model."): v for k, v in tensors.items() if k.startswith("model.")}
        )
        restore_optimiser(optimiser, names, tensors)
        torch.set_rng_state(tensors["random.torch"])
        step = state["step"]

    def save() -> None:
        tensors = {f"model.{name}": tensor for name, tensor in network.state_dict().items()}
        tensors.update(optimiser_state(optimiser, names))
        tensors["random.torch"] = torch.get_rng_state()
        save_checkpoint(folder / LAST, tensors, {"step": step, "config": config_to_dict(config)})

    sums, count = np.zeros(3), 0
    started = saved = time.monotonic()
    network.train()
    while step < len(batches):
        rate = _rate(step, len(batches)) * settings.learning_rate
        for group in optimiser.param_groups:
            group["lr"] = rate
        optimiser.zero_grad(set_to_none=True)
        losses = network(corpus.batch(batches[step]))
        total = losses[0] + settings.word_weight * (losses[1] + losses[2])
        total.backward()
        nn.utils.clip_grad_norm_(network.parameters(), 1.0)
        optimiser.step()
        values = [float(loss.detach()) for loss in losses]
        if not math.isfinite(sum(values)):
            raise ZishuError(f"the loss is not a number (step {step}): lower pretrain.learning_rate")
        sums, count, step = sums + values, count + 1, step + 1
        if report and (step % 50 == 0 or step == len(batches)):
            report(step, len(batches), time.monotonic() - started, Losses(*(sums / count)))
            sums, count = np.zeros(3), 0
        if time.monotonic() - saved >= config.run.checkpoint_seconds:
            save()
            saved = time.monotonic()
    write_json(folder / CHARS, corpus.chars.to_json())
    if corpus.bigrams is not None:
        write_json(folder / BIGRAMS, corpus.bigrams.to_json())
    # In half precision: what a treebank teaches moves the weights by far more than the rounding.
    weights = {name: tensor.half() for name, tensor in network.encoder.state_dict().items()}
    # Last, because a folder with weights counts as finished.
    save_checkpoint(folder / WEIGHTS, weights, {"config": config_to_dict(config)})
    (folder / LAST).unlink(missing_ok=True)
    return folder


def load_pretrained(folder: str) -> tuple[dict[str, Tensor], Vocabulary, Vocabulary | None]:
    """Read what `pretrain` wrote: weights of the encoder, characters, pairs of characters if it reads them."""
    place = Path(folder)
    if not (place / WEIGHTS).is_file():
        raise ConfigError(
            f"encoder.pretrained: {folder}: no {WEIGHTS} in it: `zishu pretrain` writes such a folder"
        )
    tensors, _ = load_checkpoint(place / WEIGHTS)
    pairs = place / BIGRAMS
    return (
        tensors,
        Vocabulary.from_json(read_json(place / CHARS)),
        Vocabulary.from_json(read_json(pairs)) if pairs.is_file() else None,
    )


# --- the text --------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, eq=False)
class Corpus:
    """A tagged text in numbers, all sentences one after the other."""

    chars: Vocabulary
    bigrams: Vocabulary | None
    tags: tuple[str, ...]
    starts: NDArray[np.int64]  # where each sentence begins; one more for the end
    char_ids: NDArray[np.int32]
    bigram_ids: NDArray[np.int32]
    places: NDArray[np.int8]
    tag_ids: NDArray[np.int16]

    @property
    def lengths(self) -> list[int]:
        """Return the number of characters of every sentence."""
        lengths: list[int] = np.diff(self.starts).tolist()
        return lengths

    def batch(self, numbers: NDArray[np.int64]) -> dict[str, Tensor]:
        """Return sentences side by side; position 0 is the begin of the sentence."""
        spans = [slice(self.starts[k], self.starts[k + 1]) for k in numbers]
        width = max(span.stop - span.start for span in spans) + 1

        def stack(values: NDArray[Any], first: int, padding: int) -> Tensor:
            rows = [np.concatenate(([first], values[span])).astype(np.int64) for span in spans]
            return torch.from_numpy(pad(rows, (width,), padding))

        pairs = self.bigrams
        return {
            "chars": stack(self.char_ids, self.chars.bos, self.chars.pad),
            "bigrams": stack(self.bigram_ids, pairs.bos if pairs else 0, pairs.pad if pairs else 0),
            "places": stack(self.places, _IGNORED, _IGNORED),
            "tags": stack(self.tag_ids, _IGNORED, _IGNORED),
            "lengths": torch.tensor([span.stop - span.start for span in spans]),
        }


def read_corpus(config: Config) -> Corpus:
    """Read the tagged text twice: to count what occurs in it, and to number it."""
    settings = config.pretrain
    counts: Counter[str] = Counter()
    pairs: Counter[str] = Counter()
    tag_counts: Counter[str] = Counter()
    sizes: list[int] = []
    for sentence in _read_tagged(settings.text, settings.longest):
        chars = [char for word in sentence.words for char in word]
        counts.update(chars)
        if config.encoder.bigram_width:
            pairs.update(bigrams(chars))
        tag_counts.update(sentence.tags)
        sizes.append(len(chars))
    if not sizes:
        raise ConfigError(f"pretrain.text: {settings.text} holds no sentence")
    treebank = [tree.chars for tree in read_treebank(config.data.train).trees]
    vocabulary = _keep(counts, treebank, min_count=settings.min_count)
    pair_vocabulary = None
    if config.encoder.bigram_width:
        frequent = dict(pairs.most_common(settings.bigrams))
        pair_vocabulary = _keep(
            frequent, map(bigrams, treebank), min_count=1, treebank_min_count=config.encoder.bigram_min_count
        )
    tags = tuple(tag for tag, _ in tag_counts.most_common())
    numbers = {tag: number for number, tag in enumerate(tags)}

    starts = np.concatenate(([0], np.cumsum(sizes)))
    total = int(starts[-1])
    char_ids = np.zeros(total, dtype=np.int32)
    bigram_ids = np.zeros(total, dtype=np.int32)
    places = np.zeros(total, dtype=np.int8)
    tag_ids = np.zeros(total, dtype=np.int16)
    for start, sentence in zip(starts, _read_tagged(settings.text, settings.longest), strict=False):
        chars = [char for word in sentence.words for char in word]
        lengths = [len(word) for word in sentence.words]
        span = slice(start, start + len(chars))
        char_ids[span], bigram_ids[span] = number(chars, vocabulary, pair_vocabulary)
        places[span] = word_tags(lengths)
        tag_ids[span] = np.repeat([numbers[tag] for tag in sentence.tags], lengths)
    return Corpus(vocabulary, pair_vocabulary, tags, starts, char_ids, bigram_ids, places, tag_ids)


@dataclass(frozen=True, slots=True)
class _Tagged:
    words: list[list[str]]  # each as its characters
    tags: list[str]


def _read_tagged(path: str, longest: int) -> Iterator[_Tagged]:
    """Yield the sentences of a tagged text, long ones in pieces."""
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
                yield _Tagged(words, tags)
                words, tags, size = [], [], 0
            words.append(chars[:longest])
            tags.append(tag)
            size += len(words[-1])
        if words:
            yield _Tagged(words, tags)


def _keep(
    counts: dict[str, int] | Counter[str],
    treebank: Any,
    *,
    min_count: int,
    treebank_min_count: int = 1,
) -> Vocabulary:
    """Make a vocabulary of what is frequent in the text or in the treebank."""
    known = Counter(symbol for sentence in treebank for symbol in sentence)
    kept = {symbol: count for symbol, count in counts.items() if count >= min_count}
    for symbol, count in known.items():
        if count >= treebank_min_count:
            kept[symbol] = kept.get(symbol, 0) + count
    return Vocabulary.build(kept)


# --- the network -----------------------------------------------------------------------------------------------


class _Pretraining(nn.Module):
    """An encoder with what asks it three questions; only the encoder is kept."""

    def __init__(self, config: Config, corpus: Corpus) -> None:
        super().__init__()
        encoder = build_encoder(_bare_encoder(config), corpus.chars, corpus.bigrams, pretrained=False)
        assert isinstance(encoder, BiLSTM | Transformer)
        self.encoder = encoder
        self.mask = config.pretrain.mask
        self.chars, self.pairs = corpus.chars, corpus.bigrams
        width, embedding = self.encoder.width, config.encoder.char_width
        # A character's own embedding answers for it: what is learned about one is learned about both.
        self.hidden = nn.Sequential(nn.Linear(width, embedding), nn.GELU(), nn.LayerNorm(embedding))
        self.bias = nn.Parameter(torch.zeros(len(corpus.chars)))
        self.places = nn.Linear(width, _PLACES)
        self.tags = nn.Linear(width, len(corpus.tags))

    def forward(self, batch: dict[str, Tensor]) -> tuple[Tensor, Tensor, Tensor]:
        """Return the three losses."""
        chars = batch["chars"]
        inside = batch["places"] != _IGNORED
        hidden = (torch.rand(chars.shape) < self.mask) & inside
        seen = chars.masked_fill(hidden, self.chars.unknown)
        pairs = None
        if self.pairs is not None:
            # A character stands in two pairs.
            gone = hidden | F.pad(hidden[:, :-1], (1, 0))
            pairs = batch["bigrams"].masked_fill(gone, self.pairs.unknown)
        encoded = self.encoder(seen, pairs, batch["lengths"])
        embeddings = self.encoder.embeddings.chars.get_parameter("weight")
        guesses = F.linear(self.hidden(encoded[hidden]), embeddings, self.bias)
        return (
            F.cross_entropy(guesses, chars[hidden]) if len(guesses) else guesses.sum(),
            F.cross_entropy(
                self.places(encoded).flatten(0, 1), batch["places"].flatten(), ignore_index=_IGNORED
            ),
            F.cross_entropy(self.tags(encoded).flatten(0, 1), batch["tags"].flatten(), ignore_index=_IGNORED),
        )


def _bare_encoder(config: Config) -> EncoderConfig:
    """Return the encoder without what only a treebank teaches it."""
    return replace(
        config.encoder, top=0, dropout=config.pretrain.dropout, embedding_dropout=0.0, character_dropout=0.0
    )


def _what_counts(config: Config) -> tuple[object, ...]:
    """Return the part of a configuration that pre-training depends on."""
    return config.seed, config.data.train, config.pretrain, _bare_encoder(config)


def _rate(step: int, steps: int) -> float:
    """Return the share of the peak learning rate: up over the first 4 %, then down to 0, both linear."""
    warmup = 0.04 * steps
    return min((step + 1) / warmup if warmup else 1.0, (steps - step) / max(1.0, steps - warmup))
