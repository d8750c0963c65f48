"""A run as arrays: one row per visit and one per token sent, whatever the number of logs they came from.

Users and epochs are indices (into ``Plan.users`` and ``Logs.epochs``). A tag or payload is kept as a 64-bit digest:
the analyzer only ever asks whether two of them are equal. 0 means "not logged".
"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from network_dp.plan import Plan
from network_dp.view import Epoch

Rows = NDArray[np.void]
Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]

CAUSES: Final = ("handoff", "start", "reissue")
HANDOFF, START, REISSUE = range(3)
NOBODY: Final = -1  # no such user, epoch or row

VISIT: Final = np.dtype(
    [
        ("user", "i4"),
        ("epoch", "i4"),
        ("step", "i8"),
        ("visit", "i8"),
        ("cause", "i1"),
        ("sender", "i4"),
        ("tag", "u8"),
        ("received", "u8"),
        ("line", "i4"),
        ("time", "f8"),
    ]
)
SENT: Final = np.dtype(
    [
        ("user", "i4"),
        ("epoch", "i4"),
        ("step", "i8"),  # the receiver's; for a finish, the finisher's
        ("visit", "i8"),
        ("row", "i8"),  # its visit's row
        ("to", "i4"),  # NOBODY: this is a finish
        ("tag", "u8"),
        ("sent", "u8"),
        ("noise", "u8"),
        ("contribution", "u8"),
        ("real", "?"),
        ("units", "i4"),
        ("cover", "i4"),
        ("line", "i4"),
        ("time", "f8"),
        ("size", "f8"),  # L2 norm of the contribution in data units, NaN when not logged
    ]
)
DRAW: Final = np.dtype(
    [
        ("user", "i4"),
        ("row", "i8"),  # the sent row that shows it
        ("units", "i4"),  # noise components it consists of
        ("size", "f8"),  # Gaussian: sum of squares in stds; Laplace: sum of absolute values in scales
        ("low", "f8"),  # the same, every coordinate half a grid step larger
        ("mark", "u8"),  # equal for equal noises and for a noise and its negative
    ]
)
PEER: Final = np.dtype(
    [
        ("user", "i4"),
        ("peer", "i4"),  # NOBODY: the user (re)started and holds nobody to be down
        ("down", "?"),
        ("line", "i4"),
    ]
)
_CODES: Final = {"i1": "b", "i4": "i", "i8": "q", "u8": "Q", "f8": "d", "b1": "?"}


class Columns:
    """Rows being collected as packed bytes, so that no object per line stays alive."""

    def __init__(self, dtype: np.dtype[np.void]) -> None:
        self._dtype = dtype
        codes = "".join(_CODES[dtype[name].str[1:]] for name in dtype.names or ())
        self._pack = struct.Struct("<" + codes).pack
        self._bytes = bytearray()
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def append(self, *values: Any) -> int:
        """Add one row, its values in the order of the dtype; the row's number."""
        self._bytes += self._pack(*values)
        self._count += 1
        return self._count - 1

    def freeze(self) -> Rows:
        return np.frombuffer(bytes(self._bytes), dtype=self._dtype)


@dataclass(frozen=True, slots=True)
class Finding:
    """One piece of evidence: who, where in which log, what."""

    user: str
    file: str
    line: int
    text: str

    def __str__(self) -> str:
        return f"{self.user} ({self.file}:{self.line}): {self.text}"


MAX_FINDINGS: Final = 20


class Findings:
    """Evidence against one check: the first few in full, all of them counted."""

    def __init__(self) -> None:
        self.first: list[Finding] = []
        self.count = 0

    def add(self, finding: Finding) -> None:
        self.count += 1
        if len(self.first) < MAX_FINDINGS:
            self.first.append(finding)


@dataclass(frozen=True, slots=True)
class ResultRow:
    """One user's record of the published result."""

    user: int
    epoch: int
    digest: int
    contributions: int | None
    line: int


@dataclass(frozen=True, slots=True)
class Event:
    """Something off the straight path: a peer down or up, a restart, a branch given up."""

    user: int
    kind: str
    text: str
    time: float
    line: int


@dataclass(frozen=True, slots=True)
class NoiseTally:
    """Standardised noise, summed per user and binned over all users; what the tests of the law need, and no more."""

    count: NDArray[np.int64]
    total: Floats
    absolute: Floats
    square: Floats
    bins: NDArray[np.int64]  # equally likely cells under the law (RR: lies by distance from the truth)
    largest: float
    resolution: float  # one grid step in units of the std: the law is discrete
    draws: Rows  # DRAW, in the order of each log
    scores: NDArray[np.float32]  # a row per draw (see ``draws``)
    bare: Sequence[tuple[int, int]]  # (user, sent row) where noise is claimed and none is logged
    elements: Mapping[tuple[int, int], int]  # (user, bucket) -> cover elements it added


@dataclass(slots=True)
class ValueReport:
    """What the values of the logs say, line by line: collected while streaming, because values are not kept."""

    conservation: Findings = field(default_factory=Findings)
    bounds: Findings = field(default_factory=Findings)
    checked_steps: int = 0
    unchecked_steps: int = 0
    inexact_steps: int = 0  # SGD: equal to 1e-12 but not bit for bit


@dataclass(frozen=True, slots=True)
class Logs:
    """Everything the analyzer knows about one run."""

    plan: Plan
    run: str
    files: Mapping[int, Path]  # user -> its log
    with_values: frozenset[int]
    ended: frozenset[int]  # users whose log holds the result: nothing is cut off behind it
    rejoined: Mapping[int, int]  # user -> its last ``rejoined`` line: lines before it may be missing
    insecure: bool
    epochs: Sequence[Epoch]
    visits: Rows
    sents: Rows
    bases: Mapping[int, tuple[int, int]]  # row of a reissue visit -> (epoch, step) of the token it took up again
    results: Sequence[ResultRow]
    events: Sequence[Event]
    ever_down: frozenset[int]
    peers: Rows  # PEER: whom each user held to be down, line by line
    values: ValueReport
    noise: NoiseTally
    result_value: Sequence[float] | None
    result_contributions: int | None
    contributions: Floats | None  # rows as ``sents``, in data units; None when not logged or too large to keep
    noises: Floats | None
    models: Mapping[int, Sequence[float]]  # SGD: some sent rows -> the model they sent
    notes: Sequence[str]
    clipped: Mapping[int, int]  # user -> values of its own data that it clipped, where its full log says so

    @property
    def absent(self) -> tuple[int, ...]:
        return tuple(user for user in range(self.plan.n) if user not in self.files)

    @property
    def withheld(self) -> frozenset[int]:
        """Users that handed over their log without its values, on purpose."""
        return frozenset(self.files) - self.with_values

    @property
    def sealed(self) -> bool:
        """Every log is here to its end: whatever none of them shows did not happen."""
        return len(self.ended) == self.plan.n and not self.rejoined

    def name(self, user: int) -> str:
        return self.plan.users[user].name if user >= 0 else "nobody"

    def finding(self, user: int, line: int, text: str) -> Finding:
        """Evidence at a line of ``user``'s log, under the short name a reader recognises."""
        return Finding(self.name(user), short_path(self.files.get(user)), int(line), text)


def short_path(path: Path | None) -> str:
    """The last parts of a path: enough to find the file, short enough for a table."""
    if path is None:
        return "no log"
    parts = path.parts
    if path.name.startswith("view.jsonl") and len(parts) >= 3 and parts[-2] == "state":
        return "/".join(parts[-3:])
    return path.name
