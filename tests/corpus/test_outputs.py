from __future__ import annotations

import json

import pytest

from parsed_sentences import SHANGHAI
from zishu.corpus.options import Options
from zishu.corpus.outputs import Recipe, format_of


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("a.conllu", "conllu"),
        ("a.JSON.gz", "json"),
        ("a.jsonl", "json"),
        ("a.ndjson.zst", "json"),
        ("a.svg", "svg"),
        ("a.parquet", "parquet"),
        ("a.txt", "conllu"),
        ("out.json/a", "conllu"),
        ("-", "conllu"),  # the tests have no terminal
    ],
)
def test_the_ending_of_the_output_decides_the_format(name: str, kind: str) -> None:
    assert format_of(name) == kind


def test_documents_are_named_once_and_analyses_ranked() -> None:
    recipe = Recipe(Options(k_best=2), "conllu")
    first, second = (recipe.show(SHANGHAI, 6, ("a  b", 1), rank) for rank in (1, 2))
    assert first.startswith("# newdoc id = a b\n# sent_id = 7-1\n")
    assert second.startswith("# sent_id = 7-2\n")
    later = Recipe(Options(), "conllu").show(SHANGHAI, 7, ("a", 2))
    assert later.startswith("# sent_id = 8\n")
    record = json.loads(Recipe(Options(), "json").show(SHANGHAI, 7, ("a", 2)))
    assert (record["sent_id"], record["doc_id"], "rank" in record) == ("8", "a", False)
    assert "doc_id" not in json.loads(Recipe(Options(), "json").show(SHANGHAI, 0, ("", 1)))
    assert Recipe(Options(), "parquet").show(SHANGHAI, 7, ("a", 2)) == ("a", 8, SHANGHAI)
