"""Parse a corpus on a Ray cluster: one shard per file, one model per worker, no loss if a worker dies.

    parse_shards(["corpus/*.txt.gz"], "out", Recipe(Options()), address="auto", resume=True)

`zishu.corpus.shards` knows what is done and how to write one shard; this module distributes shards to workers. Workers
are Ray actors of one core each. They read and write files themselves, so no text passes through this process or through
Ray's object store. All machines need the same Python and Zishu, and must reach the inputs, the output and the model
under the same names.

A worker that dies (killed, out of memory, machine lost) is replaced, and its file goes to the next free worker. A file
whose worker died `ATTEMPTS` times is recorded as failed, and the run continues.

docs/scale.md says why these are actors behind a queue, and not a pipeline of Ray Data.
"""

from __future__ import annotations

import contextlib
import importlib
import os
from collections import Counter, deque
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from zishu.corpus.chunks import chunks
from zishu.corpus.documents import kind_of
from zishu.corpus.files import Summary, Watcher
from zishu.corpus.shards import MANIFEST, CannotWrite, Manifest, ShardEntry, Work, find_shards, write_shard
from zishu.corpus.storage import join, storage
from zishu.errors import InputError, MissingExtra, ZishuError, one_line, portable
from zishu.writing import exclusive

if TYPE_CHECKING:
    from collections.abc import Generator, Iterable, Sequence
    from types import ModuleType

    from zishu.corpus.outputs import Recipe
    from zishu.reading import Errors

ATTEMPTS: Final = 5
ENDINGS: Final = {"conllu": ".conllu", "chars": ".chars.conllu", "json": ".jsonl"}
# Close to the smallest object store that Ray allows: only names and numbers pass through it.
_OBJECT_STORE: Final = 80 * 1024 * 1024


def parse_shards(
    inputs: Sequence[str],
    output: str,
    recipe: Recipe,
    *,
    address: str | None = None,
    workers: int | None = None,
    resume: bool = False,
    encoding: str = "utf-8",
    errors: Errors = "strict",
    watcher: Watcher | None = None,
) -> Summary:
    """Parse files into shards, with one worker per core of the cluster unless `workers` is given.

    `address` is the address of a cluster, as for `ray.init`; without it (and without RAY_ADDRESS) a local Ray is
    started for this run. If an input fails, the others are still parsed, and a `ZishuError` is raised at the end.
    """
    if recipe.format not in ENDINGS:
        raise InputError(f"the Ray engine writes {', '.join(ENDINGS)}, not {recipe.format}")
    for pattern in inputs:
        if kind_of(pattern) != "text":
            raise InputError(f"{pattern}: the Ray engine reads plain text only")
    recipe = replace(recipe, threads=recipe.threads or 1)
    watcher = watcher or Watcher()
    reading = {"encoding": encoding, "errors": errors}
    entries = find_shards(inputs, output, ENDINGS[recipe.format])
    with contextlib.ExitStack() as stack:
        if "://" not in output:  # a folder behind a URL has no lock
            stack.enter_context(exclusive(output))
        # What the content of the shards depends on: a run with other options cannot resume this one.
        manifest = Manifest.open(output, recipe.record() | reading, resume=resume)
        todo = [entry for entry in entries if not manifest.done(entry)]
        summary = Summary(len(entries), skipped=len(entries) - len(todo))
        if todo:
            ray = _import_ray()
            if _connect(ray, address, workers, recipe.threads):
                stack.callback(ray.shutdown)
            count = _worker_count(ray, workers, recipe.threads, len(todo))
            watcher.begin(summary, sum(entry.size for entry in todo), count)
            manifest.save()  # now: an unwritable folder must not cost an hour of parsing
            size = 0
            try:
                results = _results(ray, recipe, todo, count, output, reading)
                with contextlib.closing(results):
                    for entry in results:
                        manifest.add(entry)
                        if entry.error is None:
                            summary.written += 1
                            summary.sentences += entry.sentences
                            summary.characters += entry.characters
                        else:
                            summary.failed += 1
                            named = entry.input in entry.error
                            watcher.fail(entry.error if named else f"{entry.input}: {entry.error}")
                        size += entry.size
                        watcher.advance(summary, size)
            finally:
                manifest.save()
                storage(output).clean(output)
    watcher.end(summary)
    if summary.failed:
        raise ZishuError(f"{summary.failed} of {summary.inputs} inputs failed: see {join(output, MANIFEST)}")
    return summary


def _import_ray() -> ModuleType:
    # Ray reports usage to its makers unless this is 0; users may set it to 1.
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    # An actor without GPUs sees none. Ray will make this its default, and warns until it is set.
    os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
    try:
        return importlib.import_module("ray")
    except ImportError:
        raise MissingExtra("ray", "ray") from None


def _connect(ray: ModuleType, address: str | None, workers: int | None, threads: int) -> bool:
    """Connect to a cluster or start one; return whether we must close the connection."""
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
        raise InputError(f"no Ray cluster at {address}: {one_line(str(error))}") from None
    return True


def _worker_count(ray: ModuleType, workers: int | None, threads: int, tasks: int) -> int:
    cores = int(ray.cluster_resources().get("CPU", 0))
    if workers is None:
        workers = cores // threads
        if workers == 0:
            raise InputError(
                f"the Ray cluster has {cores} cores, fewer than the {threads} threads of a worker"
            )
    return min(workers, tasks)


class _Worker:
    """Parse files in a separate process on the cluster."""

    def __init__(self) -> None:
        self._work: Work | None = None

    def load(self, recipe: Recipe) -> ZishuError | None:
        """Load the model; return None or the error."""
        from zishu import chart

        try:
            chart.set_threads(recipe.threads)
            parse = recipe.load()
        except Exception as error:
            return portable(error)
        self._work = lambda document: map(parse, chunks([document], recipe.options.sentences, named=False))
        return None

    def write(self, entry: ShardEntry, output: str, reading: dict[str, Any]) -> ShardEntry | str:
        """Parse an input; return its result, or the reason why nothing can be written at all."""
        assert self._work is not None
        try:
            return write_shard(entry, output, self._work, **reading)
        except CannotWrite as error:
            return str(error)


def _results(
    ray: ModuleType,
    recipe: Recipe,
    todo: Iterable[ShardEntry],
    count: int,
    output: str,
    reading: dict[str, Any],
) -> Generator[ShardEntry]:
    """Yield the result of every shard, in order of completion; kill all workers at the end."""
    # No restarts or retries by Ray: a new worker must load the model, and attempts are counted here.
    create = ray.remote(num_cpus=recipe.threads, max_restarts=0, max_task_retries=0)(_Worker).remote
    stored = ray.put(recipe)
    waiting = deque(todo)
    tasks: dict[
        Any, tuple[Any, ShardEntry | None]
    ] = {}  # answer -> worker and its file; None: it loads the model
    attempts: Counter[str] = Counter()
    deaths = 0  # consecutive workers that died before they were ready

    def start() -> None:
        worker = create()
        tasks[worker.load.remote(stored)] = worker, None

    try:
        for _ in range(count):
            start()
        while waiting or any(entry for _, entry in tasks.values()):
            # A worker that the cluster has no room for yet delays nothing: it gets no file before it answers.
            [answer], _ = ray.wait([*tasks], num_returns=1)
            worker, entry = tasks.pop(answer)
            try:
                result = ray.get(answer)
            except ray.exceptions.RayError as error:
                ray.kill(worker)
                reason = one_line(str(error))
                if entry is None:
                    deaths += 1
                    if deaths >= ATTEMPTS:
                        raise ZishuError(f"workers died before they were ready: {reason}") from None
                else:
                    attempts[entry.shard] += 1
                    if attempts[entry.shard] < ATTEMPTS:
                        waiting.appendleft(entry)
                    else:
                        problem = f"its worker died {ATTEMPTS} times: {reason}"
                        yield replace(entry, attempts=ATTEMPTS, error=problem)
                if len(waiting) > sum(entry is None for _, entry in tasks.values()):
                    start()
                continue
            if entry is None:
                deaths = 0
                if result is not None:
                    raise result
            elif isinstance(result, str):
                raise CannotWrite(result)
            else:
                yield replace(result, attempts=attempts[entry.shard] + 1)
            if waiting:
                entry = waiting.popleft()
                tasks[worker.write.remote(entry, output, reading)] = worker, entry
            else:
                ray.kill(worker)  # frees its core for others
    finally:
        for worker, _ in tasks.values():
            ray.kill(worker)
