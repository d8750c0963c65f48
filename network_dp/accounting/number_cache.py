"""Numbers that take seconds to compute, kept on disk by what they are: a function, its arguments and the source code.

Arguments must be values whose ``repr`` says all of them: numbers, texts, dataclasses and tuples of these.
"""

from __future__ import annotations

import hashlib
import inspect
from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import Final, ParamSpec

from network_dp.accounting import disk_cache

Arguments = ParamSpec("Arguments")

#: As it is when it is loaded: a process that goes on after an update computes by the old code.
_CODE: Final = disk_cache.fingerprint(sorted(Path(__file__).parent.parent.rglob("*.py")))
_MOST_BYTES: Final = 256


def kept(compute: Callable[Arguments, float]) -> Callable[Arguments, float]:
    """The same function, which looks on disk before it computes anything."""
    code = _CODE + disk_cache.fingerprint([Path(inspect.getfile(compute))]) + compute.__qualname__

    @wraps(compute)
    def found_or_computed(*args: Arguments.args, **kwargs: Arguments.kwargs) -> float:
        whole = f"{code}\n{(args, sorted(kwargs.items()))!r}"
        name = f"{hashlib.sha256(whole.encode()).hexdigest()}.number"
        found = _parsed(disk_cache.read(name, _MOST_BYTES), name)
        if found is None:
            found = float(compute(*args, **kwargs))
            disk_cache.write(name, f"{found.hex()} {_checksum(name, found)}".encode())
        return found

    return found_or_computed


def _checksum(name: str, value: float) -> str:
    return hashlib.sha256(f"{name} {value.hex()}".encode()).hexdigest()


def _parsed(content: bytes | None, name: str) -> float | None:
    """A number with its own checksum; it must be one that an accountant can give."""
    try:
        text, checksum = (content or b"").decode().split()
        value = float.fromhex(text)
    except ValueError:
        return None
    return value if checksum == _checksum(name, value) and value >= 0 else None
