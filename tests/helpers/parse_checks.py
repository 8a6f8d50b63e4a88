"""Properties of every parse of every text."""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from zishu.document import Document


def check(document: Document) -> None:
    """Check what must hold for every parse of every text."""
    text = document.text
    covered = []
    for sentence in document:
        assert text[sentence.start : sentence.end] == sentence.text
        assert sentence.tree.forms == tuple(word.form for word in sentence.words)  # one root, no cycle
        assert sentence.char_tree.chars == tuple(sentence.chars)
        assert [word.id for word in sentence.words] == list(range(1, len(sentence.words) + 1))
        for word in sentence.words:
            assert text[word.start : word.end] == word.form
            assert word.char_heads is None or len(word.char_heads) == len(word.chars)
            covered.append(range(word.start, word.end))
    assert list(chain(*covered)) == [k for k, char in enumerate(text) if not char.isspace()]
