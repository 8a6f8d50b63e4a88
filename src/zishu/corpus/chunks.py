"""Split documents into chunks of whole sentences, the unit of work of a run.

The chunks of a text are the same in every run, so the output depends neither on the number of processes nor on
interruptions. Short documents share a chunk. Each sentence keeps the white space after it, so that the output
reproduces the text. An input error is raised after all sentences before it are delivered.

This module does not parse. Memory: one chunk, or the longest block of text. Cost: that of `zishu.sentences`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, TypeAlias

from zishu.errors import InputError, until_error

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from zishu.corpus.documents import RawDocument
    from zishu.text import RawSentence


CHUNK: Final = 16_000  # characters: half a second of work

# Splits blocks of text into sentences, with the option `look_ahead`; see `zishu.splitting.iter_sentences`.
Splitter: TypeAlias = "Callable[..., Iterable[RawSentence]]"
# The id of a document, empty if it has none, and the number of a sentence in it, from 1.
Place = tuple[str, int]


@dataclass(slots=True)
class Chunk:
    """Hold sentences and the place of each; `first` is the number of the first one, from 0."""

    first: int
    sentences: list[RawSentence] = field(default_factory=list)
    places: list[Place] = field(default_factory=list)
    size: int = 0  # characters
    end: int = 0  # the offset after its last sentence, counted over all documents

    @property
    def last(self) -> int:
        """Return the number after the last sentence."""
        return self.first + len(self.sentences)


def chunks(
    documents: Iterable[RawDocument],
    sentences: Splitter,
    *,
    named: bool = True,
    size: int | None = None,
    interactive: bool = False,
    skip: Callable[[Exception], None] | None = None,
) -> Iterator[Chunk]:
    """Split documents into chunks of at least `size` characters; `sentences` splits the blocks of one.

    Unless `named`, documents have no ids. If the text is typed (`interactive`), every sentence is a chunk and does not
    wait for the next one, so some white space after it may be unknown. With `skip`, an error in a document is passed to
    that function, and the rest of the document is skipped.
    """
    size = 1 if interactive else CHUNK if size is None else size
    chunk = Chunk(0)
    before = 0  # total length of the documents before this one
    try:
        for document in documents:
            end = 0
            found = _sentences(document, sentences, not interactive, skip)
            for number, sentence in enumerate(found, start=1):
                end = sentence.end
                chunk.sentences.append(sentence)
                chunk.places.append((document.doc_id if named else "", number))
                chunk.size += len(sentence.text)
                chunk.end = before + end
                if chunk.size >= size:
                    yield chunk
                    chunk = Chunk(chunk.last)
            before += end
    except (InputError, OSError):
        if chunk.sentences:
            yield chunk
        raise
    if chunk.sentences:
        yield chunk


def _sentences(
    document: RawDocument, split: Splitter, look_ahead: bool, skip: Callable[[Exception], None] | None
) -> Iterator[RawSentence]:
    """Yield the sentences of a document; an error is raised or passed to `skip` after the sentences before it."""
    fault: InputError | OSError | None = None
    torn: list[InputError | OSError] = []  # the error that ended the text, perhaps inside its last sentence
    last: RawSentence | None = None
    try:
        for sentence in split(until_error(document.blocks, torn, InputError, OSError), look_ahead=look_ahead):
            if last is not None:
                yield last
            last = sentence
            if not (look_ahead or torn):
                yield last
                last = None
    except InputError as error:
        fault = InputError(f"{document.doc_id}: {error}" if document.doc_id else str(error))
    if last is not None and not torn:
        yield last
    fault = fault or next(iter(torn), None)
    if fault is not None:
        if skip is None:
            raise fault
        skip(fault)
