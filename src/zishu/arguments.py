"""Check what callers hand in: a wrong type is an `InputError` that names the argument, not a `TypeError` from the depths.

NumPy's numbers and arrays, generators and other iterables are as good as Python's own.
"""

from __future__ import annotations

from operator import index
from typing import TYPE_CHECKING, Final, TypeVar

from zishu.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

_T = TypeVar("_T")

# Analyses of a sentence that may be asked for. Memory grows with their number: a million trees of a long sentence fill
# that of most machines.
MOST_ANALYSES: Final = 1000


def whole_number(value: object, name: str, *, least: int, most: int | None = None) -> int:
    """Return a whole number of any type as an `int`; `name` is what an error calls it."""
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
    """Return the values of any iterable as a list."""
    return list(iterator_of(values, name))


def iterator_of(values: Iterable[_T], name: str) -> Iterator[_T]:
    """Return an iterator over any iterable but a string."""
    if not isinstance(values, str | bytes):
        try:
            return iter(values)
        except TypeError:
            pass
    raise InputError(f"{name} are a list, not {values!r:.40}")
