"""Score arcs, labels and word-boundary tags from character encodings (section 3.4 and Appendix A.3 of the paper).

Every layer is small and does one thing; `zishu.train.network` combines them. Shapes: b sentences, u units (including
ROOT), k allowed heads of a unit, l labels.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from zishu.chart.chain import ENDS, STARTS, TRANSITIONS
from zishu.train.encoders import SharedDropout


class Projection(nn.Module):
    """Apply one hidden layer, for heads or for modifiers."""

    def __init__(self, width: int, out: int, *, dropout: float) -> None:
        super().__init__()
        self.linear = nn.Linear(width, out)
        nn.init.orthogonal_(self.linear.weight)
        nn.init.zeros_(self.linear.bias)
        self.activation = nn.LeakyReLU(0.1)
        self.dropout = SharedDropout(dropout)

    def forward(self, x: Tensor) -> Tensor:
        """Map `[b, u, width]` to `[b, u, out]`."""
        projected: Tensor = self.dropout(self.activation(self.linear(x)))
        return projected


class ArcBiaffine(nn.Module):
    """Compute biaffine arc scores: s(d, h) = [m_d; 1]^T W h_h, one W for each role."""

    def __init__(self, width: int, *, roles: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(roles, width + 1, width))

    def forward(self, modifiers: Tensor, heads: Tensor) -> list[Tensor]:
        """Map two `[b, u, width]` to one `[b, u, u]` per role, dependent first."""
        # The bias is separate, and roles are indexed, so that an exported graph has plain products with weights.
        by_role = (self.weight[role] for role in range(len(self.weight)))
        return [(modifiers @ weight[:-1] + weight[-1]) @ heads.transpose(1, 2) for weight in by_role]


class LabelBiaffine(nn.Module):
    """Compute biaffine label scores with both biases: s(d, h, l) = [m_d; 1]^T W_l [h_h; 1]."""

    def __init__(self, width: int, labels: int) -> None:
        super().__init__()
        self.labels = labels
        self.weight = nn.Parameter(torch.zeros(width + 1, labels * (width + 1)))

    def forward(self, modifiers: Tensor, heads: Tensor) -> Tensor:
        """Map the ends of m arcs, two `[m, width]`, to log-probabilities `[m, l]`."""
        return self.of_heads(modifiers, heads.unsqueeze(1)).squeeze(1)

    def of_heads(self, modifiers: Tensor, heads: Tensor) -> Tensor:
        """Map m modifiers `[m, width]` and k heads for each `[m, k, width]` to `[m, k, l]`.

        The product with W is computed once per modifier, whatever the number of its heads.
        """
        # The bias is separate, so that an exported graph has a plain product with weights.
        by_label = modifiers @ self.weight[:-1] + self.weight[-1]
        by_label = by_label.view(-1, self.labels, len(self.weight))
        heads = torch.cat([heads, torch.ones_like(heads[..., :1])], dim=-1)
        return torch.log_softmax(heads @ by_label.transpose(1, 2), dim=-1)


class ChainCRF(nn.Module):
    """Score sequences of BMES tags, the position of a character in its word (the paper's segmenter).

    Only legal sequences exist: a word is S, or B M* E, and a sentence begins and ends with a word. `zishu.chart.chain`
    decodes without torch. Cost: O(n) steps of 4 x 4.
    """

    def __init__(self) -> None:
        super().__init__()
        for name, legal in (("transitions", TRANSITIONS), ("starts", STARTS), ("ends", ENDS)):
            scores = torch.tensor(legal, dtype=torch.float32)  # [from, to], or [tag]; illegal ones are -inf
            self.register_parameter(name, nn.Parameter(torch.zeros_like(scores)))
            self.register_buffer(f"legal_{name}", scores, persistent=False)

    def loss(self, emissions: Tensor, tags: Tensor, lengths: Tensor) -> Tensor:
        """Return the negative log-likelihood of each sentence's tags; emissions `[b, n, 4]`, tags `[b, n]`."""
        transitions, starts, ends = (
            self.get_parameter(name) + self.get_buffer(f"legal_{name}")
            for name in ("transitions", "starts", "ends")
        )
        inside = torch.arange(emissions.shape[1], device=emissions.device) < lengths[:, None]
        gold = emissions.gather(2, tags[..., None]).squeeze(2)
        steps = transitions[tags[:, :-1], tags[:, 1:]]
        last = tags.gather(1, lengths[:, None] - 1).squeeze(1)
        score = starts[tags[:, 0]] + gold.where(inside, 0).sum(1)
        score = score + steps.where(inside[:, 1:], 0).sum(1) + ends[last]
        alpha = starts + emissions[:, 0]
        for k in range(1, emissions.shape[1]):
            following = torch.logsumexp(alpha[:, :, None] + transitions, dim=1) + emissions[:, k]
            alpha = torch.where(inside[:, k, None], following, alpha)
        return torch.logsumexp(alpha + ends, dim=1) - score
