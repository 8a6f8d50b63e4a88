"""Compare the lexicon of word structures with annotated structures in WIST's format.

    python tools/structure_agreement.py WIST.conll [--disagreements 40]

The table has, for each word length: the number of words in both, the share of them with the same tree (complete match),
the share of characters with the same head, and the complete match of the two constant chains. A word with two
entries agrees if one of them does.
"""

from __future__ import annotations

import argparse
import random
import sys

from zishu.structures import by_form, load_structures
from zishu.treebank.wist import read_wist


def main() -> None:
    """Print the table and, if wanted, a random sample of words whose trees differ."""
    parser = argparse.ArgumentParser(description="Compare the lexicon of word structures with a WIST file.")
    parser.add_argument("wist")
    parser.add_argument("--disagreements", type=int, default=0)
    arguments = parser.parse_args()
    theirs = read_wist(arguments.wist)
    ours = {
        form: [entry.heads for entry in entries]
        for form, entries in by_form(load_structures()).items()
        if form in theirs
    }
    sys.stdout.write("length  words  complete match  heads  ends in its root  begins with it\n")
    for length in sorted({len(form) for form in ours}):
        words = [form for form in ours if len(form) == length]
        match = sum(tuple(theirs[form]) in ours[form] for form in words)
        heads = sum(max(sum(map(int.__eq__, tree, theirs[form])) for tree in ours[form]) for form in words)
        last, first = (*range(2, length + 1), 0), (0, *range(1, length))
        constants = (sum(tuple(theirs[form]) == chain for form in words) for chain in (last, first))
        shares = [match / len(words), heads / length / len(words), *(n / len(words) for n in constants)]
        row = "  ".join(f"{100 * share:.1f}" for share in shares)
        sys.stdout.write(f"{length}  {len(words)}  {row}\n")
    differing = [form for form, trees in ours.items() if tuple(theirs[form]) not in trees]
    for form in random.Random(0).sample(differing, min(arguments.disagreements, len(differing))):
        sys.stdout.write(f"{form}  ours {ours[form]}  theirs {tuple(theirs[form])}\n")


if __name__ == "__main__":
    main()
