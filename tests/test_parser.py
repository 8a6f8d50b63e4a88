"""The parser that people use, with the bundled model: modes, constraints, order, batches, threads."""

from __future__ import annotations

import subprocess
import sys
import threading
import weakref
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from itertools import chain, count, islice
from typing import TYPE_CHECKING

import numpy as np
import pytest

import zishu
from parse_checks import check
from zishu import chart
from zishu.corpus.files import parse_files, parse_texts
from zishu.corpus.options import Options
from zishu.document import Document, Sentence
from zishu.errors import InputError
from zishu.lexicon import Lexicon
from zishu.model.files import find_model
from zishu.parser import LOOK_AHEAD, Parser
from zishu.sentences import line_sentences, stream_sentences
from zishu.splitting import split_sentences
from zishu.text import LIMIT

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from pathlib import Path


EASY = "我喜欢北京。"
STORY = (
    "我喜欢北京。他在上海 工作了三年！\n\n"
    "昨天,我们去公园散步；天气很好。“你吃饭了吗？”她问。\r\n"
    "世界卫生组织(WHO)发布了2.5版的报告,详见https://example.org/a?b=1。\n\n完"
)


@pytest.fixture(scope="module")
def parser() -> Parser:
    return zishu.load(threads=1)


def forms(sentences: Iterable[Sentence]) -> list[list[str]]:
    return [[word.form for word in sentence.words] for sentence in sentences]


def without_probabilities(sentence: Sentence) -> Sentence:
    none = dict.fromkeys(("boundary_prob", "head_prob", "label_prob", "upos_prob", "structure_prob"))
    bare = (replace(word, **none) for word in sentence.words)
    return replace(sentence, words=tuple(bare), prob=None)


def same(left: Iterable[Sentence], right: Iterable[Sentence]) -> bool:
    """Tell whether two parses agree, probabilities up to the last bits of floating point."""
    one, other = list(left), list(right)
    if list(map(without_probabilities, one)) != list(map(without_probabilities, other)):
        return False
    pairs = zip(map(probabilities, one), map(probabilities, other), strict=True)
    return all(a == pytest.approx(b, abs=1e-4) for a, b in pairs)


def probabilities(sentence: Sentence) -> list[float | None]:
    each = (
        (w.boundary_prob, w.head_prob, w.label_prob, w.upos_prob, w.structure_prob) for w in sentence.words
    )
    return [sentence.prob, *chain(*each)]


def test_an_easy_sentence(parser: Parser) -> None:
    document = parser(EASY)
    check(document)
    [sentence] = document
    assert forms(document) == [["我", "喜欢", "北京", "。"]]
    assert [word.head for word in sentence.words] == [2, 0, 2, 2]
    assert [word.deprel for word in sentence.words][:3] == ["nsubj", "root", "obj"]
    assert sentence.words[1].upos == "VERB"
    for word in sentence.words:
        assert word.prob is not None
        assert 0 < word.prob <= 1
        assert word.boundary_prob is not None
        assert word.boundary_prob > 0.5
    assert sentence.prob is not None
    assert 0 < sentence.prob <= 1


def test_a_story(parser: Parser) -> None:
    document = parser(STORY)
    check(document)
    assert [(s.start, s.end) for s in document] == [(r.start, r.end) for r in split_sentences(STORY)]
    assert not any(sentence.cut for sentence in document)
    assert len(document) == 7


def test_the_folder_of_a_run_stands_for_its_model(tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()
    assert find_model(tmp_path / "run") == tmp_path / "run"
    (tmp_path / "run" / "model").symlink_to(find_model(), target_is_directory=True)
    assert find_model(tmp_path / "run") == tmp_path / "run" / "model"


def test_confidence_can_be_left_out(parser: Parser) -> None:
    document = parser(STORY, confidence=False)
    assert set(chain(*map(probabilities, document))) == {None}
    assert list(document) == [without_probabilities(sentence) for sentence in parser(STORY)]


def test_white_space_separates_words(parser: Parser) -> None:
    assert forms(parser("我喜 欢北\n京。", wrapped=True)) == [["我", "喜", "欢", "北", "京", "。"]]
    assert forms(parser("我喜 欢北\n京。")) == [["我", "喜", "欢", "北"], ["京", "。"]]


def test_pins_and_breaks_hold(parser: Parser) -> None:
    document = parser(EASY, pins=[(2, 4)], breaks=[1])
    check(document)
    assert forms(document)[0][:3] == ["我", "喜", "欢北"]
    text = f"{EASY}你好！李焕英。"
    document = parser(text, pins=[(6, 12)])
    check(document)
    assert forms(document) == [["我", "喜欢", "北京", "。"], ["你好！李焕英", "。"]]
    with pytest.raises(InputError, match="the break at 3 lies inside the pin 2:4"):
        parser(EASY, pins=[(2, 4)], breaks=[3])


def test_a_lexicon_keeps_its_words_whole(parser: Parser) -> None:
    text = "他喜欢北京。你好！李焕英。"
    words = ["喜欢北京", "你好！李焕英"]
    expected = [["他", "喜欢北京", "。"], ["你好！李焕英", "。"]]
    for lexicon in (words, iter(words), Lexicon(words)):
        document = parser(text, lexicon=lexicon)
        check(document)
        assert forms(document) == expected
    assert forms(next(parser.pipe([text], lexicon=words))) == expected
    assert forms(parser.stream(text, lexicon=words)) == expected
    assert [forms(found)[:1] for found in parser.k_best(text, 2, lexicon=words)] == [[e] for e in expected]
    assert forms(parser(text, lexicon=words, pins=[(1, 3)], breaks=[10]))[0][1:3] == ["喜欢", "北京"]
    assert same(parser(text, lexicon=[]), parser(text))


def test_given_words_stay(parser: Parser) -> None:
    sentences = [["我", "喜欢北", "京", "IBM", "PC", "5"], ["完", "e\u0301", "\ud800"]]
    document = parser.parse_words(sentences)
    check(document)
    assert forms(document) == sentences
    assert document.text == "我喜欢北京IBM PC 5\n完e\u0301\ud800"
    assert document[1].words[0].start == document.text.index("完")
    assert parser.parse_words(iter(sentences), confidence=False)[0].words[0].head_prob is None
    assert parser.parse_words([]) == Document("")


@pytest.mark.parametrize(
    ("sentences", "message"),
    [
        ([["我"], []], "sentence 2 has no words"),
        ([["我", ""]], "word 2 of sentence 1 is ''"),
        ([["New York"]], "word 1 of sentence 1 contains white space: 'New York'"),
        ([[" "]], "word 1 of sentence 1 contains white space"),
        (["我喜欢"], "sentence 1 is a string, not a list of words: '我喜欢'"),
        ("我喜欢", "not a string"),
        ([[1]], "word 1 of sentence 1 is 1"),
        ([["好" * (LIMIT + 1)]], f"the word at 0 has {LIMIT + 1} characters"),
    ],
)
def test_what_are_no_sentences_of_words(parser: Parser, sentences: list[list[str]], message: str) -> None:
    with pytest.raises(InputError, match=message):
        parser.parse_words(sentences)


def test_a_long_sentence_of_words_is_cut_after_punctuation_or_between_words(parser: Parser) -> None:
    words = ["好", "的", "，"] * 80 + ["非常"] * 200
    document = parser.parse_words([["一"], words], confidence=False)
    check(document)
    assert list(chain(*forms(document))) == ["一", *words]
    assert [sentence.cut for sentence in document] == [False, True, True, False]
    assert [len(sentence.chars) for sentence in document] == [1, 240, LIMIT, 400 - LIMIT]


def test_texts_in_a_pipe_come_out_in_order(parser: Parser) -> None:
    texts = ["", EASY, STORY, " \n", "他来了。", EASY * 3]
    expected = [parser(text) for text in texts]
    for size in (1, 40, LOOK_AHEAD):
        documents = list(parser.pipe(texts, batch_chars=size))
        assert [document.text for document in documents] == texts
        for document, wanted in zip(documents, expected, strict=True):
            assert same(document, wanted)
    assert list(parser.pipe([])) == []
    assert list(parser.pipe(["", "\n"])) == [Document(""), Document("\n")]


def test_a_stream_gives_the_sentences_of_the_whole_text(parser: Parser) -> None:
    expected = list(parser(STORY))
    for pieces in ([STORY], STORY.splitlines(keepends=True), list(STORY), ["", STORY[:9], "", STORY[9:]]):
        assert same(parser.stream(pieces), expected)
    assert list(parser.stream([])) == []
    assert list(parser.stream(["", " \n"])) == []


def test_a_stream_of_words_has_a_sentence_a_line(parser: Parser) -> None:
    text = "我 喜欢\u3000北京\r\n\n \n  他 来 了 \n完"
    wanted = [["我", "喜欢", "北京"], ["他", "来", "了"], ["完"]]
    for pieces in ([text], list(text), text.splitlines(keepends=True)):
        sentences = tuple(parser.stream(pieces, words=True))
        assert forms(sentences) == wanted
        check(Document(text, sentences))
    with pytest.raises(InputError, match="a lexicon cannot be used with given words"):
        parser.stream([text], words=True, lexicon=["北京"])


def test_reading_is_lazy_and_may_stop_at_any_time(parser: Parser) -> None:
    read = count()

    def endless() -> Iterator[str]:
        while True:
            next(read)
            yield "他来了。\n\n" * 20

    documents = parser.pipe(endless(), batch_chars=200, confidence=False)
    assert next(read) == 0
    assert [len(document) for document in islice(documents, 5)] == [20] * 5
    assert next(read) < 20
    documents.close()  # type: ignore[attr-defined]
    sentences = parser.stream(endless(), confidence=False, batch_chars=200)
    before = next(read)
    assert len(list(islice(sentences, 50))) == 50
    assert next(read) - before < 2000  # a block of text is read before its sentences are found
    lines = parser.stream(endless(), confidence=False, words=True, batch_chars=40)
    before = next(read)
    assert len(list(islice(lines, 50))) == 50
    assert next(read) - before < 20


class Piece(str):
    """Record when a string is garbage-collected."""


@pytest.mark.parametrize("sentences_of", [stream_sentences, line_sentences])
def test_a_stream_forgets_what_it_has_read(sentences_of: Callable[[Iterable[str]], Iterator[object]]) -> None:
    alive: weakref.WeakSet[Piece] = weakref.WeakSet()
    most = 0

    def pieces() -> Iterator[str]:
        for k in range(80):
            piece = Piece(f"第 {k} 行 的 内容 。\n" * 200)
            alive.add(piece)
            yield piece

    for _ in sentences_of(pieces()):
        most = max(most, len(alive))
    assert 0 < most < 60


def test_the_best_of_k_is_the_parse(parser: Parser) -> None:
    ranked = parser.k_best(STORY, 3)
    assert same([analyses[0] for analyses in ranked], parser(STORY, decoding="viterbi"))
    for analyses in ranked:
        assert 1 <= len(analyses) <= 3
        assert len({(s.tree.forms, s.tree.heads) for s in analyses}) == len(analyses)
        probs = [sentence.prob for sentence in analyses]
        assert probs == sorted(probs, reverse=True)  # type: ignore[type-var]
    for number in range(3):
        check(Document(STORY, tuple(analyses[min(number, len(analyses) - 1)] for analyses in ranked)))
    assert parser.k_best(" ", 2) == []
    pinned = parser.k_best(EASY, 4, pins=[(2, 4)], breaks=[5])
    assert {tuple(found[1:3]) for found in forms(pinned[0])} >= {("喜", "欢北")}
    for found in pinned[0]:
        assert (2, 4) in [(word.start, word.end) for word in found.words]
    with pytest.raises(InputError, match="k must be at least 1, not 0"):
        parser.k_best(EASY, 0)


def test_several_threads_may_use_one_parser(parser: Parser) -> None:
    texts = [EASY, STORY, STORY[7:], "他来了。" * 7, " ", STORY[::-1]]
    expected = [parser(text) for text in texts]
    start = threading.Barrier(6)

    def work(shift: int) -> list[tuple[int, Document]]:
        start.wait()
        numbers = [(k + shift) % len(texts) for k in range(len(texts))]
        if shift % 2:
            return list(zip(numbers, parser.pipe(texts[k] for k in numbers), strict=True))
        return [(k, parser(texts[k])) for k in numbers]

    with ThreadPoolExecutor(6) as pool:
        for found in pool.map(work, range(6)):
            assert all(same(document, expected[k]) for k, document in found)


@pytest.mark.parametrize("text", [None, b"\xe6\x88\x91", 5, ["我"]])
def test_what_is_no_text_is_refused(parser: Parser, text: str) -> None:
    with pytest.raises(InputError, match="a text is a string, not"):
        parser(text)
    with pytest.raises(InputError, match="a text is a string, not"):
        list(parser.pipe([text]))
    with pytest.raises(InputError, match="a piece of text is a string, not"):
        list(parser.stream([text]))
    with pytest.raises(InputError, match="a piece of text is a string, not"):
        list(parser.stream([text], words=True))


def test_arguments_that_make_no_sense(parser: Parser) -> None:
    with pytest.raises(InputError, match="pipe takes an iterable of texts"):
        parser.pipe(EASY)
    with pytest.raises(InputError, match="batch_chars must be at least 1"):
        parser.pipe([EASY], batch_chars=0)
    with pytest.raises(InputError, match="batch_chars must be at least 1"):
        parser.stream([EASY], batch_chars=0)
    with pytest.raises(InputError, match="vanilla"):
        parser(EASY, decoding="vanilla")  # the bundled model has two roles
    with pytest.raises(InputError, match="not a single string"):
        parser(EASY, lexicon="北京")


def test_threads_are_those_of_the_chart_too() -> None:
    before = chart.get_threads()
    try:
        zishu.load(threads=before + 1)
        assert chart.get_threads() == before + 1
        zishu.load()
        assert chart.get_threads() == before + 1
    finally:
        chart.set_threads(before)


def test_a_parser_tells_what_it_is(parser: Parser, tmp_path: Path) -> None:
    assert parser.info["task"] == "parse"
    assert parser.info["roles"] == 2
    assert "nsubj" in parser.info["labels"]
    assert parser.info["path"] == str(parser.path)
    assert parser.model.settings.name in repr(parser)
    assert Parser(parser.model).info["path"] is None
    with pytest.raises(InputError, match="threads must be at least 0, not -1"):
        zishu.load(threads=-1)
    with pytest.raises(InputError, match="no such model"):
        zishu.load(tmp_path / "nowhere")
    with pytest.raises(InputError, match="not a model"):
        zishu.load(str(tmp_path))


@pytest.mark.parametrize(
    "argument, value, message",
    [
        ("breaks", 2, "breaks are a list, not 2"),
        ("breaks", ["a"], "a break is an offset"),
        ("lexicon", 5, "a lexicon is a collection of words, not 5"),
        ("lexicon", [5], "a word of a lexicon is a string"),
        ("pins", 3, "pins are a list, not 3"),
        ("pins", None, "pins are a list, not None"),
        ("pins", "0:2", "pins are a list, not '0:2'"),
        ("pins", [5], "a pin is a pair of offsets"),
        ("pins", [(0.0, 2.0)], "a pin is a pair of offsets"),
        ("breaks", None, "breaks are a list, not None"),
        ("style", 5, "a style is a string, not int"),
        ("style", "", "unknown style ''"),
    ],
)
def test_wrong_types_are_named(parser: Parser, argument: str, value: object, message: str) -> None:
    for method in (parser, parser.segment, parser.tag):
        with pytest.raises(InputError, match=message):
            method(EASY, **{argument: value})


@pytest.mark.parametrize("value", [1.5, "2", None, [1], 1j])
def test_what_is_no_whole_number_is_refused(parser: Parser, value: int) -> None:
    for call in (
        lambda: parser.k_best(EASY, value),
        lambda: parser.pipe([EASY], batch_chars=value),
        lambda: parser.stream([EASY], batch_chars=value),
        lambda: zishu.load(threads=value),
        lambda: Options(k_best=value),
        lambda: parse_files("-", "-", max_document=value),
    ):
        with pytest.raises(InputError, match="must be a whole number, not"):
            call()
    if value is not None:
        with pytest.raises(InputError, match="jobs must be a whole number, not"):
            parse_files("-", "-", jobs=value)


def test_numbers_have_limits(parser: Parser) -> None:
    for call in (
        lambda: parser.k_best(EASY, 10**8),
        lambda: Options(k_best=10**8),
        lambda: zishu.load(threads=10**8),
    ):
        with pytest.raises(InputError, match=r"must be at most 1,0.*, not 100,000,000"):
            call()


@pytest.mark.parametrize("value", [5, None, 1.5])
def test_what_cannot_be_read_item_by_item_is_refused(parser: Parser, value: Iterable[str]) -> None:
    for call in (
        lambda: parser.pipe(value),
        lambda: parser.stream(value),
        lambda: parser.parse_words(value),
        lambda: parser.parse_words([value]),
        lambda: parser.k_best(EASY, 2, pins=value),
        lambda: parse_files(value, "-"),
        lambda: parse_texts(value, "-"),
        lambda: parse_texts([EASY], "-", pins=value),
    ):
        with pytest.raises(InputError, match="are a list, not"):
            call()
    with pytest.raises(InputError, match="texts are a list, not"):
        parse_texts(EASY, "-")  # a string must not be read as one text per character


@pytest.mark.parametrize("model", [5, b"fast", 1.5, ["fast"]])
def test_what_names_no_model_is_refused(model: str) -> None:
    with pytest.raises(InputError, match="a model is a name or a path, not"):
        zishu.load(model)


def test_arrays_and_generators_are_lists(parser: Parser) -> None:
    text = "我喜欢北京大学。"
    expected = parser(text, pins=[(3, 7)], breaks=[1], arcs=[(3, None)], lexicon=["喜欢"])
    assert [3, 7] in [[word.start, word.end] for sentence in expected for word in sentence]
    options = {
        "pins": np.array([[3, 7]]),
        "breaks": np.array([1], dtype=np.uint8),
        "arcs": [(np.int32(3), None)],
        "lexicon": np.array(["喜欢"]),
    }
    assert parser(np.str_(text), **options) == expected
    options = {name: (item for item in values) for name, values in options.items()}
    assert parser(text, **options) == expected
    assert parser.k_best(text, np.int64(2)) == parser.k_best(text, 2)
    assert [len(found) for found in parser.k_best(text, True)] == [1]
    words = [["我", "喜欢", "北京"], ["他", "来", "了"]]
    assert parser.parse_words(np.array(words)) == parser.parse_words(words)
    assert parser.parse_words((w for w in sentence) for sentence in words) == parser.parse_words(words)
    assert list(parser.pipe(np.array([text, EASY]))) == list(parser.pipe([text, EASY]))
    assert list(parser.stream(np.array([text, EASY]))) == list(parser.stream([text, EASY]))


def test_loading_a_parser_loads_the_chart_as_well() -> None:
    # In a process of its own: here the kernels are already loaded.
    program = (
        "import zishu; from zishu.chart._compiled import load_kernels; zishu.load('fast', threads=1); "
        "assert load_kernels.cache_info().currsize == 1, 'otherwise the first parse waits for it'"
    )
    subprocess.run([sys.executable, "-c", program], check=True)
