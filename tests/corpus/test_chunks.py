"""Documents in chunks: every sentence, the white space after it, and errors after the sentences before them."""

from __future__ import annotations

import itertools
import time
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from zishu.corpus import Options, RawDocument
from zishu.corpus import chunks as chunking
from zishu.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

EASY = "我喜欢北京。"


def chunks_of(blocks: Iterable[str], *, words: bool = False, **more: Any) -> Iterator[chunking.Chunk]:
    return chunking.chunks([RawDocument("a", blocks)], Options(words=words).sentences, **more)


@settings(max_examples=60)
@given(
    st.lists(
        st.sampled_from(["我", "北京。", " ", "\n", "\r\n", "\n\n", "“好！”", "a", "e\u0301", "🇨🇳"]),
        max_size=40,
    ),
    st.integers(1, 9),
    st.booleans(),
)
def test_chunks_hold_the_whole_text(pieces, size, words):
    text, found = "".join(pieces), []
    for chunk in chunks_of(pieces, words=words, size=size):
        assert chunk.first == len(found)
        assert chunk.sentences
        found += chunk.sentences
        assert chunk.last == len(found)
    assert "".join(sentence.text + sentence.after for sentence in found) == text.lstrip()
    assert all(text.startswith(sentence.text, sentence.start) for sentence in found)


def test_a_sentence_costs_the_same_in_a_long_text():
    """A row of a table is one block, whatever its length: it must not be copied for every sentence."""

    def seconds(text: str) -> float:
        found = chunks_of([text], words=True, size=1000)
        began = time.process_time()
        assert next(found).last == 1000
        return time.process_time() - began

    assert seconds("我\n" * 5_000_000) < 20 * seconds("我\n" * 5_000)


def test_chunks_come_before_the_text_ends():
    endless = chunks_of(itertools.repeat(EASY))
    for k in range(3):
        chunk = next(endless)
        assert chunking.CHUNK <= chunk.size < chunking.CHUNK + 400
        assert chunk.sentences[0].start == sum(map(len, EASY)) * chunk.first
        assert (chunk.first == 0) == (k == 0)


def test_short_documents_share_chunks() -> None:
    documents = [
        RawDocument(name, [text]) for name, text in [("a", "我来。"), ("b", " \n"), ("c", EASY * 2 + "\n")]
    ]
    first, second = chunking.chunks(documents, Options().sentences, size=8)
    assert first.places == [("a", 1), ("c", 1)]
    assert [first.sentences[1].start, [s.after for s in first.sentences], first.end] == [0, ["", ""], 9]
    assert (second.first, second.places, second.sentences[0].after, second.end) == (2, [("c", 2)], "\n", 15)
    unnamed = chunking.chunks([RawDocument("a", [EASY])], Options().sentences, named=False)
    assert next(unnamed).places == [("", 1)]


@pytest.mark.parametrize("error", [InputError("a: byte 18 is bad"), OSError(5, "Input/output error")])
def test_a_fault_comes_after_the_sentences_before_it(error: Exception) -> None:
    def broken() -> Iterator[str]:
        yield EASY * 2 + "他"
        raise error

    found = chunks_of(broken())
    # The last sentence might continue after the error.
    assert [sentence.text for sentence in next(found).sentences] == [EASY, EASY]
    with pytest.raises(type(error), match=str(error).replace("[", ".").replace("]", ".")):
        next(found)


def test_a_sentence_that_is_typed_does_not_wait_for_the_next_one() -> None:
    seen: list[str] = []

    def typed() -> Iterator[str]:
        for line in (EASY + "\n", "\n", "你好！\n"):
            seen.append(line)
            yield line

    found = chunks_of(typed(), interactive=True)
    assert [sentence.text for sentence in next(found).sentences] == [EASY]
    assert len(seen) == 1
