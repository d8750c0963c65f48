"""Tests of chance: was the next holder drawn uniformly, does the noise have its law? Every false-alarm rate is stated.

Each check asks many questions at once; their p-values are multiplied by the number of questions (Bonferroni), so one
check cries wolf with probability at most ``FALSE_ALARM`` on an honest run. Binomial and chi-square tails of sums of
squares are exact; Pearson's statistic is only used on cells that expect at least ``CELL_EXPECTS`` draws.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
from numpy.typing import ArrayLike
from scipy.stats import binom, chi2, gamma, norm

from analyzer.integrity import Run
from analyzer.tables import NOBODY, Bools, Findings, Floats, Ints, NoiseTally
from analyzer.verdict import Check, Status
from network_dp.plan import HistogramTask, Plan

FALSE_ALARM: Final = 1e-6
CELL_EXPECTS: Final = 50.0


@dataclass(frozen=True, slots=True)
class Question:
    """One test: its p-value already multiplied by how many were asked; ``user`` is whom it is about, if anybody."""

    p: float
    text: str
    user: int = NOBODY
    row: int = NOBODY  # a sent row that shows it


def two_sided(below: ArrayLike, above: ArrayLike) -> Floats:
    """p-values of "at most as low" and "at least as high" into two-sided ones."""
    return np.asarray(np.minimum(1.0, 2.0 * np.minimum(below, above)), dtype=np.float64)


def pearson(counts: Ints, weight: float = 1.0) -> float:
    """p-value (times ``weight``) of equally likely cells, neighbours pooled until each expects enough draws."""
    total, cells = int(counts.sum()), len(counts)
    pooled = min(cells, int(total // CELL_EXPECTS))
    if pooled < 2:
        return 1.0
    edges = np.linspace(0, cells, pooled + 1).astype(np.int64)
    observed = np.add.reduceat(counts, edges[:-1])
    expected = total * np.diff(edges) / cells
    statistic = float(np.sum((observed - expected) ** 2 / expected))
    return min(1.0, weight * float(chi2.sf(statistic, pooled - 1)))


def _check(
    run: Run, id: str, title: str, questions: list[Question], rule: str, theory: str, size: int, enough: bool
) -> Check:
    """One check from all its questions: the smallest p decides."""
    findings = Findings()
    for question in sorted(questions, key=lambda question: question.p):
        if question.p <= FALSE_ALARM:
            line = int(run.lineage.sents["line"][question.row]) if question.row >= 0 else 1
            if question.user >= 0:
                findings.add(run.logs.finding(question.user, line, question.text))
    worst = min(questions, key=lambda question: question.p, default=Question(1.0, ""))
    failed = worst.p <= FALSE_ALARM
    observed = f"smallest p = {worst.p:.3g} over {size} draws" + (f": {worst.text}" if failed else "")
    passed = Status.PARTIAL if run.kept_back else Status.UNKNOWN
    if enough and questions:
        passed = Status.PASS
    return Check(
        id=id,
        title=title,
        status=Status.FAIL if failed else passed,
        observed=observed if questions else "no draws to look at",
        bound=f"p > {FALSE_ALARM:g}",
        rule=rule,
        theory=theory,
        number=worst.p,
        limit=FALSE_ALARM,
        evidence=tuple(findings.first),
        evidence_count=findings.count,
    )


# ---- the walk ---------------------------------------------------------------------------------------------------


def _draws(run: Run) -> tuple[Ints, Ints, Ints]:
    """(sender, receiver, row) of the first send of every visit: the draws that nobody had refused before."""
    sents = run.logs.sents
    rows = np.flatnonzero(sents["to"] >= 0)
    key = np.stack([sents["user"][rows].astype(np.int64), sents["visit"][rows]], axis=1)
    _, first = np.unique(key, axis=0, return_index=True)
    rows = rows[np.sort(first)]
    return sents["user"][rows].astype(np.int64), sents["to"][rows].astype(np.int64), rows


def uniform_walk(run: Run) -> Check | None:
    """Complete graph: the next holder is uniform over the users, the sender included (theory.md 2)."""
    if run.plan.walk.topology != "complete":
        return None
    sender, receiver, rows = _draws(run)
    up: Bools = np.ones(run.plan.n, dtype=np.bool_)
    up[list(run.logs.ever_down)] = False
    kept = up[receiver]
    sender, receiver, rows = sender[kept], receiver[kept], rows[kept]
    questions = list(_walk_questions(run, up, sender, receiver, rows)) if len(rows) else []
    down = f" Users found down ({len(run.logs.ever_down)}) are left out." if run.logs.ever_down else ""
    check = _check(
        run,
        "uniform",
        "The next holder was drawn uniformly",
        questions,
        "Visits, edges and self-hops by exact binomial tails, users and offsets by chi-square; Bonferroni." + down,
        "theory.md 2; 8.6",
        len(rows),
        enough=not run.logs.absent,
    )
    return _not_from_exports(run, check)


def _not_from_exports(run: Run, check: Check) -> Check:
    """Exported logs do not say who was down, so they cannot convict a walk of being biased."""
    blind = run.logs.with_values != frozenset(run.logs.files)
    if check.status is Status.FAIL and blind:
        text = check.observed + " (exported logs do not say who was down)"
        return replace(check, status=Status.UNKNOWN, observed=text)
    return check


def _walk_questions(run: Run, up: Bools, sender: Ints, receiver: Ints, rows: Ints) -> Iterator[Question]:
    n, live, draws = run.plan.n, int(up.sum()), len(rows)
    name = run.logs.name
    visits = np.bincount(receiver, minlength=n)
    p = two_sided(binom.cdf(visits, draws, 1 / live), binom.sf(visits - 1, draws, 1 / live)) * live * 5
    for user in np.flatnonzero(up & (p <= FALSE_ALARM)):
        yield Question(float(p[user]), f"{name(int(user))} was drawn {visits[user]} times of {draws}", int(user))
    yield Question(min(1.0, float(p[up].min())), "visits per user")
    yield Question(pearson(visits[up], 5), "users are not drawn equally often")
    everybody = up[sender]
    offset = (receiver[everybody] - sender[everybody]) % n
    if live == n:
        yield Question(pearson(np.bincount(offset, minlength=n), 5), "the next holder depends on the sender's place")
    own, asked = int(np.count_nonzero(offset == 0)), int(everybody.sum())
    tails = two_sided(binom.cdf(own, asked, 1 / live), binom.sf(own - 1, asked, 1 / live))
    yield Question(min(1.0, float(tails) * 5), f"{own} self-hops in {asked} draws")
    edge, first, count = np.unique(sender * n + receiver, return_index=True, return_counts=True)
    of_sender = np.bincount(sender, minlength=n)[edge // n]
    p = binom.sf(count - 1, of_sender, 1 / live) * live * live * 5
    for i in np.flatnonzero(p <= FALSE_ALARM):
        u, v = divmod(int(edge[i]), n)
        text = f"{name(u)} sent {count[i]} of its {of_sender[i]} tokens to {name(v)}"
        yield Question(float(p[i]), text, u, int(rows[first[i]]))
    yield Question(min(1.0, float(p.min())), "tokens per edge")


# ---- the noise --------------------------------------------------------------------------------------------------


def noise_law(run: Run) -> Check:
    """The noise everybody says it drew has the plan's law, for each user and over all."""
    tally, plan = run.logs.noise, run.plan
    size = int(tally.count.sum())
    if plan.noise.mechanism == "rr":
        questions = list(_response_questions(run, tally)) if size else []
        rule = "Lies per user and in all: exact binomial; which lie: chi-square; Bonferroni."
    elif plan.noise.mechanism == "laplace":
        questions = list(_laplace_questions(run, tally)) if size else []
        rule = "Sum of absolute values per user: exact Gamma; shape: chi-square; largest draw; Bonferroni."
    else:
        questions = list(_gaussian_questions(run, tally)) if size else []
        rule = "Sum of squares per user: exact chi-square; mean: exact Gaussian; shape: chi-square; largest draw."
    return _check(
        run,
        "noise",
        "The noise has the law of the plan",
        questions,
        rule,
        "theory.md 8.3, 8.4; 5",
        size,
        enough=run.logs.with_values == frozenset(range(plan.n)),
    )


def _per_user(run: Run, p: Floats, seen: Bools, weight: float, text: str) -> Iterator[Question]:
    """A question about every user at once, its p-values times the number of users."""
    p = p * int(seen.sum()) * weight
    for user in np.flatnonzero(seen & (p <= FALSE_ALARM)):
        yield Question(float(p[user]), f"{run.logs.name(int(user))}'s {text}", int(user))
    yield Question(min(1.0, float(p[seen].min())), text)


def _gaussian_questions(run: Run, tally: NoiseTally) -> Iterator[Question]:
    seen: Bools = tally.count > 0
    count = np.maximum(tally.count, 1)
    # The law is discrete: "at most as small" includes half a grid step, so that a zero is no miracle.
    half = tally.resolution / 2
    low = tally.square + 2 * half * tally.absolute + count * half**2
    ratio = np.sqrt(tally.square / count)
    p = two_sided(chi2.cdf(low, count), chi2.sf(tally.square, count))
    for question in _per_user(run, p, seen, 6, "noise has the wrong size"):
        factor = f" ({ratio[question.user]:.3g} sigma)" if question.user >= 0 else ""
        yield Question(question.p, question.text + factor, question.user)
    p = 2 * norm.sf(np.abs(tally.total) / np.sqrt(count))
    yield from _per_user(run, p, seen, 6, "noise is not centred")
    everything = float(tally.count.sum())
    square = float(tally.square.sum())
    low_all = float(low[seen].sum())
    p_all = two_sided(chi2.cdf(low_all, everything), chi2.sf(square, everything))
    text = f"all noise together has {np.sqrt(square / everything):.4g} sigma"
    yield Question(min(1.0, 6 * float(p_all)), text)
    centre = abs(float(tally.total.sum())) / np.sqrt(everything)
    yield Question(min(1.0, 12 * float(norm.sf(centre))), "all noise together is not centred")
    if tally.resolution < 0.01:
        yield Question(pearson(tally.bins, 6), "the noise does not have its shape")
    worst = 2 * everything * float(norm.sf(tally.largest - half))
    yield Question(min(1.0, 6 * worst), f"a draw of {tally.largest:.3g} sigma")


def _laplace_questions(run: Run, tally: NoiseTally) -> Iterator[Question]:
    seen: Bools = tally.count > 0
    count = np.maximum(tally.count, 1)
    low = tally.absolute + count * tally.resolution / 2
    p = two_sided(gamma.cdf(low, count), gamma.sf(tally.absolute, count))
    yield from _per_user(run, p, seen, 4, "noise has the wrong size")
    everything, size = float(tally.count.sum()), float(tally.absolute.sum())
    p_all = two_sided(gamma.cdf(float(low[seen].sum()), everything), gamma.sf(size, everything))
    yield Question(min(1.0, 4 * float(p_all)), f"all noise together has {size / everything:.4g} scales")
    if tally.resolution < 0.01:
        yield Question(pearson(tally.bins, 4), "the noise does not have its shape")
    worst = everything * float(np.exp(-tally.largest))
    yield Question(min(1.0, 4 * worst), f"a draw of {tally.largest:.3g} scales")


def lie_rate(plan: Plan) -> float:
    """Probability that a response differs from the truth: gamma (1 - 1/L)."""
    assert plan.noise.gamma is not None and isinstance(plan.task, HistogramTask)
    return plan.noise.gamma * (1 - 1 / plan.task.buckets)


def _response_questions(run: Run, tally: NoiseTally) -> Iterator[Question]:
    rate = lie_rate(run.plan)
    seen: Bools = tally.count > 0
    lies, count = tally.total.astype(np.int64), tally.count
    p = two_sided(binom.cdf(lies, count, rate), binom.sf(lies - 1, count, rate))
    yield from _per_user(run, p, seen, 3, "responses lie at the wrong rate")
    all_lies, everything = int(lies.sum()), int(count.sum())
    p_all = two_sided(binom.cdf(all_lies, everything, rate), binom.sf(all_lies - 1, everything, rate))
    yield Question(min(1.0, 3 * float(p_all)), f"{all_lies} lies in {everything} responses")
    yield Question(pearson(tally.bins[1:], 3), "lies are not uniform")


def checks(run: Run) -> list[Check]:
    found = [uniform_walk(run), noise_law(run)]
    return [check for check in found if check is not None]
