"""The one place where wrong input ends: one sentence on what to do and exit code 2, never a traceback."""

from __future__ import annotations

import errno
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

from typer.core import TyperGroup

from coordinator_free_launcher.cli.help_words import plain
from coordinator_free_launcher.cli.say import say
from coordinator_free_launcher.start import INTERRUPTED
from network_dp.errors import UserError

BAD_INPUT: Final = 2

_REMEDIES: Final = {
    errno.ENOENT: "no such file or folder; check the path",
    errno.EACCES: "permission denied; choose a place you may use, or change its owner",
    errno.EPERM: "permission denied; choose a place you may use, or change its owner",
    errno.EROFS: "lies on a disk that is read-only; choose another place",
    errno.ENOTDIR: "a file lies where a folder is needed; choose another name",
    errno.EISDIR: "is a folder; give the name of a file",
    errno.EEXIST: "exists already; choose another name, nothing was overwritten",
    errno.ENOSPC: "the disk is full; free some space and try again",
    errno.ENAMETOOLONG: "the name is too long; choose a shorter one",
}


def sentence(error: OSError) -> str:
    """What the operating system refused, with what to do about it."""
    reason = _REMEDIES.get(error.errno or 0, error.strerror or type(error).__name__)
    return reason if error.filename is None else f"{error.filename}: {reason}"


@contextmanager
def plain_errors() -> Iterator[None]:
    """Whatever a user can put right is told in one sentence, and Ctrl-C stops any command."""
    try:
        yield
        return
    except UserError as error:
        text, code = f"error: {error}", BAD_INPUT
    except OSError as error:
        if error.errno == errno.EPIPE:
            raise
        text, code = f"error: {sentence(error)}", BAD_INPUT
    except KeyboardInterrupt:
        text, code = "Stopped.", INTERRUPTED
    say(text, err=True)
    raise SystemExit(code)


class Commands(TyperGroup):
    """All commands of the command line: their errors end here."""

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """Whichever is asked for, with a help page in words."""
        found = super().get_command(ctx, cmd_name)
        if found is not None:
            plain(found, ctx)
        return found

    def format_help(self, ctx: Any, formatter: Any) -> None:
        plain(self, ctx)
        super().format_help(ctx, formatter)

    def invoke(self, ctx: Any) -> Any:
        with plain_errors():
            return super().invoke(ctx)
