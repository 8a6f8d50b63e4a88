"""Compare predicted word trees with gold ones: counts per sentence that add up, then scores.

What is scored follows the paper's section 4 ("Evaluation metrics"):

    seg       F1 of words; a word is right when the prediction has a word over the same characters.
    uf, lf    F1 of arcs between words, without and with the label; an arc is right when its modifier and its
              head are both right words (the head may be ROOT). Arcs of punctuation words are left out: of
              gold punctuation for recall, of predicted for precision. What the head is makes no difference.
    ucm, lcm  Complete match: the share of sentences where every counted arc of both trees is right.
              Punctuation is left out as above, so how it is attached or cut into words cannot spoil a match;
              a sentence of nothing but punctuation has no arc to get wrong and is a match.
    upos, xpos, feats, lemma
              F1 of words with their part of speech, with their tag of the treebank's own tag set, with all their
              features, with their lemma; punctuation included. None unless every sentence has them on both sides.
    uas, las  Attachment scores. None unless both sides have the same words in every sentence; precision and
              recall are then one number, so these are uf and lf under the name that the literature uses.

All but complete match, which belongs to sentences, is also given by the length of the word (of the modifier,
for arcs) in characters: 1, 2, 3, 4 and more. With `punct=True, subtypes=False` the scores seg, upos, xpos,
lemma, uf and lf are the Words, UPOS, XPOS, Lemmas, UAS and LAS of the CoNLL 2018 scorer, wherever both files have the
same sentences, a lemma for every word and no multiword tokens. Its UFeats leaves out features that are not universal.

A sentence is reduced to a small table of integers; tables of several sentences may be added, and a score is a
function of the sum. That makes resampling sentences (`bootstrap`) a matrix product, and lets a small file
(`save_evaluation`) hold all that a later comparison needs. The counting is in `_counts.py`, the scores in `_scores.py`.
Nothing here draws tables. Cost: linear in the number of words.
"""

from __future__ import annotations

from zishu.metrics._bootstrap import Bootstrap, bootstrap, bootstrap_all, check_comparable
from zishu.metrics._counts import LENGTHS, Count, Counts, sentence_counts
from zishu.metrics._files import evaluation_file, load_evaluation, save_evaluation
from zishu.metrics._scores import (
    METRICS,
    Evaluation,
    Ratio,
    Scores,
    WordScores,
    evaluate,
    pair,
    score,
    signature,
)
from zishu.metrics._seeds import Average, average_seeds

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
    "load_evaluation",
    "pair",
    "save_evaluation",
    "score",
    "sentence_counts",
    "signature",
]
