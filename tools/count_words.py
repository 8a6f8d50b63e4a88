"""Write the frequent words of two characters, for the structure scorer, from a text made by tools/tag_text.py.

    python tools/count_words.py build/text.txt > src/zishu/data/words.txt

A word is listed if the dictionary of the tagger has it and it is frequent. The number before the words of a line is
their class of frequency, see `zishu.structures.words_in_text`.
"""

from __future__ import annotations

import sys
from collections import Counter
from pathlib import Path

from zishu.structures import is_chinese

_UNLISTED = "x"  # the tag of a word that the dictionary does not have
_LEAST = (20, 150, 1000)  # occurrences in 126 million characters, for each class
_IN_LINE = 36
_HEADER = """\
# Frequent words of two characters in open text, by class of frequency: 1 is at least {} occurrences, 2 at least {},
# 3 at least {}. Made by tools/count_words.py from the text that the encoders are pre-trained on.
"""


def main(text: str) -> None:
    """Print the words."""
    counts: Counter[str] = Counter()
    unlisted: Counter[str] = Counter()
    with Path(text).open(encoding="utf-8") as lines:
        for token, count in Counter(token for line in lines for token in line.split()).items():
            word, _, tag = token.rpartition("/")
            if len(word) == 2 and is_chinese(word):
                counts[word] += count
                unlisted[word] += count * (tag == _UNLISTED)
    sys.stdout.write(_HEADER.format(*_LEAST))
    for number, least in reversed(list(enumerate(_LEAST, start=1))):
        most = _LEAST[number] if number < len(_LEAST) else sys.maxsize
        words = sorted(w for w, n in counts.items() if least <= n < most and 2 * unlisted[w] <= n)
        for k in range(0, len(words), _IN_LINE):
            sys.stdout.write(f"{number} {''.join(words[k : k + _IN_LINE])}\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
