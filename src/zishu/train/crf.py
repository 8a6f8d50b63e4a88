"""Train a linear-chain CRF over BMES tags, the position of a character in its word (the paper's segmenter).

Only legal sequences exist: a word is S, or B M* E, and a sentence begins and ends with a word. `zishu.chart.chain`
decodes without torch. Cost: O(n) steps of 4 x 4.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import nn

from zishu.chart.chain import ENDS, STARTS, TRANSITIONS

if TYPE_CHECKING:
    from torch import Tensor


class ChainCRF(nn.Module):
    """Learn scores of tag transitions; illegal ones are always forbidden."""

    def __init__(self) -> None:
        super().__init__()
        tags = len(STARTS)
        self.transitions = nn.Parameter(torch.zeros(tags, tags))
        self.starts = nn.Parameter(torch.zeros(tags))
        self.ends = nn.Parameter(torch.zeros(tags))
        for name, legal in (("transitions", TRANSITIONS), ("starts", STARTS), ("ends", ENDS)):
            self.register_buffer(f"legal_{name}", torch.tensor(legal, dtype=torch.float32), persistent=False)

    def tables(self) -> tuple[Tensor, Tensor, Tensor]:
        """Return the scores of transitions [from, to], starts and ends; illegal ones are -inf."""
        return (
            self.transitions + self.get_buffer("legal_transitions"),
            self.starts + self.get_buffer("legal_starts"),
            self.ends + self.get_buffer("legal_ends"),
        )

    def loss(self, emissions: Tensor, tags: Tensor, lengths: Tensor) -> Tensor:
        """Return the negative log-likelihood of each sentence's tags; emissions `[b, n, 4]`, tags `[b, n]`."""
        transitions, starts, ends = self.tables()
        inside = torch.arange(emissions.shape[1], device=emissions.device) < lengths[:, None]
        gold = emissions.gather(2, tags[..., None]).squeeze(2)
        steps = transitions[tags[:, :-1], tags[:, 1:]]
        zero = emissions.new_zeros(())
        last = tags.gather(1, lengths[:, None] - 1).squeeze(1)
        score = (
            starts[tags[:, 0]]
            + torch.where(inside, gold, zero).sum(1)
            + torch.where(inside[:, 1:], steps, zero).sum(1)
            + ends[last]
        )
        alpha = starts + emissions[:, 0]
        for k in range(1, emissions.shape[1]):
            following = torch.logsumexp(alpha[:, :, None] + transitions, dim=1) + emissions[:, k]
            alpha = torch.where(inside[:, k, None], following, alpha)
        return torch.logsumexp(alpha + ends, dim=1) - score
