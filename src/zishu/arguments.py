"""Check arguments: a wrong type raises an `InputError` that names the argument, not a `TypeError` from deep inside.

NumPy's numbers and arrays, generators and other iterables are accepted like Python's own.
"""

from __future__ import annotations

from operator import index
from typing import TYPE_CHECKING, Final, TypeVar

from zishu.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

_T = TypeVar("_T")

# Maximum number of analyses of a sentence. Memory grows with it: a million trees of a long sentence fill most machines.
MOST_ANALYSES: Final = 1000


def whole_number(value: object, name: str, *, least: int, most: int | None = None) -> int:
    """Convert a whole number of any type to `int`; error messages call it `name`."""
    try:
        number = index(value)  # type: ignore[arg-type]
    except TypeError:
        raise InputError(f"{name} must be a whole number, not {value!r:.40}") from None
    if number < least:
        raise InputError(f"{name} must be at least {least:,}, not {number:,}")
    if most is not None and number > most:
        raise InputError(f"{name} must be at most {most:,}, not {number:,}")
    return number


def list_of(values: Iterable[_T], name: str) -> list[_T]:
    """Convert any iterable to a list."""
    return list(iterator_of(values, name))


def iterator_of(values: Iterable[_T], name: str) -> Iterator[_T]:
    """Return an iterator over any iterable but a string."""
    if not isinstance(values, str | bytes):
        try:
            return iter(values)
        except TypeError:
            pass
    raise InputError(f"{name} are a list, not {values!r:.40}")
