"""A corpus on a real local Ray: the shards of a single process, whatever happens to files and workers."""

from __future__ import annotations

import gc
import gzip
import json
import os
import signal
import subprocess
import sys
import threading
import time
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pytest

import zishu
from zishu import cli
from zishu.corpus import Options, Summary, Watcher, parse_files
from zishu.corpus import ray as engine
from zishu.corpus.outputs import Recipe
from zishu.corpus.storage import UNFINISHED
from zishu.errors import InputError, ZishuError
from zishu.reading import Input

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from zishu.corpus.chunks import Chunk

ray = pytest.importorskip("ray")

pytestmark = [
    pytest.mark.slow,
    # Ray leaves sockets and log files to the garbage collector, and warns about its own future.
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
    pytest.mark.filterwarnings("ignore::FutureWarning"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
]

QUICK = Options(confidence=False)
PATIENCE = 60.0  # seconds


@pytest.fixture(scope="module", autouse=True)
def _local_ray() -> Iterator[None]:
    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
    # Workers cannot import this module, as they can import zishu.
    ray.cloudpickle.register_pickle_by_value(sys.modules[__name__])
    ray.init(
        "local",
        num_cpus=2,
        include_dashboard=False,
        object_store_memory=80 * 1024 * 1024,
        logging_level="error",
        log_to_driver=False,
    )
    yield
    # Ray does not wait for the processes that it ends; Python would complain about them later.
    processes = [thing for thing in gc.get_objects() if isinstance(thing, subprocess.Popen)]
    ray.shutdown()
    for process in processes:
        with suppress(subprocess.TimeoutExpired):
            process.wait(PATIENCE)


def sentences(count: int, start: int = 0) -> str:
    people, places, things = (
        "我你他她",
        ("北京", "上海", "公园", "图书馆"),
        ("书", "电影", "音乐", "苹果", "天气"),
    )
    lines = []
    for k in range(start, start + count):
        person, place, thing = people[k % 4], places[k % 3], things[k % 5]
        lines.append(f"{person}今年在{place}看见了{k}个{thing}，很喜欢。{'  ' if k % 3 else chr(10)}")
    return "".join(lines)


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder of small files of all kinds, one of them with several chunks of work."""
    folder = tmp_path_factory.mktemp("corpus")
    (folder / "news").mkdir()
    files = {
        "a.txt": sentences(850).encode(),
        "b.txt": b"\xef\xbb\xbf" + sentences(30, 7).replace("\n", "\r\n\r\n").encode(),
        "news/c.txt.gz": gzip.compress(sentences(150, 11).encode()),
        "news/d.txt": "没有句号的一行".encode(),
        "empty.txt": b"",
        "blank.txt": b" \n \n",
    }
    for name, content in files.items():
        (folder / name).write_bytes(content)
    return folder


@pytest.fixture(scope="module")
def expected(corpus: Path) -> dict[str, bytes]:
    """Return the expected content of the shards: every file parsed separately, in this process."""
    parser = zishu.load(threads=1)
    found = {}
    for path in corpus.rglob("*.txt*"):
        with Input(path) as file:
            text = "".join(file.blocks())
        rows = parser(text, confidence=False).to_conllu()
        found[path.relative_to(corpus).as_posix().replace(".txt", ".txt.conllu")] = rows.encode()
    return found


def shards(folder: Path) -> dict[str, bytes]:
    """Return the content of every shard, decompressed."""
    return {
        path.relative_to(folder).as_posix(): (
            gzip.open(path) if path.suffix == ".gz" else path.open("rb")
        ).read()
        for path in folder.rglob("*")
        if path.is_file() and path.name != "manifest.json"
    }


def manifest(folder: Path) -> dict[str, dict[str, Any]]:
    data = json.loads((folder / "manifest.json").read_text(encoding="utf-8"))
    return {row["shard"]: row for row in data["shards"]}


def run(corpus: Path, output: Path, recipe: Recipe, **more: Any) -> Told:
    """Run other work than parsing; return what was reported, also if inputs fail."""
    told = more.pop("watcher", Told())
    with suppress(ZishuError):
        engine.parse_shards([str(corpus)], str(output), recipe, watcher=told, **more)
    return told


class Told(Watcher):
    """Record what a run reports."""

    def __init__(self) -> None:
        self.failures: list[str] = []
        self.ends: list[tuple[int, int, int]] = []

    def fail(self, message: str) -> None:
        self.failures.append(message)

    def end(self, summary: Summary) -> None:
        self.ends.append((summary.written, summary.skipped, summary.failed))


def parse(inputs: Any, output: Path | str, options: Options = QUICK, **more: Any) -> Told:
    """Parse with Ray; return what was reported, also if inputs fail."""
    told = Told()
    with suppress(ZishuError) if more.pop("failing", False) else nullcontext():
        summary = parse_files(inputs, output, options, engine="ray", watcher=told, **more)
        assert told.ends == [(summary.written, summary.skipped, summary.failed)]
    return told


# ---- what it should do


def test_shards_are_those_of_a_single_process_and_a_second_run_does_nothing(
    corpus: Path, expected: dict[str, bytes], tmp_path: Path
) -> None:
    out = tmp_path / "out"
    assert parse(corpus, out, jobs=2).ends == [(6, 0, 0)]
    assert shards(out) == expected
    for name, row in manifest(out).items():
        assert row["error"] is None
        assert row["attempts"] == 1
        assert row["bytes"] == (out / name).stat().st_size
        assert row["sentences"] == expected[name].count(b"# sent_id")
    assert not (out / UNFINISHED).exists()

    before = {path: path.stat().st_mtime_ns for path in out.rglob("*")}
    with pytest.raises(InputError, match="--resume"):
        parse(corpus, out)
    assert parse(corpus, out, resume=True).ends == [(0, 6, 0)]
    assert {path: path.stat().st_mtime_ns for path in out.rglob("*")} == before
    with pytest.raises(InputError, match="confidence = False, not True"):
        parse(corpus, out, Options(), resume=True)


def test_resume_does_what_is_missing_and_no_more(
    corpus: Path, expected: dict[str, bytes], tmp_path: Path
) -> None:
    pytest.importorskip("fsspec")
    out = tmp_path / "out"
    small = [str(corpus / name) for name in ("b.txt", "empty.txt", "blank.txt")]
    # By URL, as on a cloud: other names for the same files.
    urls = [f"file://{path}" for path in small]
    parse(urls[1:], f"file://{out}", jobs=2)
    (out / "blank.txt.conllu").unlink()
    assert parse(urls, f"file://{out}", resume=True).ends == [(2, 1, 0)]
    assert shards(out) == {name: expected[name] for name in shards(out)}
    assert len(shards(out)) == 3


def test_bad_documents_are_taken_down_and_the_others_parsed(tmp_path: Path) -> None:
    folder, out = tmp_path / "in", tmp_path / "out"
    folder.mkdir()
    (folder / "bad.txt").write_bytes("我喜欢北京。".encode() + b"\xff")
    (folder / "broken.txt.gz").write_bytes(gzip.compress("我喜欢北京。".encode())[:-9])
    (folder / "good.txt").write_text("我喜欢北京。", encoding="utf-8")
    with pytest.raises(ZishuError, match=r"2 of 3 inputs failed: see .*manifest\.json"):
        parse(folder / "*", out, jobs=1)
    told = parse(folder / "*", tmp_path / "again", jobs=1, failing=True)
    assert told.ends == [(1, 0, 2)]
    bad, broken = sorted(told.failures)
    assert "bad.txt: not valid UTF-8: byte 18" in bad
    assert "broken.txt.gz: not a complete gzip file" in broken
    rows = manifest(out)
    assert "byte 18" in rows["bad.txt.conllu"]["error"]
    assert "gzip" in rows["broken.txt.conllu.gz"]["error"]
    assert rows["good.txt.conllu"]["error"] is None
    assert list(shards(out)) == ["good.txt.conllu"]

    # When one is mended, `--resume` parses it.
    (folder / "bad.txt").write_text("我喜欢上海。", encoding="utf-8")
    assert parse(folder / "*", out, jobs=1, resume=True, failing=True).ends == [(1, 1, 1)]
    assert sorted(shards(out)) == ["bad.txt.conllu", "good.txt.conllu"]


def test_the_command_does_what_the_command_without_ray_does(corpus: Path, tmp_path: Path) -> None:
    """The command starts its own local Ray, and computes probabilities."""
    out, single = tmp_path / "out", tmp_path / "b.jsonl"
    arguments = [
        "-i",
        str(corpus / "b*.txt"),
        "-o",
        str(out),
        "--format",
        "json",
        "--engine",
        "ray",
        "--jobs",
        "1",
    ]
    command = [sys.executable, "-m", "zishu", "parse", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout == ""
    assert done.stderr.startswith("2 shards written, 0 skipped, 0 failed;")
    assert done.stderr.count("\n") == 1
    assert cli.run(["parse", "-i", str(corpus / "b.txt"), "-o", str(single), "--threads", "1"]) == 0
    assert shards(out) == {"b.txt.jsonl": single.read_bytes(), "blank.txt.jsonl": b""}
    # Everything is done, so Ray is not even started.
    assert cli.run(["parse", *arguments, "--resume"]) == 0


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["文字", "--engine", "ray"], "--engine ray cannot be combined with TEXT"),
        (["-o", "out", "--engine", "ray"], "--engine ray needs -i"),
        (["-i", "x", "--engine", "ray"], "--engine ray needs -o"),
        (["-i", "x", "--ray-address", "auto"], "--ray-address needs --engine ray"),
        (
            ["-i", "x/*.jsonl", "-o", "out", "--engine", "ray"],
            "x/*.jsonl: the Ray engine reads plain text only",
        ),
        (["-i", "nothing/*.txt", "-o", "out", "--engine", "ray"], "nothing/*.txt: no such file"),
    ],
)
def test_usage_that_makes_no_sense(
    arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.run(["parse", *arguments]) == 2
    assert capsys.readouterr().err == f"zishu: {message}\n"


# ---- when workers die


def wait_for(path: Path) -> None:
    deadline = time.monotonic() + PATIENCE
    while not path.exists():
        assert time.monotonic() < deadline, f"{path} does not come"
        time.sleep(0.02)


@dataclass(frozen=True)
class Halting(Recipe):
    """Parse as usual, but stop the first worker in the middle of the first large file."""

    signs: Path | None = None

    def load(self) -> Callable[[Chunk], list[list[Any]]]:
        parse = super().load()

        def parse_or_halt(chunk: Chunk) -> list[list[Any]]:
            # Here the chunks before this one have been written.
            if chunk.first > 300:
                assert self.signs is not None
                with first(self.signs / "halted") as mine:
                    if mine:
                        (self.signs / "pid").write_text(str(os.getpid()))
                        wait_for(self.signs / "never")
            return parse(chunk)

        return parse_or_halt


@contextmanager
def first(sign: Path) -> Iterator[bool]:
    """Yield True to the first caller among all processes."""
    try:
        os.close(os.open(sign, os.O_CREAT | os.O_EXCL))
    except FileExistsError:
        yield False
    else:
        yield True


def test_a_worker_killed_in_the_middle_costs_nothing_but_time(
    corpus: Path, expected: dict[str, bytes], tmp_path: Path
) -> None:
    signs, out = tmp_path / "signs", tmp_path / "out"
    signs.mkdir()
    seen: list[set[str]] = []

    def kill() -> None:
        wait_for(signs / "pid")
        while not (pid := (signs / "pid").read_text()):
            time.sleep(0.02)
        seen.append({path.name[33:] for path in (out / UNFINISHED).iterdir() if path.stat().st_size})
        os.kill(int(pid), signal.SIGKILL)

    killer = threading.Thread(target=kill)
    killer.start()
    told = run(corpus, out, Halting(QUICK, signs=signs), workers=2)
    killer.join()
    # When the worker was killed, half a shard existed under another name.
    assert "a.txt.conllu" in seen[0]
    assert told.ends == [(6, 0, 0)]
    assert shards(out) == expected
    assert sorted(row["attempts"] for row in manifest(out).values()) == [1, 1, 1, 1, 1, 2]
    assert not (out / UNFINISHED).exists()


class Deadly(Recipe):
    """Copy the text, but die of one character."""

    def load(self) -> Callable[[Chunk], list[list[Any]]]:
        def copy(chunk: Chunk) -> list[list[Any]]:
            if any("毒" in sentence.text for sentence in chunk.sentences):
                os.kill(os.getpid(), signal.SIGKILL)
            return [[sentence.text] for sentence in chunk.sentences]

        return copy


def test_a_document_that_no_worker_survives_is_taken_down(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(engine, "ATTEMPTS", 2)
    folder, out = tmp_path / "in", tmp_path / "out"
    folder.mkdir()
    for name in "甲毒乙":
        (folder / f"{name}.txt").write_text(name, encoding="utf-8")
    assert run(folder, out, Deadly(QUICK), workers=2).ends == [(2, 0, 1)]
    row = manifest(out)["毒.txt.conllu"]
    assert row["attempts"] == 2
    assert "its worker died 2 times" in row["error"]
    assert sorted(shards(out)) == ["乙.txt.conllu", "甲.txt.conllu"]


# ---- when nothing can be done


def test_a_run_that_is_interrupted_leaves_whole_shards_and_can_be_resumed(tmp_path: Path) -> None:
    class Interrupting(Watcher):
        def advance(self, summary: Summary, size: float) -> None:
            raise KeyboardInterrupt

    folder, out = tmp_path / "in", tmp_path / "out"
    folder.mkdir()
    for k in range(5):
        (folder / f"{k}.txt").write_text("x" * (k + 1))
    with pytest.raises(KeyboardInterrupt):
        run(folder, out, Deadly(QUICK), workers=1, watcher=Interrupting())
    assert list(manifest(out)) == ["4.txt.conllu"]  # the largest came first
    for name, content in shards(out).items():
        assert content == (folder / name.removesuffix(".conllu")).read_bytes()
    assert run(folder, out, Deadly(QUICK), workers=1, resume=True).ends == [(4, 1, 0)]


def test_a_model_that_is_not_there_ends_the_run_in_one_line(corpus: Path, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="nothing"):
        parse(corpus, tmp_path / "out", model=tmp_path / "nothing", jobs=1)


def test_an_output_that_cannot_be_written_ends_the_run(corpus: Path, tmp_path: Path) -> None:
    (tmp_path / "out").write_text("a file")
    with pytest.raises(FileExistsError, match="out"):
        engine.parse_shards([str(corpus)], str(tmp_path / "out"), Recipe(QUICK), workers=1)


def test_formats_without_shards_are_refused(corpus: Path, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="conllu, chars, json, not svg"):
        parse(corpus, tmp_path / "out", format="svg")
