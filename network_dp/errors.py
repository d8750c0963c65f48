"""What a user can put right: one base for all such errors, and those of the accountant."""

from __future__ import annotations

import math
from numbers import Integral


class UserError(Exception):
    """Wrong input. The message is one sentence: what is wrong with what, and what is allowed or what to do."""


class PlanError(UserError, ValueError):
    """A plan that cannot be run; the message names the key, the value and what is allowed."""


class AccountingError(UserError, ValueError):
    """Nonsense input. The message names the argument, its value and what is allowed."""


class UnreachableError(AccountingError):
    """No amount of noise (or no number of steps) meets the target that was asked for."""


def require(condition: bool, message: str) -> None:
    """Raise AccountingError with `message` unless `condition` holds (survives `python -O`)."""
    if not condition:
        raise AccountingError(message)


def require_whole(name: str, value: object, least: int = 0) -> None:
    """Counts (users, steps, rounds, contributions) are whole numbers of at least `least`."""
    whole = isinstance(value, Integral) and not isinstance(value, bool) and int(value) >= least
    require(whole, f"{name} must be a whole number of at least {least}, got {value!r}")


def require_share(name: str, value: float) -> None:
    """Probabilities (delta, a confidence) lie strictly between 0 and 1."""
    require(0 < value < 1, f"{name} must lie strictly between 0 and 1, got {value}")


def require_noise(sigma: float, sensitivity: float) -> None:
    """Both may be nothing: no noise, or no data."""
    require(sigma >= 0 and sensitivity >= 0, f"sigma and sensitivity must be >= 0, got {sigma} and {sensitivity}")


def require_target(epsilon: float, delta: float, sensitivity: float) -> None:
    """What noise can be computed for."""
    require(0 < epsilon < math.inf, f"epsilon must be positive and finite, got {epsilon}")
    require_share("delta", delta)
    require(0 < sensitivity < math.inf, f"sensitivity must be positive and finite, got {sensitivity}")
