"""From exposure to what it costs: eps of every pair and of colluding sets, and whether it keeps the promise."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np

from analyzer.checks import limits
from analyzer.checks.integrity import Run, abandoned
from analyzer.checks.limits import Course
from analyzer.read.tables import Finding, Floats
from analyzer.reconstruct.exposures import Measure, UnmeasurableError
from analyzer.reconstruct.lineage import contributions_per_user
from analyzer.reconstruct.observations import Observations
from analyzer.verdict import FALSE_ALARM, Check, Status
from network_dp import promise
from network_dp.plan import Plan


@dataclass(frozen=True, slots=True)
class Collusion:
    """What one set of users saw together of the user it saw most of."""

    members: tuple[int, ...]
    user: int
    exposure: float
    epsilon: float
    limit: float | None
    promised: float | None
    exact: bool
    searched: bool


@dataclass(frozen=True, slots=True)
class Privacy:
    """All numbers of section "Exposure and privacy"; matrices are [u, v]: what v saw of u."""

    unknown: str = ""  # why there are none
    exposure: Floats | None = None
    epsilon: Floats | None = None
    upper_bound: bool = False
    forks: int = 0
    worst: tuple[int, int] | None = None
    worst_epsilon: float = math.nan
    mean_epsilon: float = math.nan
    least_epsilon: float = math.nan
    words: str = ""
    limit: float | None = None
    limit_epsilon: float | None = None
    reserved: float | None = None  # the limit had the run lost no more tokens than its plan reserved for
    reserved_epsilon: float | None = None
    path_limit: float | None = None  # complete graph: the eps that no pair exceeds on a single path
    promised: float | None = None
    local: float | None = None
    contributions: tuple[int, ...] = ()
    collusions: tuple[Collusion, ...] = field(default=())


def n_live(run: Run) -> int:
    """Users never found down, but never fewer than the plan allows: its promise ends there, and so does the excuse.

    Exported logs do not say who was down, so the plan's least number is taken."""
    if not run.shown:
        return run.plan.walk.min_live
    return max(run.plan.walk.min_live, run.plan.n - len(run.logs.ever_down))


def down(run: Run) -> frozenset[int] | None:
    """Users ever found down; None where the logs do not say who was."""
    return frozenset(run.logs.ever_down) if run.shown else None


def skipped(run: Run) -> frozenset[int]:
    """Ring: users that the accepted branch jumped over at least once."""
    plan, rows = run.plan, run.lineage.received[run.lineage.accepted]
    held = frozenset(run.logs.visits["step"][rows[rows >= 0]].tolist())
    missed = (position for position in range(1, plan.total_steps + 1) if position not in held)
    return frozenset(user for position in missed for user in plan.topology.passed_by(position - 1, position + 1))


def measure(run: Run, colluders: Sequence[int] = (), max_colluders: int = 1) -> Privacy:
    """Every number that the logs allow."""
    counts = tuple(contributions_per_user(run.lineage.sents, run.plan.n).tolist())
    try:
        tool = Measure(run)
        return _measured(run, tool, counts, colluders, max_colluders)
    except UnmeasurableError as error:
        return Privacy(unknown=str(error), contributions=counts, promised=promise.promised_epsilon(run.plan))


def _measured(
    run: Run, tool: Measure, counts: tuple[int, ...], colluders: Sequence[int], max_colluders: int
) -> Privacy:
    plan = run.plan
    seen = tool.matrix()
    epsilon = tool.epsilon(seen)
    off = ~np.eye(plan.n, dtype=np.bool_)
    score = np.where(off, seen if plan.mechanism.additive else epsilon, -1.0)
    u, v = (int(i) for i in np.unravel_index(int(np.argmax(score)), score.shape))
    course = _course(run, tool)
    limit = limits.limit_for(plan, course)
    reserved = limits.reserved_limit(plan, course.n_live, course.n_skipped, course.down)
    worst = tool.one_epsilon(float(seen[u, v]))
    return Privacy(
        exposure=seen,
        epsilon=epsilon,
        upper_bound=tool.is_sgd or not plan.mechanism.additive,
        forks=len(tool.pieces) - 1,
        worst=(u, v),
        worst_epsilon=worst,
        mean_epsilon=float(epsilon[off].mean()),
        least_epsilon=float(epsilon[off].min()),
        words=explain(run, tool.observations, u, v),
        limit=limit,
        limit_epsilon=None if limit is None else tool.one_epsilon(limit),
        reserved=reserved,
        reserved_epsilon=None if reserved is None else tool.one_epsilon(reserved),
        path_limit=limits.path_limit(plan),
        promised=promise.promised_epsilon(plan),
        local=promise.local_epsilon(plan, max(counts)),
        contributions=counts,
        collusions=tuple(_collusions(run, tool, course, colluders, max_colluders, (u, v))),
    )


def _course(run: Run, tool: Measure) -> Course:
    plan = run.plan
    extra = tool.observations.most_extra if plan.mechanism.additive and not plan.topology.drawn else 0
    excused = min(len(skipped(run)), plan.n - plan.walk.min_live)
    return Course(tool.pieces, n_live(run), extra, excused, down(run))


def _collusions(
    run: Run, tool: Measure, course: Course, colluders: Sequence[int], max_colluders: int, worst_pair: tuple[int, int]
) -> Iterator[Collusion]:
    """The set that is named, and the worst set of each size."""

    def collusion(members: tuple[int, ...], user: int, value: float, exact: bool, *, searched: bool) -> Collusion:
        return Collusion(
            members=members,
            user=user,
            exposure=value,
            epsilon=tool.one_epsilon(value),
            limit=limits.limit_for(run.plan, course, len(members)),
            promised=promise.promised_epsilon(run.plan, len(members)),
            exact=exact,
            searched=searched,
        )

    if colluders:
        column = tool.column(colluders)
        user = int(np.argmax(column))
        yield collusion(tuple(colluders), user, float(column[user]), exact=True, searched=False)
    for size in range(2, min(max_colluders, run.plan.n - 1) + 1):
        yield collusion(*tool.worst_set(size, worst_pair), searched=True)


def ordinal(number: int) -> str:
    ending = "th" if number % 100 in (11, 12, 13) else {1: "st", 2: "nd", 3: "rd"}.get(number % 10, "th")
    return f"{number}{ending}"


def explain(run: Run, observations: Observations, u: int, v: int) -> str:
    """The observation that cost the worst pair most, in words."""
    place, count, noise, gap = observations.costliest(u, v)
    name = run.logs.name
    if count == 0:
        return f"{name(v)} saw nothing of {name(u)} on the accepted branch."
    which = ordinal(place)
    if gap == 0:
        return f"{name(u)}'s {which} contribution went straight to {name(v)}."
    several = (
        f"{count} contributions of {name(u)}, the last its {which},"
        if count > 1
        else f"{name(u)}'s {which} contribution"
    )
    return f"{several} reached {name(v)} {gap + 1} steps later, under {noise:.3g} full noises of others."


def checks(run: Run, privacy: Privacy) -> list[Check]:
    found = [_exposure_check(run, privacy), _calibration_check(run), _local_check(run, privacy)]
    found += [_collusion_check(run, item) for item in privacy.collusions]
    return [check for check in found if check is not None]


def _within(value: float, limit: float) -> bool:
    return value <= limit * (1 + 1e-9)


def _exposure_rule(plan: Plan) -> str:
    ring, responses = not plan.topology.drawn, not plan.mechanism.additive
    if ring and responses:
        return (
            "Every answer lies among those of all users never skipped, in one short window among cover elements; "
            "when the run forked, each answer by itself."
        )
    if ring:
        return (
            "Every increment holds a full noise from others for each round, so S <= K; a token seen off the branch "
            "adds at most 1, or the rounds since its user last had one. More than the plan reserves for is OVERSPENT."
        )
    if plan.topology.listed:
        return (
            "Nobody sees more of a user than all its contributions; a walk among peers, whoever of those found down "
            f"was down when, meets anybody more often with probability at most {FALSE_ALARM:g} (Chernoff)."
        )
    moment = "the Renyi moment of the shuffled answers" if responses else "E exp(b S)"
    return (
        f"An honest walk exceeds this for any pair with probability at most {FALSE_ALARM:g} "
        f"(Markov on {moment}; never more than all contributions by themselves). More than a walk that was never taken "
        "up again is OVERSPENT."
    )


def _exposure_check(run: Run, privacy: Privacy) -> Check:
    plan, delta = run.plan, run.plan.noise.delta
    bound = "no law for this plan"
    if privacy.limit is not None and privacy.limit_epsilon is not None:
        size = f"S <= {privacy.limit:.4g}, " if plan.mechanism.by_exposure else ""
        bound = f"{size}epsilon <= {privacy.limit_epsilon:.4g}"
    status, observed, number, limit = Status.UNKNOWN, privacy.unknown or "not measured", None, privacy.limit
    evidence: tuple[Finding, ...] = ()
    if privacy.worst is not None and privacy.exposure is not None:
        u, v = privacy.worst
        value = float(privacy.exposure[u, v])
        at = f" at delta {delta:g}" if not plan.mechanism.pure else ""
        observed = f"worst pair {run.logs.name(u)} -> {run.logs.name(v)}: epsilon {privacy.worst_epsilon:.4g}{at}"
        observed += f" (S = {value:.4g})" if plan.mechanism.by_exposure else ""
        number = value
        status = Status.PASS if run.whole and limit is not None else Status.UNKNOWN
        if limit is not None and not _within(number, limit):
            excuse = _too_few_answered(run, number) or _not_all_logged(run)
            status = Status.UNKNOWN if excuse else Status.FAIL
            observed += excuse
            evidence = (run.logs.finding(u, 1, privacy.words),)
        elif status is Status.PASS and privacy.reserved is not None and not _within(number, privacy.reserved):
            status = Status.OVERSPENT
            observed += _overspent(run, privacy)
    return Check(
        id="exposure",
        title="Nobody saw more than the theory allows",
        status=status,
        observed=observed,
        bound=bound,
        rule=_exposure_rule(plan),
        theory=f"THEORY.md#{'exposure' if plan.topology.drawn else 'exposure-ring'}"
        if plan.mechanism.additive
        else "THEORY.md#histograms",
        number=number,
        limit=limit,
        evidence=evidence,
        evidence_count=len(evidence),
    )


def _not_all_logged(run: Run) -> str:
    """What is missing may hold more noise than is assumed, and the branch that became the result."""
    return "" if run.whole else "; the missing lines may hold more noise"


def _overspent(run: Run, privacy: Privacy) -> str:
    """What tokens that were lost or refused cost beyond what the plan reserved for them."""
    reserve, again = run.plan.noise.reissues, abandoned(run)["reissues"]
    why = (
        f"re-issues cost the rest ({again}, {reserve} reserved)" if again else "tokens that were refused cost the rest"
    )
    return f"; the plan allows epsilon {privacy.reserved_epsilon:.4g}: {why}"


def _too_few_answered(run: Run, epsilon: float) -> str:
    """A ring of responses is promised ``min_live`` answers a round; dying and coming back in turns can make it fewer.

    That is no user's fault as long as local DP of all K answers holds."""
    plan, taking_part = run.plan, run.plan.n - len(skipped(run))
    fits = not plan.mechanism.additive and not plan.topology.drawn and taking_part < plan.walk.min_live
    if not fits or not _within(epsilon, promise.local_epsilon(plan, plan.walk.rounds or 0)):
        return ""
    return f"; {taking_part} users answered in every round, the plan counts on {plan.walk.min_live}"


def _calibration_check(run: Run) -> Check | None:
    """Does the noise of the plan give the epsilon that the plan asks for?"""
    noise = run.plan.noise
    target = noise.epsilon
    if target is None or (reached := promise.reached_epsilon(run.plan)) is None:
        return None
    return Check(
        id="promise",
        title="The plan's noise gives the epsilon it promises",
        status=Status.PASS if reached <= target * (1 + 1e-6) else Status.FAIL,
        observed=f"epsilon {reached:.4g} before the run ({noise.against} DP, delta {noise.delta:g})",
        bound=f"eps <= {target:g}",
        rule="Recomputed from the plan with the valid bound, for the least number of live users.",
        theory="THEORY.md#before-a-run, #exposure-ring",
        number=reached,
        limit=target,
    )


def _local_check(run: Run, privacy: Privacy) -> Check | None:
    """Against somebody who sees every message each contribution costs: did faults ask for more than the plan counts?"""
    plan, allowed = run.plan, promise.most_contributions(run.plan)
    if plan.noise.against != "local" or allowed is None:
        return None
    most = max(privacy.contributions, default=0)
    cost = "" if privacy.local is None else f": local eps {privacy.local:.4g}"
    return Check(
        id="local",
        title="Nobody contributed more often than the local guarantee counts",
        status=Status.OVERSPENT if most > allowed else Status.PASS if run.whole else Status.UNKNOWN,
        observed=f"at most {most} contributions of one user{cost}",
        bound=f"{allowed} contributions, eps <= {promise.local_epsilon(plan, allowed):.4g}",
        rule="Each contribution that left, on the accepted branch or off it, is seen once by such an observer.",
        theory="THEORY.md#exposure-local",
        number=float(most),
        limit=float(allowed),
    )


def _collusion_check(run: Run, item: Collusion) -> Check | None:
    """Only where the plan's law says something about sets; a ring promises nothing (it is shown all the same)."""
    if item.limit is None:
        return None
    who = ", ".join(run.logs.name(v) for v in item.members)
    responses = not run.plan.mechanism.additive  # their exposure is an eps already
    size = "" if responses else f" (S = {item.exposure:.4g})"
    least = "" if item.exact else "at least "
    status = Status.UNKNOWN
    if run.whole and not _within(item.exposure, item.limit):
        status = Status.FAIL
    elif run.whole:
        status = Status.PASS if item.exact else Status.PARTIAL  # some other set may have seen more
    return Check(
        id=f"colluders-{len(item.members)}" + ("" if item.searched else "-named"),
        title=f"{len(item.members)} colluders saw no more than the theory allows",
        status=status,
        observed=f"{who} about {run.logs.name(item.user)}: {least}epsilon {item.epsilon:.4g}{size}",
        bound=f"{'eps' if responses else 'S'} <= {item.limit:.4g}",
        rule="The set is one observer; noise of its members does not count. "
        + (
            "Every set was tried."
            if item.exact
            else "Grown from the worst pair: some set saw at least this, another may have seen more."
        ),
        theory="THEORY.md#histograms" if responses else "THEORY.md#exposure",
        number=item.exposure,
        limit=item.limit,
    )
