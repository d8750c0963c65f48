"""What a user agrees to by taking part in a plan, in a few lines: shown before a plan is accepted."""

from __future__ import annotations

from coordinator_free_launcher.cli.promise import promises
from network_dp.plan import Plan

_NAMED = 20


def terms(plan: Plan) -> dict[str, str]:
    """Task, bounds, promise, topology and users; epsilon is computed from the noise, not taken from the plan."""
    epsilons = {row.key: row.text for row in promises(plan)}
    length = f"{plan.walk.rounds} rounds" if plan.walk.rounds is not None else f"{plan.walk.steps} steps"
    more = f" and {plan.n - _NAMED} more" if plan.n > _NAMED else ""
    result = "everybody" if plan.walk.release == "all" else "the last holder"
    known = {
        "plan": f"{plan.name}, hash {plan.hash[:16]}",
        "task": plan.task.named,
        "bounds": plan.task.bounds_in_words,
        "epsilon": f"{epsilons['network_epsilon']} towards any one user, "
        f"{epsilons['local_epsilon']} towards somebody who sees every message",
        "delta": f"{plan.noise.delta:g}",
        "topology": f"{plan.walk.topology}, {length}; the result goes to {result}",
        "users": f"{plan.n}: {', '.join(plan.names[:_NAMED])}{more}",
    }
    return known | ({} if plan.insecure_seed is None else {"INSECURE": "noise and routing are seeded: for tests only"})
