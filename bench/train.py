"""Measure a training step: characters per second, and where the time goes.

    python bench/train.py CONFIG.toml [--set key=value ...] [--steps 20]

Parts are timed in a real training step, by wrapping their functions; the rest is "other". Without a
configuration, the benchmark uses a random treebank and a BiLSTM of two layers of 300. Run it on a quiet machine.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from collections import defaultdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from zishu import chart
from zishu.formats.conllu import from_tree, write_conllu
from zishu.train import loop, torch_chart
from zishu.train import network as networks
from zishu.train.config import config_from_dict, load_config
from zishu.train.data import epoch_batches, make_examples, read_treebank
from zishu.train.distributed import ALONE
from zishu.train.initial import new_network
from zishu.tree import WordTree

if TYPE_CHECKING:
    from collections.abc import Callable

    from zishu.train.config import Config

PARTS = ("data", "encoder", "scorer", "labels", "chart", "backward", "optimiser")


class Clock:
    """Add up the time that named parts of a step take; a part inside another one is not counted twice."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = defaultdict(float)
        self._stack: list[list[Any]] = []

    def wrap(self, name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        """Return the function with its time counted under a name."""

        def timed(*args: Any, **kwargs: Any) -> Any:
            started = time.perf_counter()
            self._stack.append([name, 0.0])
            try:
                return function(*args, **kwargs)
            finally:
                total = time.perf_counter() - started
                _, inner = self._stack.pop()
                self.seconds[name] += total - inner
                if self._stack:
                    self._stack[-1][1] += total

        return timed


def main() -> None:
    """Run the measurement and print a table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("config", nargs="?")
    parser.add_argument("--set", action="append", default=[], dest="overrides")
    parser.add_argument("--steps", type=int, default=20)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        config = (
            load_config(arguments.config, arguments.overrides) if arguments.config else _made_up(Path(folder))
        )
        _measure(config, arguments.steps)


def _measure(config: Config, steps: int) -> None:
    threads = config.run.threads or chart.get_threads()
    torch.set_num_threads(threads)
    chart.set_threads(threads)
    treebank, problems = read_treebank(config)
    torch.manual_seed(config.seed)
    run = loop._begin(config, ALONE, new_network(config, treebank))
    examples = make_examples(config, run.network, treebank, problems)
    batches = epoch_batches(config, examples, 0)
    network, clock = run.network, Clock()
    networks.features = clock.wrap("data", networks.features)
    networks.collate = clock.wrap("data", networks.collate)
    network.encoder.forward = clock.wrap("encoder", network.encoder.forward)
    if config.task != "segment":
        network._label_scores = clock.wrap("labels", network._label_scores)
        network.arcs.forward = clock.wrap("scorer", network.arcs.forward)
        for name in ("arc_dep", "arc_head", "label_dep", "label_head"):
            projection = getattr(network, name)
            projection.forward = clock.wrap("scorer", projection.forward)
        torch_chart._LogPartition.forward = clock.wrap("chart", torch_chart._LogPartition.forward)
    network.train()
    times, chars = [], []
    for step in range(steps + 3):
        if step == 3:  # the first steps compile code and allocate memory
            clock.seconds.clear()
        started = time.perf_counter()
        batch = batches[step % len(batches)]
        run.optimiser.zero_grad(set_to_none=True)
        loss = network.loss(batch)
        clock.wrap("backward", loss.backward)()
        clock.wrap("optimiser", _optimise)(run)
        if step >= 3:
            times.append(time.perf_counter() - started)
            chars.append(sum(example.length for example in batch))
    total = sum(times)
    print(f"{config.name}: encoder {config.encoder.kind}, {threads} threads, {steps} steps")
    print(
        f"{sum(chars) / total:,.0f} characters per second, {1000 * statistics.median(times):.0f} ms per step"
    )
    for part in PARTS:
        print(f"  {part:<10} {100 * clock.seconds[part] / total:5.1f} %")
    print(f"  {'other':<10} {100 * (1 - sum(clock.seconds.values()) / total):5.1f} %")
    print("chart: inside and outside, for all trees and for the forest; backward: encoder, scorer and labels")


def _optimise(run: loop._Run) -> None:
    torch.nn.utils.clip_grad_norm_(run.network.parameters(), run.config.optimiser.clip)
    run.optimiser.step()


def _made_up(folder: Path) -> Config:
    """Return a configuration with a treebank of random words whose lengths are those of Chinese news."""
    random = np.random.default_rng(0)
    characters = [chr(0x4E00 + k) for k in range(3000)]
    path = folder / "train.conllu"
    with path.open("w", encoding="utf-8") as stream:
        for _ in range(300):
            sizes = random.choice([1, 2, 3, 4], size=random.integers(8, 45), p=[0.51, 0.43, 0.04, 0.02])
            forms = tuple("".join(random.choice(characters, size)) for size in sizes)
            heads = (0, *(int(k) for k in range(1, len(forms))))
            labels = ("root", *random.choice([f"label{k}" for k in range(40)], len(forms) - 1).tolist())
            write_conllu([from_tree(WordTree(forms, heads, labels, ("NOUN",) * len(forms)))], stream)
    return config_from_dict(
        {
            "name": "made-up",
            "data": {"train": str(path), "dev": str(path)},
            "encoder": {"kind": "bilstm", "layers": 2, "hidden": 300},
        }
    )


if __name__ == "__main__":
    main()
