"""What else the epsilon of a plan would buy its users: other walks, one masked sum, local DP (docs/CHOOSING.md)."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from network_dp.accounting import gaussian
from network_dp.calibrate import calibrated_noise
from network_dp.errors import AccountingError, PlanError
from network_dp.plan import Plan, as_dict
from network_dp.plan_reader import from_dict
from network_dp.promise import aim, reached_epsilon
from network_dp.usefulness import accuracy_at, predicted_accuracy, relative_error

#: Longer walks are not looked at: their accountant takes a while.
LONGEST: Final = 30_000
_RING: Final = "one user, not two neighbours"
_COMPLETE: Final = "one user, less against several"
_MASKED: Final = "colluders, watched links"
_LOCAL: Final = "everybody"


@dataclass(frozen=True, slots=True)
class Alternative:
    """One way to spend the same epsilon: its error as a share of the range, or its accuracy, and against whom."""

    name: str
    value: float
    against: str


def alternatives(plan: Plan) -> list[Alternative]:
    """Ways to compute the same with the epsilon and delta of a plan whose noise is known, the plan itself left out.

    Empty where the plan has no epsilon, and for tasks whose answer cannot be predicted. Walks are shown with Gaussian
    noise, so that only they differ; local DP with whatever serves it best.
    """
    epsilon = plan.noise.epsilon or reached_epsilon(plan)
    if epsilon is None or not 0.0 < epsilon < math.inf or plan.task.own_code:
        return []
    if plan.task.classifies:
        return list(_models(plan, epsilon))
    return list(_estimates(plan, epsilon)) if plan.task.additive else []


def advice(plan: Plan, value: float, others: Iterable[Alternative]) -> str | None:
    """A sentence where local DP does as well as the plan, whose error or accuracy is ``value``: it trusts nobody."""
    local = next((one.value for one in others if one.against == _LOCAL), None)
    better = local is not None and (local >= value if plan.task.classifies else local <= value)
    if local is None or not better:
        return None
    return (
        f"local DP would do as well ({local:.1%} against {value:.1%}) and protects against everybody: with so few "
        "users let everybody add noise alone, or take a better row of the table"
    )


def _estimates(plan: Plan, epsilon: float) -> Iterator[Alternative]:
    n, width = plan.n, plan.task.width
    ring = {"topology": "ring", "rounds": 1}
    if plan.walk.rounds != 1 or plan.noise.mechanism != "laplace":
        yield from _one(plan, "ring, 1 round, Laplace", ring, epsilon, _RING, relative_error, "laplace")
    for rounds in (10, 30):
        if plan.topology.drawn or plan.walk.rounds != rounds:
            walk = {"topology": "ring", "rounds": rounds}
            yield from _one(plan, f"ring, {rounds} rounds", walk, epsilon, _RING, relative_error)
    for visits in (10, 30):
        if visits * n > LONGEST:
            continue
        if not plan.topology.drawn or plan.in_one_round or plan.walk.steps != visits * n:
            walk = {"topology": "complete", "steps": visits * n}
            yield from _one(plan, f"complete graph, {visits * n} steps", walk, epsilon, _COMPLETE, relative_error)
    if not plan.in_one_round:
        walk = {"topology": "complete", "protocol": "masked_sum"}
        yield from _one(plan, "masked sum", walk, epsilon, _MASKED, relative_error)
    one = min(gaussian.sigma(epsilon, aim(plan), plan.sensitivity), plan.task.pure_local_std(epsilon))
    yield Alternative("local DP", one / width / math.sqrt(n), _LOCAL)


def _models(plan: Plan, epsilon: float) -> Iterator[Alternative]:
    for visits in (10, 30, 100):
        if visits * plan.n > LONGEST:
            continue
        if not plan.topology.drawn or plan.walk.steps != visits * plan.n:
            walk = {"topology": "complete", "steps": visits * plan.n}
            name = f"complete graph, {visits * plan.n} steps"
            yield from _one(plan, name, walk, epsilon, _COMPLETE, predicted_accuracy)
    if plan.topology.uniform and plan.total_steps <= LONGEST:  # the same steps, but for who learns where the token is
        path, against = ("hidden", _MASKED) if plan.rounds is None else ("known", _COMPLETE)
        walk = {"topology": "complete", "steps": plan.total_steps, "path": path}
        yield from _one(plan, f"the same with its path {path}", walk, epsilon, against, predicted_accuracy)
    # Each user's gradient at the start, with its own full noise, is all that one local answer can say.
    noise = gaussian.sigma(epsilon, aim(plan), plan.sensitivity)
    yield Alternative("local DP", accuracy_at(math.sqrt(plan.n) / noise), _LOCAL)


def _one(
    plan: Plan,
    name: str,
    walk: Mapping[str, Any],
    epsilon: float,
    against: str,
    judge: Callable[[Plan], float | None],
    mechanism: str = "gaussian",
) -> Iterator[Alternative]:
    """The same task and users on another walk, calibrated to the same epsilon; nothing where that is not possible."""
    body = as_dict(plan)
    noise = {"mechanism": mechanism, "epsilon": epsilon, "delta": plan.noise.delta}
    if walk["topology"] == plan.walk.topology:  # else as many as are usual there
        noise["reissues"] = plan.noise.reissues
    task = {key: value for key, value in body["task"].items() if key not in ("step_size", "rows")}
    kept = {key: list(value) if isinstance(value, tuple) else value for key, value in task.items()}
    users = [{"name": user.name, "address": user.address} for user in plan.users]
    try:
        other = from_dict({"walk": walk, "task": kept, "noise": noise, "users": users})
        value = judge(replace(other, noise=calibrated_noise(other)))
    except (PlanError, AccountingError):
        return
    if value is not None:
        yield Alternative(name, value, against)
