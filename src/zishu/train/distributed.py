"""Train in several processes: distribute the batches, sum the gradients, let one process write.

    torchrun --nproc-per-node 4 -m zishu train CONFIG      # or: accelerate launch -m zishu train CONFIG

    with joined() as group:                                 # the launcher's group, or a group of one
        mine = group.shard(batch, lengths)
        loss, stop = group.reduce(weights, loss, stop)      # after backward, before clipping

Every process holds all weights and the whole training set, so it knows each batch without communication. A batch is
divided by the cost of its sentences, and the loss of a share is weighted by its part of the batch's units. So the sums
of losses and gradients equal those of a single process, up to rounding. With equal gradients all processes take equal
steps. At the start of each epoch they copy the writer's weights, because different machines may round differently.

A group of one communicates nothing and changes nothing. This module does not know what a network or a run is. Failures
are not announced: a process that fails ends, the others notice (`PeerLost`), and the launcher ends them all.

Cost of a step: one sum over as many numbers as there are weights.
"""

from __future__ import annotations

import os
import time
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
import torch
from torch import Tensor, distributed

from zishu import chart
from zishu.deal import deal
from zishu.errors import ConfigError, ZishuError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

_Sentence = TypeVar("_Sentence")

WRITER = 0  # the rank that writes files and reports to the user

# The others wait while the writer scores a large dev set; that is not a failure. A process that dies ends the waiting.
_PATIENCE = timedelta(days=1)
_RELEASE = 0.2  # seconds in which gloo's threads release their tensors


class PeerLost(ZishuError):
    """Signal that another process of the group has ended, so this one cannot continue."""

    def __init__(self) -> None:
        super().__init__("another process of this training has ended")


@dataclass(frozen=True, slots=True)
class Group:
    """Describe the processes that train one network, seen from one of them."""

    rank: int = WRITER
    size: int = 1
    local_rank: int = 0  # among the processes of this machine
    local_size: int = 1

    @property
    def is_writer(self) -> bool:
        """Tell whether this process writes files and reports to the user."""
        return self.rank == WRITER

    def device(self, wanted: str) -> torch.device:
        """Return the device of this process; several processes have one GPU each, or all use the CPU."""
        try:
            device = torch.device(wanted or ("cuda" if self._enough_gpus() else "cpu"))
        except RuntimeError as error:
            raise ConfigError(f"run.device: {str(error).splitlines()[0]}") from error
        if device.type == "cuda" and not torch.cuda.is_available():
            raise ConfigError(
                f"run.device = {wanted!r}: torch finds no CUDA GPU here; leave it empty for the CPU"
            )
        if self.size == 1 or device.type == "cpu":
            return device
        if device != torch.device("cuda"):
            raise ConfigError(f"run.device: several processes share cpu or cuda, not {wanted}")
        if not self._enough_gpus():
            raise ConfigError(f"run.device: there are not {self.local_size} GPUs, one for each process")
        return torch.device("cuda", self.local_rank)

    def _enough_gpus(self) -> bool:
        return torch.cuda.is_available() and torch.cuda.device_count() >= self.local_size

    def seed(self, seed: int, step: int) -> None:
        """Set the random seed of a process other than the writer for a step.

        The writer's random state is in the checkpoint. That of the others follows from seed, step and rank, so they can
        be resumed without saving anything.
        """
        if not self.is_writer:
            state = np.random.SeedSequence((seed, step, self.rank)).generate_state(1, np.uint64)
            torch.manual_seed(int(state[0]))

    def shard(self, batch: Sequence[_Sentence], lengths: Sequence[int]) -> Sequence[_Sentence]:
        """Return this process's share of a batch of sentences with these lengths; it may be empty."""
        if self.size == 1:
            return batch
        # The cost of a sentence is between its length (a BiLSTM) and its cube (the chart), so the square is a
        # compromise.
        costs = [float(length) ** 2 for length in lengths]
        return [batch[k] for k in deal(costs, self.size)[self.rank]]

    def reduce(self, weights: Iterable[Tensor], loss: Tensor | None, stop: bool) -> tuple[float, bool]:
        """Sum the gradients in place; return the sum of the losses, and whether any process wants to stop.

        All numbers go into one flat buffer. A process without a share (`loss` is None) adds zeros. A weight that no
        process used has no gradient, as in a single process.
        """
        if self.size == 1:
            return (0.0 if loss is None else float(loss.detach())), stop
        weights = list(weights)
        used = [weight.grad is not None for weight in weights]
        value = 0.0 if loss is None else loss.detach().float().item()
        parts = [
            weight.new_zeros(weight.numel()) if weight.grad is None else weight.grad.flatten()
            for weight in weights
        ]
        buffer = torch.cat([*parts, torch.tensor([*used, stop, value], device=weights[0].device)])
        _exchange(distributed.all_reduce, buffer)
        *sums, flags = buffer.split_with_sizes([*(weight.numel() for weight in weights), len(weights) + 2])
        *users, stops, total = flags.tolist()
        for weight, summed, count in zip(weights, sums, users, strict=True):
            weight.grad = summed.view_as(weight) if count else None
        return total, stops > 0

    def spread(self, tensors: Iterable[Tensor]) -> None:
        """Copy the writer's values into tensors of the same shapes."""
        if self.size > 1:
            tensors = [tensor.detach() for tensor in tensors]
            buffer = torch.cat([tensor.flatten() for tensor in tensors])
            _exchange(distributed.broadcast, buffer, WRITER)
            sizes = [tensor.numel() for tensor in tensors]
            for tensor, values in zip(tensors, buffer.split_with_sizes(sizes), strict=True):
                tensor.copy_(values.view_as(tensor))

    def tell(self, number: float) -> float:
        """Return the writer's number; the others wait for it."""
        if self.size == 1:
            return number
        message = torch.tensor([number], dtype=torch.float64)
        _exchange(distributed.broadcast, message, WRITER)
        return message.item()

    def barrier(self) -> None:
        """Wait until all processes arrive."""
        if self.size > 1:
            # A sum on the CPU instead of torch's barrier, which would make NCCL claim GPUs.
            _exchange(distributed.all_reduce, torch.zeros(1))


ALONE = Group()


@contextmanager
def joined() -> Iterator[Group]:
    """Join the launcher's group of processes, if any, until the end of the block."""
    group = _launched(os.environ)
    if group.size == 1:
        yield group
        return
    # The processes of a machine share its cores. OMP_NUM_THREADS is no hint: torchrun sets it to 1 by itself.
    chart.set_threads(max(1, chart.get_threads() // group.local_size))
    backend = "gloo"
    if torch.cuda.is_available() and distributed.is_nccl_available():
        # Each tensor uses the backend of its device: NCCL for gradients on GPUs, gloo for numbers on the CPU.
        backend = "cpu:gloo,cuda:nccl"
        if torch.cuda.device_count() >= group.local_size:
            torch.cuda.set_device(group.local_rank)
    try:
        distributed.init_process_group(backend, rank=group.rank, world_size=group.size, timeout=_PATIENCE)
    except (RuntimeError, ValueError) as error:
        raise ZishuError(f"the processes cannot find each other: {str(error).splitlines()[0]}") from error
    yield group
    # Reached by all processes or, after an error, by none: waiting for a failed process could take forever.
    group.barrier()
    # Gloo's threads may still hold the tensors of the last exchange. If they freed them while the interpreter shuts down,
    # the process would abort.
    time.sleep(_RELEASE)
    distributed.destroy_process_group()


def _launched(environment: os._Environ[str] | dict[str, str]) -> Group:
    """Read what `torchrun` and similar launchers tell a process about its group."""
    names = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE")
    if not {"RANK", "WORLD_SIZE"} <= environment.keys():
        return ALONE
    # If only the first two are set, we assume that all processes run on one machine.
    values = [environment.get(name, environment[name.removeprefix("LOCAL_")]) for name in names]
    try:
        rank, size, local_rank, local_size = map(int, values)
    except ValueError:
        told = ", ".join(f"{name}={value}" for name, value in zip(names, values, strict=True))
        raise ZishuError(f"the environment does not describe a valid group of processes: {told}") from None
    return Group(rank, size, local_rank, local_size) if size > 1 else ALONE


def _exchange(operation: Callable[..., Any], *arguments: Any) -> None:
    """Communicate, and convert the backends' errors about a lost connection to `PeerLost`."""
    try:
        operation(*arguments)
    except RuntimeError as error:
        raise PeerLost from error
