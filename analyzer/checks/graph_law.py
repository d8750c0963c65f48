"""A walk among peers: was the next holder drawn by the plan's weights? (THEORY.md#graphs)

Every holder x draws from its own row of P, the first one is drawn from the stationary law. A holder that takes some of
its peers to be down draws among the others, in the same proportions: with probability q of its row down, nobody is
drawn with more than P_xy / (1 - q), and whoever it does not take to be down with at least P_xy. An honest log holds no
draw of somebody who is not a peer.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from scipy.stats import binom

from analyzer.checks.integrity import Run
from analyzer.checks.randomness import Question, check
from analyzer.read.tables import NOBODY, Bools, Findings, Floats, Ints
from analyzer.verdict import FALSE_ALARM, Check, Status, from_findings
from network_dp.topology import Graph


@dataclass(frozen=True, slots=True)
class Draws:
    """The first draw of every visit, and the draws before it that nobody answered."""

    sender: Ints
    receiver: Ints
    row: Ints  # of the sent line; NOBODY: nobody answered
    n_down: Ints  # users the sender held to be down
    was_down: Bools  # the receiver was one of them
    missed: Ints  # per user: draws of others that held it to be down
    step: Ints  # that the receiver would have; NOBODY: not known
    down: Sequence[frozenset[int]]  # who they were

    def __len__(self) -> int:
        return len(self.sender)


def peer_order(run: Run) -> Check | None:
    """Where everybody has a list of peers: the token goes from peer to peer, but for the public one at the start."""
    plan, findings, sents = run.plan, Findings(), run.lineage.sents
    if not plan.topology.listed:
        return None
    rows = np.flatnonzero(sents["to"] >= 0)
    for row in rows.tolist():
        sender, receiver, step = (int(sents[name][row]) for name in ("user", "to", "step"))
        if not plan.topology.may_pass(sender, receiver, step):
            run.line(findings, row, f"sent step {step} to {run.logs.name(receiver)}, which is not its peer")
    return from_findings(
        "order",
        "The token goes from peer to peer",
        findings,
        f"{findings.count} of {len(rows)} hops beside the graph",
        "0",
        "A holder hands the token to one of its peers or keeps it; only the first hop, of the public token, is free.",
        "THEORY.md#graphs",
        enough=not run.logs.absent,
    )


def weighted_walk(run: Run, draws: Draws) -> Check:
    """Each edge by exact binomial tails over the draws of its sender. How often a sender drew is itself chance, so
    every number of draws counts as one more question (Bonferroni)."""
    hidden = bool(run.logs.withheld)  # exported logs do not say who was down: any peer may have been
    seen = Status.UNKNOWN if run.logs.absent or run.logs.rejoined else Status.PASS
    return check(
        run,
        "uniform",
        "The next holder was drawn by the weights of the plan",
        list(_questions(run, draws, hidden=hidden)) if len(draws) else [],
        "Every edge by exact binomial tails over its sender's draws; Bonferroni over edges and over how often a sender "
        "drew. Whom the sender itself held to be down is left out of its draws.",
        "THEORY.md#graphs, #blind-routing",
        len(draws),
        seen=(Status.PARTIAL if run.kept_back else Status.UNKNOWN) if hidden else seen,
    )


def _rows(run: Run) -> Floats:
    """P, and below it the law of the first holder."""
    graph = run.plan.topology
    assert isinstance(graph, Graph)
    return np.vstack([graph.transition(), graph.stationary()])


def _questions(run: Run, draws: Draws, *, hidden: bool) -> Iterator[Question]:
    n, name, law = run.plan.n, run.logs.name, _rows(run)
    origin = np.where(draws.step == 1, n, draws.sender)
    of_row = np.bincount(origin, minlength=n + 1)
    left = np.array([1.0 - law[row, list(down)].sum() for row, down in zip(origin.tolist(), draws.down, strict=True)])
    ease = np.full(len(draws), np.inf) if hidden else 1.0 / np.maximum(left, 1e-300)
    calm = (draws.n_down == 0) & (not hidden)
    counts, calmly = np.zeros((2, n + 1, n), dtype=np.int64)
    np.add.at(counts, (origin, draws.receiver), 1)
    np.add.at(calmly, (origin[calm], draws.receiver[calm]), 1)
    n_calm = np.bincount(origin[calm], minlength=n + 1)
    trials = 2.0 * (np.count_nonzero(law) + 1) * max(1, len(draws))
    for row in range(n + 1):
        mine = ease[origin == row]
        if not len(mine):
            continue
        most = np.array([np.minimum(1.0, p * mine).mean() if p > 0 else 0.0 for p in law[row]])
        above = binom.sf(counts[row] - 1, of_row[row], most)
        below = np.where(law[row] > 0, binom.cdf(calmly[row], n_calm[row], law[row]), 1.0)
        p = np.minimum(1.0, np.minimum(above, below) * trials)
        who = "the first holder" if row == n else name(row)
        for user in np.flatnonzero(p <= FALSE_ALARM).tolist():
            sent = np.flatnonzero((origin == row) & (draws.receiver == user) & (draws.row >= 0))
            text = f"{who}: {counts[row, user]} of {of_row[row]} draws fell on {name(user)}"
            by = int(draws.sender[origin == row][0])
            yield Question(float(p[user]), text, by, int(draws.row[sent[0]]) if len(sent) else NOBODY)
        yield Question(float(p.min()), f"draws of {who}")
