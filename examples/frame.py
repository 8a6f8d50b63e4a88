"""From a corpus to Parquet to pandas: parse a file into a table of words, and ask it questions.

    pip install 'zishu[tables]' pandas
    python examples/frame.py [FILE.txt [WORDS.parquet]]

The table has one row per word. It is written in row groups, so the corpus may be larger than memory; DuckDB, Polars and
Spark read it as well.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

import pandas as pd

from zishu.corpus import parse_files

TEXT = Path(__file__).with_name("text.txt")


def main() -> None:
    """Parse the file unless the table exists, and print three tables."""
    source = Path(sys.argv[1]) if len(sys.argv) > 1 else TEXT
    with tempfile.TemporaryDirectory() as folder:
        table = Path(sys.argv[2]) if len(sys.argv) > 2 else Path(folder, "words.parquet")
        if not table.exists():
            done = parse_files(source, table)
            print(f"{done.sentences} sentences, {done.characters} characters")
        words = pd.read_parquet(table)

    print("\nMost frequent nouns:")
    print(words[words.upos == "NOUN"].form.value_counts().head(5).to_string())

    print("\nVerbs with their objects:")
    print(with_heads(words).query("deprel == 'obj'").groupby("form_head").form.agg(" ".join).to_string())

    print("\nMean probability of a head, by part of speech:")
    print(words.groupby("upos").head_prob.mean().round(3).sort_values().to_string())


def with_heads(words: pd.DataFrame) -> pd.DataFrame:
    """Return the words, each with the columns of its head, whose names end in `_head`."""
    heads = words.add_suffix("_head")
    return words.merge(
        heads,
        left_on=["doc_id", "sent_id", "head"],
        right_on=["doc_id_head", "sent_id_head", "id_head"],
    )


if __name__ == "__main__":
    main()
