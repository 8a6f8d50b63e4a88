from __future__ import annotations

import json

import pytest

from parsed_sentences import SHANGHAI
from zishu.corpus.chunks import NOWHERE
from zishu.corpus.options import Options, Recipe
from zishu.corpus.outputs import Written, format_of, show


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
    first, second = (show(SHANGHAI, 6, ("a  b", 1), recipe, rank) for rank in (1, 2))
    assert first.startswith("# newdoc id = a b\n# sent_id = 7-1\n")
    assert second.startswith("# sent_id = 7-2\n")
    later = show(SHANGHAI, 7, ("a", 2), Recipe(Options(), "conllu"))
    assert later.startswith("# sent_id = 8\n")
    record = json.loads(show(SHANGHAI, 7, ("a", 2), Recipe(Options(), "json")))
    assert (record["sent_id"], record["doc_id"], "rank" in record) == ("8", "a", False)
    assert "doc_id" not in json.loads(show(SHANGHAI, 0, NOWHERE, Recipe(Options(), "json")))
    assert show(SHANGHAI, 7, ("a", 2), Recipe(Options(), "parquet")) == ("a", 8, SHANGHAI)


def test_a_chunk_is_one_text() -> None:
    assert Written(0, [["a\n", "b\n"], ["c\n"]]).text == "a\nb\nc\n"
