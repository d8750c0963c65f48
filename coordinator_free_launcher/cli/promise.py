"""What a plan promises before anything runs, as rows with their meaning: privacy by the valid bounds, and error."""

from __future__ import annotations

import math
from dataclasses import replace

from coordinator_free_launcher.cli.rows import Row
from network_dp import utility
from network_dp.in_words import count as counted
from network_dp.plan import Plan


def promises(plan: Plan, colluders: int = 1) -> list[Row]:
    """Network epsilon, the same if the path were hidden, local epsilon, expected error; infinite: no guarantee."""
    from network_dp.promise import promised as promise_of

    promise = promise_of(plan)
    promised = promise.epsilon
    rows = [
        Row("network_epsilon", "network epsilon", _or_infinite(promised), f"{_meaning(plan)}; by: {promise.bound}"),
        *_one_path(plan, promised),
    ]
    if colluders > 1:
        pooled = promise_of(plan, colluders)
        together = _or_infinite(pooled.epsilon)
        meaning = f"any {colluders} users together; by: {pooled.bound}"
        if math.isinf(together):
            meaning += "; none promised on a ring, where two can enclose a third"
        rows.append(Row(f"network_epsilon_{colluders}_colluders", f"with {colluders} colluders", together, meaning))
    return [*rows, *_other_path(plan, colluders), _local(plan), *_extras(plan), _error(plan)]


def _meaning(plan: Plan) -> str:
    """For whom the promise holds, and while what does not happen."""
    if plan.walk.anonymous:
        return _anonymously(plan)
    ring, reserve = not plan.topology.drawn, plan.noise.reissues
    if plan.noise.distance is not None:
        return _among_peers(plan)
    whole = f"any one user about any other, delta = {plan.noise.delta:g}, even if it knows the whole path"
    if ring and not plan.mechanism.additive:
        whole += "; while nobody is skipped for a whole round (docs/THREAT_MODEL.md)"
    times = {0: "never lost", 1: "lost at most once"}.get(reserve, f"lost at most {reserve} times")
    beyond = "" if ring else ": each time adds at most what its abandoned tokens showed, and the verdict says how much"
    return f"{whole}; while the token is {times} and taken up again{beyond}"


def _among_peers(plan: Plan) -> str:
    from network_dp.graphs.promise import pairs_in_words

    known = f"delta = {plan.noise.delta:g}, even if everybody knows the whole path"
    return f"{pairs_in_words(plan)} {known}; while the token is never lost and taken up again (the verdict says more)"


def _anonymously(plan: Plan) -> str:
    """What anonymous rounds promise, against whom, and what they do not cover."""
    rounds = plan.rounds
    assert rounds is not None
    who = "any one user" if rounds.colluders == 1 else f"any {rounds.colluders} users together"
    who += " (more: nothing is promised) with somebody who "
    who += f"watches every link, delta = {plan.noise.delta:g}, if they cannot break X25519 and the pads (computational)"
    if plan.in_one_round:
        return f"{who}; at most {counted(rounds.attempts, 'attempt')}, each shows a total"
    shown = counted(rounds.known_steps, "step")
    return f"{who}; hidden-path bound; an absence may show {shown}, more is beyond the promise"


def _one_path(plan: Plan, promised: float | None) -> list[Row]:
    if plan.walk.anonymous:
        return []
    from analyzer.checks.limits import path_limit, path_sentence

    limit = path_limit(plan)
    sentence = path_sentence(promised, limit)
    return [Row("path_epsilon", "most on a single path", limit, sentence)] if sentence else []


def _or_infinite(epsilon: float | None) -> float:
    return math.inf if epsilon is None else epsilon


def _other_path(plan: Plan, colluders: int) -> list[Row]:
    """Known and hidden side by side: what the same noise gives on the path that the plan does not ask for."""
    if not plan.walk.anonymous:
        return [_if_hidden(plan, colluders)]
    if plan.in_one_round:
        return []
    from network_dp.promise import promised_epsilon

    known = replace(plan, rounds=None, walk=replace(plan.walk, path="known"))
    note = "not promised here: what the same noise gives a walk whose path everybody knows"
    return [Row("known_epsilon", "if the path were known", _or_infinite(promised_epsilon(known, colluders)), note)]


def _if_hidden(plan: Plan, colluders: int) -> Row:
    """What the same noise would give on a hidden path (THEORY.md#hidden-path): for comparison only."""
    from network_dp.accounting import bounds
    from network_dp.promise import aim

    def row(value: float | None, note: str) -> Row:
        return Row("hidden_epsilon", "if the path were hidden", value, note)

    if not plan.topology.drawn:
        return row(None, "the path of a ring is public")
    if plan.topology.listed:
        return row(None, "a neighbour is too small a crowd to hide in")
    if not plan.mechanism.by_exposure:
        return row(None, "no bound is offered for randomised response")
    if plan.caps.contributions is not None or plan.caps.edge is not None:
        return row(None, "a cap makes contributions depend on the visit count: no hidden-path bound")
    if plan.task.per_visit:
        return row(None, "one row per visit makes contributions depend on the visit count: no hidden-path bound")
    if plan.walk.min_live <= colluders:
        return row(None, "nobody is left to protect")
    assert plan.noise.sigma is not None
    value = bounds.network_epsilon(
        plan.task.accounting,
        plan.walk.min_live,
        plan.total_steps,
        plan.noise.sigma,
        plan.sensitivity,
        aim(plan),
        plan.walk.release == "all",
        colluders,
        path="hidden",
    )
    return row(value, "not promised: TLS hides values, not who held the token")


def _local(plan: Plan) -> Row:
    """Against somebody who sees every message. Visits of a walk are counted up to half of delta."""
    from network_dp.promise import local_epsilon, most_contributions

    delta = plan.noise.delta
    if (most := most_contributions(plan)) is not None:
        count = most
    else:
        count = _visits(plan, delta / 2)
        plan = replace(plan, noise=replace(plan.noise, delta=delta / 2))
    value = local_epsilon(plan, count)
    note = f"against somebody who sees every message; {count} contributions of one user"
    if math.isinf(value):
        note = "most hops carry no full noise of their own"
    return Row("local_epsilon", "local epsilon", value, note)


def _visits(plan: Plan, chance: float) -> int:
    """So often a walk meets any user at most, but for this chance."""
    from network_dp.accounting import bounds
    from network_dp.graphs.visits import most_visits

    if plan.graph is not None:
        return math.floor(most_visits(plan.graph, [plan.total_steps], (), chance))
    return bounds.visits(plan.walk.min_live, plan.total_steps, chance)


def _extras(plan: Plan) -> list[Row]:
    if not plan.mechanism.additive:
        from network_dp.promise import response_of

        return [Row("epsilon_0", "epsilon of one answer", response_of(plan).epsilon, "pure local DP")]
    if plan.noise_rule.by_ledger and not plan.noise.spread:
        count = utility.ring_noises(plan.n, plan.walk.rounds or 0, plan.walk.release == "all")
        return [Row("noises", "full noises", float(count), "in the final token")]
    return []


def _error(plan: Plan) -> Row:
    from network_dp.expected import expected_error

    def row(value: float | None, note: str) -> Row:
        return Row("expected_std", "expected error", value, note)

    most, diameter, sigma = plan.task.gradient_bound, plan.task.diameter, plan.mechanism.size
    if most is None:
        return row(expected_error(plan), "of the estimate, from noise and from the walk's own chance")
    if diameter is None:
        return row(None, "the paper's Prop. 1 bounds the error of sgd inside a ball: give task.radius")
    bound = utility.sgd_suboptimality(diameter, most, plan.task.dimension, sigma, plan.total_steps)
    step = diameter / math.hypot(most, math.sqrt(plan.task.dimension) * sigma)
    return row(bound, f"bound on F(tau) - F(w*) for the step sizes {step:.3g}/sqrt(t) (the paper's Prop. 1)")
