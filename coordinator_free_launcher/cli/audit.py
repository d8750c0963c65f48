"""``audit``: attacks on simulated runs, and on real ones."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from coordinator_free_launcher.cli.options import finite, refuse_idle
from coordinator_free_launcher.cli.say import bar

if TYPE_CHECKING:
    from coordinator_free_launcher.local.audit import RealAudit


def audit(
    algorithm: Annotated[str, typer.Argument(help="ring_sum, complete_sum, complete_sgd, ring_histogram")] = "ring_sum",
    real: Annotated[
        bool, typer.Option("--real", help="Attack real runs: processes, view logs (the first two).")
    ] = False,
    users: Annotated[int, typer.Option(min=2, max=1000, help="Users.")] = 8,
    length: Annotated[
        int | None,
        typer.Option(min=1, max=1000, help="Rounds of a ring, or steps per user of the complete graph (3; --real: 1)."),
    ] = None,
    sigma: Annotated[
        float | None,
        typer.Option(callback=finite, help="Standard deviation of one full noise; sensitivity is 1 (3; --real: 1)."),
    ] = None,
    gamma: Annotated[
        float | None, typer.Option(callback=finite, help="ring_histogram: probability of a uniform answer (0.5).")
    ] = None,
    delta: Annotated[
        float | None,
        typer.Option(callback=finite, help="Large on purpose, or no number of runs suffices (0.05; --real: 0.2)."),
    ] = None,
    runs: Annotated[
        int | None, typer.Option(min=1, max=10_000_000, help="Runs (200000 simulated; --real: 50).")
    ] = None,
    bug: Annotated[
        str,
        typer.Option(
            help="Plant a bug: half_noise, no_closing_noise, no_initial_elements; --real: half_noise, redrawn_noise, "
            "skipped_duty, in runs marked INSECURE."
        ),
    ] = "none",
    resends: Annotated[bool, typer.Option("--resends", help="--real: the observer has tokens sent again.")] = False,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the simulation.")] = 0,
    out: Annotated[Path | None, typer.Option(help="--real: new folder to keep the runs in.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of a sentence.")] = False,
) -> None:
    """Does the claim hold? Attack many runs; exit code 1 if an attack beats the claimed epsilon.

    One user's data is put at its two extremes (--real: every user's, by coin), the worst-placed observer guesses
    which. What it achieves is a lower bound on epsilon that must stay below the claim; --bug half_noise shows that a
    broken run is caught.
    """
    if algorithm != "ring_histogram":
        refuse_idle({"--gamma": gamma}, "ring_histogram")
    if not real:
        refuse_idle({"--out": out, "--resends": resends}, "real runs: give --real")
    given = {"length": length, "sigma": sigma, "delta": delta, "n_runs": runs}
    more: dict[str, Any] = {
        "n_users": users,
        "bug": bug,
        **{key: value for key, value in given.items() if value is not None},
    }
    if real:
        result = _attack_real_runs(algorithm, out, resends=resends, **more)
        passed, values, said = result.passed, vars(result), _sentence(result)
    else:
        from network_dp import audit as auditor

        more = {"n_runs": 200_000, "gamma": 0.5 if gamma is None else gamma, "seed": seed, **more}
        simulated = auditor.run(algorithm, **more)  # type: ignore[arg-type]  # it checks
        passed, values = simulated.passed, vars(simulated)
        said = (
            f"epsilon is at least {simulated.lower:.3f} (confidence {simulated.confidence:g}, "
            f"{simulated.n_runs} runs), claimed {simulated.claimed:.3f} at delta = {simulated.delta:g}"
        )
    verdict = "PASS" if passed else "FAIL"
    typer.echo(json.dumps({"verdict": verdict, **values}) if as_json else f"{verdict}: {said}")
    if not passed:
        raise typer.Exit(1)


def _attack_real_runs(
    algorithm: str, out: Path | None, n_runs: int = 50, delta: float = 0.2, **given: Any
) -> RealAudit:
    from coordinator_free_launcher.local.audit import Attacked, run
    from network_dp.errors import require

    require(out is None or not out.exists(), f"{out} exists: give a new folder")
    attacked = Attacked(algorithm, **given)  # type: ignore[arg-type]  # it checks
    with tempfile.TemporaryDirectory(prefix="network-dp-audit-") as scratch, bar("real runs", n_runs) as show:
        return run(attacked, Path(scratch) if out is None else out, n_runs=n_runs, delta=delta, show=show)


def _sentence(result: RealAudit) -> str:
    return (
        f"epsilon is at least {result.clopper_pearson:.3f} at delta = {result.delta:g}, claimed {result.claimed:.3f}; "
        f"and at least {result.one_run:.3f} at delta = {result.one_run_delta:g}, claimed {result.one_run_claimed:.3f} "
        f"(Clopper-Pearson; in one run; confidence {result.confidence:g}, {result.n_runs} real runs, "
        f"{result.n_canaries} canaries)"
    )
