"""``guarantee`` and ``statement``: numbers for other tools, and one page for people."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from network_dp.errors import AccountingError

if TYPE_CHECKING:
    from analyzer.run import Analysis
    from network_dp.accounting.guarantee import Guarantee
    from network_dp.plan import Plan

Source = Annotated[Path, typer.Argument(metavar="PLAN|RUN", help="A plan, or the folder of a finished run.")]
Out = Annotated[Path | None, typer.Option(help="File to write (default: standard output).")]
FORMS = ("json", "fdp", "renyi")


def guarantee_command(
    source: Source,
    form: Annotated[
        str, typer.Option("--as", help="json: profile and privacy-loss distribution; fdp: (alpha, beta) CSV; renyi.")
    ] = "json",
    pair: Annotated[
        str | None, typer.Option(help="USER,OBSERVER of a finished run: what this pair has come to, not the promise.")
    ] = None,
    interval: Annotated[float, typer.Option(min=1e-6, max=0.1, help="Grid of the privacy-loss distribution.")] = 1e-3,
    out: Out = None,
) -> None:
    """A plan's promise, or one pair of a run, for other tools: dp-accounting, OpenDP, f-DP, Renyi.

    From Python: `network_dp.accounting.interchange.to_dp_accounting` and `to_opendp`. Everything is an upper bound.
    Example: network-dp guarantee plan.toml --as fdp --out curve.csv
    """
    from network_dp.accounting import interchange

    if form not in FORMS:
        raise AccountingError(f"--as must be one of {', '.join(FORMS)}, got {form}")
    plan, analysis = _read(source)
    if form == "renyi":
        if pair is not None:
            raise AccountingError("--as renyi is for a plan's promise: leave --pair out")
        found = interchange.renyi(plan)
        if found is None:
            raise AccountingError("no Renyi moment of this plan is known; use --as json or --as fdp")
        text = json.dumps({"orders": list(found), "epsilons": list(found.values())}, indent=1)
    else:
        guarantee = _guarantee(plan, analysis, pair)
        plain = interchange.as_plain(guarantee, interval)
        text = interchange.trade_off_csv(guarantee) if form == "fdp" else json.dumps(plain)
    _write(text, out)


def statement_command(
    source: Source,
    as_json: Annotated[bool, typer.Option("--json", help="JSON instead of Markdown.")] = False,
    out: Out = None,
) -> None:
    """One page on what is protected, how, against whom, and what is not: for readers who are asked to take part.

    Answers the questions of NIST SP 800-226 from the plan and, for the folder of a run, from its verdict.
    """
    from network_dp import statement

    plan, analysis = _read(source)
    outcome = None
    if analysis is not None:
        worst = analysis.privacy.worst_epsilon
        outcome = statement.Outcome(analysis.status.value, worst if worst == worst else None)  # NaN: no number
    answers = statement.fields(plan, outcome)
    known = json.dumps(statement.as_dict(plan, answers), indent=1)
    _write(known if as_json else statement.as_markdown(plan, answers), out)


def _read(source: Path) -> tuple[Plan, Analysis | None]:
    """A plan, made final; or the plan of a run and what the analyzer finds in its logs."""
    if source.is_dir():
        from analyzer.analysis import analyze_runs

        analysis = analyze_runs([source]).runs[0]
        return analysis.run.plan, analysis
    from coordinator_free_launcher.cli.accounting import read_final

    return read_final(source), None


def _guarantee(plan: Plan, analysis: Analysis | None, pair: str | None) -> Guarantee:
    from network_dp.accounting.guarantee import of_plan
    from network_dp.accounting.interchange import of_exposure

    if pair is None:
        return of_plan(plan)
    names = pair.split(",")
    if analysis is None or analysis.privacy.exposure is None:
        raise AccountingError("--pair needs the folder of a finished run whose logs show who saw what")
    if len(names) != 2 or not set(names) <= set(plan.names) or names[0] == names[1]:
        raise AccountingError(f"--pair {pair}: give two users of the plan, USER,OBSERVER")
    user, observer = (plan.index(name) for name in names)
    return of_exposure(plan, float(analysis.privacy.exposure[user, observer]))


def _write(text: str, out: Path | None) -> None:
    if out is None:
        typer.echo(text.rstrip("\n"))
        return
    with out.open("x") as file:
        file.write(text if text.endswith("\n") else f"{text}\n")
    typer.echo(f"{out} written", err=True)
