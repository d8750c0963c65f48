"""Exposure: how much of user u's data an observer v saw through Gaussian noise on one actual path.

Given the path of the token, what v sees of u is a Gaussian mechanism with mu = (Delta / sigma) sqrt(S[u, v])
(THEORY.md#exposure): exactly for sums, at most for projected noisy SGD on convex smooth losses with every
step size at most 2/beta (Feldman et al. 2018, Thm 22-23; Gaussian-DP form: Bok, Su & Altschuler 2024).

Between two visits of v lies one cycle. With c contributions of u and m noises of others in it,

* sum:  S gains c^2 / m;
* SGD:  S gains the least energy, sum of a_t^2, that absorbs u's unit shifts before v sees the token. The best
  a is the slope of the greatest convex minorant of the staircase of u's contributions, found by pooling
  adjacent violators. With step sizes eta, a step is eta_t^2 wide and a shift eta_t high.

A set of colluders is one observer: it holds the token whenever one of them does.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike

from network_dp.errors import AccountingError, require, require_whole
from network_dp.exposure.one_user import ExposureRows, pooled_energy
from network_dp.exposure.paths import Bools, Floats, Ints, Path, Task, make_path

__all__ = [
    "Observation",
    "Task",
    "WorstColluders",
    "general",
    "local",
    "matrix",
    "pure",
    "ring",
    "rows",
    "worst_colluders",
]


def _column(path: Path, observer: Bools) -> Floats:
    """Exposure of every user to ONE observer, the set of users where `observer` is true."""
    if len(path.step) == 0:
        return np.zeros(path.n_users)
    n_steps = len(path.walk)
    visits = np.flatnonzero(observer[path.walk])
    # A cycle that the observer never sees ends at "step" T + 1, where the clock is infinite: it exposes nothing.
    ends = np.append(visits, n_steps if path.released else n_steps + 1)
    # An observer's own step counts as the last of the cycle it ends; its row is cleared below.
    end = np.repeat(ends, np.diff(visits, prepend=-1, append=n_steps - 1))[path.step]
    last = path.next_step >= end  # last contribution of its user in its cycle
    with np.errstate(divide="ignore"):
        seen = _sum_energy if path.task == "sum" else _sgd_energy
        column = seen(path, ends, end, last)
    column[observer] = 0.0
    return column


def _sum_energy(path: Path, ends: Ints, end: Ints, last: Bools) -> Floats:
    """Sum of c^2 / m over cycles."""
    lasts = np.flatnonzero(last)
    count = np.diff(lasts, prepend=-1)
    noises = np.zeros(len(path.clock))
    noises[ends] = path.clock[ends] - path.clock[np.concatenate([[0], ends[:-1] + 1])]
    return _per_user(path.user[lasts], count**2 / noises[end[lasts]], path.n_users)


def _sgd_energy(path: Path, ends: Ints, end: Ints, last: Bools) -> Floats:
    """Sum of height^2 / width over the pieces of the greatest convex minorant of each cycle's staircase."""
    right = path.clock[np.minimum(path.next_step, end)]
    below, above = path.height_before[:-1], path.height_before[1:]
    return pooled_energy(path.start, right, below, above, last, path.user, path.n_users)


def _per_user(user: Ints, energy: Floats, n_users: int) -> Floats:
    return np.asarray(np.bincount(user, energy, minlength=n_users), dtype=np.float64)


def matrix(
    walk: ArrayLike,
    n_users: int,
    task: Task,
    released: bool = False,
    colluders: Iterable[int] | None = None,
    contributing: ArrayLike | None = None,
    step_sizes: ArrayLike | None = None,
    noisy: ArrayLike | None = None,
) -> Floats:
    """S[u, v] of every pair on one actual walk of the complete graph (THEORY.md#exposure).

    `walk[t]` is the holder of step t. `contributing[t]` is false where the holder only added noise (past its
    cap); `noisy[t]` is false where it forwarded the token unchanged. `released`: everybody sees the final token.
    With `colluders`, the columns of its members all hold the exposure to the whole set, and members are not
    exposed to it. The diagonal is 0. Infinity: some increment carries u's data and no foreign noise.
    """
    path = make_path(walk, n_users, task, released, contributing, step_sizes, noisy)
    members = _members(colluders, n_users)
    result = np.empty((n_users, n_users))
    each = ExposureRows(path)
    for u in range(n_users):
        result[u] = each.of(u)
    if members:
        result[:, members] = _column(path, _mask(members, n_users))[:, None]
    return result


def rows(
    walk: ArrayLike, n_users: int, task: Task, released: bool = False, contributing: ArrayLike | None = None
) -> Iterator[Floats]:
    """`matrix` row by row, u = 0, 1, ...: for numbers of users whose matrix does not fit into memory."""
    each = ExposureRows(make_path(walk, n_users, task, released, contributing, None, None))
    return (each.of(u) for u in range(n_users))


def _members(colluders: Iterable[int] | None, n_users: int) -> list[int]:
    members = sorted(set(colluders)) if colluders is not None else []
    require(all(0 <= v < n_users for v in members), f"colluders must be user indices from 0 to {n_users - 1}")
    return members


def _mask(members: Sequence[int], n_users: int) -> Bools:
    mask = np.zeros(n_users, dtype=np.bool_)
    mask[list(members)] = True
    return mask


@dataclass(frozen=True)
class WorstColluders:
    """For each user u, a set of c others and u's exposure to it.

    `exact`: no set of that size sees more. Otherwise the set was grown greedily from the worst pair and the
    exposure is what u is AT LEAST exposed to by some set of that size.
    """

    members: tuple[tuple[int, ...], ...]
    exposure: Floats
    exact: bool


def worst_colluders(
    walk: ArrayLike,
    n_users: int,
    task: Task,
    n_colluders: int,
    released: bool = False,
    contributing: ArrayLike | None = None,
    step_sizes: ArrayLike | None = None,
    noisy: ArrayLike | None = None,
) -> WorstColluders:
    """The worst set of `n_colluders` users for each u: exact for 1 and 2 (all pairs are tried), greedy beyond."""
    require_whole("n_colluders", n_colluders, 1)
    require(n_colluders < n_users, f"n_colluders must lie between 1 and {n_users - 1}, got {n_colluders}")
    path = make_path(walk, n_users, task, released, contributing, step_sizes, noisy)
    best = np.full(n_users, -1.0)
    sets: list[tuple[int, ...]] = [()] * n_users
    size = min(n_colluders, 2)
    for first in range(n_users):
        for second in range(first + 1, n_users) if size == 2 else [first]:
            candidate = tuple(sorted({first, second}))
            _improve(best, sets, candidate, _column(path, _mask(candidate, n_users)), range(n_users))
    for _ in range(size, n_colluders):
        _grow(path, best, sets)
    return WorstColluders(members=tuple(sets), exposure=best, exact=n_colluders <= 2)


def _improve(
    best: Floats, sets: list[tuple[int, ...]], candidate: tuple[int, ...], column: Floats, users: Iterable[int]
) -> None:
    for u in users:
        if u not in candidate and column[u] > best[u]:
            best[u] = column[u]
            sets[u] = candidate


def _grow(path: Path, best: Floats, sets: list[tuple[int, ...]]) -> None:
    """Add to each user's set the one member that raises its exposure most (users that share a set share the work)."""
    sharing: dict[tuple[int, ...], list[int]] = {}
    for u, members in enumerate(sets):
        sharing.setdefault(members, []).append(u)
    best[:] = -1.0
    for members, users in sharing.items():
        for extra in set(range(path.n_users)).difference(members):
            candidate = tuple(sorted((*members, extra)))
            _improve(best, sets, candidate, _column(path, _mask(candidate, path.n_users)), users)


@dataclass(frozen=True)
class Observation:
    """One thing an observer saw of a running sum: whose contributions are in it and which foreign noises.

    `contributions[u]`: how often u's value is in it. `noises[id]`: weight of each independent noise in units of
    sigma (1 for a full noise), the observer's own noises left out, because it can subtract them.
    """

    contributions: Mapping[int, float]
    noises: Mapping[Hashable, float]


def general(observations: Sequence[Observation]) -> dict[int, float]:
    """Exposure of every user to an observer that saw ALL the given observations of sums: c' Sigma^+ c.

    The rule for forked or re-issued runs, and the oracle of the fast routines. Sigma = A A' is the covariance of the
    observed noises (A: observations x noises); infinite if c is not in its range, which means some combination
    of the observations shows u's data without noise.
    """
    users = sorted({u for seen in observations for u in seen.contributions})
    noise_ids = list(dict.fromkeys(name for seen in observations for name in seen.noises))
    if not users:
        return {}
    a = np.array([[seen.noises.get(name, 0.0) for name in noise_ids] for seen in observations], dtype=np.float64)
    c = np.array([[seen.contributions.get(u, 0.0) for u in users] for seen in observations], dtype=np.float64)
    left, singular, _ = np.linalg.svd(a.reshape(len(observations), len(noise_ids)), full_matrices=True)
    rank = int(np.sum(singular > 1e-9 * max(1.0, float(singular.max(initial=0.0)))))
    rotated = left.T @ c
    naked = np.abs(rotated[rank:]).max(axis=0, initial=0.0) > 1e-9 * np.abs(c).max(axis=0, initial=1.0)
    exposures = np.sum((rotated[:rank] / singular[:rank, None]) ** 2, axis=0)
    return {u: math.inf if naked[i] else float(exposures[i]) for i, u in enumerate(users)}


def pure(observations: Sequence[Observation]) -> dict[int, float]:
    """The same for Laplace noise: how many contributions of each user were seen, at Delta_1 / scale of epsilon each.

    Take any shifts a of the noises with A a = c, A = 1 where a noise is in an observation. Replacing u's data moves the
    observations as shifting every noise j by a_j Delta would; a Laplace density changes by a factor of at most
    exp(|a_j| Delta_1 / scale). So epsilon <= |a|_1 Delta_1 / scale: the least |a|_1, a linear programme, or infinity
    where no shift exists. One observation of c contributions under any noise: c. (c' Sigma^+ c is the least |a|_2^2.)
    """
    noise_ids = list(dict.fromkeys(name for seen in observations for name in seen.noises))
    a = np.array([[float(name in seen.noises) for name in noise_ids] for seen in observations])
    a = a.reshape(len(observations), len(noise_ids))
    found: dict[tuple[float, ...], float] = {}
    result = {}
    for u in sorted({u for seen in observations for u in seen.contributions}):
        counts = tuple(seen.contributions.get(u, 0.0) for seen in observations)
        if counts not in found:
            found[counts] = _least_shift(a, counts)
        result[u] = found[counts]
    return result


def _least_shift(a: Floats, counts: tuple[float, ...]) -> float:
    """Least |x|_1 with a x = counts, rounded up; infinite if there is none."""
    from scipy.optimize import linprog

    if not any(counts):
        return 0.0
    if a.shape[1] == 0:
        return math.inf
    best = linprog(np.ones(2 * a.shape[1]), A_eq=np.hstack([a, -a]), b_eq=counts)
    return math.inf if best.status != 0 or best.fun is None else float(best.fun) * (1 + 1e-9)


def ring(n_rounds: int, n_users: int | None = None, released: bool = False) -> Floats:
    """Exposure on the ring of Alg. 1 without faults (THEORY.md#exposure-ring), one full noise in every window.

    With `n_users`: S[u, v] for users in ring order, K where u precedes v in a round and K - 1 otherwise; when the
    result is released under the closing noise, K for every pair (an upper bound). Without: the worst pair, shape ().
    """
    require_whole("n_rounds", n_rounds, 1)
    if n_users is None:
        return np.array(float(n_rounds))
    require_whole("n_users of a ring", n_users, 3)
    index = np.arange(n_users)
    seen = np.where(released | (index[:, None] < index[None, :]), n_rounds, n_rounds - 1).astype(np.float64)
    np.fill_diagonal(seen, 0.0)
    return seen


def local(
    n_contributions: int,
    mechanism: Literal["full", "ring", "spread_ring"] = "full",
    n_users: int | None = None,
    enclosed: int = 1,
) -> float:
    """Exposure to somebody who sees every message (THEORY.md#exposure-local).

    full: each contribution carries its own full noise, S = number of contributions.
    ring: Alg. 1, where most hops carry no noise: infinite.
    spread_ring: each hop carries sigma^2/(n-1), so S = K (n-1); colluders that enclose g honest users see K (n-1)/g.
    """
    require_whole("n_contributions", n_contributions)
    require_whole("enclosed", enclosed, 1)
    if mechanism == "full" or n_contributions == 0:
        return float(n_contributions)
    if mechanism == "ring":
        return math.inf
    require(mechanism == "spread_ring", f'mechanism must be "full", "ring" or "spread_ring", got {mechanism!r}')
    if n_users is None:
        raise AccountingError("a spread ring needs n_users")
    require_whole("n_users of a ring", n_users, 3)
    return n_contributions * (n_users - 1) / enclosed
