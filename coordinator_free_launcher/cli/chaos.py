"""``chaos``: watch a run survive."""

from __future__ import annotations

import json
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from coordinator_free_launcher.cli.options import finite, rate
from coordinator_free_launcher.cli.run import UNFINISHED, stopped
from coordinator_free_launcher.cli.watch import LivePage, Watch, open_page

if TYPE_CHECKING:
    from rich.console import Console, Group

    from coordinator_free_launcher.local.chaos import Chaos, ChaosCounts, Picture
    from coordinator_free_launcher.local.run import Judgement

_LOOKS = {"up": "green", "down": "red", "paused": "yellow", "ended": "blue"}
USERS_SHOWN = 200
BAR_WIDTH = 60
REFRESH_PER_SECOND = 8


def chaos_command(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="A run's folder, made by `network-dp provision`.")],
    kill: Annotated[str, typer.Option(metavar="RATE", help="Kills per second, over all users.")] = "0.1/s",
    pause: Annotated[str, typer.Option(metavar="RATE", help="Pauses per second, over all users.")] = "0.05/s",
    seconds: Annotated[
        float, typer.Option(min=0.0, max=86400.0, callback=finite, help="How long the trouble lasts.")
    ] = 60.0,
    timeout_s: Annotated[
        float, typer.Option(min=1.0, max=86400.0, callback=finite, help="Seconds to finish in afterwards.")
    ] = 600.0,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the schedule of faults.")] = 1,
    watch: Watch = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of a picture.")] = False,
) -> None:
    """Start (or go on with) the users of DIR, kill and freeze random ones for a while, then let the run finish.

    Ends with the verdict's exit code (see `analyze`), or with 5 if not everybody has the same result.
    """
    from rich.console import Console

    from coordinator_free_launcher.local.chaos import Chaos, Rates
    from coordinator_free_launcher.local.launch import LaunchError, finished, local_users, read_run
    from coordinator_free_launcher.local.run import Judgement, judge

    console = Console(stderr=as_json)
    rates = Rates(rate(kill), rate(pause))
    try:
        if finished(folder, local_users(folder, read_run(folder), None)):
            raise LaunchError(f"{folder}: this run is finished already; provision a new one to disturb")
        chaos = Chaos(folder, rates, seconds, seed)
        page = open_page(watch, console)
        if page is not None:
            page.disturbs(folder, chaos)
        tally = _run(chaos, timeout_s, console, page, live=not as_json)
    except KeyboardInterrupt:
        raise typer.Exit(stopped(folder, console)) from None
    found = judge(folder) if tally.result is not None else Judgement("UNKNOWN")
    ended = tally.finished and tally.identical
    good = ended and found.exit_code == 0
    if as_json:
        typer.echo(json.dumps(_as_dict(tally, found, ok=good), indent=1))
    else:
        _conclude(console, folder, chaos, tally, found)
    if page is not None:
        page.judged(found)
        page.stay()
    raise typer.Exit(found.exit_code if ended else UNFINISHED)


def _run(chaos: Chaos, patience_s: float, console: Console, page: LivePage | None, *, live: bool) -> ChaosCounts:
    from rich.live import Live

    with Live(console=console, refresh_per_second=REFRESH_PER_SECOND, transient=True) if live else nullcontext() as on:

        def show(picture: Picture) -> None:
            if on is not None:
                on.update(draw(picture))
            if page is not None:
                page.shows(picture)

        return chaos.go(show, patience_s)


def draw(picture: Picture) -> Group:
    """Users as coloured names, how far the walk is, and what happened last."""
    from rich.columns import Columns
    from rich.console import Group
    from rich.panel import Panel
    from rich.text import Text

    shown = list(picture.users.items())[:USERS_SHOWN]
    users = [Text(name, style=_LOOKS[status]) for name, status in shown]
    counts = ", ".join(f"{list(picture.users.values()).count(look)} {look}" for look in _LOOKS)
    head = Text(f"step {picture.step} of {picture.total}; {counts}; {picture.left_s:.0f} s of trouble left")
    full = round(BAR_WIDTH * max(0, picture.step) / max(1, picture.total))
    bar = Text("━" * full, style="green") + Text("━" * (BAR_WIDTH - full), style="dim")  # a whole line of its own
    events = Panel(Text("\n".join(picture.events) or "nothing yet"), title="events")
    return Group(head, bar, Columns(users, padding=(0, 1)), events)


def _as_dict(tally: ChaosCounts, found: Judgement, *, ok: bool) -> dict[str, Any]:
    return {
        "ok": ok,
        "kills": tally.kills,
        "pauses": tally.pauses,
        "finished": tally.finished,
        "identical": tally.identical,
        "codes": tally.failed,
        "verdict": found.verdict,
        "left_out": found.left_out,
        "result": tally.result,
    }


def _conclude(console: Console, folder: Path, chaos: Chaos, tally: ChaosCounts, found: Judgement) -> None:
    from coordinator_free_launcher.cli.show import show_result
    from coordinator_free_launcher.local.comparison import compared
    from coordinator_free_launcher.local.launch import Outcome
    from network_dp.in_words import count

    if tally.result is not None:
        known = compared(chaos.plan, Outcome(result=tally.result), folder)
        show_result(chaos.plan, tally.result, known, console)
    same = "the same result everywhere" if tally.finished and tally.identical else "NOT finished at everybody"
    console.print(
        f"{count(tally.kills, 'kill')}, {count(tally.pauses, 'pause')}; {same}; verdict: {found.verdict}",
        highlight=False,
    )
    if found.left_out:
        console.print(found.left_out, highlight=False, markup=False)
    if not tally.finished:
        console.print(f"The token is safe on disk; go on with: network-dp launch {folder}", highlight=False)
