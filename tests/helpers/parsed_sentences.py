"""Build parsed sentences by hand, and draw arbitrary ones: no model needed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hypothesis import strategies as st

from strategies import tree_heads
from zishu.document import Sentence, Word
from zishu.text import characters

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hypothesis.strategies import DrawFn

SPACES = ("", "", "", " ", "  ", "\n", "\t", "\r\n", "\u3000", "\u2028", "\x85", " \x1f")
# Characters that formats and drawings may trip over.
NASTY = '_#|=\\"&<>[]\x00\x07\x1b\x7f\ud800\udfff\u0301\u200b\u200d\u202e\ufeff\ufffe\uffff🇨🇳👨👩e海'

Row = tuple[str, str | None, int, str, tuple[int, ...] | None]


def parsed(
    rows: Sequence[Row],
    *,
    start: int = 0,
    spaces: Sequence[str] = (),
    probs: Sequence[tuple[float | None, float | None, float | None]] = (),
    cut: bool = False,
    prob: float | None = None,
    after: str = "",
) -> Sentence:
    """Return the sentence of rows (form, upos, head, deprel, char_heads); `spaces[i]` follows word i + 1."""
    words = []
    text = ""
    for i, (form, upos, head, deprel, char_heads) in enumerate(rows):
        place = start + len(text)
        chances = probs[i] if probs else (None, None, None)
        words.append(Word(i + 1, form, place, place + len(form), upos, head, deprel, char_heads, *chances))
        text += form
        if i < len(rows) - 1 and spaces:
            text += spaces[i]
    return Sentence(text, start, tuple(words), cut, prob, after)


# The example of the paper's Figure 1 (with a full stop), and its structures inside words.
SHANGHAI = parsed(
    [
        ("上海", "PROPN", 2, "nsubj", (2, 0)),
        ("计划", "VERB", 0, "root", (2, 0)),
        ("发展", "VERB", 2, "ccomp", (0, 1)),
        ("金融业", "NOUN", 3, "obj", (3, 1, 0)),
        ("。", "PUNCT", 2, "punct", (0,)),
    ],
    start=3,
    probs=[
        (0.99, 0.98, 1.0),
        (1.0, 0.995, 0.999),
        (0.75, 0.9, 0.8),
        (0.5, 0.6, 0.7),
        (1.0, 1.0, 1.0),
    ],
    prob=0.00123456,
)


@st.composite
def sentences(
    draw: DrawFn, *, max_words: int = 6, projective: bool | None = None, nasty: bool = True
) -> Sentence:
    """Draw any sentence: odd characters, all kinds of white space, values known or not."""
    alphabet = st.sampled_from("上海计划发展金融业我们")
    if nasty:
        alphabet = alphabet | st.sampled_from(NASTY) | st.characters()
    forms = draw(
        st.lists(
            st.text(alphabet, min_size=1, max_size=5).filter(lambda form: not any(map(str.isspace, form))),
            min_size=1,
            max_size=max_words,
        )
    )
    n = len(forms)
    heads = draw(tree_heads(n, projective=projective))
    known = draw(st.booleans())
    chance = st.floats(0, 1) if known else st.none() | st.floats(0, 1)
    rows: list[Row] = [
        (
            form,
            draw(st.sampled_from(("NOUN", "PUNCT", None))),
            head,
            draw(st.sampled_from(("root", "nsubj", "acl:relcl", "compound"))),
            draw(st.none() | tree_heads(len(characters(form)))),
        )
        for form, head in zip(forms, heads, strict=True)
    ]
    return parsed(
        rows,
        start=draw(st.integers(0, 1000)),
        spaces=draw(st.lists(st.sampled_from(SPACES), min_size=n, max_size=n)),
        probs=draw(st.lists(st.tuples(chance, chance, chance), min_size=n, max_size=n)),
        cut=draw(st.booleans()),
        prob=draw(st.none() | st.floats(0, 1)),
        after=draw(st.sampled_from(SPACES)),
    )
