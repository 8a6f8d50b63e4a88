"""Save an evaluation in a small JSON file, so that systems can be compared later without parsing again.

    {"format": "zishu-evaluation", "version": 1,
     "signature": "punct:no|labels:full|version:zishu-1.0",
     "gold": "<fingerprint of the gold trees>", "sentences": 500,
     "rows": ["GOLD_WORDS 1", "GOLD_WORDS 2", ..., "UNTAGGED"],
     "counts": [
    [2,9,1,0,2,9,1,0, ...],
    ...]}

`counts` has one line of integers for every sentence, named by `rows`: first the counts of words by length, then those
of the whole sentence. Sums over lengths are omitted and recomputed on reading. Rows of tag columns (other than UPOS)
are omitted if no sentence has such tags. 500 sentences take 45 kB, or 9 kB with gzip.
"""

from __future__ import annotations

import gzip
import json
import os
import re
import zlib
from pathlib import Path
from typing import Any

import numpy as np

from zishu.errors import InputError
from zishu.metrics._counts import LENGTHS, TAG_ROWS, Count, Counts
from zishu.metrics._scores import Evaluation
from zishu.writing import replacing

FORMAT, VERSION = "zishu-evaluation", 1

_WORD_ROWS = [row for row in Count if row < Count.SENTENCES]
_SENTENCE_ROWS = [row for row in Count if row >= Count.SENTENCES]
_ROWS = [f"{row.name} {length}" for row in _WORD_ROWS for length in LENGTHS]
_ROWS += [row.name for row in _SENTENCE_ROWS]

# Rows that a file omits if no sentence has such tags.
_OPTIONAL = {absent: right for column, (right, absent) in TAG_ROWS.items() if column != "upos"}

# Whatever is counted as correct is also counted on both sides.
_AT_MOST = [
    (Count.WORDS, Count.GOLD_WORDS),
    (Count.WORDS, Count.PRED_WORDS),
    *((right, Count.WORDS) for right, _ in TAG_ROWS.values()),
    (Count.ARCS, Count.GOLD_ARCS),
    (Count.ARCS, Count.PRED_ARCS),
    (Count.LABELED_ARCS, Count.ARCS),
    (Count.MATCHES, Count.SENTENCES),
    (Count.LABELED_MATCHES, Count.MATCHES),
]
_COMPRESSED = ".gz"
_SIGNATURE = re.compile(r"punct:(yes|no)\|labels:(full|universal)\|version:zishu-(\S+)")


def evaluation_file(part: str, *, given_words: bool = False) -> str:
    """Return the path of an evaluation in a run folder, such as `evaluation/dev-words.json.gz`."""
    return f"evaluation/{part}{'-words' if given_words else ''}.json{_COMPRESSED}"


def save_evaluation(evaluation: Evaluation, path: str | os.PathLike[str], *, follow: bool = True) -> None:
    """Write an evaluation atomically and create its folders; `follow` is for links (see `zishu.writing`).

    A file whose name ends with `.gz` is compressed.
    """
    counts = evaluation.counts
    rows = _rows({absent.name for absent in _OPTIONAL if not counts[:, absent, 0].all()})
    header = {
        "format": FORMAT,
        "version": VERSION,
        "signature": evaluation.signature(),
        "gold": evaluation.gold,
        "sentences": len(counts),
        "rows": rows,
    }
    words = counts[:, _WORD_ROWS, 1:].reshape(len(counts), -1)
    packed = np.concatenate([words, counts[:, _SENTENCE_ROWS, 0]], axis=1)
    packed = packed[:, [_ROWS.index(row) for row in rows]]
    lines = ",\n".join(json.dumps(line, separators=(",", ":")) for line in packed.tolist())
    opened = json.dumps(header, indent=1).removesuffix("\n}")
    target = Path(path)
    content = f'{opened},\n "counts": [\n{lines}\n]}}\n'.encode()
    if target.suffix == _COMPRESSED:
        content = gzip.compress(content, mtime=0)  # the same bytes at any time
    target.parent.mkdir(parents=True, exist_ok=True)
    with replacing(target, follow=follow) as file:
        file.write(content)


def load_evaluation(path: str | os.PathLike[str]) -> Evaluation:
    """Read an evaluation; raise InputError with the reason if the file is not one."""
    try:
        content = Path(path).read_bytes()
        return _parse(json.loads(gzip.decompress(content) if Path(path).suffix == _COMPRESSED else content))
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise InputError(f"{os.fspath(path)}: not an evaluation: not gzip, or damaged") from error
    except InputError as error:
        raise InputError(f"{os.fspath(path)}: not an evaluation: {error}") from error
    except ValueError as error:  # not JSON, or not even UTF-8
        raise InputError(f"{os.fspath(path)}: not an evaluation: not JSON") from error


def _parse(data: Any) -> Evaluation:
    if not isinstance(data, dict) or data.get("format") != FORMAT:
        raise InputError(f"expected an object with the format {FORMAT!r}")
    rows = data.get("rows")
    if data.get("version") != VERSION or not isinstance(rows, list) or rows != _rows(set(map(str, rows))):
        raise InputError(f"version {data.get('version')!r} or its rows are not those of version {VERSION}")
    signature, gold = data.get("signature"), data.get("gold")
    choices = _SIGNATURE.fullmatch(signature) if isinstance(signature, str) else None
    if choices is None or not isinstance(gold, str):
        raise InputError("signature or gold is missing or malformed")
    counts = _unpack(data.get("counts"), rows)
    if len(counts) != data.get("sentences"):
        raise InputError(f"{len(counts)} lines of counts for {data.get('sentences')!r} sentences")
    punct, labels, version = choices.groups()
    return Evaluation(counts, punct=punct == "yes", subtypes=labels == "full", gold=gold, version=version)


def _rows(present: set[str]) -> list[str]:
    """Return the names of the rows in a file, given the optional ones that are present."""
    left_out = {row.name for pair in _OPTIONAL.items() if pair[0].name not in present for row in pair}
    return [row for row in _ROWS if row.split()[0] not in left_out]


def _unpack(lines: Any, rows: list[str]) -> Counts:
    if not isinstance(lines, list) or not lines:
        raise InputError("counts is not a list with one line per sentence")
    for number, line in enumerate(lines, start=1):
        # Not isinstance for numbers, because True is an int, too. The bound keeps sums exact.
        natural = isinstance(line, list) and all(type(x) is int and 0 <= x < 2**31 for x in line)
        if not natural or len(line) != len(rows):
            raise InputError(f"line {number} of counts does not have {len(rows)} natural numbers")
    packed = np.zeros((len(lines), len(_ROWS)), dtype=np.int64)
    packed[:, [_ROWS.index(row) for row in rows]] = lines
    packed[:, [_ROWS.index(absent.name) for absent in _OPTIONAL if absent.name not in rows]] = 1
    counts = np.zeros((len(lines), len(Count), 1 + len(LENGTHS)), dtype=np.int64)
    by_length = packed[:, : -len(_SENTENCE_ROWS)].reshape(len(lines), len(_WORD_ROWS), len(LENGTHS))
    counts[:, _WORD_ROWS, 1:] = by_length
    counts[:, _WORD_ROWS, 0] = by_length.sum(axis=-1)
    counts[:, _SENTENCE_ROWS, 0] = packed[:, -len(_SENTENCE_ROWS) :]
    wrong = np.any([counts[:, low] > counts[:, high] for low, high in _AT_MOST], axis=(0, 2))
    wrong |= (counts[:, _SENTENCE_ROWS, 0] > 1).any(axis=1) | (counts[:, Count.SENTENCES, 0] != 1)
    if wrong.any():
        raise InputError(f"line {int(wrong.argmax()) + 1} of counts contradicts itself")
    return counts
