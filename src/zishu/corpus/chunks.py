"""Cut documents into chunks of whole sentences, the unit of work of a run.

The chunks of a text are the same in every run, so the output depends neither on the number of processes nor on
whether the run was interrupted. Short documents share a chunk. Each sentence comes with the white space behind it,
so that the output gives the text back. An error of the input is raised after all sentences before it are delivered.

It does not parse. Memory: one chunk, or the longest block of text. Cost: that of `zishu.sentences`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, Protocol

from zishu.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from zishu.corpus.documents import RawDocument
    from zishu.text import RawSentence


class Cutter(Protocol):
    """What cuts the blocks of a text into sentences; see `zishu.text.iter_sentences`."""

    def __call__(self, blocks: Iterable[str], *, look_ahead: bool = True) -> Iterable[RawSentence]:
        """Yield the sentences."""


CHUNK: Final = 16_000  # characters: half a second of work

Place = tuple[str, int]  # the id of a document, and the number of a sentence in it from 1
NOWHERE: Final[Place] = ("", 0)  # in a text without an id


@dataclass(slots=True)
class Chunk:
    """Some sentences, and where each is; `first` is the number of the first one, from 0."""

    first: int
    sentences: list[RawSentence] = field(default_factory=list)
    places: list[Place] = field(default_factory=list)
    size: int = 0  # characters
    end: int = 0  # the offset behind its last sentence, counted through all documents

    @property
    def last(self) -> int:
        """Return the number behind the last sentence."""
        return self.first + len(self.sentences)


def chunks(
    documents: Iterable[RawDocument],
    sentences: Cutter,
    *,
    named: bool = True,
    size: int | None = None,
    look_ahead: bool = True,
    skip: Callable[[Exception], None] | None = None,
) -> Iterator[Chunk]:
    """Cut documents into chunks of at least `size` characters; `sentences` cuts the blocks of one.

    Unless `named`, the sentences of a document have no place. Without `look_ahead` a sentence does not wait for the
    next one, so not all the white space behind it is known. With `skip`, what follows a fault in a document is passed over,
    and the fault handed to that function.
    """
    size = CHUNK if size is None else size
    fault: InputError | OSError | None = None
    chunk = Chunk(0)
    before = 0  # the length of all documents before this one
    try:
        for document in documents:
            end = 0
            found = _sentences(document, sentences, look_ahead, skip)
            for number, sentence in enumerate(found, start=1):
                end = sentence.end
                chunk.sentences.append(sentence)
                chunk.places.append((document.doc_id, number) if named else NOWHERE)
                chunk.size += len(sentence.text)
                chunk.end = before + end
                if chunk.size >= size:
                    yield chunk
                    chunk = Chunk(chunk.last)
            before += end
    except (InputError, OSError) as error:
        fault = error
    if chunk.sentences:
        yield chunk
    if fault is not None:
        raise fault


def _sentences(
    document: RawDocument, cut: Cutter, look_ahead: bool, skip: Callable[[Exception], None] | None
) -> Iterator[RawSentence]:
    """Yield the sentences of a document; a fault in it is raised, or handed to `skip`, after those before it."""
    fault: InputError | OSError | None = None
    torn = False  # the text breaks off inside its last sentence

    def good_blocks() -> Iterator[str]:
        nonlocal fault, torn
        try:
            yield from document.blocks
        except (InputError, OSError) as error:
            fault, torn = error, True

    last: RawSentence | None = None
    try:
        for sentence in cut(good_blocks(), look_ahead=look_ahead):
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
    if fault is not None:
        if skip is None:
            raise fault
        skip(fault)
