"""Turn characters into vectors: a BiLSTM, a small transformer, or a pre-trained BERT (`_hf.py`).

    encoder = build_encoder(config.encoder, vocabulary, bigram_vocabulary)
    encoded = encoder(chars, lengths, bigrams, styles)   # batch n+1 encoder.width

Position 0 is the beginning of the sentence and represents ROOT; `lengths` counts the characters after it. Padding never
changes a sentence's encoding. Section 3.4 of the paper uses only BERT; the other two learn from the treebank alone and
are small enough to train and run anywhere.

Every encoder can be exported to ONNX with a dynamic batch and length. This module does not read configuration files or
treebanks. Cost: linear in the length for a BiLSTM, quadratic for a transformer and BERT.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import torch
import torch.nn.functional as F  # noqa: N812  (torch's own convention)
from torch import Tensor, nn

from zishu.errors import ConfigError, one_line

if TYPE_CHECKING:
    from collections.abc import Mapping

    from zishu.model.vocabulary import Vocabulary
    from zishu.train.config import EncoderConfig


class Encoder(nn.Module):
    """Define the common interface of the three encoders."""

    width: int
    """Numbers in a character's encoding."""
    longest: int | None = None
    """The most characters that one pass, and so the exported graph, can read; None: any number."""
    overlap: int = 0
    """Characters that neighbouring passes over a longer sentence share."""
    hf_config: dict[str, Any] | None = None
    """What `build_encoder` needs to build a BERT again without its original folder."""

    def forward(
        self, chars: Tensor, lengths: Tensor, bigrams: Tensor | None = None, styles: Tensor | None = None
    ) -> Tensor:
        """Encode sentences: chars and bigrams `[batch, n+1]`, lengths and styles `[batch]` to `[batch, n+1, width]`."""
        raise NotImplementedError


def build_encoder(
    config: EncoderConfig,
    vocabulary: Vocabulary,
    bigram_vocabulary: Vocabulary | None,
    *,
    styles: int = 0,
    hf_config: Mapping[str, Any] | None = None,
    weights: Mapping[str, Tensor] | None = None,
) -> Encoder:
    """Build an encoder.

    With `styles` there is one embedding per style, which is added to those of the characters. A BERT has its pre-trained
    weights or, if it is built from `hf_config`, which an encoder keeps under that name, random ones. Every other kind
    starts from `weights`, if given; these belong to an encoder that is equal except for its styles.
    """
    if config.kind == "bert":
        # Imported here because only this kind needs transformers, which takes seconds to import.
        from zishu.train import _hf

        return _hf.build(config, vocabulary, styles=styles, hf_config=hf_config)
    if config.bigram_width and bigram_vocabulary is None:
        raise ConfigError("encoder.bigram_width: bigrams need a vocabulary of bigrams")
    pairs = bigram_vocabulary if config.bigram_width else None
    embeddings = Embeddings(config, vocabulary, pairs, styles=styles)
    encoder: Encoder = (BiLSTM if config.kind == "bilstm" else Transformer)(embeddings, config)
    if weights is not None:
        own = encoder.state_dict()
        untrained = {name: own[name] for name in own if name.startswith("embeddings.styles.")}
        try:
            encoder.load_state_dict({**untrained, **weights})
        except RuntimeError as error:
            reason = one_line(str(error))
            raise ConfigError(
                f"encoder.pretrained: the weights do not match this encoder: {reason}"
            ) from error
    return Topped(encoder, config.top, dropout=config.dropout) if config.top else encoder


# --- bricks ---------------------------------------------------------------------------------------------------


class Embeddings(nn.Module):
    """Concatenate the embeddings of characters and bigrams and add the style's; in training, hide some characters."""

    def __init__(
        self,
        config: EncoderConfig,
        vocabulary: Vocabulary,
        bigram_vocabulary: Vocabulary | None,
        *,
        styles: int = 0,
    ) -> None:
        super().__init__()
        self.unknown = vocabulary.unknown
        self.character_dropout = config.character_dropout
        self.dropout = config.embedding_dropout
        self.chars: nn.Module = _embedding(vocabulary, config.char_width)
        self.width = config.char_width
        self.bigrams: nn.Module | None = None
        if bigram_vocabulary is not None:
            self.unknown_bigram = bigram_vocabulary.unknown
            self.bigrams = _embedding(bigram_vocabulary, config.bigram_width)
            self.width += config.bigram_width
        self.styles = style_embedding(styles, self.width)

    def forward(self, chars: Tensor, bigrams: Tensor | None, styles: Tensor | None = None) -> Tensor:
        """Return the embeddings, `[batch, n+1, width]`."""
        if self.bigrams is None:
            bigrams = None
        elif bigrams is None:
            raise ValueError("this encoder reads bigrams, too")
        if self.training and self.character_dropout:
            chars, bigrams = self._forget(chars, bigrams)
        parts = [self.chars(chars)]
        if self.bigrams is not None:
            parts.append(self.bigrams(bigrams))
        if self.training and self.dropout:
            parts = drop_embeddings(parts, self.dropout)
        embedded = torch.cat(parts, dim=-1)
        return embedded if self.styles is None else embedded + self.styles(styles)[:, None]

    def _forget(self, chars: Tensor, bigrams: Tensor | None) -> tuple[Tensor, Tensor | None]:
        """Replace some characters by the unknown one, as will happen in new text."""
        forgotten = torch.rand(chars.shape, device=chars.device) < self.character_dropout
        forgotten[:, 0] = False  # the beginning of a sentence is always known
        if bigrams is not None:
            # No bigram with an unknown character is known, and a character is part of two bigrams.
            pairs = forgotten | F.pad(forgotten[:, :-1], (1, 0))
            bigrams = bigrams.masked_fill(pairs, self.unknown_bigram)
        return chars.masked_fill(forgotten, self.unknown), bigrams


def _embedding(vocabulary: Vocabulary, width: int) -> nn.Embedding:
    """Create a table of embeddings with a norm of about one; padding is zero and stays so."""
    table = nn.Embedding(len(vocabulary.symbols), width, padding_idx=vocabulary.pad)
    with torch.no_grad():
        table.weight.normal_(std=width**-0.5)
        table.weight[vocabulary.pad] = 0
    return table


def style_embedding(styles: int, width: int) -> nn.Embedding | None:
    """Create a table of styles; all start at zero, so that they change nothing at first."""
    if not styles:
        return None
    table = nn.Embedding(styles, width)
    nn.init.zeros_(table.weight)
    return table


def drop_embeddings(parts: list[Tensor], rate: float) -> list[Tensor]:
    """Drop whole embeddings, each part of each character independently, and scale up the rest of the character.

    This follows biaffine parsers (Dozat and Manning, 2017): the sum of the parts keeps its size, so that one part
    learns to replace the other.
    """
    keep = torch.rand(*parts[0].shape[:2], len(parts), device=parts[0].device) >= rate
    scale = keep * (len(parts) / keep.sum(-1, keepdim=True).clamp(min=1))
    return [part * scale[..., i, None] for i, part in enumerate(parts)]


class Dropout(nn.Module):
    """Drop features independently, like `nn.Dropout`.

    On a CPU, `nn.Dropout` draws a random number for every feature, which takes a tenth of the training time of a small
    transformer. Here one 64-bit number decides about four features, so the rate is exact to 1 / 65,536.
    """

    def __init__(self, rate: float) -> None:
        super().__init__()
        self.rate = rate

    def forward(self, x: Tensor) -> Tensor:
        """Zero some of the numbers and scale up the others."""
        if not self.training or not self.rate:
            return x
        if x.device.type != "cpu":
            return F.dropout(x, self.rate)
        numbers = torch.empty(-(-x.numel() // 4), dtype=torch.int64).random_(-(2**63), None)
        pieces = numbers.view(torch.int16)[: x.numel()].view(x.shape)  # each from -32,768 to 32,767
        keep = pieces >= round(self.rate * 65_536) - 32_768
        return x * keep.to(x.dtype).mul_(1 / (1 - self.rate))


class SharedDropout(Dropout):
    """Drop the same features at all positions of a sentence (variational dropout)."""

    def forward(self, x: Tensor) -> Tensor:
        """Zero the same columns at all positions of a sentence, `[batch, n, width]`."""
        if not self.training or not self.rate:
            return x
        return x * super().forward(x.new_ones(x.shape[0], 1, x.shape[2]))


# --- BiLSTM ---------------------------------------------------------------------------------------------------


class Recurrence(nn.Module):
    """Read vectors in both directions, layer by layer.

    The backward LSTM is a forward LSTM over the reversed sentence, with padding left in place. So padding comes last in
    both directions and needs no packing: packed sequences cannot use oneDNN's kernels (twice the training time on a
    CPU) and cannot be exported to ONNX.
    """

    def __init__(self, width: int, layers: int, hidden: int, *, dropout: float) -> None:
        super().__init__()
        self.width = 2 * hidden
        inputs = [width] + [self.width] * (layers - 1)
        self.forwards = nn.ModuleList(nn.LSTM(size, hidden, batch_first=True) for size in inputs)
        self.backwards = nn.ModuleList(nn.LSTM(size, hidden, batch_first=True) for size in inputs)
        self.dropout = SharedDropout(dropout)
        for lstm in (*self.forwards, *self.backwards):
            _initialise_lstm(lstm)

    def forward(self, x: Tensor, lengths: Tensor) -> Tensor:
        """Map `[batch, n+1, ...]` and the lengths to `[batch, n+1, width]`."""
        last = lengths[:, None]  # position of the last character, because characters count from 1
        position = torch.arange(x.shape[1], device=x.device)
        mirror = torch.where(position <= last, last - position, position)[..., None]  # batch n+1 1
        for ahead, back in zip(self.forwards, self.backwards, strict=True):
            left, _ = ahead(x)
            right, _ = back(x.gather(1, mirror.expand(-1, -1, x.shape[2])))
            right = right.gather(1, mirror.expand(-1, -1, right.shape[2]))
            x = self.dropout(torch.cat((left, right), dim=-1))
        return x


class BiLSTM(Encoder):
    """Read the sentence's embeddings in both directions."""

    def __init__(self, embeddings: Embeddings, config: EncoderConfig) -> None:
        super().__init__()
        self.embeddings = embeddings
        self.recurrence = Recurrence(embeddings.width, config.layers, config.hidden, dropout=config.dropout)
        self.width = self.recurrence.width

    def forward(
        self, chars: Tensor, lengths: Tensor, bigrams: Tensor | None = None, styles: Tensor | None = None
    ) -> Tensor:
        """Encode sentences."""
        encoded: Tensor = self.recurrence(self.embeddings(chars, bigrams, styles), lengths)
        return encoded


class Topped(Encoder):
    """Add a recurrent layer on top of an encoder; it learns from the treebank alone.

    An LSTM knows the order of characters by design, attention has to learn it. With little training text, this layer
    finds heads that a small transformer misses.
    """

    def __init__(self, base: Encoder, hidden: int, *, dropout: float) -> None:
        super().__init__()
        self.base = base
        self.top = Recurrence(base.width, 1, hidden, dropout=dropout)
        self.width = self.top.width

    def forward(
        self, chars: Tensor, lengths: Tensor, bigrams: Tensor | None = None, styles: Tensor | None = None
    ) -> Tensor:
        """Encode sentences."""
        encoded: Tensor = self.top(self.base(chars, lengths, bigrams, styles), lengths)
        return encoded


def _initialise_lstm(lstm: nn.Module) -> None:
    """Start with orthogonal recurrences and open forget gates, so that early gradients reach far."""
    for name, parameter in lstm.named_parameters():
        if name.startswith("weight_hh"):
            for gate in parameter.data.chunk(4):
                nn.init.orthogonal_(gate)
        elif name.startswith("weight_ih"):
            nn.init.xavier_uniform_(parameter.data)
        else:
            nn.init.zeros_(parameter.data)
            if name.startswith("bias_ih"):
                parameter.data.chunk(4)[1].fill_(1)  # torch orders the gates input, forget, cell, output


# --- transformer ----------------------------------------------------------------------------------------------

_ACTIVATIONS = {"relu": nn.ReLU, "gelu": nn.GELU}


class Transformer(Encoder):
    """Attend over the sentence, layer by layer; normalised before each step, which makes training robust.

    Positions enter as a learned attention bias for each bucket of distances (`distance_buckets`), so a sentence may be
    longer than those seen in training.
    """

    def __init__(self, embeddings: Embeddings, config: EncoderConfig) -> None:
        super().__init__()
        if config.hidden % config.heads:
            raise ConfigError(f"encoder.hidden: {config.hidden} is not a multiple of heads, {config.heads}")
        self.embeddings = embeddings
        self.width = config.hidden
        self.project = nn.Linear(embeddings.width, config.hidden)
        self.neighbours = Neighbours(config) if config.neighbours else None
        self.dropout = Dropout(config.dropout)
        self.blocks = nn.ModuleList(Block(config) for _ in range(config.layers))
        self.norm = nn.LayerNorm(config.hidden)

    def forward(
        self, chars: Tensor, lengths: Tensor, bigrams: Tensor | None = None, styles: Tensor | None = None
    ) -> Tensor:
        """Encode sentences."""
        position = torch.arange(chars.shape[1], device=chars.device)
        buckets = distance_buckets(position[None, :] - position[:, None])
        padding = torch.zeros(chars.shape, dtype=torch.float32, device=chars.device)
        padding = padding.masked_fill(position > lengths[:, None], -torch.inf)[:, None, None, :]
        x = self.project(self.embeddings(chars, bigrams, styles))
        if self.neighbours is not None:
            x = self.neighbours(x.masked_fill((position > lengths[:, None])[..., None], 0))
        x = self.dropout(x)
        for block in self.blocks:
            x = block(x, buckets, padding)
        encoded: Tensor = self.norm(x)
        return encoded


class Neighbours(nn.Module):
    """Add a convolution of width three over each character and its neighbours.

    Words are short. Attention needs much more text to learn what a neighbour is; a convolution knows it from the start.
    """

    def __init__(self, config: EncoderConfig) -> None:
        super().__init__()
        self.mix = nn.Linear(3 * config.hidden, config.hidden)
        self.activation = _ACTIVATIONS[config.activation]()

    def forward(self, x: Tensor) -> Tensor:
        """Map `[batch, n+1, width]` to the same shape; padding must be 0."""
        before, after = F.pad(x[:, :-1], (0, 0, 1, 0)), F.pad(x[:, 1:], (0, 0, 0, 1))
        mixed: Tensor = x + self.activation(self.mix(torch.cat((before, x, after), dim=-1)))
        return mixed


class Block(nn.Module):
    """One layer of the transformer: attention, then a feed-forward network, each added to its input."""

    def __init__(self, config: EncoderConfig) -> None:
        super().__init__()
        self.heads = config.heads
        self.attention_norm = nn.LayerNorm(config.hidden)
        self.queries_keys_values = nn.Linear(config.hidden, 3 * config.hidden)
        self.distances = nn.Embedding(_BUCKETS, config.heads)
        self.mix = nn.Linear(config.hidden, config.hidden)
        self.feed_norm = nn.LayerNorm(config.hidden)
        self.feed = nn.Sequential(
            nn.Linear(config.hidden, config.feed_forward),
            _ACTIVATIONS[config.activation](),
            Dropout(config.dropout),
            nn.Linear(config.feed_forward, config.hidden),
        )
        self.dropout = Dropout(config.dropout)
        nn.init.zeros_(self.distances.weight)

    def forward(self, x: Tensor, buckets: Tensor, padding: Tensor) -> Tensor:
        """Return the layer's output; `buckets [n+1, n+1]`, `padding [batch, 1, 1, n+1]` is 0 or -inf."""
        parts = self.queries_keys_values(self.attention_norm(x)).chunk(3, dim=-1)
        # batch heads n+1 width/heads, three times
        query, key, value = (part.unflatten(-1, (self.heads, -1)).transpose(1, 2) for part in parts)
        bias = self.distances(buckets).permute(2, 0, 1) + padding  # batch heads n+1 n+1
        attended = F.scaled_dot_product_attention(query, key, value, attn_mask=bias)
        x = x + self.dropout(self.mix(attended.transpose(1, 2).flatten(2)))
        fed: Tensor = x + self.dropout(self.feed(self.feed_norm(x)))
        return fed


_NEAR = 16  # distances up to this have their own bucket
_FAR = 128  # distances from this on share one
_GROUPS = 8  # number of buckets between, each wider than the last by the same factor
_SIDE = _NEAR + _GROUPS + 1
_BUCKETS = 2 * _SIDE + 1


def distance_buckets(distance: Tensor) -> Tensor:
    """Return the bucket of each signed distance: one for each near distance, wider ones farther away."""
    size = distance.abs()
    growth = (size.clamp(min=_NEAR).float() / _NEAR).log() / math.log(_FAR / _NEAR)
    grouped = _NEAR + 1 + (growth * _GROUPS).long().clamp(max=_GROUPS - 1)
    grouped = torch.where(size >= _FAR, _SIDE, grouped)
    bucket = torch.where(size <= _NEAR, size, grouped)
    return torch.where(distance < 0, bucket + _SIDE, bucket)
