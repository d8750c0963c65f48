"""How good is the result: its error against what noise and sampling explain (THEORY.md#estimates, #debiasing).

Two references. The logs' own contributions (full logs): what is left is noise alone. Or the truth, if it is given: then
the walk's sampling error belongs to the bound as well. Tolerances are rigorous: Gaussian tails for noise,
Hoeffding's inequality for whatever is bounded.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.stats import norm

from analyzer.checks.integrity import Run
from analyzer.errors import InputError
from analyzer.read.tables import Floats
from analyzer.read.truth import Truth
from analyzer.reconstruct.exposures import walking_rows
from analyzer.verdict import FALSE_ALARM, Check, Status
from network_dp.expected import expected_error
from network_dp.losses import grader
from network_dp.plan import Plan
from network_dp.utility import histogram_std


@dataclass(frozen=True, slots=True)
class Utility:
    """The estimate, its expected standard deviation per coordinate, and the error where a reference is known."""

    what: str = ""
    estimate: tuple[float, ...] | None = None
    noise_std: float | None = None
    noise_count: float | None = None
    sampling_std: float | None = None
    noise_error: tuple[float, ...] | None = None
    truth: tuple[float, ...] | None = None
    truth_error: float | None = None
    truth_tolerance: float | None = None
    remark: str | None = None  # on an estimate outside the public bounds
    learning: tuple[tuple[int, float, float], ...] = ()  # SGD with a test set: (step, loss, accuracy)
    reference_accuracy: float | None = None  # of a model of the same data without privacy
    guess_accuracy: float | None = None  # of guessing the more common label of the test set


def _count(run: Run) -> int:
    """Contributions in the result: as published, else as walked."""
    published = run.logs.result_contributions
    if published is not None:
        return int(published)
    return int(np.count_nonzero(run.lineage.sents["real"][run.lineage.accepted]))


def _cover(run: Run) -> int:
    return int(run.lineage.sents["cover"][run.lineage.accepted].sum())


def _factor(plan: Plan) -> float:
    """From the mean over contributions to what the task estimates: sums are n times the mean."""
    return plan.topology.correction * (1.0 if plan.task.per_user else float(plan.n))


def _estimate(run: Run, value: Sequence[float], count: int) -> Floats:
    plan, token = run.plan, np.array(value, dtype=np.float64)
    if not plan.mechanism.additive:
        gamma = plan.noise.gamma or 0.0
        size = len(token)
        token = (token - (gamma * count + _cover(run)) / size) / (1 - gamma)
    return token / count * _factor(plan)


def _noise_std(run: Run, count: int) -> tuple[float, float]:
    """(std per coordinate of the estimate, full noises in it)."""
    plan = run.plan
    full = float(run.lineage.sents["units"][run.lineage.accepted].sum()) / plan.unit_count
    scale = _factor(plan) / count
    if not plan.mechanism.additive:
        return histogram_std(count, plan.task.dimension, plan.mechanism.size, _cover(run)) * scale, float(count)
    return math.sqrt(full) * plan.mechanism.std_per_size * plan.mechanism.size * scale, full


def _tolerance(run: Run, noise_std: float, count: int) -> float:
    """Largest error an honest run shows, but for FALSE_ALARM, over all coordinates."""
    plan = run.plan
    asked = 2 * plan.task.dimension / FALSE_ALARM
    if not plan.mechanism.additive:
        gamma, total = plan.noise.gamma or 0.0, count + _cover(run)
        noise = math.sqrt(total * math.log(2 * asked) / 2) / ((1 - gamma) * count)
    elif plan.mechanism.pure:
        noise = noise_std * math.sqrt(2) * math.log(2 * asked)  # a sum of Laplace draws has no heavier tail
    else:
        noise = noise_std * float(norm.isf(1 / (2 * asked)))
    sampling = _sampling(run, count, 2 * asked)
    return noise + (_factor(plan) * plan.task.width * sampling if sampling else 0.0)


def _sampling(run: Run, count: int, asked: float) -> float:
    """How far the users' shares in the result may bend the mean, for values of width 1.

    Whatever the shares, by their distance from 1/n each; on an undisturbed uniform walk without caps, by Hoeffding's
    inequality if that is less. On an undisturbed ring the shares are equal. Where visits count for less than 1 the
    shares need not add up to 1: then a bound of the values enters, not their width.
    """
    plan, lineage, topology = run.plan, run.lineage, run.plan.topology
    given = lineage.sents["user"][lineage.accepted][lineage.sents["real"][lineage.accepted]]
    counted = np.array([part / whole for part, whole in map(topology.share, range(plan.n))])
    shares = np.bincount(given, minlength=plan.n) * counted * topology.correction / max(1, len(given))
    if topology.correction != 1.0:
        bound = plan.task.coordinate_bound / plan.task.width
        return float(np.abs(shares - 1 / plan.n).sum()) * bound / topology.correction
    bent = float(np.abs(shares - 1 / plan.n).sum()) / 2
    capped = plan.caps.contributions is not None or plan.caps.edge is not None
    undisturbed = run.shown and not run.logs.ever_down
    if not topology.uniform or capped or not undisturbed:
        return bent
    return min(bent, math.sqrt(math.log(asked) / (2 * count)))


def _own_noise(run: Run) -> Floats | None:
    """Sum of the accepted branch's noise per coordinate, in data units; None when it was not logged."""
    logs = run.logs
    if logs.noises is None or not run.shown or not run.lineage.complete or run.lineage.n_ghosts:
        return None
    return np.asarray(logs.noises[run.lineage.accepted].sum(axis=0), dtype=np.float64)


def measure(run: Run, given: Truth | None = None) -> Utility:
    plan, value = run.plan, run.logs.result_value
    truth = None if given is None else given.for_plan(plan)
    if plan.task.additive and value is not None and run.lineage.complete:
        return _of_branch(run, value, truth)
    estimate = _published(run, value)
    what = plan.task.estimates if estimate is not None else ""
    if plan.in_one_round and estimate is not None:  # a total without a walk: its noise is the plan's
        off = None if truth is None else _off(np.array(estimate), truth)
        std, remark = expected_error(plan), plan.task.remark([x / _factor(plan) for x in estimate])
        return Utility(what, estimate, noise_std=std, sampling_std=0.0, truth=truth, truth_error=off, remark=remark)
    models = learning(run, given)
    if given is None or not models or math.isnan(models[-1][2]):
        return Utility(what, estimate, learning=models)
    reference, guess = given.reference_accuracy, _guess(given.test_labels)
    return Utility(what, estimate, learning=models, reference_accuracy=reference, guess_accuracy=guess)


def _of_branch(run: Run, value: Sequence[float], truth: tuple[float, ...] | None) -> Utility:
    """Of what was added up along the accepted branch."""
    plan, count = run.plan, _count(run)
    if count == 0:
        return Utility()
    estimate, noise = _estimate(run, value, count), _own_noise(run)
    std, full = _noise_std(run, count)
    return Utility(
        what=plan.task.estimates,
        estimate=tuple(estimate.tolist()),
        noise_std=std,
        noise_count=full,
        sampling_std=_sampling_std(run, count),
        noise_error=None if noise is None else tuple((noise / count * _factor(plan)).tolist()),
        truth=truth,
        truth_error=None if truth is None else _off(estimate, truth),
        truth_tolerance=None if truth is None else _tolerance(run, std, count),
        remark=plan.task.remark((estimate / _factor(plan) * plan.topology.correction).tolist()),
    )


def _off(estimate: Floats, truth: Sequence[float]) -> float:
    wanted = np.array(truth, dtype=np.float64)
    if wanted.shape != estimate.shape:
        raise InputError("--truth", None, f"{len(wanted)} numbers given; the result has {len(estimate)}")
    return float(np.max(np.abs(estimate - wanted)))


def _published(run: Run, value: Sequence[float] | None) -> tuple[float, ...] | None:
    """What can be said without the accepted branch: a model as it is, a sum by the published number of contributions.

    Randomised responses need the number of cover elements too, which only the branch tells."""
    plan, count = run.plan, run.logs.result_contributions
    if value is None:
        return None
    if not plan.task.additive:
        return tuple(float(x) for x in value)
    if not count or not plan.mechanism.additive:
        return None
    return tuple(_estimate(run, value, int(count)).tolist())


def _guess(labels: Sequence[float]) -> float:
    positive = sum(label > 0 for label in labels) / len(labels)
    return max(positive, 1 - positive)


def learning(run: Run, given: Truth | None) -> tuple[tuple[int, float, float], ...]:
    """Loss and accuracy on the test set along the accepted branch, where models were logged; ridge has no accuracy."""
    task = run.plan.task
    if given is None or not given.test_rows:
        return ()
    grade = grader(task, np.array(given.test_rows), np.array(given.test_labels))
    if grade is None:
        return ()
    kept = [row for row in run.lineage.accepted.tolist() if row in run.logs.models]
    return tuple((int(run.lineage.sents["step"][row]), *grade(np.array(run.logs.models[row]))) for row in kept)


def _sampling_std(run: Run, count: int) -> float | None:
    """Std of the walk's sampling error: spread of the users' values over sqrt(T); 0 on a ring."""
    if not run.plan.topology.drawn:
        return 0.0
    logs = run.logs
    if logs.contributions is None or not logs.with_values:
        return None
    rows = walking_rows(run)
    rows = rows[run.lineage.sents["real"][rows] & (rows < len(logs.sents))]
    users, first = np.unique(run.lineage.sents["user"][rows], return_index=True)
    if len(users) < 2:
        return None
    values = logs.contributions[rows[first]]
    return float(np.sqrt(values.var(axis=0).max() / count)) * _factor(run.plan)


def checks(run: Run, utility: Utility) -> list[Check]:
    found: list[Check] = []
    std = utility.noise_std
    if utility.noise_error is not None and std and run.plan.mechanism.by_exposure:
        worst = max(abs(x) for x in utility.noise_error) / std
        limit = float(norm.isf(FALSE_ALARM / 2 / len(utility.noise_error)))
        found.append(
            Check(
                id="error",
                title="The noise left in the result is as large as expected",
                status=Status.PASS if worst <= limit else Status.FAIL,
                observed=f"{worst:.3g} standard deviations (one is {std:.4g})",
                bound=f"{limit:.3g} standard deviations",
                rule="Result minus the logged contributions is a sum of the logged number of noises.",
                theory="THEORY.md#estimates, #release",
                number=worst,
                limit=limit,
            )
        )
    if utility.truth_error is not None and utility.truth_tolerance is not None:
        good = utility.truth_error <= utility.truth_tolerance
        sure = run.lineage.n_ghosts == 0  # a missing log may hold more noise, one without values cover elements
        sure &= run.plan.mechanism.additive or run.logs.with_values == frozenset(run.logs.files)
        found.append(
            Check(
                id="truth",
                title="The result is as close to the truth as promised",
                status=Status.UNKNOWN if not sure else Status.PASS if good else Status.FAIL,
                observed=f"error {utility.truth_error:.4g}" + (f", noise std {std:.4g}" if std else ""),
                bound=f"error <= {utility.truth_tolerance:.4g}",
                rule=f"Tail of the noise, Hoeffding for the walk's sampling; exceeded with p <= {FALSE_ALARM:g}.",
                theory="THEORY.md#estimates, #debiasing",
                number=utility.truth_error,
                limit=utility.truth_tolerance,
            )
        )
    return found
