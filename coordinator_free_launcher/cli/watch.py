"""``watch`` and ``--watch``: a live page of a run, or of one user, in a browser on this machine."""

from __future__ import annotations

import ipaddress
import threading
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from coordinator_free_launcher.cli.provision import warn
from network_dp.errors import UserError

if TYPE_CHECKING:
    from rich.console import Console

    from coordinator_free_launcher.local.chaos import Chaos, Picture
    from coordinator_free_launcher.local.run import Judgement
    from coordinator_free_launcher.page.server import Page
    from coordinator_free_launcher.page.sources import RoomSource

Watch = Annotated[bool, typer.Option("--watch", help="Serve a live page of it on this machine, and stay until Ctrl-C.")]


class LivePage:
    """The page of a command that runs users; it follows whatever run begins."""

    def __init__(self, page: Page, console: Console) -> None:
        self._page, self._console = page, console
        self._room: RoomSource | None = None
        self._statuses: dict[str, str] = {}
        self._open = False

    def begins(self, folder: Path) -> None:
        from coordinator_free_launcher.page.sources import RoomSource

        self._room = RoomSource(folder)
        self._page.follow(self._room)
        self._open = True

    def judged(self, judgement: Judgement) -> None:
        assert self._room is not None
        self._room.judgement = judgement

    def opens(self, folder: Path, only: list[str] | None) -> None:
        """A launch: of one user its own page, of several the room."""
        from coordinator_free_launcher.page.sources import source_of

        one = only[0] if only is not None and len(only) == 1 else None
        self._page.follow(source_of(folder, one, values=False, judge=judge_of))
        self._open = True

    def disturbs(self, folder: Path, chaos: Chaos) -> None:
        """Chaos: the page shows what chaos knows of the users, and may kill and freeze them."""
        from coordinator_free_launcher.page.sources import RoomSource

        self._room = RoomSource(folder, statuses=lambda: self._statuses)
        self._page.follow(self._room, chaos.ask)
        self._open = True

    def shows(self, picture: Picture) -> None:
        self._statuses = picture.users

    def stay(self) -> None:
        """Until Ctrl-C, so that the end can be looked at."""
        if self._open:
            self._console.print(f"The page stays at {self._page.address} until Ctrl-C", highlight=False, soft_wrap=True)
            with suppress(KeyboardInterrupt):
                threading.Event().wait()
        self._page.close()


def open_page(wanted: bool, console: Console) -> LivePage | None:
    """Serve a page if one is wanted, and say where."""
    if not wanted:
        return None
    page = served()
    console.print(f"Watch at {page.address}", highlight=False, soft_wrap=True)
    return LivePage(page, console)


def served(host: str = "127.0.0.1", port: int = 0) -> Page:
    try:
        from coordinator_free_launcher.page.server import Page
    except ModuleNotFoundError as error:
        raise UserError(f"{error.name} is missing: install network-dp[page]") from None
    page = Page(host=host, port=port)
    page.start()
    return page


def judge_of(folder: Path) -> Judgement:
    from coordinator_free_launcher.local.run import judge

    return judge(folder)


def watch_command(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="A run's folder, or one user's bundle.")],
    only: Annotated[str | None, typer.Option(help="The page of this user of the run, from its own files.")] = None,
    values: Annotated[bool, typer.Option("--values", help="Show your own values and noise; hidden otherwise.")] = False,
    host: Annotated[str, typer.Option(help="IP address to serve at.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port to serve at; 0: a free one.")] = 0,
) -> None:
    """Serve a live page of a run on this machine, or of one user from its own files alone. Ctrl-C ends it.

    A folder with several users shows the room: token, users, estimate, verdict. A bundle, or a folder with one user,
    shows what that user gave, to whom, and what it can have cost. The page changes nothing.
    """
    from coordinator_free_launcher.page.sources import source_of

    try:
        outside = not ipaddress.ip_address(host).is_loopback
    except ValueError:
        raise UserError(f'--host "{host}": must be an IP address of this machine') from None
    source = source_of(folder, only, values=values, judge=judge_of)
    if outside:
        warn(f"{host} can be reached from other machines: whoever has the address below sees this page")
    page = served(host, port)
    page.follow(source)
    typer.echo(f"Watch at {page.address} (Ctrl-C ends)")
    with suppress(KeyboardInterrupt):
        threading.Event().wait()
    page.close()
