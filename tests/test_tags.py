"""Tag columns: known and unknown tags, and lemmas as dropped characters."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zishu.tags import tags_of, values_of
from zishu.tree import WordTree

HEADS, DEPRELS = (2, 0), ("nsubj", "root")


def tree(**columns: tuple[str, ...]) -> WordTree:
    return WordTree(("他们", "没有"), HEADS, DEPRELS, **columns)


def test_what_is_empty_is_unknown_but_for_features() -> None:
    found = tree(upos=("PRON", "_"), xpos=("_", "VV"), feats=("_", "Polarity=Neg"))
    assert tags_of(found, "upos") == ("PRON", None)
    assert tags_of(found, "xpos") == (None, "VV")
    assert tags_of(found, "feats") == ("_", "Polarity=Neg")
    assert tags_of(found, "lemma") == (None, None)


@pytest.mark.parametrize(
    ("lemmas", "tags"),
    [
        (("他", "有"), ("0:1", "1:0")),
        (("他们", "没有"), ("0:0", "0:0")),
        (("他门", "_"), (None, None)),
        (("他们们", "没"), (None, "0:1")),
    ],
)
def test_lemmas_are_what_is_dropped(lemmas: tuple[str, ...], tags: tuple[str | None, ...]) -> None:
    assert tags_of(tree(lemma=lemmas), "lemma") == tags


@given(st.text("上海计划e\u0301x", min_size=1), st.integers(0, 3), st.integers(0, 3))
def test_lemmas_come_back(form: str, first: int, last: int) -> None:
    [lemma] = values_of("lemma", [f"{first}:{last}"], [form])
    assert lemma
    assert lemma in form
    [tag] = tags_of(WordTree((form,), (0,), ("root",), lemma=(lemma,)), "lemma")
    assert tag is not None
    assert values_of("lemma", [tag], [form]) == (lemma,)


def test_other_columns_stand_for_themselves() -> None:
    assert values_of("feats", ["_", "Case=Gen"], ["他", "的"]) == ("_", "Case=Gen")
