"""Correct a corpus where it matters: find the places where the parser is unsure, fix them, and keep the corrections.

    python examples/correct.py [FILE.txt]

1. Parse everything and sort the sentences by their least certain word.
2. A person looks at the first few. Here the "person" is a table of words that must be whole.
3. Parse again with the corrections as constraints. The rest of the sentence adapts, and its probabilities are exact
   given the corrections, so the next round shows what is still doubtful.

The page of `zishu serve` does the same with the mouse.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import zishu

if TYPE_CHECKING:
    from zishu import Sentence

TEXT = Path(__file__).with_name("text.txt")
# The person's corrections: each of these is one word. In the style gsd some of them are two words.
CORRECTIONS = ("地质学家", "图书馆", "矿石", "旧日记")


def main() -> None:
    """Print the doubtful sentences before and after the corrections, and the corrected ones as CoNLL-U."""
    text = (Path(sys.argv[1]) if len(sys.argv) > 1 else TEXT).read_text(encoding="utf-8")
    nlp = zishu.load()
    sentences = sorted(nlp(text), key=certainty)

    print("Where the parser is least sure:")
    for sentence in sentences[:5]:
        word = min(sentence, key=lambda word: word.prob)
        print(f"  {word.prob:.2f}  {word.form} ({word.upos}, {word.deprel})  in  {sentence.text}")

    print("After the corrections:")
    corrected = []
    for sentence in sentences:
        pins = [span for form in CORRECTIONS for span in places(sentence.text, form)]
        if pins:
            (after,) = nlp(sentence.text, pins=pins)
            corrected.append(after)
            print(
                f"  {certainty(sentence):.2f} -> {certainty(after):.2f}  {' '.join(word.form for word in after)}"
            )

    print("The first corrected sentence, to train or to evaluate with:")
    print(corrected[0].to_conllu(), end="")


def certainty(sentence: Sentence) -> float:
    """Return the probability of the least certain word."""
    return min(word.prob for word in sentence)


def places(text: str, form: str) -> list[tuple[int, int]]:
    """Return where a form occurs."""
    return [(at, at + len(form)) for at in range(len(text)) if text.startswith(form, at)]


if __name__ == "__main__":
    main()
