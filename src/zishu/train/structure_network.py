"""Define the network that scores arcs and relations inside words, and its loss; inputs: see `zishu.model.inner`.

A character is represented by the frozen encoder's vector in its sentence, plus two static vectors: one from the encoder
(its mean encoding as a one-character word) and one learned from the lexicon. A small network omits these two. The
character's position in the word and the known two-character words around it, with their relations, are added. Two
projections of each character, as dependent and as head, meet in one biaffine product per relation. A part that is a
word in the lexicon is likely to have the same arc inside a longer word, which is a learned bonus:

    s(d, h, r) = dep(d)^T U_r head(h) + b_r(h - d) + k_r [d and h are a known word with the relation r]
                 r legal on this side of the head, otherwise -inf
    s(d, h)    = logsumexp_r s(d, h, r)
    s(d, 0)    = an MLP of d and of the mean of the word

The loss is the exact negative log-likelihood of the labelled tree among all projective trees: words are short enough to
enumerate the trees (2, 7, 30 for two, three, four characters).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn
from torch.nn import functional

from zishu.structures import BEFORE, CLASSES
from zishu.train.compact import CompactLinear, compact
from zishu.tree import projective_trees

if TYPE_CHECKING:
    from collections.abc import Sequence


_CHAR_WIDTH = 64  # features of a character
_DROPOUT, _CHAR_DROPOUT = 0.15, 0.2
_PLACE = 8  # features of a position in a word, from each end, and of the relation of a known pair
_FARTHEST = 4  # positions and distances from here on are treated alike
_ILLEGAL = -1e9  # not -inf, whose softmax has no gradient


class StructureNetwork(nn.Module):
    """Score the arcs and relations inside words."""

    mean: Tensor
    scale: Tensor
    before: Tensor
    numbers: Tensor

    def __init__(
        self,
        encodings: Tensor,
        static: Tensor | None,
        relations: Sequence[str],
        *,
        hidden: int = 128,
    ) -> None:
        """Create a network for encodings like these.

        `static` has one vector per character of the vocabulary. Without it, nothing is known about single characters
        but their encodings.
        """
        super().__init__()
        self.register_buffer("mean", encodings.mean(0))
        self.register_buffer("scale", 1 / (encodings.std(0) + 1e-4))
        self.register_buffer("before", torch.tensor([relation in BEFORE for relation in relations]))
        self.register_buffer("numbers", torch.arange(1, len(relations) + 1))
        self.static: nn.Module | None = None
        self.chars: nn.Module | None = None
        width = encodings.shape[1] + 4 * _PLACE + 4
        if static is not None:
            self.static = nn.Embedding(len(static), static.shape[1], _weight=static, _freeze=True)
            chars = 0.3 * torch.randn(len(static), _CHAR_WIDTH)
            self.chars = nn.Embedding(len(static), _CHAR_WIDTH, _weight=chars)
            width += static.shape[1] + _CHAR_WIDTH
        self.from_start = nn.Embedding(_FARTHEST, _PLACE)
        self.from_end = nn.Embedding(_FARTHEST, _PLACE)
        self.pair = nn.Embedding(len(relations) + CLASSES + 1, _PLACE)
        self.known = nn.Parameter(torch.ones(len(relations)))
        self.dropout = nn.Dropout(_DROPOUT)
        self.dependent: nn.Module = nn.Linear(width, hidden)
        self.head: nn.Module = nn.Linear(width, hidden)
        self.biaffine: nn.Module = nn.Linear(hidden + 1, len(relations) * (hidden + 1), bias=False)
        nn.init.normal_(self.biaffine.weight, std=0.02)
        self.distance = nn.Parameter(torch.zeros(2 * _FARTHEST - 1, len(relations)))
        first, last = nn.Linear(2 * width, hidden), nn.Linear(hidden, 1)
        self.root = nn.Sequential(first, nn.GELU(), nn.Dropout(_DROPOUT), last)

    def forward(
        self, encoded: Tensor, chars: Tensor, pairs: Tensor, lengths: Tensor
    ) -> tuple[Tensor, Tensor]:
        """Return the scores of arcs `[w, L, L+1]` and the log-probabilities of relations `[w, L, L, R]`."""
        place = torch.cumsum(torch.ones_like(chars), 1) - 1
        inside = (place < lengths[:, None]).unsqueeze(2).to(encoded.dtype)
        x = self.dropout(self._features(encoded, chars, pairs, place, lengths)) * inside
        mean = (x.sum(1) / lengths[:, None]).unsqueeze(1).expand_as(x)
        root = self.root(torch.cat([x, mean], 2))

        one = torch.ones_like(inside)
        dependent = torch.cat([self.dropout(functional.gelu(self.dependent(x))), one], 2)
        head = torch.cat([self.dropout(functional.gelu(self.head(x))), one], 2)
        words, length, width = head.shape
        half = self.biaffine(dependent).reshape(words, -1, width)  # w (L R) H
        scores = (half @ head.transpose(1, 2)).reshape(words, length, -1, length).transpose(2, 3)
        steps = place.unsqueeze(2) - place.unsqueeze(1)  # from head to dependent
        scores = scores + self.distance[steps.clamp(1 - _FARTHEST, _FARTHEST - 1) + _FARTHEST - 1]
        # w L R: the relation of a character with the next one, and of the one before it with the character
        first, second = (values.unsqueeze(2) == self.numbers for values in (pairs, _behind(pairs)))
        before, after = (steps == -1).unsqueeze(3), (steps == 1).unsqueeze(3)
        scores = scores + self.known * ((first.unsqueeze(2) & before) | (second.unsqueeze(2) & after))
        illegal = (steps < 0).unsqueeze(3) != self.before
        scores = scores.masked_fill(illegal, _ILLEGAL)
        arcs = scores.logsumexp(3)
        return torch.cat([root, arcs], 2), scores - arcs.unsqueeze(3)

    def _features(
        self, encoded: Tensor, chars: Tensor, pairs: Tensor, place: Tensor, lengths: Tensor
    ) -> Tensor:
        # Whether a character is the second one of a known pair, the first one; whether a pair follows or precedes it.
        first = (pairs > 0).to(encoded.dtype)
        second = _behind(first)
        earlier = torch.cumsum(second, 1) - second
        later = first.sum(1, keepdim=True) - torch.cumsum(first, 1)
        from_end = (lengths[:, None] - 1 - place).clamp(0, _FARTHEST - 1)
        features = [
            (encoded - self.mean) * self.scale,
            self.from_start(place.clamp(max=_FARTHEST - 1)),
            self.from_end(from_end),
            self.pair(pairs),
            self.pair(_behind(pairs)),
            torch.stack([second, first, earlier.clamp(max=1), later.clamp(max=1)], 2),
        ]
        if self.static is not None and self.chars is not None:
            learned = self.chars(chars)
            if self.training:
                learned = learned * (torch.rand(chars.shape) >= _CHAR_DROPOUT).unsqueeze(2)
            features += [self.static(chars), learned]
        return torch.cat(features, 2)

    def compact(self) -> None:
        """Store the large tables and layers in 8 bits; the network cannot be trained further."""
        compact(self, ("static", "chars", "dependent", "head", "biaffine"))
        self.root[0] = CompactLinear(self.root[0])  # type: ignore[arg-type]


def _behind(pairs: Tensor) -> Tensor:
    """Return for each character the value of its predecessor."""
    return torch.cat([torch.zeros_like(pairs[:, :1]), pairs[:, :-1]], 1)


def structure_loss(arcs: Tensor, relations: Tensor, tree: Tensor, gold: Tensor) -> Tensor:
    """Return -log P(labelled tree) for words of one length.

    `tree` is the index of each word's tree in `projective_trees`, `gold [w, L]` the numbers of its relations.
    """
    trees = torch.tensor(projective_trees(arcs.shape[1]))
    of_trees = arcs[:, torch.arange(arcs.shape[1]), trees].sum(2).log_softmax(1)  # w trees
    of_tree = of_trees.gather(1, tree[:, None])[:, 0]
    heads = trees[tree]
    at_head = (heads - 1).clamp(min=0)[..., None, None].expand(-1, -1, 1, relations.shape[3])
    of_relation = relations.gather(2, at_head)[:, :, 0].gather(2, gold[..., None])[..., 0]
    return -(of_tree + (of_relation * (heads > 0)).sum(1))
