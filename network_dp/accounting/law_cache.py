"""Laws of exposures on disk, so that what took seconds is looked up the next time.

One file per law under the user's cache folder, named by what it is a law of and by the source code of the accountant
that computed it: another version never finds it. A file is only believed if it belongs to this user, nobody else may
write it, and its content is a law with the checksum it names, of its head and its probabilities; else it is computed
again. ``NETWORK_DP_CACHE`` names another folder, or ``off``.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import stat
import tempfile
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from network_dp.accounting.moments import Law

Floats = NDArray[np.float64]

VARIABLE: Final = "NETWORK_DP_CACHE"
MOST_BINS: Final = 1 << 17
STEPS: Final = tuple(2.0**-k for k in range(12, 5, -1))  # of grids, finest first
_MOST_BYTES: Final = MOST_BINS * 8 + 4096
_MOST_FILES: Final = 256
_SOURCES: Final = ("law_cache.py", "minorant.py", "moments.py", "profile.py", "renewal.py", "rounding.py")


@dataclass(frozen=True)
class ExposureLaw:
    """Law of a rounded-up exposure: P(S^ = k step) = probability[k]; `lost` must be added to every delta."""

    step: float
    probability: Floats
    lost: float

    @property
    def exposure(self) -> Floats:
        return np.arange(len(self.probability), dtype=np.float64) * self.step


OUT_OF_REACH: Final = ExposureLaw(1.0, np.zeros(0), 1.0)


def read(law: Law) -> ExposureLaw | None:
    """The law that lies on disk; None where there is none that can be believed."""
    folder = _folder()
    if folder is None:
        return None
    try:
        return _parsed(_bytes(folder / _name(law)), law)
    except (OSError, ValueError, KeyError, TypeError):
        return None


def write(law: Law, found: ExposureLaw) -> None:
    """Keep a law for the next time; where nothing can be written, nothing is kept."""
    folder = _folder()
    if folder is None:
        return
    payload = found.probability.astype("<f8").tobytes()
    head = {"law": asdict(law), "step": found.step, "lost": found.lost}
    head["sha256"] = _checksum(head, payload)
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(dir=folder, prefix=".", suffix=".unfinished")  # 0600
        with os.fdopen(handle, "wb") as file:
            file.write(json.dumps(head).encode() + b"\n" + payload)
        Path(name).replace(folder / _name(law))
        kept = sorted(folder.glob("*.law"), key=lambda path: path.stat().st_mtime)
        for path in kept[:-_MOST_FILES]:
            path.unlink(missing_ok=True)
    except OSError:
        return


def _folder() -> Path | None:
    named = os.environ.get(VARIABLE, "")
    if named == "off":
        return None
    if named:
        return Path(named)
    try:
        return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "network-dp" / "laws"
    except RuntimeError:  # a user without a home
        return None


@cache
def _accountant() -> str:
    """The source code that laws come from."""
    here = Path(__file__).parent
    return hashlib.sha256(b"".join((here / name).read_bytes() for name in _SOURCES)).hexdigest()


def _name(law: Law) -> str:
    key = json.dumps({"accountant": _accountant(), **asdict(law)}, sort_keys=True)
    return f"{hashlib.sha256(key.encode()).hexdigest()}.law"


def _checksum(head: dict[str, Any], payload: bytes) -> str:
    """Of all that a law consists of: a step or a loss that was changed is as bad as another probability."""
    return hashlib.sha256(json.dumps(head, sort_keys=True).encode() + b"\n" + payload).hexdigest()


def _bytes(path: Path) -> bytes:
    handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    with os.fdopen(handle, "rb") as file:
        found = os.fstat(file.fileno())
        if not stat.S_ISREG(found.st_mode) or found.st_uid != os.geteuid() or found.st_mode & 0o022:
            raise ValueError("not a file that only this user writes")
        return file.read(_MOST_BYTES + 1)


def _parsed(content: bytes, law: Law) -> ExposureLaw:
    line, _, payload = content.partition(b"\n")
    head = json.loads(line)
    checksum = head.pop("sha256")
    probability = np.frombuffer(payload, dtype="<f8").astype(np.float64)
    step, lost = float(head["step"]), float(head["lost"])
    sound = (
        set(head) == {"law", "step", "lost"}
        and head["law"] == asdict(law)
        and checksum == _checksum(head, payload)
        and len(probability) <= MOST_BINS
        and (step in STEPS or (step == OUT_OF_REACH.step and len(probability) == 0))
        and 0 <= lost < math.inf
        and bool(np.all(np.isfinite(probability)) and np.all(probability >= 0))
        and abs(float(probability.sum()) + min(lost, 1.0) - 1.0) <= 2e-6 + 2 * lost
    )
    if not sound:
        raise ValueError("not a law")
    return ExposureLaw(step, probability, lost)
