"""Text by file ending, decoding with offsets, and lines."""

from __future__ import annotations

import gzip
import io
import os
import sys
import threading
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from text_files import read, write
from zishu import reading
from zishu.compression import DamagedFile, plain_name
from zishu.errors import FormatError, InputError, MissingExtra
from zishu.formats.conllu import read_conllu
from zishu.reading import Input, open_bytes, read_lines
from zishu.writing import Output

ENDINGS = ["", ".gz", ".zst", ".GZ"]
TEXT = "第一行。\r\n第二行\u2028还是第二行。\n\n𠮷野家！\n"


@pytest.mark.parametrize("ending", ENDINGS)
def test_what_was_written_is_read(tmp_path, ending):
    path = write(tmp_path / f"a.txt{ending}", TEXT, "", TEXT)
    assert read(path) == TEXT * 2
    with open_bytes(path) as stream:
        assert stream.read() == (TEXT * 2).encode()
    # Appending creates a second member, and an empty piece or none at all does no harm.
    write(path, "尾", append=True)
    write(path, append=True)
    assert read(path) == TEXT * 2 + "尾"
    assert read(write(tmp_path / f"empty{ending}")) == ""


def test_a_gzip_file_is_one_for_others(tmp_path):
    path = write(tmp_path / "a.gz", TEXT, "尾")
    assert gzip.decompress(path.read_bytes()).decode() == TEXT + "尾"
    path.write_bytes(gzip.compress(TEXT.encode()) + gzip.compress(b"x") + bytes(100))  # members, filled up
    assert read(path) == TEXT + "x"
    assert write(path).stat().st_size == len(gzip.compress(b""))  # not an empty file, which gzip rejects


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
        patch.setattr(reading, "_BLOCK", 4)  # blocks end inside characters
        assert read(path, errors="replace") == whole.decode(errors="replace").removeprefix("\ufeff")
        try:
            text = whole.decode()
        except UnicodeDecodeError as error:
            where = rf": byte {error.start} \(counted from 0\) is 0x{whole[error.start]:02x}(?:;|$)"
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


# ---- lines


def test_only_lf_ends_a_line(tmp_path, monkeypatch):
    monkeypatch.setattr(reading, "_BLOCK", 4)  # blocks end inside lines
    path = write(tmp_path / "a.txt", TEXT)
    with Input(path) as text:
        assert list(text.lines()) == ["第一行。\r\n", "第二行\u2028还是第二行。\n", "\n", "𠮷野家！\n"]
    lines = ["第一行。", "第二行\u2028还是第二行。", "", "𠮷野家！"]
    assert list(read_lines(path)) == lines
    assert list(read_lines(io.BytesIO(TEXT.encode()))) == lines
    assert list(read_lines(io.StringIO("\ufeff" + TEXT + "x", newline=""))) == [*lines, "x"]
    assert list(read_lines(io.BytesIO(b""))) == []


def test_a_stream_of_the_caller_stays_open(tmp_path):
    with write(tmp_path / "a.txt", TEXT).open("rb") as stream:
        assert len(list(read_lines(stream))) == 4
        assert not stream.closed


@pytest.mark.parametrize("block", [1, 3, 1 << 16])
def test_a_fault_in_a_line_comes_after_the_lines_before_it(tmp_path, monkeypatch, block):
    monkeypatch.setattr(reading, "_BLOCK", block)
    path = tmp_path / "a.txt"
    path.write_bytes("一\n二".encode() + b"\xff\n")
    lines = read_lines(path)
    assert next(lines) == "一"
    with pytest.raises(FormatError, match=r"a\.txt:2: not valid UTF-8: byte 4 of the line is 0xff"):
        next(lines)


def test_standard_input_has_lines_too(monkeypatch):
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(b"a\nb\xff"), encoding="ascii"))
    lines = read_lines("-")
    assert next(lines) == "a"
    with pytest.raises(FormatError, match=r"^<stdin>:2: "):
        next(lines)


@pytest.mark.parametrize("errors", ["strict", "replace"])
def test_a_missing_byte_order_mark_is_one_line(errors):
    with (
        Input(io.BytesIO("你好。".encode()), name="a.txt", encoding="utf-16", errors=errors) as text,
        pytest.raises(InputError, match=r"a\.txt: not valid utf-16: .*BOM; try utf-16-le or utf-16-be"),
    ):
        list(text.lines())


def test_a_line_has_a_limit_wherever_its_blocks_end(monkeypatch):
    text = "一二三\n四五六\n七八九十\n"
    for block in (1, 7, 1 << 16):
        monkeypatch.setattr(reading, "_BLOCK", block)
        found = []
        with (
            Input(io.BytesIO(text.encode()), name="a") as lines,
            pytest.raises(FormatError, match=r"a:3: a line of more than 3 characters"),
        ):
            found.extend(lines.lines(3))
        with Input(io.BytesIO(text.encode())) as lines:
            assert "".join(lines.lines(4)) == text
