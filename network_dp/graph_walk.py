"""ln E exp(b S_uv) and epsilon(u -> O) before a walk on any graph whose path everybody knows (THEORY.md#graph-promise).

The token starts at X_1 ~ `start` and moves by the row-stochastic `transition`, X_2, .., X_T; T = `n_steps`. `target` is
the user u, `observers` the set O that shares what it sees. All comes from first-passage kernels between the states
E = O + {u}, with the start as one more row, a state at time 0 that is left once and never met again:

    first[m, x, y] = P(X_m = y, X_1 .. X_{m-1} not in E | X_0 = x),      stay[t, x] = P(X_1 .. X_t not in E | X_0 = x).

A walk is cut at each visit of O and, in between, at looks at u; the kernel of a piece weighs exp(b c^2/m), c being u's
contributions and m the steps of the piece. More looks only add to what is seen, (c + c')^2/(m + m') <= c^2/m + c'^2/m':

* SGD: a look at every visit of u, so c = 1: the disjoint windows, an upper bound of the exposure.
* Sum: a look only after `_PIECE` contributions in one cycle. Shorter walks have none, and the moment is exact.

What was cut off counts only if O gets the token later: `seen` holds the weight of those walks, `unseen` the probability
of the others. With a release every walk is seen, with one more piece to the end.

Nothing is ever subtracted, so that all errors are relative; they are added up in `_margin` (THEORY.md#graph-rounding).
"""

from __future__ import annotations

import math
from collections.abc import Collection
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from network_dp.accounting import gaussian
from network_dp.accounting.bounds import GREATEST_MU, GRID, LEAST_MU, order_above_one
from network_dp.accounting.moments import Task
from network_dp.accounting.rounding import UNIT
from network_dp.accounting.search import descend
from network_dp.errors import require, require_noise, require_share, require_whole

Floats = NDArray[np.float64]

_PIECE = 64  # contributions of a sum between two looks at u
_LONG_PIECE, _WORK = 10, 1.6e10  # at least, where a walk of T steps is so long that T^2 times the pieces is more work
_SUM_TOLERANCE = 1e-9  # how far from 1 a row may sum; what is missing is put back into the bound
_TINY = 1e-300  # stands for probabilities that underflowed
_LARGEST_EXPONENT = 600.0
_LOG_SPACE_STEPS = 4_000  # walks up to here are solved in log space where plain numbers do not reach
LOWEST, HIGHEST = -400, 160  # of the grid of b


def prepare(
    task: Task,
    transition: ArrayLike,
    start: ArrayLike,
    target: int,
    observers: Collection[int],
    n_steps: int,
    released: bool = False,
) -> Exposed:
    """The kernels of one target and one set of observers, for many b or noises; X_1 is drawn from `start`.

    The law of the walk is `transition`, also where observers forward the token.
    """
    require(task in ("sum", "sgd"), f'task must be "sum" or "sgd", got {task!r}')
    require_whole("n_steps", n_steps, 1)
    p, first_law = check_law(transition, start)
    n = len(first_law)
    require_whole("target", target)
    require(target < n, f"target must be a user index from 0 to {n - 1}, got {target}")
    members = list(observers)
    for member in members:
        require_whole("an observer", member)
    require(len(members) > 0, "observers must name at least one user")
    require(max(members) < n, f"observers must be user indices from 0 to {n - 1}, got {max(members)}")
    require(len(set(members)) == len(members), f"observers must be different users, got {sorted(members)}")
    require(target not in members, f"target {target} is one of the observers: a user hides nothing from itself")
    first, stay = first_passages(p, first_law, [*members, target], n_steps)
    kernel = _sum_pieces(first, stay) if task == "sum" else _sgd_pieces(first, stay)
    return Exposed(kernel, n_steps, released, _margin(n, n_steps, len(members)) + _missing(p, first_law, n_steps), {})


def check_law(transition: ArrayLike, start: ArrayLike) -> tuple[Floats, Floats]:
    """The transition matrix and the law of the first holder, as arrays."""
    p, first_law = np.asarray(transition, dtype=np.float64), np.asarray(start, dtype=np.float64)
    square = p.ndim == 2 and p.shape[0] == p.shape[1] and p.shape[0] >= 2
    require(square, f"transition must be a square matrix over at least 2 users, got shape {p.shape}")
    require(first_law.shape == (len(p),), f"start must be a vector over {len(p)} users, got shape {first_law.shape}")
    for name, values in (("transition", p), ("start", first_law)):
        require(bool(np.all(values >= 0)), f"{name} must hold probabilities, got one that is negative or not a number")
    sums = p.sum(axis=1)
    worst = int(np.argmax(np.abs(sums - 1)))
    require(abs(sums[worst] - 1) <= _SUM_TOLERANCE, f"row {worst} of transition must sum to 1, got {sums[worst]:.12g}")
    total = float(first_law.sum())
    require(abs(total - 1) <= _SUM_TOLERANCE, f"start must sum to 1, got {total:.12g}")
    return p, first_law


def first_passages(p: Floats, start: Floats, states: list[int], n_steps: int) -> tuple[Floats, Floats]:
    """first[m, x, y] and stay[t, x] for rows x = states and the start, columns y = states; m, t = 0 .. T."""
    met = np.array(states)
    others = np.setdiff1d(np.arange(len(p)), met)
    first, stay = np.zeros((n_steps + 1, len(states) + 1, len(states))), np.ones((n_steps + 1, len(states) + 1))
    rows = np.vstack([p[states], start])
    first[1], away = rows[:, states], np.ascontiguousarray(rows[:, others])
    stay[1] = away.sum(axis=1)
    back, inner = _operand(p[np.ix_(others, met)]), _operand(p[np.ix_(others, others)])
    with np.errstate(under="ignore"):
        for m in range(2, n_steps + 1):
            first[m], away = away @ back, away @ inner
            stay[m] = away.sum(axis=1)
    positive = min(float(p[p > 0].min()), float(start[start > 0].min()))
    if n_steps * -math.log(positive) > _LARGEST_EXPONENT:  # products may have underflowed
        first[2:] += _TINY
        stay[1:] += _TINY
    return first, stay


def _operand(matrix: Floats) -> Floats:
    """A sparse matrix where most entries are 0; both multiply from the right by `@`."""
    if matrix.size < 10_000 or np.count_nonzero(matrix) > 0.05 * matrix.size:
        return np.ascontiguousarray(matrix)
    from scipy.sparse import csr_array

    sparse: Floats = csr_array(matrix)  # type: ignore[assignment]  # used as an operand only
    return sparse


def _missing(p: Floats, start: Floats, n_steps: int) -> float:
    """What rows that sum to less than 1 could hide: the law meant is the row divided by its sum, one row per step."""
    least = min(min(math.fsum(row) for row in p), math.fsum(start))
    return -n_steps * math.log(min(least, 1.0) * (1 - 2 * UNIT))


def _margin(n_users: int, n_steps: int, n_observers: int) -> float:
    """Relative errors of all operations that make up the weight of one path of T steps.

    At most T products with the matrix (n + 3 roundings each), 2 T convolutions of T terms, and T renewals of T terms
    for each of the states; logarithms and exponentials are charged where they are taken.
    """
    each = (n_users + 3) + 2 * (n_steps + 4) + ((n_observers + 1) * (n_steps + 1) + 8)
    return 1.01 * UNIT * (n_steps + 2) * each


# --- pieces


@dataclass(frozen=True)
class Pieces:
    """Kernels of the pieces of a walk, by their c. Rows: O, u (a look), start. Columns: O, u.

    `moves[c][L, x, y]`: from x to y in L steps with c contributions, the piece being `steps[x]` + L long;
    `ends[c][t, x]`: t steps more without an end. `unseen[t, x]`: O is not met in t more steps.
    """

    counts: tuple[int, ...]
    moves: list[Floats]
    ends: list[Floats]
    steps: Floats
    unseen: Floats


def _sgd_pieces(first: Floats, stay: Floats) -> Pieces:
    """A window of u is as long as the way to the next state, its own step included; other pieces weigh 1."""
    u = first.shape[2] - 1
    idle, idle_end = first.copy(), stay.copy()
    idle[:, u], idle_end[:, u] = 0.0, 0.0
    shift, shift_end = first - idle, stay - idle_end  # one of the two is 0 everywhere: exact
    return Pieces((0, 1), [idle, shift], [idle_end, shift_end], _piece_steps(first), _unseen(first, stay))


def _piece_steps(first: Floats) -> Floats:
    """Steps of a piece of L moves: L from u, whose own step is inside, L - 1 from an observer or the start."""
    steps = np.full(first.shape[1], -1.0)
    steps[first.shape[2] - 1] = 0.0
    return steps


def _sum_pieces(first: Floats, stay: Floats) -> Pieces:
    """c contributions: from x to u, c - 1 returns, and on to O; the look, with `_PIECE` of them, ends at u again."""
    n_steps, n_rows, n_states = len(first) - 1, first.shape[1], first.shape[2]
    u = n_states - 1
    most = min(_PIECE, n_steps, max(_LONG_PIECE, int(_WORK / n_steps**2)))
    nothing = first.copy()
    nothing[:, u], nothing[:, :, u] = 0.0, 0.0
    at_end = stay.copy()
    at_end[:, u] = 0.0
    moves, ends = [nothing], [at_end]
    reach = first[:, :, u].copy()  # the first contribution of the piece
    reach[:, u] = 0.0
    reach[0, u] = 1.0
    for _ in range(most):
        move = np.zeros_like(first)
        for x in range(n_rows):
            for y in range(n_states - 1):
                move[:, x, y] = _convolved(reach[:, x], first[:, u, y])
        ends.append(np.stack([_convolved(reach[:, x], stay[:, u]) for x in range(n_rows)], axis=1))
        moves.append(move)
        reach = np.stack([_convolved(reach[:, x], first[:, u, u]) for x in range(n_rows)], axis=1)
    if most < n_steps:
        moves[-1][:, :, u] = reach
    return Pieces(tuple(range(most + 1)), moves, ends, _piece_steps(first), _unseen(first, stay))


def _unseen(first: Floats, stay: Floats) -> Floats:
    """P(O is not met in t more steps) from every row: u may be met any number of times."""
    n_steps, u = len(first) - 1, first.shape[2] - 1
    from_u, backwards = np.empty(n_steps + 1), first[::-1, u, u].copy()
    for t in range(n_steps + 1):
        from_u[t] = stay[t, u] + backwards[n_steps - t : n_steps] @ from_u[:t]
    rows = [stay[:, x] + _convolved(first[:, x, u], from_u) for x in range(first.shape[1])]
    rows[u] = from_u
    return np.stack(rows, axis=1)


def _convolved(left: Floats, right: Floats) -> Floats:
    """The first T + 1 terms of a convolution, term by term: no transform, whose errors are not relative."""
    with np.errstate(under="ignore"):
        return np.convolve(left, right)[: len(left)]


# --- moments


@dataclass(frozen=True)
class Exposed:
    """One target and one set of observers: moments for any b, epsilon for any noise."""

    pieces: Pieces
    n_steps: int
    released: bool
    margin: float
    known: dict[int, float]  # moments on the grid of b, shared between noises

    def log_moment(self, b: float) -> float:
        """ln E exp(b S), rounded up. "sum": exact up to `_PIECE` contributions per cycle; "sgd": disjoint windows."""
        require(0 < b < math.inf, f"b must be positive and finite, got {b}")
        moves, ends = self._weighted(self.pieces.moves, b), self._weighted(self.pieces.ends, b)
        value = _solve(moves, ends if self.released else None, self.pieces.unseen)
        return max(value + self.margin + 16 * UNIT * (4 + abs(value)), 0.0)

    def _weighted(self, by_count: list[Floats], b: float) -> Floats:
        """ln of the sum over c of weight exp(b c^2/m)."""
        lengths = np.arange(self.n_steps + 1, dtype=np.float64)[:, None] + self.pieces.steps
        if by_count is self.pieces.ends:
            lengths += 1.0
        shape = lengths.shape + (1,) * (by_count[0].ndim - 2)
        longest = np.maximum(lengths.reshape(shape), 1.0)
        total = np.full(by_count[0].shape, -np.inf)
        with np.errstate(divide="ignore", under="ignore"):
            for c, weights in zip(self.pieces.counts, by_count, strict=True):
                logs, gain = np.log(weights), b * c * c / longest
                logs += gain + 16 * UNIT * np.where(weights > 0, 1 + np.abs(logs) + gain, 0.0)
                total = np.logaddexp(total, logs)
        total += 16 * UNIT * np.where(np.isfinite(total), (1 + np.abs(total)) * len(by_count), 0.0)
        return total

    def epsilon(self, sigma: float, sensitivity: float, delta: float) -> float:
        """Epsilon at `delta` by the best Renyi order (THEORY.md#before-a-run); for "sgd" sensitivity is 2 L.

        The conditions are those of `bounds.network_bound`.
        """
        require_noise(sigma, sensitivity)
        require_share("delta", delta)
        if sensitivity == 0:
            return 0.0
        if sigma == 0 or not sensitivity / sigma <= GREATEST_MU:
            return math.inf
        return self._at(self.best_index(sigma, sensitivity, delta), sigma, sensitivity, delta)

    def best_index(self, sigma: float, sensitivity: float, delta: float) -> int:
        """Where on the grid of b the best order lies."""
        return descend(lambda index: self._at(index, sigma, sensitivity, delta), 0, LOWEST, HIGHEST)

    def _at(self, index: int, sigma: float, sensitivity: float, delta: float) -> float:
        if index not in self.known:
            self.known[index] = self.log_moment(math.exp(index * GRID))
        above_one = min(order_above_one(index, max(sensitivity / sigma, LEAST_MU)), 1 / delta)
        return gaussian.moment_to_epsilon(above_one, self.known[index], delta)


def _solve(moves: Floats, ends: Floats | None, unseen: Floats) -> float:
    """ln of the value at the start after T steps; all but `unseen` are logarithms. Tilted so that nothing overflows."""
    n_steps = len(moves) - 1
    tilt = _tilt(moves)
    steps = np.arange(n_steps + 1, dtype=np.float64)
    last = np.log(np.maximum(unseen, 5e-324)) if ends is None else ends
    slack = 1 + 4 * UNIT
    exponents = moves - (steps * tilt * (1 - 4 * UNIT))[:, None, None]
    closing = last - (steps * tilt * (1 - 4 * UNIT))[:, None]
    if max(float(exponents.max()), float(closing.max())) > _LARGEST_EXPONENT:
        return _solve_in_logs(moves, last, ends is None)
    with np.errstate(under="ignore"):
        final = _renewal(np.exp(exponents) * slack**8, np.exp(closing) * slack**8, ends is None)
    if not 1e-280 < final < math.inf:
        return _solve_in_logs(moves, last, ends is None)
    return math.log(final) + n_steps * tilt


def _renewal(moves: Floats, closing: Floats, unseen: bool) -> float:
    """value_x(t) = closing_x(t) + sum over L, y of moves[L, x, y] value_y(t - L); if `unseen`, a look never closes."""
    n_steps, n_states = len(moves) - 1, moves.shape[2]
    backwards = [np.ascontiguousarray(moves[:0:-1, x]).reshape(-1) for x in range(n_states + 1)]
    values = np.empty((n_steps + 1, n_states))
    ending = closing[:, :n_states].copy()
    if unseen:
        ending[:, n_states - 1] = 0.0
    flat = values.reshape(-1)
    for t in range(n_steps):
        for x in range(n_states):
            values[t, x] = ending[t, x] + backwards[x][(n_steps - t) * n_states :] @ flat[: t * n_states]
    return float(closing[n_steps, n_states] + backwards[n_states] @ flat[: n_steps * n_states])


def _solve_in_logs(moves: Floats, last: Floats, unseen: bool) -> float:
    """The same for numbers of any size; beyond `_LOG_SPACE_STEPS` infinity, at an order that no useful bound needs."""
    n_steps, n_states = len(moves) - 1, moves.shape[2]
    if n_steps > _LOG_SPACE_STEPS:
        return math.inf
    values = np.full((n_steps + 1, n_states), -np.inf)
    final = -math.inf
    for t in range(n_steps + 1):
        for x in range(n_states + 1):
            if x == n_states and t < n_steps:
                continue
            closing = -np.inf if unseen and x == n_states - 1 else last[t, x]
            terms = np.append((moves[t:0:-1, x] + values[:t]).reshape(-1), closing)
            total = _log_sum(terms)
            if x < n_states:
                values[t, x] = total
            else:
                final = total
    return final


def _log_sum(terms: Floats) -> float:
    top = float(terms.max())
    if math.isinf(top):
        return top
    with np.errstate(under="ignore"):
        total = math.log(float(np.exp(terms - top).sum()))
    return top + total + 16 * UNIT * (4 + abs(top))


def _tilt(moves: Floats) -> float:
    """ln of a growth at which the kernels between states sum to a matrix of radius about 1."""
    n_states = moves.shape[2]
    inner = moves[1:, :n_states]
    lengths = np.arange(1, len(moves), dtype=np.float64)[:, None, None]

    def radius(tilt: float) -> float:
        with np.errstate(under="ignore", over="ignore"):
            total = np.exp(np.minimum(inner - tilt * lengths, 700.0)).sum(axis=0)
        return float(np.abs(np.linalg.eigvals(total)).max())

    low, high = 0.0, 1e-4
    while radius(high) > 1:
        low, high = high, 4 * high
    for _ in range(12):
        middle = (low + high) / 2
        low, high = (middle, high) if radius(middle) > 1 else (low, middle)
    return high
