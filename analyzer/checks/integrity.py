"""Did the run keep the rules? Each function asks the logs one question and answers with one ``Check``."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from analyzer.read.tables import NOBODY, REISSUE, START, Bools, Findings, Ints, Logs
from analyzer.reconstruct.at_most import AtMost
from analyzer.reconstruct.extent import since_rejoining
from analyzer.reconstruct.increments import Increments
from analyzer.reconstruct.lineage import Lineage, held_at, is_reissue, unvisited
from analyzer.reconstruct.values import StepRule, digest
from analyzer.verdict import Check, Status, from_findings
from network_dp import noise_rule
from network_dp.in_words import count as counted
from network_dp.plan import Plan


@dataclass(frozen=True, slots=True)
class Run:
    """One run, read and put together; what every check looks at."""

    logs: Logs
    lineage: Lineage
    increments: Increments

    @property
    def plan(self) -> Plan:
        return self.logs.plan

    @property
    def whole(self) -> bool:
        """Every user's log is here, no line of any is known to be missing, and the accepted branch has no gap."""
        logs, lineage = self.logs, self.lineage
        return not logs.absent and not logs.rejoined and lineage.complete and lineage.missing == 0

    @property
    def shown(self) -> bool:
        """Every user's log is here with its values."""
        return self.logs.with_values == frozenset(range(self.plan.n))

    @property
    def kept_back(self) -> bool:
        """All that is missing are values which users left out on purpose."""
        return bool(self.logs.withheld) and not self.logs.absent and not self.logs.rejoined

    def line(self, findings: Findings, row: int, text: str) -> None:
        """Evidence at a sent row."""
        sents = self.lineage.sents
        findings.add(self.logs.finding(int(sents["user"][row]), int(sents["line"][row]), text))


def logs_present(run: Run) -> Check:
    logs, n, withheld = run.logs, run.plan.n, run.logs.withheld
    text = f"{n - len(logs.absent)} of {n} logs"
    text += f" (missing: {_names(run, logs.absent)})" if logs.absent else ""
    text += f", {len(withheld)} without values" if withheld else ""
    if logs.rejoined:
        text += f"; lines may be missing since a disk came back: {_names(run, tuple(logs.rejoined))}"
    missing = bool(logs.absent or logs.rejoined)
    return Check(
        id="logs",
        title="Every user's log is here",
        status=Status.UNKNOWN if missing else Status.PARTIAL if withheld else Status.PASS,
        observed=text,
        bound=f"{n} logs with values",
        rule="A missing log, or one without values, proves nothing either way.",
        theory="ANALYZER.md#input",
        number=float(n - len(logs.absent)),
        limit=float(n),
    )


def _names(run: Run, users: tuple[int, ...]) -> str:
    return ", ".join(run.logs.name(user) for user in users[:5]) + (" ..." if len(users) > 5 else "")


def links(run: Run) -> Check:
    lineage = run.lineage
    return from_findings(
        "links",
        "What was received is what was sent",
        lineage.links,
        f"{lineage.links.count} of {lineage.checked_links} hand-overs differ",
        "0",
        "Both ends of a hand-over log the same tag and, if logged, the same bytes.",
        "PROTOCOL.md#custody",
        enough=not run.logs.absent and lineage.checked_links > 0 and lineage.missing == 0,
    )


def every_step_once(run: Run) -> Check:
    """The accepted branch: start, then every step once (ring: dead users' positions may be jumped over)."""
    logs, lineage, findings = run.logs, run.lineage, Findings()
    chain = lineage.accepted
    steps = held_at(logs, lineage, chain)
    taken_up = is_reissue(logs, lineage)[chain]
    jump = run.plan.topology.most_skipped > 0
    last = 0
    if len(chain) and not lineage.complete:  # without its beginning it says nothing about the steps before
        last = int(steps[0]) - int(not taken_up[0])
    for row, step, again in zip(chain.tolist(), steps.tolist(), taken_up.tolist(), strict=True):
        if again:
            continue
        if step != last + 1 and not (jump and last < step) and not (step == 0 == last):
            run.line(findings, row, f"step {last + 1} is missing: the branch goes from step {last} to {step}")
        last = step
    total = run.plan.total_steps
    if lineage.complete and last < total and not jump:
        run.line(findings, int(chain[-1]), f"the walk ended at step {last} of {total}")
    _doubled(run, findings)
    observed = f"{len(chain)} hops from start to finish" if lineage.complete else "no unbroken branch to a result"
    return from_findings(
        "steps",
        "Every step exactly once",
        findings,
        observed + (f", {findings.count} faults" if findings.count else ""),
        f"{total} steps" if not jump else f"{total} positions, dead users skipped",
        "The branch that led to the result has every step once, and no hop has two holders.",
        "PROTOCOL.md#custody, THEORY.md#one-token",
        enough=lineage.complete and lineage.n_ghosts == 0 and lineage.missing == 0,
    )


def _doubled(run: Run, findings: Findings) -> None:
    """Two visits to one hop, a visit without a cause, or a token sent from a visit that is not in the log."""
    logs = run.logs
    visits, settled = logs.visits, since_rejoining(logs, logs.visits)
    normal = np.flatnonzero(visits["cause"] != REISSUE)
    key = np.stack([visits["epoch"][normal].astype(np.int64), visits["step"][normal]], axis=1)
    order = np.lexsort((key[:, 1], key[:, 0]))
    repeated = np.flatnonzero(np.all(key[order][1:] == key[order][:-1], axis=1)) if len(order) else order
    for place in repeated:
        first, second = sorted((normal[order[place]], normal[order[place + 1]]))
        if visits["user"][first] == visits["user"][second] and not settled[first]:
            continue  # its disk forgot the first of the two
        users, senders = (visits[name][[first, second]] for name in ("user", "sender"))
        if senders[0] == senders[1] and bool(((users == senders) & ~settled[[first, second]]).any()):
            continue  # the disk of who sent both forgot that it had kept the token for itself
        other = logs.name(int(visits["user"][first]))
        text = f"step {visits['step'][second]} has a second holder or is logged twice (also {other})"
        findings.add(logs.finding(int(visits["user"][second]), visits["line"][second], text))
    for row in np.flatnonzero(unvisited(logs) & since_rejoining(logs, logs.sents)):
        run.line(findings, int(row), f"sent step {logs.sents['step'][row]} without a visit that led to it")
    for row in np.flatnonzero(_kept_for_itself(run)):
        text = f"visited at step {visits['step'][row]} but never sent the token on"
        findings.add(logs.finding(int(visits["user"][row]), visits["line"][row], text))


def _kept_for_itself(run: Run) -> Bools:
    """Per visit: did its user not send the token on, although it was of the result's epoch and its log goes on?"""
    logs, visits = run.logs, run.logs.visits
    silent = ~np.isin(np.arange(len(visits)), logs.sents["row"]) & since_rejoining(logs, visits)
    if not logs.results:
        return np.zeros(len(visits), dtype=np.bool_)
    newest = max((row.epoch for row in logs.results), key=lambda epoch: logs.epochs[epoch])
    goes_on = run.lineage.extent.covers(visits["user"], visits["epoch"], visits["step"] + 1)
    return np.asarray(silent & (visits["epoch"] == newest) & goes_on, dtype=np.bool_)


def ring_order(run: Run) -> Check | None:
    """Where turns are fixed: the token is at step P with the user whose turn that is."""
    plan, findings = run.plan, Findings()
    if plan.topology.drawn:
        return None
    sents = run.lineage.sents
    sent = sents["to"] >= 0
    wrong = sent & ~plan.topology.has_turn(sents["to"], sents["step"])
    for row in np.flatnonzero(wrong):
        step = int(sents["step"][row])
        (turn,) = plan.topology.passed_by(step - 1, step + 1)
        run.line(findings, int(row), f"sent position {step} to the wrong user (it is {run.logs.name(turn)}'s)")
    return from_findings(
        "order",
        "The token follows the ring",
        findings,
        f"{findings.count} of {int(sent.sum())} hops off the ring",
        "0",
        "Positions count 1, 2, 3, ... over all users, dead ones included.",
        "THEORY.md#ring",
        enough=not run.logs.absent,
    )


def conservation(run: Run) -> Check:
    report = run.logs.values
    exact = StepRule(run.plan).exact
    _start_alike(run)
    checked = report.checked_steps
    observed = f"{checked} steps recomputed, {report.conservation.count} differ"
    if report.inexact_steps:
        observed += f", {report.inexact_steps} equal only to 1e-12"
    rule = (
        "sent = received + contribution (if real) + noise + cover, in integers, at every step; with equal links the "
        "final token is the sum of everything logged, to the last bit."
        if exact
        else "sent = projection(received - eta (gradient + noise)), recomputed in float64."
    )
    return from_findings(
        "conservation",
        "Nothing but logged contributions and noise is in the token",
        report.conservation,
        observed,
        "0 differ",
        rule,
        "THEORY.md#grid" if exact else "THEORY.md#sgd",
        enough=run.shown and report.unchecked_steps == 0 and checked > 0,
        withheld=run.kept_back and report.unchecked_steps == 0,
    )


def _start_alike(run: Run) -> None:
    """The initial token is public: zero, or (a model's weights) the same whoever starts."""
    size, visits = run.plan.task.dimension, run.logs.visits
    starts = np.flatnonzero(visits["cause"] == START)
    right, wrong = {digest([0] * size), digest([0.0] * size), 0}, "the initial token is not zero"
    if not run.plan.task.from_zero:
        known = [int(value) for value in visits["received"][starts] if value]
        right, wrong = {0, *known[:1]}, "the initial token is another than the first"
    for row in starts:
        if int(visits["received"][row]) not in right:
            finding = run.logs.finding(int(visits["user"][row]), visits["line"][row], wrong)
            run.logs.values.conservation.add(finding)


def bounds_kept(run: Run) -> Check:
    report, bounded = run.logs.values, run.plan.task.bounded
    clipped = sum(run.logs.clipped.values())
    after = f", after {counted(clipped, 'value')} were clipped" if clipped else ""
    return from_findings(
        "bounds",
        "Contributions keep the public bounds",
        report.bounds,
        f"{report.bounds.count} outside{after}" if bounded else "not looked at: only the task itself knows its bounds",
        f"sensitivity {run.plan.sensitivity:.4g}" if run.plan.mechanism.additive else "one bucket each",
        "The sensitivity of the plan holds only for contributions inside its bounds.",
        "THEORY.md#exposure, #sgd-rows",
        enough=run.shown and bounded,
        withheld=run.shown or run.kept_back,
    )


def noise_not_redrawn(run: Run) -> Check:
    """One visit, one noise: whatever left twice left with the same noise (more units may be added, never others)."""
    sents, findings = run.logs.sents, Findings()
    order = np.lexsort((sents["units"], sents["visit"], sents["user"]))
    ordered = sents[order]
    same_visit = (ordered["user"][1:] == ordered["user"][:-1]) & (ordered["visit"][1:] == ordered["visit"][:-1])
    same_units = same_visit & (ordered["units"][1:] == ordered["units"][:-1])
    both = (ordered["noise"][1:] != 0) & (ordered["noise"][:-1] != 0)
    redrawn = same_units & both & (ordered["noise"][1:] != ordered["noise"][:-1])
    given = (ordered["contribution"][1:] != 0) & (ordered["contribution"][:-1] != 0)
    changed = same_visit & given & (ordered["contribution"][1:] != ordered["contribution"][:-1])
    # Refused and topped up for somebody else, it may come back to the first receiver with more noise: no redraw.
    same_hop = same_units & (ordered["to"][1:] == ordered["to"][:-1]) & (ordered["step"][1:] == ordered["step"][:-1])
    same_hop &= ordered["epoch"][1:] == ordered["epoch"][:-1]
    shown = (ordered["sent"][1:] != 0) & (ordered["sent"][:-1] != 0)
    other_bytes = same_hop & shown & (ordered["sent"][1:] != ordered["sent"][:-1])
    # Equal bytes get a new tag when a restart re-routes them, so without values another tag proves nothing.
    unclear = same_hop & ~shown & (ordered["tag"][1:] != ordered["tag"][:-1])
    for mask, text in (
        (redrawn, "sent visit {visit} again with other noise"),
        (changed & ~redrawn, "sent visit {visit} again with another contribution"),
        (other_bytes & ~redrawn & ~changed, "sent the same hop (step {step}) twice with different bytes"),
    ):
        for place in np.flatnonzero(mask):
            row = int(max(order[place], order[place + 1]))
            run.line(findings, row, text.format(visit=sents["visit"][row], step=sents["step"][row]))
    again = int(np.count_nonzero(same_visit))
    return from_findings(
        "redraw",
        "No noise was redrawn",
        findings,
        f"{findings.count} of {again} repeated sends differ",
        "0",
        "A resend is byte-identical; a new receiver gets the same noise: redrawing lets noise be averaged away.",
        "THEORY.md#noise-once",
        enough=not run.logs.absent and not unclear.any(),
        withheld=run.kept_back,
    )


def noise_added(run: Run) -> Check | None:
    """Every visit and every re-issue added the noise its rule asks for."""
    plan, logs, lineage, findings = run.plan, run.logs, run.lineage, Findings()
    if not plan.mechanism.additive:
        return None
    sents = logs.sents
    again = is_reissue(logs, lineage)[: len(sents)]
    for row in np.flatnonzero(again & (sents["units"] < plan.unit_count)):
        text = f"re-issued the token with {sents['units'][row]} of {plan.unit_count} fresh noise units"
        run.line(findings, int(row), text)
    from_start = _starts_at_zero(run)[: len(sents)]
    share = plan.noise_rule.share if plan.noise_rule.by_ledger else 1
    capped = ~sents["real"] & (plan.caps.past == "forward")
    short = ~again & ~from_start & ~capped & ~unvisited(logs) & (sents["units"] < share)
    for row in np.flatnonzero(short):
        run.line(
            findings, int(row), f"added {sents['units'][row]} noise units at step {sents['step'][row]}, not {share}"
        )
    rule = (
        "Each ring hop adds its share, and a sender tops up to one full noise for each round since the receiver's last."
        if plan.noise_rule.by_ledger
        else "Every visit adds one full noise, past a cap too."
    )
    return from_findings(
        "duty",
        "Everybody added the noise the plan asks for",
        findings,
        f"{findings.count} of {len(sents)} sends short of noise",
        "0",
        rule,
        "THEORY.md#ring-ledger, #cover-for-others",
        enough=not logs.absent,
    )


def _starts_at_zero(run: Run) -> np.ndarray:
    """Rows sent by a user that only drew the first holder (step 0): nothing of its own is in them."""
    rows, visits = run.lineage.received, run.logs.visits
    mask = np.zeros(len(rows), dtype=np.bool_)
    known = rows >= 0
    mask[known] = (visits["cause"][rows[known]] == START) & (visits["step"][rows[known]] == 0)
    return mask


def _cover_each(plan: Plan) -> int:
    return noise_rule.cover_elements(plan.noise.gamma or 0.0, plan.n)


def cover_owed(run: Run) -> dict[int, int]:
    """Ring histograms by randomised response: sent row -> cover elements it must hold, the first to answer first."""
    plan, lineage = run.plan, run.lineage
    visiting = ~(_starts_at_zero(run) | is_reissue(run.logs, lineage))[lineage.accepted]
    if plan.mechanism.additive or plan.topology.drawn or not visiting.any():
        return {}
    # Who only started or took up the token may be the next to see it: its own elements would hide nothing from it.
    first, last = int(lineage.accepted[int(np.argmax(visiting))]), int(lineage.accepted[-1])
    owed = {first: _cover_each(plan)}
    if plan.walk.release == "all":
        owed[last] = owed.get(last, 0) + _cover_each(plan)
    return owed


def cover_added(run: Run) -> Ints:
    """Per step of the accepted branch: cover elements it added; where the log hides them, those the rule asks for.

    Whether the rule was kept is another check's question (``cover_elements``)."""
    sents, chain = run.lineage.sents, run.lineage.accepted
    shown = np.isin(sents["user"][chain], np.fromiter(run.logs.with_values, dtype=np.int64))
    ruled = np.zeros(len(chain), dtype=np.int64)
    for row, count in cover_owed(run).items():
        ruled[chain == row] = count
    return np.where(shown, sents["cover"][chain], ruled).astype(np.int64)


def cover_elements(run: Run) -> Check | None:
    """Ring histograms by randomised response: R1 cover elements hide each end."""
    plan, lineage, findings = run.plan, run.lineage, Findings()
    owed = cover_owed(run)
    if not owed or not lineage.complete:
        return None
    needed, first, last = _cover_each(plan), next(iter(owed)), int(lineage.accepted[-1])
    found = lineage.sents["cover"]
    for row, count in owed.items():
        if run.shown and found[row] < count:
            run.line(findings, row, f"added {found[row]} of {count} cover elements at an end of the walk")
    return from_findings(
        "cover",
        "Uniform elements cover both ends of the ring",
        findings,
        (f"{int(found[first])} at the start" + (f", {int(found[last])} at the end" if last in owed else ""))
        if run.shown
        else "not shown",
        f"{needed} each",
        "The first to answer adds R1 = ceil(gamma (n-2)) cover elements, the finisher as many on a release.",
        "THEORY.md#cover-elements",
        enough=run.shown,
        withheld=run.kept_back,
    )


def caps_kept(run: Run) -> Check | None:
    """Real contributions per user, over all epochs, and per user and receiver. Where turns are fixed, the branch that
    led to the result has one for each; a token that was taken up again may have met a user once more. A lost or old
    disk forgets what it counted: whose log says that one came back is not convicted (``local`` says what it cost)."""
    plan, logs, findings = run.plan, run.logs, Findings()
    cap, edge, turns = plan.caps.contributions, plan.caps.edge, plan.topology.rounds
    if cap is None and edge is None and turns is None:
        return None
    accepted = run.lineage.on_branch[: len(logs.sents)]
    in_all, in_turn, along = AtMost(cap), AtMost(turns), AtMost(edge)
    for row in np.flatnonzero(logs.sents["real"]).tolist():
        user, to, visit = (int(logs.sents[name][row]) for name in ("user", "to", "visit"))
        remembers = user not in logs.rejoined
        if remembers and in_all.passed_by(user, visit):
            run.line(findings, row, f"contributed more than {cap} times")
        if accepted[row] and in_turn.passed_by(user, visit):
            run.line(findings, row, f"contributed more than {turns} times")
        if edge is not None and remembers and to not in (NOBODY, user) and along.passed_by((user, to), visit):
            run.line(findings, row, f"contributed more than {edge} times towards {logs.name(to)}")
    most = max((len(visits) for visits in in_all.visits.values()), default=0)
    least = min((allowed for allowed in (cap, turns) if allowed is not None), default=None)
    return from_findings(
        "caps",
        "Nobody contributed more often than allowed",
        findings,
        f"at most {most} contributions of one user",
        f"{'no cap' if least is None else f'at most {least}'} per user"
        + (f", {edge} per edge" if edge is not None else ""),
        "Real contributions are counted per user over all epochs (ring: one per round).",
        "THEORY.md#caps",
        enough=not logs.absent and not logs.rejoined,
    )


def result_agrees(run: Run) -> Check:
    """Everybody was given the same result, and it is the final token."""
    logs, lineage, findings = run.logs, run.lineage, Findings()
    values = {row.digest for row in logs.results if row.digest}
    if final := _final_token(lineage):
        values.add(final)
        _compare_with_walk(run, final, findings)
    elif logs.sealed and not len(lineage.accepted):
        for row in logs.results:
            findings.add(logs.finding(row.user, row.line, "was given a result, and no log shows how the walk ended"))
    if not findings.count and len(values) > 1:
        for row in logs.results[1:]:
            if row.digest != logs.results[0].digest:
                findings.add(logs.finding(row.user, row.line, "was given another result"))
    return from_findings(
        "result",
        "One result, the same for everybody",
        findings,
        f"{len(logs.results)} cop{'y' if len(logs.results) == 1 else 'ies'}, {_distinct(len(values))}",
        "1 value, equal to the final token",
        "The published value and count are those of the finished walk.",
        "PROTOCOL.md#finish",
        enough=bool(logs.results) and bool(values) and lineage.complete,
        withheld=run.kept_back and bool(logs.results) and lineage.complete,
    )


def _final_token(lineage: Lineage) -> int:
    """The digest of the token that the walk ended with; 0: no log shows it."""
    if not len(lineage.accepted):
        return 0
    finish = lineage.sents[lineage.accepted[-1]]
    return int(finish["sent"]) if finish["to"] == NOBODY else 0


def _compare_with_walk(run: Run, final: int, findings: Findings) -> None:
    logs, lineage = run.logs, run.lineage
    made = int(np.count_nonzero(lineage.sents["real"][lineage.accepted]))
    count_known = lineage.complete and lineage.n_ghosts == 0
    for row in logs.results:
        if row.digest and row.digest != final:
            findings.add(logs.finding(row.user, row.line, "its result is not the final token of the walk"))
        if count_known and row.contributions not in (None, made):
            text = f"its result counts {row.contributions} contributions, the walk has {made}"
            findings.add(logs.finding(row.user, row.line, text))


def _distinct(count: int) -> str:
    return "values not shown" if count == 0 else f"{count} distinct value{'s' if count > 1 else ''}"


def abandoned(run: Run) -> dict[str, int]:
    """What happened off the accepted branch: it was seen, so it is counted in the exposure."""
    lineage = run.lineage
    off_branch = lineage.off_branch
    return {
        "sent": int(np.count_nonzero(off_branch)),
        "contributions": int(np.count_nonzero(off_branch & lineage.sents["real"])),
        "reissues": int(np.count_nonzero(run.logs.visits["cause"] == REISSUE)),
        "epochs": len(run.logs.epochs),
    }


def checks(run: Run) -> list[Check]:
    """All integrity checks that apply to this plan, in reading order."""
    found = [
        logs_present(run),
        links(run),
        every_step_once(run),
        ring_order(run),
        conservation(run),
        bounds_kept(run),
        noise_not_redrawn(run),
        noise_added(run),
        cover_elements(run),
        caps_kept(run),
        result_agrees(run),
    ]
    return [check for check in found if check is not None]
