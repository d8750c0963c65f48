"""What a user has spent over all its runs: one file per user, outside every run (THEORY.md#budget).

``ledger.json`` holds one JSON object per line. Every line has a number, the SHA-256 of the line before it, and a
checksum of its own; beside it ``ledger.head`` holds number and checksum of the last line, so that a file cut at the
end of a line is noticed as well. Lines are only ever appended, under a lock, and reach the disk before anybody is told
so; an unfinished last line was never told to anybody and is dropped.

Light on purpose: a node reads its ledger before it starts, and does no accounting.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import math
import os
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

from network_dp.errors import UserError
from network_dp.untrusted import FormatError, json_table

FILE: Final = "ledger.json"
_MOST_BYTES: Final = 64 << 20
_START: Final = "0" * 64


class LedgerError(UserError, RuntimeError):
    """A ledger that cannot be believed, or a run that it does not allow."""


@dataclass(frozen=True, slots=True)
class Charge:
    """What one run may cost its user at most: the plan's promise, before any token.

    ``points``: (epsilon, delta) of its guarantee, epsilon rising; between them it is a chord in e^epsilon. ``mu2``:
    mu^2 where it is a Gaussian mechanism as a whole, else None. No points: nothing is promised, the charge is infinite.
    """

    plan: str
    run: str
    name: str
    bound: str
    mu2: float | None
    points: tuple[tuple[float, float], ...]


@dataclass(frozen=True, slots=True)
class Budget:
    """The most that all runs together may cost."""

    epsilon: float
    delta: float


@dataclass(frozen=True, slots=True)
class Walked:
    """What a run really showed of its user: never credited; where it is more than the charge, it counts instead.

    ``epsilon`` None: no bound. ``gaussian``: it is that of a Gaussian mechanism as a whole, else one point alone.
    ``slack``: by what share it may lie above the charge of the very same cost, because both were rounded up.
    """

    run: str
    epsilon: float | None
    delta: float
    gaussian: bool = False
    slack: float = 1e-8


Entry = Charge | Budget | Walked
_KINDS: Final[Mapping[str, type[Entry]]] = {"charge": Charge, "budget": Budget, "walked": Walked}


@dataclass(frozen=True, slots=True)
class Ledger:
    """A ledger as it was read."""

    entries: tuple[Entry, ...]

    @property
    def charges(self) -> tuple[Charge, ...]:
        return tuple(entry for entry in self.entries if isinstance(entry, Charge))

    @property
    def budget(self) -> Budget | None:
        """The one that was set last."""
        return next((entry for entry in reversed(self.entries) if isinstance(entry, Budget)), None)

    def plus(self, entry: Entry) -> Ledger:
        return Ledger((*self.entries, entry))

    def has(self, run: str) -> bool:
        return any(charge.run == run for charge in self.charges)

    def walked(self, run: str) -> Walked | None:
        """The worst that was noted of a run: a second analysis never gives anything back."""
        notes = (entry for entry in self.entries if isinstance(entry, Walked) and entry.run == run)
        return max(notes, key=lambda note: math.inf if note.epsilon is None else note.epsilon, default=None)


def default_root() -> Path:
    """Where users keep their ledgers, as NAME/ledger.json, unless told otherwise: outside every run."""
    try:
        return Path(os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state") / "network-dp"
    except RuntimeError:
        raise LedgerError("this user has no home folder: say where ledgers are kept, or set XDG_STATE_HOME") from None


def read(path: Path) -> Ledger:
    """All entries, checked; a file that is not there yet is an empty ledger."""
    if not path.exists() and not _head(path).exists():
        return Ledger(())
    with _locked(path, write=False) as file:
        return Ledger(tuple(entry for entry, _ in _lines(path, file)))


def append(path: Path, decide: Callable[[Ledger], Entry | None]) -> Entry | None:
    """Let ``decide`` look at the ledger and add what it returns; nobody else writes in between. Durable on return."""
    changed = [path.parent, *(folder.parent for folder in path.parents if not folder.exists())]
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    with _locked(path, write=True) as file:
        lines = list(_lines(path, file))
        entry = decide(Ledger(tuple(entry for entry, _ in lines)))
        if entry is None:
            return None
        previous = lines[-1][1] if lines else _START
        kind = next(kind for kind, type_ in _KINDS.items() if isinstance(entry, type_))
        body = {"number": len(lines) + 1, "previous": previous, "time": time.time(), "kind": kind, **asdict(entry)}
        checksum = _checksum(body)
        file.truncate()  # an unfinished line, if there is one
        file.write(_text({**body, "checksum": checksum}) + b"\n")
        file.flush()
        os.fsync(file.fileno())
        _write_head(path, len(lines) + 1, checksum)
        if not lines:  # a file that is new lasts only once its folder, itself perhaps new, is on the disk too
            for folder in changed:
                _sync(folder)
    return entry


def _sync(folder: Path) -> None:
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


@contextmanager
def _locked(path: Path, *, write: bool) -> Iterator[Any]:
    flags = (os.O_RDWR | os.O_CREAT) if write else os.O_RDONLY
    try:
        handle = os.open(path, flags | os.O_NOFOLLOW, 0o600)
    except FileNotFoundError:
        raise LedgerError(f"{path}: the ledger is gone, its head is not: restore it from a copy") from None
    with os.fdopen(handle, "r+b" if write else "rb") as file:
        if os.fstat(file.fileno()).st_mode & 0o077:
            raise LedgerError(f"{path}: others may read or write this ledger: chmod 600 it")
        fcntl.flock(file.fileno(), fcntl.LOCK_EX if write else fcntl.LOCK_SH)
        yield file


def _lines(path: Path, file: Any) -> Iterator[tuple[Entry, str]]:
    """Entries with their checksums; leaves the file behind the last whole line."""
    content = file.read(_MOST_BYTES + 1)
    if len(content) > _MOST_BYTES:
        raise LedgerError(f"{path}: larger than {_MOST_BYTES >> 20} MB: no ledger of ours")
    whole, newline, _ = content.rpartition(b"\n")
    previous, number = _START, 0
    for line in whole.split(b"\n") if newline else []:
        number += 1
        try:
            entry, checksum = _parsed(line, number, previous)
        except (FormatError, ValueError, KeyError, TypeError):
            raise LedgerError(f"{path}: line {number} was changed or is missing: restore it from a copy") from None
        previous = checksum
        yield entry, checksum
    file.seek(len(whole) + len(newline))
    _compare_head(path, number, previous)


def _parsed(line: bytes, number: int, previous: str) -> tuple[Entry, str]:
    values = json_table(line.decode())
    checksum = values.pop("checksum")
    if (values["number"], values["previous"], checksum) != (number, previous, _checksum(values)):
        raise ValueError("not the line that was written")
    kind = _KINDS[values["kind"]]
    own = {key: value for key, value in values.items() if key not in ("number", "previous", "time", "kind")}
    if kind is Charge:
        own["points"] = tuple((float(epsilon), float(delta)) for epsilon, delta in own["points"])
    return kind(**own), str(checksum)


def _checksum(values: Mapping[str, Any]) -> str:
    return hashlib.sha256(_text(values)).hexdigest()


def _text(values: Mapping[str, Any]) -> bytes:
    return json.dumps(values, sort_keys=True, separators=(",", ":"), allow_nan=False).encode()


def _head(path: Path) -> Path:
    return path.with_suffix(".head")


def _write_head(path: Path, number: int, checksum: str) -> None:
    work = path.with_suffix(".head.unfinished")
    handle = os.open(work, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(handle, "w") as file:
        file.write(f"{number} {checksum}\n")
        file.flush()
        os.fsync(file.fileno())
    work.replace(_head(path))


def _compare_head(path: Path, number: int, checksum: str) -> None:
    """The head is written last: it may be one line behind after a crash, and never ahead."""
    try:
        known, _, text = _head(path).read_text().strip().partition(" ")
    except FileNotFoundError:
        if number > 1:
            raise LedgerError(f"{_head(path)}: gone, with {number} lines in the ledger: restore both") from None
        return
    if not known.isdecimal():
        raise LedgerError(f"{_head(path)}: not the head of a ledger: restore it from a copy")
    if int(known) > number or (int(known) == number and text != checksum):
        raise LedgerError(f"{path}: lines are missing at its end ({number} of {known}): restore it from a copy")


def write_charge(path: Path, charge: Charge) -> None:
    """Beside a bundle's plan: what the run will cost, computed where the accountant is."""
    path.write_text(json.dumps(asdict(charge), indent=1) + "\n")


def read_charge(path: Path, plan: str, run: str) -> Charge:
    """A bundle's charge, for this very run; it is checked like everything that comes with a file."""
    try:
        values = json_table(path.read_text())
        points = tuple((float(epsilon), float(delta)) for epsilon, delta in values.pop("points"))
        charge = Charge(**values, points=points)
        _check(charge)
    except FileNotFoundError:
        raise LedgerError(f"{path}: no charge: provision or accept the plan again") from None
    except (FormatError, ValueError, KeyError, TypeError):
        raise LedgerError(f"{path}: not a charge: provision or accept the plan again") from None
    if (charge.plan, charge.run) != (plan, run):
        raise LedgerError(f"{path}: the charge of another run: provision or accept the plan again")
    return charge


def _check(charge: Charge) -> None:
    epsilons = [epsilon for epsilon, _ in charge.points]
    deltas = [delta for _, delta in charge.points]
    sound = (
        all(isinstance(text, str) for text in (charge.plan, charge.run, charge.name, charge.bound))
        and (charge.mu2 is None or (0 <= float(charge.mu2) < math.inf and len(charge.points) > 0))
        and all(0 <= value < math.inf for value in epsilons)
        and all(0 <= value <= 1 for value in deltas)
        and epsilons == sorted(set(epsilons))
        and deltas == sorted(deltas, reverse=True)
    )
    if not sound:
        raise ValueError("not a charge")
