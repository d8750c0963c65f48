"""Options that several commands share, with the ranges in which they make sense."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Final

import typer


def finite(value: float | None) -> float | None:
    """A number that is a number: ranges let NaN pass."""
    if value is not None and not math.isfinite(value):
        raise typer.BadParameter(f"{value} is not a finite number")
    return value


def refuse_idle(given: Mapping[str, object], only_for: str) -> None:
    """Refuse options that were given though nothing here reads them: whoever types one expects something of it."""
    for option, value in given.items():
        if value is not None and value is not False:
            raise typer.BadParameter(f"{option} is only for {only_for}; leave it out")


Json = Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")]
Test = Annotated[Path | None, typer.Option(help="Table like the users' own, to test a model on.")]


def split(text: str | None) -> tuple[str, ...]:
    """The texts of an option a,b,c."""
    return () if text is None else tuple(part.strip() for part in text.split(","))


def numbers(option: str, text: str | None) -> tuple[float, ...]:
    """The numbers of an option 1,2,3."""
    try:
        return tuple(float(part) for part in split(text))
    except ValueError:
        raise typer.BadParameter(f"{option} {text}: must be numbers separated by commas") from None


ValidDays = Annotated[
    float, typer.Option(min=0.01, max=36500.0, callback=finite, help="How long the certificates are valid, in days.")
]

_RATE: Final = re.compile(r"(\d+(?:\.\d+)?|\.\d+)(?:/s)?")
MAX_RATE: Final = 100.0
MIN_PACE: Final = 1.0  # slower, and users would take the token for lost


def rate(text: str) -> float:
    """``0.1/s`` or ``0.1``: events per second."""
    found = _RATE.fullmatch(text.strip())
    if found is None or float(found[1]) > MAX_RATE:
        raise typer.BadParameter(f'"{text}": must be a rate like 0.1/s, at most {MAX_RATE:g}/s')
    return float(found[1])


def paced(text: str | None) -> float | None:
    """Hops per second at most; None: as fast as it goes."""
    if text is None:
        return None
    if rate(text) < MIN_PACE:
        raise typer.BadParameter(f'--pace "{text}": must be at least {MIN_PACE:g}/s')
    return rate(text)


PaceOption = Annotated[
    str | None, typer.Option("--pace", metavar="RATE", help="Slow the walk down for an audience: 5/s, hops per second.")
]
