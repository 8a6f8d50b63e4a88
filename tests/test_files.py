"""Text by file ending, decoding with offsets, output that survives a kill, and replacement of whole files."""

from __future__ import annotations

import contextlib
import errno
import gzip
import io
import os
import sys
import threading
import time
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from zishu import files
from zishu.compression import DamagedFile, plain_name
from zishu.errors import InputError, MissingExtra
from zishu.files import Input, Output, open_bytes, replacing, replacing_all, truncate
from zishu.formats.conllu import read_conllu

ENDINGS = ["", ".gz", ".zst", ".GZ"]
TEXT = "第一行。\r\n第二行\u2028还是第二行。\n\n𠮷野家！\n"


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def read(path: Path | str, **options) -> str:
    with Input(path, **options) as text:
        return "".join(text.blocks())


def write(path: Path, *pieces: str, append: bool = False) -> Path:
    with Output(path, append=append) as out:
        for piece in pieces:
            out.write(piece)
    return path


# ---- reading


@pytest.mark.parametrize("ending", ENDINGS)
def test_what_was_written_is_read(tmp_path, ending):
    path = write(tmp_path / f"a.txt{ending}", TEXT, "", TEXT)
    assert read(path) == TEXT * 2
    with open_bytes(path) as stream:
        assert stream.read() == (TEXT * 2).encode()
    # Appending makes a second member, and an empty piece or none at all does no harm.
    write(path, "尾", append=True)
    write(path, append=True)
    assert read(path) == TEXT * 2 + "尾"
    assert read(write(tmp_path / f"empty{ending}")) == ""


def test_a_gzip_file_is_one_for_others(tmp_path):
    path = write(tmp_path / "a.gz", TEXT, "尾")
    assert gzip.decompress(path.read_bytes()).decode() == TEXT + "尾"
    path.write_bytes(gzip.compress(TEXT.encode()) + gzip.compress(b"x") + bytes(100))  # members, filled up
    assert read(path) == TEXT + "x"
    assert write(path).stat().st_size == len(gzip.compress(b""))  # not a file of no bytes, which gzip refuses


def test_zstd_frames_of_others(tmp_path):
    zstandard = pytest.importorskip("zstandard")
    pack = zstandard.ZstdCompressor().compress
    path = tmp_path / "a.zst"
    skippable = (0x184D2A50).to_bytes(4, "little") + (3).to_bytes(4, "little") + b"abc"
    path.write_bytes(pack(TEXT.encode()) + skippable + pack(b"x" * 10_000_000))
    assert read(path) == TEXT + "x" * 10_000_000


@pytest.mark.parametrize("ending", ENDINGS[1:])
def test_broken_compression_is_one_line(tmp_path, ending):
    whole = write(tmp_path / f"whole{ending}", TEXT * 1000).read_bytes()
    path = tmp_path / f"broken{ending}"
    for data, truncated in (
        (whole[:-3], True),
        (b"\x1fnot compressed at all", False),
        (whole + b"x\n", None),
    ):
        path.write_bytes(data)
        with pytest.raises(DamagedFile, match=r"broken\.\w+: not a complete (gzip|zstd) file: ") as caught:
            read(path)
        assert "\n" not in str(caught.value)
        assert truncated is None or caught.value.truncated == truncated
    changed = bytearray(whole)
    changed[len(whole) // 2] ^= 0xFF
    path.write_bytes(changed)
    with pytest.raises(DamagedFile):
        read(path)


def test_without_zstandard_the_extra_is_named(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "zstandard", None)
    monkeypatch.setitem(sys.modules, "compression", None)
    with pytest.raises(MissingExtra, match=r"pip install 'zishu\[zstd\]'"):
        Output(tmp_path / "a.zst")
    assert not (tmp_path / "a.zst").exists()


def test_conllu_files_may_be_zstd(tmp_path):
    row = "1\t来\t_\tVERB\t_\t_\t0\troot\t_\t_\n\n"
    path = write(tmp_path / "a.conllu.zst", row)
    assert [token.form for sentence in read_conllu(path) for token in sentence.tokens] == ["来"]
    path.write_bytes(path.read_bytes()[:-2])
    with pytest.raises(InputError, match=r"a\.conllu\.zst:3: not a complete zstd file: it ends too early"):
        list(read_conllu(path))


@settings(max_examples=40)
@given(st.binary(max_size=12), st.integers(0, 6))
def test_bytes_that_are_no_utf8_are_named_by_their_offset(tmp_path_factory, data, ahead):
    path = tmp_path_factory.getbasetemp() / "bytes.txt"
    whole = "好".encode() * ahead + data
    path.write_bytes(whole)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(files, "_BLOCK", 4)  # blocks end inside characters
        assert read(path, errors="replace") == whole.decode(errors="replace").removeprefix("\ufeff")
        try:
            text = whole.decode()
        except UnicodeDecodeError as error:
            where = rf": byte {error.start} \(counted from 0\) is 0x{whole[error.start]:02x}$"
            with pytest.raises(InputError, match=where):
                read(path)
        else:
            assert read(path) == text.removeprefix("\ufeff")


def test_the_offset_counts_decompressed_bytes(tmp_path):
    path = tmp_path / "a.gz"
    path.write_bytes(gzip.compress("好".encode() * 100_000 + b"\xff"))
    with pytest.raises(InputError, match=r"a\.gz: not valid UTF-8: byte 300000 "):
        read(path)


def test_a_byte_order_mark_is_no_text_at_the_start_only(tmp_path):
    path = tmp_path / "a.txt"
    path.write_text("\ufeff\ufeff好\ufeff", encoding="utf-8")
    assert read(path) == "\ufeff好\ufeff"


def test_how_much_was_read(tmp_path):
    text = "好" * 200_000
    path = write(tmp_path / "a.txt", text)
    with Input(path) as source:
        assert source.size == 600_000
        blocks = source.blocks()
        next(blocks)
        assert 0 < source.bytes < source.size
        assert abs(source.bytes - 3 * source.characters) < 3
        for _ in blocks:
            pass
        assert (source.bytes, source.characters) == (600_000, 200_000)
    packed = write(tmp_path / "a.txt.gz", text)
    with Input(packed) as source:
        assert source.size == packed.stat().st_size
        assert len("".join(source.blocks())) == source.characters == 200_000
        assert source.bytes == source.size


def test_standard_streams(monkeypatch, capsys):
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(TEXT.encode()), encoding="ascii"))
    with Input() as text:
        assert text.name == "<stdin>"
        assert text.size is None
        assert "".join(text.blocks()) == TEXT
    with Output() as out:
        out.write(TEXT)
    assert capsys.readouterr().out == TEXT
    monkeypatch.setattr("sys.stdin", None)
    with pytest.raises(InputError, match="standard input is closed"):
        Input()


def test_a_standard_input_that_does_not_block_is_read_to_its_end(monkeypatch):
    reader, writer = os.pipe()
    os.set_blocking(reader, False)

    def write_slowly():
        for _ in range(2):
            time.sleep(0.2)
            os.write(writer, TEXT.encode())
        os.close(writer)

    with os.fdopen(reader, encoding="utf-8") as stream:
        monkeypatch.setattr("sys.stdin", stream)
        thread = threading.Thread(target=write_slowly)
        thread.start()
        try:
            assert read("-") == TEXT * 2
        finally:
            thread.join()


def test_names_without_compression():
    assert [plain_name(f"a.txt{ending}") for ending in ENDINGS] == ["a.txt"] * 4
    assert [plain_name(f"a.TXT{ending.upper()}") for ending in ENDINGS] == ["a.TXT"] * 4


# ---- writing


@pytest.mark.parametrize("ending", ENDINGS)
def test_what_was_written_can_be_read_at_once(tmp_path, ending):
    path = tmp_path / f"a{ending}"
    out = Output(path)
    for k in range(1, 4):
        out.write(TEXT)
        seen = b""
        with open_bytes(path) as stream, contextlib.suppress(DamagedFile):  # it has no end yet
            while block := stream.read1():
                seen += block
        assert seen.decode() == TEXT * k
    out.close()
    out.close()


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
        # A torn file, too.
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
