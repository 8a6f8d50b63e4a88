"""Output that survives a kill, and replacement of whole files."""

from __future__ import annotations

import contextlib
import errno
import os
import signal
import threading
from pathlib import Path

import pytest

from text_files import read, write
from zishu import writing
from zishu.compression import DamagedFile
from zishu.errors import InputError, ZishuError
from zishu.reading import open_bytes
from zishu.writing import Output, exclusive, moving, replacing, replacing_all, truncate

ENDINGS = ["", ".gz", ".zst", ".GZ"]
TEXT = "第一行。\r\n第二行\u2028还是第二行。\n\n𠮷野家！\n"


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


@pytest.mark.parametrize("ending", ENDINGS)
def test_what_was_written_can_be_read_at_once(tmp_path, ending):
    path = tmp_path / f"a{ending}"
    out = Output(path)
    for k in range(1, 4):
        out.write(TEXT)
        seen = b""
        with open_bytes(path) as stream, contextlib.suppress(DamagedFile):  # it is not complete yet
            while block := stream.read1():
                seen += block
        assert seen.decode() == TEXT * k
    out.close()
    out.close()


@pytest.fixture
def interruptible():
    """Let SIGINT interrupt this process: a shell starts its background jobs with the signal ignored."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.skipif(os.name != "posix", reason="signals as on POSIX")
@pytest.mark.parametrize("ending", [".gz", ".zst"])
def test_an_interrupt_does_not_tear_a_block(tmp_path, ending, interruptible):
    path, piece = tmp_path / f"a{ending}", os.urandom(5_000_000).hex()
    interrupt = threading.Timer(0.05, os.kill, (os.getpid(), signal.SIGINT))

    def write_on():
        with Output(path) as out:
            interrupt.start()
            for _ in range(1000):
                out.write(piece)

    with pytest.raises(KeyboardInterrupt):
        write_on()
    interrupt.join()
    written = read(path)
    assert len(written) % len(piece) == 0
    assert written.startswith(piece)


def test_surrogates_are_written_as_escapes(tmp_path):
    assert read(write(tmp_path / "a", "好\ud800")) == "好\\ud800"


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
def test_a_full_disk_is_named(tmp_path):
    link = tmp_path / "out.gz"
    link.symlink_to("/dev/full")
    with pytest.raises(OSError, match="No space left") as caught, Output(link) as out:
        out.write(TEXT)
    assert caught.value.filename == str(link)


@pytest.mark.parametrize("ending", ENDINGS)
def test_cutting_a_file_off(tmp_path, ending):
    path = write(tmp_path / f"a{ending}", "一二三", "四五六")
    truncate(path, 12)
    assert read(path) == "一二三四"
    write(path, "七", append=True)
    assert read(path) == "一二三四七"
    if ending:
        # The same for a truncated file.
        path.write_bytes(write(path, "一二三", "四五六").read_bytes()[:-4])
        truncate(path, 9)
        assert read(path) == "一二三"
        with pytest.raises(DamagedFile):
            truncate(path, 100)
        assert read(path) == "一二三"


# ---- replacing


def test_a_file_is_replaced_when_the_block_ends(tmp_path):
    path = tmp_path / "a"
    path.write_bytes(b"old")
    with replacing(path) as file:
        file.write(b"new")
        assert path.read_bytes() == b"old"
    assert path.read_bytes() == b"new"
    assert names(tmp_path) == ["a"]


def test_nothing_happens_when_the_block_fails(tmp_path):
    path = tmp_path / "a"
    path.write_bytes(b"old")
    with pytest.raises(TypeError), replacing_all([path, tmp_path / "b"]) as [first, _]:
        first.write("text")
    assert path.read_bytes() == b"old"
    assert names(tmp_path) == ["a"]


def test_no_file_is_replaced_before_all_are_safe(tmp_path, monkeypatch):
    synced = []

    def fail_second(descriptor):
        synced.append(descriptor)
        if len(synced) == 2:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", fail_second)
    (tmp_path / "a").write_bytes(b"old")
    with pytest.raises(OSError, match="No space left") as caught:  # noqa: SIM117
        with replacing_all([tmp_path / "a", tmp_path / "b"]) as [first, _]:
            first.write(b"new")
    assert caught.value.filename == str(tmp_path / "b")
    assert (tmp_path / "a").read_bytes() == b"old"
    assert names(tmp_path) == ["a"]


def test_errors_name_the_file_that_was_asked_for(tmp_path):
    (tmp_path / "folder").mkdir()
    for path in (tmp_path / "folder", tmp_path / "no" / "a"):
        with pytest.raises(OSError) as caught, replacing(path) as file:  # noqa: PT011
            file.write(b"x")
        assert caught.value.filename == str(path)
    assert names(tmp_path) == ["folder"]


def test_a_link_stays_and_the_file_behind_it_is_replaced(tmp_path):
    (tmp_path / "folder").mkdir()
    path = tmp_path / "folder" / "a"
    link = tmp_path / "link"
    link.symlink_to(path)
    for data in (b"not there yet", b"new"):
        with replacing(link) as file:
            file.write(data)
        assert link.is_symlink()
        assert path.read_bytes() == data
    assert names(tmp_path / "folder") == ["a"]
    link.unlink()
    link.symlink_to(tmp_path / "no" / "a")
    with pytest.raises(OSError) as caught, replacing(link) as file:  # noqa: PT011
        file.write(b"x")
    assert caught.value.filename == str(link)


def test_a_pipe_is_written_into(tmp_path):
    pipe, path = tmp_path / "pipe", tmp_path / "a"
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    try:
        with replacing_all([pipe, path]) as [into_pipe, file]:
            into_pipe.write(b"new")
            file.write(b"too")
        assert os.read(reader, 10) == b"new"
    finally:
        os.close(reader)
    assert path.read_bytes() == b"too"
    assert pipe.is_fifo()
    assert names(tmp_path) == ["a", "pipe"]


@pytest.mark.skipif(not Path("/dev/null").is_char_device(), reason="needs /dev/null")
def test_a_device_stays(tmp_path):
    link = tmp_path / "link"
    link.symlink_to("/dev/null")  # not the device itself, which a fault would replace for everybody
    with replacing(link) as file:
        file.write(b"new")
    assert link.is_char_device()
    assert names(tmp_path) == ["link"]


def test_files_written_elsewhere_are_moved_or_removed(tmp_path):
    temporary, target = tmp_path / "t", tmp_path / "new" / "folder" / "a"
    with moving({temporary: target}):
        temporary.write_bytes(b"all")
    assert target.read_bytes() == b"all"
    with pytest.raises(KeyboardInterrupt), moving({temporary: target}):  # noqa: PT012
        temporary.write_bytes(b"hal")
        raise KeyboardInterrupt
    assert target.read_bytes() == b"all"
    assert names(tmp_path) == ["new"]


# ---- what strangers and other processes do


def leftover(path: Path, token: str = "0123456789abcdef") -> Path:
    return path.with_name(f".{path.name}.{token}.unfinished")


def test_no_link_is_followed_from_a_temporary_name(tmp_path, monkeypatch):
    victim, path = tmp_path / "victim", tmp_path / "a"
    victim.write_bytes(b"precious")
    # The fixed name of earlier versions, and a name that was guessed right.
    (tmp_path / ".a.unfinished").symlink_to(victim)
    with replacing(path) as file:
        file.write(b"new")
    assert path.read_bytes() == b"new"
    leftover(path).symlink_to(victim)
    monkeypatch.setattr(writing.secrets, "token_hex", lambda _: "0123456789abcdef")
    with pytest.raises(FileExistsError) as caught, replacing(path) as file:
        file.write(b"newer")
    assert caught.value.filename == str(path)
    assert victim.read_bytes() == b"precious"
    assert path.read_bytes() == b"new"


@pytest.mark.skipif(writing.fcntl is None, reason="no locks")
def test_only_what_killed_processes_left_is_removed(tmp_path):
    path, victim = tmp_path / "a", tmp_path / "victim"
    victim.write_bytes(b"precious")
    leftover(path).write_bytes(b"half")
    leftover(path, "f" * 16).symlink_to(victim)
    os.mkfifo(leftover(path, "e" * 16))
    others = [
        tmp_path / name for name in (".a.unfinished", ".a.b.unfinished", ".b.0123456789abcdef.unfinished")
    ]
    for other in others:
        other.write_bytes(b"")
    with replacing(path) as file:
        file.write(b"first")
        with replacing(path) as second:  # does not take the first one's unfinished file for a leftover
            second.write(b"second")
        assert path.read_bytes() == b"second"
    assert path.read_bytes() == b"first"
    assert victim.read_bytes() == b"precious"
    kept = [leftover(path, "e" * 16), leftover(path, "f" * 16), *others, path, victim]
    assert names(tmp_path) == sorted(file.name for file in kept)


def test_a_link_is_replaced_where_the_folder_may_be_a_strangers(tmp_path):
    victim, link = tmp_path / "victim", tmp_path / "link"
    victim.write_bytes(b"precious")
    link.symlink_to(victim)
    with replacing(link, follow=False) as file:
        file.write(b"new")
    assert not link.is_symlink()
    assert (link.read_bytes(), victim.read_bytes()) == (b"new", b"precious")


def test_an_output_that_vanishes_is_an_error(tmp_path):
    folder = tmp_path / "folder"
    folder.mkdir()
    for spoil in (lambda path: path.unlink(), lambda path: path.rename(tmp_path / "moved"), None):
        path = folder / "a"
        out = Output(path)
        out.write(TEXT)
        if spoil is None:
            path.unlink()
            path.write_text("of somebody else", encoding="utf-8")
        else:
            spoil(path)
        with pytest.raises(ZishuError, match="was removed or replaced while it was being written"):
            out.close()


@pytest.mark.skipif(writing.fcntl is None, reason="no locks")
def test_a_folder_has_room_for_one(tmp_path: Path) -> None:
    with exclusive(tmp_path):
        with pytest.raises(InputError, match="another process is at work"), exclusive(tmp_path):
            pytest.fail("two at once")
        (tmp_path / "a").mkdir()
        with exclusive(tmp_path / "a"):
            pass
    with exclusive(tmp_path):
        pass
