"""Long arrays a piece at a time, on two cores: while a user computes with a long token, no other user has work.

A piece stays in a core's cache from one pass over it to the next. numpy lets the other thread run meanwhile.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

T = TypeVar("T")
PIECE = 1 << 15  # numbers
WORTH_A_THREAD = 1 << 19


def over_pieces(work: Callable[[slice], T], size: int) -> list[T]:
    """``work`` done for every piece of ``size`` numbers, its results in their order."""
    if size <= PIECE:
        return [work(slice(0, size))]
    pieces = [slice(at, min(at + PIECE, size)) for at in range(0, size, PIECE)]
    if size < WORTH_A_THREAD:
        return [work(piece) for piece in pieces]
    middle = len(pieces) // 2
    with ThreadPoolExecutor(1) as helper:
        second = helper.submit(lambda: [work(piece) for piece in pieces[middle:]])
        return [work(piece) for piece in pieces[:middle]] + second.result()
