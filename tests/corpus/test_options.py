from __future__ import annotations

import json
import pickle
from dataclasses import fields

from zishu import Lexicon
from zishu.corpus import Options
from zishu.corpus.outputs import Recipe


def test_a_lexicon_may_be_any_collection_of_words() -> None:
    options = Options(lexicon=["图书馆"])
    assert isinstance(options.lexicon, Lexicon)
    (sentence,) = options.sentences(["图书馆"])
    assert sentence.gaps is not None
    assert sentence.gaps.tolist() == [2, 1, 1, 0]
    lexicon = Lexicon(["图书馆"])
    assert Options(lexicon=lexicon).lexicon is lexicon
    assert Options().lexicon is None


def test_a_record_has_every_option_and_is_json() -> None:
    record = Options(lexicon=["图书馆"], confidence=False).record()
    assert list(record) == [field.name for field in fields(Options)]
    assert json.loads(json.dumps(record)) == record
    assert record["lexicon"] == Options(lexicon=["图书馆", "图书馆"]).record()["lexicon"]
    assert record["lexicon"] != Options(lexicon=["图书"]).record()["lexicon"]
    assert Options().record()["lexicon"] is None


def test_a_recipe_goes_to_other_processes() -> None:
    recipe = Recipe(Options(k_best=3), "json", "models/x", threads=2)
    assert pickle.loads(pickle.dumps(recipe)) == recipe
