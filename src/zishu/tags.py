"""Define the tag columns of a treebank: UPOS, XPOS, FEATS and LEMMA, each one choice from a list for every word.

All columns are learned, decoded and scored by the same code. The name of a column is the name of its field in
`WordTree` and in `Word`, of its list in a model's settings and of the network's output. Two columns need an
explanation:

- "_" in FEATS is a tag, "no features", if the treebank has features at all. In the other columns it means that the tag
  is unknown.
- Lemmas are not a list. But the lemma of a Chinese word is the word itself or a part of it: 有 of 没有, 他 of 他们. So the
  tag says how many characters to drop at the beginning and at the end: "1:0", "0:1", and "0:0" for the word itself. A
  lemma that is not a part of its word is unknown.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from zishu.text import characters

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from zishu.tree import WordTree

COLUMNS: Final = ("upos", "xpos", "feats", "lemma")
EMPTY: Final = "_"
_WHOLE: Final = "0:0"  # the tag of a lemma that is the word itself

# The parts of speech of Universal Dependencies.
UPOS: Final = frozenset(
    "ADJ ADP ADV AUX CCONJ DET INTJ NOUN NUM PART PRON PROPN PUNCT SCONJ SYM VERB X".split()  # noqa: SIM905
)


def tags_of(tree: WordTree, column: str) -> tuple[str | None, ...]:
    """Return the tag of every word of a tree in a column; None if unknown."""
    values: tuple[str, ...] | None = getattr(tree, column)
    if values is None:
        return (None,) * len(tree.forms)
    return tuple(tag_of(column, form, value) for form, value in zip(tree.forms, values, strict=True))


def tag_of(column: str, form: str, value: str) -> str | None:
    """Return the tag of a word, given the value of its column; None if it is unknown."""
    if column == "feats":
        return value
    if column == "lemma":
        return _dropped(form, value)
    return None if value == EMPTY else value


def values_of(column: str, tags: Iterable[Any], forms: Sequence[str]) -> tuple[Any, ...]:
    """Return the values of a column for words with these tags; a tag that is None is unknown."""
    if column != "lemma":
        return tuple(tags)
    return tuple(
        [form if tag == _WHOLE else _lemma(form, tag) for form, tag in zip(forms, tags, strict=True)]
    )


def _dropped(form: str, lemma: str) -> str | None:
    """Return the tag of a lemma, None if it is not a part of the word."""
    if form == lemma:
        return _WHOLE
    chars, kept = characters(form), characters(lemma)
    for start in range(len(chars) - len(kept) + 1):
        if chars[start : start + len(kept)] == kept:
            return f"{start}:{len(chars) - len(kept) - start}"
    return None


def _lemma(form: str, tag: str) -> str:
    """Return the lemma of a tag; the word itself if the tag would remove all of it."""
    first, _, last = tag.partition(":")
    chars = characters(form)
    return "".join(chars[int(first) : len(chars) - int(last)]) or form
