"""Laws of exposures on disk, so that what took seconds is looked up the next time.

One file per law under the user's cache folder, named by what it is a law of and by the source code of the accountant
that computed it: another version never finds it. A file is only believed (`disk_cache`) if its content is a law with
the checksum it names, of its head and its probabilities; else it is computed again.
"""

from __future__ import annotations

import hashlib
import json
import math
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from network_dp.accounting import disk_cache
from network_dp.accounting.moments import Law

Floats = NDArray[np.float64]

MOST_BINS: Final = 1 << 17
STEPS: Final = tuple(2.0**-k for k in range(12, 5, -1))  # of grids, finest first
_MOST_BYTES: Final = MOST_BINS * 8 + 4096
_SOURCES: Final = ("law_cache.py", "minorant.py", "moments.py", "profile.py", "renewal.py", "rounding.py")
_CODE: Final = disk_cache.fingerprint(Path(__file__).parent / name for name in _SOURCES)  # as it was loaded


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
    content = disk_cache.read(_name(law), _MOST_BYTES)
    try:
        return None if content is None else _parsed(content, law)
    except (ValueError, KeyError, TypeError):
        return None


def write(law: Law, found: ExposureLaw) -> None:
    """Keep a law for the next time; where nothing can be written, nothing is kept."""
    payload = found.probability.astype("<f8").tobytes()
    head = {"law": asdict(law), "step": found.step, "lost": found.lost}
    head["sha256"] = _checksum(head, payload)
    disk_cache.write(_name(law), json.dumps(head).encode() + b"\n" + payload)


def _name(law: Law) -> str:
    """By the law and the source code that laws come from."""
    key = json.dumps({"accountant": _CODE, **asdict(law)}, sort_keys=True)
    return f"{hashlib.sha256(key.encode()).hexdigest()}.law"


def _checksum(head: dict[str, Any], payload: bytes) -> str:
    """Of all that a law consists of: a step or a loss that was changed is as bad as another probability."""
    return hashlib.sha256(json.dumps(head, sort_keys=True).encode() + b"\n" + payload).hexdigest()


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
