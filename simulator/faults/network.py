"""The virtual network: loss, duplication, delay (and so reordering), partitions that heal."""

from __future__ import annotations

from random import Random
from typing import NamedTuple

LATENCY_S = (0.001, 0.02)
SLOW_S = 4.0  # a delayed message may arrive long after everybody stopped waiting for it


class Weather(NamedTuple):
    """Chances of what may happen to one message."""

    loss: float = 0.0
    duplicate: float = 0.0
    delay: float = 0.0


CALM = Weather()


class Network:
    """Decides the fate of every message; carries nothing itself."""

    def __init__(self, random: Random, weather: Weather) -> None:
        self._random = random
        self.weather = weather
        self._group: dict[int, int] = {}

    def split(self, group: frozenset[int], n: int) -> None:
        self._group = {user: int(user in group) for user in range(n)}

    def calm(self) -> None:
        self._group = {}
        self.weather = CALM

    def heal(self) -> None:
        self._group = {}

    def copies(self, sender: int, receiver: int) -> list[float]:
        """Delays after which copies of a message arrive; none: it is lost."""
        random, weather = self._random, self.weather
        if self._group and self._group[sender] != self._group[receiver]:
            return []
        if weather is CALM:
            return [self._latency()]
        if random.random() < weather.loss:
            return []
        delays = [random.random() * SLOW_S if random.random() < weather.delay else self._latency()]
        if random.random() < weather.duplicate:
            delays.append(random.random() * SLOW_S)
        return delays

    def _latency(self) -> float:
        low, high = LATENCY_S
        return low + (high - low) * self._random.random()
