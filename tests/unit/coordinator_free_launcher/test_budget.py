"""What counts against a budget: the charge, or what the run really showed where that was more; never less."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from benchmarks.generated_logs import Faults, plan_text, write_run
from coordinator_free_launcher.budget import CHARGE, charge_all, spent
from coordinator_free_launcher.cli.app import app
from coordinator_free_launcher.identity.bundle import user_folder, write_node_file
from coordinator_free_launcher.local.run import judge
from network_dp import ledger
from network_dp.accounting import gaussian, guarantee
from network_dp.ledger import Charge, Ledger, LedgerError, Walked
from network_dp.plan import Plan
from network_dp.plan_reader import load, parse
from network_dp.promise import DISCRETE_INFLATION
from tests.unit.analyzer.hidden_run import HiddenRun, values

DELTA = 1e-6
GRID = "\ngrid = 0.0009765625"
RINGS = {
    "gaussian": ('kind = "sum"', "sigma = 2.0\nreissues = 0" + GRID),
    "laplace": ('kind = "sum"', 'mechanism = "laplace"\nscale = 2.0\nreissues = 0' + GRID),
    "rr": ('kind = "histogram"\nbuckets = 4', "gamma = 0.5\nreissues = 0"),
}
LOST = Faults(lose_at=3, lose_after=1)  # nothing is reserved for it


def gaussian_charge(mu2: float, run: str = "run-1") -> Charge:
    curve = guarantee.of_gaussian(math.sqrt(mu2), 1e-10)
    points = zip(curve.epsilons.tolist(), (curve.deltas * DISCRETE_INFLATION).tolist(), strict=True)
    return Charge("p" * 64, run, "a run", "exact", mu2, tuple(points))


def curve_charge(mu: float, run: str = "run-1") -> Charge:
    return replace(gaussian_charge(mu * mu, run), mu2=None)


def walked(mu: float, run: str = "run-1", *, is_gaussian: bool = True) -> Walked:
    return Walked(run, gaussian.epsilon(mu, DELTA / DISCRETE_INFLATION), DELTA, is_gaussian)


# ---- what a run counts as --------------------------------------------------------------------------------------------


def test_gaussian_runs_that_showed_more_add_what_they_showed() -> None:
    book = Ledger((gaussian_charge(0.25), gaussian_charge(0.25, "run-2"), walked(0.8)))
    exact = gaussian.epsilon(math.sqrt(0.25 + 0.64), DELTA)
    assert exact <= spent(book, DELTA) == pytest.approx(exact, rel=1e-4)
    assert spent(book, 1e-9) >= gaussian.epsilon(math.sqrt(0.25 + 0.64), 1e-9)


@pytest.mark.parametrize("shown", [0.0, 0.3, 0.5])
@pytest.mark.parametrize("charge", [gaussian_charge(0.25), curve_charge(0.5)], ids=["gaussian", "curve"])
@pytest.mark.parametrize("is_gaussian", [True, False])
def test_what_was_shown_within_the_charge_changes_nothing(charge: Charge, shown: float, is_gaussian: bool) -> None:
    for delta in (1e-3, DELTA, 1e-8):
        book = Ledger((charge,))
        assert spent(book.plus(walked(shown, is_gaussian=is_gaussian)), delta) == spent(book, delta)


def test_a_curve_that_was_exceeded_counts_as_the_higher_of_both() -> None:
    charge = curve_charge(0.5)
    heavy = replace(charge, points=tuple((epsilon, max(delta, 2e-8)) for epsilon, delta in charge.points))
    book = Ledger((heavy, walked(0.8)))
    exact = gaussian.epsilon(0.8, DELTA)
    assert exact <= spent(book, DELTA) <= exact * 1.001
    assert spent(book, 1e-8) == math.inf  # where the charge has no guarantee, what was shown gives none
    two = Ledger((heavy, walked(0.8), curve_charge(0.5, "run-2")))
    assert gaussian.epsilon(math.sqrt(0.89), DELTA) <= spent(two, DELTA) < math.inf


def test_what_is_no_gaussian_counts_as_its_point_alone() -> None:
    book = Ledger((curve_charge(0.5), walked(0.8, is_gaussian=False)))
    found = walked(0.8).epsilon
    assert found is not None and spent(book, DELTA) == found
    assert spent(book, DELTA / 2) == math.inf
    two = book.plus(curve_charge(0.1, "run-2"))
    assert spent(two, DELTA) == math.inf and found < spent(two, 3 * DELTA) < math.inf
    assert spent(Ledger((curve_charge(0.5), Walked("run-1", None, DELTA))), DELTA) == math.inf


def test_a_point_has_the_curve_of_the_worst_mechanism_with_it() -> None:
    """The worst one shows everything with probability delta, and else is randomised response."""
    epsilon, delta = 1.5, 1e-3
    found = guarantee.of_run(curve_charge(0.1), Walked("run-1", epsilon, delta))
    high = (1 - delta) / (1 + math.exp(-epsilon))
    for at in (0.0, 0.4, 1.0, 1.5):
        exact = delta + max(high - math.exp(at) * (1 - delta - high), 0.0)
        assert found.delta(at) == pytest.approx(exact, rel=1e-9)


# ---- charges that contradict themselves ------------------------------------------------------------------------------


@pytest.mark.parametrize("mu2", [1e-12, 0.2499, 0.2501])
def test_a_charge_with_the_points_of_another_mu_is_refused(mu2: float) -> None:
    assert guarantee.of_charge(gaussian_charge(0.25)).mu2 == 0.25
    with pytest.raises(LedgerError, match="contradicts itself"):
        guarantee.of_charge(replace(gaussian_charge(0.25), mu2=mu2))


def test_a_charge_without_points_is_no_gaussian() -> None:
    with pytest.raises(LedgerError, match="contradicts itself"):
        guarantee.of_charge(replace(gaussian_charge(0.25), mu2=0.0, points=()))
    empty = np.zeros(0)
    assert guarantee.composed_epsilon([guarantee.Guarantee(empty, empty, 0.0)], DELTA) == math.inf


def test_no_ledger_ever_holds_a_charge_that_contradicts_itself(tmp_path: Path) -> None:
    plan = generated(tmp_path, "gaussian", Faults())
    name = plan.names[1]
    bundle = user_folder(tmp_path, name)
    ledger.write_charge(bundle / CHARGE, replace(guarantee.charge_of(plan), mu2=1e-12))
    with pytest.raises(LedgerError, match="contradicts itself"):
        charge_all(plan, {other: user_folder(tmp_path, other) for other in plan.names})
    assert not list(tmp_path.rglob(ledger.FILE))  # without a budget too, and for nobody


# ---- after a run -----------------------------------------------------------------------------------------------------


def with_ledgers(folder: Path, plan: Plan) -> Plan:
    for name in plan.names:
        bundle = user_folder(folder, name)
        write_node_file(bundle, name, None, None, ledger=folder / "kept" / name / ledger.FILE)
        ledger.write_charge(bundle / CHARGE, guarantee.charge_of(plan))
    return plan


def generated(folder: Path, mechanism: str, faults: Faults) -> Plan:
    task, noise = RINGS[mechanism]
    write_run(folder, plan_text("ring", 3, 2, task, noise), 1, faults)
    return with_ledgers(folder, load(folder / "plan.toml"))


def books(folder: Path, plan: Plan) -> list[Ledger]:
    return [ledger.read(folder / "kept" / name / ledger.FILE) for name in plan.names]


def before_and_after(folder: Path, plan: Plan) -> tuple[float, list[float], float]:
    """What everybody had spent before the analysis, and each after it; and the analyzer's worst number."""
    charge_all(plan, {name: user_folder(folder, name) for name in plan.names})
    before = spent(books(folder, plan)[0], plan.noise.delta)
    worst = judge(folder).worst_epsilon
    assert worst is not None
    return before, [spent(book, plan.noise.delta) for book in books(folder, plan)], worst


@pytest.mark.parametrize("mechanism", RINGS)
def test_a_run_that_overspent_is_debited(tmp_path: Path, mechanism: str) -> None:
    plan = generated(tmp_path, mechanism, LOST)
    before, after, worst = before_and_after(tmp_path, plan)
    assert worst > before and max(after) == pytest.approx(worst, rel=1e-4)
    assert all(value >= before for value in after)
    whose = after.index(max(after))
    path = tmp_path / "kept" / plan.names[whose] / ledger.FILE
    shown = CliRunner().invoke(
        app, ["budget", "show", "--ledger", str(path), "--delta", f"{plan.noise.delta}", "--json"]
    )
    (row,) = json.loads(shown.stdout)["runs"]
    assert row["counted_epsilon"] == pytest.approx(worst, rel=1e-4) and row["charged_epsilon"] < row["counted_epsilon"]


@pytest.mark.parametrize("mechanism", RINGS)
def test_a_run_that_kept_its_promise_costs_its_charge(tmp_path: Path, mechanism: str) -> None:
    before, after, _ = before_and_after(tmp_path, generated(tmp_path, mechanism, Faults()))
    assert after == [before] * 3


@pytest.mark.parametrize("walk", ['path = "hidden"\nsteps = 12', 'protocol = "masked_sum"'], ids=["hidden", "masked"])
def test_anonymous_rounds_note_what_they_cost_too(tmp_path: Path, walk: str) -> None:
    users = "".join(f'[[users]]\nname = "u{i}"\naddress = "127.0.0.1:{7000 + i}"\n' for i in range(6))
    task = '[task]\nkind = "mean"\nlower = 0.0\nupper = 1.0\n'
    run = HiddenRun(
        parse(f'[walk]\ntopology = "complete"\n{walk}\n{task}[noise]\nsigma = 2.0{GRID}\n{users}'), values(6)
    )
    run.run()
    plan = with_ledgers(run.write(tmp_path), run.plan)
    before, after, worst = before_and_after(tmp_path, plan)
    assert after == [before] * 6
    for book in books(tmp_path, plan):
        note = book.walked(plan.run_id)
        assert note == Walked(plan.run_id, worst, plan.noise.delta, gaussian="masked" in walk)
