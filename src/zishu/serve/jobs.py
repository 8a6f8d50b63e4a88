"""Turn a request into sentences for the model, and what the model finds into the answer.

A job is a request on its way. It gives out its sentences in slices and takes their analyses back in the same order, each
becoming text at once, so that a long document never holds the others up for longer than a slice takes. Nothing
here knows HTTP or threads: one thread, the batcher's, works on a job.

Cost: a few microseconds a character; drawings take about as long as parsing does.
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, NamedTuple

from zishu.formats.jsonl import to_json
from zishu.formats.parsed_conllu import to_conllu
from zishu.items import text_items, words_document
from zishu.lexicon import Lexicon
from zishu.render.svg import to_svg
from zishu.serve.schema import Request, TextRequest, TextsRequest, WordsRequest, size_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from zishu.document import Sentence
    from zishu.items import Item
    from zishu.parser import Parser

# JSON lets them stand in a string, but for some readers they end a line.
_LINE_BREAK = re.compile("[\x85\u2028\u2029]")


class Mode(NamedTuple):
    """What sentences must share to be parsed together."""

    words: bool
    confidence: bool
    kbest: int


class Job:
    """A request, its sentences, and the part of its answer that is there."""

    __slots__ = (
        "_documents", "_items", "_numbers", "_parts", "_place", "_request", "_spaces",
        "left", "mode", "sentences", "size",
    )  # fmt: skip

    def __init__(self, request: Request) -> None:
        self._request = request
        self._documents: list[tuple[str, int]] = []  # texts and the number of their sentences
        self._items: list[Item] | None = None
        self._numbers: list[str] = []  # of the sentences in their documents, and the white space behind each
        self._spaces: list[str] = []
        self._parts: list[str] = []
        self._place = 0
        self.size = size_of(request)
        self.left = self.size  # about how much of it is still to be done
        self.sentences = 0
        kbest = 1 if isinstance(request, WordsRequest) else request.kbest
        self.mode = Mode(
            words=isinstance(request, WordsRequest), confidence=kbest > 1 or request.confidence, kbest=kbest
        )

    def take(self, size: int) -> list[Item]:
        """Return the next sentences: at least one, unless none are left, and about `size` characters.

        The first call cuts the texts into sentences, and finds contradictions: an `InputError`.
        """
        if self._items is None:
            self._prepare()
        assert self._items is not None
        taken: list[Item] = []
        count = 0
        while self._place < len(self._items) and count < size:
            item = self._items[self._place]
            taken.append(item)
            count += len(item.text)
            self._place += 1
        self.left = max(0, self.left - count)
        return taken

    def put(self, analyses: Sequence[Sequence[Sentence]]) -> None:
        """Take the analyses of the sentences that were taken last."""
        for ranked in analyses:
            self._parts.append(self._show(ranked, len(self._parts)))

    @property
    def done(self) -> bool:
        """Tell whether all sentences have been parsed."""
        return self._items is not None and len(self._parts) == len(self._items)

    def answer(self, model: str) -> bytes:
        """Return the whole answer; `model` is the JSON object that names the model."""
        parts = iter(self._parts)
        documents = ", ".join(
            f'{{"text": {_string(text)}, {self._sentences([next(parts) for _ in range(count)])}}}'
            for text, count in self._documents
        )
        return f'{{"model": {model}, "documents": [{documents}]}}'.encode()

    def _prepare(self) -> None:
        request = self._request
        if isinstance(request, WordsRequest):
            found = [words_document(request.words)]
        else:
            lexicon = Lexicon(request.lexicon) if request.lexicon else None
            if isinstance(request, TextsRequest):
                found = [(text, text_items(text, lexicon=lexicon)) for text in request.texts]
            else:
                found = [(request.text, _text_items(request, lexicon))]
        self._documents = [(text, len(items)) for text, items in found]
        self._items = [item for _, items in found for item in items]
        if request.format == "conllu":
            self._numbers = [str(k) for _, items in found for k in range(1, len(items) + 1)]
            self._spaces = [space for text, items in found for space in _spaces(text, items)]
        self.sentences = len(self._items)

    def _show(self, ranked: Sequence[Sentence], number: int) -> str:
        """Return the analyses of a sentence in the format that was asked for."""
        several = self.mode.kbest > 1
        match self._request.format:
            case "conllu":
                return "".join(self._conllu(ranked, number, several))
            case "svg":
                shown = [f'{{"svg": {_string(to_svg(sentence))}}}' for sentence in ranked]
            case _:
                shown = [to_json(sentence) for sentence in ranked]
        if not several:
            return shown[0]
        return f'{shown[0][:-1]}, "alternatives": [{", ".join(shown)}]}}'

    def _conllu(self, ranked: Sequence[Sentence], number: int, several: bool) -> Iterator[str]:
        name, after = self._numbers[number], self._spaces[number]
        if not several:
            yield to_conllu(ranked[0], sent_id=name, after=after)
            return
        for rank, sentence in enumerate(ranked, start=1):
            yield to_conllu(sentence, sent_id=f"{name}-{rank}", after=after, rank=rank)

    def _sentences(self, parts: Sequence[str]) -> str:
        if self._request.format == "conllu":
            return f'"conllu": {_string("".join(parts))}'
        return f'"sentences": [{", ".join(parts)}]'


def analyse(parser: Parser, mode: Mode, items: list[Item]) -> list[list[Sentence]]:
    """Parse sentences of one mode together; each comes back as its analyses, the best first."""
    k_best = mode.kbest if mode.kbest > 1 else 0
    return list(parser.analyse(items, words=mode.words, k_best=k_best, confidence=mode.confidence))


def _text_items(request: TextRequest, lexicon: Lexicon | None) -> list[Item]:
    return text_items(request.text, pins=request.pins, breaks=request.breaks, lexicon=lexicon)


def _spaces(text: str, items: Sequence[Item]) -> list[str]:
    """Return the white space behind each sentence of a text."""
    ends = [item.start + len(item.text) for item in items]
    starts = [*(item.start for item in items[1:]), len(text)]
    return [text[end:start] for end, start in zip(ends, starts, strict=False)]


def _string(text: str) -> str:
    """Return a JSON string that is one line for every reader."""
    return json.dumps(text, ensure_ascii=_LINE_BREAK.search(text) is not None)
