"""Just enough SVG: axes and marks inside them. Colours come from the page's style sheet by class."""

from __future__ import annotations

import math
from base64 import b64encode
from collections.abc import Callable, Sequence
from html import escape
from struct import pack
from zlib import compress, crc32

import numpy as np
from numpy.typing import NDArray

Pixels = NDArray[np.uint8]


def nice_ticks(low: float, high: float, count: int = 5) -> list[float]:
    """Round numbers that span [low, high]."""
    if not high > low:
        return [low]
    raw = (high - low) / count
    power = 10.0 ** math.floor(math.log10(raw))
    step = next(power * m for m in (1, 2, 5, 10) if power * m >= raw)
    first = math.ceil(low / step - 1e-9)
    return [i * step for i in range(first, math.floor(high / step + 1e-9) + 1)]


def number(value: float) -> str:
    """Short, for labels."""
    if math.isinf(value):
        return "∞"
    if value == 0 or 0.001 <= abs(value) < 100_000:
        return f"{value:.4g}"
    return f"{value:.1e}".replace("e-0", "e-").replace("e+0", "e")


def figure(title: str, body: str, caption: str) -> str:
    """What every chart is put into."""
    if not body:
        return ""
    return f"<figure><h3>{escape(title)}</h3>{body}<figcaption>{escape(caption)}</figcaption></figure>"


def circle(n: int) -> list[tuple[float, float]]:
    """Where n users stand in a picture of 400 by 400."""
    angle = [2 * math.pi * i / n - math.pi / 2 for i in range(n)]
    return [(200 + 150 * math.cos(a), 200 + 150 * math.sin(a)) for a in angle]


class Axes:
    """A chart's rectangle: maps data to pixels and collects marks."""

    def __init__(
        self,
        x: tuple[float, float],
        y: tuple[float, float],
        title: str,
        width: int = 520,
        height: int = 280,
        left: int = 62,
    ) -> None:
        self._x, self._y = (_open(*x), _open(*y))
        self._width, self._height = width, height
        self._left, self._right, self._top, self._bottom = left, width - 24, 14, height - 40
        self._title = title
        self._marks: list[str] = []
        self._keys: list[str] = []

    def px(self, x: float) -> float:
        low, high = self._x
        return self._left + (x - low) / (high - low) * (self._right - self._left)

    def py(self, y: float) -> float:
        low, high = self._y
        return self._bottom - (y - low) / (high - low) * (self._bottom - self._top)

    def scales(
        self,
        x_label: str,
        y_label: str,
        x_ticks: Sequence[float] | None = None,
        y_ticks: Sequence[float] | None = None,
        x_text: Callable[[float], str] = number,
        y_text: Callable[[float], str] = number,
    ) -> None:
        marks = []
        for y in y_ticks if y_ticks is not None else nice_ticks(*self._y, 4):
            at = self.py(y)
            marks.append(f'<line class="grid" x1="{self._left}" x2="{self._right}" y1="{at:.1f}" y2="{at:.1f}"/>')
            marks.append(
                f'<text class="tick" x="{self._left - 6}" y="{at + 4:.1f}" text-anchor="end">{escape(y_text(y))}</text>'
            )
        for x in x_ticks if x_ticks is not None else nice_ticks(*self._x):
            at = self.px(x)
            text = escape(x_text(x))
            marks.append(f'<text class="tick" x="{at:.1f}" y="{self._bottom + 16}" text-anchor="middle">{text}</text>')
        marks.append(
            f'<line class="axis" x1="{self._left}" x2="{self._right}" y1="{self._bottom}" y2="{self._bottom}"/>'
            f'<text class="label" x="{(self._left + self._right) / 2:.0f}" y="{self._height - 6}" '
            f'text-anchor="middle">{escape(x_label)}</text>'
            f'<text class="label" transform="translate(12 {(self._top + self._bottom) / 2:.0f}) rotate(-90)" '
            f'text-anchor="middle">{escape(y_label)}</text>'
        )
        self._marks = marks + self._marks

    def line(self, points: Sequence[tuple[float, float]], kind: str, key: str = "") -> None:
        inside = [(x, y) for x, y in points if math.isfinite(x) and math.isfinite(y)]
        if len(inside) > 1:
            path = " ".join(f"{self.px(x):.1f},{self._clip(self.py(y)):.1f}" for x, y in inside)
            self._marks.append(f'<polyline class="curve {kind}" points="{path}">{_tip(key)}</polyline>')
            if key:
                self.key("line", kind, key)

    def _clip(self, at: float) -> float:
        return min(max(at, self._top), self._bottom)

    def bar(self, x0: float, x1: float, y: float, kind: str, tip: str = "", base: float | None = None) -> None:
        """From ``base`` (the lower edge unless given) to ``y``."""
        left, right = self.px(x0), self.px(x1)
        ends = (self._clip(self.py(y)), self._bottom if base is None else self._clip(self.py(base)))
        self._marks.append(
            f'<rect class="{kind}" x="{left:.1f}" y="{min(ends):.1f}" width="{max(right - left - 0.6, 0.6):.1f}" '
            f'height="{max(abs(ends[1] - ends[0]), 0):.1f}">{_tip(tip)}</rect>'
        )

    def segment(self, start: tuple[float, float], end: tuple[float, float], kind: str, tip: str = "") -> None:
        """A line between two points, without a legend entry."""
        (x0, y0), (x1, y1) = start, end
        self._marks.append(
            f'<line class="curve {kind}" x1="{self.px(x0):.1f}" y1="{self._clip(self.py(y0)):.1f}" '
            f'x2="{self.px(x1):.1f}" y2="{self._clip(self.py(y1)):.1f}">{_tip(tip)}</line>'
        )

    def dot(self, x: float, y: float, kind: str, radius: float = 3, tip: str = "") -> None:
        self._marks.append(
            f'<circle class="{kind}" cx="{self.px(x):.1f}" cy="{self.py(y):.1f}" r="{radius}">{_tip(tip)}</circle>'
        )

    def upright(self, x: float, kind: str, key: str) -> None:
        """A vertical line with a legend entry."""
        if self._left <= self.px(x) <= self._right:
            self.segment((x, self._y[0]), (x, self._y[1]), kind, key)
            self.key("line", kind, key)

    def key(self, shape: str, kind: str, text: str) -> None:
        """A legend entry that looks as the mark does: a line with its dashes, a bar or a dot."""
        self._keys.append(f"<span>{swatch(shape, kind)}{escape(text)}</span>")

    def render(self) -> str:
        body = (
            f'<svg viewBox="0 0 {self._width} {self._height}" role="img" aria-label="{escape(self._title)}">'
            f"{''.join(self._marks)}</svg>"
        )
        return body + (f'<div class="legend">{"".join(self._keys)}</div>' if self._keys else "")


_SHAPES = {
    "line": '<line class="curve {}" x1="0" y1="6" x2="28" y2="6"/>',
    "bar": '<rect class="{}" x="6" y="1" width="16" height="10" rx="2"/>',
    "triangle": '<path class="{}" d="M14,12 l-7,-12 h14 z"/>',
    "dot": '<circle class="{}" cx="14" cy="6" r="4"/>',
}


def swatch(shape: str, kind: str) -> str:
    return f'<svg class="swatch" viewBox="0 0 28 12" aria-hidden="true">{_SHAPES[shape].format(kind)}</svg>'


def _tip(text: str) -> str:
    return f"<title>{escape(text)}</title>" if text else ""


def _open(low: float, high: float) -> tuple[float, float]:
    """A range that is not a point."""
    return (low, high) if high > low else (low - 0.5, low + 0.5)


#: From nothing to much, readable on white and on black.
_RAMP = np.array(
    [
        (35, 64, 120),
        (42, 96, 160),
        (48, 130, 170),
        (70, 160, 150),
        (120, 184, 110),
        (190, 200, 80),
        (240, 180, 60),
        (235, 110, 50),
    ],
    dtype=np.float64,
)


def heat(values: NDArray[np.float64]) -> Pixels:
    """Numbers in [0, 1] (NaN: transparent) as RGBA."""
    filled = np.clip(np.nan_to_num(values, nan=0.0), 0.0, 1.0) * (len(_RAMP) - 1)
    low = np.minimum(filled.astype(np.int64), len(_RAMP) - 2)
    part = (filled - low)[..., None]
    colour = _RAMP[low] * (1 - part) + _RAMP[low + 1] * part
    alpha = np.where(np.isnan(values), 0, 255)[..., None]
    return np.concatenate([colour, alpha], axis=-1).astype(np.uint8)


def png(pixels: Pixels) -> str:
    """RGBA pixels as a data address (PNG: W3C, second edition)."""
    height, width, _ = pixels.shape
    raw = b"".join(b"\0" + pixels[row].tobytes() for row in range(height))

    def chunk(kind: bytes, body: bytes) -> bytes:
        return pack(">I", len(body)) + kind + body + pack(">I", crc32(kind + body))

    head = pack(">IIBBBBB", width, height, 8, 6, 0, 0, 0)
    data = b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", compress(raw, 9)) + chunk(b"IEND", b"")
    return "data:image/png;base64," + b64encode(data).decode()


def blocks(matrix: NDArray[np.float64], most: int = 160) -> NDArray[np.float64]:
    """A matrix made at most ``most`` wide: each cell the largest of its block."""
    size = len(matrix)
    if size <= most:
        return matrix
    edges = np.linspace(0, size, most + 1).astype(np.int64)[:-1]
    wide = np.fmax.reduceat(matrix, edges, axis=0)
    return np.asarray(np.fmax.reduceat(wide, edges, axis=1), dtype=np.float64)
