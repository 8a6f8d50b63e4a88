"""Scores: worked by hand, against a naive twin over sets, and against the official CoNLL 2018 scorer."""

from __future__ import annotations

import gzip
import io
import itertools
import json
import statistics
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from udtools import udeval

import zishu
from strategies import any_heads
from zishu.errors import InputError
from zishu.metrics import (
    METRICS,
    Average,
    Count,
    Evaluation,
    average_seeds,
    bootstrap,
    bootstrap_all,
    evaluate,
    evaluation_file,
    holm,
    load_evaluation,
    pair,
    save_evaluation,
    score,
    sentence_counts,
    signature,
)
from zishu.text import is_punctuation
from zishu.tree import WordTree


def tree(words: str, heads: str, labels: str, tags: str | None = None) -> WordTree:
    """Write a tree as four strings of columns separated by spaces."""
    return WordTree(
        tuple(words.split()),
        tuple(map(int, heads.split())),
        tuple(labels.split()),
        None if tags is None else tuple(tags.split()),
    )


GOLD = tree(
    "上海 计划 发展 金融业 。",
    "2 0 2 3 2",
    "nsubj root ccomp obj punct",
    "PROPN VERB VERB NOUN PUNCT",
)
# One word cut in two, one wrong tag (计划), one wrong label (发展), punctuation attached elsewhere.
PRED = tree(
    "上海 计划 发展 金融 业 。",
    "2 0 2 5 3 3",
    "nsubj root xcomp compound obj punct",
    "PROPN NOUN VERB NOUN NOUN PUNCT",
)


# ---- worked by hand


def test_scores_of_a_sentence_worked_by_hand() -> None:
    scores = score(sentence_counts(GOLD, PRED))
    words = scores.overall
    # Words: 5 gold, 6 predicted, right are 上海 计划 发展 。 = 4.   P = 4/6, R = 4/5, F1 = 8/11
    assert (words.seg.correct, words.seg.predicted, words.seg.gold) == (4, 6, 5)
    assert words.seg.precision == pytest.approx(66.6667, abs=1e-4)
    assert words.seg.recall == pytest.approx(80.0)
    assert words.seg.f1 == pytest.approx(72.7273, abs=1e-4)
    # Tags: of the four right words 计划 has the wrong one, 3 are right.   F1 = 6/11
    assert words.upos is not None
    assert words.upos.f1 == pytest.approx(54.5455, abs=1e-4)
    # Arcs without those of 。: 4 gold, 5 predicted; right are those of 上海, 计划 (ROOT) and 发展 = 3. P = 3/5, R = 3/4, F1
    # = 6/9; with labels 发展 is wrong: F1 = 4/9
    assert (words.uf.precision, words.uf.recall) == (pytest.approx(60.0), pytest.approx(75.0))
    assert words.uf.f1 == pytest.approx(66.6667, abs=1e-4)
    assert words.lf.f1 == pytest.approx(44.4444, abs=1e-4)
    assert (words.uas, words.las) == (None, None)  # the words differ
    assert (scores.ucm, scores.lcm) == (0.0, 0.0)


def test_punctuation_switch() -> None:
    words = score(sentence_counts(GOLD, PRED, punct=True)).overall
    # The arc of 。 joins both totals and is wrong: 3 right of 5 gold and 6 predicted.   F1 = 6/11
    assert (words.uf.correct, words.uf.predicted, words.uf.gold) == (3, 6, 5)
    assert words.uf.f1 == pytest.approx(54.5455, abs=1e-4)
    assert words.seg == score(sentence_counts(GOLD, PRED)).overall.seg  # words always include punctuation


def test_scores_by_word_length() -> None:
    by_length = score(sentence_counts(GOLD, PRED)).by_length
    triples = {
        length: [(r.correct, r.predicted, r.gold) for r in (words.seg, words.upos, words.uf, words.lf) if r]
        for length, words in by_length.items()
    }
    assert triples == {
        "1": [(1, 2, 1), (1, 2, 1), (0, 1, 0), (0, 1, 0)],  # gold 。, predicted 业 。; no arc of 。
        "2": [(3, 4, 3), (2, 4, 3), (3, 4, 3), (2, 4, 3)],  # 上海 计划 发展, predicted also 金融
        "3": [(0, 0, 1), (0, 0, 1), (0, 0, 1), (0, 0, 1)],  # gold 金融业
        "4+": [(0, 0, 0)] * 4,
    }
    assert by_length["4+"].seg.f1 == 0.0  # nothing over nothing


def test_long_words_share_a_column_and_length_counts_characters() -> None:
    # cafe + combining acute is five code points but four characters; a joined family is one.
    words = tree("👩\u200d👩\u200d👧 cafe\u0301 哥伦比亚人", "3 3 0", "nsubj obj root")
    by_length = score(sentence_counts(words, words)).by_length
    assert [by_length[length].seg.gold for length in ("1", "2", "3", "4+")] == [1, 0, 0, 2]


def test_an_arc_needs_its_head_segmented_right() -> None:
    gold = tree("大 金融业", "2 0", "amod root")
    pred = tree("大 金融 业", "3 3 0", "amod compound root")
    # 大 is a correct word and 业 ends where its gold head ends, but 业 is not a gold word. The same holds for ROOT's arc.
    words = score(sentence_counts(gold, pred)).overall
    assert (words.seg.correct, words.uf.correct, words.lf.correct) == (1, 0, 0)


def test_arcs_under_a_punctuation_head_count() -> None:
    gold = tree("好 ！", "2 0", "dep root")
    pred = tree("好 ！", "0 1", "root punct")
    words = score(sentence_counts(gold, pred)).overall
    # Only the modifier decides: 好 -> ！ is counted (and wrong), ！ -> ROOT is not.
    assert (words.uf.correct, words.uf.predicted, words.uf.gold) == (0, 1, 1)


def test_punctuation_is_judged_on_each_side() -> None:
    # 好！ is not punctuation, ！ is: one predicted arc against two gold words, one of which is ignored.
    gold = tree("好 ！", "0 1", "root punct")
    pred = tree("好！", "0", "root")
    words = score(sentence_counts(gold, pred)).overall
    assert (words.uf.predicted, words.uf.gold) == (1, 1)
    assert (words.seg.predicted, words.seg.gold) == (1, 2)


def test_universal_labels() -> None:
    gold = tree("他 来 的", "2 0 2", "nsubj:pass root acl:relcl")
    pred = tree("他 来 的", "2 0 2", "nsubj root acl")
    full = score(sentence_counts(gold, pred))
    universal = score(sentence_counts(gold, pred, subtypes=False))
    assert full.overall.las == pytest.approx(100 / 3)
    assert (full.ucm, full.lcm) == (100.0, 0.0)
    assert universal.overall.las == 100.0
    assert universal.lcm == 100.0


def test_attachment_scores_are_for_equal_words_in_every_sentence() -> None:
    # Same words as GOLD: 3 of the 4 arcs without punctuation are right, 2 with their label.
    same = tree("上海 计划 发展 金融业 。", "2 0 2 2 3", "nsubj root xcomp obj punct")
    overall = evaluate([(GOLD, same)]).scores.overall
    assert (overall.uas, overall.las) == (75.0, 50.0)
    assert overall.upos is None  # the prediction has no tags
    mixed = evaluate([(GOLD, same), (GOLD, PRED)])
    assert mixed.scores.overall.uas is None
    assert mixed.scores.by_length["2"].las is None
    with pytest.raises(InputError, match="uas needs the same words"):
        mixed.value("uas")
    with pytest.raises(InputError, match="upos needs values in the column upos"):
        mixed.value("upos")


def test_complete_match_ignores_punctuation_unless_told() -> None:
    gold = tree("走 ……", "0 1", "root punct")
    cut = tree("走 … …", "0 1 2", "root punct punct")
    assert score(sentence_counts(gold, cut)).lcm == 100.0
    assert score(sentence_counts(gold, cut, punct=True)).ucm == 0.0


def test_complete_match_counts_sentences() -> None:
    relabeled = tree("上海 计划 发展 金融业 。", "2 0 2 3 2", "nsubj root xcomp obj punct")
    only_marks = tree("！ ？", "0 1", "root punct")
    other_marks = tree("！？", "0", "root")
    scores = evaluate([(GOLD, GOLD), (GOLD, relabeled), (GOLD, PRED), (only_marks, other_marks)]).scores
    # Unlabeled: first, second and the fourth, which has no arc to get wrong.   Labeled: first and fourth.
    assert scores.sentences == 4
    assert (scores.ucm, scores.lcm) == (75.0, 50.0)


def test_a_missing_word_spoils_the_match() -> None:
    gold = tree("他 走 了", "2 0 2", "nsubj root aux")
    pred = tree("他 走了", "2 0", "nsubj root")
    assert score(sentence_counts(gold, pred)).ucm == 0.0


def test_a_cut_inside_a_character_is_wrong_but_no_error() -> None:
    gold = tree("e\u0301 好", "2 0", "dep root")
    pred = tree("e \u0301 好", "3 3 0", "dep dep root")
    words = score(sentence_counts(gold, pred)).overall
    assert (words.seg.correct, words.uf.correct) == (1, 1)  # 好 and its arc


def test_white_space_inside_a_form_is_no_character() -> None:
    gold = WordTree(("10\u00a0000", "元"), (2, 0), ("nummod", "root"))
    pred = WordTree(("10", "000", "元"), (2, 3, 0), ("dep", "nummod", "root"))
    assert score(sentence_counts(gold, pred)).overall.seg.correct == 1


# ---- errors


@pytest.mark.parametrize(
    ("pred", "message"),
    [
        (
            "上海 计划 发屏 金融业 。",
            "sentence 2 (dev-2): the texts differ at character 6: '展' in gold, '屏' in the",
        ),
        ("上海 计划 发展 金融 业", "character 10: '。' in gold, the end in the prediction"),
        ("上海 计划 发展 金融业 。！", "character 11: the end in gold, '！' in the prediction"),
    ],
)
def test_different_texts(pred: str, message: str) -> None:
    other = tree(pred, "2 0 2 3 2", "nsubj root ccomp obj punct")
    with pytest.raises(InputError) as caught:
        evaluate([(GOLD, GOLD), (GOLD, other)], ids=["dev-1", "dev-2"])
    assert message in str(caught.value)
    with pytest.raises(InputError, match=r"^sentence 1: the texts differ"):
        evaluate([(GOLD, other)])


@pytest.mark.parametrize(("gold", "pred"), [(3, 1), (0, 2), (2, 3)])
def test_different_numbers_of_sentences(gold: int, pred: int) -> None:
    with pytest.raises(InputError, match=f"gold side has {gold} sentences, the predicted side {pred}"):
        list(pair([GOLD] * gold, [PRED] * pred))


def test_nothing_to_evaluate() -> None:
    with pytest.raises(InputError, match="no sentences"):
        evaluate(pair([], []))


def test_unknown_metric() -> None:
    with pytest.raises(InputError, match="unknown metric 'bleu': choose from seg, upos"):
        evaluate([(GOLD, PRED)]).value("bleu")


# ---- the printed form


def test_signature_and_json() -> None:
    evaluation = evaluate([(GOLD, PRED)], punct=True, subtypes=False)
    version = f"version:zishu-{zishu.__version__}"
    assert evaluation.signature() == f"punct:yes|labels:universal|{version}"
    assert signature() == f"punct:no|labels:full|{version}"
    data = json.loads(evaluation.to_json())
    assert data["signature"] == evaluation.signature()
    assert data["sentences"] == 1
    assert data["uf"] == pytest.approx(
        {"precision": 50.0, "recall": 60.0, "f1": 600 / 11, "correct": 3, "predicted": 6, "gold": 5}
    )
    assert (data["uas"], data["ucm"]) == (None, 0.0)
    assert list(data["by_length"]) == ["1", "2", "3", "4+"]
    assert data["by_length"]["2"]["seg"]["correct"] == 3


# ---- properties

CHARACTERS = ("上", "海", "业", "。", "，", "a", "3", "e\u0301", "👩\u200d👩\u200d👧", "%")
LABELS = ("root", "nsubj", "nsubj:pass", "acl", "acl:relcl", "obj", "punct")
TAGS = ("NOUN", "VERB", "PUNCT")


@st.composite
def trees_over(draw: st.DrawFn, chars: tuple[str, ...]) -> WordTree:
    """Draw a tree over these characters: any segmentation, any heads (projective or not)."""
    breaks = draw(st.lists(st.booleans(), min_size=len(chars) - 1, max_size=len(chars) - 1))
    forms = [chars[0]]
    for char, starts_word in zip(chars[1:], breaks, strict=True):
        if starts_word:
            forms.append(char)
        else:
            forms[-1] += char
    n = len(forms)
    heads = draw(any_heads(n))
    labels = draw(st.lists(st.sampled_from(LABELS), min_size=n, max_size=n))
    tags = draw(st.lists(st.sampled_from(TAGS), min_size=n, max_size=n))
    return WordTree(tuple(forms), heads, tuple(labels), tuple(tags))


@st.composite
def pairs(draw: st.DrawFn) -> tuple[WordTree, WordTree]:
    """Draw two trees over the same characters."""
    chars = tuple(draw(st.lists(st.sampled_from(CHARACTERS), min_size=1, max_size=6)))
    return draw(trees_over(chars)), draw(trees_over(chars))


switches = st.fixed_dictionaries({"punct": st.booleans(), "subtypes": st.booleans()})


@given(st.lists(pairs(), min_size=1, max_size=3), switches)
def test_a_perfect_prediction_scores_100(
    sentences: list[tuple[WordTree, WordTree]], switch: dict[str, bool]
) -> None:
    evaluation = evaluate([(gold, gold) for gold, _ in sentences], **switch)
    arcs = evaluation.scores.overall.uf.gold
    for metric in METRICS:
        if metric in ("xpos", "feats", "lemma"):  # these trees have no such tags
            continue
        # Without punctuation there may be no arc at all, and nothing over nothing is 0.
        nothing = metric in ("uf", "lf", "uas", "las") and not arcs
        assert evaluation.value(metric) == (0.0 if nothing else 100.0)


@given(pairs(), switches)
def test_counts_are_those_of_the_naive_twin(
    sentence: tuple[WordTree, WordTree], switch: dict[str, bool]
) -> None:
    gold, pred = sentence

    def arcs(side: WordTree, *, labeled: bool) -> set[tuple[object, ...]]:
        spans = ((0, 1), *side.spans)  # ROOT is a word of its own before the first character
        names = [name if switch["subtypes"] else name.split(":")[0] for name in side.deprels]
        return {
            (spans[d], spans[side.heads[d - 1]], names[d - 1] if labeled else None)
            for d in range(1, len(spans))
            if switch["punct"] or not is_punctuation(side.forms[d - 1])
        }

    def tagged(side: WordTree) -> set[tuple[object, ...]]:
        return set(zip(side.spans, side.upos or (), strict=True))

    overall = score(sentence_counts(gold, pred, **switch)).overall
    assert overall.upos is not None
    for ratio, g, p in [
        (overall.seg, set(gold.spans), set(pred.spans)),
        (overall.upos, tagged(gold), tagged(pred)),
        (overall.uf, arcs(gold, labeled=False), arcs(pred, labeled=False)),
        (overall.lf, arcs(gold, labeled=True), arcs(pred, labeled=True)),
    ]:
        assert (ratio.correct, ratio.predicted, ratio.gold) == (len(g & p), len(p), len(g))
    scores = score(sentence_counts(gold, pred, **switch))
    assert scores.ucm == 100.0 * (arcs(gold, labeled=False) == arcs(pred, labeled=False))
    assert scores.lcm == 100.0 * (arcs(gold, labeled=True) == arcs(pred, labeled=True))


@given(st.lists(pairs(), min_size=2, max_size=3), switches)
def test_counts_add_up(sentences: list[tuple[WordTree, WordTree]], switch: dict[str, bool]) -> None:
    whole = evaluate(sentences, **switch)
    parts = [sentence_counts(gold, pred, **switch) for gold, pred in sentences]
    assert whole.scores == score(np.sum(parts, axis=0))
    # The columns of the four lengths add up to the column of all words.
    per_word = whole.counts[:, : Count.SENTENCES]
    np.testing.assert_array_equal(per_word[..., 1:].sum(axis=-1), per_word[..., 0])
    assert not whole.counts[:, Count.SENTENCES :, 1:].any()


@given(st.lists(pairs(), min_size=1, max_size=3), switches)
def test_bounds(sentences: list[tuple[WordTree, WordTree]], switch: dict[str, bool]) -> None:
    scores = evaluate(sentences, **switch).scores
    for words in (scores.overall, *scores.by_length.values()):
        for ratio in (words.seg, words.upos, words.uf, words.lf):
            assert ratio is not None
            assert 0 <= ratio.correct <= min(ratio.predicted, ratio.gold)
            low, high = sorted((ratio.precision, ratio.recall))
            assert 0.0 <= low <= ratio.f1 + 1e-9
            assert ratio.f1 <= high + 1e-9 <= 100.0 + 1e-9
        assert words.lf.correct <= words.uf.correct <= words.seg.correct
        assert (words.uas is None) == (scores.overall.uas is None)
    assert 0.0 <= scores.lcm <= scores.ucm <= 100.0


@given(st.lists(pairs(), min_size=1, max_size=3), switches)
def test_swapping_the_sides_swaps_precision_and_recall(
    sentences: list[tuple[WordTree, WordTree]], switch: dict[str, bool]
) -> None:
    there = evaluate(sentences, **switch).scores
    back = evaluate([(pred, gold) for gold, pred in sentences], **switch).scores
    for a, b in zip(
        (there.overall, *there.by_length.values()), (back.overall, *back.by_length.values()), strict=True
    ):
        for name in ("seg", "upos", "uf", "lf"):
            x, y = getattr(a, name), getattr(b, name)
            assert (x.precision, x.recall, x.f1) == (y.recall, y.precision, y.f1)
    assert (there.ucm, there.lcm) == (back.ucm, back.lcm)


# ---- the official scorer


def other_tags(form: str, upos: str) -> tuple[str, str, str]:
    return upos[:1], form + upos[:1], "_" if upos.startswith("N") else f"Case={upos.title()}"


def tagged(t: WordTree) -> WordTree:
    """Add the tags that `official` writes."""
    assert t.upos is not None
    xpos, lemma, feats = zip(*map(other_tags, t.forms, t.upos), strict=True)
    return replace(t, xpos=xpos, lemma=lemma, feats=feats)


def official(sentences: list[WordTree]) -> Any:
    """Load trees into the CoNLL 2018 scorer."""
    lines = []
    for t in sentences:
        assert t.upos is not None
        # The other columns are derived from the part of speech, so that they are correct at different words.
        for d, (form, tag, head, label) in enumerate(
            zip(t.forms, t.upos, t.heads, t.deprels, strict=True), start=1
        ):
            xpos, lemma, feats = other_tags(form, tag)
            lines.append(f"{d}\t{form}\t{lemma}\t{tag}\t{xpos}\t{feats}\t{head}\t{label}\t_\t_\n")
        lines.append("\n")
    return udeval.load_conllu(io.StringIO("".join(lines)), "test", {})


@given(st.lists(pairs(), min_size=1, max_size=3))
def test_agreement_with_the_conll_2018_scorer(sentences: list[tuple[WordTree, WordTree]]) -> None:
    # The scorer aligns words by their span in the text and counts an arc when the predicted head is aligned
    # with the gold head (or both are ROOT), over all words, on labels without subtypes. That is UF and LF
    # with punctuation and universal labels. It joins all sentences into one text, but words of different
    # sentences never share a span.
    theirs = udeval.evaluate(
        official([gold for gold, _ in sentences]), official([pred for _, pred in sentences])
    )
    both = [(tagged(gold), tagged(pred)) for gold, pred in sentences]
    ours = evaluate(both, punct=True, subtypes=False).scores.overall
    for key, ratio in (
        ("Words", ours.seg), ("UPOS", ours.upos), ("XPOS", ours.xpos), ("UFeats", ours.feats), ("Lemmas", ours.lemma),
        ("UAS", ours.uf), ("LAS", ours.lf),
    ):  # fmt: skip
        assert ratio is not None
        their = theirs[key]
        assert (ratio.correct, ratio.predicted, ratio.gold) == (
            their.correct,
            their.system_total,
            their.gold_total,
        )
        assert ratio.precision == pytest.approx(100 * their.precision)
        assert ratio.recall == pytest.approx(100 * their.recall)
        assert ratio.f1 == pytest.approx(100 * their.f1)
    if ours.uas is not None:
        # With equal words all of them are aligned, and its "aligned accuracy" is the attachment score.
        assert ours.uas == pytest.approx(100 * theirs["UAS"].aligned_accuracy)
        assert ours.las == pytest.approx(100 * theirs["LAS"].aligned_accuracy)


# ---- bootstrap


def systems() -> tuple[Evaluation, Evaluation]:
    """Evaluate two systems on four sentences; b is better on three, a on one."""
    two = tree("他 走", "2 0", "nsubj root")
    two_wrong = tree("他 走", "0 1", "root nsubj")
    three = tree("他 走 了", "2 0 2", "nsubj root aux")
    three_wrong = tree("他 走 了", "2 3 0", "nsubj aux root")
    gold = [GOLD, two, three, two]
    a = evaluate(pair(gold, [PRED, two_wrong, three_wrong, two]))
    b = evaluate(pair(gold, [GOLD, two, three, two_wrong]))
    return a, b


@pytest.mark.parametrize("metric", ["seg", "uf", "lcm"])
def test_bootstrap_agrees_with_the_enumeration_of_all_samples(metric: str) -> None:
    a, b = systems()

    def difference(indices: tuple[int, ...]) -> float:
        drawn = list(indices)
        ours, theirs = Evaluation(a.counts[drawn]), Evaluation(b.counts[drawn])
        return theirs.value(metric) - ours.value(metric)

    n = len(a.counts)
    observed = difference(tuple(range(n)))
    all_samples = np.array([difference(indices) for indices in itertools.product(range(n), repeat=n)])
    exact = np.mean(np.abs(all_samples - observed) >= abs(observed) - 1e-9)

    result = bootstrap(a, b, metric, samples=4000, seed=1)
    assert result.difference == pytest.approx(observed)
    assert (result.a, result.b) == (a.value(metric), b.value(metric))
    assert result.p_value == pytest.approx(exact, abs=0.03)  # about four standard deviations
    assert all_samples.min() - 1e-9 <= result.low <= result.high <= all_samples.max() + 1e-9
    assert np.mean((all_samples >= result.low - 1e-9) & (all_samples <= result.high + 1e-9)) > 0.93


def test_bootstrap_of_equal_systems() -> None:
    a, _ = systems()
    result = bootstrap(a, a, "lf", samples=50)
    assert (result.difference, result.low, result.high, result.p_value) == (0.0, 0.0, 0.0, 1.0)


def test_bootstrap_of_a_system_better_everywhere() -> None:
    # Every sample has the observed difference, so none is as far from it as the null hypothesis would need.
    right, wrong = tree("他 走", "2 0", "nsubj root"), tree("他 走", "0 1", "root nsubj")
    a, b = evaluate([(right, wrong)] * 5), evaluate([(right, right)] * 5)
    result = bootstrap(a, b, "las", samples=99)
    assert (result.difference, result.low, result.high) == (100.0, 100.0, 100.0)
    assert result.p_value == pytest.approx(0.01)


def test_bootstrap_is_reproducible_and_antisymmetric() -> None:
    a, b = systems()
    there, back = bootstrap(a, b, "uf", samples=200, seed=7), bootstrap(b, a, "uf", samples=200, seed=7)
    assert there == bootstrap(a, b, "uf", samples=200, seed=7)
    assert there.difference == -back.difference
    assert (there.low, there.high) == (pytest.approx(-back.high), pytest.approx(-back.low))
    assert there.p_value == back.p_value


def test_bootstrap_refuses_what_cannot_be_paired() -> None:
    a, b = systems()
    with pytest.raises(InputError, match="different gold"):
        bootstrap(a, Evaluation(b.counts[:3]), "uf")
    with pytest.raises(InputError, match="different gold"):
        bootstrap(a, Evaluation(b.counts[::-1]), "uf")
    with pytest.raises(InputError, match="differ in their options: punct:no"):
        bootstrap(a, Evaluation(b.counts, punct=True), "uf")
    with pytest.raises(InputError, match="uas needs"):
        bootstrap(a, b, "uas")
    with pytest.raises(InputError, match="at least one sample"):
        bootstrap(a, b, "uf", samples=0)
    with pytest.raises(InputError, match="confidence"):
        bootstrap(a, b, "uf", confidence=1.0)
    with pytest.raises(InputError, match="at least one evaluation"):
        bootstrap(a, [], "uf")
    # The same number of words and arcs in every sentence, but another gold label.
    other_gold = evaluate([(tree("他 走", "2 0", "dep root"), tree("他 走", "2 0", "nsubj root"))])
    gold = evaluate([(tree("他 走", "2 0", "nsubj root"), tree("他 走", "2 0", "nsubj root"))])
    with pytest.raises(InputError, match="different gold"):
        bootstrap(gold, other_gold, "uf")


def seeds_of_systems() -> tuple[list[Evaluation], list[Evaluation]]:
    """Evaluate a system with three seeds and one with two on nine sentences, with random errors."""
    rng = np.random.default_rng(20)
    gold = tree("他 走 了", "2 0 2", "nsubj root aux")
    choices = [
        gold,
        tree("他 走 了", "2 3 0", "nsubj aux root"),
        tree("他 走了", "2 0", "nsubj root"),
        tree("他 走 了", "2 0 2", "nsubj root dep"),
    ]
    runs = [
        evaluate((gold, choices[k]) for k in rng.choice(4, size=9, p=weights))
        for weights in [(0.4, 0.2, 0.2, 0.2)] * 3 + [(0.7, 0.1, 0.1, 0.1)] * 2
    ]
    return runs[:3], runs[3:]


@pytest.mark.parametrize("metric", ["seg", "uf", "lf", "ucm"])
def test_bootstrap_over_seeds_is_that_of_the_naive_twin(metric: str) -> None:
    triple = {
        "seg": (Count.WORDS, Count.PRED_WORDS, Count.GOLD_WORDS),
        "uf": (Count.ARCS, Count.PRED_ARCS, Count.GOLD_ARCS),
        "lf": (Count.LABELED_ARCS, Count.PRED_ARCS, Count.GOLD_ARCS),
        "ucm": (Count.MATCHES, Count.SENTENCES, Count.SENTENCES),
    }[metric]

    def mean_score(runs: list[Evaluation], drawn: list[int]) -> float:
        values = []
        for run in runs:
            correct, predicted, gold = (sum(int(run.counts[s, row, 0]) for s in drawn) for row in triple)
            precision, recall = correct / predicted, correct / gold
            values.append(100 * 2 * precision * recall / (precision + recall) if correct else 0.0)
        return statistics.fmean(values)

    a, b = seeds_of_systems()
    n, samples = 9, 300
    observed = mean_score(b, list(range(n))) - mean_score(a, list(range(n)))
    rng = np.random.default_rng(5)
    differences = []
    for _ in range(samples):
        drawn = rng.integers(n, size=n).tolist()  # all seeds of a sentence move together
        differences.append(mean_score(b, drawn) - mean_score(a, drawn))
    extreme = sum(abs(d - observed) > abs(observed) - 1e-9 for d in differences)

    result = bootstrap(a, b, metric, samples=samples, seed=5)
    assert result.difference == pytest.approx(observed)
    assert result.p_value == pytest.approx((1 + extreme) / (1 + samples))
    assert 0.0 < result.p_value < 1.0
    cuts = statistics.quantiles(differences, n=40, method="inclusive")
    assert (result.low, result.high) == (pytest.approx(cuts[0]), pytest.approx(cuts[-1]))


def seeds_that_differ_alike_everywhere() -> tuple[list[Evaluation], list[Evaluation]]:
    """Evaluate a system with three seeds and one with two; each seed is equally good on all sentences."""
    gold = tree("他 走 了", "2 0 2", "nsubj root aux")
    right = {
        0: tree("他 走 了", "0 1 1", "root nsubj aux"),
        1: tree("他 走 了", "2 3 0", "nsubj aux root"),
        2: tree("他 走 了", "2 0 1", "nsubj root aux"),
        3: gold,
    }
    runs = [evaluate([(gold, right[k])] * 4) for k in (0, 2, 1, 3, 1)]
    return runs[:3], runs[3:]


def test_drawn_seeds_agree_with_the_enumeration_of_all_draws() -> None:
    a, b = seeds_that_differ_alike_everywhere()
    values_a, values_b = ([run.value("uf") for run in side] for side in (a, b))
    observed = statistics.fmean(values_b) - statistics.fmean(values_a)
    draws = [
        statistics.fmean(drawn_b) - statistics.fmean(drawn_a)
        for drawn_a in itertools.product(values_a, repeat=2)  # one seed fewer than there are
        for drawn_b in itertools.product(values_b, repeat=1)
    ]
    # Their variance is that of a difference of two means over this number of seeds.
    variance = statistics.variance(values_a) / 3 + statistics.variance(values_b) / 2
    assert statistics.pvariance(draws) == pytest.approx(variance)
    exact = statistics.fmean(abs(draw - observed) >= abs(observed) - 1e-9 for draw in draws)

    result = bootstrap(a, b, "uf", samples=4000, draw_seeds=True)
    assert result.difference == pytest.approx(observed)
    assert 0.0 < exact < 1.0
    assert result.p_value == pytest.approx(exact, abs=0.03)  # about four standard deviations
    assert (result.low, result.high) == (pytest.approx(min(draws)), pytest.approx(max(draws)))
    assert result == bootstrap(a, b, "uf", samples=4000, draw_seeds=True)
    # If only sentences are drawn, the difference is certain.
    assert bootstrap(a, b, "uf", samples=99).p_value == pytest.approx(0.01)


def test_drawn_seeds_that_are_alike_change_nothing() -> None:
    (first, *_), (other, *_) = seeds_of_systems()
    drawn = bootstrap([first] * 3, [other] * 2, "lf", samples=200, draw_seeds=True)
    plain = bootstrap(first, other, "lf", samples=200)
    assert (drawn.low, drawn.high) == (pytest.approx(plain.low), pytest.approx(plain.high))
    assert drawn.p_value == plain.p_value


def test_one_seed_cannot_be_drawn() -> None:
    a, b = seeds_of_systems()
    with pytest.raises(InputError, match="at least two"):
        bootstrap(a[0], b, "lf", draw_seeds=True)


def test_samples_in_several_matrices_are_those_in_one(monkeypatch: pytest.MonkeyPatch) -> None:
    a, b = seeds_of_systems()
    whole = bootstrap(a, b, "lf", samples=100)
    monkeypatch.setattr(
        "zishu.metrics._bootstrap._DRAWS", 9 * 7
    )  # seven samples at a time, and two at the end
    assert bootstrap(a, b, "lf", samples=100) == whole


def test_comparisons_made_together_are_those_made_alone() -> None:
    a, b = seeds_of_systems()
    several = [(a, b, "seg"), (b, a, "lf"), (a, a, "uf")]
    for draw_seeds, asked in (False, [*several, (a[0], b, "lf")]), (True, several):
        alone = [bootstrap(*one, samples=50, draw_seeds=draw_seeds) for one in asked]
        together = bootstrap_all(asked, samples=50, draw_seeds=draw_seeds)
        assert [replace(result, p_corrected=result.p_value) for result in together] == alone
        assert [result.p_corrected for result in together] == holm([result.p_value for result in alone])
    assert bootstrap_all([]) == []


# ---- files


def saved(evaluation: Evaluation) -> dict[str, Any]:
    """Return the content of an evaluation file."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "new", "evaluation.json")
        save_evaluation(evaluation, path)
        assert [file.name for file in path.parent.iterdir()] == [path.name]  # no unfinished file remains
        data = json.loads(path.read_text(encoding="utf-8"))
        assert isinstance(data, dict)
        return data


def loaded(data: object) -> Evaluation:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "evaluation.json")
        path.write_text(json.dumps(data), encoding="utf-8")
        return load_evaluation(path)


@settings(max_examples=40)  # every example writes a file or two
@given(st.lists(pairs(), min_size=1, max_size=3), switches)
def test_an_evaluation_survives_its_file(
    sentences: list[tuple[WordTree, WordTree]], switch: dict[str, bool]
) -> None:
    before = evaluate(sentences, **switch)
    after = loaded(saved(before))
    np.testing.assert_array_equal(after.counts, before.counts)
    assert after.counts.dtype == before.counts.dtype
    assert (after.punct, after.subtypes, after.gold) == (before.punct, before.subtypes, before.gold)
    assert after.signature() == before.signature()
    assert after.as_dict() == before.as_dict()


def test_a_file_keeps_the_version_that_counted() -> None:
    data = saved(evaluate([(GOLD, PRED)]))
    data["signature"] = "punct:yes|labels:full|version:zishu-0.0.9"
    assert loaded(data).signature() == data["signature"]


def test_a_file_is_small_and_has_a_line_for_every_sentence(tmp_path: Path) -> None:
    words = 30
    long = WordTree(
        ("上海", "金融业") * (words // 2), (0, *range(1, words)), ("root", *["dep"] * (words - 1))
    )
    save_evaluation(evaluate([(long, long)] * 500), tmp_path / "dev.json")
    text = (tmp_path / "dev.json").read_text(encoding="utf-8")
    assert len(text) < 60_000
    assert sum(line.startswith("[") for line in text.splitlines()) == 500


def test_a_file_leaves_out_tags_that_no_sentence_has() -> None:
    plain, rich = evaluate([(GOLD, PRED)]), evaluate([(tagged(GOLD), tagged(PRED)), (GOLD, PRED)])
    assert not any("XPOS" in row for row in saved(plain)["rows"])
    assert any("XPOS" in row for row in saved(rich)["rows"])
    for evaluation in (plain, rich):
        again = loaded(saved(evaluation))
        assert (again.counts == evaluation.counts).all()
        with pytest.raises(InputError, match="xpos needs"):
            again.value("xpos")


def test_the_fingerprint_is_that_of_gold() -> None:
    gold = evaluate([(GOLD, PRED), (GOLD, GOLD)]).gold
    assert len(gold) == 32
    assert evaluate([(GOLD, GOLD), (GOLD, PRED)], punct=True).gold == gold  # neither prediction nor choices
    relabeled = WordTree(GOLD.forms, GOLD.heads, ("dep", *GOLD.deprels[1:]), GOLD.upos)
    untagged = WordTree(GOLD.forms, GOLD.heads, GOLD.deprels)
    others = [[(relabeled, GOLD), (GOLD, GOLD)], [(GOLD, GOLD)], [(untagged, GOLD), (GOLD, GOLD)]]
    assert gold not in {evaluate(other).gold for other in others}


def test_a_compressed_file_has_the_same_content_and_bytes_that_do_not_depend_on_time(tmp_path: Path) -> None:
    evaluation = evaluate([(GOLD, PRED)])
    for name in ("a.json", "a.json.gz", "b.json.gz"):
        save_evaluation(evaluation, tmp_path / name)
    content = (tmp_path / "a.json.gz").read_bytes()
    assert gzip.decompress(content) == (tmp_path / "a.json").read_bytes()
    assert content == (tmp_path / "b.json.gz").read_bytes()
    assert (load_evaluation(tmp_path / "a.json.gz").counts == evaluation.counts).all()
    for damaged in (content[:-9], content[:20] + b"\xff" * 9 + content[29:], b"{}"):
        (tmp_path / "a.json.gz").write_bytes(damaged)
        with pytest.raises(InputError, match="not an evaluation: not gzip, or damaged"):
            load_evaluation(tmp_path / "a.json.gz")


def test_where_a_run_keeps_its_evaluations() -> None:
    assert evaluation_file("dev") == "evaluation/dev.json.gz"
    assert evaluation_file("test", given_words=True) == "evaluation/test-words.json.gz"


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        ("format", "other", "expected an object with the format 'zishu-evaluation'"),
        ("version", 2, "version 2 or its rows"),
        ("rows", [], "its rows are not those of version 1"),
        ("signature", "punct:maybe", "signature or gold"),
        ("gold", None, "signature or gold"),
        ("sentences", 3, "1 lines of counts for 3 sentences"),
        ("counts", [], "not a list"),
        ("counts", {}, "not a list"),
        ("counts", [[1, 2]], "line 1 of counts does not have 37 natural numbers"),
        ("counts", [[0.5] * 37], "natural numbers"),
        ("counts", [[True] * 37], "natural numbers"),
        ("counts", [[-1] * 37], "natural numbers"),
        ("counts", [[2**70] * 37], "natural numbers"),
        ("counts", [[3] * 37], "line 1 of counts contradicts itself"),
        ("counts", [[0] * 8 + [1] * 4 + [0] * 20 + [1, 0, 0, 0, 0]], "contradicts itself"),
    ],
)
def test_files_that_are_refused(key: str, value: object, message: str) -> None:
    data = saved(evaluate([(GOLD, PRED)]))
    data[key] = value
    with pytest.raises(InputError, match=message):
        loaded(data)


@pytest.mark.parametrize("content", [b"", b"{", b"\xff", b"[1]", b"3"])
def test_files_that_are_no_evaluation(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "dev.json"
    path.write_bytes(content)
    with pytest.raises(InputError, match=r"dev\.json: not an evaluation"):
        load_evaluation(path)


def test_averages_are_of_the_sample() -> None:
    runs = [{"lf": 1.0, "uf": 5.0}, {"lf": 2.0, "uf": 5.0}, {"lf": 3.0, "uf": 5.0, "only here": 1.0}]
    averages = average_seeds(runs)
    assert {name: (one.mean, one.sd) for name, one in averages.items()} == {
        "lf": (2.0, 1.0),
        "uf": (5.0, 0.0),
    }
    assert average_seeds(runs[:1]) == {"lf": Average((1.0,)), "uf": Average((5.0,))}
    assert average_seeds([]) == {}
    assert Average((1.0, 3.0)).sd == pytest.approx(2**0.5)
    assert Average((1.0,)).as_dict() == {"mean": 1.0, "std": None, "seeds": [1.0]}


def test_holm_worked_by_hand() -> None:
    # Sorted: 0.01 * 4, 0.02 * 3, 0.03 * 2 (but not below the one before), 0.04 * 1 (likewise).
    assert holm([0.04, 0.01, 0.03, 0.02]) == pytest.approx([0.06, 0.04, 0.06, 0.06])
    assert holm([0.6, 0.7]) == [1.0, 1.0]
    assert holm([0.2]) == [0.2]
    assert holm([]) == []
