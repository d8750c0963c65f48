"""What every chart is put into."""

from __future__ import annotations

import math
from html import escape


def figure(title: str, body: str, caption: str) -> str:
    if not body:
        return ""
    return f"<figure><h3>{escape(title)}</h3>{body}<figcaption>{escape(caption)}</figcaption></figure>"


def circle(n: int) -> list[tuple[float, float]]:
    """Where n users stand in a picture of 400 by 400."""
    angle = [2 * math.pi * i / n - math.pi / 2 for i in range(n)]
    return [(200 + 150 * math.cos(a), 200 + 150 * math.sin(a)) for a in angle]
