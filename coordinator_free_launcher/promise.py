"""What a plan promises before anything runs, as rows with their meaning: privacy by the valid bounds, and error."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Literal

from coordinator_free_launcher.rows import Row
from network_dp import utility
from network_dp.plan import HistogramTask, Plan, SgdTask, SumTask


def promises(plan: Plan, colluders: int = 1) -> list[Row]:
    """Network epsilon, the same if the path were hidden, local epsilon, expected error; infinite: no guarantee."""
    from network_dp.promise import promised_epsilon

    promised = promised_epsilon(plan)
    rows = [
        Row("network_epsilon", "network epsilon", _or_infinite(promised), _meaning(plan)),
        *_one_path(plan, promised),
    ]
    if colluders > 1:
        meaning = f"any {colluders} users together; none promised on a ring, where two can enclose a third"
        together = _or_infinite(promised_epsilon(plan, colluders))
        rows.append(Row(f"network_epsilon_{colluders}_colluders", f"with {colluders} colluders", together, meaning))
    return [*rows, _if_hidden(plan, colluders), _local(plan), *_extras(plan), _error(plan)]


def _meaning(plan: Plan) -> str:
    """For whom the promise holds, and while what does not happen."""
    ring, reserve = plan.walk.topology == "ring", plan.noise.reissues
    whole = f"any one user about any other, delta = {plan.noise.delta:g}, even if it knows the whole path"
    if ring and plan.noise.mechanism == "rr":
        whole += "; while nobody is skipped for a whole round (docs/THREAT_MODEL.md)"
    times = {0: "never lost", 1: "lost at most once"}.get(reserve, f"lost at most {reserve} times")
    beyond = "" if ring else ": each time adds at most what its abandoned tokens showed, and the verdict says how much"
    return f"{whole}; while the token is {times} and taken up again{beyond}"


def _one_path(plan: Plan, promised: float | None) -> list[Row]:
    from analyzer.limits import path_limit, path_sentence

    limit = path_limit(plan)
    sentence = path_sentence(promised, limit)
    return [Row("path_epsilon", "most on a single path", limit, sentence)] if sentence else []


def _or_infinite(epsilon: float | None) -> float:
    return math.inf if epsilon is None else epsilon


def _if_hidden(plan: Plan, colluders: int) -> Row:
    """What the same noise would give on a hidden path (THEORY.md#hidden-path): for comparison only."""
    from network_dp import bounds
    from network_dp.promise import aim

    def row(value: float | None, note: str) -> Row:
        return Row("hidden_epsilon", "if the path were hidden", value, note)

    if plan.walk.topology == "ring":
        return row(None, "the path of a ring is public")
    if plan.noise.mechanism != "gaussian":
        return row(None, "no bound is offered for randomised response")
    if plan.caps.contributions is not None or plan.caps.edge is not None:
        return row(None, "a cap makes contributions depend on the visit count: no hidden-path bound")
    if isinstance(plan.task, SumTask | HistogramTask) and plan.task.rows == "per_visit":
        return row(None, "one row per visit makes contributions depend on the visit count: no hidden-path bound")
    if plan.walk.min_live <= colluders:
        return row(None, "nobody is left to protect")
    assert plan.noise.sigma is not None
    task: Literal["sum", "sgd"] = "sgd" if isinstance(plan.task, SgdTask) else "sum"
    value = bounds.network_epsilon(
        task,
        plan.walk.min_live,
        plan.total_steps,
        plan.noise.sigma,
        plan.sensitivity,
        aim(plan),
        plan.walk.release == "all",
        colluders,
        path="hidden",
    )
    return row(value, "not promised: TLS hides values, not who held the token")


def _local(plan: Plan) -> Row:
    """Against somebody who sees every message. Visits of a walk are counted up to half of delta."""
    from network_dp import bounds
    from network_dp.promise import local_epsilon, most_contributions

    delta = plan.noise.delta
    if (most := most_contributions(plan)) is not None:
        count = most
    else:
        count = bounds.visits(plan.walk.min_live, plan.total_steps, delta / 2)
        plan = replace(plan, noise=replace(plan.noise, delta=delta / 2))
    value = local_epsilon(plan, count)
    note = f"against somebody who sees every message; {count} contributions of one user"
    if math.isinf(value):
        note = "most hops carry no full noise of their own"
    return Row("local_epsilon", "local epsilon", value, note)


def _extras(plan: Plan) -> list[Row]:
    if plan.noise.mechanism == "rr":
        from network_dp.promise import response_of

        return [Row("epsilon_0", "epsilon of one answer", response_of(plan).epsilon, "pure local DP")]
    if plan.walk.topology == "ring" and not isinstance(plan.task, SgdTask) and not plan.noise.spread:
        count = utility.ring_noises(plan.n, plan.walk.rounds or 0, plan.walk.release == "all")
        return [Row("noises", "full noises", float(count), "in the final token")]
    return []


def _error(plan: Plan) -> Row:
    from network_dp.expected import expected_error

    def row(value: float | None, note: str) -> Row:
        return Row("expected_std", "expected error", value, note)

    if not isinstance(plan.task, SgdTask):
        return row(expected_error(plan), "of the estimate, from noise and from the walk's own chance")
    task, sigma = plan.task, plan.noise.sigma
    if task.radius is None or sigma is None:
        return row(None, "the paper's Prop. 1 bounds the error of sgd inside a ball: give task.radius")
    diameter = 2 * task.radius
    bound = utility.sgd_suboptimality(diameter, task.lipschitz, task.dimension, sigma, plan.total_steps)
    step = diameter / math.hypot(task.lipschitz, math.sqrt(task.dimension) * sigma)
    return row(bound, f"bound on F(tau) - F(w*) for the step sizes {step:.3g}/sqrt(t) (the paper's Prop. 1)")
