"""Measure the parser as people use it, and UDPipe 1 if it is installed: one table, then start-up time and memory.

    python bench/parse.py TEXT.conllu [--model default --model fast] [--processes 2] [--repeat 3] [--udpipe MODEL.udpipe]

The text is that of the sentences of a CoNLL-U file, or any other file with one sentence per line. Every system runs one
process per core, each with its share of the sentences, from loaded model to CoNLL-U text. Systems take turns. The ratio
compares the shortest CPU times, because other programs on the machine affect the elapsed time more. UDPipe needs
the package `ufal.udpipe`, and a model such as the one in the package `udchinese`. The last lines are the start of the
command, with and without compiled kernels, and the memory of one process while it parses a million characters.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import resource
import statistics
import subprocess
import sys
import sysconfig
import tempfile
import time
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from multiprocessing.connection import Connection
    from multiprocessing.synchronize import Barrier

    Parse = Callable[[Sequence[str]], object]

_PATIENCE = 600  # seconds
SAMPLE = "我昨天在图书馆借了两本书。"


def load_zishu(model: str | None, *, confidence: bool) -> Parse:
    """Return our parser on one thread."""
    import zishu
    from zishu import chart

    chart.set_threads(1)
    parser = zishu.load(model, threads=1)

    def parse(sentences: Sequence[str]) -> object:
        return [document.to_conllu() for document in parser.pipe(sentences, confidence=confidence)]

    return parse


def load_words(model: str | None) -> Parse:
    """Return our parser on one thread, for words only."""
    import zishu
    from zishu import chart

    chart.set_threads(1)
    parser = zishu.load(model, threads=1)
    return lambda sentences: " ".join(parser.segment("\n".join(sentences)))


def load_udpipe(model: str) -> Parse:
    """Return UDPipe 1 with its own tokenizer and given sentence boundaries."""
    from ufal.udpipe import Model, Pipeline

    loaded = Model.load(model)
    if loaded is None:
        raise SystemExit(f"{model}: not a model of UDPipe")
    pipeline = Pipeline(loaded, "tokenizer=presegmented", Pipeline.DEFAULT, Pipeline.DEFAULT, "conllu")
    pipeline.model = loaded  # the pipeline does not keep it alive by itself
    return lambda sentences: pipeline.process("\n".join(sentences))


def work(load: Callable[[], Parse], sentences: list[str], barrier: Barrier, answer: Connection) -> None:
    """Load a parser, warm it up, wait for the others, parse."""
    try:
        parse = load()
        loaded = resident()
        parse(sentences[:20])
        barrier.wait(_PATIENCE)
        started = time.process_time()
        parse(sentences)
        used = time.process_time() - started
        barrier.wait(_PATIENCE)
    except BaseException:
        barrier.abort()  # otherwise the others would wait for this one
        raise
    answer.send((used, loaded, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024))


def resident() -> float:
    """Return the memory of this process in megabytes; where the system does not report it, the peak memory."""
    status = Path("/proc/self/statm")
    if status.exists():
        return int(status.read_text().split()[1]) * resource.getpagesize() / 2**20
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def measure(
    load: Callable[[], Parse], sentences: Sequence[str], processes: int
) -> tuple[float, float, float, float]:
    """Return characters per second and CPU time per character of all processes, and the memory of the largest.

    Memory is in megabytes: after loading the model, and at its peak.
    """
    context = multiprocessing.get_context("spawn")
    barrier = context.Barrier(processes + 1)
    pipes = [context.Pipe(duplex=False) for _ in range(processes)]
    workers = [
        context.Process(target=work, args=(load, list(sentences[k::processes]), barrier, answer))
        for k, (_, answer) in enumerate(pipes)
    ]
    for worker in workers:
        worker.start()
    barrier.wait(_PATIENCE)
    started = time.perf_counter()
    barrier.wait(_PATIENCE)
    seconds = time.perf_counter() - started
    for worker in workers:
        worker.join()
    used, loaded, memory = zip(*(answer.recv() for answer, _ in pipes), strict=True)
    chars = sum(map(len, sentences))
    return chars / seconds, sum(used) / chars, max(loaded), max(memory)


def best_time(command: Sequence[str], repeat: int, **variables: str) -> str:
    """Describe the fastest of several runs of a command: elapsed and CPU time in seconds."""
    times = []
    for _ in range(repeat):
        started, before = time.perf_counter(), resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run(command, check=True, capture_output=True, env={**os.environ, **variables})
        elapsed, after = time.perf_counter() - started, resource.getrusage(resource.RUSAGE_CHILDREN)
        used = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
        times.append((elapsed, used))
    return f"{min(times)[0]:.2f} s (CPU {min(used for _, used in times):.2f} s)"


def watch_memory(model: str | None, sentences: list[str], answer: Connection) -> None:
    """Parse a million characters in one process; send its memory at each quarter, in megabytes."""
    parse = load_zishu(model, confidence=True)
    sizes = [resident()]
    chars = 0
    while len(sizes) < 5:
        parse(sentences)
        chars += sum(map(len, sentences))
        while len(sizes) < 5 and chars >= len(sizes) * 250_000:
            sizes.append(resident())
    answer.send(sizes)


def read_sentences(path: Path) -> list[str]:
    """Return the text of every sentence of a file."""
    if path.suffix != ".conllu":
        return [line for line in path.read_text(encoding="utf-8").splitlines() if line.strip()]
    from zishu.formats.conllu import read_conllu

    return [sentence.text for sentence in read_conllu(path)]


def main() -> None:
    """Measure and print."""
    options = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    options.add_argument("text", type=Path)
    options.add_argument(
        "--model", action="append", help="may be given several times (default: the bundled model)"
    )
    options.add_argument("--processes", type=int, default=2)
    options.add_argument("--repeat", type=int, default=3)
    options.add_argument("--udpipe", help="a model of UDPipe 1")
    given = options.parse_args()
    sentences = read_sentences(given.text)
    print(f"{len(sentences)} sentences, {sum(map(len, sentences))} characters, {given.processes} processes")

    models = given.model or [None]
    systems: dict[str, Callable[[], Parse]] = {}
    for model in models:
        for confidence, what in ((True, "all probabilities"), (False, "no probabilities")):
            systems[f"{model or 'default'}, {what}"] = partial(load_zishu, model, confidence=confidence)
        systems[f"{model or 'default'}, words only"] = partial(load_words, model)
    if given.udpipe:
        systems["UDPipe 1"] = partial(load_udpipe, given.udpipe)
    runs: dict[str, list[tuple[float, float, float, float]]] = {name: [] for name in systems}
    for _ in range(given.repeat):
        for name, load in systems.items():
            runs[name].append(measure(load, sentences, given.processes))
    least = {name: min(used for _, used, _, _ in its) for name, its in runs.items()}
    print(
        f"{'':36}{'characters/s':>14}{'CPU us/character':>18}{'MB loaded':>11}{'MB at most':>12}"
        f"{'times UDPipe 1' if given.udpipe else '':>16}"
    )
    for name, its in runs.items():
        speed = statistics.median(speed for speed, _, _, _ in its)
        loaded, memory = (max(run[k] for run in its) for k in (2, 3))
        row = f"{name:36}{speed:14,.0f}{1e6 * least[name]:18.1f}{loaded:11.0f}{memory:12.0f}"
        print(row + (f"{least['UDPipe 1'] / least[name]:16.2f}" if given.udpipe else ""))

    command = [str(Path(sysconfig.get_path("scripts")) / "zishu"), "parse", SAMPLE]
    command += ["--model", given.model[0]] if given.model else []
    imports = [sys.executable, "-c", "import zishu"]
    print(f"zishu parse, start to end  {best_time(command, given.repeat)}")
    print(f"import zishu, with Python  {best_time(imports, given.repeat)}")
    with tempfile.TemporaryDirectory() as folder:
        print(f"zishu parse, first compile {best_time(command, 1, NUMBA_CACHE_DIR=folder)}")
    context = multiprocessing.get_context("spawn")
    receiver, sender = context.Pipe(duplex=False)
    process = context.Process(target=watch_memory, args=(models[0], sentences, sender))
    process.start()
    sizes = ", ".join(f"{size:.0f}" for size in receiver.recv())
    process.join()
    print(f"memory, every 250,000 characters up to a million  {sizes} MB")


if __name__ == "__main__":
    main()
