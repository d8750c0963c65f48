"""Typed reading of one table of a plan: every refusal names the key, the value found and what is allowed."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Mapping
from itertools import pairwise
from typing import Any

from network_dp.errors import PlanError
from network_dp.untrusted import shortened

#: Told of every key that is asked for: its path, what is allowed, and its default (... where there is none).
Record = Callable[[str, str, object], None]


class PlanTable:
    """One table of the file: typed reads that consume keys, then a complaint about what is left."""

    def __init__(self, values: Mapping[str, Any], where: str, record: Record | None = None) -> None:
        self._left = dict(values)
        self._where = where
        self._record = record

    def path(self, key: str) -> str:
        return f"{self._where}.{key}" if self._where else key

    def fail(self, key: str, value: object, allowed: str) -> PlanError:
        return PlanError(
            f"{self.path(key)} = {shortened(json.dumps(value, default=str, ensure_ascii=False))}: {allowed}"
        )

    def has(self, key: str) -> bool:
        return key in self._left

    def _take(self, key: str, kinds: tuple[type, ...], allowed: str, default: object) -> Any:
        if self._record is not None:
            self._record(self.path(key), allowed, default)
        if key not in self._left:
            if default is ...:
                raise PlanError(f"{self.path(key)} is missing: {allowed}")
            return default
        value = self._left.pop(key)
        if not isinstance(value, kinds) or (isinstance(value, bool) and bool not in kinds):
            raise self.fail(key, value, allowed)
        return value

    def whole(self, key: str, low: int, high: int, default: Any = ...) -> Any:
        allowed = f"must be a whole number from {low:,} to {high:,}"
        value = self._take(key, (int,), allowed, default)
        if value is not default and not low <= value <= high:
            raise self.fail(key, value, allowed)
        return value

    def real(self, key: str, default: Any = ..., *, above: float | None = None, most: float | None = None) -> Any:
        limits = [f"above {above:g}" if above is not None else "", f"at most {most:g}" if most is not None else ""]
        allowed = "must be a finite number " + " and ".join(part for part in limits if part)
        value = self._take(key, (int, float), allowed.strip(), default)
        if value is default:
            return value
        try:
            number = float(value)
        except OverflowError:
            number = math.inf
        too_low = above is not None and number <= above
        if not math.isfinite(number) or too_low or (most is not None and number > most):
            raise self.fail(key, value, allowed.strip())
        return number

    def flag(self, key: str, default: bool) -> bool:
        return bool(self._take(key, (bool,), "must be true or false", default))

    def text(self, key: str, pattern: re.Pattern[str] | None, allowed: str, default: Any = ...) -> Any:
        value = self._take(key, (str,), allowed, default)
        if value is not default and pattern is not None and not pattern.fullmatch(value):
            raise self.fail(key, value, allowed)
        return value

    def choice(self, key: str, options: tuple[str, ...], default: Any = ...) -> Any:
        allowed = "must be one of " + ", ".join(f'"{option}"' for option in options)
        value = self._take(key, (str,), allowed, default)
        if value not in options:
            raise self.fail(key, value, allowed)
        return value

    def table(self, key: str, *, required: bool = False) -> PlanTable:
        value = self._take(key, (dict,), f"must be a table [{key}]", ... if required else {})
        return PlanTable(value, self.path(key), self._record)

    def tables(self, key: str) -> list[PlanTable]:
        value = self._take(key, (list,), f"must be a list of tables [[{key}]]", ...)
        if not all(isinstance(item, dict) for item in value):
            raise self.fail(key, "...", f"must be a list of tables [[{key}]]")
        return [PlanTable(item, f"{self.path(key)}[{i}]", self._record) for i, item in enumerate(value)]

    def texts(self, key: str, low: int, high: int) -> tuple[str, ...] | None:
        """A list of different texts, if it is there."""
        allowed = f"must be a list of {_between(low, high)} different texts"
        value = self._take(key, (list,), allowed, None)
        if value is None:
            return None
        good = all(isinstance(item, str) and item.strip() == item != "" for item in value)
        if not good or not low <= len(set(value)) == len(value) <= high:
            raise self.fail(key, value, allowed)
        return tuple(value)

    def rising(self, key: str, low: int, high: int) -> tuple[float, ...] | None:
        """A list of rising numbers, if it is there."""
        allowed = f"must be a list of {_between(low, high)} finite numbers, each above the one before"
        value = self._take(key, (list,), allowed, None)
        if value is None:
            return None
        numbers = tuple(_finite(item) for item in value)
        if not low <= len(value) <= high or not all(before < after for before, after in pairwise(numbers)):  # NaN too
            raise self.fail(key, value, allowed)
        return numbers

    def ranges(self, key: str, count: int) -> tuple[tuple[float, float], ...] | None:
        """One pair of a lower and a higher number for each of ``count`` things, if it is there."""
        allowed = "must be a list of pairs [low, high], one per feature"
        value = self._take(key, (list,), allowed, None)
        if value is None:
            return None
        if len(value) != count or not all(isinstance(pair, list) and len(pair) == 2 for pair in value):
            raise self.fail(key, value, f"{allowed}: {count}")
        found = tuple((_finite(low), _finite(high)) for low, high in value)
        if not all(low < high for low, high in found):  # NaN too
            raise self.fail(key, value, f"{allowed}, finite and low below high")
        return found

    def scalars(self, key: str) -> dict[str, str | int | float | bool]:
        value = self._take(key, (dict,), "must be a table of plain values", {})
        for name, item in value.items():
            if not isinstance(item, str | int | float | bool):
                raise self.fail(f"{key}.{name}", item, "must be a text, number, true or false")
            if isinstance(item, float) and not math.isfinite(item):
                raise self.fail(f"{key}.{name}", item, "must be finite")
        return dict(value)

    def close(self, known: str) -> None:
        if self._left:
            key = sorted(self._left)[0]
            raise PlanError(f"{self.path(shortened(key))} is not a key of a plan: allowed here are {known}")


def _finite(value: object) -> float:
    """A number of ordinary size; NaN for anything else."""
    good = isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < 1e300
    return float(value) if good else math.nan  # type: ignore[arg-type]


def _between(low: int, high: int) -> str:
    return f"{low:,}" if low == high else f"{low:,} to {high:,}"
