"""``run``, ``launch``, ``status``, ``node`` and ``demo``: taking part."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Annotated

import typer

from coordinator_free_launcher.cli_identity import AllowClipping, fail, read_plan
from network_dp.plan import PlanError

INTERRUPTED = 75
UNFINISHED = 5  # a user did not end well; a verdict has other codes

RunFolder = Annotated[Path, typer.Argument(metavar="DIR", help="A run's folder, made by `network-dp provision`.")]
Json = Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")]
Only = Annotated[list[str] | None, typer.Option(help="Start only this user (repeat for more).")]


def launch_command(
    folder: RunFolder,
    only: Only = None,
    detach: Annotated[bool, typer.Option(help="Leave once everybody serves; the users go on alone.")] = False,
    rejoin: Annotated[bool, typer.Option(help="Come back after a lost or old disk, as receiver only.")] = False,
    as_json: Json = False,
) -> None:
    """Start the users of DIR on this machine, each a process of its own, and wait for the result.

    Stopped (Ctrl-C) or crashed runs go on from where they were: launch again.
    """
    from rich.console import Console

    from coordinator_free_launcher import launch as launcher
    from coordinator_free_launcher.show import compared, progress_bar, show_own, show_result

    console = Console(stderr=as_json)
    try:
        plan = launcher.read_run(folder)
        names = launcher.local_users(folder, plan, only)
        if launcher.finished(folder, names):
            console.print(f"{folder}: this run is finished; its result is final at all {len(names)} users here.")
            result = launcher.best_result(launcher.results(folder, names))
            outcome = launcher.Outcome(dict.fromkeys(names, 0), result)
        elif detach:
            with progress_bar(plan.name, console) as show:
                pids = launcher.launch_detached(folder, only=only, rejoin=rejoin, show=show)
            text = f"{len(pids)} users serve; look with: network-dp status {folder}"
            typer.echo(json.dumps(pids) if as_json else text)
            return
        else:
            with progress_bar(plan.name, console) as show:
                outcome = launcher.launch(folder, only=only, rejoin=rejoin, show=show)
        comparison = compared(plan, outcome, folder)
    except (launcher.LaunchError, PlanError) as error:
        raise fail(error) from None
    if outcome.result is not None:
        if as_json:
            known = None if comparison is None else comparison.as_dict()
            typer.echo(json.dumps({"codes": outcome.codes, "result": outcome.result, "comparison": known}, indent=1))
        else:
            show_result(plan, outcome.result, comparison, console)
            show_own(launcher.results(folder, names), console)
    raise typer.Exit(_exit_code(folder, outcome, console))


def _exit_code(folder: Path, outcome: object, console: object) -> int:
    from rich.console import Console

    from coordinator_free_launcher.launch import Outcome, last_lines

    assert isinstance(outcome, Outcome) and isinstance(console, Console)
    if outcome.interrupted:
        console.print(f"Stopped. The token is safe on disk; go on with: network-dp launch {folder}")
        return INTERRUPTED
    failed = {name: code for name, code in outcome.codes.items() if code != 0}
    for name, code in list(failed.items())[:3]:
        console.print(f"{name} ended with code {code}. Its last lines:\n{last_lines(folder, name)}", markup=False)
    return UNFINISHED if failed else 0


def status_command(folder: RunFolder, as_json: Json = False) -> None:
    """Who is up, who holds a result, how far each user's own log goes."""
    from coordinator_free_launcher.launch import LaunchError
    from coordinator_free_launcher.status import read_status, show_status

    try:
        rows = read_status(folder)
    except (LaunchError, PlanError) as error:
        raise fail(error) from None
    if as_json:
        typer.echo(json.dumps(rows, indent=1))
    else:
        show_status(folder, rows)


def run_command(
    plan_file: Annotated[Path, typer.Argument(metavar="PLAN", help="The plan to run on this machine.")],
    out: Annotated[Path | None, typer.Option(help="New folder for the run (default: out/NAME-TIME).")] = None,
    data: Annotated[Path | None, typer.Option(help="Folder with one file per user; default: demo data.")] = None,
    allow_clipping: AllowClipping = False,
    keep_ports: Annotated[bool, typer.Option(help="Use the plan's ports instead of free ones.")] = False,
    as_json: Json = False,
) -> None:
    """Check, provision, launch, wait and analyze, all on this machine, in one go.

    Ends with the verdict's exit code (see `analyze`), with 5 if a user failed and with 75 if it was stopped.
    """
    from rich.console import Console

    from coordinator_free_launcher.identity import IdentityError
    from coordinator_free_launcher.launch import LaunchError
    from coordinator_free_launcher.local_run import run_locally
    from coordinator_free_launcher.provision import ProvisionError
    from coordinator_free_launcher.show import show_result

    console = Console(stderr=as_json)
    try:
        plan = read_plan(plan_file)
        folder = out or Path("out") / f"{plan.name}-{time.strftime('%Y%m%d-%H%M%S')}"
        done = run_locally(
            plan, folder, data=data, keep_ports=keep_ports, console=console, allow_clipping=allow_clipping
        )
    except (PlanError, ProvisionError, IdentityError, LaunchError) as error:
        raise fail(error) from None
    if as_json:
        typer.echo(json.dumps(done.as_dict(), indent=1))
    elif done.outcome.result is not None:
        show_result(done.plan, done.outcome.result, done.comparison, console)
        console.print(f"verdict: {done.verdict}; report: {done.report or '-'}; run: {folder}")
        if done.judgement.left_out:
            console.print(done.judgement.left_out, markup=False)
    raise typer.Exit(_exit_code(folder, done.outcome, console) or done.judgement.exit_code)


def node_command(
    bundle: Annotated[Path, typer.Argument(metavar="BUNDLE", help="The user's folder.")],
    rejoin: Annotated[bool, typer.Option(help="Come back after a lost or old disk, as receiver only.")] = False,
    crash_at: Annotated[
        str | None, typer.Option(metavar="EFFECT[:N]", help="Fault injection, insecure runs only.")
    ] = None,
) -> None:
    """Take part in a run as one user: one process, its own key, its own data.

    Exit codes: 0 the result is final; 2 bad plan, bundle or data; 3 old or lost disk; 4 too few users alive; 5 already
    running; 6 damaged journal; 75 stopped before the end (start again to go on).
    """
    from node.app import Options, run

    raise typer.Exit(run(bundle, Options(rejoin=rejoin, crash_at=crash_at)))


def demo_command(
    out: Annotated[Path, typer.Option(help="Folder for the three runs.")] = Path("demo-out"),
    as_json: Json = False,
) -> None:
    """Three real runs over real processes: a mean, a histogram and a model; then analyzed, with reports."""
    from coordinator_free_launcher.demo import demo

    raise typer.Exit(demo(out, as_json=as_json))


def register(app: typer.Typer) -> None:
    app.command("run")(run_command)
    app.command("launch")(launch_command)
    app.command("status")(status_command)
    app.command("node")(node_command)
    app.command("demo")(demo_command)
