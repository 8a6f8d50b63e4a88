"""The sentences that are suggested are doubtful, different, and not too short."""

from __future__ import annotations

import json

import pytest

import zishu
from parsed_sentences import parsed
from zishu.cli import run
from zishu.errors import InputError
from zishu.suggest import Suggestion, doubt, suggest


def sentence(text, prob):
    """Make a sentence of one-character words, each as probable as the others."""
    rows = [(char, None, k, "dep", (0,)) for k, char in enumerate(text)]
    return parsed(rows, probs=[(1.0, prob, 1.0)] * len(text))


def texts(found):
    return [one.sentence.text for one in found]


def test_the_most_doubtful_come_first():
    corpus = [sentence("春夏秋冬天", 0.9), sentence("东南西北方", 0.2), sentence("金木水火土", 0.5)]
    found = suggest(corpus, 2)
    assert texts(found) == ["东南西北方", "金木水火土"]
    assert found[0].doubt == pytest.approx(0.8)


def test_near_duplicates_and_short_sentences_are_left_out():
    corpus = [
        sentence("东南西北方", 0.2),
        sentence("东南西北方。", 0.1),
        sentence("好吗？", 0.0),
        sentence("春夏秋冬天", 0.9),
    ]
    assert texts(suggest(corpus, 9)) == ["东南西北方。", "春夏秋冬天"]


def test_of_equally_doubtful_sentences_longer_ones_are_worth_more_but_not_in_proportion():
    short, long = sentence("东南西北方", 0.5), sentence("春夏秋冬天金木水火土", 0.5)
    assert texts(suggest([short, long], 2)) == ["春夏秋冬天金木水火土", "东南西北方"]
    # Five of ten words to correct in a long sentence are worth less than four of five in a short one.
    assert texts(suggest([sentence("东南西北方", 0.2), long], 1)) == ["东南西北方"]


def test_what_is_new_counts():
    # Two of four pairs of the second sentence are known after the first one; the third is less doubtful, but all new.
    corpus = [sentence("东南西北方", 0.1), sentence("东南西左右", 0.2), sentence("春夏秋冬天", 0.5)]
    assert texts(suggest(corpus, 3)) == ["东南西北方", "春夏秋冬天", "东南西左右"]


def test_the_lazy_choice_is_the_greedy_one():
    import random

    rng = random.Random(1)
    corpus = [
        sentence("".join(rng.choices("甲乙丙丁戊己", k=rng.randint(5, 12))), rng.random()) for _ in range(60)
    ]
    seen, expected, left = set(), [], list(corpus)

    def pairs(one):
        return set(zip(one.text, one.text[1:], strict=False))

    def worth(one):
        return Suggestion(one, doubt(one)).worth * len(pairs(one) - seen) / len(pairs(one))

    while left:
        left = [one for one in left if len(pairs(one) - seen) / len(pairs(one)) >= 0.4]
        if left:
            best = max(left, key=worth)
            expected.append(best.text)
            seen |= pairs(best)
            left.remove(best)
    assert texts(suggest(corpus, 60)) == expected
    assert len(expected) > 3


def test_probabilities_are_needed():
    with pytest.raises(InputError, match="has no probabilities"):
        suggest([sentence("东南西北方", None)], 1)
    with pytest.raises(InputError, match="at least 1"):
        suggest([], 0)


def test_the_command_writes_a_file_that_can_be_read_back(tmp_path, capsys):
    corpus = tmp_path / "corpus.txt"
    lines = ["乒乓球拍卖完了。", "他研究生命起源。", "上海计划发展金融业。", "上海计划发展金融业！", "好。"]
    corpus.write_text("\n".join(lines), encoding="utf-8")
    output = tmp_path / "suggested.jsonl"
    assert run(["suggest", str(corpus), "-o", str(output), "-n", "9", "--model", "fast"]) == 0
    assert "3 of 5 sentences" in capsys.readouterr().out
    records = [json.loads(line) for line in output.read_text(encoding="utf-8").splitlines()]
    parser = zishu.load("fast")
    assert len(records) == 3
    for record in records:
        again = parser(record["text"]).sentences[0]
        assert record["doubt"] == pytest.approx(doubt(again), abs=0.02)
    assert run(["suggest", str(corpus), "-o", str(corpus)]) == 2
    (tmp_path / "empty.txt").write_text("\n", encoding="utf-8")
    assert run(["suggest", str(tmp_path / "empty.txt"), "-o", str(output)]) == 2
    assert len(output.read_text(encoding="utf-8").splitlines()) == 3
