"""Where anonymous rounds can keep their promise, and where a plan that asks for them must be refused."""

from __future__ import annotations

from network_dp.plan import Plan, PlanError, Rounds

ATTEMPTS = 2  # of a masked sum, unless a plan says otherwise: one may fail
NUMBERS_PER_MS = 1000  # a holder computes, seals and writes its token within the beat (docs/THREAT_MODEL.md)
LEAST_CROWD = 3  # honest users among whom a holder hides


def least_alive(n: int, rounds: Rounds) -> int:
    """The default of ``min_live``: nine in ten users, and always a crowd beside the colluders."""
    return max(min(n, rounds.colluders + LEAST_CROWD), n // 2 + 1, n - max(1, n // 10))


def check_rounds(plan: Plan) -> None:
    """``PlanError`` unless anonymous rounds can hold what the plan asks of them."""
    rounds, walk = plan.rounds, plan.walk
    if rounds is None:
        return
    wish = 'walk.path = "hidden"' if walk.path == "hidden" else 'walk.protocol = "masked_sum"'
    if walk.topology != "complete":
        raise PlanError(f'{wish}: a neighbour is too small a crowd; use walk.topology = "complete"')
    if walk.release != "all":
        raise PlanError(f'{wish}: nobody knows who holds the result, so everybody gets it; use walk.release = "all"')
    if plan.caps.contributions is not None or plan.caps.edge is not None:
        raise PlanError(f"{wish}: a contribution must not depend on the visits before it; take out [caps]")
    if getattr(plan.task, "rows", "average") != "average":
        raise PlanError(f'{wish}: a contribution must not depend on the visits before it; use task.rows = "average"')
    if plan.noise.mechanism != "gaussian":
        raise PlanError(f'{wish}: has no accounting for "{plan.noise.mechanism}"; use noise.mechanism = "gaussian"')
    if plan.n - rounds.colluders < LEAST_CROWD:
        raise PlanError(
            f"rounds.colluders = {rounds.colluders}: of {plan.n} users fewer than {LEAST_CROWD} are left to hide among"
        )
    least = max(rounds.colluders + LEAST_CROWD, (plan.n + 3) // 2)  # any two rounds share two users: see node's lives
    if walk.min_live < least:
        raise PlanError(f"walk.min_live = {walk.min_live}: {wish} needs at least {least} users in every round")
    least_ms = plan.task.dimension / NUMBERS_PER_MS
    if rounds.beat_ms < least_ms:
        raise PlanError(
            f"rounds.beat_ms = {rounds.beat_ms:g}: a token of {plan.task.dimension} numbers takes its holder longer to "
            f"write than others wait, which would show it; use at least {least_ms:g}"
        )
    if walk.protocol == "masked_sum":
        _check_sum(plan)


def _check_sum(plan: Plan) -> None:
    if plan.walk.steps != 1:
        raise PlanError(f"walk.steps = {plan.walk.steps}: a masked sum is one round; take walk.steps out")
    if plan.task.kind not in ("sum", "mean", "histogram"):
        raise PlanError(f'task.kind = "{plan.task.kind}": a masked sum adds up values once; use sum, mean or histogram')
