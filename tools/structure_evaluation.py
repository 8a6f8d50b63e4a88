"""Evaluate the trees inside words against annotated structures in WIST's format.

    python tools/structure_evaluation.py MODEL WIST.conll TREEBANK.conllu ... [--reference FILE ...] [--sample 100]

Prints the complete match in percent, by word length, over the annotated words that are not in our lexicon:

    all      every such word by itself, without a sentence
    text     those that are words of the treebanks, in their sentences; each occurrence counts

for the two constant trees (every character depends on the next one, or on the one before), the better of the two for
each length, the latent trees of the parser, and the structure scorer. Words of the lexicon are left out, because the
scorer has seen them. Our guidelines give an unanalysable word a flat tree, WIST a chain (each character depends on the one
before). The row "chains" has our trees in that convention. The row "names flat" treats surname and given name as one
unanalysable word, as an earlier version of our guidelines did.

`--reference FILE ...` adds an upper bound: a structure scorer trained like ours, but on nine tenths of the annotated
words, which it looks for in the text of these files. Both are compared on the last tenth, without words of the
lexicon. `--sample` prints random words of the treebanks with our trees, for a person to read.
"""

from __future__ import annotations

import argparse
import random
import shutil
import sys
import tempfile
from collections import defaultdict
from pathlib import Path
from typing import TYPE_CHECKING

from zishu.formats.conllu import read_conllu
from zishu.model.files import find_model
from zishu.parser import Parser, load
from zishu.structures import Structure, by_form, formation, is_chinese, load_structures
from zishu.tree import ROOT_LABEL
from zishu.treebank.wist import read_wist

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from zishu.document import Word

    Pairs = Iterable[tuple[tuple[int, ...], tuple[int, ...] | None]]

LENGTHS = (2, 3, 4)


def main() -> None:
    """Print the tables."""
    arguments = _arguments()
    gold = read_wist(arguments.wist)
    lexicon = by_form(load_structures())
    unseen = {form: heads for form, heads in gold.items() if form not in lexicon and is_chinese(form)}
    parser = load(arguments.model)
    sentences = [sentence.tree().forms for path in arguments.treebanks for sentence in read_conllu(path)]
    in_text = {
        inner: [word for sentence in parser.parse_words(sentences, inner=inner) for word in sentence]
        for inner in ("latent", "structure")
    }
    alone = {inner: _alone(parser, unseen, inner) for inner in ("latent", "structure")}
    sys.stdout.write("system  where  2  3  4  (words)\n")
    for where, words in (("all", alone), ("text", in_text)):
        chosen = {inner: [w for w in several if w.form in unseen] for inner, several in words.items()}
        trees = [unseen[word.form] for word in chosen["latent"]]
        last = _match((tree, (*range(2, len(tree) + 1), 0)) for tree in trees)
        first = _match((tree, (0, *range(1, len(tree)))) for tree in trees)
        counts = [sum(len(tree) == length for tree in trees) for length in LENGTHS]
        _row("constant, root last", where, last, counts)
        _row("constant, root first", where, first, counts)
        _row("the better constant", where, {n: max(last[n], first[n]) for n in LENGTHS}, counts)
        for inner, name in (("latent", "latent"), ("structure", "structure scorer")):
            _row(name, where, _match((unseen[w.form], w.char_heads) for w in chosen[inner]), counts)
        chained = _match((unseen[w.form], _chained(w)) for w in chosen["structure"])
        _row("structure scorer, chains", where, chained, counts)
        flat = _match((unseen[w.form], _flat_name(w)) for w in chosen["structure"])
        _row("structure scorer, names flat", where, flat, counts)
    if arguments.reference:
        _reference(parser, gold, unseen, arguments)
    for word in random.Random(0).sample(
        [w for w in in_text["structure"] if w.char_rels and len(w.form) > 1], arguments.sample
    ):
        sys.stdout.write(f"{word.form} {word.upos} {_shown(word)}\n")


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Evaluate the trees inside words against a WIST file.")
    parser.add_argument("model")
    parser.add_argument("wist")
    parser.add_argument("treebanks", nargs="+")
    parser.add_argument("--reference", nargs="+", type=Path, default=[])
    parser.add_argument("--sample", type=int, default=0)
    return parser.parse_args()


def _alone(parser: Parser, words: Iterable[str], inner: str) -> list[Word]:
    found = parser.parse_words([[word] for word in words], inner=inner, confidence=False)
    return [sentence[0] for sentence in found]


def _chained(word: Word) -> tuple[int, ...]:
    """Return the tree inside a word, with chains for flat unanalysable parts."""
    assert word.char_heads is not None
    assert word.char_rels is not None
    heads = list(word.char_heads)
    for d, relation in enumerate(word.char_rels, start=1):
        if relation == "una" and (d - 1 == heads[d - 1] or word.char_heads[d - 2] == word.char_heads[d - 1]):
            heads[d - 1] = d - 1
    return tuple(heads)


def _flat_name(word: Word) -> tuple[int, ...] | None:
    """Return the tree inside a word; a flat one if an attribute precedes an unanalysable part, as in most names."""
    return (0, 1, 1) if word.char_rels == ("att", ROOT_LABEL, "una") else word.char_heads


def _match(pairs: Pairs) -> dict[int, float]:
    """Return the share of equal trees by length, in percent."""
    right: dict[int, int] = defaultdict(int)
    total: dict[int, int] = defaultdict(int)
    for gold, found in pairs:
        right[len(gold)] += gold == found
        total[len(gold)] += 1
    return {length: 100 * right[length] / max(1, total[length]) for length in LENGTHS}


def _row(system: str, where: str, shares: Mapping[int, float], counts: Sequence[int]) -> None:
    numbers = "  ".join(f"{shares[length]:.1f}" for length in LENGTHS)
    sys.stdout.write(f"{system}  {where}  {numbers}  ({', '.join(map(str, counts))})\n")


def _reference(
    parser: Parser,
    gold: Mapping[str, tuple[int, ...]],
    unseen: Mapping[str, tuple[int, ...]],
    arguments: argparse.Namespace,
) -> None:
    """Train the upper reference, and compare it with ours on a tenth of the annotated words."""
    from zishu.train.structures import is_held_out, train_structures

    tested = {form: heads for form, heads in unseen.items() if is_held_out(form)}
    entries = [
        _entry(form, heads)
        for form, heads in gold.items()
        if len(form) > 1 and is_chinese(form) and not is_held_out(form)
    ]
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place) / "model"
        shutil.copytree(find_model(arguments.model), folder)
        train_structures(folder, arguments.reference, entries=entries)
        counts = [sum(len(form) == length for form in tested) for length in LENGTHS]
        for name, system in (("structure scorer", parser), ("trained on nine tenths", load(folder))):
            words = _alone(system, tested, "structure")
            _row(name, "a tenth", _match((tested[w.form], _chained(w)) for w in words), counts)


def _entry(form: str, heads: tuple[int, ...]) -> Structure:
    """Return an entry with the tree alone: one relation for each side of the head."""
    relations = (
        (ROOT_LABEL if not head else "att" if d < head else "coo") for d, head in enumerate(heads, start=1)
    )
    return Structure(form, ("X",), heads, tuple(relations))


def _shown(word: Word) -> str:
    assert word.char_heads is not None
    assert word.char_rels is not None
    return f"{formation(word.chars, word.char_heads, word.char_rels)} {word.structure_prob:.2f}"


if __name__ == "__main__":
    main()
