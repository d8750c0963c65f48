"""A privacy statement of a run: the questions that NIST SP 800-226 has a reader ask, answered from plan and verdict.

Everything is computed from the plan's noise; nothing is taken from what a plan says of itself.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from network_dp.plan import Plan
from network_dp.promise import local_epsilon, most_contributions, promised


@dataclass(frozen=True, slots=True)
class Outcome:
    """What the analyzer said of a finished run; `worst`: epsilon of the pair that saw most, on the walked path."""

    verdict: str
    worst: float | None


@dataclass(frozen=True, slots=True)
class Field:
    """One question and its answer."""

    key: str
    title: str
    text: str


def fields(plan: Plan, outcome: Outcome | None = None) -> list[Field]:
    """All answers, in the order of the pyramid: parameters, unit, mechanism, trust, exposure, side channels."""
    found = promised(plan)
    epsilon = "none" if found.epsilon is None or math.isinf(found.epsilon) else f"{found.epsilon:.4g}"
    return [
        Field("purpose", "What is computed", _purpose(plan)),
        Field(
            "parameters", "Privacy parameters", f"epsilon = {epsilon}, delta = {plan.noise.delta:g}, by: {found.bound}"
        ),
        Field("unit", "Unit of privacy", "one user: all data that one participant brings to the run"),
        Field(
            "adjacency", "Neighbouring data sets", "replacement: the whole data of one user is exchanged for any other"
        ),
        Field("mechanism", "Mechanism", _mechanism(plan)),
        Field("model", "Trust model", _trust(plan)),
        Field("collusion", "Collusion", _collusion(plan)),
        Field("local", "Somebody who sees every message", _local(plan)),
        Field("composition", "Over several runs", "charged to each user's ledger at its promise before the run starts"),
        Field("side_channels", "Side channels", _side_channels(plan)),
        Field("utility", "Accuracy", _utility(plan)),
        Field("evidence", "Evidence", _evidence(outcome)),
        Field("security", "Security", _security(plan)),
    ]


def _purpose(plan: Plan) -> str:
    who = "everybody" if plan.walk.release == "all" else "the last holder only"
    where = "one anonymous round" if plan.in_one_round else f"{plan.topology.length} on {plan.topology.title}"
    return f"{plan.task.named} over {plan.n} users, {where}; the result goes to {who}"


def _mechanism(plan: Plan) -> str:
    key, size = plan.mechanism.size_key, plan.mechanism.size
    noise = f"discrete {plan.noise.mechanism} noise" if plan.mechanism.additive else "randomised response"
    grid = f", sensitivity {plan.sensitivity:g} on a grid of {plan.noise.grid:g}" if plan.mechanism.additive else ""
    return f"{noise}, {key} = {size:.6g}{grid}; every contribution's noise is drawn once and never again"


def _trust(plan: Plan) -> str:
    if plan.rounds is not None:
        return (
            "no server; any users, as many as the plan withstands, together with somebody who watches every link; "
            "computational (X25519, ChaCha20)"
        )
    return (
        "no server and no trusted party: network differential privacy, against what any one other user receives and "
        "sends, even if it knows the whole path of the token; users follow the protocol"
    )


def _collusion(plan: Plan) -> str:
    if plan.rounds is not None:
        return f"up to {plan.rounds.colluders} users that pool what they see; against more nothing is promised"
    found = promised(plan, 2).epsilon
    if found is not None:
        return f"two users together: epsilon = {found:.4g}"
    return plan.topology.collusion or "nothing is promised against two"


def _local(plan: Plan) -> str:
    most = most_contributions(plan)
    if most is None:
        return "no bound without a cap on contributions; messages travel over mutual TLS"
    value = local_epsilon(plan, most)
    return "no guarantee" if math.isinf(value) else f"epsilon = {value:.4g}, for {most} contributions of one user"


def _side_channels(plan: Plan) -> str:
    sent = (
        "sizes and routes do not depend on data; noise is drawn before the token arrives, on a public grid"
        if plan.rounds is None
        else f"everybody sends blocks of one size on one beat of {plan.rounds.beat_ms:g} ms; noise is on a public grid"
    )
    late = "" if plan.rounds is None else "a visit that takes longer to compute and write than the beat, "
    return (
        f"{sent}; logs, errors and metrics hold no values. Not covered: {late}users that deviate, what an absence "
        "shows, the operating system and the machine of each user"
    )


def _utility(plan: Plan) -> str:
    from network_dp.expected import expected_error

    error = expected_error(plan)
    return "no number for this task" if error is None else f"expected standard deviation of the result: {error:.4g}"


def _evidence(outcome: Outcome | None) -> str:
    if outcome is None:
        return "none: the run has not been analyzed"
    worst = "" if outcome.worst is None else f"; on the path that was walked the worst pair came to {outcome.worst:.4g}"
    return f"the users' own logs were checked against the plan: {outcome.verdict}{worst}"


def _security(plan: Plan) -> str:
    seeded = "" if plan.insecure_seed is None else "INSECURE: noise and routing are seeded, for tests only. "
    return f"{seeded}mutual TLS with pinned keys, noise from the operating system's generator, plan hash {plan.hash}"


def as_markdown(plan: Plan, answers: list[Field]) -> str:
    """The statement as one page of Markdown."""
    rows = "".join(f"| {answer.title} | {answer.text} |\n" for answer in answers)
    return f"# Privacy statement: {plan.name}\n\n| question | answer |\n|---|---|\n{rows}"


def as_dict(plan: Plan, answers: list[Field]) -> dict[str, Any]:
    """The statement as one object for JSON, with the promise's numbers."""
    found = promised(plan)
    unbounded = found.epsilon is None or math.isinf(found.epsilon)
    numbers = {"epsilon": None if unbounded else found.epsilon, "delta": plan.noise.delta, "bound": found.bound}
    return {"name": plan.name, "plan": plan.hash, **numbers, **{answer.key: answer.text for answer in answers}}
