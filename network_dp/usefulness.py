"""Will the answer of a plan be worth having? From public numbers only, before anything runs (docs/CHOOSING.md).

An estimate is compared with the range that values can have. A model is judged on a reference problem: two classes of
unit rows, +-MARGIN apart along one direction with a spread that lets a model without privacy get 90 in 100 cases right.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from statistics import NormalDist
from typing import Final

from network_dp.expected import expected_contributions, expected_error
from network_dp.plan import Plan
from network_dp.promise import reached_epsilon

#: An error of so much of the range is still an answer; beyond the second it is noise.
GOOD: Final = 0.1
NOISE: Final = 0.25
#: The reference problem of a model, and when its accuracy is good, or hardly better than a coin.
MARGIN: Final = 0.5
PERFECT: Final = 0.9
GOOD_ACCURACY: Final = 0.8
COIN: Final = 0.65
#: Rows lie in all directions: along the one that matters the loss is curved by about this part of beta.
CURVED: Final = 0.1
#: Epsilons that need not be recommended.
WEAK: Final = 10.0

_NORMAL: Final = NormalDist()
_SPREAD: Final = MARGIN / _NORMAL.inv_cdf(PERFECT)


@dataclass(frozen=True, slots=True)
class Usefulness:
    """How good the answer will be, in one number, and a sentence on it; ``noise``: it cannot be told from chance."""

    kind: str  # "share of the range" or "accuracy"
    value: float
    sentence: str
    noise: bool


def usefulness(plan: Plan) -> Usefulness | None:
    """Of a plan whose noise is known; None where nothing can be said (a task of the user's own)."""
    if plan.task.classifies:
        return _of_model(plan)
    share = relative_error(plan)
    return None if share is None else _of_estimate(plan, share)


def relative_error(plan: Plan) -> float | None:
    """The expected error of the estimate per user, as a share of the range of one user's value."""
    error = expected_error(plan)
    if error is None:
        return None
    return error / plan.task.width / (1.0 if plan.task.per_user else expected_contributions(plan))


def _of_estimate(plan: Plan, share: float) -> Usefulness:
    kind = "share of the range"
    if share <= GOOD:
        return Usefulness(kind, share, f"the error is {share:.1%} of the range of the values: an answer", False)
    noise = share > NOISE
    word = "this answer will be noise" if noise else "this answer will be coarse"
    return Usefulness(
        kind, share, f"{word}: its error is {share:.0%} of the range; {needed(plan, share / GOOD)}", noise
    )


def _of_model(plan: Plan) -> Usefulness:
    reached = predicted_accuracy(plan)
    text = f"about {reached:.0%} of new cases right where a model without privacy has {PERFECT:.0%} (reference problem)"
    if reached >= GOOD_ACCURACY:
        return Usefulness("accuracy", reached, text, False)
    word = "this model will be noise" if reached < COIN else "this model will be weak"
    lacking = _needed_ratio(GOOD_ACCURACY) / signal_to_noise(plan)
    return Usefulness("accuracy", reached, f"{word}: {text}; {needed(plan, lacking)}", reached < COIN)


def needed(plan: Plan, factor: float) -> str:
    """What makes the answer ``factor`` times better: on a ring noise is shared by all users, on a random walk each step
    brings its own, and the error falls with about the 3/4th power of the users. It falls with epsilon."""
    power = 0.75 if plan.topology.drawn and not plan.in_one_round else 1.0
    users = f"about {_round_up(plan.n * factor ** (1.0 / power)):,} users"
    epsilon = (plan.noise.epsilon or reached_epsilon(plan) or math.inf) * factor
    if epsilon > WEAK:
        return f"{users} would be needed"
    return f"{users} or epsilon {math.ceil(epsilon * 10) / 10:g} would be needed"


def signal_to_noise(plan: Plan) -> float:
    """sqrt(T)/sigma, less what a too long step loses.

    After T steps of size eta the model has moved by about eta T times the gradient, and noise has moved it by
    eta sigma sqrt(T) in each direction. The ratio does not depend on eta while a = eta beta T is small; beyond, old
    steps are forgotten and it falls as sqrt(2) (1 - e^-a)/sqrt(a (1 - e^-2a)).
    """
    steps, forgotten = plan.total_steps, plan.task.forgetting(plan.total_steps) * CURVED
    kept = math.sqrt(2.0) * -math.expm1(-forgotten) / math.sqrt(forgotten * -math.expm1(-2.0 * forgotten))
    return math.sqrt(steps) / plan.mechanism.size * kept


def predicted_accuracy(plan: Plan) -> float:
    """Of the plan's model on the reference problem."""
    return accuracy_at(signal_to_noise(plan))


def accuracy_at(ratio: float) -> float:
    """Phi(m / sqrt(v^2 + 1/(s r)^2)) at a signal to noise ratio r: m and v are mean and spread of a row along the
    direction that matters, s = m/2 is the gradient at zero."""
    return _NORMAL.cdf(MARGIN / math.hypot(_SPREAD, 2.0 / (MARGIN * ratio)))


def _needed_ratio(reached: float) -> float:
    """The signal to noise ratio at which the reference problem is solved so well."""
    return 2.0 / (MARGIN * math.sqrt((MARGIN / _NORMAL.inv_cdf(reached)) ** 2 - _SPREAD**2))


def _round_up(users: float) -> int:
    """To two digits: it is a rough number."""
    digits: int = 10 ** max(0, math.floor(math.log10(users)) - 1)
    return math.ceil(users / digits) * digits
