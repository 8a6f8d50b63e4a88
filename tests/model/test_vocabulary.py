"""Numbers of characters: their order, the look-up of unknown characters, and the round trip through JSON."""

import json
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zishu.errors import InputError
from zishu.model.features import features, number
from zishu.model.files import read_json, write_json
from zishu.model.settings import FORMAT, Settings
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


def test_an_unknown_character_has_the_number_of_its_stand_in():
    plain = Vocabulary.build({"汉": 3, "A": 2, "a": 1})
    vocabulary = replace(plain, stand_ins={"漢": "汉", "Ａ": "A", "ａ": "a"})
    assert vocabulary.ids(["汉", "漢", "Ａ", "学", "漢\U000e0100"]) == [4, 4, 5, 1, 4]
    assert vocabulary.known(["汉", "漢", "Ａ", "学", "漢\U000e0100"]) == ["汉", "汉", "A", "学", "汉"]
    assert plain.ids(["漢"]) == [1]
    assert hash(vocabulary) == hash(plain)


def test_lower_case_comes_before_a_stand_in_and_both_before_the_first_code_point():
    symbols = ("p", "u", "b", "e", "é", "E", "x")
    vocabulary = Vocabulary(symbols, 0, 1, 2, 3, lowercase=True, stand_ins={"É": "x", "E\u0301": "x"})
    assert vocabulary.ids(["É", "E\u0301", "E\u0300"]) == [4, 6, 5]


def test_a_symbol_never_needs_a_stand_in():
    vocabulary = Vocabulary(("p", "u", "b", "e", "汉", "漢"), 0, 1, 2, 3, stand_ins={"漢": "汉"})
    assert vocabulary.ids(["漢"]) == [5]


def test_pairs_are_made_of_what_characters_stand_for():
    chars = replace(Vocabulary.build({"汉": 1, "字": 1}), stand_ins={"漢": "汉"})
    pairs = Vocabulary.build({"<bos>汉": 3, "汉字": 2})
    for sentence in ("汉字", "漢字"):
        assert number(list(sentence), chars, pairs) == ([chars.ids(["汉"])[0], chars.ids(["字"])[0]], [4, 5])
    assert number(list("漢字"), chars, None)[1] == [0, 0]


def test_counted_text_cannot_displace_a_special_symbol():
    vocabulary = Vocabulary.build({"<unk>": 9, "a": 1})
    assert vocabulary.symbols == ("<pad>", "<unk>", "<bos>", "<eos>", "a")


def test_bigrams():
    assert bigrams(["上", "海", "市"]) == ["<bos>上", "上海", "海市"]
    assert bigrams([]) == []


@given(st.dictionaries(st.text(st.characters(exclude_categories=["Cs"]), min_size=1), st.integers(1, 9)))
def test_json_round_trip(counts):
    vocabulary = Vocabulary.build(counts)
    vocabulary = replace(vocabulary, stand_ins={"漢": vocabulary.symbols[-1]})
    again = Vocabulary.from_json(json.loads(json.dumps(vocabulary.to_json())))
    assert again == vocabulary
    assert again.ids(list(counts)) == vocabulary.ids(list(counts))


GOOD = {"symbols": ["a"], "pad": 0, "unknown": 0, "bos": 0, "eos": 0}


@pytest.mark.parametrize(
    "data, message",
    [
        ([], "not a JSON object"),
        ({}, "'symbols' must be a list"),
        ({"symbols": ["a", 1], "pad": 0, "unknown": 0, "bos": 0, "eos": 0}, "'symbols' must be a list"),
        ({"symbols": ["a"], "pad": 0, "unknown": 0, "bos": 0}, "'eos' must be a number"),
        ({"symbols": ["a"], "pad": 0, "unknown": 0, "bos": 0, "eos": 1}, "eos is not the number of a symbol"),
        ({**GOOD, "stand_ins": {"b": "c"}}, "'c', the stand-in of 'b', is not in it"),
        ({**GOOD, "stand_ins": ["b"]}, "'stand_ins' must map strings to strings"),
        ({**GOOD, "stand_ins": {"b": 1}}, "'stand_ins' must map strings to strings"),
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
        ({"format": FORMAT + 1}, f"format {FORMAT + 1}, but this version of Zishu reads up to {FORMAT}"),
        ({"format": "1"}, "format '1' is not a format"),
        ({"task": "translate"}, "unknown task 'translate'"),
        ({"roles": 3}, "3 roles"),
        ({"roles": True}, "'roles' has a wrong value"),
        ({"labels": ["root"]}, "INTRA is only for the task 'parse'"),
        ({"labels": [INTRA]}, "no labels"),
        ({"labels": [INTRA, "a", "a"]}, "labels has a duplicate"),
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
    with pytest.raises(InputError, match="'starts' has a wrong value"):
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
    with pytest.raises(InputError, match=f"{tmp_path.name}: is not a file"):
        read_json(tmp_path)


@given(
    st.lists(
        st.lists(st.sampled_from("汉漢学生aAＡbİ😀\0\ud800") | st.characters(), min_size=1, max_size=6),
        min_size=1,
        max_size=5,
    ),
    st.lists(st.sampled_from(["e\u0301", "漢\U000e0100"]), max_size=1),
)
def test_a_batch_has_the_numbers_of_its_sentences(sentences, clusters):
    sentences[0] += clusters
    symbols = ("<pad>", "<unk>", "<bos>", "<eos>", "汉", "学", "a", "A", "i\u0307", "e\u0301", "e")
    chars = Vocabulary(symbols, 0, 1, 2, 3, lowercase=True, stand_ins={"漢": "汉", "Ａ": "A"})
    pairs = (
        "<pad>",
        "<unk>",
        "<bos>",
        "<eos>",
        "<bos>汉",
        "汉学",
        "学生",
        "Aa",
        "ab",
        "生<",
        "<bos>😀",
        "e\u0301汉",
    )
    for bigrams_known in (None, Vocabulary(pairs, 0, 1, 2, 3)):
        arrays = features(sentences, chars, bigrams_known)
        for k, sentence in enumerate(sentences):
            numbers, of_pairs = number(sentence, chars, bigrams_known)
            n = len(sentence)
            assert arrays["chars"][k].tolist() == [2, *numbers] + [0] * (arrays["chars"].shape[1] - n - 1)
            if bigrams_known is not None:
                assert arrays["bigrams"][k, : n + 1].tolist() == [2, *of_pairs]
                assert not arrays["bigrams"][k, n + 1 :].any()
