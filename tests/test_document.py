"""Documents, sentences and words, built by hand without a model."""

from __future__ import annotations

import copy
import inspect
import pickle
from dataclasses import asdict, fields, replace
from xml.etree import ElementTree

import pytest

from zishu.document import Document, Sentence, Token, Word
from zishu.errors import InputError
from zishu.tree import INTRA, CharTree, WordTree, recover

# 上海 计划 发展 金融业, the example of the paper, with a space in it.
TEXT = "上海 计划发展金融业"
WORDS = (
    Word(1, "上海", 0, 2, "PROPN", 2, "nsubj", (2, 0), 0.9, 0.8, 0.5),
    Word(2, "计划", 3, 5, "VERB", 0, "root", (2, 0), 1.0, 1.0, 1.0),
    Word(3, "发展", 5, 7, "VERB", 2, "xcomp", (0, 1)),
    Word(4, "金融业", 7, 10, "NOUN", 3, "obj", (2, 3, 0)),
)
SENTENCE = Sentence(TEXT, 0, WORDS, prob=0.25)


def test_a_word_knows_its_characters_and_its_root() -> None:
    assert WORDS[3].chars == ["金", "融", "业"]
    assert [word.root for word in WORDS] == [1, 1, 0, 2]
    assert replace(WORDS[0], char_heads=None).root is None
    assert Word(1, "e\u0301好", 0, 3, None, 0, "root", (2, 0)).chars == ["e\u0301", "好"]


def test_the_probability_of_a_word_is_the_product_of_its_parts() -> None:
    assert WORDS[0].prob == pytest.approx(0.36)
    assert WORDS[2].prob is None
    assert replace(WORDS[0], boundary_prob=None).prob is None


def test_words_are_values() -> None:
    assert replace(WORDS[0]) == WORDS[0]
    assert len({*WORDS, *WORDS}) == 4
    with pytest.raises(AttributeError):
        WORDS[0].pos = "NOUN"  # type: ignore[attr-defined]


def test_a_sentence_is_a_sequence_of_its_words() -> None:
    sentence = SENTENCE
    assert list(sentence) == list(sentence.words)
    assert len(sentence) == len(sentence.words)
    assert sentence[0] is sentence.words[0]
    assert sentence[-2:] == sentence.words[-2:]
    assert sentence.root is WORDS[1]
    assert sentence._repr_svg_() == sentence.to_svg()


def test_words_know_their_sentence_and_their_relatives() -> None:
    sentence = Sentence(TEXT, 0, tuple(map(replace, WORDS)))
    shanghai, plan, develop, finance = sentence
    assert plan.sentence is sentence
    assert (plan.head_word, develop.head_word, finance.head_word) == (None, plan, develop)
    assert (plan.children, develop.children, finance.children) == ((shanghai, develop), (finance,), ())
    assert (plan.subtree, develop.subtree, shanghai.subtree) == (
        sentence.words,
        (develop, finance),
        (shanghai,),
    )
    with pytest.raises(InputError, match="does not belong to a sentence"):
        _ = Word(1, "好", 0, 1, None, 1, "dep", None).head_word


def test_the_way_back_to_the_sentence_is_no_part_of_a_word() -> None:
    sentence = Sentence(TEXT, 0, tuple(map(replace, WORDS)))
    assert replace(sentence[0]) == sentence[0]
    assert hash(sentence) == hash(Sentence(TEXT, 0, tuple(map(replace, WORDS))))
    assert [record["form"] for record in asdict(sentence)["words"]] == [word.form for word in WORDS]
    for again in (pickle.loads(pickle.dumps(sentence)), copy.deepcopy(sentence)):
        assert again == sentence
        assert again[1].sentence is again
        assert again[1].children == sentence[1].children
    assert pickle.loads(pickle.dumps(sentence[2])).children == sentence[2].children


def test_words_are_created_when_somebody_asks_for_them() -> None:
    cells = [getattr(word, field.name) for word in WORDS for field in fields(Word)]
    lazy = Sentence.from_cells(TEXT, 0, cells, prob=0.25)
    assert lazy.cells is cells
    assert (lazy.to_conllu(), lazy.to_json()) == (SENTENCE.to_conllu(), SENTENCE.to_json())
    assert lazy.cells is cells, "formats need no words"
    assert lazy.words is lazy.words
    assert lazy[1].sentence is lazy
    assert lazy.cells == cells == SENTENCE.cells
    again = Sentence.from_cells(TEXT, 0, cells, prob=0.25)
    assert again == SENTENCE
    assert hash(again) == hash(SENTENCE)
    assert pickle.loads(pickle.dumps(Sentence.from_cells(TEXT, 0, cells, prob=0.25))) == SENTENCE
    with pytest.raises(AttributeError, match="token"):
        _ = lazy.token  # type: ignore[attr-defined]


def test_short_forms() -> None:
    assert repr(WORDS[0]) == "<Word 1 上海 PROPN nsubj of 2>"
    assert repr(SENTENCE) == "<Sentence 上海 计划 发展 金融业>"
    assert repr(Document(TEXT, (SENTENCE,))) == f"<Document of 1 sentence: {TEXT!r}>"
    assert len(repr(Document(TEXT * 1000, (SENTENCE,) * 1000))) < 100


@pytest.mark.parametrize("kind", [Word, Sentence, Document, Token])
def test_help_describes_every_field(kind: type) -> None:
    described = {
        name.strip()
        for line in (inspect.getdoc(kind) or "").splitlines()
        for name in line.partition("  ")[0].split(",")
    }
    names = kind._fields if hasattr(kind, "_fields") else [field.name for field in fields(kind)]
    assert set(names) <= described


def test_figures_of_a_document() -> None:
    document = Document(TEXT * 30, (SENTENCE,) * 30)
    root = ElementTree.fromstring(document.to_svg())
    assert root.tag.endswith("svg")
    single = ElementTree.fromstring(SENTENCE.to_svg())
    assert float(root.attrib["height"]) == pytest.approx(30 * float(single.attrib["height"]), rel=0.01)
    assert len(list(root.iter("{http://www.w3.org/2000/svg}rect"))) == 30 * len(WORDS)
    assert document._repr_html_().count("<svg") == 20
    assert "and 10 more sentences" in document._repr_html_()
    assert Document(TEXT, (SENTENCE,)).to_svg() == SENTENCE.to_svg()


def test_a_sentence_gives_the_tree_of_its_words() -> None:
    assert SENTENCE.tree == WordTree(
        ("上海", "计划", "发展", "金融业"),
        (2, 0, 2, 3),
        ("nsubj", "root", "xcomp", "obj"),
        ("PROPN", "VERB", "VERB", "NOUN"),
    )
    assert replace(SENTENCE, words=tuple(replace(word, upos=None) for word in WORDS)).tree.upos is None
    assert (SENTENCE.start, SENTENCE.end, replace(SENTENCE, start=7).end) == (0, 10, 17)
    assert SENTENCE.chars == list("上海计划发展金融业")


def test_a_sentence_gives_the_tree_of_its_characters() -> None:
    tree = SENTENCE.char_tree
    assert tree == CharTree(
        tuple("上海计划发展金融业"),
        (2, 4, 4, 0, 4, 5, 8, 9, 5),
        (INTRA, "nsubj", INTRA, "root", "xcomp", INTRA, INTRA, INTRA, "obj"),
    )
    back = recover(tree)
    assert back.repairs == 0
    assert back.char_heads == tuple(word.char_heads for word in WORDS)
    assert (back.tree.forms, back.tree.heads) == (SENTENCE.tree.forms, SENTENCE.tree.heads)


def test_a_word_without_an_inner_tree_hangs_on_its_last_character() -> None:
    bare = replace(SENTENCE, words=tuple(replace(word, char_heads=None) for word in WORDS))
    assert bare.char_tree.heads == (2, 4, 4, 0, 6, 4, 9, 9, 6)
    assert recover(bare.char_tree).tree.forms == SENTENCE.tree.forms


def test_a_document_is_a_sequence_of_its_sentences() -> None:
    other = Sentence("好。", 12, (Word(1, "好", 12, 13, None, 0, "root", (0,)),))
    document = Document(f"{TEXT}\n\n好。", (SENTENCE, other))
    assert len(document) == 2
    assert list(document) == [SENTENCE, other]
    assert document[0] is SENTENCE
    assert document[-1] is other
    assert document[1:] == (other,)
    assert other in document
    assert document.index(other) == 1
    assert document == Document(document.text, (SENTENCE, other))
    assert not Document("")


def test_the_formats_of_a_document_are_those_of_its_sentences() -> None:
    document = Document(TEXT + TEXT, (SENTENCE, replace(SENTENCE, start=10)))
    assert document.to_conllu() == SENTENCE.to_conllu() + document[1].to_conllu(sent_id="2")
    assert document.to_conllu().count("# sent_id = ") == 2
    assert document.to_json() == f"{SENTENCE.to_json()}\n{document[1].to_json()}\n"
    assert document.to_json().count("\n") == 2
    assert "<svg" in SENTENCE.to_svg()
    assert all(word.form in str(SENTENCE) for word in WORDS)
    assert str(document).count("金融业") == 2 * str(SENTENCE).count("金融业") > 0
    assert "\x1b" not in str(document)
    assert (Document("").to_conllu(), Document("").to_json(), str(Document(""))) == ("", "", "")
