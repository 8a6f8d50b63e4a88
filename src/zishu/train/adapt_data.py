"""Prepare the data of an adaptation (`zishu.train.adapt`): readable files in the folder `data` of the run.

    known.conllu       what the user knows: corrected trees, words
    held-out.conllu    complete trees, not used for training, to choose the epoch and to score
    sure.conllu        from the user's raw text: words of the lexicon, and what the model itself is sure of
    rehearsal.txt      our own sentences, on which the old model teaches the new one in all its styles
    own.txt            the user's sentences, on which it does so in all styles but the adapted one
    watch.txt          more of our own sentences, not used for training, on which both models are compared
    arguments.json     the arguments and files from which all this was made

Our own sentences (`data/sample.txt` of the package) are of many kinds: encyclopaedia, news, science, stories,
instructions, reviews, chat.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from importlib.resources import files
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from zishu.annotations import partial_to_conllu, read_annotations
from zishu.arcs import ROOT_SPAN
from zishu.errors import InputError
from zishu.formats.conllu import format_sentence, read_conllu, trees_of
from zishu.gaps import BREAK, FREE, JOIN
from zishu.lexicon import Lexicon
from zishu.model.files import find_model, read_json, write_json
from zishu.model.runtime import load_model
from zishu.partial import KnownWord, PartialTree, partial_of_raw
from zishu.reading import read_lines
from zishu.sentences import text_sentences
from zishu.train.checkpoint import write_atomically

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from pathlib import Path

    from zishu.document import Sentence

_HOLD_OUT: Final = 10  # hold out every tenth complete tree
_ENOUGH: Final = 50  # hold out none if there are fewer complete trees than this
_WATCHED: Final = 4  # watch every fourth sentence of our own
_LONGEST: Final = 150  # characters; longer sentences of raw text are left out
_MOST_TEXT: Final = 1000  # sentences of raw text

KNOWN, HELD_OUT, SURE_TREES = "known.conllu", "held-out.conllu", "sure.conllu"
REHEARSAL, OWN, WATCH = "rehearsal.txt", "own.txt", "watch.txt"


@dataclass(frozen=True, slots=True)
class AdaptOptions:
    """Name the user's files, and define how to learn from them."""

    gold: tuple[str, ...] = ()
    words: tuple[str, ...] = ()
    lexicon: str = ""
    text: tuple[str, ...] = ()
    rehearsal: tuple[str, ...] = ()  # treebanks, FILE or STYLE=FILE
    dev: str = ""
    model: str | None = None  # None: the default one
    style: str | None = None  # None: the model's first one
    sure: float = 0.95  # least probability of the model's own parses
    epochs: int = 4
    keep: float = 80.0  # least agreement in LF with the old model, in other styles
    seed: int = 0
    hold_out: bool = True  # otherwise training uses all sentences

    def __post_init__(self) -> None:
        if not any((self.gold, self.words, self.text)):
            raise InputError("no data: give corrected trees, words or raw text")
        if self.lexicon and not self.text:
            raise InputError("a lexicon only works together with raw text: add some that contains its words")


def prepare(data: Path, options: AdaptOptions) -> tuple[dict[str, int], tuple[str, ...]]:
    """Write the data of a run unless they exist; return the number of sentences of each kind, and problems."""
    arguments = json.loads(json.dumps(asdict(options)))
    path = data / "arguments.json"
    if path.exists():
        before: Any = read_json(path)
        if before["arguments"] != arguments:
            raise InputError(
                f"{data.parent}: contains a run with other arguments: use the same ones or another folder"
            )
        return before["counts"], tuple(before["problems"])
    known, held_out, problems = _read_known(options)
    found = list(_read_text(options))
    if not known and not found:
        raise InputError("no data: no file has a usable sentence")
    if options.dev:
        sentences = list(read_conllu(options.dev))
        trees_of(sentences)  # sentences to score need complete trees
        scored = "".join(map(format_sentence, sentences))
    else:
        scored = _to_text(held_out)
    ours = [line for line in read_lines(str(files("zishu") / "data" / "sample.txt")) if line]
    watched = ours[::_WATCHED]
    rehearsed = [line for line in ours if line not in watched]
    own = ["".join(tree.chars) for tree in (*known, *found)]
    data.mkdir(parents=True, exist_ok=True)
    texts = {KNOWN: _to_text(known), HELD_OUT: scored, SURE_TREES: _to_text(found)}
    for name, lines in ((REHEARSAL, rehearsed), (OWN, own), (WATCH, watched)):
        texts[name] = "".join(f"{line}\n" for line in lines)
    for name, text in texts.items():
        write_atomically(data / name, text)
    counts = {"known": len(known), "held out": len(held_out), "raw text": len(found)}
    counts["rehearsal"] = len(rehearsed)
    write_json(path, {"arguments": arguments, "counts": counts, "problems": problems})
    return counts, tuple(problems)


def _read_known(options: AdaptOptions) -> tuple[list[PartialTree], list[PartialTree], list[str]]:
    """Return what the user knows, the part of it that is held out, and messages about contradictions."""
    known: list[PartialTree] = []
    problems: list[str] = []
    for trees, contradictions in map(read_annotations, (*options.gold, *options.words)):
        known += trees
        problems += contradictions
    if options.dev or not options.hold_out:
        return known, [], problems
    full = [tree for tree in known if tree.is_full]
    held_out = full[_HOLD_OUT - 1 :: _HOLD_OUT] if len(full) >= _ENOUGH else []
    chosen = set(map(id, held_out))
    return [tree for tree in known if id(tree) not in chosen], held_out, problems


def _read_text(options: AdaptOptions) -> Iterator[PartialTree]:
    """Yield what is certain about raw text: words of the lexicon, and what the model is sure of given them.

    Sentences with words of the lexicon come first. There are at most `_MOST_TEXT` sentences in all. In a style that is
    new to the model, only the words of the lexicon count.
    """
    model = load_model(find_model(options.model))
    lexicon = Lexicon.load(options.lexicon) if options.lexicon else None
    raw = [
        sentence
        for path in options.text
        for line in read_lines(path)
        for sentence in text_sentences(line, lexicon=lexicon)
        if 1 < len(sentence) <= _LONGEST
    ]
    order = np.random.default_rng(options.seed).permutation(len(raw)).tolist()
    if lexicon:
        has_word = [any(True for _ in lexicon.matches(sentence.chars)) for sentence in raw]
        order.sort(key=lambda k: not has_word[k])
    chosen = [raw[k] for k in sorted(order[:_MOST_TEXT])]
    trees: Iterable[PartialTree]
    if options.style in (model.settings.styles or ("",)):
        parsed = model.in_style(options.style or None).parse(chosen, confidence=True)
        trees = (sure_tree(sentence, options.sure) for sentence in parsed)
    else:
        trees = map(partial_of_raw, chosen)
    yield from (tree for tree in trees if tree.is_known)


def sure_tree(sentence: Sentence, sure: float) -> PartialTree:
    """Keep the words of a parse, and their heads, relations and parts of speech, that are probable enough."""
    certain = {word.id for word in sentence if (word.boundary_prob or 0) >= sure}
    spans = (ROOT_SPAN, *sentence.tree.spans)
    gaps = np.full(len(sentence.chars) + 1, FREE, dtype=np.int8)
    gaps[0] = BREAK
    words = []
    for word in sentence:
        if word.id not in certain:
            continue
        start, end = spans[word.id]
        gaps[start : end - 1] = JOIN
        gaps[[start - 1, end - 1]] = BREAK
        has_head = (word.head_prob or 0) >= sure and (word.head == 0 or word.head in certain)
        has_label = has_head and (word.label_prob or 0) >= sure
        tags = {"upos": word.upos} if word.upos and (word.upos_prob or 0) >= sure else {}
        head = spans[word.head] if has_head else None
        words.append(KnownWord((start, end), head, word.deprel if has_label else None, tags))
    return PartialTree(tuple(sentence.chars), gaps, tuple(words))


def _to_text(trees: Sequence[PartialTree]) -> str:
    return "".join(partial_to_conllu(tree, sent_id=str(k)) for k, tree in enumerate(trees, start=1))
