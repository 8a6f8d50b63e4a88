"""Score predicted word trees against gold ones: counts per sentence that add up, then scores.

The metrics follow the paper's section 4 ("Evaluation metrics"):

    seg       F1 of words; a word is correct if the prediction has a word over the same characters.
    uf, lf    F1 of arcs between words, without and with the label; an arc is correct if its modifier and its
              head are both correct words (the head may be ROOT). Arcs whose modifier is punctuation are ignored:
              gold punctuation for recall, predicted punctuation for precision. The head may be punctuation.
    ucm, lcm  Complete match: the share of sentences where every counted arc of both trees is correct. Since
              arcs of punctuation are ignored, errors in punctuation do not matter, and a sentence that
              consists only of punctuation is a match.
    upos, xpos, feats, lemma
              F1 of words with the correct universal tag, treebank-specific tag, features or lemma, including
              punctuation. None unless every sentence has them on both sides.
    uas, las  Attachment scores. None unless both sides have the same words in every sentence; precision then
              equals recall, so these are uf and lf under their usual names.

All scores except complete match are also given by word length in characters (for arcs: that of the modifier): 1, 2, 3,
and 4 or more. With `punct=True, subtypes=False`, the scores seg, upos, xpos, lemma, uf and lf equal Words, UPOS, XPOS,
Lemmas, UAS and LAS of the CoNLL 2018 scorer if both files have the same sentences, a lemma for every word and no
multiword tokens. That scorer's UFeats ignores features that are not universal.

A sentence is reduced to a small table of integers. Tables add up, and a score is a function of the sum. So resampling
sentences (`bootstrap`) is a matrix product, and a small file (`save_evaluation`) holds all that a later comparison
needs. The counting is in `_counts.py`, the scores are in `_scores.py`. Nothing here draws tables. Cost: linear in the
number of words.
"""

from __future__ import annotations

from zishu.metrics._bootstrap import Bootstrap, bootstrap, bootstrap_all, check_comparable, holm
from zishu.metrics._counts import LENGTHS, Count, Counts, sentence_counts
from zishu.metrics._files import evaluation_file, load_evaluation, save_evaluation
from zishu.metrics._scores import (
    METRICS,
    Average,
    Evaluation,
    Ratio,
    Scores,
    WordScores,
    average_seeds,
    evaluate,
    pair,
    score,
    signature,
)

__all__ = [
    "LENGTHS",
    "METRICS",
    "Average",
    "Bootstrap",
    "Count",
    "Counts",
    "Evaluation",
    "Ratio",
    "Scores",
    "WordScores",
    "average_seeds",
    "bootstrap",
    "bootstrap_all",
    "check_comparable",
    "evaluate",
    "evaluation_file",
    "holm",
    "load_evaluation",
    "pair",
    "save_evaluation",
    "score",
    "sentence_counts",
    "signature",
]
