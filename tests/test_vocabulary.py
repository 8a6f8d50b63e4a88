"""Numbers of characters: the order, the ways an unknown character is looked up, and the way through JSON."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zishu.errors import InputError
from zishu.model.settings import FORMAT, Settings, read_json, write_json
from zishu.model.vocabulary import Vocabulary, bigrams
from zishu.tree import INTRA


def test_symbols_come_by_falling_count_then_code_point():
    vocabulary = Vocabulary.build({"乙": 2, "甲": 2, "a": 5, "丙": 1}, min_count=2)
    assert vocabulary.symbols == ("<pad>", "<unk>", "<bos>", "<eos>", "a", "乙", "甲")
    assert (vocabulary.pad, vocabulary.unknown, vocabulary.bos, vocabulary.eos) == (0, 1, 2, 3)
    assert len(vocabulary) == 7
    assert vocabulary.ids(["甲", "丙", "a"]) == [6, 1, 4]


def test_order_of_counting_does_not_matter():
    assert Vocabulary.build({"a": 1, "b": 1}) == Vocabulary.build({"b": 1, "a": 1})


def test_an_unseen_cluster_is_its_first_code_point():
    vocabulary = Vocabulary.build({"e": 3, "e\u0301": 2})
    assert vocabulary.ids(["e\u0301", "e\u0300"]) == [5, 4]


def test_lower_case_only_for_what_is_unknown_and_only_if_asked():
    plain = Vocabulary.build({"a": 3, "b": 2, "B": 1})
    lower = Vocabulary(**{**plain.to_json(), "symbols": plain.symbols, "lowercase": True})
    assert plain.ids(["A", "B"]) == [1, 6]
    assert lower.ids(["A", "B", "A\u0301", "C"]) == [4, 6, 4, 1]


def test_a_whole_cluster_in_lower_case_comes_before_its_first_code_point():
    vocabulary = Vocabulary(("p", "u", "b", "e", "E", "e\u0301"), 0, 1, 2, 3, lowercase=True)
    assert vocabulary.ids(["E\u0301"]) == [5]


def test_counted_text_cannot_displace_a_special_symbol():
    vocabulary = Vocabulary.build({"<unk>": 9, "a": 1})
    assert vocabulary.symbols == ("<pad>", "<unk>", "<bos>", "<eos>", "a")


def test_bigrams():
    assert bigrams(["上", "海", "市"]) == ["<bos>上", "上海", "海市"]
    assert bigrams([]) == []


@given(st.dictionaries(st.text(st.characters(exclude_categories=["Cs"]), min_size=1), st.integers(1, 9)))
def test_json_round_trip(counts):
    vocabulary = Vocabulary.build(counts)
    again = Vocabulary.from_json(json.loads(json.dumps(vocabulary.to_json())))
    assert again == vocabulary
    assert again.ids(list(counts)) == vocabulary.ids(list(counts))


@pytest.mark.parametrize(
    "data, message",
    [
        ([], "not a JSON object"),
        ({}, "'symbols' must be a list"),
        ({"symbols": ["a", 1], "pad": 0, "unknown": 0, "bos": 0, "eos": 0}, "'symbols' must be a list"),
        ({"symbols": ["a"], "pad": 0, "unknown": 0, "bos": 0}, "'eos' must be a number"),
        ({"symbols": ["a"], "pad": 0, "unknown": 0, "bos": 0, "eos": 1}, "eos is not the number of a symbol"),
        ({"symbols": ["a", "a"], "pad": 0, "unknown": 0, "bos": 0, "eos": 1}, "twice"),
    ],
)
def test_a_bad_vocabulary_is_refused(data, message):
    with pytest.raises(InputError, match=message):
        Vocabulary.from_json(data)


SEGMENTER = Settings(
    task="segment", transitions=((0.5, 1.0, 2.0, -3.0),) * 4, starts=(0.0,) * 4, ends=(1.0, 2.0, 3.0, 4.0)
)
PARSER = Settings(
    task="parse",
    roles=2,
    root_as_head=False,
    labels=(INTRA, "root", "nsubj"),
    upos=("NOUN", "VERB"),
    encoder="bilstm",
    bigrams=True,
    name="试",
    training={"seed": 1, "scores": {"LF": 0.5}, "list": [1, 2]},
)


@pytest.mark.parametrize("settings", [SEGMENTER, PARSER, Settings(task="pipeline")])
def test_settings_round_trip_through_a_file(settings, tmp_path):
    write_json(tmp_path / "config.json", settings.to_json())
    assert Settings.from_json(read_json(tmp_path / "config.json")) == settings


@pytest.mark.parametrize(
    "change, message",
    [
        ({"format": FORMAT + 1}, f"format {FORMAT + 1}, this version of Zishu reads up to {FORMAT}"),
        ({"format": "1"}, "format '1' is not a format"),
        ({"task": "translate"}, "unknown task 'translate'"),
        ({"roles": 3}, "3 roles"),
        ({"roles": True}, "'roles' has a wrong value"),
        ({"labels": ["root"]}, "INTRA belongs to the task 'parse'"),
        ({"labels": [INTRA]}, "no labels"),
        ({"labels": [INTRA, "a", "a"]}, "labels holds a value twice"),
        ({"labels": "root"}, "'labels' has a wrong value"),
        ({"training": 3}, "'training' has a wrong value"),
        ({"task": "segment", "roles": 1, "labels": [], "starts": [0.0] * 4}, "4 x 4 transitions"),
        ({"task": "segment"}, "2 roles for the task 'segment'"),
    ],
)
def test_bad_settings_are_refused(change, message):
    with pytest.raises(InputError, match=message):
        Settings.from_json({**PARSER.to_json(), **change})


def test_a_key_of_a_later_release_is_ignored():
    assert Settings.from_json({**PARSER.to_json(), "colour": "red"}) == PARSER


def test_scores_of_tags_must_be_finite():
    with pytest.raises(InputError, match="finite"):
        Settings.from_json({**SEGMENTER.to_json(), "starts": [0.0, float("-inf"), 0.0, 0.0]})


def test_something_else_is_not_settings():
    for data in ([], {}, {"task": "parse"}, {"model_type": "bert"}):
        with pytest.raises(InputError, match="not the settings of a Zishu model"):
            Settings.from_json(data)


def test_json_errors_name_the_file(tmp_path):
    path = tmp_path / "chars.json"
    with pytest.raises(InputError, match=r"chars\.json: no such file"):
        read_json(path)
    path.write_bytes(b"\xff\xfe{")
    with pytest.raises(InputError, match=r"chars\.json: not JSON"):
        read_json(path)
    path.write_text("{")
    with pytest.raises(InputError, match=r"chars\.json: not JSON"):
        read_json(path)
    with pytest.raises(InputError, match=f"{tmp_path.name}: Is a directory"):
        read_json(tmp_path)
