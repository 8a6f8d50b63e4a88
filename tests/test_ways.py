"""The four ways through the code that CONTRIBUTING.md describes: every function is called, in the order given there."""

from __future__ import annotations

import inspect
import re
import sys
import threading
from contextlib import contextmanager
from functools import reduce
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import tiny
from zishu.cli import run
from zishu.corpus import parse_files

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import CodeType, FrameType

ROOT = Path(__file__).parents[1]
SECTION = re.compile(r"\n## Four ways through the code\n(.*?)\n## ", re.DOTALL)
TEXT = "上海计划发展金融业。"


def way(title: str) -> list[str]:
    """Return the functions of a way, as CONTRIBUTING.md names them."""
    found = SECTION.search((ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8"))
    assert found
    [paragraph] = [part for part in found[1].split("\n\n") if part.startswith(f"**{title}")]
    return re.findall(r"`([a-z_]+(?:\.\w+)+)`", paragraph.split("\n", 1)[1])


def code_of(name: str) -> CodeType:
    """Return the code of a function or method, such as `parser.Parser.analyse`."""
    parts = f"zishu.{name}".split(".")
    modules = next(k for k in range(len(parts), 0, -1) if _is_module(".".join(parts[:k])))
    found = reduce(getattr, parts[modules:], import_module(".".join(parts[:modules])))
    return inspect.unwrap(found).__code__


def _is_module(name: str) -> bool:
    try:
        import_module(name)
    except ImportError:
        return False
    return True


@contextmanager
def in_order(names: list[str]) -> Iterator[None]:
    """Check that functions are first called in this order inside the block, in this thread or a new one."""
    codes = {code_of(name): name for name in names}
    called: dict[str, None] = {}

    def watch(frame: FrameType, event: str, _: object) -> None:
        if event == "call" and frame.f_code in codes:
            called.setdefault(codes[frame.f_code])

    threading.setprofile(watch)
    sys.setprofile(watch)
    try:
        yield
    finally:
        sys.setprofile(None)
        threading.setprofile(None)
    assert list(called) == names


def test_a_string_from_the_command_line_to_the_drawing(capsys: pytest.CaptureFixture[str]) -> None:
    with in_order(way("From the command line")):
        assert run(["parse", TEXT]) == 0
    assert "金融" in capsys.readouterr().out


def test_a_file_of_a_corpus(tmp_path: Path) -> None:
    (tmp_path / "text.txt").write_text(TEXT, encoding="utf-8")
    with in_order(way("A file of a corpus")):
        parse_files(tmp_path / "text.txt", tmp_path / "out.conllu")


def test_a_training_sentence_to_its_gradient(tmp_path: Path) -> None:
    pytest.importorskip("torch", reason="the extra `train` is not installed")
    from zishu.train.config import load_config
    from zishu.train.loop import train

    names = way("A training sentence")
    treebank = tiny.write(tmp_path / "train.conllu")
    sizes = [
        "encoder.char_width=4",
        "encoder.bigram_width=4",
        "encoder.hidden=4",
        "scorer.arc=4",
        "scorer.label=4",
    ]
    settings = [
        f"data.train={treebank}",
        f"data.dev={treebank}",
        *sizes,
        "optimiser.epochs=1",
        "run.threads=1",
    ]
    config = load_config(
        ROOT / "configs" / "latent-c2f-bilstm.toml", [*settings, f"run.directory={tmp_path / 'run'}"]
    )
    with in_order(names):
        train(config)


def test_a_request() -> None:
    pytest.importorskip("httptools", reason="the extra `serve` is not installed")
    import zishu
    from serving import serving

    parser = zishu.load("fast")
    with in_order(way("A request")), serving(parser) as client:
        assert client.parse(text=TEXT).status == 200
