"""Sentences on the screen: broken between words where a terminal shows them, left whole where a program reads them.

And bars for long work, on a terminal only."""

from __future__ import annotations

import shutil
import sys
import textwrap
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import typer


def say(text: str, *, err: bool = False) -> None:
    """Print whole lines; paths and commands are never cut in two."""
    stream = sys.stderr if err else sys.stdout
    typer.echo(wrapped(text, shutil.get_terminal_size().columns) if stream.isatty() else text, err=err)


def wrapped(text: str, width: int) -> str:
    """The lines of a text, none longer than ``width`` if its words allow; further lines are indented like the first."""
    return "\n".join(_fill(line, width) for line in text.split("\n"))


def _fill(line: str, width: int) -> str:
    indent = line[: len(line) - len(line.lstrip())]
    words = textwrap.fill(
        line.strip(),
        width,
        initial_indent=indent,
        subsequent_indent=indent,
        break_long_words=False,
        break_on_hyphens=False,
    )
    return words or line


@contextmanager
def bar(label: str, total: float | None = None, *, quiet: bool = False) -> Iterator[Callable[..., None]]:
    """A bar that is told how much is done, and of how much if that was not known; without a total it only moves."""
    from rich.console import Console
    from rich.progress import Progress

    console = Console(stderr=True)
    with Progress(console=console, transient=True, disable=quiet or not console.is_terminal) as shown:
        task = shown.add_task(label, total=total)
        yield lambda done, of=total: shown.update(task, completed=done, total=of)
