"""Is every noise fresh: does none repeat, cancel or follow another, of the same user or of another one?
(THEORY.md#noise-once)

Draws of an honest run are independent. What is compared (``draws`` says what a mark and a score are):

* marks: how many draws repeat an earlier one, in all and per user. Given all before it, the i-th draw repeats one of
  them with probability at most 2 (i - 1) q, q the largest probability of any noise.
* scores of all pairs of draws, where they are long enough to tell; in a long log, of draws near each other;
* scores of all pairs of users: the k-th draw of one with the (k + l)-th of the other, for small l; and each draw of
  one with the other's last one before it;
* each draw with the few before it, over the whole walk.

Given y, x.y / |y| of scores x independent of y is sub-Gaussian with proxy 1: P(|x.y| >= t |y|) <= 2 exp(-t^2/2). Where
x and y come from one sequence (a user's own draws, or the walk), M = sum x_i.y_i is a martingale with proxy
V = sum |y_i|^2, and P <= sqrt((V + c)/c) exp(-M^2 / (2 (V + c))) for any fixed c (mixture of exponential martingales).
All tests together cost a bounded number of multiplications per draw.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.stats import binom

from analyzer.checks.integrity import Run
from analyzer.checks.randomness import Question, check, seen_values
from analyzer.read.tables import NOBODY, Floats, Ints
from analyzer.verdict import NOISE_ALARM, Check
from network_dp.plan import Plan

Scores = NDArray[np.float32]

FAMILIES: Final = 6  # kinds of questions that share the false alarms of the check
_LAGS: Final = 4
_WALK_LAGS: Final = 8
_SHORTEST: Final = 16  # of a score that is compared by itself
_PRODUCTS: Final = 2_000_000_000  # multiplications that one kind of comparison may cost
_SWEEP: Final = 500_000_000
_CELLS: Final = 1 << 24  # numbers of a table of pairs that are held at once
_CANDIDATES: Final = 32
_MARK_CELL: Final = 2.0**-60  # two marks of 64 bits may meet by accident
_SGD_CELL: Final = 2.0**-30  # no float64 noise is more likely than this


@dataclass(frozen=True, slots=True)
class Sequence:
    """All draws in the order in which the token was held."""

    user: Ints
    row: Ints
    mark: NDArray[np.uint64]
    scores: Scores

    def __len__(self) -> int:
        return len(self.user)


def in_walk_order(run: Run) -> Sequence:
    draws, sents = run.logs.noise.draws, run.logs.sents
    row = draws["row"]
    counter = np.array([epoch[0] for epoch in run.logs.epochs] or [0])[sents["epoch"][row]]
    order = np.lexsort((row, sents["to"][row] == NOBODY, sents["step"][row], counter))
    draws = draws[order]
    return Sequence(draws["user"].astype(np.int64), draws["row"], draws["mark"], run.logs.noise.scores[order])


def fresh_noise(run: Run) -> Check:
    """No noise repeats or follows another."""
    sequence = in_walk_order(run)
    return check(
        run,
        "fresh",
        "Every noise is fresh: none repeats or follows another",
        list(_questions(run, sequence)) if len(sequence) > 1 else [],
        "Equal noises against chance; correlations of draws, of users' sequences and along the walk by sub-Gaussian "
        "tails; Bonferroni.",
        "THEORY.md#noise-once, #noise-source",
        len(sequence),
        seen=seen_values(run),
        alarm=NOISE_ALARM,
    )


def _questions(run: Run, sequence: Sequence) -> Iterator[Question]:
    if run.plan.mechanism.additive:
        yield from _repeats(run, sequence)
    if sequence.scores.shape[1] >= _SHORTEST:
        yield from _pairs_of_draws(run, sequence)
    yield from _aligned(run, sequence)
    if len(sequence) * run.plan.n <= _SWEEP and run.plan.n**2 <= 2 * _CELLS:
        yield from _after_last(run, sequence)
    yield from _along_the_walk(run, sequence)


def _bound(squared: float, questions: float) -> float:
    """p of the largest t^2 among so many questions, this kind of question being one of ``FAMILIES``."""
    return min(1.0, math.exp(min(0.0, math.log(2 * FAMILIES * questions) - squared / 2)))


# ---- equal noises -----------------------------------------------------------------------------------------------


def likeliest(plan: Plan) -> float:
    """An upper bound on the probability of any one value of a whole noise vector."""
    each = plan.mechanism.likeliest(plan.unit_size, plan.noise.grid or 1.0) if plan.task.additive else _SGD_CELL
    return max(each**plan.task.dimension, _MARK_CELL)


def _repeat_tail(repeats: Ints, count: Ints, most: float) -> Floats:
    """P(at least so many repeats among ``count`` draws), Bernoulli variables of probability min(1, 2 (i-1) most)."""
    full = np.minimum(count, 1 + int(min(0.5 / most, 1e15)))
    mean = most * full * (full - 1.0) + (count - full)
    tail = binom.sf(repeats - 1, count, np.minimum(1.0, mean / np.maximum(count, 1)))  # Hoeffding 1956: beyond the mean
    markov = np.where(repeats > 0, np.minimum(1.0, mean / np.maximum(repeats, 1)), 1.0)
    return np.asarray(np.where(repeats > mean + 1, tail, markov), dtype=np.float64)


def _repeats(run: Run, sequence: Sequence) -> Iterator[Question]:
    n, most = run.plan.n, likeliest(run.plan)
    marks, first, inverse = np.unique(sequence.mark, return_index=True, return_inverse=True)
    count = len(sequence)
    repeats = count - len(marks)
    p = float(_repeat_tail(np.array([repeats]), np.array([count]), most)[0]) * FAMILIES
    if p <= NOISE_ALARM:
        again = np.flatnonzero(first[inverse] != np.arange(count))
        between = sequence.user[again] * n + sequence.user[first[inverse[again]]]
        _, kind, often = np.unique(between, return_inverse=True, return_counts=True)
        for place in again[often[kind] * 2 >= often.max()].tolist():  # not those that met by accident
            user, other = int(sequence.user[place]), int(sequence.user[first[inverse[place]]])
            text = f"{run.logs.name(user)} used a noise of {run.logs.name(other)} again"
            yield Question(p, text, user, int(sequence.row[place]))
    yield Question(min(1.0, p), f"{repeats} of {count} noises are others again")
    own = sequence.user.astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15) ^ sequence.mark
    _, at = np.unique(own, return_index=True)
    of_user = np.bincount(sequence.user, minlength=n)
    repeated = of_user - np.bincount(sequence.user[at], minlength=n)
    p_user = _repeat_tail(repeated, of_user, most) * int(np.count_nonzero(of_user)) * FAMILIES
    for user in np.flatnonzero(p_user <= NOISE_ALARM).tolist():
        text = f"{run.logs.name(user)} used its own noises again: {repeated[user]} of {of_user[user]}"
        yield Question(float(p_user[user]), text, user)
    yield Question(min(1.0, float(p_user.min())), "noises of one user")


# ---- draw with draw ---------------------------------------------------------------------------------------------


def _pairs_of_draws(run: Run, sequence: Sequence) -> Iterator[Question]:
    """All pairs, or in a long log those within a block of the walk."""
    count, width = sequence.scores.shape
    block = max(2, min(count, _PRODUCTS // (count * width)))
    worst, where, asked = 0.0, (0, 0), 0
    for start in range(0, count, block):
        part = sequence.scores[start : start + block]
        norms = np.maximum(np.einsum("ij,ij->i", part, part), 1e-30)
        products = part @ part.T
        np.fill_diagonal(products, 0.0)
        squared = products**2 / norms[None, :]
        place = int(np.argmax(squared))
        i, j = divmod(place, len(part))
        asked += len(part) * (len(part) - 1)
        if squared[i, j] > worst:
            worst, where = float(squared[i, j]), (start + i, start + j)
    p = _bound(worst, max(1, asked))
    later, earlier = max(where), min(where)
    yield _of_pair(run, p, sequence, later, int(sequence.user[earlier]), "one of its noises follows one of")


def _of_pair(run: Run, p: float, sequence: Sequence, place: int, other: int, text: str) -> Question:
    user = int(sequence.user[place])
    return Question(p, f"{run.logs.name(user)}: {text} {run.logs.name(other)}'s", user, int(sequence.row[place]))


# ---- user with user ---------------------------------------------------------------------------------------------


def _by_user(n: int, sequence: Sequence) -> tuple[Scores, Scores]:
    """Scores as (user, k-th draw, coordinate), 0 where there is none, and which are there."""
    order = np.argsort(sequence.user, kind="stable")
    count = np.bincount(sequence.user, minlength=n)
    place = np.arange(len(sequence)) - np.repeat(np.cumsum(count) - count, count)
    longest = int(count.max())
    width = max(1, min(sequence.scores.shape[1], _PRODUCTS // (n * n * longest)))
    table = np.zeros((n, longest, width), dtype=np.float32)
    there = np.zeros((n, longest), dtype=np.float32)
    table[sequence.user[order], place] = sequence.scores[order, :width]
    there[sequence.user[order], place] = 1.0
    return table, there


def _aligned(run: Run, sequence: Sequence) -> Iterator[Question]:
    """The k-th draw of one user with the (k + lag)-th of another, and of itself."""
    users, compact = np.unique(sequence.user, return_inverse=True)
    n = len(users)
    table, there = _by_user(n, Sequence(compact, sequence.row, sequence.mark, sequence.scores))
    longest, width = table.shape[1:]
    lags = int(min(_LAGS, longest - 1, _PRODUCTS // (n * n * longest * width)))
    squares = np.einsum("uki,uki->uk", table, table)
    best = (0.0, 0, 0)
    own_p, own_user = 1.0, 0
    for lag in range(lags + 1):
        later, earlier = table[:, lag:].reshape(n, -1), table[:, : longest - lag].reshape(n, -1)
        for start in range(0, n, max(1, _CELLS // n)):
            some = np.arange(start, min(n, start + max(1, _CELLS // n)))
            products = later[some] @ earlier.T
            proxies = np.maximum(there[some, lag:] @ squares[:, : longest - lag].T, 1e-30)
            itself = (some - start, some)
            if lag:
                expected = width * np.maximum(there[some, lag:].sum(axis=1), 1)
                p = _mixture(products[itself], proxies[itself], expected)
                own_p, own_user = min((own_p, own_user), (float(p.min()), int(some[np.argmin(p)])))
            products[itself] = 0.0
            squared = products**2 / proxies
            i, j = divmod(int(np.argmax(squared)), n)
            best = max(best, (float(squared[i, j]), start + i, j))
    yield Question(
        min(1.0, own_p * n * max(1, lags) * FAMILIES),
        f"{run.logs.name(int(users[own_user]))}: its noises follow its own",
        int(users[own_user]),
    )
    i, j = int(users[best[1]]), int(users[best[2]])
    p_pair = _bound(best[0], n * n * (lags + 1))
    yield Question(p_pair, f"{run.logs.name(i)}: its noises follow {run.logs.name(j)}'s, one by one", i)


def _mixture(products: ArrayLike, proxies: ArrayLike, expected: ArrayLike) -> Floats:
    """P of a martingale as large as ``products`` with these proxies; c is a tenth of what is expected of them."""
    c = 0.1 * np.asarray(expected, dtype=np.float64)
    wide = np.asarray(proxies, dtype=np.float64) + c
    p = np.sqrt(wide / c) * np.exp(-(np.asarray(products, dtype=np.float64) ** 2) / (2 * wide))
    return np.asarray(np.minimum(1.0, p), dtype=np.float64)


def _after_last(run: Run, sequence: Sequence) -> Iterator[Question]:
    """Each draw of one user with the last one before it of every other user."""
    n, count = run.plan.n, len(sequence)
    width = max(1, min(sequence.scores.shape[1], _SWEEP // (n * count)))
    scores = np.ascontiguousarray(sequence.scores[:, :width])
    last = np.zeros((n, width) if width > 1 else n, dtype=np.float32)
    products = np.zeros((n, n), dtype=np.float32)
    for user, score in zip(sequence.user.tolist(), scores if width > 1 else scores[:, 0], strict=True):
        products[user] += last @ score if width > 1 else last * score
        last[user] = score
    np.fill_diagonal(products, 0.0)
    # Only the pairs that look worst are measured exactly: the others have a smaller t, and all are counted.
    squares = np.einsum("ij,ij->i", scores, scores)
    about = np.bincount(sequence.user, squares, minlength=n) / np.maximum(np.bincount(sequence.user, minlength=n), 1)
    guess = products**2 / np.maximum(np.outer(np.bincount(sequence.user, minlength=n), about), 1e-30)
    likely = np.argpartition(guess.ravel(), -min(_CANDIDATES, n * n))[-min(_CANDIDATES, n * n) :]
    best = (0.0, 0, 0)
    for i, j in (divmod(int(place), n) for place in likely):
        mine, theirs = np.flatnonzero(sequence.user == i), np.flatnonzero(sequence.user == j)
        before = np.searchsorted(theirs, mine) - 1
        proxy = float(squares[theirs[before[before >= 0]]].sum())
        best = max(best, (float(products[i, j]) ** 2 / max(proxy, 1e-30), i, j))
    _, i, j = best
    p = _bound(best[0], n * n)
    yield Question(p, f"{run.logs.name(i)}: its noises follow the last ones of {run.logs.name(j)}", i)


def _along_the_walk(run: Run, sequence: Sequence) -> Iterator[Question]:
    """Every draw with the one a few steps before it, all users together."""
    count, width = sequence.scores.shape
    lags = min(_WALK_LAGS, count - 1)
    for lag in range(1, lags + 1):
        later, earlier = sequence.scores[lag:], sequence.scores[:-lag]
        product = np.array([np.einsum("ij,ij->", later, earlier, dtype=np.float64)])
        proxy = np.array([np.einsum("ij,ij->", earlier, earlier, dtype=np.float64)])
        p = float(_mixture(product, proxy, np.array([width * (count - lag)]))[0]) * lags * FAMILIES
        yield Question(min(1.0, p), f"noises follow those {lag} draws before")


def checks(run: Run) -> list[Check]:
    return [fresh_noise(run)]
