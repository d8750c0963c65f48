"""One log alone: what its owner spent, and what it could at most have inferred about any one other user.

What it learned rests on the law of the walk: on the complete graph others are taken to have drawn the next holder as
the plan says, on a ring to have added their noise. No log alone can show that they did.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.stats import binom

from analyzer.checks import limits
from analyzer.checks.integrity import Run
from analyzer.checks.privacy import n_live
from analyzer.read.tables import HANDOFF, REISSUE, Ints
from analyzer.reconstruct.exposures import one_epsilon
from analyzer.reconstruct.lineage import contributions_per_user
from analyzer.verdict import FALSE_ALARM, Check, Status
from network_dp import promise


@dataclass(frozen=True, slots=True)
class Alone:
    """Upper bounds; ``spent_epsilon`` of a ring's sum and ``learned_epsilon`` hold if the others kept the plan."""

    user: str
    visits: int
    contributions: int
    spent_epsilon: float  # against somebody who saw every message (ring: against any one user)
    tokens_seen: int
    received_from: int  # users, itself included
    handed_to: int
    longest_gap: int  # most steps of others between two of its visits
    learned_epsilon: float | None  # about any one other user


def look(run: Run) -> Alone | None:
    """None unless exactly one log was given."""
    logs, plan = run.logs, run.plan
    if len(logs.files) != 1:
        return None
    (user,) = logs.files
    mine = logs.visits[logs.visits["cause"] != REISSUE]
    steps = np.sort(np.unique(mine["step"]))
    gaps = _gaps(run, steps)
    count = int(contributions_per_user(run.lineage.sents, plan.n)[user])
    ring_sum = plan.noise_rule.by_ledger
    spent = promise.promised_epsilon(plan) if ring_sum else promise.local_epsilon(plan, count)
    return Alone(
        user=logs.name(user),
        visits=int(np.count_nonzero(steps > 0)),
        contributions=count,
        spent_epsilon=float("inf") if spent is None else spent,
        tokens_seen=int(np.count_nonzero(mine["sender"] >= 0)),
        received_from=len(np.unique(mine["sender"][mine["sender"] >= 0])),
        handed_to=len(np.unique(logs.sents["to"][logs.sents["to"] >= 0])),
        longest_gap=int(gaps.max()) if len(gaps) else 0,
        learned_epsilon=_learned(run, gaps),
    )


def checks(run: Run) -> list[Check]:
    """One log alone, complete graph: was I visited no more often than the law allows?"""
    plan, logs = run.plan, run.logs
    if not plan.topology.uniform or len(logs.files) != 1:
        return []
    (user,) = logs.files
    handed = logs.visits[logs.visits["cause"] == HANDOFF]
    count, steps, live = len(handed), plan.total_steps, plan.walk.min_live
    above, below = float(binom.sf(count - 1, steps, 1 / live)), float(binom.cdf(count, steps, 1 / plan.n))
    # Users that were down raise the rate, and a walk that was taken up again repeats steps: neither is anybody's fault.
    convicts = 2 * above <= FALSE_ALARM and len(np.unique(handed["epoch"])) == 1
    fits = min(above, below) * 2 > FALSE_ALARM and user in logs.ended and not logs.rejoined
    text = f"{count} visits where {steps / plan.n:.3g} are expected"
    evidence = (logs.finding(user, 1, text),) if convicts else ()
    check = Check(
        id="visits",
        title="My visits follow the binomial law",
        status=Status.FAIL if convicts else Status.PASS if fits else Status.UNKNOWN,
        observed=text + ("" if fits or convicts else ": not reachable for a while, or lines are missing"),
        bound=f"p > {FALSE_ALARM:g}",
        rule=f"Visits of one user ~ Binomial({steps}, 1/n) for {live} to {plan.n} live users; exact tails. "
        "Too few convict nobody: this user may have been unreachable.",
        theory="THEORY.md#exposure",
        number=min(1.0, 2 * min(above, below)),
        limit=FALSE_ALARM,
        evidence=evidence,
        evidence_count=len(evidence),
    )
    return [check]


def _gaps(run: Run, steps: Ints) -> Ints:
    """Steps of others before each visit, and after the last one when the result is released."""
    ends = np.append(steps, run.plan.total_steps + 1) if run.plan.walk.release == "all" else steps
    gaps = np.diff(np.concatenate([[0], ends])) - 1
    return np.asarray(np.maximum(gaps, 0), dtype=np.int64)


def _learned(run: Run, gaps: Ints) -> float | None:
    """One user may have made every step of a gap: m contributions under m noises cost m; the law may say less."""
    plan = run.plan
    if not plan.mechanism.additive:
        return _learned_from_answers(run, int(gaps.sum()))
    if not plan.topology.drawn:
        return promise.promised_epsilon(plan)
    law = limits.limit_for(plan, limits.undisturbed(plan, n_live(run), down=None))
    most = float(gaps.sum())
    return one_epsilon(plan, most if law is None else min(most, law))


def _learned_from_answers(run: Run, steps: int) -> float:
    """Who else took part is not known, so only its own lie hides an answer: K of them on a ring."""
    plan = run.plan
    if not plan.topology.drawn:
        return promise.local_epsilon(plan, min(steps, plan.walk.rounds or 0))
    law = limits.limit_for(plan, limits.undisturbed(plan, n_live(run)))
    most = promise.local_epsilon(plan, steps)
    return most if law is None else min(most, law)
