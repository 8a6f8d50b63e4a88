"""Search a corpus by syntax: show every object of a verb in its context, however far away it is.

    python examples/objects.py 喜欢 [FILE.txt]

A search for the string 喜欢 finds the verb. Its object needs the tree: in 喜欢这个故事 it is 故事, three characters later.
The lines are keyword-in-context: what comes before the object, the object with its modifiers, what comes after it.
"""

from __future__ import annotations

import sys
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

import zishu

if TYPE_CHECKING:
    from collections.abc import Iterator

    from zishu import Sentence, Word

TEXT = Path(__file__).with_name("text.txt")
# A verb that is the object of another one (喜欢拍照) is an open or clausal complement in Universal Dependencies.
OBJECTS = {"obj", "ccomp", "xcomp"}
WIDE_SPACE = "\u3000"  # as wide as a character, so that columns line up


def main() -> None:
    """Print the objects of a verb in their contexts, and how often each of them occurs."""
    verb = sys.argv[1] if len(sys.argv) > 1 else "喜欢"
    path = Path(sys.argv[2]) if len(sys.argv) > 2 else TEXT
    nlp = zishu.load()
    counts: Counter[str] = Counter()
    with path.open(encoding="utf-8", newline="") as lines:
        for sentence in nlp.stream(lines):  # constant memory, whatever the size of the file
            for word in objects(sentence, verb):
                counts[word.form] += 1
                print(keyword_in_context(sentence, word))
    for form, count in counts.most_common():
        print(f"{count}\t{form}")


def objects(sentence: Sentence, verb: str) -> Iterator[Word]:
    """Yield the objects of a verb."""
    for word in sentence:
        if word.deprel in OBJECTS and word.head_word.form == verb:
            yield word


def keyword_in_context(sentence: Sentence, word: Word, width: int = 12) -> str:
    """Return a line with a word and everything that depends on it in the middle."""
    inside = [other for other in word.subtree if other.upos != "PUNCT"]
    start, end = inside[0].start - sentence.start, inside[-1].end - sentence.start
    before, phrase, after = sentence.text[:start], sentence.text[start:end], sentence.text[end:]
    return f"{before[-width:].rjust(width, WIDE_SPACE)} 【{phrase}】 {after[:width]}"


if __name__ == "__main__":
    main()
