"""Tests of chance: does the noise have its law, are cover elements uniform? Every false-alarm rate is stated.

Each check asks many questions at once; their p-values are multiplied by the number of questions (Bonferroni), so one
check cries wolf with probability at most its ``alarm`` on an honest run: ``FALSE_ALARM``, or ``NOISE_ALARM`` where
noise is looked at, or ``ELEMENTS_ALARM`` for the few elements that cover the ends of a ring. Binomial, chi-square and
Gamma tails are exact; Pearson's statistic is only used on cells that expect at least ``CELL_EXPECTS`` draws.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import chdtr, chdtrc, gammainc, gammaincc
from scipy.stats import binom, chi2, gamma, norm

from analyzer.checks.integrity import Run
from analyzer.read.tables import NOBODY, Bools, Findings, Floats, Ints, NoiseTally
from analyzer.reconstruct.draws import lie_rate
from analyzer.reconstruct.noise_laws import FINE
from analyzer.verdict import ELEMENTS_ALARM, FALSE_ALARM, NOISE_ALARM, Check, Status

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


def check(
    run: Run,
    id: str,
    title: str,
    questions: list[Question],
    rule: str,
    theory: str,
    size: int,
    *,
    seen: Status,
    alarm: float = FALSE_ALARM,
) -> Check:
    """One check from all its questions: the smallest p decides. ``seen``: the status when none speaks against it."""
    findings = Findings()
    for question in sorted(questions, key=lambda question: question.p):
        if question.p <= alarm:
            line = int(run.lineage.sents["line"][question.row]) if question.row >= 0 else 1
            if question.user >= 0:
                findings.add(run.logs.finding(question.user, line, question.text))
    worst = min(questions, key=lambda question: question.p, default=Question(1.0, ""))
    failed = worst.p <= alarm
    observed = f"smallest p = {worst.p:.3g} over {size} draws" + (f": {worst.text}" if failed else "")
    return Check(
        id=id,
        title=title,
        status=Status.FAIL if failed else seen,
        observed=observed if questions else "no draws to look at",
        bound=f"p > {alarm:g}",
        rule=rule,
        theory=theory,
        number=worst.p,
        limit=alarm,
        evidence=tuple(findings.first),
        evidence_count=findings.count,
    )


def seen_values(run: Run) -> Status:
    """What a check of values may say at best: values left out on purpose are one thing, a missing log is another."""
    if run.shown:
        return Status.PASS
    return Status.PARTIAL if run.kept_back else Status.UNKNOWN


# ---- the noise --------------------------------------------------------------------------------------------------


def noise_law(run: Run) -> Check:
    """The noise everybody says it drew has the plan's law: each draw, each user's, and all together."""
    tally, plan = run.logs.noise, run.plan
    size = int(tally.count.sum())
    ask, rule = {
        "rr": (_response_questions, "Lies per user and in all: exact binomial; which lie: chi-square"),
        "laplace": (
            _laplace_questions,
            "Sum of absolute values per draw, per user and in all: exact Gamma; shape: chi-square; largest draw",
        ),
        "gaussian": (
            _gaussian_questions,
            "Sum of squares per draw, per user and in all: exact chi-square; mean: exact Gaussian; shape: chi-square; "
            "largest draw",
        ),
    }[plan.noise.mechanism]
    questions = list(ask(run, tally)) if size else []
    for user, row in tally.bare:
        questions.append(Question(0.0, f"{run.logs.name(user)} claims noise and logs none", user, row))
    return check(
        run,
        "noise",
        "The noise looks as the plan says",
        questions,
        rule + "; Bonferroni.",
        "THEORY.md#noise-source, #grid, #histograms",
        size,
        seen=seen_values(run),
        alarm=NOISE_ALARM,
    )


def _per_user(run: Run, p: Floats, seen: Bools, weight: float, text: str) -> Iterator[Question]:
    """A question about every user at once, its p-values times the number of users."""
    p = p * int(seen.sum()) * weight
    for user in np.flatnonzero(seen & (p <= NOISE_ALARM)):
        yield Question(float(p[user]), f"{run.logs.name(int(user))}'s {text}", int(user))
    yield Question(min(1.0, float(p[seen].min())), text)


def _per_draw(run: Run, p: Floats, weight: float) -> Iterator[Question]:
    """A question about every draw by itself, its p-values times the number of draws."""
    draws = run.logs.noise.draws
    p = p * len(draws) * weight
    for place in np.flatnonzero(p <= NOISE_ALARM):
        user, row = int(draws["user"][place]), int(draws["row"][place])
        text = f"{run.logs.name(user)}'s noise of visit {run.logs.sents['visit'][row]} has the wrong size"
        yield Question(float(p[place]), text, user, row)
    yield Question(min(1.0, float(p.min())), "one draw by itself")


def _gaussian_questions(run: Run, tally: NoiseTally) -> Iterator[Question]:
    seen: Bools = tally.count > 0
    count = np.maximum(tally.count, 1)
    # The law is discrete: "at most as small" includes half a grid step, so that a zero is no miracle.
    half = tally.resolution / 2
    low = tally.square + 2 * half * tally.absolute + count * half**2
    ratio = np.sqrt(tally.square / count)
    p = two_sided(chi2.cdf(low, count), chi2.sf(tally.square, count))
    for question in _per_user(run, p, seen, 7, "noise has the wrong size"):
        factor = f" ({ratio[question.user]:.3g} sigma)" if question.user >= 0 else ""
        yield Question(question.p, question.text + factor, question.user)
    p = 2 * norm.sf(np.abs(tally.total) / np.sqrt(count))
    yield from _per_user(run, p, seen, 7, "noise is not centred")
    everything = float(tally.count.sum())
    square = float(tally.square.sum())
    low_all = float(low[seen].sum())
    p_all = two_sided(chi2.cdf(low_all, everything), chi2.sf(square, everything))
    text = f"all noise together has {np.sqrt(square / everything):.4g} sigma"
    yield Question(min(1.0, 7 * float(p_all)), text)
    centre = abs(float(tally.total.sum())) / np.sqrt(everything)
    yield Question(min(1.0, 14 * float(norm.sf(centre))), "all noise together is not centred")
    if tally.resolution < FINE:
        yield Question(pearson(tally.bins, 7), "the noise does not have its shape")
    worst = 2 * everything * float(norm.sf(tally.largest - half))
    yield Question(min(1.0, 7 * worst), f"a draw of {tally.largest:.3g} sigma")
    size = run.plan.task.dimension
    yield from _per_draw(run, two_sided(chdtr(size, tally.draws["low"]), chdtrc(size, tally.draws["size"])), 7)


def _laplace_questions(run: Run, tally: NoiseTally) -> Iterator[Question]:
    seen: Bools = tally.count > 0
    count = np.maximum(tally.count, 1)
    low = tally.absolute + count * tally.resolution / 2
    p = two_sided(gamma.cdf(low, count), gamma.sf(tally.absolute, count))
    yield from _per_user(run, p, seen, 5, "noise has the wrong size")
    everything, size = float(tally.count.sum()), float(tally.absolute.sum())
    p_all = two_sided(gamma.cdf(float(low[seen].sum()), everything), gamma.sf(size, everything))
    yield Question(min(1.0, 5 * float(p_all)), f"all noise together has {size / everything:.4g} scales")
    if tally.resolution < FINE:
        yield Question(pearson(tally.bins, 5), "the noise does not have its shape")
    worst = everything * float(np.exp(-tally.largest))
    yield Question(min(1.0, 5 * worst), f"a draw of {tally.largest:.3g} scales")
    width = run.plan.task.dimension
    draw = two_sided(gammainc(width, tally.draws["low"]), gammaincc(width, tally.draws["size"]))
    yield from _per_draw(run, draw, 5)


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


def cover_is_uniform(run: Run) -> Check | None:
    """Randomised response: elements that stand in for an answer are uniform over the buckets."""
    found = run.logs.noise.elements
    if run.plan.mechanism.additive:
        return None
    buckets = run.plan.task.dimension
    all_of, of_user = np.zeros(buckets, dtype=np.int64), np.zeros(run.plan.n, dtype=np.int64)
    for (user, bucket), count in found.items():
        all_of[bucket] += count
        of_user[user] += count
    return check(
        run,
        "elements",
        "Uniform elements are uniform over the buckets",
        list(_element_questions(run, all_of, of_user)) if found else [],
        "The fullest bucket of each user, fullest and emptiest of all: exact binomial; all: chi-square; Bonferroni.",
        "THEORY.md#histograms",
        int(all_of.sum()),
        seen=seen_values(run),
        alarm=ELEMENTS_ALARM,
    )


def _element_questions(run: Run, all_of: Ints, of_user: Ints) -> Iterator[Question]:
    found, name, buckets = run.logs.noise.elements, run.logs.name, len(all_of)
    total, cells = int(all_of.sum()), 4 * buckets
    for count, tail in (
        (int(all_of.max()), binom.sf(all_of.max() - 1, total, 1 / buckets)),
        (int(all_of.min()), binom.cdf(all_of.min(), total, 1 / buckets)),
    ):
        yield Question(min(1.0, cells * float(tail)), f"{count} of {total} elements in one of {buckets} buckets")
    yield Question(pearson(all_of, 4), "elements are not uniform")
    keys = list(found)
    counts = np.array([found[key] for key in keys])
    users = np.array([user for user, _ in keys])
    p = binom.sf(counts - 1, of_user[users], 1 / buckets) * cells * int(np.count_nonzero(of_user))
    for place in np.flatnonzero(p <= ELEMENTS_ALARM):
        user, bucket = keys[int(place)]
        text = f"{name(user)} put {counts[place]} of its {of_user[user]} elements in bucket {bucket}"
        yield Question(float(p[place]), text, user)
    yield Question(min(1.0, float(p.min())), "elements of one user")


def checks(run: Run) -> list[Check]:
    found = [noise_law(run), cover_is_uniform(run)]
    return [check for check in found if check is not None]
