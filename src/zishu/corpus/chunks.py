"""Cut documents into chunks of whole sentences, the unit of work of a run.

The chunks of a text are the same in every run, so the output depends neither on the number of processes nor on
whether the run was interrupted. Short documents share a chunk. Each sentence comes with the white space behind it,
so that the output gives the text back. An error of the input is raised after all sentences before it are delivered.

It does not parse. Memory: one chunk, or the longest block of text. Cost: that of `zishu.items`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from zishu.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from zishu.corpus.documents import RawDocument
    from zishu.items import Item

CHUNK: Final = 16_000  # characters: half a second of work

Place = tuple[str, int]  # the id of a document, and the number of a sentence in it from 1
NOWHERE: Final[Place] = ("", 0)  # in a text without an id


@dataclass(slots=True)
class Chunk:
    """Some sentences: the number of the first one from 0, the white space behind each, and where each is."""

    first: int
    items: list[Item] = field(default_factory=list)
    spaces: list[str] = field(default_factory=list)
    places: list[Place] = field(default_factory=list)
    size: int = 0  # characters
    end: int = 0  # the offset behind its last sentence, counted through all documents

    @property
    def last(self) -> int:
        """Return the number behind the last sentence."""
        return self.first + len(self.items)


def chunks(
    documents: Iterable[RawDocument],
    items: Callable[[Iterable[str]], Iterable[Item]],
    *,
    named: bool = True,
    size: int | None = None,
    look_ahead: bool = True,
) -> Iterator[Chunk]:
    """Cut documents into chunks of at least `size` characters; `items` cuts the blocks of one into sentences.

    Unless `named`, the sentences of a document have no place. Without `look_ahead` a sentence does not wait for the
    next one, so the white space behind it is unknown.
    """
    size = CHUNK if size is None else size
    fault: InputError | OSError | None = None
    chunk = Chunk(0)
    before = 0  # the length of all documents before this one
    try:
        for document in documents:
            end = 0
            spaced = _with_spaces(document, items, look_ahead=look_ahead)
            for number, (item, space) in enumerate(spaced, start=1):
                end = item.start + len(item.text)
                chunk.items.append(item)
                chunk.spaces.append(space)
                chunk.places.append((document.doc_id, number) if named else NOWHERE)
                chunk.size += len(item.text)
                chunk.end = before + end
                if chunk.size >= size:
                    yield chunk
                    chunk = Chunk(chunk.last)
            before += end
    except (InputError, OSError) as error:
        fault = error
    if chunk.items:
        yield chunk
    if fault is not None:
        raise fault


def _with_spaces(
    document: RawDocument, items: Callable[[Iterable[str]], Iterable[Item]], *, look_ahead: bool
) -> Iterator[tuple[Item, str]]:
    """Yield the sentences of a document, each with the white space behind it."""
    fault: InputError | OSError | None = None
    torn = False  # the text breaks off inside its last sentence
    recent, start = "", 0  # the latest text, and its offset
    end = 0  # of the last sentence

    def good_blocks() -> Iterator[str]:
        nonlocal recent, start, fault, torn
        try:
            for block in document.blocks:
                # Cut here and not at every sentence: a block may have millions of characters.
                recent, start = recent[end - start :] + block, end
                yield block
        except (InputError, OSError) as error:
            fault, torn = error, True

    def good_items() -> Iterator[Item | None]:
        nonlocal fault
        try:
            yield from items(good_blocks())
        except InputError as error:
            fault = InputError(f"{document.doc_id}: {error}" if document.doc_id else str(error))
        yield None

    previous: Item | None = None
    for item in good_items():
        waiting, previous = (previous, item) if look_ahead else (item, None)
        if waiting is None or (torn and (item is None or not look_ahead)):
            continue  # the first one waits for the second; the end of a torn one is unknown
        end = waiting.start + len(waiting.text)
        space = ""
        if look_ahead:
            space = recent[end - start : item.start - start if item else None]
            space = space if item else space[: len(space) - len(space.lstrip())]
        yield waiting, space
    if fault is not None:
        raise fault
