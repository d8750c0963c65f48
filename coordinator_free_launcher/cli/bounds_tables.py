"""What `network-dp bounds` and `calibrate` show, as data: pure functions of their options."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Literal

from coordinator_free_launcher.cli.bounds_kinds import COMPARED, HIDDEN, BoundsQuery
from coordinator_free_launcher.cli.rows import Row
from network_dp import calibrate, utility
from network_dp.errors import AccountingError, require

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


def bounds_rows(query: BoundsQuery) -> list[Row]:
    """Valid network epsilon, hidden path, exact local epsilon, what the paper printed, expected error."""
    if query.responding:
        return _response_rows(query)
    kind, sigma = query.kind, _sigma(query)
    (network, meaning), (local, counted), hidden = (
        kind.epsilon(query, sigma),
        kind.local(query, sigma),
        kind.hidden(query, sigma),
    )
    theorem = query.theorem
    return [
        Row("network_epsilon", "network epsilon", network, meaning),
        Row("hidden_epsilon", "if the path were hidden", hidden, kind.unhidden if hidden is None else HIDDEN),
        Row("local_epsilon", "local epsilon", local, counted),
        Row("printed_epsilon", f"as printed ({theorem.name})", theorem.epsilon(sigma), kind.printed_note),
        *kind.extras(query),
        Row("expected_std", "expected error", query.asked.error(query, sigma), query.asked.error_means),
    ]


def network_epsilon(query: BoundsQuery) -> float:
    """The valid network epsilon alone (what plots show)."""
    return _response_epsilon(query) if query.responding else query.kind.epsilon(query, _sigma(query))[0]


def _sigma(query: BoundsQuery) -> float:
    if query.sigma is None:
        raise AccountingError("give the noise: --sigma (or --gamma for a histogram by randomised response)")
    return query.sigma


def _response_epsilon(query: BoundsQuery) -> float:
    if query.gamma is None or query.buckets is None:
        raise AccountingError("a histogram by randomised response needs --gamma and --buckets")
    return query.kind.response_epsilon(query, query.buckets, query.gamma)


def _response_rows(query: BoundsQuery) -> list[Row]:
    from network_dp.accounting import shuffle

    network, kind = _response_epsilon(query), query.kind
    gamma, buckets = query.gamma or 0.0, query.buckets or 2
    count = kind.contributions(query)
    local = shuffle.local_epsilon(count, buckets, gamma, kind.local_delta(query))
    answers, uniform = kind.answers(query, gamma)
    theorem = query.theorem
    return [
        Row("network_epsilon", "network epsilon", network, f"{query.observer} about any other, path known"),
        Row("hidden_epsilon", "if the path were hidden", None, "no bound is offered for randomised response"),
        Row("local_epsilon", "local epsilon", local, f"exact, for {count} answers of one user"),
        Row("printed_epsilon", f"as printed ({theorem.name})", theorem.epsilon(gamma), COMPARED),
        Row("epsilon_0", "epsilon of one answer", shuffle.local_epsilon(1, buckets, gamma, 1e-12), "pure local DP"),
        Row("expected_std", "expected error", utility.histogram_std(answers, buckets, gamma, uniform), "of a count"),
    ]


def calibrate_rows(query: BoundsQuery, epsilon: float) -> list[Row]:
    """The least noise for network DP and, where it exists, for local DP, each with its expected error."""
    if query.asked.responds and query.buckets is not None:
        return _calibrate_response(query, epsilon)
    kind = query.kind
    network = calibrate.sigma(
        epsilon,
        query.delta,
        query.total_sensitivity,
        task=query.asked.walk,
        n_users=query.users,
        released=query.released,
        colluders=query.colluders,
        cap=query.cap,
        reissues=query.reissues,
        **kind.length(query),
    )
    hidden, (local, counted) = kind.hidden_sigma(query, epsilon), kind.local_sigma(query, epsilon)
    theorem = query.theorem
    printed_sigma = calibrate.least(theorem.epsilon, epsilon, network)
    with_local = [Row("local_std", "expected error", query.asked.error(query, local), "with that sigma")]
    return [
        Row("network_sigma", "sigma for network DP", network, f"{query.observer}, path known"),
        Row("network_std", "expected error", query.asked.error(query, network), "with that sigma"),
        Row("hidden_sigma", "if the path were hidden", hidden, kind.unhidden if hidden is None else HIDDEN),
        Row("local_sigma", "sigma for local DP", local, counted),
        *(with_local if local < float("inf") else []),
        Row("printed_sigma", f"as printed ({theorem.name})", printed_sigma, COMPARED),
    ]


def _calibrate_response(query: BoundsQuery, epsilon: float) -> list[Row]:
    require(query.colluders == 1, "calibrating gamma against colluders is not offered; use bounds to check one")
    gamma = calibrate.gamma(
        epsilon,
        query.delta,
        n_users=query.users,
        n_buckets=query.buckets or 2,
        released=query.released,
        reissues=query.reissues,
        **query.kind.length(query),
    )
    rows = bounds_rows(replace(query, gamma=gamma))
    return [Row("network_gamma", "gamma for network DP", gamma, "probability of a uniform answer"), *rows]


def axis_label(query: BoundsQuery, axis: Axis) -> str:
    noise = "probability gamma of a uniform answer" if query.responding else "noise sigma"
    return {"users": "users n", "length": query.kind.axis, "noise": noise}[axis]


def curve(query: BoundsQuery, axis: Axis) -> list[tuple[float, float]]:
    """(x, network epsilon) around the query, for a plot: a quarter to four times its users, length or noise."""
    factors: Sequence[float] = [2 ** (k / 2) for k in range(-4, 5)]
    points = []
    for factor in factors:
        if axis == "noise":
            noise = query.gamma if query.responding else query.sigma
            x = (noise or 0.0) * factor
            if query.responding and x > 1:
                continue
            changed = replace(query, gamma=x) if query.responding else replace(query, sigma=x)
        elif axis == "users":
            x = float(max(3, round(query.users * factor)))
            changed = replace(query, users=int(x))
        else:
            x = float(max(1, round(query.length * factor)))
            changed = replace(query, length=int(x))
        points.append((x, network_epsilon(changed)))
    return points
