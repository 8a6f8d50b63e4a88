"""Parse a corpus on a Ray cluster: one shard a file, a model in every worker, and nothing lost when a worker dies.

    run(["corpus/*.txt.gz"], "out", setup, ending=".conllu", options={"format": "conllu"}, address="auto", resume=True)

What is done and what is left is the business of `zishu.integrations.shards`; here lies who does it. Workers are Ray
actors of one core each. They read and write files by themselves, so that no text passes through this process or
through Ray's object store, whose size does not matter. Python and Zishu must be the same on all machines, and all of
them must reach the inputs, the output and the model by the names that they have here.

A worker that dies (killed, out of memory, machine gone) is replaced, and its file is begun again by whoever is free.
A file that its worker did not survive `ATTEMPTS` times is taken down as failed, and the run goes on.

Why actors, and not Ray Data: Ray Data repeats what was lost without limit, and on the worker that it was given to, so
a file that kills its worker would never end; it names output after its own blocks, not after the input; and it
cannot begin with the largest files. A queue in front of the actors is shorter than the way around all that.
"""

from __future__ import annotations

import importlib
import os
from collections import Counter, deque
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Final

from zishu.errors import InputError, MissingExtra, ZishuError
from zishu.integrations.shards import CannotWrite, Entry, Manifest, Source, find_sources, write_shard
from zishu.integrations.storage import storage

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from types import ModuleType

    from zishu.files import Errors
    from zishu.integrations.shards import Setup, Work

ATTEMPTS: Final = 5
# Ray's smallest object store, almost: what passes through it are names and numbers.
_OBJECT_STORE: Final = 80 * 1024 * 1024


@dataclass(slots=True)
class Summary:
    """What a run did: of `total` inputs `skipped` were done before; sentences and characters are of this run."""

    total: int
    skipped: int = 0
    written: int = 0
    failed: int = 0
    sentences: int = 0
    characters: int = 0


class Watcher:
    """Who wants to know how a run goes on, such as a progress bar. This one does not."""

    def begin(self, todo: Sequence[Source], workers: int) -> None:
        """Take notice of what there is to do."""

    def end(self, entry: Entry) -> None:
        """Take notice that an input is done, or failed."""


def run(
    inputs: Sequence[str],
    output: str,
    setup: Setup,
    *,
    ending: str,
    options: Mapping[str, Any],
    address: str | None = None,
    workers: int | None = None,
    threads: int = 1,
    resume: bool = False,
    errors: Errors = "strict",
    watcher: Watcher | None = None,
) -> Summary:
    """Parse files into shards, with one worker for each core of the cluster unless `workers` says how many.

    `setup()` is called once in every worker, to load the model, and returns what parses a text. `ending` is that of
    the shards, `options` is what their content depends on and goes into the manifest: a run with other options
    cannot resume this one. `address` is that of a cluster, as `ray.init` takes it; without it (and without
    RAY_ADDRESS) a local Ray is started for this run. A failed input does not end the run: see the summary.
    """
    sources = find_sources(inputs, output, ending)
    manifest = Manifest.open(output, options, resume=resume)
    todo = [source for source in sources if not manifest.done(source)]
    summary = Summary(len(sources), skipped=len(sources) - len(todo))
    watcher = watcher or Watcher()
    if not todo:
        return summary
    ray = _import_ray()
    ours = _connect(ray, address, workers, threads)
    try:
        count = _worker_count(ray, workers, threads, len(todo))
        watcher.begin(todo, count)
        manifest.save()  # at once, because a folder that cannot be written should not cost an hour of parsing
        pool = _Pool(ray, setup, output, threads, errors)
        try:
            for entry in pool.run(todo, count):
                manifest.add(entry)
                _count(summary, entry)
                watcher.end(entry)
        finally:
            pool.stop()
            manifest.save()
            storage(output).clean(output)
    finally:
        if ours:
            ray.shutdown()
    return summary


def _count(summary: Summary, entry: Entry) -> None:
    if entry.error is None:
        summary.written += 1
        summary.sentences += entry.sentences
        summary.characters += entry.characters
    else:
        summary.failed += 1


def _import_ray() -> ModuleType:
    # Ray would tell its makers about every run; who wants that sets it to 1.
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    # An actor without GPUs sees none; Ray's own future default, which it warns about until it is chosen.
    os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
    try:
        return importlib.import_module("ray")
    except ImportError:
        raise MissingExtra("ray", "ray") from None


def _connect(ray: ModuleType, address: str | None, workers: int | None, threads: int) -> bool:
    """Connect to a cluster, or start one; tell whether the connection is ours to end."""
    if ray.is_initialized():
        return False
    address = address or os.environ.get("RAY_ADDRESS")
    quiet: dict[str, Any] = {"logging_level": "error", "log_to_driver": False}
    if address is None or address == "local":
        cores = None if workers is None else workers * threads
        ray.init("local", num_cpus=cores, object_store_memory=_OBJECT_STORE, include_dashboard=False, **quiet)
        return True
    try:
        ray.init(address, **quiet)
    except (ConnectionError, RuntimeError, ValueError) as error:
        reason = " ".join(str(error).split())
        raise InputError(f"no Ray cluster at {address}: {reason}") from None
    return True


def _worker_count(ray: ModuleType, workers: int | None, threads: int, tasks: int) -> int:
    cores = int(ray.cluster_resources().get("CPU", 0))
    if workers is None:
        workers = cores // threads
        if workers == 0:
            raise InputError(
                f"the Ray cluster has {cores} cores, and a worker of {threads} threads needs as many"
            )
    return min(workers, tasks)


class _Worker:
    """What runs in a process of its own, somewhere on the cluster."""

    def __init__(self) -> None:
        self._work: Work | None = None

    def load(self, setup: Setup, threads: int) -> tuple[bool, str] | None:
        """Load the model; return None, or what is wrong and whether that is the user's fault."""
        from zishu import chart

        try:
            chart.set_threads(threads)
            self._work = setup()
        except Exception as error:
            # As strings, because not every exception survives pickling.
            known = isinstance(error, ZishuError)
            reason = str(error) if known else f"internal error: {type(error).__name__}: {error}"
            return isinstance(error, InputError), reason
        return None

    def write(self, source: Source, output: str, errors: Errors) -> Entry | str:
        """Parse an input; return what to take down, or why nothing can be written at all."""
        assert self._work is not None
        try:
            return write_shard(source, output, self._work, errors=errors)
        except CannotWrite as error:
            return str(error)


class _Pool:
    """The workers and what each of them is at."""

    def __init__(self, ray: ModuleType, setup: Setup, output: str, threads: int, errors: Errors) -> None:
        self._ray = ray
        self._output, self._threads, self._errors = output, threads, errors
        # No restarts and no retries by Ray: a new worker gets the model first, and attempts are counted here.
        self._class = ray.remote(num_cpus=threads, max_restarts=0, max_task_retries=0)(_Worker)
        self._setup = ray.put(setup)
        self._starting: dict[Any, Any] = {}  # answer to come -> worker
        self._busy: dict[Any, tuple[Any, Source]] = {}
        self._deaths = 0  # of workers, in a row, before they could do anything

    def run(self, sources: Iterable[Source], count: int) -> Iterator[Entry]:
        """Yield an entry for every input, in the order in which they end."""
        todo = deque(sources)
        attempts: Counter[str] = Counter()
        for _ in range(count):
            self._start()
        while todo or self._busy:
            # Workers for which there is no room yet do not hold up anything: they get no file before they answer.
            [answer], _ = self._ray.wait([*self._starting, *self._busy], num_returns=1)
            if answer in self._starting:
                worker = self._started(answer)
            else:
                worker, source = self._busy.pop(answer)
                attempts[source.shard] += 1
                try:
                    entry = self._ray.get(answer)
                except self._ray.exceptions.RayError as error:
                    self._ray.kill(worker)
                    worker = None
                    if attempts[source.shard] < ATTEMPTS:
                        todo.appendleft(source)
                    else:
                        yield Entry(**asdict(source), attempts=ATTEMPTS, error=_death(error))
                else:
                    if isinstance(entry, str):
                        raise CannotWrite(entry)
                    yield Entry(**{**asdict(entry), "attempts": attempts[source.shard]})
            if worker is None:
                if len(todo) > len(self._starting):
                    self._start()
            elif todo:
                source = todo.popleft()
                self._busy[worker.write.remote(source, self._output, self._errors)] = worker, source
            else:
                self._ray.kill(worker)  # its core is free for others

    def _start(self) -> None:
        worker = self._class.remote()
        self._starting[worker.load.remote(self._setup, self._threads)] = worker

    def _started(self, answer: Any) -> Any:
        """Return a worker that is ready, None if it died."""
        worker = self._starting.pop(answer)
        try:
            problem = self._ray.get(answer)
        except self._ray.exceptions.RayError as error:
            self._deaths += 1
            if self._deaths >= ATTEMPTS:
                raise ZishuError(f"workers die before they can begin: {_one_line(error)}") from None
            return None
        self._deaths = 0
        if problem is not None:
            bad_input, reason = problem
            raise (InputError if bad_input else ZishuError)(reason)
        return worker

    def stop(self) -> None:
        """End all workers at once."""
        for worker in [*self._starting.values(), *(worker for worker, _ in self._busy.values())]:
            self._ray.kill(worker)


def _death(error: Exception) -> str:
    return f"its worker died {ATTEMPTS} times: {_one_line(error)}"


def _one_line(error: Exception) -> str:
    return " ".join(str(error).split())
