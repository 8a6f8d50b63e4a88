"""Figures of a study: drawn without a warning, the same each time, and never with boxes instead of letters."""

from __future__ import annotations

import struct
import sys
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

pytest.importorskip("matplotlib")

from fontTools.fontBuilder import FontBuilder
from fontTools.pens.ttGlyphPen import TTGlyphPen
from matplotlib import font_manager, get_data_path

import tiny
from zishu.analysis.figures import draw_figures, labels
from zishu.analysis.fonts import Fonts, choose_fonts
from zishu.analysis.predictions import Predictions
from zishu.analysis.study import study
from zishu.errors import MissingExtra
from zishu.tree import WordTree

ALL = ["structures-2", "structures-3", "structures-4", "uas-by-length"]


def make_study(*names, structures=True):
    trees = tiny.TREES
    lengths = [tree.lengths for tree in trees]
    left = [[(*range(2, n + 1), 0) for n in row] for row in lengths]
    right = [[(0, *range(1, n)) for n in row] for row in lengths]
    # Another tree in one run, so that there is a spread to draw.
    other = (*trees[:-1], WordTree(trees[-1].forms, (2, 3, 0), trees[-1].deprels))
    runs = [
        Predictions("a", trees, left if structures else None, None),
        Predictions("b", other, right if structures else None, None),
    ]
    reference = {"发展": (0, 1), "金融业": (2, 3, 0), "社会主义": (4, 4, 4, 0)} if structures else None
    return study(trees, dict.fromkeys(names or ("latent",), runs), reference=reference)


def make_font(path: Path, text: str, family: str = "Squares") -> Path:
    """Write a font in which each character of a text is a square of its own size."""
    names = [".notdef", *(f"u{ord(char):04x}" for char in text)]
    builder = FontBuilder(1000, isTTF=True)
    builder.setupGlyphOrder(names)
    builder.setupCharacterMap({ord(char): f"u{ord(char):04x}" for char in text})
    glyphs = {}
    for number, name in enumerate(names):
        pen = TTGlyphPen(None)
        size = 300 + number
        pen.moveTo((0, 0))
        for corner in ((0, size), (size, size), (size, 0)):
            pen.lineTo(corner)
        pen.closePath()
        glyphs[name] = pen.glyph()
    builder.setupGlyf(glyphs)
    builder.setupHorizontalMetrics(dict.fromkeys(names, (1000, 0)))
    builder.setupHorizontalHeader(ascent=800, descent=-200)
    builder.setupNameTable({"familyName": family, "styleName": "Regular"})
    builder.setupOS2()
    builder.setupPost()
    builder.save(path)
    return path


@pytest.fixture
def clean_fonts():
    """Remove the fonts that a test registered with Matplotlib."""
    known = list(font_manager.fontManager.ttflist)
    yield
    font_manager.fontManager.ttflist[:] = known


def texts_of(svg: bytes) -> str:
    """Return the comments of an SVG file: Matplotlib keeps there what it drew as outlines."""
    parser = ET.XMLParser(target=ET.TreeBuilder(insert_comments=True))
    root = ET.fromstring(svg, parser)
    return "\n".join(node.text or "" for node in root.iter() if node.tag is ET.Comment)


# --- fonts


def test_letters_need_no_search():
    assert choose_fonts(["latent-c2f", "≥ 4", "é"], files=[]) == Fonts(("DejaVu Sans",), frozenset())


def test_no_font_is_told_once_and_clearly():
    fonts = choose_fonts(["金融业", "x"], files=[])
    assert fonts.families == ("DejaVu Sans",)
    assert fonts.missing == frozenset("金融业")
    assert not fonts.can_show("y业")
    assert fonts.can_show("y")
    assert "业" in fonts.warning
    assert "fonts-noto-cjk" in fonts.warning
    assert "\n" not in fonts.warning


def test_a_long_list_of_characters_is_cut():
    text = "".join(map(chr, range(0x4E00, 0x4E20)))
    assert len(choose_fonts([text], files=[]).warning) < 250


@pytest.mark.usefixtures("clean_fonts")
def test_a_font_is_chosen_by_what_it_has_and_not_by_its_name(tmp_path):
    poor = make_font(tmp_path / "NotoSansCJK-Regular.ttf", "金", "Poor")
    rich = make_font(tmp_path / "whatever.ttf", "金融业", "Rich")
    broken = tmp_path / "broken.ttf"
    broken.write_bytes(b"no font")
    fonts = choose_fonts(["金融业"], files=[broken, poor, rich])
    assert fonts.families == ("DejaVu Sans", "Rich")
    assert fonts.warning == ""
    # The best available font is used, and the missing characters are reported.
    partly = choose_fonts(["金融业"], files=[broken, poor])
    assert partly.families == ("DejaVu Sans", "Poor")
    assert partly.missing == frozenset("融业")


@pytest.mark.usefixtures("clean_fonts")
def test_upright_fonts_of_normal_weight_go_first(tmp_path):
    files = [make_font(tmp_path / f"NotoSansCJK-{style}.ttf", "金", style) for style in ("Bold", "Regular")]
    assert choose_fonts(["金"], files=files).families[1] == "Regular"


def test_a_font_of_boxes_is_no_font():
    boxes = list(Path(get_data_path(), "fonts", "ttf").glob("LastResort*"))
    assert choose_fonts(["金"], files=boxes).missing == frozenset("金")


# --- figures


@pytest.mark.parametrize("kind", ["svg", "png"])
def test_figures_are_drawn_without_warnings_and_always_alike(kind):
    report = make_study("latent", "latent-c2f")
    pictures = without_chinese(report, kind)
    assert list(pictures) == ALL
    assert without_chinese(report, kind) == pictures
    for picture in pictures.values():
        if kind == "svg":
            assert ET.fromstring(picture).tag.endswith("svg")
        else:
            assert picture.startswith(b"\x89PNG")
            width, height = struct.unpack(">II", picture[16:24])
            assert 300 < width < 4000
            assert 150 < height < 8000


def without_chinese(report, kind="svg"):
    return draw_figures(report, kind, choose_fonts(labels(report), files=[]))


def test_there_is_a_row_for_every_structure_and_a_bar_for_every_share():
    texts = texts_of(without_chinese(make_study("one", "two"))["structures-4"])
    for text in ("one", "two", "reference", "Words of 4 characters: 1", "50.00", "100.00", "0.00"):
        assert text in texts
    assert texts.count("50.00") == 4  # leftward and rightward of two systems
    assert texts.count("100.00") == 1  # the reference


@pytest.mark.usefixtures("clean_fonts")
def test_chinese_labels_are_drawn_with_a_font_that_has_them(tmp_path):
    report = make_study("字树", "other")
    text = "".join(sorted(set("".join(labels(report))) - set("other")))
    fonts = choose_fonts(labels(report), files=[make_font(tmp_path / "squares.ttf", text)])
    assert fonts.warning == ""
    pictures = draw_figures(report, "svg", fonts)
    assert "字树" in texts_of(pictures["uas-by-length"])
    shown = texts_of(pictures["structures-3"])
    assert "字树" in shown
    assert report.examples[2, 3, 0] in shown


def test_without_a_font_nothing_chinese_is_drawn():
    report = make_study("字树", "other")
    for picture in without_chinese(report).values():
        texts = texts_of(picture)
        assert "system 1" in texts
        assert "other" in texts
        assert not any("\u4e00" <= char <= "\u9fff" for char in texts)


def test_names_are_taken_as_they_are():
    # None of these is a formula, a label to hide, or the reference.
    report = make_study("_hidden", "$x_1$ and \\frac", "reference")
    for picture in without_chinese(report).values():
        texts = texts_of(picture)
        for name in report.systems:
            assert name in texts


def test_parsers_of_words_have_one_figure():
    assert list(without_chinese(make_study(structures=False))) == ALL[-1:]


def test_many_systems_with_long_names_fit():
    names = [f"{'a long name of a system ' * (k % 3)}{k}" for k in range(12)]
    assert list(without_chinese(make_study(*names), "png")) == ALL


def test_a_missing_matplotlib_names_the_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(MissingExtra, match=r"zishu\[train\]"):
        choose_fonts(["a"])
