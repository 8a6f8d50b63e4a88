"""Affixes joined with their stems: trees, offsets, structures and tags; nothing else is joined."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given

from parsed_sentences import parsed, sentences
from zishu.granularity import coarsen
from zishu.tree import check_heads, is_projective

# 副总统和图书馆长喜欢老师们。 in the words of GSD; 馆长 is an example of two suffixes in a row.
FINE = parsed(
    [
        ("副", "PART", 2, "case", (0,)),
        ("总统", "NOUN", 7, "nsubj", (2, 0)),
        ("和", "CCONJ", 6, "cc", (0,)),
        ("图书", "NOUN", 5, "compound", (0, 1)),
        ("馆", "PART", 6, "compound", (0,)),
        ("长", "PART", 2, "conj", (0,)),
        ("喜欢", "VERB", 0, "root", (0, 1)),
        ("老师", "NOUN", 9, "compound", (2, 0)),
        ("们", "PART", 7, "obj", (0,)),
        ("。", "PUNCT", 7, "punct", (0,)),
    ],
    start=5,
)
RELATIONS = [("root",), ("att", "root"), ("root",), ("root", "coo"), ("root",), ("root",), ("root", "coo"), ("pre", "root"),
             ("root",), ("root",)]  # fmt: skip
STRUCTURED = replace(
    FINE,
    words=tuple(
        replace(word, char_rels=names, structure_prob=0.5)
        for word, names in zip(FINE, RELATIONS, strict=True)
    ),
)


def test_affixes_join_their_stems_and_the_tree_stays_one():
    coarse = coarsen(FINE)
    assert [word.form for word in coarse] == ["副总统", "和", "图书馆长", "喜欢", "老师们", "。"]
    assert [word.head for word in coarse] == [4, 3, 1, 0, 4, 4]
    assert [word.deprel for word in coarse] == ["nsubj", "cc", "conj", "root", "obj", "punct"]
    assert [word.upos for word in coarse] == ["NOUN", "CCONJ", "NOUN", "VERB", "NOUN", "PUNCT"]
    assert [word.id for word in coarse] == [1, 2, 3, 4, 5, 6]
    assert all(FINE.text[word.start - 5 : word.end - 5] == word.form for word in coarse)


def test_the_structure_of_a_joined_word_has_those_of_its_parts_inside():
    deputy, _, librarian, _, teachers, _ = coarsen(STRUCTURED)
    assert (deputy.char_heads, deputy.char_rels) == ((3, 3, 0), ("att", "att", "root"))
    assert (librarian.char_heads, librarian.char_rels) == ((3, 1, 4, 0), ("att", "coo", "att", "root"))
    # 们 adds no meaning: the stem stays the root.
    assert (teachers.char_heads, teachers.char_rels) == ((2, 0, 2), ("pre", "root", "suf"))
    assert librarian.structure_prob == 0.125


def test_latent_trees_are_joined_without_relations():
    assert coarsen(FINE)[2].char_heads == (3, 1, 4, 0)
    assert coarsen(FINE)[2].char_rels is None


def test_a_word_without_a_tree_has_none_when_it_is_joined():
    words = (*FINE.words[:3], replace(FINE.words[3], char_heads=None), *FINE.words[4:])
    assert coarsen(replace(FINE, words=words))[2].char_heads is None


def test_names_stay_names_unless_the_suffix_says_otherwise():
    def tag(name: str, suffix: str, xpos: str | None = None) -> str | None:
        sentence = parsed([(name, "PROPN", 2, "compound", None), (suffix, "PART", 0, "root", (0,))])
        words = (sentence.words[0], replace(sentence.words[1], xpos=xpos))
        [word] = coarsen(replace(sentence, words=words))
        return word.upos

    assert tag("四川", "省") == "PROPN"
    assert tag("中国", "人") == "NOUN"
    assert tag("中国", "化", "SFV") == "VERB"


def test_spaces_particles_and_letters_are_not_joined():
    particle = parsed(
        [("我", "PRON", 3, "nmod", (0,)), ("的", "PART", 1, "case", (0,)), ("书", "NOUN", 0, "root", (0,))]
    )
    assert coarsen(particle) is particle
    apart = parsed([("科学", "NOUN", 2, "compound", None), ("家", "PART", 0, "root", None)], spaces=[" "])
    assert coarsen(apart) is apart
    letters = parsed([("Google", "PROPN", 2, "compound", None), ("化", "PART", 0, "root", None)])
    assert coarsen(letters) is letters


@given(sentences(nasty=False, max_words=8))
def test_any_sentence_stays_a_tree_over_the_same_text(sentence):
    affixes = [replace(w, upos="PART", deprel="case") if len(w.form) == 1 else w for w in sentence]
    sentence = replace(sentence, words=tuple(affixes))
    coarse = coarsen(sentence)
    check_heads([word.head for word in coarse])
    assert "".join(word.form for word in coarse) == "".join(word.form for word in sentence)
    assert [coarse[0].start, coarse[-1].end] == [sentence[0].start, sentence[-1].end]
    if is_projective([word.head for word in sentence]):
        assert is_projective([word.head for word in coarse])
