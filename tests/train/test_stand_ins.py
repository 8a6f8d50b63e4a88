"""The table of characters that others stand for: by Unicode's compatibility forms and by OpenCC."""

import sys
from unicodedata import normalize

import pytest

from zishu.errors import MissingExtra
from zishu.train.stand_ins import simplified_characters, stand_ins

SIMPLIFIED = {"漢": ("汉",), "乾": ("干", "乾"), "髮": ("发",), "鐘": ("锺", "钟")}


def test_the_table_of_stand_ins():
    symbols = ("<pad>", "汉", "A", "b", "1", "乾", "钟", "发")
    table = stand_ins(symbols, simplified=SIMPLIFIED)
    assert {char: table[char] for char in "漢Ａｂ１①髮鐘"} == dict(
        zip("漢Ａｂ１①髮鐘", "汉Ab11发钟", strict=True)
    )
    assert not set(table) & set(symbols)
    assert set(table.values()) <= set(symbols)
    assert "a" not in table  # no letter of another case without `lowercase`
    assert "　" not in table


def test_a_compatibility_ideograph_stands_for_the_simplified_form():
    # First its plain form, then the simplified form of that.
    char = next(chr(c) for c in range(0xF900, 0xFAD9) if normalize("NFKC", chr(c)) == "金")
    assert stand_ins(["钅"], simplified={"金": ("钅",)})[char] == "钅"


def test_lower_case_letters_serve_full_width_capitals():
    table = stand_ins(["a"], lowercase=True, simplified={})
    assert table["Ａ"] == table["ａ"] == "a"
    assert "A" not in table


def test_openccs_table():
    pytest.importorskip("opencc")
    table = simplified_characters()
    assert table["漢"] == ("汉",)
    assert len(table) > 3000


def test_a_missing_table_names_the_extra(monkeypatch):
    for name in [name for name in sys.modules if name.partition(".")[0] == "opencc"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "opencc", None)
    with pytest.raises(MissingExtra, match=r"opencc-python-reimplemented is not installed.*zishu\[train\]"):
        simplified_characters()
