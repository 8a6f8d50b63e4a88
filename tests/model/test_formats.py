"""Models of every released format load, and find what they found when they were made."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
from make_format import FORMATS, analyse

from zishu.model.settings import FORMAT

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize("number", range(1, FORMAT + 1))
def test_a_model_of_every_format_finds_what_it_found(number: int, tmp_path: Path) -> None:
    folder = FORMATS / str(number)
    assert folder.is_dir(), "run tests/model/make_format.py"
    assert json.loads((folder / "config.json").read_text(encoding="utf-8"))["format"] == number
    # A copy without the analyses, which are not a model file.
    model = tmp_path / "model"
    model.mkdir()
    for path in folder.iterdir():
        if path.name != "analyses.json":
            (model / path.name).write_bytes(path.read_bytes())
    expected = json.loads((folder / "analyses.json").read_text(encoding="utf-8"))
    assert len(expected) > 3
    assert analyse(model) == expected
