"""Giving freed memory back to the machine: 2000 users on one of them keep what glibc keeps for each."""

from __future__ import annotations

import ctypes
from collections.abc import Callable


def _trimmer() -> Callable[[], object]:
    """glibc's ``malloc_trim``; nothing where the C library has none."""
    try:
        trim = ctypes.CDLL(None).malloc_trim
    except (OSError, AttributeError):
        return lambda: None
    return lambda: trim(0)


give_back = _trimmer()
