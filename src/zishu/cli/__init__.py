"""Define the command line: one command per file, each a thin wrapper over a plain function.

`main` is the console script. This module decides how a command ends: bad input or usage prints one line on standard
error and gives exit code 2, any other failure one line and exit code 1, never a traceback.

A command's file imports only light modules at its top and the rest inside the function, so that `zishu --help` does not
wait for Numba or ONNX Runtime.
"""

from __future__ import annotations

import io
import logging
import os
import sys
import traceback
from importlib import import_module
from typing import TYPE_CHECKING, Annotated

import typer

import zishu
from zishu.errors import InputError, ZishuError, explain, one_line

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

# `zishu --help` keeps this order. The module of a command has its name, and so has the function in it.
COMMANDS = (
    "adapt", "analyse", "calibrate", "compare", "config", "ensemble", "eval", "info", "parse", "pretrain", "serve", "stats",
    "structure", "suggest", "train", "train-structures", "warm-up", "convert",
)  # fmt: skip

SUCCESS, FAILURE, BAD_INPUT, INTERRUPTED = 0, 1, 2, 130

# Errors of the operating system that a wrong file name can cause.
_BAD_PATH = (FileNotFoundError, FileExistsError, IsADirectoryError, NotADirectoryError, PermissionError)


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"zishu {zishu.__version__}")
        raise typer.Exit


def _common(
    context: typer.Context,
    version: Annotated[  # noqa: ARG001 (its callback has printed it)
        bool,
        typer.Option("--version", help="Print the version and exit.", callback=_print_version, is_eager=True),
    ] = False,
) -> None:
    """Parse Chinese character by character: words, their tree, and the tree inside every word."""
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())


def make_app(commands: Iterable[str] = COMMANDS) -> typer.Typer:
    """Build the command line with some commands; only their modules are imported."""
    # Plain help: with Rich, flags would seem to take a value (`--json <bool>`), and `[pretrain]` would be markup.
    app = typer.Typer(
        name="zishu",
        rich_markup_mode=None,
        add_completion=False,
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    app.callback(invoke_without_command=True)(_common)
    for name in commands:
        own = name.replace("-", "_")
        module = import_module(f"zishu.cli.{own}")
        if hasattr(module, f"{own}_app"):  # a command with commands of its own
            app.add_typer(getattr(module, f"{own}_app"), name=name)
        else:
            app.command(name)(getattr(module, f"{own}_command"))
    return app


def main() -> None:
    """Run the command line and exit."""
    _replace_closed()
    _prefer_utf8()
    code = run(sys.argv[1:])
    _discard_unwritable()
    sys.exit(code)


def run(arguments: Sequence[str]) -> int:
    """Run one command and return its exit code; errors are printed in one line on standard error."""
    _show_messages()
    # Describing all commands to Typer takes longer than parsing a sentence.
    wanted = arguments[:1] if arguments and arguments[0] in COMMANDS else COMMANDS
    code = SUCCESS
    try:
        command = typer.main.get_command(make_app(wanted))
        # Not `app()`, which would draw usage errors in a box of several lines and end the process itself.
        with command.make_context("zishu", list(arguments), obj=list(arguments)) as context:
            command.invoke(context)
        # Flush here, not at the interpreter's exit, so that a full disk or a closed pipe is reported properly.
        sys.stdout.flush()
    except typer.Exit as request:
        return request.exit_code
    except (KeyboardInterrupt, typer.Abort):
        return INTERRUPTED
    except BrokenPipeError:
        # The reader of our output has closed it (`zishu ... | head`): this is not an error.
        return FAILURE
    except Exception as error:
        message, code = outcome(error)
        typer.echo(f"zishu: {message}", err=True)
        if os.environ.get("ZISHU_TRACEBACK"):
            traceback.print_exception(error)
    return code


class _Messages(logging.Handler):
    """Print the library's log messages as lines of this program."""

    def emit(self, record: logging.LogRecord) -> None:
        typer.echo(f"zishu: {one_line(record.getMessage())}", err=True)


def _show_messages() -> None:
    """Show warnings about the chart and, on a terminal, that it is being compiled."""
    logger = logging.getLogger("zishu.chart")
    logger.propagate = False  # the service has its own handlers
    if not any(isinstance(handler, _Messages) for handler in logger.handlers):
        logger.addHandler(_Messages())
    logger.setLevel(logging.INFO if sys.stderr is not None and sys.stderr.isatty() else logging.WARNING)


def outcome(error: Exception) -> tuple[str, int]:
    """Return the message for an error, and the exit code."""
    # Usage errors belong to Click or, in newer Typers, to a copy of Click: one method, no common class.
    if hasattr(error, "format_message"):
        context = getattr(error, "ctx", None)
        program = context.command_path if context else "zishu"
        message = error.format_message().rstrip(".").replace("Value error, ", "")
        return one_line(f"{message} (see {program} --help)"), BAD_INPUT
    hint = "" if isinstance(error, ZishuError | OSError) else " (set ZISHU_TRACEBACK=1 for a traceback)"
    return explain(error) + hint, BAD_INPUT if isinstance(error, (InputError, *_BAD_PATH)) else FAILURE


class _Closed(io.TextIOBase):
    """Replace a closed standard output; fails only if something is written."""

    def write(self, text: str, /) -> int:
        if text:
            raise InputError("standard output is closed")
        return 0


def _replace_closed() -> None:
    """Replace closed standard streams (`>&-`), which Python sets to None."""
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            # This takes the lowest free file descriptor. Otherwise one of our files would get it, and what a library
            # prints.
            os.open(os.devnull, os.O_RDWR)
    if sys.stdout is None:
        sys.stdout = _Closed()
    if sys.stderr is None:
        sys.stderr = open(os.devnull, "w", encoding="utf-8")  # noqa: PTH123, SIM115 (open until the end)


def _prefer_utf8() -> None:
    """Write UTF-8 to files and pipes in any locale, and escape what a terminal cannot show."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            encoding = None if stream.isatty() else "utf-8"
            stream.reconfigure(encoding=encoding, errors="backslashreplace")


def _discard_unwritable() -> None:
    """Discard output that cannot be written; otherwise the interpreter would fail on it again at exit."""
    try:
        sys.stdout.flush()
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
