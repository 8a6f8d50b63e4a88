"""Time the chart: the Numba kernels against the batched torch backend, on the CPU.

    python bench/chart.py [--quick]

Every batch has 1,024 characters in sentences of one length, with float32 scores of both roles. The benchmark times
the log partition with its gradient, the best tree, and the log partition of gold forests (random words with a
random projective tree) against that of all trees. All candidates take turns after a warm-up, and the best of
several rounds counts. Torch and Numba have the same number of threads.

The work of the recursions is known: six vector products for each span, 6 SUM_w w (n - w) = n^3 - n multiply-adds for
the inside pass over n characters, and twice as many again for the gradient. The last table compares the speed of the
kernels with plain dot products of vectors that stay in the cache. Logarithms, exponentials and the preparation of scores
do not count as work, but their time counts.
"""

from __future__ import annotations

import argparse
import os
import platform
import time
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numba
import numpy as np
import torch

from zishu import chart
from zishu.chart import TreeDistribution
from zishu.forest import build_forest
from zishu.train import torch_chart
from zishu.tree import INTRA, WordTree

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

CHARACTERS = 1024
LENGTHS = (16, 32, 64, 128, 256)
TURN = 0.03  # seconds: a fast function is called several times in its turn
IDLE = 0.01  # seconds until the waiting threads of the previous function release their cores
LABELS = {INTRA: 0, "dep": 1}

Work = dict[str, "Callable[[], Any]"]
Times = dict[str, float]


def main() -> None:
    """Measure and print all tables."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="two rounds, sentences of up to 64 characters")
    options = parser.parse_args()
    lengths = [n for n in LENGTHS if n <= 64] if options.quick else LENGTHS
    rounds = 2 if options.quick else 7
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    threads = sorted({1, min(2, cores), cores})
    print(f"{platform.processor() or platform.machine()}, {cores} cores, numba {numba.__version__}", end=", ")
    print(
        f"torch {torch.__version__}; batches of {CHARACTERS} characters, best of {rounds} rounds, ms per batch"
    )

    if hasattr(os, "getloadavg") and (load := os.getloadavg()[0]) > 0.5:
        print(
            f"Other programs are running (load {load:.1f}): the times below are too long, some more than others."
        )

    times: dict[tuple[int, int], Times] = {}
    for count in threads:
        chart.set_threads(count)
        torch.set_num_threads(count)
        for n in lengths:
            times[count, n] = measure(contenders(n, np.random.default_rng(n)), rounds)
    for count in threads:
        print_backends(count, lengths, times)
    print_forests(threads[-1], lengths, times)
    if len(threads) > 1:
        print_scaling(threads, lengths, times)
    print_work(threads, lengths, times)


def contenders(n: int, random: np.random.Generator) -> Work:
    """Prepare a batch of sentences of n characters and the functions to time on it."""
    batch = CHARACTERS // n
    inter, intra = random.normal(size=(2, batch, n + 1, n + 1)).astype(np.float32)
    lengths = np.full(batch, n)
    gold_inter, gold_intra, gaps = gold_forests(inter, intra, random)
    t_inter, t_intra = torch.tensor(inter).requires_grad_(), torch.tensor(intra).requires_grad_()
    t_lengths = torch.tensor(lengths)

    def torch_gradient() -> Any:
        logz = torch_chart.TreeDistribution(t_inter, t_lengths, t_intra).log_partition()
        return torch.autograd.grad(logz.sum(), (t_inter, t_intra))

    # Every call makes a new distribution, because a distribution caches its results.
    def everything() -> TreeDistribution:
        return TreeDistribution(inter, lengths, intra)

    def forest() -> TreeDistribution:
        return TreeDistribution(gold_inter, lengths, gold_intra, gaps)

    return {
        "numba gradient": lambda: everything().marginals(),
        "torch gradient": torch_gradient,
        "numba best": lambda: everything().best(),
        "torch best": lambda: torch_chart.TreeDistribution(t_inter, t_lengths, t_intra).best(),
        "numba partition": lambda: everything().log_partition(),
        "forest partition": lambda: forest().log_partition(),
        "forest gradient": lambda: forest().marginals(),
    }


def measure(work: Work, rounds: int) -> Times:
    """Return the shortest time of each function; they take turns, so that a busy moment hits all of them."""
    for function in work.values():
        function()
    best = dict.fromkeys(work, float("inf"))
    for _ in range(rounds):
        for name, function in work.items():
            time.sleep(IDLE)
            begin = time.perf_counter()
            while True:
                start = time.perf_counter()
                function()
                end = time.perf_counter()
                best[name] = min(best[name], end - start)
                if end - begin > TURN:
                    break
    return best


def gold_forests(
    inter: NDArray[np.float32], intra: NDArray[np.float32], random: np.random.Generator
) -> tuple[NDArray[np.float32], NDArray[np.float32], NDArray[np.int8]]:
    """Forbid all arcs but those of a random word tree for each sentence; return the scores and the gaps."""
    gold_inter, gold_intra = np.full_like(inter, -np.inf), np.full_like(intra, -np.inf)
    gaps = np.zeros(inter.shape[:2], dtype=np.int8)
    for b in range(len(inter)):
        forest = build_forest(random_words(inter.shape[1] - 1, random), LABELS)
        gaps[b] = forest.gaps
        for gold, scores, inside in ((gold_inter, inter, False), (gold_intra, intra, True)):
            dependents, heads, _ = forest.arcs(intra=inside)
            gold[b, dependents, heads] = scores[b, dependents, heads]
    return gold_inter, gold_intra, gaps


def random_words(n: int, random: np.random.Generator) -> WordTree:
    """Cut n characters into words, most of one or two characters, and give them a random projective tree."""
    sizes: list[int] = []
    while sum(sizes) < n:
        sizes.append(min(int(random.choice(4, p=[0.45, 0.4, 0.1, 0.05])) + 1, n - sum(sizes)))
    heads = [0] * len(sizes)
    parts = [(0, len(sizes), 0)]  # words from, to, and the head of that part's root
    while parts:
        start, end, head = parts.pop()
        root = int(random.integers(start, end))
        heads[root] = head
        for low, high in ((start, root), (root + 1, end)):
            inner = random.random(max(high - low - 1, 0)) < 0.2
            cuts = [low, *(low + 1 + np.flatnonzero(inner)).tolist(), high]
            parts += [(i, j, root + 1) for i, j in pairwise(cuts) if i < j]
    return WordTree(tuple("字" * size for size in sizes), tuple(heads), ("dep",) * len(sizes))


@numba.njit(fastmath=True, nogil=True)
def _dots(x: NDArray[np.float64], y: NDArray[np.float64], repeats: int) -> float:
    total = 0.0
    for r in range(repeats):
        x[0] = r  # otherwise the compiler may compute the product only once
        for k in range(x.size):
            total += x[k] * y[k]
    return total


def peak(threads: int) -> float:
    """Return the multiply-adds per second of dot products of 512 float64 numbers, on this many threads."""
    repeats = 200_000
    vectors = [(np.ones(512), np.ones(512)) for _ in range(threads)]
    with ThreadPoolExecutor(threads) as pool:
        run = {"dots": lambda: list(pool.map(lambda pair: _dots(pair[0], pair[1], repeats), vectors))}
        return threads * repeats * 512 / measure(run, 5)["dots"]


def print_table(title: str, header: list[str], rows: list[list[str]]) -> None:
    """Print aligned columns, with numbers to the right."""
    widths = [max(map(len, column)) for column in zip(header, *rows, strict=True)]
    print(f"\n{title}")
    for row in (header, *rows):
        print("  " + "   ".join(cell.rjust(width) for cell, width in zip(row, widths, strict=True)))


def print_backends(count: int, lengths: Any, times: dict[tuple[int, int], Times]) -> None:
    """Print both backends side by side."""
    rows = []
    for n in lengths:
        t = times[count, n]
        row = [str(n)]
        for task in ("gradient", "best"):
            numba_time, torch_time = t[f"numba {task}"], t[f"torch {task}"]
            row += [f"{1e3 * numba_time:.2f}", f"{1e3 * torch_time:.1f}", f"{torch_time / numba_time:.0f}x"]
        rows.append(row)
    header = ["length", "gradient numba", "torch", "ratio", "best tree numba", "torch", "ratio"]
    print_table(f"Partition with gradient, and best tree; threads: {count}", header, rows)


def print_forests(count: int, lengths: Any, times: dict[tuple[int, int], Times]) -> None:
    """Print the times of gold forests."""
    rows = []
    for n in lengths:
        t = times[count, n]
        row = [str(n)]
        for full, forest in (("numba partition", "forest partition"), ("numba gradient", "forest gradient")):
            row += [f"{1e3 * t[full]:.2f}", f"{1e3 * t[forest]:.2f}", f"{t[forest] / t[full]:.3f}"]
        rows.append(row)
    header = ["length", "partition", "forest", "share", "gradient", "forest", "share"]
    print_table(f"Gold forest against all trees, numba; threads: {count}", header, rows)


def print_scaling(threads: list[int], lengths: Any, times: dict[tuple[int, int], Times]) -> None:
    """Print how many times faster several threads are than one."""
    tasks = ("numba gradient", "numba best", "torch gradient", "torch best")
    rows = [
        [str(count), str(n), *(f"{times[1, n][task] / times[count, n][task]:.2f}x" for task in tasks)]
        for count in threads[1:]
        for n in lengths
    ]
    print_table("Speed-up over one thread", ["threads", "length", *tasks], rows)


def print_work(threads: list[int], lengths: Any, times: dict[tuple[int, int], Times]) -> None:
    """Compare the multiply-adds of the recursions with those of dot products."""
    rows = []
    for count in threads:
        best = peak(count)
        for n in lengths:
            inside = CHARACTERS // n * (n**3 - n)
            row = [str(count), str(n)]
            for task, operations in (("partition", inside), ("gradient", 3 * inside), ("best", inside)):
                rate = operations / times[count, n][f"numba {task}"]
                row += [f"{rate / 1e9:.2f}", f"{rate / best:.0%}"]
            rows.append([*row, f"{best / 1e9:.2f}"])
    header = [
        "threads",
        "length",
        "partition",
        "share",
        "gradient",
        "share",
        "best tree",
        "share",
        "dot product",
    ]
    print_table(
        "Work of the recursions, 10^9 multiply-adds per second, and as a share of dot products", header, rows
    )


if __name__ == "__main__":
    main()
