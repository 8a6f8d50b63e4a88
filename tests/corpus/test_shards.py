"""Files into shards: names, manifest, resuming, and whole files or none, on paths and through fsspec."""

from __future__ import annotations

import gzip
import json
import os
import re
import uuid
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from zishu.corpus import shards
from zishu.corpus.shards import CannotWrite, Manifest, ShardEntry, find_shards, shard_name, write_shard
from zishu.corpus.storage import UNFINISHED, join, read, storage, write
from zishu.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from zishu.corpus import RawDocument

OPTIONS = {"format": "conllu", "model": None}


def upper(document: RawDocument) -> Iterator[list[list[str]]]:
    """Replace the parser, which these tests do not need: every line is a sentence."""
    held = ""
    for block in document.blocks:
        *lines, held = (held + block.upper()).split("\n")
        yield [[f"{line}\n"] for line in lines]
    yield [[held]] if held else []


@pytest.fixture(params=["path", "file", "memory"])
def base(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """Return an empty folder: a path, and two that only fsspec reaches."""
    if request.param == "path":
        return str(tmp_path)
    pytest.importorskip("fsspec")
    return f"file://{tmp_path}" if request.param == "file" else f"memory://{uuid.uuid4().hex}"


def put(base: str, name: str, content: bytes | str) -> str:
    path = join(base, name)
    data = content.encode() if isinstance(content, str) else content
    write(path, data, base)
    storage(base).clean(base)
    return path


def names(base: str) -> list[str]:
    return sorted(file.name for file in storage(base).find(base))


# ---- inputs and names


def test_names_of_shards_differ_when_inputs_do() -> None:
    assert shard_name("a.txt", ".conllu") == "a.txt.conllu"
    assert shard_name("news/a.txt.gz", ".jsonl") == "news/a.txt.jsonl.gz"
    assert shard_name("a.zst", ".conllu") == "a.conllu.zst"
    inputs = ["a", "a.txt", "a.md", "a.txt.gz", "a.txt.zst", "b/a", "a.gz", "a.conllu"]
    assert len({shard_name(name, ".conllu") for name in inputs}) == len(inputs)


def test_patterns_folders_and_names_find_the_same_files(base: str) -> None:
    for name, size in [("in/a.txt", 1), ("in/news/b.txt", 3), ("in/news/c.txt.gz", 2), ("in/d.md", 9)]:
        put(base, name, b"x" * size)
    put(base, "in/_logs/e.txt", b"no data")
    output = join(base, "out")

    def found(*patterns: str) -> list[tuple[str, str]]:
        sources = find_shards([join(base, pattern) for pattern in patterns], output, ".conllu")
        return [(source.input, source.shard) for source in sources]

    assert found("in/*.txt") == [(join(base, "in/a.txt"), "a.txt.conllu")]
    assert found("in/a.txt") == found("in/*.txt")
    assert found("in/*/b.txt") == [(join(base, "in/news/b.txt"), "news/b.txt.conllu")]
    # The largest comes first.
    everything = ["d.md.conllu", "news/b.txt.conllu", "news/c.txt.conllu.gz", "a.txt.conllu"]
    assert [shard for _, shard in found("in")] == everything
    assert [shard for _, shard in found("in/a.txt", "in/d.md", "in/a.txt")] == ["d.md.conllu", "a.txt.conllu"]


def test_the_output_may_lie_among_the_inputs(base: str) -> None:
    put(base, "a.txt", "x")
    output = join(base, "out")
    shard = put(base, "out/a.txt.conllu", "X")
    for pattern in (base, join(base, "*"), join(base, "**/a.txt*")):
        assert [source.shard for source in find_shards([pattern], output, ".conllu")] == ["a.txt.conllu"]
    with pytest.raises(InputError, match=r"a\.txt\.conllu: is in the output folder"):
        find_shards([base, shard], output, ".conllu")


def test_a_name_with_wildcards_that_is_there_is_a_name(tmp_path: Path) -> None:
    put(str(tmp_path), "a[1].txt", "x")
    [source] = find_shards([str(tmp_path / "a[1].txt")], str(tmp_path / "out"), ".conllu")
    assert source.shard == "a[1].txt.conllu"


def test_inputs_that_make_no_sense_are_named(base: str) -> None:
    put(base, "one/a.txt", "x")
    put(base, "two/a.txt", "y")
    with pytest.raises(InputError, match=r"\*\.gz: no such file"):
        find_shards([join(base, "one/*.gz")], join(base, "out"), ".conllu")
    with pytest.raises(InputError, match=r"one/a\.txt and .*two/a\.txt: both"):
        find_shards([join(base, "one/*"), join(base, "two/*")], join(base, "out"), ".conllu")
    with pytest.raises(InputError, match="output folder"):
        find_shards([join(base, "one")], base, ".conllu")


def test_an_unknown_kind_of_url_is_one_line() -> None:
    pytest.importorskip("fsspec")
    with pytest.raises(InputError, match="nosuch://x"):
        find_shards(["nosuch://x/*"], "out", ".conllu")


# ---- one shard


def test_a_shard_is_what_the_work_made_of_the_text(base: str) -> None:
    text = "一\ntwo\r\n三" * 40_000
    put(base, "in/a.txt", "\ufeff" + text)
    put(base, "in/b.txt.gz", gzip.compress(text.encode()))
    put(base, "in/empty.txt", "")
    output = join(base, "out")
    entries = {
        source.shard: write_shard(source, output, upper)
        for source in find_shards([join(base, "in")], output, ".up")
    }
    assert names(output) == ["a.txt.up", "b.txt.up.gz", "empty.txt.up"]
    plain, packed = (read(join(output, name)) for name in ("a.txt.up", "b.txt.up.gz"))
    assert plain == text.upper().encode()
    assert packed is not None
    assert gzip.decompress(packed) == plain
    assert read(join(output, "empty.txt.up")) == b""
    for name, entry in entries.items():
        assert entry.error is None
        assert entry.bytes == storage(output).sizes(output)[name]
    assert entries["a.txt.up"].characters == len(text)
    assert entries["a.txt.up"].sentences == text.count("\n") + 1


@pytest.mark.parametrize(
    ("name", "content", "reason"),
    [
        ("a.txt", b"good\n" * 30_000 + b"\xff\n", r"a\.txt: not valid UTF-8: byte 150000"),
        ("a.txt.gz", gzip.compress(b"good\n" * 30_000)[:-20], r"a\.txt\.gz: not a complete gzip file"),
        ("a.txt.gz", b"no gzip at all", r"a\.txt\.gz: not a complete gzip file"),
    ],
)
def test_a_bad_document_is_taken_down_and_leaves_nothing(
    base: str, name: str, content: bytes, reason: str
) -> None:
    path, output = put(base, f"in/{name}", content), join(base, "out")
    [source] = find_shards([path], output, ".up")
    entry = write_shard(source, output, upper)
    assert entry.error is not None
    assert re.search(reason, entry.error)
    assert entry.error.startswith(path)
    assert (entry.bytes, entry.sentences, entry.characters) == (0, 0, 0)
    assert source.shard not in storage(output).sizes(output)
    if name == "a.txt":
        assert write_shard(source, output, upper, errors="replace").error is None


def test_a_document_that_is_gone_or_breaks_the_parser_is_taken_down(base: str) -> None:
    def broken(document: RawDocument) -> Iterator[list[list[str]]]:
        yield [[document.read()]]
        raise ZeroDivisionError("a bug")

    path, output = put(base, "in/a.txt", "text"), join(base, "out")
    [source] = find_shards([path], output, ".up")
    assert write_shard(source, output, broken).error == "internal error: ZeroDivisionError: a bug"
    gone = write_shard(replace(source, input=join(base, "in/b.txt")), output, upper)
    assert gone.error is not None
    assert "b.txt" in gone.error
    assert source.shard not in storage(output).sizes(output)


def test_an_output_that_cannot_be_written_is_nobodys_fault_but_its_own(tmp_path: Path) -> None:
    source_path = put(str(tmp_path), "in/a.txt", "text")
    (tmp_path / "out").write_text("a file, not a folder")
    [source] = find_shards([source_path], str(tmp_path / "out"), ".up")
    with pytest.raises(CannotWrite, match="out"):
        write_shard(source, str(tmp_path / "out"), upper)
    with pytest.raises(CannotWrite, match=r"manifest\.json"):
        Manifest(str(tmp_path / "out"), OPTIONS).save()


def test_the_old_file_stays_until_the_new_one_is_whole(base: str) -> None:
    path = put(base, "out/a.up", "old")

    def fail() -> None:
        with storage(path).staged(path, join(base, "out")) as file:
            file.write_text("half of the n")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fail()
    assert read(path) == b"old"
    write(path, b"new", join(base, "out"))
    assert read(path) == b"new"
    assert names(join(base, "out")) == ["a.up"]


def test_what_a_killed_process_left_is_cleaned_away(tmp_path: Path) -> None:
    left = tmp_path / UNFINISHED / "1234-a.up"
    left.parent.mkdir()
    left.write_text("half")
    storage(str(tmp_path)).clean(str(tmp_path))
    storage(str(tmp_path)).clean(str(tmp_path))
    assert list(tmp_path.iterdir()) == []


# ---- the manifest


def finished(base: str, name: str = "a.txt") -> tuple[str, ShardEntry]:
    """Parse one file, and return the output folder and the source."""
    output = join(base, "out")
    [source] = find_shards([put(base, f"in/{name}", "text\n")], output, ".up")
    manifest = Manifest.open(output, OPTIONS, resume=False)
    manifest.add(write_shard(source, output, upper))
    manifest.save()
    return output, source


def test_a_finished_shard_is_done_and_another_is_not(base: str) -> None:
    output, source = finished(base)
    manifest = Manifest.open(output, OPTIONS, resume=True)
    assert manifest.done(source)
    assert not manifest.done(replace(source, shard="b.txt.up"))
    assert not manifest.done(replace(source, input=source.input + "2"))
    assert not manifest.done(replace(source, size=source.size + 1))
    assert not manifest.done(replace(source, stamp="another time"))


def test_a_shard_that_was_lost_or_cut_is_not_done(base: str) -> None:
    output, source = finished(base, "_a.txt")
    put(output, source.shard, "TE")
    assert not Manifest.open(output, OPTIONS, resume=True).done(source)
    put(output, source.shard, "TEXT\n")
    manifest = Manifest.open(output, OPTIONS, resume=True)
    assert manifest.done(source)
    manifest.add(replace(source, error="bad"))
    assert not manifest.done(source)


def test_a_touched_input_is_seen(tmp_path: Path) -> None:
    output, source = finished(str(tmp_path))
    status = Path(source.input).stat()
    os.utime(source.input, ns=(status.st_atime_ns, status.st_mtime_ns + 1))
    [touched] = find_shards([source.input], output, ".up")
    assert not Manifest.open(output, OPTIONS, resume=True).done(touched)


def test_the_manifest_is_plain_json(tmp_path: Path) -> None:
    output, source = finished(str(tmp_path))
    data = json.loads(Path(output, "manifest.json").read_text(encoding="utf-8"))
    [row] = data["shards"]
    assert data["options"] == OPTIONS
    assert row["input"] == source.input
    assert row["shard"] == "a.txt.up"
    assert (row["bytes"], row["characters"], row["sentences"], row["error"]) == (5, 5, 1, None)


def test_manifests_of_others_are_refused(base: str) -> None:
    output, _ = finished(base)
    with pytest.raises(InputError, match="earlier run: use --resume or another output folder"):
        Manifest.open(output, OPTIONS, resume=False)
    with pytest.raises(InputError, match="format = conllu, not json"):
        Manifest.open(output, OPTIONS | {"format": "json"}, resume=True)
    for content in [b"", b"[]", b"{}", b'{"zishu": "1", "options": {}, "shards": [{"no": 1}]}', b"\xff"]:
        put(output, "manifest.json", content)
        with pytest.raises(InputError, match=r"manifest\.json: not a Zishu manifest"):
            Manifest.open(output, OPTIONS, resume=True)


def test_a_manifest_of_another_version_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    output, _ = finished(str(tmp_path))
    monkeypatch.setattr(shards, "__version__", "99")
    with pytest.raises(InputError, match=r"written with zishu = .*, not 99"):
        Manifest.open(output, OPTIONS, resume=True)


def test_a_file_name_need_not_be_unicode(tmp_path: Path) -> None:
    name = os.fsdecode(b"\xff.txt")
    try:
        output, source = finished(str(tmp_path), name)
    except OSError:
        pytest.skip("this file system has only names in Unicode")
    assert Manifest.open(output, OPTIONS, resume=True).done(source)


def test_many_entries_do_not_mean_many_writes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    written = []
    monkeypatch.setattr(shards, "write", lambda path, content, folder: written.append(content))
    clock = 0.0
    monkeypatch.setattr(shards.time, "monotonic", lambda: clock)
    manifest = Manifest(str(tmp_path), OPTIONS)
    for k in range(1000):
        clock += 0.01
        manifest.add(ShardEntry(f"{k}.txt", 1, "", f"{k}.txt.up"))
    assert 5 <= len(written) <= 12
    manifest.save()
    assert len(json.loads(written[-1])["shards"]) == 1000
