"""What every pair lost on a simulated walk of a histogram by randomised response (Alg. 5), path known.

A cycle of v with m answers, c of them u's, is c windows of floor((m-c)/c) others (THEORY.md#response-complete).
Windows are composed by their Renyi moments, an upper bound that takes one product of matrices for all users u of one
observer v; `network_dp.accounting.shuffle.cycles_epsilon` does one pair exactly, in seconds.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from dp_accounting.pld import privacy_loss_distribution
from numpy.typing import NDArray

from network_dp.accounting import gaussian
from network_dp.accounting.randomised_response import Response, log_moments, round_down
from simulator.pairs import Spread, spread

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

_ORDERS = 1 + np.geomspace(0.25, 400, 28)
_OTHERS_MAX = 1 << 15  # windows with more others are treated as if they had this many


@dataclass(frozen=True)
class SimulatedWindows:
    """Log-moments of windows: row j serves windows of at least others[j] others, one column per Renyi order."""

    response: Response
    others: Ints
    log_moments: Floats


def windows(response: Response, longest_cycle: int) -> SimulatedWindows:
    """A table for all cycles up to the given length; longer ones are safe too."""
    most = min(longest_cycle, _OTHERS_MAX)
    others = np.unique([round_down(j) for j in range(most + 1)]).astype(np.int64)
    return SimulatedWindows(response, others, log_moments(response, _ORDERS, others).T)


def response_losses(walk: Ints, n_users: int, table: SimulatedWindows, delta: float) -> Spread:
    """Epsilon over all pairs u != v on one walk, the result not released."""
    order = np.argsort(walk, kind="stable")
    users = walk[order]
    losses = np.empty((n_users, n_users - 1))
    for v in range(n_users):
        column = _column(walk, order, users, v, n_users, table, delta)
        losses[v] = np.delete(column, v)
    return spread(losses)


def _column(
    walk: Ints, order: Ints, users: Ints, v: int, n_users: int, table: SimulatedWindows, delta: float
) -> Floats:
    visits = np.flatnonzero(walk == v)
    if len(visits) == 0:
        return np.zeros(n_users)
    cycle = np.repeat(np.arange(len(visits) + 1), np.diff(visits, prepend=0, append=len(walk)))[order]
    seen = (cycle < len(visits)) & (users != v)
    cycle, user = cycle[seen], users[seen]
    # sorted by user, then time: contributions of one user to one cycle stand together
    last = np.append((cycle[1:] != cycle[:-1]) | (user[1:] != user[:-1]), True)
    mine = np.diff(np.flatnonzero(last), prepend=-1)
    cycle, user = cycle[last], user[last]
    length = np.diff(visits, prepend=-1) - 1
    window = np.searchsorted(table.others, (length[cycle] - mine) // mine, side="right") - 1
    size = len(table.others)
    counts = np.bincount(user * size + window, mine, minlength=n_users * size).reshape(n_users, size)
    rdp = counts @ table.log_moments / (_ORDERS - 1)
    price = np.array([gaussian.rdp_to_epsilon(float(order), 1.0, delta) - 1.0 for order in _ORDERS])
    basic = counts.sum(axis=1) * table.response.epsilon  # local DP composes too
    return np.asarray(np.minimum(np.maximum((rdp + price).min(axis=1), 0.0), basic))


def hidden_epsilon(n_users: int, n_steps: int, response: Response, delta: float) -> float:
    """Before a run, if the path were hidden: T answers, each u's with probability q = 1/(n-1), even if v saw them all.

    By advanced joint convexity (Balle, Barthe & Gaboardi 2018, Thm 2) one step has the profile q delta_RR(ln(1 + (e^e -
    1)/q)) in both directions: that of the pair ((b + q (a-b), b, rest), (b, b + q (a-b), rest)), where a and b are
    the probabilities to say the true and one given other bucket.
    """
    b = response.gamma / response.n_buckets
    likely = b + (1 - response.gamma) / (n_users - 1)
    rest = 1 - b - likely
    pair = privacy_loss_distribution.from_two_probability_mass_functions(
        {0: np.log(likely), 1: np.log(b), 2: np.log(rest)},
        {0: np.log(b), 1: np.log(likely), 2: np.log(rest)},
        pessimistic_estimate=True,
        value_discretization_interval=float(np.log(likely / b)) / 50,
    )
    return float(pair.self_compose(n_steps).get_epsilon_for_delta(delta))
