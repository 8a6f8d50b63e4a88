"""Define what all training loops share: learning rates, small numbers, and the optimiser Muon.

Muon is an optimiser for the matrices inside a network's layers (Jordan et al., 2024). The momentum of a matrix is
replaced by the nearest orthogonal matrix, so all directions of a layer learn at the same pace. Small encoders reach a
given pre-training loss in fewer steps than with AdamW. Embeddings, biases, norms and output layers stay with AdamW (see
`split_weights`).

torch's optimiser of this name always computes in bfloat16, which is very slow on processors without instructions for
it; here the caller chooses. The method does not need exact products.

Cost: fifteen products per matrix and step, independent of the batch.
"""

from __future__ import annotations

from collections import defaultdict
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator


_MOMENTUM = 0.95
# The quintic a x + b x^3 + c x^5 drives all singular values towards 1 in five rounds; constants from the authors.
_COEFFICIENTS = (3.4445, -4.7750, 2.0315)
_ROUNDS = 5


def set_learning_rates(
    optimisers: Iterable[torch.optim.Optimizer], step: int, steps: int, *, warmup: float, decay: float
) -> None:
    """Set the learning rates of a step: linear increase to the peak, constant, then linear decrease to 0.

    Each group of weights has its own peak. `warmup` and `decay` are the shares of the steps in which rates increase and
    decrease.
    """
    rising = (step + 1) / max(1.0, warmup * steps)
    falling = (steps - step) / max(1.0, decay * steps)
    for optimiser in optimisers:
        for group in optimiser.param_groups:
            group["lr"] = group["peak"] * min(1.0, rising, falling)


@contextmanager
def denormals_flushed() -> Iterator[None]:
    """Flush denormal numbers to 0 inside the block only, because this is a state of the processor.

    The optimiser's averages of vanished gradients decay into denormal numbers, which are slow.
    """
    torch.set_flush_denormal(True)
    try:
        yield
    finally:
        torch.set_flush_denormal(False)


class Muon(torch.optim.Optimizer):
    """Apply Nesterov momentum with orthogonal updates; only for weights with two dimensions."""

    def __init__(
        self,
        weights: Iterable[Tensor] | Iterable[dict[str, Any]],
        *,
        lr: float,
        weight_decay: float = 0.0,
        dtype: torch.dtype = torch.float32,
    ) -> None:
        super().__init__(weights, {"lr": lr, "weight_decay": weight_decay})
        self._dtype = dtype

    @torch.no_grad()
    def step(self, closure: Any = None) -> None:  # type: ignore[override]  # noqa: ARG002
        """Update the weights by their gradients; matrices of one shape are handled together."""
        for group in self.param_groups:
            by_shape: dict[torch.Size, list[Tensor]] = defaultdict(list)
            for weight in group["params"]:
                if weight.grad is not None:
                    by_shape[weight.shape].append(weight)
            for shape, weights in by_shape.items():
                momenta = torch.stack([self._momentum(weight) for weight in weights])
                updates = orthogonalise(momenta.to(self._dtype)).to(momenta.dtype)
                scale = group["lr"] * max(1.0, shape[0] / shape[1]) ** 0.5
                for weight, update in zip(weights, updates, strict=True):
                    weight.mul_(1 - group["lr"] * group["weight_decay"]).add_(update, alpha=-scale)

    def _momentum(self, weight: Tensor) -> Tensor:
        assert weight.grad is not None
        state = self.state[weight]
        if "momentum" not in state:
            state["momentum"] = torch.zeros_like(weight)
        mean: Tensor = state["momentum"].lerp_(weight.grad, 1 - _MOMENTUM)
        return weight.grad.lerp(mean, _MOMENTUM)


def orthogonalise(matrices: Tensor) -> Tensor:
    """Return matrices with the same singular vectors and singular values near 1, `[k, rows, columns]`."""
    a, b, c = _COEFFICIENTS
    tall = matrices.shape[1] > matrices.shape[2]
    x = matrices.transpose(1, 2) if tall else matrices
    x = x / (x.flatten(1).norm(dim=1)[:, None, None] + 1e-7)
    for _ in range(_ROUNDS):
        square = x @ x.transpose(1, 2)
        x = a * x + (b * square + c * square @ square) @ x
    orthogonal: Tensor = x.transpose(1, 2) if tall else x
    return orthogonal


def split_weights(layers: nn.Module, network: nn.Module) -> tuple[list[Tensor], list[Tensor]]:
    """Return the matrices of linear maps inside `layers`, for Muon, and all other weights of `network`."""
    matrices: list[Tensor] = [part.weight for part in layers.modules() if isinstance(part, nn.Linear)]
    chosen = set(map(id, matrices))
    return matrices, [weight for weight in network.parameters() if id(weight) not in chosen]
