"""Train in several processes: share the batches out, add the gradients up, let one process write.

    torchrun --nproc-per-node 4 -m zishu train CONFIG      # or: accelerate launch -m zishu train CONFIG

    with joined() as group:                                 # what the launcher started; else a group of one
        mine = group.shard(batch, lengths)
        loss, stop = group.reduce(weights, loss, stop)      # after backward, before clipping

Every process holds all the weights and the whole training set, and so knows each batch without being told. A batch is
dealt out by what its sentences cost, and the loss of a share counts by its part of the batch's units. Sums of losses
and of gradients are therefore those of the whole batch in one process, up to rounding. From equal gradients
all processes take equal steps; at the start of each epoch they take over the writer's weights, because machines of
different kinds need not round alike.

A group of one communicates nothing and changes nothing. Nothing here knows what a network or a run is. Failures are not
announced: a process that fails ends, which the others notice (`PeerLost`), and the launcher ends them all.

Cost of a step: one sum over as many numbers as there are weights.
"""

from __future__ import annotations

import os
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import distributed

from zishu import chart
from zishu.deal import deal
from zishu.errors import ConfigError, ZishuError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from numpy.typing import NDArray
    from torch import Tensor

WRITER = 0  # the rank that writes files and talks to the user

# While the writer scores a large dev set the others wait; that is no failure. A process that dies ends the waiting.
_PATIENCE = timedelta(days=1)


class PeerLost(ZishuError):
    """Another process of the group has ended, so this one cannot go on."""

    def __init__(self) -> None:
        super().__init__("another process of this training has ended")


@dataclass(frozen=True, slots=True)
class Group:
    """The processes that train one network, seen from one of them."""

    rank: int = WRITER
    size: int = 1
    local_rank: int = 0  # among the processes of this machine
    local_size: int = 1

    @property
    def is_writer(self) -> bool:
        """Tell whether this process writes files and talks to the user."""
        return self.rank == WRITER

    def device(self, wanted: str) -> torch.device:
        """Return where this process computes; of several processes each has a GPU of its own, or all use the CPU."""
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
        """Give a process that is not the writer its own random numbers for a step.

        The writer's random state goes into the checkpoint. That of the others follows from seed, step and rank, so
        they can be resumed without having saved anything.
        """
        if not self.is_writer:
            state = np.random.SeedSequence((seed, step, self.rank)).generate_state(1, np.uint64)
            torch.manual_seed(int(state[0]))

    def shard(self, batch: NDArray[np.int64], lengths: Sequence[int]) -> NDArray[np.int64]:
        """Return the examples of a batch that are this process's, maybe none; `lengths` is of all examples."""
        if self.size == 1:
            return batch
        # A sentence costs between its length (a BiLSTM) and its cube (the chart): the square stands between.
        costs = [float(lengths[example]) ** 2 for example in batch]
        return batch[deal(costs, self.size)[self.rank]]

    def reduce(self, weights: Iterable[Tensor], loss: Tensor | None, stop: bool) -> tuple[float, bool]:
        """Add up the gradients in place; return the sum of the losses, and whether any process wants to stop.

        All numbers go into one flat buffer. A process without a share (`loss` is None) adds zeros, and a weight
        that no process has used is left without a gradient, as in a single process.
        """
        if self.size == 1:
            return (0.0 if loss is None else float(loss.detach())), stop
        weights = list(weights)
        device = weights[0].device
        used = [weight.grad is not None for weight in weights]
        value = torch.zeros(1, device=device) if loss is None else loss.detach().reshape(1).float()
        parts = [
            weight.new_zeros(weight.numel()) if weight.grad is None else weight.grad.flatten()
            for weight in weights
        ]
        buffer = torch.cat([*parts, torch.tensor([*used, stop], dtype=torch.float32, device=device), value])
        with _connected():
            distributed.all_reduce(buffer)
        *sums, flags = buffer.split_with_sizes([*(weight.numel() for weight in weights), len(weights) + 2])
        *users, stops, total = flags.tolist()
        for weight, summed, count in zip(weights, sums, users, strict=True):
            weight.grad = summed.view_as(weight) if count else None
        return total, stops > 0

    def spread(self, tensors: Iterable[Tensor]) -> None:
        """Put the writer's values into tensors of the same shapes."""
        if self.size > 1:
            tensors = [tensor.detach() for tensor in tensors]
            buffer = torch.cat([tensor.flatten() for tensor in tensors])
            with _connected():
                distributed.broadcast(buffer, WRITER)
            for tensor, values in zip(
                tensors, buffer.split_with_sizes([t.numel() for t in tensors]), strict=True
            ):
                tensor.copy_(values.view_as(tensor))

    def tell(self, number: float) -> float:
        """Return the writer's number; the others wait for it."""
        if self.size == 1:
            return number
        message = torch.tensor([number], dtype=torch.float64)
        with _connected():
            distributed.broadcast(message, WRITER)
        return message.item()

    def barrier(self) -> None:
        """Wait until all processes are here."""
        if self.size > 1:
            # A sum on the CPU, not torch's own barrier, which would make NCCL claim GPUs to wait with.
            with _connected():
                distributed.all_reduce(torch.zeros(1))


ALONE = Group()


@contextmanager
def joined() -> Iterator[Group]:
    """Join the group of processes that a launcher started this one in, if any, until the end of the block."""
    group = _launched(os.environ)
    if group.size == 1:
        yield group
        return
    # The processes of a machine share its cores. OMP_NUM_THREADS says nothing: torchrun sets it to 1 by itself.
    chart.set_threads(max(1, chart.get_threads() // group.local_size))
    backend = "gloo"
    if torch.cuda.is_available() and distributed.is_nccl_available():
        # Each tensor by the backend of its device: gradients on GPUs by NCCL, numbers on the CPU by gloo.
        backend = "cpu:gloo,cuda:nccl"
        if torch.cuda.device_count() >= group.local_size:
            torch.cuda.set_device(group.local_rank)
    try:
        distributed.init_process_group(backend, rank=group.rank, world_size=group.size, timeout=_PATIENCE)
    except (RuntimeError, ValueError) as error:
        raise ZishuError(f"the processes do not find each other: {str(error).splitlines()[0]}") from error
    yield group
    # Reached by all or, after an error, by none: waiting for a process that failed could take for ever.
    group.barrier()
    distributed.destroy_process_group()


def _launched(environment: os._Environ[str] | dict[str, str]) -> Group:
    """Read what `torchrun` and its like tell a process about its group."""
    names = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE")
    if not {"RANK", "WORLD_SIZE"} <= environment.keys():
        return ALONE
    # Who sets only the first two is taken to start all processes on one machine.
    values = [environment.get(name, environment[name.removeprefix("LOCAL_")]) for name in names]
    try:
        rank, size, local_rank, local_size = map(int, values)
    except ValueError:
        told = ", ".join(f"{name}={value}" for name, value in zip(names, values, strict=True))
        raise ZishuError(f"the environment names no group of processes: {told}") from None
    return Group(rank, size, local_rank, local_size) if size > 1 else ALONE


@contextmanager
def _connected() -> Iterator[None]:
    """Turn what the backends say about a lost connection into `PeerLost`."""
    try:
        yield
    except RuntimeError as error:
        raise PeerLost from error
