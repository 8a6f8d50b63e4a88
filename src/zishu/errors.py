"""The exceptions a user of Zishu may meet, as one small tree.

ZishuError               anything that Zishu reports on purpose
├── InputError           the user's input is at fault: exit code 2 on the command line
│   ├── FormatError      a file that does not follow its format; names file and line
│   ├── InvalidTree      heads that do not form a tree
│   ├── ConfigError      a configuration with a wrong key or value
│   └── Infeasible       constraints that no tree satisfies
└── MissingExtra         an optional dependency is not installed; says which extra brings it
"""

from __future__ import annotations

import re


class ZishuError(Exception):
    """Anything that Zishu reports on purpose."""


class InputError(ZishuError, ValueError):
    """The user's input is at fault."""


class FormatError(InputError):
    """A file does not follow its format."""

    def __init__(self, message: str, *, path: str = "<input>", line: int) -> None:
        super().__init__(f"{path}:{line}: {message}")
        self.path = path
        self.line = line


class InvalidTree(InputError):
    """Heads that do not form a tree: a cycle, no root, several roots, a head out of range."""


class ConfigError(InputError):
    """A configuration has a wrong key or value."""


class Infeasible(InputError):
    """No tree satisfies the constraints."""


class MissingExtra(ZishuError, ImportError):
    """An optional dependency is not installed."""

    def __init__(self, package: str, extra: str) -> None:
        super().__init__(f"{package} is not installed: pip install 'zishu[{extra}]' brings it")


def explain(error: BaseException) -> str:
    """Return one line that tells a user what went wrong."""
    if isinstance(error, ZishuError):
        message = str(error)
    elif isinstance(error, OSError):
        name = "" if error.filename is None else f"{error.filename}: "
        message = f"{name}{error.strerror or error}"
    else:
        message = f"internal error: {type(error).__name__}: {error}"
    return one_line(message)


def one_line(message: str) -> str:
    """Return a message as one line, whatever a file name or a value in it holds."""
    return printable(" ".join(line.strip() for line in message.splitlines() if line.strip()))


def printable(text: str) -> str:
    """Return a text with control characters as escapes: a stranger's file must not steer the terminal."""
    return text if text.isprintable() else _CONTROL.sub(lambda found: repr(found[0])[1:-1], text)


# Characters that do something else than stand there: controls but for tab and line break, and marks of direction.
_CONTROL = re.compile("[\\x00-\\x08\\x0b-\\x1f\\x7f-\\x9f\\u200e\\u200f\\u202a-\\u202e\\u2066-\\u2069]")


def portable(error: BaseException) -> ZishuError:
    """Return an error with the same line and blame that any process can unpickle."""
    return (InputError if isinstance(error, InputError) else ZishuError)(explain(error))
