"""Turn a request into sentences for the model, and the model's results into the answer.

A job is a request in progress. It returns its sentences in parts, and takes what is to be written about them in the same
order. Sentences are created on demand, so a long document never delays others for longer than one part takes. This
module does not know HTTP or threads: one thread works on a job.

Cost: a few microseconds per character; drawings take about as long as parsing.
"""

from __future__ import annotations

import json
import re
from concurrent.futures import Future
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, cast

from zishu.formats.jsonl import to_json
from zishu.formats.parsed_conllu import to_conllu
from zishu.render.svg import to_svg

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from zishu.corpus.options import Options
    from zishu.document import Sentence, Tokens
    from zishu.parser import Parser
    from zishu.serve.schema import ConvertRequest, ParseRequest
    from zishu.text import RawSentence

# What sentences must share to be parsed together; None: they are already parsed and only change their format.
Mode: TypeAlias = "Options | None"

# JSON allows these in a string, but for some readers they end a line.
_LINE_BREAK = re.compile("[\x85\u2028\u2029]")

# Length in characters at which a sentence costs twice its length, because the chart's share grows.
_CUBIC = 100


@dataclass(slots=True)
class Unit:
    """Hold a sentence to be parsed, or an already parsed one, with its place in the answer and its format."""

    sentence: RawSentence | Sentence
    number: int  # in its document
    document: list[str]  # the output of its document, to which its own is appended
    format: Literal["json", "conllu", "svg"]
    cost: int  # approximate cost of the sentence, in characters of short sentences
    output: str = ""

    def write(self, found: Sequence[Sentence | Tokens], *, several: bool) -> str:
        """Return the analyses of the sentence, best first, in its format; `several` if more than one may be wanted."""
        if self.format == "conllu":
            if not several:
                return to_conllu(found[0], sent_id=str(self.number))
            return "".join(
                to_conllu(sentence, sent_id=f"{self.number}-{rank}", rank=rank)
                for rank, sentence in enumerate(found, start=1)
            )
        if self.format == "svg":
            drawn = map(to_svg, cast("Sequence[Sentence]", found))
            written = [f'{{"svg": {_string(figure)}}}' for figure in drawn]
        else:
            written = [to_json(sentence) for sentence in found]
        if not several:
            return written[0]
        return f'{written[0][:-1]}, "alternatives": [{", ".join(written)}]}}'


class Job:
    """Hold a request, its sentences, and the finished part of its answer."""

    def __init__(self, request: ParseRequest | ConvertRequest, model: str) -> None:
        """Prepare to answer a request; `model` is the JSON object that names the model."""
        self.answer: Future[bytes] = Future()
        self._request = request
        self._model = model
        self._documents: list[tuple[str, list[str]]] = []  # texts, and the output of their sentences
        self._units = self._prepare()
        self._next: Unit | None = None
        self.taken: list[Unit] = []  # the sentences to be parsed next
        self.prepared = False  # whether the first text was split into sentences
        self.sentences = 0
        self.mode: Mode = request.options
        self.analyses = max(1, self.mode.k_best) if self.mode else 1  # of each sentence
        self.size = self.left = request.size  # `left`: approximate remaining cost
        self.cost = self.size * self.analyses + request.extras  # approximate total cost

    def take(self, size: int) -> None:
        """Take the next sentences: about `size` of cost, at least one unless none are left.

        The first call finds contradictions in the request, which raise `InputError`.
        """
        if not self.prepared:
            self._next = next(self._units, None)
            self.prepared = True
        self.taken = []
        cost = chars = 0
        while self._next is not None and cost < size:
            self.taken.append(self._next)
            cost += self._next.cost
            chars += len(self._next.sentence.text)
            self._next = next(self._units, None)
        self.left = max(0, self.left - chars)
        self.sentences += len(self.taken)

    def finish(self) -> bytes | None:
        """Keep the output of the sentences taken last; return the answer if they were the last ones."""
        for unit in self.taken:
            unit.document.append(unit.output)
        if self._next is not None:
            return None
        documents = ", ".join(
            f'{{"text": {_string(text)}, {self._sentences(output)}}}' for text, output in self._documents
        )
        named = "" if self.mode is None else f'"model": {self._model}, '
        return f'{{{named}"documents": [{documents}]}}'.encode()

    def _prepare(self) -> Iterator[Unit]:
        request = self._request
        for text, sentences in request.documents():
            output: list[str] = []
            self._documents.append((text, output))
            for number, sentence in enumerate(sentences, start=request.first):
                size = len(sentence.text)
                cost = size + size * size // _CUBIC
                yield Unit(sentence, number, output, request.format, cost)

    def _sentences(self, output: Sequence[str]) -> str:
        if self._request.format == "conllu":
            return f'"conllu": {_string("".join(output))}'
        return f'"sentences": [{", ".join(output)}]'


def parse_units(parser: Parser, mode: Mode, units: Sequence[Unit]) -> None:
    """Parse sentences of one mode together, and write the output of each."""
    sentences: list[Any] = [unit.sentence for unit in units]
    found: Iterator[Sequence[Sentence | Tokens]]
    if mode is None:
        found = ([sentence] for sentence in sentences)
    else:
        found = mode.analyse(parser.in_style(mode.style, mode.inner), sentences)
    several = mode is not None and mode.k_best > 1
    for unit, analyses in zip(units, found, strict=True):
        unit.output = unit.write(analyses, several=several)


def _string(text: str) -> str:
    """Return a JSON string that is one line for every reader."""
    return json.dumps(text, ensure_ascii=_LINE_BREAK.search(text) is not None)
