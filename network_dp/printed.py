"""Formulas of the paper, and of others on graphs, AS PRINTED, for figures and comparison only (THEORY.md#printed).

Several are wrong. Nothing that calibrates, promises or judges may import this module (a test checks it); every function
says in its first lines what is wrong and which function to use instead.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from network_dp.errors import require

if TYPE_CHECKING:
    from network_dp.plan import Plan

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class PrintedGuarantee:
    """An (epsilon, delta) pair as a theorem of the paper states it."""

    epsilon: float
    delta: float


def gaussian_sigma(epsilon: float, delta: float, sensitivity: float) -> float:
    """Classical Gaussian mechanism, sigma^2 = 2 ln(1.25/delta) Delta^2/epsilon^2.

    Wrong for epsilon >= 1 (proved only below), loose everywhere. Use `gaussian.sigma`.
    """
    return math.sqrt(2 * math.log(1.25 / delta)) * sensitivity / epsilon


def advanced_composition(epsilon: float, count: float, delta_prime: float) -> float:
    """sqrt(2 k ln(1/delta')) eps + k eps (e^eps - 1) (Dwork, Rothblum & Vadhan 2010).

    Valid but very loose for Gaussian noise, which composes exactly. Use `bounds.ring_epsilon`, `bounds.local_epsilon`.
    """
    return math.sqrt(2 * count * math.log(1 / delta_prime)) * epsilon + count * epsilon * _expm1(epsilon)


def _expm1(value: float) -> float:
    """e^value - 1, infinite where a float cannot hold it."""
    return math.expm1(value) if value < 700 else math.inf


def theorem_1(n_rounds: int, epsilon: float, delta: float, delta_prime: float) -> PrintedGuarantee:
    """Thm 1 (ring, sum): K-fold advanced composition.

    Valid without release, very loose (K=100, eps=0.1: 6.7 against an exact 0.63). Use `bounds.ring_epsilon`.
    """
    return PrintedGuarantee(advanced_composition(epsilon, n_rounds, delta_prime), n_rounds * delta + delta_prime)


def theorem_1_at(n_rounds: int, sigma: float, sensitivity: float, delta: float) -> float:
    """Epsilon of Thm 1 at a total delta, one half for the rounds and one for their composition. Loose, as it is."""
    each = delta / (2 * n_rounds)
    return theorem_1(n_rounds, _classical_epsilon(sigma, sensitivity, each), each, delta / 2).epsilon


def _classical_epsilon(sigma: float, sensitivity: float, delta: float) -> float:
    """The epsilon that `gaussian_sigma` answers with this sigma. Wrong from 1 on."""
    return gaussian_sigma(1.0, delta, sensitivity) / sigma if sigma > 0 else math.inf


def theorem_1_noises(n_users: int, n_rounds: int) -> int:
    """Thm 1: floor(Kn/(n-1)) noises. Wrong: one too few unless (n-1) divides K. Use `utility.ring_noises`."""
    return n_rounds * n_users // (n_users - 1)


def remark_1_share(sigma: float, n_users: int) -> float:
    """Remark 1: each user adds std sigma/sqrt(n).

    Wrong: an increment holds only n-1 foreign shares, so sigma/sqrt(n-1) is needed, and more when users are skipped.
    """
    return sigma / math.sqrt(n_users)


def theorem_2_gamma(epsilon: float, delta: float, n_users: int, n_buckets: int) -> float:
    """Thm 2: gamma = L/(exp(12 eps sqrt(ln(1/delta)/n)) + L - 1).

    Wrong: the exponent is inverted (gamma tends to 1 as n grows); eps0 = eps sqrt(n/ln(1/delta))/12 was meant.
    Use `calibrate.gamma`.
    """
    exponent = 12 * epsilon * math.sqrt(math.log(1 / delta) / n_users)
    return n_buckets / (math.exp(exponent) + n_buckets - 1)


def theorem_2(n_rounds: int, epsilon: float, delta: float, delta_prime: float) -> PrintedGuarantee:
    """Thm 2 (ring, histogram): the composition of Thm 1.

    Wrong: does not follow from the printed gamma. Use `shuffle.ring_epsilon`.
    """
    return theorem_1(n_rounds, epsilon, delta, delta_prime)


def theorem_2_at(n_users: int, n_rounds: int, n_buckets: int, gamma: float, delta: float) -> float:
    """Epsilon of Thm 2 at a total delta, split as for Thm 1, for the gamma it prints. Wrong as that gamma is."""
    each = delta / (2 * n_rounds)
    per_round = _epsilon_0(n_buckets, gamma) / (12 * math.sqrt(math.log(1 / each) / n_users))
    return theorem_2(n_rounds, per_round, each, delta / 2).epsilon


def _epsilon_0(n_buckets: int, gamma: float) -> float:
    return math.inf if gamma == 0 else math.log1p(n_buckets * (1 - gamma) / gamma)


def histogram_estimate(count: float, gamma: float, n_buckets: int) -> float:
    """Alg. 2 and 5: (tau - gamma/L)/(1 - gamma). Wrong: biased on counts; the mean of N answers is off by gamma N/L."""
    return (count - gamma / n_buckets) / (1 - gamma)


def visits(n_users: int, n_steps: int, delta_hat: float) -> float:
    """N_v = T/n + sqrt(3 T ln(1/delta_hat)/n) by Chernoff.

    Wrong outside T >= 3 n ln(1/delta_hat), e.g. at T = n = 1000, delta_hat = 1e-6. Use `bounds.visits`.
    """
    return n_steps / n_users + math.sqrt(3 * n_steps * math.log(1 / delta_hat) / n_users)


def theorem_3(
    n_users: int, n_steps: int, epsilon: float, delta: float, delta_prime: float, delta_hat: float
) -> PrintedGuarantee:
    """Thm 3 (complete graph, sum): N_v + T/n cycles of 3 eps/sqrt(n) each, advanced composition as meant.

    Wrong: ignores several contributions of u in one cycle; the rate is 1/(n-1); needs eps <= 1 and a hidden path.
    Use `bounds.network_epsilon`.
    """
    cycles = visits(n_users, n_steps, delta_hat) + n_steps / n_users
    value = advanced_composition(3 * epsilon / math.sqrt(n_users), cycles, delta_prime)
    return PrintedGuarantee(value, cycles * delta + delta_prime + delta_hat)


def theorem_3_at(n_users: int, n_steps: int, sigma: float, sensitivity: float, delta: float) -> float:
    """Epsilon of Thm 3 at a total delta, a third for cycles, composition and visits each. Wrong as Thm 3 is."""
    each = delta / (3 * (visits(n_users, n_steps, delta / 3) + n_steps / n_users))
    per_step = _classical_epsilon(sigma, sensitivity, each)
    return theorem_3(n_users, n_steps, per_step, each, delta / 3, delta / 3).epsilon


def theorem_3_last_display(n_users: int, n_steps: int, epsilon: float, delta_prime: float, delta_hat: float) -> float:
    """The last line of Thm 3's proof. Misprint: its second term has sqrt(k) eps for k e_c; too small when n < 9k."""
    return _last_display(n_users, n_steps, epsilon, 3 * epsilon / math.sqrt(n_users), delta_prime, delta_hat)


def theorem_3_histogram(
    n_users: int, n_steps: int, epsilon: float, delta: float, delta_prime: float, delta_hat: float
) -> PrintedGuarantee:
    """Appendix, histograms on the complete graph: 21 sqrt(ln(4/delta)/n) eps per cycle.

    Wrong: the second term is misprinted as in Thm 3, and the same subsampling step. Use `shuffle.complete_epsilon`.
    """
    per_cycle = 21 * math.sqrt(math.log(4 / delta) / n_users) * epsilon
    cycles = visits(n_users, n_steps, delta_hat) + n_steps / n_users
    value = _last_display(n_users, n_steps, epsilon, per_cycle, delta_prime, delta_hat)
    return PrintedGuarantee(value, cycles * delta + delta_prime + delta_hat)


def theorem_3_histogram_at(n_users: int, n_steps: int, n_buckets: int, gamma: float, delta: float) -> float:
    """Epsilon of `theorem_3_histogram` at a total delta, split as for Thm 3. Wrong as it is."""
    each = delta / (3 * (visits(n_users, n_steps, delta / 3) + n_steps / n_users))
    answer = _epsilon_0(n_buckets, gamma)
    return theorem_3_histogram(n_users, n_steps, answer, each, delta / 3, delta / 3).epsilon


def _last_display(
    n_users: int, n_steps: int, epsilon: float, per_cycle: float, delta_prime: float, delta_hat: float
) -> float:
    cycles = visits(n_users, n_steps, delta_hat) + n_steps / n_users
    first = math.sqrt(2 * cycles * math.log(1 / delta_prime)) * per_cycle
    return first + math.sqrt(cycles) * epsilon * _expm1(per_cycle)


def theorem_4_lemma(order: float, sigma: float, lipschitz: float, n_contributions: float, n_users: int) -> float:
    """Lemma of Thm 4 (SGD): network Renyi DP 4 T_u alpha L^2 ln n / (sigma^2 n), if sigma >= L sqrt(2 alpha (alpha-1)).

    Wrong: several visits to u in one cycle do not add; false at n = 2. Infinite where its condition fails.
    """
    require(order > 1, f"the Renyi order must exceed 1, got {order}")
    if sigma < lipschitz * math.sqrt(2 * order * (order - 1)):
        return math.inf
    return 4 * n_contributions * order * lipschitz**2 * math.log(n_users) / (sigma**2 * n_users)


def theorem_4_numeric(sigma: float, lipschitz: float, n_contributions: float, n_users: int, delta: float) -> float:
    """The paper's numerical route for SGD: its lemma, the best admissible order, eps + ln(1/delta)/(alpha - 1).

    Wrong as the lemma is. Use `bounds.network_epsilon`.
    """
    limit = (1 + math.sqrt(1 + 2 * (sigma / lipschitz) ** 2)) / 2 * (1 - 1e-12)  # largest order that is allowed
    if limit <= 1:
        return math.inf
    slope = 4 * n_contributions * lipschitz**2 * math.log(n_users) / (sigma**2 * n_users)
    order = min(1 + math.sqrt(math.log(1 / delta) / slope), limit)
    value = theorem_4_lemma(order, sigma, lipschitz, n_contributions, n_users)
    return value + math.log(1 / delta) / (order - 1)


def theorem_4_at(
    n_users: int, n_steps: int, sigma: float, lipschitz: float, delta: float, cap: int | None = None
) -> float:
    """Epsilon of the numerical route at a total delta: half of it for the visits, unless a cap counts them. Wrong."""
    if cap is not None:
        return theorem_4_numeric(sigma, lipschitz, cap, n_users, delta)
    return theorem_4_numeric(sigma, lipschitz, visits(n_users, n_steps, delta / 2), n_users, delta / 2)


def theorem_4(n_users: int, n_steps: int, epsilon: float, delta: float, delta_hat: float) -> PrintedGuarantee:
    """Thm 4 (SGD), closed form: sqrt(2 q ln(1/delta)) eps / sqrt(ln(1.25/delta)).

    Wrong: needs eps' < 2 ln(1/delta), which is not stated, and rests on the lemma. Use `bounds.network_epsilon`.
    """
    q = max(2 * visits(n_users, n_steps, delta_hat) * math.log(n_users) / n_users, 2 * math.log(1 / delta))
    value = math.sqrt(2 * q * math.log(1 / delta)) * epsilon / math.sqrt(math.log(1.25 / delta))
    return PrintedGuarantee(value, delta + delta_hat)


def spotted_contributions(
    n_users: int, n_contributions: float, epsilon: float, delta_prime: float, delta_tilde: float, advanced: bool = True
) -> float:
    """Lemma on spotted contributions. Wrong: a factor sqrt(2) and delta' are missing, Chernoff out of its range.

    Not needed: the valid bounds assume that everybody knows the path.
    """
    mean = 2 * n_contributions / n_users
    count = mean + math.sqrt(3 * mean * math.log(1 / delta_tilde))
    if not advanced:
        return count * epsilon
    return math.sqrt(count * math.log(1 / delta_prime)) * epsilon + count * epsilon * _expm1(epsilon)


def effective_users(n_users: int, colluders: int) -> float:
    """Collusion: "the guarantees of n/c users, even if colluders bias the next user".

    Wrong for Thm 3: always forwarding to u raises u's exposure. Use `colluders=` of `bounds.network_epsilon`.
    """
    return n_users / colluders


def random_walk(order: float, transition: Floats, n_steps: int, sigma: float, sensitivity: float) -> Floats:
    """Cyffers, Bellet & Upadhyay (ICML 2024), Thm 3: Renyi DP of every pair on a graph,

    alpha Delta^2 T / (sigma^2 n) [(1/n) sum_{t <= T} 1/t + L_uv], L = -ln(I - W + 11'/n), W symmetric.

    Wrong with a known path: it assumes that nobody knows from whom a token comes, counts T/n contributions, an
    expectation, and adds the contributions of one cycle. Use `graph_walk` and `graphs.pairs`.
    """
    n = len(transition)
    values, vectors = np.linalg.eigh(transition - np.full((n, n), 1 / n))
    communicability = (vectors * -np.log(1 - values)) @ vectors.T
    harmonic = float(np.sum(1 / np.arange(1, n_steps + 1)))
    return np.asarray(order * sensitivity**2 * n_steps / (sigma**2 * n) * (harmonic / n + communicability))


def random_walk_at(transition: Floats, n_steps: int, sigma: float, sensitivity: float, delta: float) -> Floats:
    """Epsilon of `random_walk` for every pair, at the best order. Wrong as it is."""
    each = random_walk(1.0, transition, n_steps, sigma, sensitivity)
    orders = 1 + np.geomspace(1e-2, 1e4, 1201)
    loss = np.log1p(-1 / orders) - (math.log(delta) + np.log(orders)) / (orders - 1)
    return np.asarray(np.maximum(np.min(orders * each[..., None] + loss, axis=-1), 0.0))


def gossip_exposure(weights: Floats, n_rounds: int, observer: int) -> Floats:
    """Muffliato (Cyffers, Even, Bellet & Massoulie, NeurIPS 2022), Thm 1: exposure of every user u to the observer v,

    sum over rounds t < T and neighbours w of v of (W^t)_uw^2 / |(W^t)_w|^2.

    Wrong: what v receives in different rounds shares the same noises, so that the parts do not add up to what all of it
    shows together. Use `gossip.joint_exposure`.
    """
    power, total = np.eye(len(weights)), np.zeros(len(weights))
    neighbours = np.flatnonzero((weights[observer] > 0) & (np.arange(len(weights)) != observer))
    for _ in range(n_rounds):
        seen = power[neighbours]
        total += np.sum(seen**2 / np.sum(seen**2, axis=1, keepdims=True), axis=0)
        power = power @ weights
    total[observer] = 0.0
    return total


class Theorem(NamedTuple):
    """What one states for a walk: epsilon at its delta for a size of the noise, delta split evenly among its parts."""

    name: str
    epsilon: Callable[[float], float]


@dataclass(frozen=True)
class Walk:
    """What the paper's theorems ask of a walk; they know no users that are down."""

    topology: str
    task: str  # sum or sgd: what an observer sees
    mechanism: str
    n_users: int
    length: int  # rounds of a ring, steps of the complete graph
    delta: float
    sensitivity: float
    n_buckets: int = 0
    lipschitz: float | None = None  # None: the loss need not be convex
    cap: int | None = None

    @property
    def theorem(self) -> Theorem | None:
        """The one that speaks of such a walk; None where the paper has none."""
        n, length, delta = self.n_users, self.length, self.delta
        match self.topology, self.task, self.mechanism:
            case "ring", "sum", "gaussian":
                return Theorem("Thm 1", lambda sigma: theorem_1_at(length, sigma, self.sensitivity, delta))
            case "ring", "sum", "rr":
                return Theorem("Thm 2", lambda gamma: theorem_2_at(n, length, self.n_buckets, gamma, delta))
            case "complete", "sum", "gaussian":
                return Theorem("Thm 3", lambda sigma: theorem_3_at(n, length, sigma, self.sensitivity, delta))
            case "complete", "sum", "rr":
                in_words = "Thm 3, histograms"
                return Theorem(in_words, lambda gamma: theorem_3_histogram_at(n, length, self.n_buckets, gamma, delta))
            case "complete", "sgd", "gaussian" if (most := self.lipschitz) is not None:
                return Theorem("Thm 4", lambda sigma: theorem_4_at(n, length, sigma, most, delta, self.cap))
        return None


def theorem_of(plan: Plan) -> Theorem | None:
    """What the paper states for a plan: shown to compare, never judged by."""
    walk = Walk(
        topology=plan.walk.topology,
        task=plan.task.accounting,
        mechanism=plan.noise.mechanism,
        n_users=plan.n,
        length=plan.walk.rounds or plan.total_steps,
        delta=plan.noise.delta,
        sensitivity=plan.sensitivity,
        n_buckets=plan.task.dimension,
        lipschitz=plan.task.gradient_bound,
        cap=plan.caps.contributions,
    )
    return walk.theorem
