from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from hypothesis import given

from parsed_sentences import SHANGHAI, parsed, sentences
from zishu.errors import InputError
from zishu.formats.jsonl import from_json, to_json

if TYPE_CHECKING:
    from zishu.document import Sentence


def rounded(sentence: Sentence) -> Sentence:
    def six(value: float | None) -> float | None:
        return None if value is None else int(value * 1e6 + 0.5) / 1e6

    words = tuple(
        replace(
            word,
            boundary_prob=six(word.boundary_prob),
            head_prob=six(word.head_prob),
            label_prob=six(word.label_prob),
        )
        for word in sentence.words
    )
    prob = None if sentence.prob is None else float(f"{sentence.prob:.6g}")
    return replace(sentence, words=words, prob=prob)


def test_the_schema() -> None:
    record = json.loads(to_json(SHANGHAI, sent_id="7", rank=2))
    assert list(record) == ["sent_id", "rank", "text", "start", "end", "after", "prob", "cut", "words"]
    assert record["sent_id"] == "7"
    assert record["rank"] == 2
    assert record["text"] == "上海计划发展金融业。"
    assert (record["start"], record["end"], record["prob"], record["cut"]) == (3, 13, 0.00123456, False)
    assert record["words"][3] == {
        "id": 4,
        "form": "金融业",
        "start": 9,
        "end": 12,
        "lemma": None,
        "upos": "NOUN",
        "xpos": None,
        "feats": None,
        "head": 3,
        "deprel": "obj",
        "char_heads": [3, 1, 0],
        "char_rels": None,
        "root": 2,
        "structure_prob": None,
        "prob": 0.21,
        "boundary_prob": 0.5,
        "head_prob": 0.6,
        "label_prob": 0.7,
        "upos_prob": None,
    }
    assert "上海" in to_json(SHANGHAI)  # letters, not escapes


def test_what_is_not_known_is_null() -> None:
    word = json.loads(to_json(parsed([("好", None, 0, "root", None)])))["words"][0]
    unknown = {key for key, value in word.items() if value is None}
    probs = {"prob", "boundary_prob", "head_prob", "label_prob", "upos_prob", "structure_prob"}
    assert unknown == {"lemma", "upos", "xpos", "feats", "char_heads", "char_rels", "root", *probs}


def test_tags_and_the_probability_of_the_part_of_speech() -> None:
    word = replace(
        SHANGHAI.words[3], lemma="业", xpos="NN", feats="Number=Plur|Person=3", upos_prob=0.5, upos="NOUN"
    )
    sentence = replace(SHANGHAI, words=(*SHANGHAI.words[:3], word, *SHANGHAI.words[4:]))
    record = json.loads(to_json(sentence))["words"][3]
    assert [record[key] for key in ("lemma", "upos", "xpos", "feats")] == [
        "业",
        "NOUN",
        "NN",
        "Number=Plur|Person=3",
    ]
    assert (record["upos_prob"], record["prob"]) == (0.5, 0.105)
    assert from_json(to_json(sentence)).words[3] == word


def test_probabilities_are_short() -> None:
    sentence = parsed([("好", None, 0, "root", (0,))], probs=[(1 / 3, 2 / 3, 1e-9)], prob=1e-30 / 3)
    line = to_json(sentence)
    assert '"prob": 3.33333e-31, "cut"' in line
    assert (
        '"prob": 0, "boundary_prob": 0.333333, "head_prob": 0.666667, "label_prob": 0, "upos_prob": null}'
        in line
    )


@given(sentences())
def test_round_trip(sentence: Sentence) -> None:
    line = to_json(sentence, sent_id="x")
    assert len(line.splitlines()) == 1
    again = from_json(line.encode())  # every line is valid UTF-8
    expected = rounded(sentence)
    # JSON joins two adjacent surrogates.
    joined = expected.text.encode("utf-16", "surrogatepass").decode("utf-16", "surrogatepass")
    if joined == expected.text:
        assert again == expected
        assert to_json(again, sent_id="x") == line
    assert again.text == joined


def test_keys_of_the_sentence_cannot_be_replaced() -> None:
    with pytest.raises(InputError, match="text"):
        to_json(SHANGHAI, text="other")


def change(**values: object) -> str:
    record = json.loads(to_json(SHANGHAI))
    for path, value in values.items():
        if path in record["words"][0] and path not in record:
            record["words"][0][path] = value
        else:
            record[path] = value
    return json.dumps(record)


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("", "not JSON"),
        ("{", "not JSON"),
        (b"\xff\xfe\xff", "not JSON"),
        ("[" * 100_000, "not JSON"),
        ("[]", "JSON object"),
        ("{}", "'words'"),
        (change(words=[]), "at least one word"),
        (change(words=[3]), "word 1 is not a JSON object"),
        (change(text=3), "'text'"),
        (change(cut=0), "'cut'"),
        (change(after=None), "'after'"),
        (change(after=" x"), "must be white space"),
        (change(prob=2), "'prob'"),
        (change(id=2), "expected word 1, found word 2"),
        (change(id=True), "'id'"),
        (change(form=None), "'form'"),
        (change(head=9), "outside"),
        (change(head=-1), "'head'"),
        (change(head=0), "roots"),
        (change(char_heads=[1, 0]), "ancestor"),
        (change(char_heads=["a"]), "not a list of numbers"),
        (change(boundary_prob="high"), "'boundary_prob'"),
        (change(boundary_prob=float("nan")), "'boundary_prob'"),
    ],
)
def test_what_is_no_sentence_is_one_clear_error(line: str, message: str) -> None:
    with pytest.raises(InputError, match=message) as caught:
        from_json(line)
    assert "\n" not in str(caught.value)


def test_unknown_keys_are_passed_over() -> None:
    record = json.loads(to_json(SHANGHAI))
    record["words"][0]["sense"] = "上海"
    assert from_json(json.dumps({"colour": "red", **record})) == rounded(SHANGHAI)


def test_relations_inside_words_read_back() -> None:
    word = replace(SHANGHAI.words[3], char_rels=("att", "coo", "root"), structure_prob=0.75)
    sentence = replace(SHANGHAI, words=(*SHANGHAI.words[:3], word, *SHANGHAI.words[4:]))
    record = json.loads(to_json(sentence))["words"][3]
    assert (record["char_rels"], record["structure_prob"]) == (["att", "coo", "root"], 0.75)
    # The probability of the structure is not part of the word's probability.
    assert record["prob"] == 0.21
    assert from_json(to_json(sentence)).words[3] == word


@pytest.mark.parametrize("relations", [["att"], ["att", 1, "root"], "att"])
def test_relations_that_do_not_fit_the_tree_are_refused(relations: object) -> None:
    record = json.loads(to_json(SHANGHAI))
    record["words"][3]["char_rels"] = relations
    with pytest.raises(InputError, match="char_rels"):
        from_json(json.dumps(record))
