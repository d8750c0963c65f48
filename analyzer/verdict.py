"""PASS, PARTIAL, UNKNOWN, OVERSPENT or FAIL: a status per check, one for the run, and their JSON (docs/ANALYZER.md)."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import Any, Final

from analyzer.read.tables import Finding, Findings

SCHEMA: Final = "network-dp/verdict/1"
#: How often a check may cry wolf on an honest run, at most.
FALSE_ALARM: Final = 1e-6
NOISE_ALARM: Final = 1e-5  # where noise is looked at
ELEMENTS_ALARM: Final = 1e-4  # for the few elements that cover the ends of a ring


class Status(StrEnum):
    """The exit codes leave 2 to bad input and 70 to a crash, so that a script can tell them from a verdict."""

    PASS = "PASS"  # noqa: S105  (a verdict, not a password)
    PARTIAL = "PARTIAL"  # all that was handed over on purpose was looked at and is right; values were left out
    UNKNOWN = "UNKNOWN"  # evidence is missing: neither good news nor bad
    OVERSPENT = "OVERSPENT"  # an honest run that cost more than its plan reserved for faults
    FAIL = "FAIL"

    @property
    def exit_code(self) -> int:
        return {"PASS": 0, "PARTIAL": 0, "FAIL": 1, "UNKNOWN": 3, "OVERSPENT": 4}[self.value]


_WORST_FIRST: Final = tuple(reversed(Status))


@dataclass(frozen=True, slots=True)
class Check:
    """One question put to the logs: what was observed, what was allowed, by which rule, from which theorem."""

    id: str
    title: str
    status: Status
    observed: str
    bound: str
    rule: str
    theory: str
    number: float | None = None
    limit: float | None = None
    evidence: tuple[Finding, ...] = ()
    evidence_count: int = 0


def overall(checks: Iterable[Check]) -> Status:
    """The worst status of any check; without a check nothing is known."""
    statuses = {check.status for check in checks}
    return next((status for status in _WORST_FIRST if status in statuses), Status.UNKNOWN)


def status_of(findings: Findings, enough: bool = True, withheld: bool = False) -> Status:
    """Evidence against it: FAIL. None, and everything was looked at: PASS. None, but not everything: PARTIAL where only
    what was left out on purpose is missing, else UNKNOWN."""
    if findings.count:
        return Status.FAIL
    if enough:
        return Status.PASS
    return Status.PARTIAL if withheld else Status.UNKNOWN


def plain(value: Any) -> Any:
    """JSON has no infinity: it becomes the text "inf", and NaN becomes null."""
    if isinstance(value, float):
        if math.isnan(value):
            return None
        return value if math.isfinite(value) else ("inf" if value > 0 else "-inf")
    if isinstance(value, dict):
        return {key: plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    return value


def check_as_dict(check: Check) -> dict[str, Any]:
    body: dict[str, Any] = {
        "id": check.id,
        "title": check.title,
        "status": check.status.value,
        "observed": check.observed,
        "bound": check.bound,
        "rule": check.rule,
        "theory": check.theory,
        "number": check.number,
        "limit": check.limit,
        "evidence_count": check.evidence_count,
        "evidence": [asdict(finding) for finding in check.evidence],
    }
    return dict(plain(body))


def from_findings(
    id: str,
    title: str,
    findings: Findings,
    observed: str,
    bound: str,
    rule: str,
    theory: str,
    enough: bool = True,
    withheld: bool = False,
) -> Check:
    """A check that counts violations: the limit is none."""
    return Check(
        id=id,
        title=title,
        status=status_of(findings, enough, withheld),
        observed=observed,
        bound=bound,
        rule=rule,
        theory=theory,
        number=float(findings.count),
        limit=0.0,
        evidence=tuple(findings.first),
        evidence_count=findings.count,
    )


def from_p(
    id: str, title: str, p: float, observed: str, rule: str, theory: str, *, passed: Status = Status.PASS
) -> Check:
    """A check that is a statistical test. ``passed``: what it says where nothing is found."""
    return Check(
        id=id,
        title=title,
        status=passed if p > FALSE_ALARM else Status.FAIL,
        observed=observed,
        bound=f"p > {FALSE_ALARM:g}",
        rule=rule,
        theory=theory,
        number=p,
        limit=FALSE_ALARM,
    )


def left_out(checks: Iterable[Check]) -> str:
    """One sentence: what nobody could look at, because it was left out on purpose."""
    titles = [check.title for check in checks if check.status is Status.PARTIAL and check.id != "logs"]
    return f"Not looked at in full: {'; '.join(titles)}." if titles else ""


def worst_first(checks: Sequence[Check]) -> list[Check]:
    """For a reader in a hurry: failures first, what passed last, each in the order it was checked."""
    return sorted(checks, key=lambda check: _WORST_FIRST.index(check.status))
