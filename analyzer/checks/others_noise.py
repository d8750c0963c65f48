"""Did everything anybody saw hold enough noise of others?"""

from __future__ import annotations

import numpy as np

from analyzer.checks.integrity import Run
from analyzer.read.tables import Findings, Ints
from analyzer.reconstruct.lineage import LOST, held_at
from analyzer.verdict import Check, from_findings
from network_dp.plan import Plan


def checks(run: Run) -> list[Check]:
    """Randomised response has no noise to count; its answers cover each other."""
    return [foreign_noise(run)] if run.plan.mechanism.additive else []


def foreign_noise(run: Run) -> Check:
    """Every increment holds a full noise of others; on a ring, one for every round since its user last had it."""
    plan, lineage, increments, findings = run.plan, run.lineage, run.increments, Findings()
    full = plan.unit_count
    sents = lineage.sents
    seen: Ints = np.flatnonzero((sents["to"] >= 0) & (increments.anchor != LOST))
    if plan.noise_rule.by_ledger:  # a missing log may hold more noise than one component
        seen = seen[increments.increment(seen, increments.ghosts_after) == 0]
    noise = increments.increment(seen, increments.units_after)
    content = increments.increment(seen, increments.contributions_after)
    owed = full * _full_noises(plan, sents["to"][seen], _held_at(run, increments.anchor[seen]), sents["step"][seen])
    for place in np.flatnonzero((content > 0) & (noise < owed)):
        row = int(seen[place])
        to = run.logs.name(int(sents["to"][row]))
        text = f"showed {to} {content[place]} contributions under {noise[place]} of {owed[place]} noise units"
        run.line(findings, row, f"{text} (step {sents['step'][row]})")
    if plan.walk.release == "all" and lineage.complete and not (plan.noise_rule.by_ledger and lineage.n_ghosts):
        _released(run, full, findings)
    smallest = int(noise[content > 0].min()) if np.any(content > 0) else 0
    return from_findings(
        "foreign",
        "Everything anyone saw was covered by a full noise from others",
        findings,
        f"least {smallest / full:.3g}, in {len(seen)} observations",
        "1 full noise per round" if plan.noise_rule.by_ledger else "1 full noise",
        "Between two observations of the same user, others added at least one full noise if they added any data"
        + ("; one for every round, if it was passed by." if plan.noise_rule.by_ledger else "."),
        "THEORY.md#ring-ledger, #ring-missed-rounds, #release",
        enough=run.whole,
    )


def _held_at(run: Run, rows: Ints) -> Ints:
    """Where the sender of each row held the token; 0 for no row: nobody did before the start."""
    return np.where(rows >= 0, held_at(run.logs, run.lineage, rows), 0)


def _full_noises(plan: Plan, users: Ints, after: Ints, before: Ints) -> Ints:
    """Full noises between two positions: one, and one for each of the user's positions in between (ADR 13)."""
    if not plan.noise_rule.by_ledger:
        return np.ones(len(users), dtype=np.int64)
    return 1 + plan.topology.turns_between(users.astype(np.int64), after, before)


def _released(run: Run, full: int, findings: Findings) -> None:
    """The published token is one more observation for everybody but the finisher."""
    lineage, increments, plan = run.lineage, run.increments, run.plan
    finish = int(lineage.accepted[-1])
    others: Ints = np.flatnonzero(np.arange(plan.n) != lineage.sents["user"][finish])
    places = increments.last_position[others]
    rows = np.where(places >= 0, lineage.accepted[places], -1)
    end = np.full(len(others), plan.total_steps + 1)
    owed = full * _full_noises(plan, others, _held_at(run, rows), end)
    noise, data = (
        values[finish] - np.where(rows >= 0, values[rows], 0)
        for values in (increments.units_after, increments.contributions_after)
    )
    for place in np.flatnonzero((data > 0) & (noise < owed)):
        name, shown, found = run.logs.name(int(others[place])), data[place], noise[place]
        text = f"the released result shows {name} {shown} contributions under {found} of {owed[place]} units"
        run.line(findings, finish, text)
