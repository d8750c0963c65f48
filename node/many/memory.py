"""The two ways in which a user asks the C library (glibc) to treat its memory; elsewhere nothing happens."""

from __future__ import annotations

import ctypes

_M_TRIM_THRESHOLD = -1
_M_MMAP_THRESHOLD = -3
_KEPT_BYTES = 1 << 30


def give_back() -> None:
    """Return freed memory to the machine: 2000 users on one of them keep what the library keeps for each."""
    trim = _function("malloc_trim")
    if trim is not None:
        trim(0)


def keep_long_blocks() -> None:
    """Use freed blocks again, however long. By default each long one is mapped anew and its pages cleared, at every
    copy of a long token: five times the cost of the copy itself."""
    tune = _function("mallopt")
    if tune is not None:
        tune(_M_MMAP_THRESHOLD, _KEPT_BYTES)
        tune(_M_TRIM_THRESHOLD, _KEPT_BYTES)


def _function(name: str) -> ctypes._NamedFuncPointer | None:
    try:
        found: ctypes._NamedFuncPointer = getattr(ctypes.CDLL(None), name)
    except (OSError, AttributeError):
        return None
    return found
