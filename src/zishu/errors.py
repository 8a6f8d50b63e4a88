"""Define the exceptions that a user of Zishu may meet.

ZishuError               any error that Zishu raises on purpose
├── InputError           the user's input is wrong: exit code 2 on the command line
│   ├── FormatError      a file does not follow its format; gives file and line
│   ├── InvalidTree      heads do not form a tree
│   ├── ConfigError      a configuration has a wrong key or value
│   └── Infeasible       no tree satisfies the constraints
└── MissingExtra         an optional dependency is not installed; names the extra to install
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from typing import TypeVar

    _T = TypeVar("_T")
    _Error = TypeVar("_Error", bound=BaseException)


class ZishuError(Exception):
    """Any error that Zishu raises on purpose."""


class InputError(ZishuError, ValueError):
    """The user's input is wrong."""


class FormatError(InputError):
    """A file does not follow its format."""

    def __init__(self, message: str, *, path: str = "<input>", line: int) -> None:
        super().__init__(f"{path}:{line}: {message}")
        self.path = path
        self.line = line


class InvalidTree(InputError):
    """Heads do not form a tree: a cycle, no root, several roots, or a head out of range."""


class ConfigError(InputError):
    """A configuration has a wrong key or value."""


class Infeasible(InputError):
    """No tree satisfies the constraints."""


class MissingExtra(ZishuError, ImportError):
    """An optional dependency is not installed."""

    def __init__(self, package: str, extra: str) -> None:
        super().__init__(f"{package} is not installed: run pip install 'zishu[{extra}]'")


def explain(error: BaseException) -> str:
    """Describe an error to the user in one line."""
    if isinstance(error, ZishuError):
        message = str(error)
    elif isinstance(error, OSError):
        name = "" if error.filename is None else f"{error.filename}: "
        message = f"{name}{error.strerror or error}"
    else:
        message = f"internal error: {type(error).__name__}: {error}"
    return one_line(message)


def one_line(message: str) -> str:
    """Format a message as one line, whatever a file name or a value in it contains."""
    return printable(" ".join(line.strip() for line in message.splitlines() if line.strip()))


def printable(text: str) -> str:
    """Escape control characters: an untrusted file must not control the terminal."""
    return text if text.isprintable() else _CONTROL.sub(lambda found: repr(found[0])[1:-1], text)


# Characters with effects on a terminal: controls except tab and line break, and direction marks.
_CONTROL = re.compile("[\\x00-\\x08\\x0b-\\x1f\\x7f-\\x9f\\u200e\\u200f\\u202a-\\u202e\\u2066-\\u2069]")


def portable(error: BaseException) -> ZishuError:
    """Return an equivalent error with the same message that any process can unpickle."""
    return (InputError if isinstance(error, InputError) else ZishuError)(explain(error))


def until_error(items: Iterable[_T], errors: list[_Error], *kinds: type[_Error]) -> Iterator[_T]:
    """Yield items until one of these kinds of errors, which is stored: the caller can first finish what came before."""
    try:
        yield from items
    except kinds as error:
        errors.append(error)
