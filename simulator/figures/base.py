"""What a figure is made of, and how it is written: PNG, SVG, the numbers as CSV, and a text of what is seen."""

from __future__ import annotations

import csv
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.figure import Figure as Canvas

from simulator.pairs import Spread

Flavour = Literal["published", "audited"]
Row = tuple[str | float, ...]

# Okabe & Ito's colours: told apart by everybody, on paper too
LOCAL, KNOWN, HIDDEN, CENTRAL, NONE = "#0072B2", "#009E73", "#E69F00", "#D55E00", "#555555"
PNG_DPI = 100


@dataclass(frozen=True)
class Settings:
    """How to make figures. `quick`: a small version in seconds; `houses`: the data file, or None for generated data."""

    quick: bool = False
    jobs: int = 1
    seed: int = 1
    progress: bool = False
    houses: Path | None = None


@dataclass(frozen=True)
class Figure:
    """A drawn figure, its numbers (rows under a header) and what is to be seen in it."""

    name: str
    flavour: Flavour
    canvas: Canvas
    header: tuple[str, ...]
    rows: list[Row]
    notes: str

    def save(self, folder: Path) -> list[Path]:
        """FOLDER/NAME-FLAVOUR.{png,svg,csv,txt}."""
        folder.mkdir(parents=True, exist_ok=True)
        png, svg, table, text = (folder / f"{self.name}-{self.flavour}.{kind}" for kind in ("png", "svg", "csv", "txt"))
        self.canvas.savefig(png, dpi=PNG_DPI)
        # no date and fixed ids: the same numbers give the same file
        with rc_context({"svg.hashsalt": "network-dp"}):
            self.canvas.savefig(svg, metadata={"Date": None})
        with table.open("w", newline="") as stream:
            writer = csv.writer(stream)
            writer.writerow(self.header)
            writer.writerows([f"{x:.6g}" if isinstance(x, float) else x for x in row] for row in self.rows)
        text.write_text(self.notes.strip() + "\n")
        return [png, svg, table, text]


def canvas(panels: int = 1, *, width: float = 6.4, height: float = 4.6) -> tuple[Canvas, list[Axes]]:
    """A white canvas with panels side by side."""
    drawn = Canvas(figsize=(width, height), layout="constrained", facecolor="white")
    axes = [drawn.add_subplot(1, panels, i + 1) for i in range(panels)]
    for ax in axes:
        ax.grid(alpha=0.25, which="both", linewidth=0.5)
        ax.spines[["top", "right"]].set_visible(False)
    return drawn, axes


def bound_line(ax: Axes, ns: list[int], values: list[float], label: str, colour: str, dashed: bool) -> None:
    """A bound before the run: triangles."""
    line = "^--" if dashed else "^:"
    # as error bars of no length, so that the legend keeps the order of drawing
    ax.errorbar(ns, values, fmt=line, color=colour, ms=3.5, lw=1.2, label=label)


def error_bars(ax: Axes, ns: list[int], spreads: list[Spread], label: str, colour: str, dashed: bool) -> None:
    """Mean over all pairs and runs, bars from the least to the greatest; dashed ones stand a little to the right."""
    places = [n * (1.05 if dashed else 1.0) for n in ns]
    means = [s.mean for s in spreads]
    bars = [[s.mean - s.low for s in spreads], [s.high - s.mean for s in spreads]]
    line, marker = ("--", "s") if dashed else ("-", "o")
    ax.errorbar(places, means, yerr=bars, label=label, color=colour, ls=line, marker=marker, ms=3.5, capsize=3, lw=1.4)
