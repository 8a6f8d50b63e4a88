"""Measure the service under load: throughput and CPU time compared with the offline parser, correctness, latency, memory.

    python bench/serve.py TEXT.conllu [--clients 64] [--requests 2000] [--texts 1] [--workers 2] [--model M]
    python bench/serve.py TEXT.conllu --requests 20000            # does memory grow?
    python bench/serve.py TEXT.conllu --hostile                   # with a hostile client

The text is that of the sentences of a CoNLL-U file, or any other file with one sentence per line. `zishu serve` runs as a
command on a free port of this machine. Clients keep their connections open and send a request as soon as they have the
previous answer. After a 503 they wait and try again; these are counted. Every answer must equal that of the offline
parser: the same trees, and the same probabilities except for the last digits, which depend on the batch. The offline
parser has as many processes as the service has workers. It is measured before and after the service in the same run,
because a busy machine slows down both. Clients and service share the cores, so the elapsed time of the service includes
that of the clients; its CPU time does not. A second run sends requests at fixed times, half as many per second as the first
run had answers, and measures latency from the time at which a request was due.

With `--hostile`, another process attacks the service all the time: it sends the most expensive requests that the
limits allow, opens idle connections, stops in the middle of request heads, and sends large bodies slowly. There is no
second run then.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import math
import os
import re
import statistics
import subprocess
import sys
import threading
import time
from collections import Counter, defaultdict
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass, field
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

_PATIENCE = 600  # seconds
_TOLERANCE = 2e-4
_HEAD = "POST /v1/parse HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
_SAMPLE = "我昨天在图书馆借了两本书。"


class Speed(NamedTuple):
    """Hold characters per second, and CPU seconds per character."""

    chars: float
    cpu: float


# ---- offline


def load_offline(model: str | None, threads: int) -> None:
    """Load the parser of a process."""
    global _parser
    import zishu
    from zishu import chart

    chart.set_threads(threads)
    _parser = zishu.load(model, threads=threads)
    _parser(_SAMPLE)


def parse_offline(texts: Sequence[str]) -> tuple[list[str], float]:
    """Return the analyses of texts as JSON, in the format of the service, and the CPU time in seconds."""
    began = time.process_time()
    return [document.to_json() for document in _parser.pipe(texts)], time.process_time() - began


def measure_offline(
    pool: ProcessPoolExecutor, texts: Sequence[str], processes: int
) -> tuple[Speed, list[str]]:
    """Return the speed of all processes together, and their results."""
    shares = [list(texts[k::processes]) for k in range(processes)]
    list(pool.map(parse_offline, [[_SAMPLE] * 20] * processes))
    began = time.perf_counter()
    found = list(pool.map(parse_offline, shares))
    seconds = time.perf_counter() - began
    ordered = [found[k % processes][0][k // processes] for k in range(len(texts))]
    chars = sum(map(len, texts))
    return Speed(chars / seconds, sum(used for _, used in found) / chars), ordered


# ---- the service


@contextmanager
def service(model: str | None, workers: int) -> Iterator[tuple[int, int]]:
    """Run the command; yield its port and its process."""
    command = [sys.executable, "-c", "from zishu.cli import main; main()", "serve", "--port", "0"]
    command += ["--workers", str(workers), *(("--model", model) if model else ())]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    assert process.stderr is not None
    stderr = process.stderr
    try:
        for line in stderr:
            if found := re.search(r"serving on http://\S+:(\d+)", line):
                break
        else:
            raise SystemExit("the service did not start")
        # The log is no longer needed, but it must not fill the pipe.
        threading.Thread(target=lambda: [None for _ in stderr], daemon=True).start()
        yield int(found[1]), process.pid
    finally:
        process.terminate()
        code = process.wait(_PATIENCE)
    if code:
        raise SystemExit(f"the service ended with code {code}")


def processes(pid: int) -> Iterator[Path]:
    """Yield the folders of a process and its children in /proc; none where there is no /proc."""
    folder = Path(f"/proc/{pid}")
    with suppress(OSError):
        children = (folder / "task" / str(pid) / "children").read_text().split()
        yield folder
        for child in children:
            yield from processes(int(child))


def memory(pid: int) -> float:
    """Return the megabytes of a process and its children."""
    statuses = [(folder / "status").read_text() for folder in processes(pid)]
    return sum(int(found[1]) for status in statuses if (found := re.search(r"VmRSS:\s*(\d+)", status))) / 1024


def cpu_time(pid: int) -> float:
    """Return the CPU time of a process and its children in seconds."""
    fields = [(folder / "stat").read_text().rpartition(")")[2].split() for folder in processes(pid)]
    return sum(int(field[11]) + int(field[12]) for field in fields) / os.sysconf("SC_CLK_TCK")


# ---- load


@dataclass
class Load:
    """Hold the requests of the clients and their results."""

    requests: Sequence[bytes]
    left: int
    rate: float = math.inf  # requests per second
    answers: defaultdict[int, set[bytes]] = field(default_factory=lambda: defaultdict(set))
    statuses: Counter[int] = field(default_factory=Counter)
    seconds: list[float] = field(default_factory=list)
    sent: list[int] = field(default_factory=list)
    began: float = 0.0

    def take(self) -> tuple[int, float] | None:
        """Return the number of the next request, and the time when it is due."""
        if not self.left:
            return None
        due = self.began + len(self.sent) / self.rate
        self.left -= 1
        self.sent.append(self.left % len(self.requests))
        return self.sent[-1], due


class Client(asyncio.Protocol):
    """Send requests over one connection, one after the other; written for little CPU time."""

    def __init__(self, load: Load) -> None:
        self._load = load
        self._loop = asyncio.get_running_loop()
        self._received = bytearray()
        self.done: asyncio.Future[None] = self._loop.create_future()

    def connection_made(self, transport: Any) -> None:
        """Begin."""
        self._transport = transport
        self._continue()

    def _continue(self) -> None:
        taken = self._load.take()
        if taken is None:
            self._transport.close()
            self.done.set_result(None)
            return
        self._number, due = taken
        self._due = max(due, time.perf_counter()) if self._load.rate == math.inf else due
        self._send_in(due - time.perf_counter())

    def _send_in(self, seconds: float) -> None:
        request = self._load.requests[self._number]
        if seconds > 0:
            self._loop.call_later(seconds, self._transport.write, request)
        else:
            self._transport.write(request)

    def data_received(self, data: bytes) -> None:
        """Count an answer that is complete, and send the next request."""
        self._received += data
        head, gap, body = self._received.partition(b"\r\n\r\n")
        if not gap or len(body) < _header(head, b"content-length: "):
            return
        status = int(head[9:12])
        self._received = bytearray()
        self._load.statuses[status] += 1
        if status == 503:
            self._send_in(max(1, _header(head, b"retry-after: ")))
            return
        self._load.seconds.append(time.perf_counter() - self._due)
        self._load.answers[self._number].add(bytes(body))
        self._continue()

    def connection_lost(self, error: Exception | None) -> None:
        """Fail if the service has closed the connection."""
        if not self.done.done():
            self.done.set_exception(error or ConnectionError("the service closed the connection"))


def _header(head: bytes | bytearray, name: bytes) -> int:
    """Return the number in a header, 0 if there is none."""
    return int(head.lower().partition(name)[2].partition(b"\r\n")[0] or 0)


@dataclass(frozen=True)
class Run:
    """Hold what a run of the clients has taken."""

    seconds: float
    cpu: float  # seconds of the service
    clients_cpu: float
    sizes: Sequence[float]  # megabytes of the service at every second


async def run(port: int, pid: int, load: Load, clients: int) -> Run:
    """Run all clients."""
    sizes: list[float] = []

    async def watch() -> None:
        while True:
            sizes.append(memory(pid))
            await asyncio.sleep(1)

    watcher = asyncio.create_task(watch())
    loop = asyncio.get_running_loop()
    used, own = cpu_time(pid), time.process_time()
    load.began = time.perf_counter()
    connections = [
        await loop.create_connection(partial(Client, load), "127.0.0.1", port) for _ in range(clients)
    ]
    await asyncio.gather(*(client.done for _, client in connections))
    seconds = time.perf_counter() - load.began
    watcher.cancel()
    return Run(seconds, cpu_time(pid) - used, time.process_time() - own, [*sizes, memory(pid)])


# ---- a hostile client

_PINS = [[390 * i, 390 * (256 - j)] for i in range(100) for j in range(100)]
_COSTLY: Any = (
    {"text": ("a" + "\u0301" * 389) * 256, "pins": _PINS},
    {"text": "字。" * 49_000, "lexicon": ["。字"]},
    {"text": "a" * 99_000, "lexicon": ["a" * k for k in range(1, 33)]},
    {"text": "a" * 98_000, "k_best": 10},
)
_IDLE = 300  # idle connections, and as many that stop in the middle of a request head
_SLOW = 50  # slow bodies


@contextmanager
def hostile(port: int) -> Iterator[None]:
    """Run a hostile client in a separate process."""
    process = get_context("spawn").Process(target=attack, args=(port,), daemon=True)
    process.start()
    try:
        time.sleep(3)  # let it start
        yield
    finally:
        process.terminate()
        process.join()


def attack(port: int) -> None:
    """Run all attacks at once, repeatedly."""

    async def everything() -> None:
        bodies = [json.dumps(request).encode() for request in _COSTLY]
        tasks = [again(port, costly, body) for body in bodies for _ in range(3)]
        tasks += [again(port, idle, head) for head in (b"", b"POST /v1/parse HTT") for _ in range(_IDLE)]
        tasks += [again(port, slow, b"") for _ in range(_SLOW)]
        await asyncio.gather(*tasks)

    asyncio.run(everything())


async def again(port: int, act: Any, data: bytes) -> None:
    """Repeat an attack on new connections, and ignore errors."""
    while True:
        try:
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            try:
                await act(reader, writer, data)
            finally:
                writer.close()
        except (OSError, EOFError):
            pass
        await asyncio.sleep(0.1)


async def costly(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, body: bytes) -> None:
    """Send a request that takes long, and wait for its answer."""
    writer.write(f"{_HEAD}Content-Length: {len(body)}\r\n\r\n".encode() + body)
    await reader.read()


async def idle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, head: bytes) -> None:
    """Send a part of a head and wait."""
    writer.write(head)
    await reader.read()


async def slow(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, _: bytes) -> None:
    """Send a large body slowly."""
    writer.write(f"{_HEAD}Content-Length: 3900000\r\n\r\n".encode())
    for _ in range(60):
        writer.write(b" " * 64_000)
        await writer.drain()
        await asyncio.sleep(1)
    await reader.read()


# ---- answers


def same(one: Any, other: Any) -> bool:
    """Compare two answers, probabilities up to a tolerance."""
    if isinstance(one, float) or isinstance(other, float):
        return isinstance(one, int | float) and math.isclose(one, other, rel_tol=0.01, abs_tol=_TOLERANCE)
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(same(one[key], other[key]) for key in one)
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(same, one, other))
    return bool(one == other)


def wrong_answers(load: Load, groups: Sequence[Sequence[str]], expected: Sequence[Sequence[str]]) -> int:
    """Count the answers that differ from the offline parser's."""
    wrong = 0
    for number, answers in load.answers.items():
        documents = [
            {"text": text, "sentences": [json.loads(line) for line in lines.splitlines()]}
            for text, lines in zip(groups[number], expected[number], strict=True)
        ]
        wrong += sum(not same(json.loads(answer).get("documents"), documents) for answer in answers)
    return wrong


def read_texts(path: Path) -> list[str]:
    """Return the sentences of a CoNLL-U file, or the lines of another one."""
    lines = path.read_text(encoding="utf-8").splitlines()
    if path.suffix == ".conllu":
        return [line.removeprefix("# text = ") for line in lines if line.startswith("# text = ")]
    return [line for line in lines if line.strip()]


def main() -> None:
    """Measure and print."""
    options = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    options.add_argument("text", type=Path)
    options.add_argument("--clients", type=int, default=64)
    options.add_argument("--requests", type=int, default=2000)
    options.add_argument("--texts", type=int, default=1, help="sentences of a request")
    options.add_argument(
        "--sentences", type=int, default=500, help="number of different sentences to take from the file"
    )
    options.add_argument("--workers", type=int, default=1)
    options.add_argument("--hostile", action="store_true", help="add a hostile client")
    options.add_argument("--model")
    chosen = options.parse_args()

    texts = read_texts(chosen.text)[: chosen.sentences]
    groups = [texts[k : k + chosen.texts] for k in range(0, len(texts), chosen.texts)]
    bodies = [json.dumps({"texts": group}).encode() for group in groups]
    load = Load(
        [f"{_HEAD}Content-Length: {len(body)}\r\n\r\n".encode() + body for body in bodies], chosen.requests
    )
    threads = max(1, len(os.sched_getaffinity(0)) // chosen.workers)
    start = partial(load_offline, chosen.model, threads)
    with ProcessPoolExecutor(chosen.workers, mp_context=get_context("spawn"), initializer=start) as pool:
        before, found = measure_offline(pool, texts, chosen.workers)
        with service(chosen.model, chosen.workers) as (port, pid):
            asyncio.run(run(port, pid, Load(load.requests, 2 * chosen.clients), chosen.clients))
            with hostile(port) if chosen.hostile else nullcontext():
                full = asyncio.run(run(port, pid, load, chosen.clients))
                half = Load(load.requests, max(1, chosen.requests // 2), len(load.sent) / full.seconds / 2)
                # Beside a hostile client, a connection that waits for its next request may be closed.
                if not chosen.hostile:
                    # Each sends a request every 10 s at least: a connection that is idle for long is closed.
                    clients = min(chosen.clients, math.ceil(10 * half.rate))
                    asyncio.run(run(port, pid, half, clients))
        after, _ = measure_offline(pool, texts, chosen.workers)
    expected = [found[k : k + chosen.texts] for k in range(0, len(found), chosen.texts)]
    wrong = wrong_answers(load, groups, expected)
    report(chosen, load, half, groups, full, (before, after), wrong)
    if wrong or set(load.statuses) - {200, 503}:
        raise SystemExit(1)


def report(
    chosen: argparse.Namespace,
    load: Load,
    half: Load,
    groups: Sequence[Sequence[str]],
    full: Run,
    offline: tuple[Speed, Speed],
    wrong: int,
) -> None:
    """Print the results."""
    chars = sum(len(text) for number in load.sent for text in groups[number])
    speed, cpu = chars / full.seconds, full.cpu / chars
    base = statistics.mean(one.chars for one in offline)
    least = min(one.cpu for one in offline)
    quarter = max(1, len(full.sizes) // 4)
    print(
        f"{len(load.sent)} requests of {chosen.texts} sentence(s), {chosen.clients} clients, {chosen.workers} worker(s)"
        + (", beside a hostile client" if chosen.hostile else "")
    )
    errors = sum(count for status, count in load.statuses.items() if status != 200)
    print(f"statuses    {dict(load.statuses)}; errors: {errors}; wrong answers: {wrong}")
    print(
        f"service     {speed:,.0f} characters/s, {len(load.sent) / full.seconds:,.0f} requests/s; {quantiles(load)}"
    )
    if half.seconds:
        print(f"half load   {half.rate:,.0f} requests/s; {quantiles(half)}")
    print(
        f"offline     {offline[0].chars:,.0f} before, {offline[1].chars:,.0f} after; "
        f"the service reaches {100 * speed / base:.0f} %"
    )
    print(
        f"CPU         us/character: service {1e6 * cpu:.1f}, offline {1e6 * least:.1f} "
        f"({100 * least / cpu:.0f} %), clients {1e6 * full.clients_cpu / chars:.1f}"
    )
    print(
        f"memory      first quarter {max(full.sizes[:quarter]):.0f} MB, last quarter {max(full.sizes[-quarter:]):.0f} MB"
    )


def quantiles(load: Load) -> str:
    """Describe the distribution of latencies."""
    ordered = sorted(load.seconds)
    return ", ".join(f"p{q} {1000 * ordered[(len(ordered) - 1) * q // 100]:.0f} ms" for q in (50, 95, 99))


if __name__ == "__main__":
    main()
