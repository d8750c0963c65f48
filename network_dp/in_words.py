"""Small words that every message needs."""

from __future__ import annotations

from network_dp.plan import Plan


def count(number_of: int, one: str) -> str:
    """ "1 fault", "2 faults"."""
    return f"{number_of} {one}{'' if number_of == 1 else 's'}"


def way(plan: Plan) -> str:
    """How a plan computes: "on a ring, 30 users, 10 rounds"; a masked sum has no walk."""
    if plan.in_one_round:
        return f"by a masked sum, {plan.n} users, one anonymous round"
    hidden = "" if plan.rounds is None else "path hidden, "
    return f"on {plan.topology.title}, {hidden}{plan.n} users, {plan.topology.length}"
