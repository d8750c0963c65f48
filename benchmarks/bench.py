"""What every section gets: a folder for its runs, how large to measure, and somebody to tell about progress."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

Size = TypeVar("Size")


@dataclass(frozen=True, slots=True)
class Bench:
    """``quick``: small sizes and one round, to see that everything works; the numbers then mean little."""

    folder: Path
    quick: bool
    say: Callable[[str], None]
    users: int = 2000  # of a crowd

    def pick(self, full: Size, quick: Size) -> Size:
        return quick if self.quick else full
