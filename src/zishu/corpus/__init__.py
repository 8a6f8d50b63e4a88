"""Parse files and streams of any size into files and streams, on one machine or on many.

    from zishu.corpus import Options, parse_files

    parse_files("corpus.txt.gz", "corpus.conllu.gz", jobs=4)
    parse_files("news/*.jsonl", "words.parquet", Options(lexicon=["图书馆"]), text_field="body")

Read `files` first: it follows a file from its name to the bytes of the output. The command line (`zishu parse`) is a
thin wrapper over it. For a single sentence or document use `zishu.parser`.
"""

from zishu.corpus.documents import RawDocument, read_documents
from zishu.corpus.files import Summary, Watcher, parse_files, parse_texts
from zishu.corpus.options import Format, Options
from zishu.corpus.tables import ParquetWriter, schema, to_batch, to_batches, to_table, write_parquet

__all__ = [
    "Format",
    "Options",
    "ParquetWriter",
    "RawDocument",
    "Summary",
    "Watcher",
    "parse_files",
    "parse_texts",
    "read_documents",
    "schema",
    "to_batch",
    "to_batches",
    "to_table",
    "write_parquet",
]
