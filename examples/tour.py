"""Take a quick tour: parse a text, walk through its trees, look at probabilities, constrain the parser.

python examples/tour.py
"""

from __future__ import annotations

import zishu

TEXT = "科学家在南极发现了新的恐龙化石。她喜欢图书馆。"


def main() -> None:
    """Print what each call returns."""
    nlp = zishu.load()

    print("Words, tags, heads, relations:")
    for sentence in nlp(TEXT):
        for word in sentence:
            head = word.head_word.form if word.head_word else "ROOT"
            print(f"  {word.form}\t{word.upos}\t{word.deprel}\t{head}\t{TEXT[word.start : word.end]}")

    print("The tree inside each word, and its relations:")
    for word in nlp(TEXT)[0]:
        if len(word.chars) > 1:
            print(f"  {word.form}\theads {word.char_heads}\t{word.char_rels}")

    print("How sure it is:")
    sentence = nlp(TEXT)[1]
    print(f"  {sentence.text}\tprobability of words and tree {sentence.prob:.3f}")
    least = min(sentence, key=lambda word: word.prob)
    print(f"  least certain word: {least.form} ({least.prob:.3f})")

    print("The two most probable analyses:")
    for analysis in nlp.k_best("他研究生命起源。", 2)[0]:
        print(f"  {analysis.prob:.3f}\t{' '.join(word.form for word in analysis)}")

    print("Conventions and knowledge of your own:")
    for what, options in {
        "style gsd": {"style": "gsd"},
        "style pud": {"style": "pud"},
        "lexicon": {"lexicon": ["图书馆"]},
        "pinned word": {"pins": [(3, 6)]},
        "forced boundary": {"breaks": [4]},
    }.items():
        print(f"  {what}\t{' '.join(word.form for word in nlp('她喜欢图书馆。', **options)[0])}")

    print("Other formats:")
    print(nlp("她喜欢北京。").to_conllu(), end="")
    print(nlp("她喜欢北京。").to_json()[:80] + "...")


if __name__ == "__main__":
    main()
