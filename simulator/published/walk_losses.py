"""Losses of all pairs on one walk as the authors' code computes them (Fig. 1b and 3), in O(T) instead of O(n T).

Their model: v sees only the token. A cycle of m steps costs every user subsampling(loss(m)), because it may or may not
have taken part; the user v sent to and the user v received from certainly took part: loss(m), or twice that if they are
the same user. A pair's losses are composed over v's cycles. So all users but the few neighbours of v lose the same.

Wrong in it (THEORY.md#printed): a user may take part several times in one cycle; m counts v's own noise; the rate is
1/(n-1); delta differs between the network and the local curve.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from network_dp.printed import advanced_composition
from simulator.pairs import Spread, spread
from simulator.published.composition import heterogeneous

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

DELTA = 1e-7


@dataclass(frozen=True)
class _Arrivals:
    """Per step but the first: who got the token, after how many steps, from whom, and to whom it had last sent it."""

    observer: Ints
    length: Ints
    sender: Ints
    receiver: Ints


def _arrivals(walk: Ints) -> _Arrivals:
    steps = np.arange(len(walk))
    order = np.argsort(walk, kind="stable")
    same = walk[order][1:] == walk[order][:-1]
    previous = np.full(len(walk), -1)
    previous[order[1:][same]] = order[:-1][same]
    length = steps - np.maximum(previous, 0)
    # A self-loop is not yet recorded as a send when it arrives: the send before it counts.
    looped = (previous >= 0) & (previous == steps - 1)
    left = np.where(looped, previous[previous], previous)
    receiver = np.where(left >= 0, walk[np.minimum(left + 1, len(walk) - 1)], 0)
    return _Arrivals(walk[1:], length[1:], walk[:-1], receiver[1:])


def subsampled(loss: Floats, n_users: int, length: Ints) -> Floats:
    """Amplification by subsampling with replacement, m draws of rate 1/n (Balle, Barthe & Gaboardi 2018, Thm 10)."""
    rate = -np.expm1(length * np.log1p(-1 / n_users))
    return np.asarray(np.log1p(rate * np.expm1(loss)))


def network_losses(walk: Ints, n_users: int, loss_of_length: Callable[[Ints], Floats]) -> Spread:
    """Losses over all pairs; `loss_of_length(m)` is the loss of one sure contribution among m."""
    seen = _arrivals(walk)
    sure = loss_of_length(seen.length)
    maybe = subsampled(sure, n_users, seen.length)
    base: Floats = np.array([np.bincount(seen.observer, part, minlength=n_users) for part in _sums(maybe)], dtype=float)
    delta = DELTA * np.maximum(np.bincount(seen.observer, minlength=n_users), 1)
    pair, difference = _neighbours(seen, sure, maybe, n_users)
    observer = pair // n_users
    common = heterogeneous(base, delta)
    special = heterogeneous(base[:, observer] + difference, delta[observer])
    others = n_users - 1 - np.bincount(observer, minlength=n_users)
    values = np.concatenate([common[others > 0], special])
    total = float(common @ others) + float(special.sum())
    pairs = n_users * (n_users - 1)
    return Spread(total / pairs, float(values.min()), float(values.max()), pairs)


def _sums(loss: Floats) -> tuple[Floats, Floats, Floats]:
    return loss, loss * loss, loss * np.tanh(loss / 2)


def _neighbours(seen: _Arrivals, sure: Floats, maybe: Floats, n_users: int) -> tuple[Ints, Floats]:
    """Pairs (v n + u) where u was v's neighbour in some cycle, and what that adds to the three sums of the pair."""
    twice = seen.sender == seen.receiver
    rows = [
        (seen.receiver, np.where(twice, 2 * sure, sure), np.ones_like(twice)),
        (seen.sender, sure, ~twice),
    ]
    keys, gains = [], []
    for user, loss, counts in rows:
        use = counts & (user != seen.observer)
        keys.append((seen.observer * n_users + user)[use])
        gains.append(np.stack([new - old for new, old in zip(_sums(loss[use]), _sums(maybe[use]), strict=True)]))
    pair, index = np.unique(np.concatenate(keys), return_inverse=True)
    gain = np.concatenate(gains, axis=1)
    return pair, np.stack([np.bincount(index, part) for part in gain])


def local_losses(walk: Ints, n_users: int, epsilon: float) -> Spread:
    """Advanced composition of the number of times each user got the token."""
    counts = np.bincount(walk[1:], minlength=n_users)
    return spread(np.array([advanced_composition(epsilon, count, DELTA) for count in counts.tolist()]))
