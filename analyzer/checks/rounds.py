"""Runs over anonymous rounds: what attendance shows, whether labels were drawn fairly, and what it cost.

What anybody could learn is the promise: every step is, to any users that pool what they see, a secretly subsampled
Gaussian (THEORY.md#hidden-walk), or, in a masked sum, one total under a full noise. Beside it stand the steps that an
absence made known. Logs of several users show the path, so they are not for users to put together.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from scipy.stats import binom, chi2

from analyzer.checks import fresh, integrity, randomness, utility
from analyzer.checks.integrity import Run
from analyzer.checks.privacy import Privacy
from analyzer.checks.randomness import two_sided
from analyzer.checks.utility import Utility
from analyzer.read.tables import HANDOFF, Findings
from analyzer.reconstruct.rounds import RoundsLog, epochs, key_of, known_steps, least_attendance, walked_steps
from analyzer.reconstruct.values import value_unit
from analyzer.verdict import FALSE_ALARM, Check, Status, from_findings, from_p, status_of
from network_dp import hidden, promise
from network_dp.accounting import bounds
from network_dp.plan import Plan, Rounds

HIDDEN = "the path is hidden: no pair of users stands out"


@dataclass(frozen=True, slots=True)
class Attended:
    """What the logs of a run say beside the walk."""

    plan: Plan
    logs: Mapping[int, RoundsLog]

    @property
    def rounds(self) -> Rounds:
        assert self.plan.rounds is not None
        return self.plan.rounds

    @property
    def least(self) -> int:
        return least_attendance(self.plan, self.logs)

    @property
    def blind(self) -> frozenset[int]:
        """Users whose logs have no lines of rounds, as exported ones: then no less than the plan allows is taken to
        have happened."""
        return frozenset(user for user, log in self.logs.items() if not (log.rounds and log.attendance))

    @property
    def calm(self) -> bool:
        """Nobody was seen away, nobody started again, and the walk was never taken up again."""
        once = all(log.starts <= 1 for log in self.logs.values())
        return self.least == self.plan.n and len(epochs(self.logs)) <= 1 and once

    @property
    def known(self) -> int:
        """Most steps of any one user that an absence made known."""
        shown = max(known_steps(self.plan, self.logs).values(), default=0)
        return max(shown, self.rounds.known_steps) if self.blind else shown

    @property
    def attempts(self) -> int:
        """Masked sum: most shares that any one user let go."""
        shown = max((len(log.spoken) for log in self.logs.values()), default=0)
        return max(shown, self.rounds.attempts) if self.blind else shown

    @property
    def steps(self) -> int:
        """Steps that were walked, those of epochs that were given up included; never fewer than the plan's."""
        return max(self.plan.total_steps, walked_steps(self.plan, self.logs))

    def epsilon(self) -> float:
        """What the run cost: the bound of the promise, with the attendance, steps and attempts that there were."""
        plan, delta = self.plan, promise.aim(self.plan)
        size, least = plan.mechanism.size, max(self.least, self.rounds.colluders + 1)
        if plan.in_one_round:
            return bounds.exposure_epsilon(self.attempts, size, plan.sensitivity, delta)
        mu = plan.sensitivity / size
        return hidden.epsilon(least, self.steps, mu, delta, self.rounds.colluders, float(self.known))


def measure(run: Run, attended: Attended) -> Privacy:
    counts = [0] * run.plan.n
    for user, log in attended.logs.items():
        counts[user] = sum(record.fields["cause"] in ("visit", "share") for _, record in log.spoken)
    return Privacy(
        unknown=HIDDEN if not run.plan.in_one_round else "a masked sum shows one total and nothing of any pair",
        worst_epsilon=attended.epsilon(),
        promised=promise.promised_epsilon(run.plan),
        local=promise.usual_local_epsilon(run.plan),
        contributions=tuple(counts),
    )


def checks(run: Run, attended: Attended, privacy: Privacy, result: Utility) -> list[Check]:
    """All that apply: of one log, its own visits; of all, the walk as well."""
    found = [_attendance(run, attended), _cost(run, attended, privacy), _promise(run, privacy)]
    whole = len(attended.logs) == run.plan.n
    if run.plan.in_one_round:
        shares = [_shares(run, attended), integrity.noise_not_redrawn(run), *_drawn(run)]
        return [*found, *(check for check in shares if whole or check.status is Status.FAIL)]
    if not whole:
        bad = [check for check in _drawn(run) if check.status is Status.FAIL]
        return [*found, *([_own_visits(run)] if len(attended.logs) == 1 else []), *bad]
    return [
        *integrity.checks(run),
        *found,
        _labels(run, attended),
        *randomness.checks(run),
        *fresh.checks(run),
        *utility.checks(run, result),
    ]


def _attendance(run: Run, attended: Attended) -> Check:
    findings, least = Findings(), run.plan.walk.min_live
    for user, log in attended.logs.items():
        for line, count in log.attendance:
            if count < least:
                findings.add(run.logs.finding(user, line, f"{count} users in a round, the plan asks for {least}"))
    rounds = [log.rounds for log in attended.logs.values()]
    return from_findings(
        "attendance",
        "Every round had enough users",
        findings,
        f"{attended.least} to {run.plan.n} users; {max(rounds, default=0)} rounds attended, at most",
        f"at least {least} users",
        "A round needs a majority and min_live: the promise counts on a crowd of that size.",
        "THEORY.md#round, #hidden-walk",
        enough=all(log.attendance for log in attended.logs.values()),
    )


def _cost(run: Run, attended: Attended, privacy: Privacy) -> Check:
    """Within the promise, or more: known steps, repeated steps and attempts cost. A user does not see that it was away
    itself: only all logs show every known step, and one log alone at most that nothing happened."""
    promised, spent = privacy.promised, privacy.worst_epsilon
    within = promised is not None and spent <= promised * (1 + 1e-6)
    alone = len(attended.logs) == 1
    enough = not attended.blind and not run.logs.rejoined
    enough &= not run.logs.absent or (alone and attended.calm and attended.logs.keys() <= run.logs.ended)
    withheld = run.kept_back and attended.blind <= run.logs.withheld
    assumed = " One log alone: that its user was never away itself is assumed." if alone else ""
    if run.plan.in_one_round:
        what = f"{attended.attempts} attempts of one user"
        allowed = f"{attended.rounds.attempts} attempts"
    else:
        what = f"{attended.known} steps of one user known by an absence, {attended.steps} steps"
        allowed = f"{attended.rounds.known_steps} known steps, {run.plan.total_steps} steps"
    return Check(
        id="exposure",
        title="Nobody could learn more than the promise",
        status=status_of(Findings(), enough, withheld) if within else Status.OVERSPENT,
        observed=f"epsilon {spent:.4g}: {what}" + ("" if enough else "; these logs cannot show all"),
        bound="nothing is promised" if promised is None else f"epsilon <= {promised:.4g}: {allowed}",
        rule=f"Any {attended.rounds.colluders} users that pool what they see, and whoever watches every link: "
        "computationally, if at least one shuffler is honest and nobody puts all logs together." + assumed,
        theory="THEORY.md#hidden-path, #absence, #masked-sum",
        number=spent,
        limit=promised,
    )


def _promise(run: Run, privacy: Privacy) -> Check:
    target, reached = run.plan.noise.epsilon, privacy.promised
    good = reached is not None and (target is None or reached <= target * (1 + 1e-6))
    return Check(
        id="promise",
        title="The plan's noise gives the epsilon it promises",
        status=Status.PASS if good else Status.FAIL,
        observed="nothing" if reached is None else f"epsilon {reached:.4g} before the run",
        bound="a promise" if target is None else f"eps <= {target:g}",
        rule="Recomputed from the plan with the valid bound, for the least attendance.",
        theory="THEORY.md#hidden-path, #masked-sum",
        number=reached,
        limit=target,
    )


def _own_visits(run: Run) -> Check:
    """One log alone: was I visited no more often than the law allows?"""
    (user,) = run.logs.files
    count, steps = int(np.count_nonzero(run.logs.visits["cause"] == HANDOFF)), run.plan.total_steps
    above = float(binom.sf(count - 1, steps, 1 / run.plan.walk.min_live))
    below = float(binom.cdf(count, steps, 1 / run.plan.n))
    p = min(1.0, 2 * min(above, below))
    one_epoch = len(run.logs.epochs) <= 1
    return Check(
        id="visits",
        title="My visits follow the binomial law",
        status=Status.PASS if p > FALSE_ALARM else Status.FAIL if above < below and one_epoch else Status.UNKNOWN,
        observed=f"{count} visits where {steps / run.plan.n:.3g} are expected",
        bound=f"p > {FALSE_ALARM:g}",
        rule=f"Visits of one user ~ Binomial({steps}, 1/n) for {run.plan.walk.min_live} to {run.plan.n} attending "
        f"users. Too few convict nobody: {run.logs.name(user)} may have been away.",
        theory="THEORY.md#hidden-walk",
        number=p,
        limit=FALSE_ALARM,
    )


def _labels(run: Run, attended: Attended) -> Check:
    """Holders are uniform over the crowd; where all attended all the time, and no visit is missing, by chi-square."""
    plan, visits = run.plan, run.logs.visits
    held = np.bincount(visits["user"][visits["cause"] == HANDOFF], minlength=plan.n)
    shown = int(held.sum())
    count = shown if run.whole else max(shown, attended.steps)  # a missing visit was somebody else's
    above = binom.sf(held - 1, count, 1 / max(attended.least, 1)) * plan.n
    p = float(above.min()) if count else 1.0
    if run.whole and count and attended.least == plan.n:
        square = float(((held - count / plan.n) ** 2).sum() / (count / plan.n))
        fits = float(two_sided(chi2.cdf(square, plan.n - 1), chi2.sf(square, plan.n - 1)))
        fits = fits if count > 5 * plan.n else 1.0  # chi-square needs a few visits of everybody
        own = np.array([np.count_nonzero(_followers(run) == 0)])
        repeats = float(two_sided(binom.cdf(own, count, 1 / plan.n), binom.sf(own - 1, count, 1 / plan.n))[0])
        p = min(p, float((binom.cdf(held, count, 1 / plan.n) * plan.n).min()), fits, repeats) * 4
    p = min(1.0, p)
    return from_p(
        "labels",
        "Labels were drawn uniformly",
        p,
        f"smallest p = {p:.3g} over {shown} draws",
        "Visits of each user by exact binomial tails; with everybody there, all users by chi-square and how often "
        "one user held twice running; Bonferroni. While visits may be missing: only who was visited too often.",
        "THEORY.md#labels",
        passed=status_of(Findings(), run.whole, run.kept_back),
    )


def _drawn(run: Run) -> list[Check]:
    """What each log shows of its user's own values and noise; a lie shows whoever else's log is missing."""
    if not run.logs.noise.count.any():
        return []
    return [integrity.bounds_kept(run), *randomness.checks(run), *fresh.checks(run)]


def _followers(run: Run) -> np.ndarray:
    """How far, in plan order, the next holder stands from each sender."""
    sents = run.logs.sents[(run.logs.sents["to"] >= 0) & run.logs.sents["real"]]
    return np.asarray((sents["to"] - sents["user"]) % run.plan.n)


def _shares(run: Run, attended: Attended) -> Check:
    """Masked sum: the result is the sum of one attempt's shares, and each share is its value and its noise."""
    findings, sums = Findings(), dict[tuple[int, int], list[list[int]]]()
    for user, log in attended.logs.items():
        for line, record in log.spoken:
            fields = record.fields
            if fields.get("sent") is None:
                continue
            sums.setdefault(key_of(record)[0], []).append(fields["sent"])
            nothing = [0] * len(fields["sent"])
            parts = zip(fields["contribution"] or nothing, fields["noise"] or nothing, fields["sent"], strict=True)
            if any(a + b != c for a, b, c in parts):
                findings.add(run.logs.finding(user, line, "its share is not its value and its noise"))
    unit, value = value_unit(run.plan), run.logs.result_value
    totals = {tuple(column * unit for column in map(sum, zip(*rows, strict=True))) for rows in sums.values()}
    found = value is not None and tuple(value) in totals
    if value is not None and run.shown and run.logs.sealed and not found:
        (first, *_) = run.logs.files
        findings.add(run.logs.finding(first, 1, "the result is not the sum of the shares of any attempt"))
    return from_findings(
        "conservation",
        "The result is the sum of all shares",
        findings,
        f"{len(sums)} attempts, {sum(map(len, sums.values()))} shares",
        "to the last bit",
        "Shares are added as 64-bit words under pads that cancel.",
        "THEORY.md#masked-sum",
        enough=run.shown and found,
        withheld=run.kept_back,
    )
