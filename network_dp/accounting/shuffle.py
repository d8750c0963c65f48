"""Network DP of histograms by randomised response (Alg. 2 and 5; THEORY.md#histograms).

The dominating pair of one window is in `randomised_response`; here windows are composed: exactly, as privacy-loss
distributions, where the windows are known (a ring; the actual cycles of a run), and by Renyi moments averaged over the
walk before a run on the complete graph.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from functools import cache, lru_cache

import numpy as np
from numpy.typing import NDArray
from scipy.special import logsumexp

from network_dp.accounting import composition, gaussian, response_walk
from network_dp.accounting.bounds import Accountant
from network_dp.accounting.moments import EXACT_STEPS, RECURSION_STEPS, Law, Rows, cycle_kernel, cycle_rows, solve
from network_dp.accounting.number_cache import kept
from network_dp.accounting.randomised_response import (
    Losses,
    Response,
    Window,
    log_moments,
    round_all_down,
    round_down,
    window_losses,
)
from network_dp.accounting.search import descend
from network_dp.errors import require, require_share, require_whole
from network_dp.noise_rule import cover_elements

Floats = NDArray[np.float64]

ORDERS = 1 + np.geomspace(0.25, 400, 109)
_RARE = 1e-4  # share of delta
_DIRECT = 20_000  # answers whose losses are still convolved directly, in half a second


def local_gamma(epsilon: float, n_buckets: int) -> float:
    """gamma of the L-ary randomised response that is exactly epsilon-LDP: L / (e^epsilon + L - 1)."""
    require(epsilon >= 0, f"epsilon must be >= 0, got {epsilon}")
    return n_buckets / (math.exp(epsilon) + n_buckets - 1)


def ring_epsilon(
    n_users: int,
    n_rounds: int,
    n_buckets: int,
    gamma: float,
    delta: float,
    released: bool = False,
    reissues: int = 0,
) -> float:
    """Network DP of the ring histogram, K rounds (THEORY.md#cover-elements).

    A pair meets K - 1 full windows (u among n - 2 others) and one short one, at worst u's answer among R1 uniform
    elements: v's first visit if u precedes v, else the release. Without a release the second kind has no short
    window, but the first kind, the worse one, exists either way: `released` does not change the worst pair.

    A token that was lost after v saw it and taken up again shows the answers of one window twice, u's with fresh coins:
    nothing but their own lie hides those two. Each of `reissues` adds two such answers (the window they replace, any of
    the K, is counted too: which one is not known).
    """
    require(n_users >= 3, f"a ring needs at least 3 users, got {n_users}")
    require_whole("n_rounds", n_rounds, 1)
    require_whole("reissues", reissues)
    windows = Counter({Window(n_users - 2): n_rounds - 1})
    windows[Window(0, cover_elements(gamma, n_users))] += 1
    windows[Window(0)] += 2 * reissues
    composed = composed_epsilon(Response(n_buckets, gamma), windows, delta)
    # However windows overlap, u answered K times and once more per re-issue: nobody learns more than all answers say.
    return min(composed, local_epsilon(n_rounds + reissues, n_buckets, gamma, delta)) if reissues else composed


def cycles_epsilon(cycles: Iterable[tuple[int, int]], n_buckets: int, gamma: float, delta: float) -> float:
    """After a run on the complete graph: epsilon of one pair from v's actual cycles (m answers, c of them u's).

    The others of a cycle are dealt out to u's answers, floor((m-c)/c) each: c windows (pointing out who is dealt to
    whom is post-processing in the observer's favour).
    """
    windows: Counter[Window] = Counter()
    for answers, mine in cycles:
        require(0 <= mine <= answers, f"a cycle of {answers} answers cannot hold {mine} of u's")
        if mine:
            windows[Window(round_down((answers - mine) // mine))] += mine
    return composed_epsilon(Response(n_buckets, gamma), windows, delta)


def local_epsilon(n_contributions: int, n_buckets: int, gamma: float, delta: float) -> float:
    """Local DP of k answers: exact k-fold composition of randomised response (very many: rounded up on a loss grid).

    The loss of an answer is eps0 (u's value), -eps0 (the other value) or 0, so that of k answers is j eps0 with
    probability p_j = e^(j eps0) p_(-j), and delta(e) = sum over j eps0 > e of p_j (1 - e^(e - j eps0)).
    """
    require_whole("n_contributions", n_contributions)
    require_share("delta", delta)
    response = Response(n_buckets, gamma)
    if gamma == 1 or n_contributions == 0:
        return 0.0
    if n_contributions > _DIRECT or gamma == 0:
        return composed_epsilon(response, Counter({Window(0): n_contributions}), delta)
    rest = gamma / n_buckets
    losses = _power(np.array([rest, gamma * (1 - 2 / n_buckets), 1 - gamma + rest]), n_contributions)
    # Sums and products of positive numbers: each is off by less than one rounding for each that led to it.
    seen = losses[n_contributions + 1 :] * (1 + 8 * n_contributions * np.finfo(float).eps)  # p_j, j = 1, 2, ...
    # With e = j eps0 + x, 0 <= x < eps0: delta(e) = sum p_i - e^x sum p_i e^(-(i-j) eps0) over i > j.
    total = hidden = 0.0
    for j in range(n_contributions - 1, -1, -1):
        total += float(seen[j])
        hidden = (hidden + float(seen[j])) * math.exp(-response.epsilon)
        if total - hidden > delta:
            return j * response.epsilon + math.log((total - delta) / hidden)
    return 0.0


def _power(law: Floats, times: int) -> Floats:
    """The law of a sum of ``times`` independent draws, convolved directly: nothing cancels."""
    result, square = np.ones(1), law
    while times:
        if times % 2:
            result = np.convolve(result, square)
        times //= 2
        square = np.convolve(square, square) if times else square
    return result


def composed_epsilon(response: Response, windows: Counter[Window], delta: float) -> float:
    """epsilon of u's answers in any windows (each one alone: ``Window(0)``), composed as privacy-loss distributions."""
    require_share("delta", delta)
    total = sum(windows.values())
    if response.gamma == 1 or total == 0:
        return 0.0
    if response.gamma == 0:
        return math.inf
    # Losses are rounded up, by half an interval on average: fine enough to cost little, coarse enough to be quick.
    interval = max(1e-7, min(1e-3, response.epsilon / 2_000, 0.005 * min(response.epsilon, 1.0) / math.sqrt(total)))
    parts = [(_losses(response, window, interval), k) for window, k in windows.items() if k]
    exact = composition.epsilon([composition.Part(*losses, k) for losses, k in parts], interval, delta)
    if math.isinf(exact):
        exact = _renyi_epsilon(parts, interval, delta)
    # basic composition of local DP holds too, with delta = 0
    return min(exact, total * response.epsilon)


@lru_cache(maxsize=128)
def _losses(response: Response, window: Window, interval: float) -> Losses:
    return window_losses(response, window, interval)


def _renyi_epsilon(parts: Sequence[tuple[Losses, int]], interval: float, delta: float) -> float:
    """For a composition too long for one transform: moments E e^{(alpha-1) loss} multiply."""
    finite = delta - sum(losses.infinite * k for losses, k in parts)
    if finite <= 0:
        return math.inf

    def at(index: int) -> float:
        above_one = float(ORDERS[index]) - 1
        log_moment = 0.0
        for losses, k in parts:
            values = (losses.lowest + np.arange(len(losses.probabilities))) * interval
            log_moment += k * float(logsumexp(above_one * values, b=losses.probabilities))
        return gaussian.moment_to_epsilon(above_one, log_moment, finite)

    return min(at(index) for index in range(len(ORDERS)))


def complete_epsilon(
    n_users: int,
    n_steps: int,
    n_buckets: int,
    gamma: float,
    delta: float,
    released: bool = False,
    colluders: int = 1,
    orders: Floats = ORDERS,
    accountant: Accountant = "tightest",
) -> float:
    """Network DP of the histogram on the complete graph before a run, path known to everybody.

    Given the path, a cycle of m answers with c of u's is c windows of floor((m-c)/c) others. Renyi moments multiply
    over windows and average over paths (joint convexity), which is the renewal equation of `moments` with
    G(m) = E exp(c ln M(floor((m-c)/c))), M the moment of a window. Short walks: the least of this and of the average
    over paths of exact compositions (`response_walk`).
    """
    law = Law("sum", n_users, n_steps, colluders, released)
    require_share("delta", delta)
    response = Response(n_buckets, gamma)
    if gamma == 1 or n_steps == 0:
        return 0.0
    if gamma == 0:
        return math.inf
    by_renyi = min(_renyi_walk(law, response, delta, tuple(orders.tolist())), n_steps * response.epsilon)
    return by_renyi if accountant == "renyi" else min(by_renyi, response_walk.epsilon(law, response, delta))


@kept
def _renyi_walk(law: Law, response: Response, delta: float, orders: tuple[float, ...]) -> float:
    """By the best of these orders. The moment at one of them says where it is, as far as ln M = alpha (alpha-1) rho.

    Walks with a cycle in which u is met incredibly often would make up all of a high moment: they are charged to delta.
    """
    rare = _RARE * delta / (law.n_steps + 1)  # as many cycles begin at most
    moment, delta = _walk_moment(law, response, orders, rare), delta * (1 - 2 * _RARE)

    def at(index: int, refine: bool = False) -> float:
        return gaussian.rdp_to_epsilon(orders[index], moment(index, refine) / (orders[index] - 1), delta)

    middle = len(orders) // 2
    rho = max(moment(middle, False), 1e-300) / (orders[middle] * (orders[middle] - 1))
    guess = min(int(np.searchsorted(orders, 1 + math.sqrt(-math.log(delta) / rho))), len(orders) - 1)
    best = descend(at, guess, 0, len(orders) - 1, step=8)
    refined = at(best, refine=True) if EXACT_STEPS < law.n_steps <= RECURSION_STEPS else math.inf
    return min(at(best), refined)


@lru_cache(maxsize=8)
def _walk_moment(
    law: Law, response: Response, orders: tuple[float, ...], left_out: float
) -> Callable[[int, bool], float]:
    """(index of an order, refine?) -> ln of the Renyi moment averaged over the walk; each is computed once.

    Cycles in which u is met so often that this has a probability of at most `left_out` are not in it."""
    rows = cycle_rows(law)
    grid = np.unique(round_all_down(np.arange(min(int(rows.longest[-1]), 1 << 15) + 1)))
    shortest = np.repeat(rows.start, rows.size)
    count = np.maximum(rows.count, 1.0)
    window = np.searchsorted(grid, np.maximum((shortest - count) // count, 0.0), side="right") - 1
    rare = _rare(law, rows, left_out)
    ends = rare[rows.first_term + rows.size - 1]
    known = bool(ends[rows.size <= rows.longest].all())  # rows that are cut leave out more than their terms

    @cache
    def moment(index: int, refine: bool) -> float:
        log_window = log_moments(response, np.array(orders[index : index + 1]), grid)[0]
        if not known or not np.isfinite(log_window).all():
            return math.inf
        gains = np.where(rare, -np.inf, rows.count * log_window[window])
        return solve(law, cycle_kernel(law, rows, gains, np.full(len(rows.start), -np.inf)), refine)

    return moment


def _rare(law: Law, rows: Rows, left_out: float) -> NDArray[np.bool_]:
    """Terms c with P(C >= c) <= left_out: from where they fall by half each, their sum is at most twice the first."""
    rate = 1 / (law.n_users - law.colluders)
    mean = np.repeat(rows.longest, rows.size) * rate
    falling = (rows.count + 1) * (1 - rate) >= 2.001 * mean
    return np.asarray(falling & (rows.log_pmf <= math.log(left_out / 2.001)))


def erlingsson_epsilon(epsilon_0: float, n_answers: int, delta: float) -> float:
    """Closed form, 12 eps0 sqrt(ln(1/delta)/n) (Erlingsson et al. 2019, Cor. 9); infinite outside its conditions."""
    if not (epsilon_0 < 0.5 and n_answers > 1000 and delta < 0.01):
        return math.inf
    return 12 * epsilon_0 * math.sqrt(math.log(1 / delta) / n_answers)
