"""The path of a token as arrays: what the exposure of every pair is computed from."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from network_dp.errors import require, require_whole

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]
Task = Literal["sum", "sgd"]


@dataclass(frozen=True)
class Path:
    """A walk, and its contributing steps sorted by (user, time): the order in which cycles are contiguous."""

    walk: Ints
    n_users: int
    task: Task
    released: bool
    clock: Floats  # noise variance added before step t, in units of sigma^2 (times eta^2); length T + 2, last infinite
    step: Ints  # contributing steps, by user and then by time
    user: Ints  # their users
    start: Floats  # the clock when they begin
    next_step: Ints  # the same user's next contribution, or T + 1
    height_before: Floats  # running sum, in that order, of the sizes of contributions: 1 each, or eta_t


def make_path(
    walk: ArrayLike,
    n_users: int,
    task: Task,
    released: bool,
    contributing: ArrayLike | None,
    step_sizes: ArrayLike | None,
    noisy: ArrayLike | None,
) -> Path:
    """A walked path, checked, and sorted by contribution."""
    require(task in ("sum", "sgd"), f'task must be "sum" or "sgd", got {task!r}')
    require_whole("n_users", n_users, 1)
    given = np.asarray(walk)
    require(given.ndim == 1, f"walk must be one-dimensional, got shape {given.shape}")
    n_steps = len(given)
    whole = n_steps == 0 or given.dtype.kind in "iu"
    require(whole, f"walk must hold whole numbers (user indices), got {given.dtype}")
    steps = given.astype(np.int64)
    inside = n_steps == 0 or (int(steps.min()) >= 0 and int(steps.max()) < n_users)
    require(inside, f"walk must hold user indices from 0 to {n_users - 1}")
    sizes = _per_step("step_sizes", step_sizes, n_steps)
    require(task == "sgd" or step_sizes is None, 'step_sizes only have a meaning for task "sgd"')
    require(bool(np.all(sizes > 0)) and bool(np.all(np.isfinite(sizes))), "step_sizes must be positive and finite")
    noise = sizes**2 * (_per_step("noisy", noisy, n_steps) != 0)
    chosen = np.flatnonzero(_per_step("contributing", contributing, n_steps) != 0)
    order = chosen[np.argsort(steps[chosen], kind="stable")]
    user = steps[order]
    next_step = np.full(len(order), n_steps + 1)
    same = user[1:] == user[:-1]
    next_step[:-1][same] = order[1:][same]
    clock = np.concatenate([[0.0], np.cumsum(noise), [np.inf]])
    return Path(
        walk=steps,
        n_users=n_users,
        task=task,
        released=released,
        clock=clock,
        step=order,
        user=user,
        start=clock[order],
        next_step=next_step,
        height_before=np.concatenate([[0.0], np.cumsum(sizes[order])]),
    )


def _per_step(name: str, values: ArrayLike | None, n_steps: int) -> Floats:
    """One number for each step; 1 where none are given."""
    if values is None:
        return np.ones(n_steps)
    array = np.asarray(values, dtype=np.float64)
    require(array.shape == (n_steps,), f"{name} must have one entry per step ({n_steps}), got shape {array.shape}")
    return array
