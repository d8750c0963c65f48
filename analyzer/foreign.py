"""Did everything anybody saw hold enough noise of others?"""

from __future__ import annotations

import numpy as np

from analyzer.integrity import Run
from analyzer.lineage import LOST, held_at
from analyzer.tables import Findings, Ints
from analyzer.verdict import Check, from_findings
from network_dp.plan import Plan


def checks(run: Run) -> list[Check]:
    """Randomised response has no noise to count; its answers cover each other."""
    return [] if run.plan.noise.mechanism == "rr" else [foreign_noise(run)]


def foreign_noise(run: Run) -> Check:
    """Every increment holds a full noise of others; on a ring, one for every round since its user last had it."""
    plan, lineage, ledger, findings = run.plan, run.lineage, run.ledger, Findings()
    full = plan.unit_count
    sents = lineage.sents
    seen: Ints = np.flatnonzero((sents["to"] >= 0) & (ledger.anchor != LOST))
    if plan.noise_rule.by_ledger:  # a missing log may hold more noise than one component
        seen = seen[ledger.increment(seen, ledger.ghosts_after) == 0]
    noise = ledger.increment(seen, ledger.units_after)
    content = ledger.increment(seen, ledger.contributions_after)
    owed = full * _full_noises(plan, sents["to"][seen], _held_at(run, ledger.anchor[seen]), sents["step"][seen])
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
        "Everything anybody saw held a full foreign noise",
        findings,
        f"smallest {smallest / full:.3g} full noises in {len(seen)} sights",
        "1 full noise per round" if plan.noise_rule.by_ledger else "1 full noise",
        "Between two sights of the same user, others added at least one full noise if they added any data"
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
    """The published token is one more sight for everybody but the finisher."""
    lineage, ledger, plan = run.lineage, run.ledger, run.plan
    finish = int(lineage.accepted[-1])
    others: Ints = np.flatnonzero(np.arange(plan.n) != lineage.sents["user"][finish])
    places = ledger.last_position[others]
    rows = np.where(places >= 0, lineage.accepted[places], -1)
    end = np.full(len(others), plan.total_steps + 1)
    owed = full * _full_noises(plan, others, _held_at(run, rows), end)
    noise, data = (
        values[finish] - np.where(rows >= 0, values[rows], 0)
        for values in (ledger.units_after, ledger.contributions_after)
    )
    for place in np.flatnonzero((data > 0) & (noise < owed)):
        name, shown, found = run.logs.name(int(others[place])), data[place], noise[place]
        text = f"the released result shows {name} {shown} contributions under {found} of {owed[place]} units"
        run.line(findings, finish, text)
