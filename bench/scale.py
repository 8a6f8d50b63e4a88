"""Measure the figures of docs/scale.md: speed and memory by sentence length and by workers, and the cost of a corpus.

    python bench/scale.py TEXT [--model M] [--workers 2] [--repeat 3] [--characters 40000] [--update docs/scale.md]

TEXT is plain text, or CoNLL-U, whose sentences are used as text. The program prints tables in Markdown; `--update` writes
them into a file, between `<!-- measured: NAME -->` and `<!-- end -->`. Every worker is a process with one thread, and its
speed is that of its CPU time. Run it on a quiet machine all the same: the table of costs depends on the measured speed.

If Ray is installed, it parses the text in several files, as `zishu parse --engine ray` does. Compared with plain
processes, Ray only adds the time that it takes to start.
"""

from __future__ import annotations

import argparse
import gzip
import os
import platform
import re
import statistics
import tempfile
import time
from dataclasses import replace
from functools import partial
from itertools import cycle, islice
from pathlib import Path
from typing import TYPE_CHECKING

from parse import load_zishu, measure, read_sentences
from zishu.analysis.tables import Table

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from parse import Parse

LENGTHS = (16, 32, 64, 128, 256, 384, 512)
CORPORA = {"1 million": 10**6, "1 billion": 10**9, "100 billion": 10**11}
FILES = 8  # number of files for Ray


def load_bare(model: str | None, *, confidence: bool) -> Parse:
    """Return the model without the sentence splitter, which would cut long sentences."""
    import zishu
    from zishu import chart
    from zishu.sentences import word_sentence

    def parse(sentences: Sequence[str]) -> object:
        raw = [replace(word_sentence([sentence]), gaps=None) for sentence in sentences]
        return parser.model.parse(raw, confidence=confidence)

    chart.set_threads(1)
    parser = zishu.load(model, threads=1)
    return parse


def pieces(sentences: Sequence[str], length: int, total: int) -> list[str]:
    """Return sentences of exactly this length, made of the characters of the text, at least `total` characters in all."""
    text = "".join(char for sentence in sentences for char in sentence if not char.isspace())
    count = max(8, total // length)
    stream = cycle(text)
    return ["".join(islice(stream, length)) for _ in range(count)]


def repeated(sentences: Sequence[str], total: int) -> list[str]:
    """Repeat the sentences of the text until there are `total` characters."""
    found: list[str] = []
    size = 0
    for sentence in cycle(sentences):
        if size >= total:
            break
        found.append(sentence)
        size += len(sentence)
    return found


def best(
    load: Callable[[], Parse], sentences: Sequence[str], workers: int, repeat: int
) -> tuple[float, float]:
    """Return the best speed of some runs, in characters per second on a core of its own, and the largest memory.

    A worker has one thread and never waits, so its speed follows from its CPU time, which other programs disturb less.
    """
    runs = [measure(load, sentences, workers) for _ in range(repeat)]
    return 1 / min(used for _, used, _, _ in runs), max(run[-1] for run in runs)


def by_length(sentences: Sequence[str], model: str | None, total: int, repeat: int) -> str:
    """Measure one worker on sentences of one length."""
    rows = []
    for length in LENGTHS:
        given = pieces(sentences, length, total)
        sure, memory = best(partial(load_bare, model, confidence=True), given, 1, repeat)
        bare, _ = best(partial(load_bare, model, confidence=False), given, 1, repeat)
        rows.append(
            [str(length), f"{sure:,.0f}", f"{bare:,.0f}", f"{1000 * length / sure:,.1f}", f"{memory:,.0f}"]
        )
    head = [
        "characters in a sentence",
        "characters/s",
        "without confidence",
        "ms per sentence",
        "MB per worker",
    ]
    return Table(head, rows).to_markdown()


def by_workers(
    sentences: Sequence[str], model: str | None, most: int, repeat: int
) -> tuple[str, float, float]:
    """Measure several workers at once; return the table, the speed per worker with all of them, and their memory."""
    rows = []
    speed = memory = first = 0.0
    for workers in range(1, most + 1):
        load = partial(load_zishu, model, confidence=True)
        # Each worker gets the same work, so that all run side by side to the end.
        speed, memory = best(load, sentences * workers, workers, repeat)
        first = first or speed
        total = f"{workers * speed:,.0f}"
        rows.append([str(workers), total, f"{speed:,.0f}", f"{speed / first:.0%}", f"{memory:,.0f}"])
    head = ["workers", "characters/s together", "characters/s per core", "of one alone", "MB per worker"]
    return Table(head, rows).to_markdown(), speed, memory


def start_and_output(sentences: Sequence[str], model: str | None) -> str:
    """Measure the start-up time of a worker, and the size of the output per character."""
    import subprocess
    import sys

    import zishu

    code = f"import zishu; zishu.load({model!r}, threads=1)('我喜欢北京。')"
    times = []
    for _ in range(3):
        began = time.perf_counter()
        subprocess.run([sys.executable, "-c", code], check=True)
        times.append(time.perf_counter() - began)
    text = "\n".join(sentences)
    document = zishu.load(model, threads=1)(text)
    rows = [["start of a worker until its first sentence, seconds", f"{min(times):.1f}"]]
    rows.append(["input, bytes per character", f"{len(text.encode()) / len(text):.1f}"])
    for name, output in [("CoNLL-U", document.to_conllu()), ("JSON", document.to_json())]:
        data = output.encode()
        rows.append([f"{name}, bytes per character", f"{len(data) / len(text):.0f}"])
        rows.append([f"{name} with gzip, bytes per character", f"{len(gzip.compress(data)) / len(text):.1f}"])
    return Table(["", "measured"], rows).to_markdown()


def costs(speed: float, memory: float) -> str:
    """Compute the cost of corpora at a speed in characters per second and core."""
    rows = []
    for name, size in CORPORA.items():
        seconds = size / speed
        rows.append([name, f"{seconds / 3600:,.1f}" if seconds > 360 else f"{seconds / 3600:.3f}"])
        for cores in (2, 64, 1000):
            rows[-1].append(duration(seconds / cores))
        rows[-1].append(f"{100 * memory * 1.2 / 1024:,.0f}")
    head = [
        "characters",
        "core-hours",
        "on 2 cores",
        "on 64 cores",
        "on 1,000 cores",
        "GB of memory for 100 workers",
    ]
    return Table(head, rows).to_markdown()


def duration(seconds: float) -> str:
    """Format a time in readable units."""
    for unit, size in [("days", 86_400), ("h", 3600), ("min", 60)]:
        if seconds >= 2 * size:
            return f"{seconds / size:,.1f} {unit}"
    return f"{seconds:.1f} s"


def on_ray(sentences: Sequence[str], model: str | None, most: int) -> str:
    """Parse the text in files with Ray, from a cold start, for each number of workers."""
    from zishu.corpus import Watcher, parse_files

    class Clock(Watcher):
        began = ended = 0.0

        def begin(self, *_: object) -> None:
            self.began = time.perf_counter()

        def advance(self, *_: object) -> None:
            self.ended = time.perf_counter()

    rows = []
    with tempfile.TemporaryDirectory() as name:
        corpus = Path(name, "corpus")
        corpus.mkdir()
        for k in range(FILES):
            (corpus / f"{k}.txt").write_text("\n".join(sentences[k::FILES]), encoding="utf-8")
        for workers in range(1, most + 1):
            clock, began = Clock(), time.perf_counter()
            summary = parse_files(
                corpus, f"{name}/out-{workers}", model=model, jobs=workers, engine="ray", watcher=clock
            )
            start = clock.began - began
            speed = summary.characters / (clock.ended - clock.began)
            rows.append([str(workers), f"{start:.1f}", f"{speed:,.0f}", f"{time.perf_counter() - began:.1f}"])
    head = ["workers", "start of Ray, s", "characters/s together, including loading the models", "all, s"]
    return Table(head, rows).to_markdown()


def update(path: Path, tables: dict[str, str]) -> None:
    """Write tables into the marked places of a file."""
    text = path.read_text(encoding="utf-8")
    for name, content in tables.items():
        place = re.compile(rf"(<!-- measured: {name} -->\n).*?(<!-- end -->)", re.DOTALL)
        if not place.search(text):
            raise SystemExit(f"{path}: has no place for the table {name}")
        text = place.sub(lambda match, content=content: f"{match[1]}{content}\n{match[2]}", text)  # type: ignore[misc]
    path.write_text(text, encoding="utf-8")


def processor() -> str:
    """Return the name of the processor, if the system reports it."""
    try:
        found = re.search(r"model name\s*:\s*(.+)", Path("/proc/cpuinfo").read_text(encoding="utf-8"))
    except OSError:
        found = None
    return found[1] if found else platform.processor() or platform.machine()


def main() -> None:
    """Measure and print."""
    options = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    options.add_argument("text", type=Path)
    options.add_argument("--model")
    options.add_argument("--workers", type=int, default=2)
    options.add_argument("--repeat", type=int, default=3)
    options.add_argument(
        "--characters", type=int, default=40_000, help="characters that each worker parses in each run"
    )
    options.add_argument("--update", type=Path, metavar="FILE")
    given = options.parse_args()
    sentences = repeated(read_sentences(given.text), given.characters)

    tables: dict[str, str] = {}

    def show(name: str, content: str) -> None:
        tables[name] = content
        print(f"\n{name}\n\n{content}", flush=True)

    length = statistics.mean(map(len, sentences))
    best = "one run" if given.repeat == 1 else f"the best of {given.repeat} runs"
    show(
        "machine",
        f"{processor()}, {os.cpu_count()} cores, Python {platform.python_version()}; {sum(map(len, sentences)):,} "
        f"characters of `{given.text.name}` per worker, {length:.0f} characters per sentence on average; "
        f"{best}, by CPU time; {time.strftime('%Y-%m-%d')}.",
    )
    workers, speed, memory = by_workers(sentences, given.model, given.workers, given.repeat)
    show("workers", workers)
    show("costs", costs(speed, memory))
    show("lengths", by_length(sentences, given.model, given.characters, given.repeat))
    show("start", start_and_output(sentences, given.model))
    try:
        import ray  # noqa: F401
    except ImportError:
        print("\nray is not installed: its table is left out")
    else:
        show("ray", on_ray(sentences * given.workers, given.model, given.workers))
    if given.update:
        update(given.update, tables)


if __name__ == "__main__":
    main()
