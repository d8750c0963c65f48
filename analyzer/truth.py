"""The true value, as a user gives it on the command line: a number, or a file of numbers."""

from __future__ import annotations

import math
import re
from pathlib import Path

from analyzer.errors import InputError


def read_truth(text: str) -> list[float]:
    """Numbers from ``text`` itself, or from the file it names (JSON list, or separated by commas or white space)."""
    path = Path(text)
    source = text
    if path.is_file():
        source = path.read_text(encoding="utf-8", errors="replace")
    numbers = []
    for number, line in enumerate(source.splitlines() or [""], start=1):
        for word in re.split(r"[\s,;\[\]]+", line):
            if not word:
                continue
            try:
                value = float(word)
            except ValueError:
                raise InputError(text, number, f'"{word}" is not a number (nor the name of a file)') from None
            if not math.isfinite(value):
                raise InputError(text, number, f'"{word}" is not a finite number')
            numbers.append(value)
    if not numbers:
        raise InputError(text, None, "holds no number")
    return numbers
