"""``network-dp simulate``: the protocol under seeded disasters, in one process and virtual time."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated

import typer

from coordinator_free_launcher.cli.options import finite

if TYPE_CHECKING:
    from simulator.faults.runner import RunCounts

SCHEDULES = 2000
PROTOCOLS = ("walk", "rounds")
SHOWN = 10

simulations = typer.Typer(help="Simulate runs in one process, with virtual time.", no_args_is_help=True)


@simulations.command("faults")
def faults(
    seed: Annotated[int | None, typer.Option(min=0, help="Replay one schedule.")] = None,
    first: Annotated[int, typer.Option(min=0, help="Seed of the first schedule.")] = 0,
    schedules: Annotated[int | None, typer.Option(min=1, help=f"How many schedules; default {SCHEDULES}.")] = None,
    seconds: Annotated[
        float | None, typer.Option(min=0.1, callback=finite, help="Run for this many seconds instead.")
    ] = None,
    jobs: Annotated[int, typer.Option(min=0, max=1024, help="Processes; 0: one per core (rounds: always one).")] = 0,
    trace: Annotated[bool, typer.Option("--trace", help="With --seed: tell everything that happens.")] = False,
    protocol: Annotated[str, typer.Option(help="walk (a known path) or rounds (a hidden one).")] = "walk",
    as_json: Annotated[bool, typer.Option("--json", help="Print the summary as JSON.")] = False,
) -> None:
    """Crash, lose, delay, split and restart by the thousand, and check every invariant after every step."""
    from simulator.faults.runner import run_seed

    if protocol not in PROTOCOLS:
        raise typer.BadParameter(f"--protocol {protocol}: must be {' or '.join(PROTOCOLS)}")
    if trace and seed is None:
        raise typer.BadParameter("--trace needs --seed")
    say = typer.echo if trace else None
    count = SCHEDULES if schedules is None and seconds is None else schedules
    if protocol != PROTOCOLS[0]:
        _rounds(first if seed is None else seed, 1 if seed is not None else count, seconds, as_json, say)
        return

    started = time.monotonic()
    if seed is not None:
        tally = run_seed(seed, say)
    else:
        tally = _run_many(first, count, seconds, jobs or os.cpu_count() or 1, quiet=as_json)
    _report(tally, time.monotonic() - started, as_json)
    if tally.failures or not tally.law_holds:
        raise typer.Exit(1)


def _rounds(
    first: int, schedules: int | None, seconds: float | None, as_json: bool, say: Callable[[str], None] | None
) -> None:
    """Hidden walks, in this process."""
    from rich.progress import Progress

    from simulator.rounds.runner import run_many

    with Progress(disable=as_json) as bar:
        task = bar.add_task("schedules", total=schedules)
        done, events, failures = run_many(first, schedules, seconds, lambda n: bar.update(task, completed=n), say)
    if as_json:
        found = [{"seed": seed, "what": what} for seed, what in failures]
        typer.echo(json.dumps({"schedules": done, "events": events, "failures": found}))
    else:
        for seed, what in failures[:SHOWN]:
            again = f"network-dp simulate faults --protocol rounds --seed {seed} --trace"
            typer.echo(f"seed {seed}: {what}\n  replay: {again}")
        verdict = "every invariant held" if not failures else f"{len(failures)} FAILED"
        typer.echo(f"{done} schedules, {events} events: {verdict}")
    if failures:
        raise typer.Exit(1)


def _run_many(first: int, schedules: int | None, seconds: float | None, jobs: int, *, quiet: bool) -> RunCounts:
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    from simulator.faults.runner import run_many

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, disable=quiet) as bar:
        task = bar.add_task("schedules", total=schedules)

        def progress(tally: RunCounts) -> None:
            text = f"schedules, {len(tally.failures)} failed" if tally.failures else "schedules"
            bar.update(task, completed=tally.schedules, description=text)

        return run_many(first, schedules, seconds, jobs, progress)


def _report(tally: RunCounts, elapsed_s: float, as_json: bool) -> None:
    rate = tally.schedules / elapsed_s * 60 if elapsed_s > 0 else 0.0
    if as_json:
        summary = {
            "schedules": tally.schedules,
            "events": tally.events,
            "per_minute": round(rate),
            "law_p_value": tally.law_p_value,
            "failures": [{"seed": failure.seed, "what": failure.what} for failure in tally.failures],
        }
        typer.echo(json.dumps(summary))
        return
    for failure in tally.failures[:SHOWN]:
        typer.echo(f"seed {failure.seed}: {failure.what}\n  {failure.schedule}")
        typer.echo(f"  replay: network-dp simulate faults --seed {failure.seed} --trace")
    if not tally.law_holds:
        typer.echo(f"the next user is not uniform over the live: p = {tally.law_p_value:.1e}")
    verdict = "every invariant held" if not tally.failures else f"{len(tally.failures)} FAILED"
    typer.echo(f"{tally.schedules} schedules, {tally.events} events, {rate:.0f} per minute: {verdict}")
