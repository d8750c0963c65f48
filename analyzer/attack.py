"""What a user could reconstruct of the others from its own view: the attack that every bound is about.

Between two of its visits v finds in the token what others added: d_i = sum of c_iu x_u + noise. On a ring v knows who
is in a window; on a drawn walk it knows whom it gave the token to and who brought it back, and takes every other step
to be anybody's. With values uniform on their public bounds the best linear guess is (regularised) least squares: its
standard error says what was learned, the spread of the bounds what was known before. For sums, means and Gaussian
histograms, where values are added up; the log must hold values.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from network_dp.errors import UserError
from network_dp.plan import Plan
from network_dp.view import Record

Floats = NDArray[np.float64]


class AttackError(UserError, ValueError):
    """There is nothing to attack here; the message says why."""


@dataclass(frozen=True, slots=True)
class Guess:
    """Of one user's value (first coordinate): best linear guess, its standard error, and what it was before."""

    user: str
    value: float
    error: float
    before: float

    @property
    def learned(self) -> float:
        """Share of the uncertainty (variance) that the view took away."""
        return 1.0 - (self.error / self.before) ** 2


@dataclass(frozen=True, slots=True)
class Window:
    """What the observer found between its own send and its next sight of the token."""

    value: Floats  # in data units
    after: int  # its own step
    before: int  # the step of the next sight
    known: tuple[int, ...]  # users it saw at either end


@dataclass(frozen=True, slots=True)
class _Sent:
    """The last token the observer sent, which it can subtract."""

    epoch: tuple[int, int]
    step: int
    value: Floats
    to: int | None


def guesses(plan: Plan, records: Iterable[Record]) -> list[Guess]:
    """The best linear guess of every other user's value, from one view."""
    if not plan.mechanism.additive or not plan.task.additive or plan.task.own_code or plan.walk.anonymous:
        raise AttackError("this attack is for sums, means and Gaussian histograms on a walk with a known path")
    found = list(records)
    me = plan.index(next(str(record.fields["user"]) for record in found if record.kind == "header"))
    windows = [window for window in windows_of(plan, me, found) if window.before - window.after > 1]
    middle, spread = prior(plan)
    others = [user for user in range(plan.n) if user != me]
    if not windows:
        return [Guess(plan.names[user], middle, spread, spread) for user in others]
    design, variance = _model(plan, me, windows, spread)
    values = np.array([window.value[0] for window in windows])
    # posterior of independent values: covariance (I/spread^2 + C' V^-1 C)^-1
    weighted = design / variance[:, None]
    precision = np.eye(plan.n) / spread**2 + design.T @ weighted
    covariance = np.linalg.inv(precision)
    mean = middle + covariance @ (weighted.T @ (values - design.sum(axis=1) * middle))
    errors = np.sqrt(np.diag(covariance))
    return [Guess(plan.names[user], float(mean[user]), float(errors[user]), spread) for user in others]


def prior(plan: Plan) -> tuple[float, float]:
    """Middle and standard deviation of a value that is uniform on its public bounds (a histogram: a share)."""
    lower = float(getattr(plan.task, "lower", 0.0))
    width = plan.task.width if math.isfinite(plan.task.width) else plan.sensitivity
    return lower + width / 2, width / math.sqrt(12)


def windows_of(plan: Plan, me: int, records: Iterable[Record]) -> Iterator[Window]:
    """Increments within one epoch: a token taken up again begins anew."""
    grid, step = plan.noise.grid or 1.0, 0
    empty = np.zeros(plan.task.dimension)
    last: _Sent | None = _Sent((0, plan.topology.starter), 0, empty, None)  # the empty token, which everybody knows

    def window(sent: _Sent, before: int, seen: Sequence[int], sender: int | None = None) -> Window:
        """``sender`` held the token last, as far as is known; it may be the user that held it first."""
        known = tuple(user for user in (sent.to, sender) if user is not None and user != me)
        return Window(np.array(seen) * grid - sent.value, sent.step, before, known)

    for record in records:
        fields = record.fields
        match record.kind:
            case "visit":
                step, received, handed = record.step, fields.get("received"), fields["cause"] == "handoff"
                if last is not None and received is not None and handed and record.epoch == last.epoch:
                    yield window(last, step, received, _user(plan, fields["from"]))
                last = None
            case "sent" | "finish" if fields.get("sent") is not None:
                last = _Sent(record.epoch, step, np.array(fields["sent"]) * grid, _user(plan, fields.get("to")))
            case "result" if (value := fields.get("value")) is not None:
                if last is not None and record.epoch == last.epoch and last.step < plan.total_steps:
                    yield window(last, plan.total_steps + 1, value)
                last = None


def _user(plan: Plan, value: Any) -> int | None:
    if isinstance(value, str):
        return plan.index(value) if value in plan.names else None
    return value if isinstance(value, int) and 0 <= value < plan.n else None


def _model(plan: Plan, me: int, windows: list[Window], spread: float) -> tuple[Floats, Floats]:
    """Expected contributions of every user to every window, and the variance of what is not theirs."""
    design, variance = np.zeros((len(windows), plan.n)), np.zeros(len(windows))
    full = (plan.mechanism.std_per_size * plan.mechanism.size) ** 2
    for row, window in enumerate(windows):
        holders = plan.topology.passed_by(window.after, window.before)
        if not plan.topology.drawn:
            for user in holders:
                design[row, user] += 1
            variance[row] = full * max(1, -(-len(holders) // plan.n))
            continue
        steps = window.before - window.after - 1
        known = window.known if steps > 1 else window.known[-1:]
        unknown = steps - len(known)
        for user in known:
            design[row, user] += 1
        design[row] += unknown / (plan.n - 1)
        variance[row] = full * max(steps, 1) + unknown * spread**2
    design[:, me] = 0.0
    return design, variance
