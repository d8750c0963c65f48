"""PASS, FAIL or UNKNOWN: one status per check, one for the run, and their JSON form (docs/ANALYZER.md)."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

from analyzer.tables import Finding, Findings

SCHEMA: Final = "network-dp/verdict/1"


class Status(StrEnum):
    """UNKNOWN means too little evidence: it is neither good news nor bad."""

    PASS = "PASS"  # noqa: S105  (a verdict, not a password)
    FAIL = "FAIL"
    UNKNOWN = "UNKNOWN"

    @property
    def exit_code(self) -> int:
        return {"PASS": 0, "FAIL": 1, "UNKNOWN": 2}[self.value]


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
    """FAIL if anything failed, else UNKNOWN if anything is unknown, else PASS."""
    statuses = {check.status for check in checks}
    for status in (Status.FAIL, Status.UNKNOWN):
        if status in statuses:
            return status
    return Status.PASS if statuses else Status.UNKNOWN


def status_of(findings: Findings, enough: bool = True) -> Status:
    """Evidence against it: FAIL. None, and everything was looked at: PASS. None, but not everything: UNKNOWN."""
    if findings.count:
        return Status.FAIL
    return Status.PASS if enough else Status.UNKNOWN


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
        "evidence": [{"user": f.user, "file": f.file, "line": f.line, "text": f.text} for f in check.evidence],
    }
    return dict(plain(body))


def from_findings(
    id: str, title: str, findings: Findings, observed: str, bound: str, rule: str, theory: str, enough: bool = True
) -> Check:
    """A check that counts violations: the limit is none."""
    return Check(
        id=id,
        title=title,
        status=status_of(findings, enough),
        observed=observed,
        bound=bound,
        rule=rule,
        theory=theory,
        number=float(findings.count),
        limit=0.0,
        evidence=tuple(findings.first),
        evidence_count=findings.count,
    )


def worst_first(checks: Sequence[Check]) -> list[Check]:
    """For a reader in a hurry: failures, then unknowns, then what passed, each in the order it was checked."""
    order = {Status.FAIL: 0, Status.UNKNOWN: 1, Status.PASS: 2}
    return sorted(checks, key=lambda check: order[check.status])
