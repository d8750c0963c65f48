"""``chaos``: watch a run survive."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from coordinator_free_launcher.cli_identity import fail
from coordinator_free_launcher.cli_run import INTERRUPTED, UNFINISHED

if TYPE_CHECKING:
    from rich.console import Console, Group

    from coordinator_free_launcher.chaos import Chaos, ChaosCounts, Picture
    from coordinator_free_launcher.local_run import Judgement

_RATE = re.compile(r"(\d+(?:\.\d+)?|\.\d+)(?:/s)?")
_LOOKS = {"up": "green", "down": "red", "paused": "yellow", "ended": "blue"}
USERS_SHOWN = 200
REFRESH_PER_SECOND = 8
MAX_RATE = 100.0


def rate(text: str) -> float:
    """``0.1/s`` or ``0.1``: events a second."""
    found = _RATE.fullmatch(text.strip())
    if found is None or float(found[1]) > MAX_RATE:
        raise typer.BadParameter(f'"{text}": must be a rate like 0.1/s, at most {MAX_RATE:g}/s')
    return float(found[1])


def chaos_command(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="A run's folder, made by `network-dp provision`.")],
    kill: Annotated[str, typer.Option(metavar="RATE", help="Kills a second, over all users.")] = "0.1/s",
    pause: Annotated[str, typer.Option(metavar="RATE", help="Pauses a second, over all users.")] = "0.05/s",
    seconds: Annotated[float, typer.Option(min=0.0, max=86400.0, help="How long the trouble lasts.")] = 60.0,
    patience: Annotated[float, typer.Option(min=1.0, max=86400.0, help="Seconds to finish in afterwards.")] = 600.0,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the schedule of faults.")] = 1,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of a picture.")] = False,
) -> None:
    """Start (or go on with) the users of DIR, kill and freeze random ones for a while, then let the run finish.

    Ends with the verdict's exit code (see `analyze`), or with 5 if not everybody has the same result.
    """
    from rich.console import Console

    from coordinator_free_launcher.chaos import Chaos, Rates
    from coordinator_free_launcher.launch import LaunchError, finished, local_users, read_run
    from coordinator_free_launcher.local_run import Judgement, judge
    from network_dp.plan import PlanError

    console = Console(stderr=as_json)
    rates = Rates(rate(kill), rate(pause))
    try:
        if finished(folder, local_users(folder, read_run(folder), None)):
            raise LaunchError(f"{folder}: this run is finished already; provision a new one to disturb")
        chaos = Chaos(folder, rates, seconds, seed)
        tally = _run(chaos, patience, console, live=not as_json)
    except (LaunchError, PlanError) as error:
        raise fail(error) from None
    except KeyboardInterrupt:
        console.print(f"Stopped. The token is safe on disk; go on with: network-dp launch {folder}", highlight=False)
        raise typer.Exit(INTERRUPTED) from None
    found = judge(folder) if tally.result is not None else Judgement("UNKNOWN")
    ended = tally.finished and tally.identical
    good = ended and found.exit_code == 0
    if as_json:
        typer.echo(json.dumps(_as_dict(tally, found, ok=good), indent=1))
    else:
        _conclude(console, folder, chaos, tally, found)
    raise typer.Exit(found.exit_code if ended else UNFINISHED)


def _run(chaos: Chaos, patience_s: float, console: Console, *, live: bool) -> ChaosCounts:
    from rich.live import Live

    if not live:
        return chaos.go(lambda picture: None, patience_s)
    with Live(console=console, refresh_per_second=REFRESH_PER_SECOND, transient=True) as screen:
        return chaos.go(lambda picture: screen.update(draw(picture)), patience_s)


def draw(picture: Picture) -> Group:
    """Users as coloured names, how far the walk is, and what happened last."""
    from rich.columns import Columns
    from rich.console import Group
    from rich.panel import Panel
    from rich.progress_bar import ProgressBar
    from rich.text import Text

    shown = list(picture.users.items())[:USERS_SHOWN]
    users = [Text(name, style=_LOOKS[standing]) for name, standing in shown]
    counts = ", ".join(f"{list(picture.users.values()).count(look)} {look}" for look in _LOOKS)
    head = Text(f"step {picture.step} of {picture.total}; {counts}; {picture.left_s:.0f} s of trouble left")
    bar = ProgressBar(total=picture.total, completed=max(0, picture.step), width=60)
    events = Panel("\n".join(picture.events) or "nothing yet", title="events")
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
    from coordinator_free_launcher.show import show_result

    if tally.result is not None:
        show_result(chaos.plan, tally.result, None, console)
    same = "the same result everywhere" if tally.finished and tally.identical else "NOT finished at everybody"
    console.print(f"{tally.kills} kills, {tally.pauses} pauses; {same}; verdict: {found.verdict}", highlight=False)
    if found.left_out:
        console.print(found.left_out, highlight=False, markup=False)
    if not tally.finished:
        console.print(f"The token is safe on disk; go on with: network-dp launch {folder}", highlight=False)


def register(app: typer.Typer) -> None:
    app.command("chaos")(chaos_command)
