"""What `network-dp bounds`, `calibrate` and `audit` show, as data: pure functions of their options."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from coordinator_free_launcher.rows import Row
from network_dp import bounds, calibrate, printed, utility
from network_dp.errors import AccountingError, require
from network_dp.noise_rule import cover_elements

Topology = Literal["ring", "complete"]
Task = Literal["sum", "mean", "histogram", "sgd"]
Axis = Literal["users", "length", "noise"]
AXES: dict[str, Axis] = {
    "users": "users",
    "n": "users",
    "length": "length",
    "steps": "length",
    "rounds": "length",
    "T": "length",
    "noise": "noise",
    "sigma": "noise",
    "gamma": "noise",
}


HIDDEN = "only if nobody can tell who else held the token; TLS alone does not give it"
COMPARED = "the paper's formula: for comparison only"
UNHIDDEN: dict[Topology, str] = {
    "ring": "the path of a ring is public",
    "complete": "a cap makes contributions depend on the visit count: no hidden-path bound",
}


@dataclass(frozen=True)
class Question:
    """The options of a bounds or calibrate command, checked."""

    task: Task
    topology: Topology
    users: int
    length: int  # rounds of a ring, steps of the complete graph
    delta: float
    sensitivity: float = 1.0
    lipschitz: float | None = None
    buckets: int | None = None
    sigma: float | None = None
    gamma: float | None = None
    colluders: int = 1
    released: bool = False
    cap: int | None = None
    reissues: int = 0  # ring: how often the token may be lost and taken up again

    def __post_init__(self) -> None:
        require(self.task in ("sum", "mean", "histogram", "sgd"), "--task must be sum, mean, histogram or sgd")
        require(self.topology in ("ring", "complete"), "--topology must be ring or complete")
        require(self.users >= 2, "--users must be at least 2")
        require(self.topology == "complete" or self.users >= 3, "a ring needs at least 3 users")
        require(self.length >= 1, "--rounds (ring) or --steps (complete) must be at least 1")
        require(self.topology == "complete" or self.task != "sgd", "sgd on a ring has no amplification; use complete")
        require(self.task != "sgd" or self.lipschitz is not None, "--task sgd needs --lipschitz")
        require(not self.responding or self.buckets is not None, "--gamma needs --buckets")
        require(self.gamma is None or self.responding, "--gamma is for a histogram without --sigma: give one of them")
        require(self.cap is None or self.topology == "complete", "--cap is for the complete graph; a ring has --rounds")
        require(self.reissues >= 0, "--reissues must be at least 0")
        require(self.reissues == 0 or self.topology == "ring", "--reissues is for a ring")

    @property
    def responding(self) -> bool:
        """A histogram by randomised response (a histogram with --sigma is a vector sum with Gaussian noise)."""
        return self.task == "histogram" and self.sigma is None

    @property
    def walk_task(self) -> Literal["sum", "sgd"]:
        return "sgd" if self.task == "sgd" else "sum"

    @property
    def total_sensitivity(self) -> float:
        """Gradients of an L-Lipschitz loss differ by 2 L; one-hot vectors by sqrt(2)."""
        if self.task == "sgd":
            return 2 * (self.lipschitz or 0.0)
        return math.sqrt(2) if self.task == "histogram" else self.sensitivity

    @property
    def contributions(self) -> int:
        """How often one user contributes: exactly (ring, cap), or at most, but for delta/2 (complete graph)."""
        if self.topology == "ring":
            return self.length
        return self.cap if self.cap is not None else bounds.visits(self.users, self.length, self.delta / 2)


def bounds_rows(question: Question) -> list[Row]:
    """Valid network epsilon, hidden path, exact local epsilon, what the paper printed, expected error."""
    if question.responding:
        return _response_rows(question)
    if question.sigma is None:
        raise AccountingError("give the noise: --sigma (or --gamma for a histogram by randomised response)")
    if question.topology == "ring":
        return _ring_rows(question, question.sigma)
    return _complete_rows(question, question.sigma)


def network_epsilon(question: Question) -> float:
    """The valid network epsilon alone (what plots show)."""
    if question.responding:
        return _response_epsilon(question)
    sigma = question.sigma or 0.0
    if question.topology == "ring":
        if question.colluders > 1:
            return math.inf
        return bounds.ring_epsilon(
            question.length, sigma, question.total_sensitivity, question.delta, question.reissues
        )
    return bounds.network_epsilon(
        question.walk_task,
        question.users,
        question.length,
        sigma,
        question.total_sensitivity,
        question.delta,
        released=question.released,
        colluders=question.colluders,
        cap=question.cap,
    )


def _observer(question: Question) -> str:
    return "any one user" if question.colluders == 1 else f"any {question.colluders} users together"


def _ring_rows(question: Question, sigma: float) -> list[Row]:
    noises = utility.ring_noises(question.users, question.length, question.released)
    note = f"{_observer(question)} about any other: sqrt(K + {question.reissues} re-issues) Delta/sigma, exact"
    if question.colluders > 1:
        note = "two users around a third read its raw values: a ring resists no collusion"
    theorem, as_printed = _printed(question)
    return [
        Row("network_epsilon", "network epsilon", network_epsilon(question), note),
        Row("hidden_epsilon", "if the path were hidden", None, UNHIDDEN["ring"]),
        Row("local_epsilon", "local epsilon", math.inf, "most hops of a ring carry no noise of their own"),
        Row("printed_epsilon", f"as printed ({theorem})", as_printed(sigma), "advanced composition: valid, very loose"),
        Row("noises", "full noises", float(noises), "in the final token"),
        Row("expected_std", "expected error", _gaussian_error(question, sigma), "standard deviation of the result"),
    ]


def _complete_rows(question: Question, sigma: float) -> list[Row]:
    delta, reach = question.delta, question.total_sensitivity
    hidden: float | None = None
    if question.cap is None:
        hidden = bounds.network_epsilon(
            question.walk_task,
            question.users,
            question.length,
            sigma,
            reach,
            delta,
            colluders=question.colluders,
            path="hidden",
        )
    count = question.contributions
    spent = delta if question.cap is not None else delta / 2
    local = bounds.local_epsilon(count, sigma, reach, spent)
    theorem, as_printed = _printed(question)
    watcher = f"{_observer(question)} about any other, even if it knows the whole path"
    unseen = UNHIDDEN["complete"] if hidden is None else HIDDEN
    error = "standard deviation of the result"
    if question.task == "sgd":
        error = "bound on F(tau) - F(w*), for dimension and diameter 1"
    return [
        Row("network_epsilon", "network epsilon", network_epsilon(question), watcher),
        Row("hidden_epsilon", "if the path were hidden", hidden, unseen),
        Row("local_epsilon", "local epsilon", local, f"exact, for {count} contributions of one user"),
        Row("printed_epsilon", f"as printed ({theorem})", as_printed(sigma), COMPARED),
        Row("expected_std", "expected error", _gaussian_error(question, sigma), error),
    ]


def _printed(question: Question) -> tuple[str, Callable[[float], float]]:
    """The theorem of the paper on such a run with Gaussian noise, and its epsilon as a function of sigma."""
    n, length, delta, reach = question.users, question.length, question.delta, question.total_sensitivity
    if question.topology == "ring":
        return "Thm 1", lambda sigma: printed.theorem_1_at(length, sigma, reach, delta)
    if question.task == "sgd":
        return "Thm 4", lambda sigma: printed.theorem_4_at(n, length, sigma, reach / 2, delta, question.cap)
    return "Thm 3", lambda sigma: printed.theorem_3_at(n, length, sigma, reach, delta)


def _gaussian_error(question: Question, sigma: float) -> float:
    if question.task == "sgd":
        return utility.sgd_suboptimality(1.0, question.lipschitz or 0.0, 1, sigma, question.length)
    rounds = question.length if question.topology == "ring" else None
    steps = question.length if question.topology == "complete" else None
    if question.task == "mean":
        return utility.mean_std(
            sigma,
            topology=question.topology,
            n_users=question.users,
            n_rounds=rounds,
            n_steps=steps,
            released=question.released,
            cap=question.cap,
            value_std=question.sensitivity / 2,
        )
    return utility.sum_std(
        sigma,
        topology=question.topology,
        n_users=question.users,
        n_rounds=rounds,
        n_steps=steps,
        released=question.released,
    )


def _response_epsilon(question: Question) -> float:
    from network_dp import shuffle

    gamma, buckets = question.gamma, question.buckets
    if gamma is None or buckets is None:
        raise AccountingError("a histogram by randomised response needs --gamma and --buckets")
    if question.topology == "ring":
        if question.colluders > 1:
            return shuffle.local_epsilon(question.length, buckets, gamma, question.delta)
        size = (question.users, question.length, buckets, gamma)
        return shuffle.ring_epsilon(*size, question.delta, question.released, question.reissues)
    return shuffle.complete_epsilon(
        question.users, question.length, buckets, gamma, question.delta, question.released, question.colluders
    )


def _response_rows(question: Question) -> list[Row]:
    from network_dp import shuffle

    network = _response_epsilon(question)
    gamma, buckets, ring = question.gamma or 0.0, question.buckets or 2, question.topology == "ring"
    spent = question.delta if ring or question.cap is not None else question.delta / 2
    local = shuffle.local_epsilon(question.contributions, buckets, gamma, spent)
    answers = question.users * question.length if ring else question.length
    ends = (2 if question.released else 1) if ring else 0
    random = ends * cover_elements(gamma, question.users)
    if ring:
        theorem = "Thm 2"
        stated = printed.theorem_2_at(question.users, question.length, buckets, gamma, question.delta)
    else:
        theorem = "Thm 3, histograms"
        stated = printed.theorem_3_histogram_at(question.users, question.length, buckets, gamma, question.delta)
    return [
        Row("network_epsilon", "network epsilon", network, f"{_observer(question)} about any other, path known"),
        Row("hidden_epsilon", "if the path were hidden", None, "no bound is offered for randomised response"),
        Row("local_epsilon", "local epsilon", local, f"exact, for {question.contributions} answers of one user"),
        Row("printed_epsilon", f"as printed ({theorem})", stated, COMPARED),
        Row("epsilon_0", "epsilon of one answer", shuffle.local_epsilon(1, buckets, gamma, 1e-12), "pure local DP"),
        Row("expected_std", "expected error", utility.histogram_std(answers, buckets, gamma, random), "of a count"),
    ]


def calibrate_rows(question: Question, epsilon: float) -> list[Row]:
    """The least noise for network DP and, where it exists, for local DP, each with its expected error."""
    if question.task == "histogram" and question.buckets is not None:
        return _calibrate_response(question, epsilon)
    ring = question.topology == "ring"
    network = calibrate.sigma(
        epsilon,
        question.delta,
        question.total_sensitivity,
        topology=question.topology,
        task=question.walk_task,
        n_users=question.users,
        n_steps=None if ring else question.length,
        n_rounds=question.length if ring else None,
        released=question.released,
        colluders=question.colluders,
        cap=question.cap,
        reissues=question.reissues,
    )
    rows = [
        Row("network_sigma", "sigma for network DP", network, f"{_observer(question)}, path known"),
        Row("network_std", "expected error", _gaussian_error(question, network), "with that sigma"),
        _hidden_sigma(question, epsilon),
    ]
    theorem, as_printed = _printed(question)
    stated = calibrate.least(as_printed, epsilon, network)
    compared = Row("printed_sigma", f"as printed ({theorem})", stated, COMPARED)
    if ring:
        nothing = "most hops of a ring carry no noise of their own"
        return [*rows, Row("local_sigma", "sigma for local DP", math.inf, nothing), compared]
    spent = question.delta if question.cap is not None else question.delta / 2
    local = calibrate.sigma(
        epsilon, spent, question.total_sensitivity, privacy="local", n_contributions=question.contributions
    )
    return [
        *rows,
        Row("local_sigma", "sigma for local DP", local, f"for {question.contributions} contributions of one user"),
        Row("local_std", "expected error", _gaussian_error(question, local), "with that sigma"),
        compared,
    ]


def _hidden_sigma(question: Question, epsilon: float) -> Row:
    value, note = None, UNHIDDEN[question.topology]
    if question.topology == "complete" and question.cap is None:
        note = HIDDEN
        value = calibrate.sigma(
            epsilon,
            question.delta,
            question.total_sensitivity,
            task=question.walk_task,
            n_users=question.users,
            n_steps=question.length,
            colluders=question.colluders,
            path="hidden",
        )
    return Row("hidden_sigma", "if the path were hidden", value, note)


def _calibrate_response(question: Question, epsilon: float) -> list[Row]:
    ring = question.topology == "ring"
    require(question.colluders == 1, "calibrating gamma against colluders is not offered; use bounds to check one")
    gamma = calibrate.gamma(
        epsilon,
        question.delta,
        topology=question.topology,
        n_users=question.users,
        n_buckets=question.buckets or 2,
        n_rounds=question.length if ring else None,
        n_steps=None if ring else question.length,
        released=question.released,
        reissues=question.reissues,
    )
    rows = bounds_rows(replace(question, gamma=gamma))
    return [Row("network_gamma", "gamma for network DP", gamma, "probability of a uniform answer"), *rows]


def axis_label(question: Question, axis: Axis) -> str:
    if axis == "users":
        return "users n"
    if axis == "length":
        return "rounds K" if question.topology == "ring" else "steps T"
    return "probability gamma of a uniform answer" if question.responding else "noise sigma"


def curve(question: Question, axis: Axis) -> list[tuple[float, float]]:
    """(x, network epsilon) around the question, for a plot: a quarter to four times its users, length or noise."""
    factors: Sequence[float] = [2 ** (k / 2) for k in range(-4, 5)]
    points = []
    for factor in factors:
        if axis == "noise":
            noise = question.gamma if question.responding else question.sigma
            x = (noise or 0.0) * factor
            if question.responding and x > 1:
                continue
            changed = replace(question, gamma=x) if question.responding else replace(question, sigma=x)
        elif axis == "users":
            x = float(max(3, round(question.users * factor)))
            changed = replace(question, users=int(x))
        else:
            x = float(max(1, round(question.length * factor)))
            changed = replace(question, length=int(x))
        points.append((x, network_epsilon(changed)))
    return points
