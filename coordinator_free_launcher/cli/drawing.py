"""Pictures that a command draws into a file of any kind that matplotlib knows by its name."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from network_dp.errors import AccountingError


@contextmanager
def drawing(path: Path, size: tuple[float, float], what: str = "plot", dpi: float | None = None) -> Iterator[Any]:
    """Empty axes, and at the end of the block a file."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=size, layout="constrained")
    FigureCanvasAgg(figure)
    yield figure.subplots()
    try:
        figure.savefig(path, dpi=dpi)
    except (OSError, ValueError) as error:  # no such folder, or a kind of picture nobody knows
        raise AccountingError(f"cannot write the {what}: {error}") from None
