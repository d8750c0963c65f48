"""``run``, ``launch``, ``status``, ``node`` and ``demo``: taking part."""

from __future__ import annotations

import json
import time
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from coordinator_free_launcher.cli.budget import Ledgers, ledgers_folder
from coordinator_free_launcher.cli.options import Json, PaceOption, Test, paced
from coordinator_free_launcher.cli.provision import AllowClipping, read_plan
from coordinator_free_launcher.cli.watch import Watch, open_page
from coordinator_free_launcher.start import INTERRUPTED
from network_dp.in_words import count

if TYPE_CHECKING:
    from rich.console import Console

    from coordinator_free_launcher.local.launch import Outcome

UNFINISHED = 5  # a user did not end well; a verdict has other codes

RunFolder = Annotated[Path, typer.Argument(metavar="DIR", help="A run's folder, made by `network-dp provision`.")]
Rejoin = Annotated[bool, typer.Option("--rejoin", help="Come back after a lost or old disk, as receiver only.")]
Only = Annotated[list[str] | None, typer.Option(help="Start only this user (repeat for more).")]


def launch_command(
    folder: RunFolder,
    only: Only = None,
    detach: Annotated[
        bool, typer.Option("--detach", help="Leave once everybody serves; the users go on alone.")
    ] = False,
    rejoin: Rejoin = False,
    pace: PaceOption = None,
    watch: Watch = False,
    as_json: Json = False,
) -> None:
    """Start the users of DIR on this machine, each a process of its own, and wait for the result.

    Stopped (Ctrl-C) or crashed runs go on from where they were: launch again.
    """
    from rich.console import Console

    from coordinator_free_launcher.cli.show import progress_bar, show_own, show_result
    from coordinator_free_launcher.local import launch as launcher
    from coordinator_free_launcher.local.comparison import compared

    console = Console(stderr=as_json)
    plan = launcher.read_run(folder)
    names = launcher.local_users(folder, plan, only)
    page = open_page(watch, console)
    if page is not None:
        page.opens(folder, only)
    if launcher.finished(folder, names):
        console.print(
            f"{folder}: this run is finished; its result is final at all of the {count(len(names), 'user')} here."
        )
        result = launcher.best_result(launcher.results(folder, names))
        outcome = launcher.Outcome(dict.fromkeys(names, 0), result)
    elif detach:
        with progress_bar(plan.name, console) as show:
            pids = launcher.launch_detached(folder, plan, only=only, rejoin=rejoin, show=show)
        text = f"{count(len(pids), 'user')} started; look with: network-dp status {folder}"
        typer.echo(json.dumps(pids) if as_json else text)
        return
    else:
        with progress_bar(plan.name, console) as show:
            outcome = launcher.launch(folder, only=only, rejoin=rejoin, pace=paced(pace), plan=plan, show=show)
    comparison = compared(plan, outcome, folder)
    if outcome.result is not None:
        if as_json:
            known = None if comparison is None else comparison.as_dict()
            typer.echo(json.dumps({"codes": outcome.codes, "result": outcome.result, "comparison": known}, indent=1))
        else:
            show_result(plan, outcome.result, comparison, console)
            show_own(launcher.results(folder, names), console)
    if page is not None:
        page.stay()
    raise typer.Exit(_exit_code(folder, outcome, console))


def stopped(folder: Path, console: Console) -> int:
    """After Ctrl-C: one line, and the exit code."""
    text = f"Stopped. The token is safe on disk; go on with: network-dp launch {folder}"
    console.print(text, highlight=False, markup=False, soft_wrap=not console.is_terminal)
    return INTERRUPTED


def _exit_code(folder: Path, outcome: Outcome, console: Console) -> int:
    from coordinator_free_launcher.local.launch import last_lines

    if outcome.interrupted:
        return stopped(folder, console)
    failed = {name: code for name, code in outcome.codes.items() if code != 0}
    for name, code in list(failed.items())[:3]:
        console.print(f"{name} ended with code {code}. Its last lines:\n{last_lines(folder, name)}", markup=False)
    return UNFINISHED if failed else 0


def status_command(folder: RunFolder, as_json: Json = False) -> None:
    """Who is running, who was killed or never started, who has the result, and how far each user has got."""
    from coordinator_free_launcher.local.status import read_status, show_status

    rows = read_status(folder)
    if as_json:
        typer.echo(json.dumps(rows, indent=1))
    else:
        show_status(folder, rows)


def run_command(
    plan_file: Annotated[Path, typer.Argument(metavar="PLAN", help="The plan to run on this machine.")],
    out: Annotated[Path | None, typer.Option(help="New folder for the run (default: out/NAME-TIME).")] = None,
    data: Annotated[Path | None, typer.Option(help="Folder with one file per user; default: demo data.")] = None,
    test: Test = None,
    allow_clipping: AllowClipping = False,
    keep_ports: Annotated[
        bool, typer.Option("--keep-ports", help="Use the plan's ports instead of free ones.")
    ] = False,
    ledgers: Ledgers = None,
    pace: PaceOption = None,
    watch: Watch = False,
    as_json: Json = False,
) -> None:
    """Check, provision, launch, wait and analyze, all on this machine, in one go.

    Ends with the verdict's exit code (see `analyze`), with 5 if a user failed and with 130 if it was stopped.
    """
    from rich.console import Console

    from coordinator_free_launcher.cli.accounting import prepare
    from coordinator_free_launcher.cli.show import progress_bar, show_result
    from coordinator_free_launcher.local.run import run_locally
    from coordinator_free_launcher.local.score import check_test, score_file

    console = Console(stderr=as_json)
    plan = read_plan(plan_file)
    prepare(plan)
    if test is not None:
        check_test(plan, test)
    real_data = data is not None or all(user.data is not None for user in plan.users)
    folder = out or Path("out") / f"{plan.name}-{time.strftime('%Y%m%d-%H%M%S')}"
    hops_per_second = paced(pace)
    page = open_page(watch, console)
    try:
        with progress_bar(plan.name, console) as show:
            done = run_locally(
                plan,
                folder,
                data=data,
                keep_ports=keep_ports,
                say=lambda text: console.print(text, markup=False, soft_wrap=not console.is_terminal),
                show=show,
                allow_clipping=allow_clipping,
                ledgers=ledgers_folder(ledgers, real_data=real_data),
                watcher=page,
                pace=hops_per_second,
            )
    except KeyboardInterrupt:
        if not (folder / "plan.toml").exists():
            raise
        raise typer.Exit(stopped(folder, console)) from None
    found = done.outcome.result or {}
    tested = None if test is None or not found else score_file(done.plan, found.get("value"), test)
    if as_json:
        known = {} if tested is None else {"test": asdict(tested)}
        typer.echo(json.dumps({**done.as_dict(), **known}, indent=1))
    elif done.outcome.result is not None:
        show_result(done.plan, done.outcome.result, done.comparison, console)
        if tested is not None:
            console.print(tested.sentence)
        said = f", the run {done.judgement.headline}" if done.judgement.headline else ""
        console.print(f"verdict: {done.verdict}{said}", highlight=False)
        console.print(f"report: {done.report or '-'}", highlight=False, soft_wrap=True)
        console.print(f"run: {folder}", highlight=False, soft_wrap=True)
        if done.judgement.left_out:
            console.print(done.judgement.left_out, markup=False)
    if page is not None:
        page.stay()
    raise typer.Exit(_exit_code(folder, done.outcome, console) or done.judgement.exit_code)


def node_command(
    bundle: Annotated[Path, typer.Argument(metavar="BUNDLE", help="The user's folder.")],
    rejoin: Rejoin = False,
    crash_at: Annotated[
        str | None, typer.Option(metavar="EFFECT[:N]", help="Fault injection, insecure runs only.")
    ] = None,
) -> None:
    """Take part in a run as one user: one process, its own key, its own data.

    Exit codes: 0 the result is final; 2 bad plan, bundle or data; 3 old or lost disk; 4 too few users alive; 5 already
    running; 6 damaged journal; 75 stopped before the end (start again to go on).
    """
    from coordinator_free_launcher.budget import charge_aside
    from node import environment

    environment.set_up()
    from node.app import Options, run  # not before: it loads gRPC

    raise typer.Exit(charge_aside(bundle) or run(bundle, Options(rejoin=rejoin, crash_at=crash_at)))


def demo_command(
    out: Annotated[Path, typer.Option(help="Folder for the runs.")] = Path("demo-out"),
    pace: PaceOption = None,
    watch: Watch = False,
    as_json: Json = False,
) -> None:
    """Real runs over real processes: a mean, a histogram, a model with its path known and hidden; with reports."""
    from rich.console import Console

    from coordinator_free_launcher.cli.show import progress_bar
    from coordinator_free_launcher.local.demo import demo

    console, hops_per_second = Console(stderr=as_json), paced(pace)
    page = open_page(watch, console)
    bar = partial(progress_bar, console=console)
    code = demo(out, as_json=as_json, watcher=page, bar=bar, pace=hops_per_second)
    if page is not None:
        page.stay()
    raise typer.Exit(code)
