"""The node's own samplers, fed by a seeded numpy generator: SIMULATION ONLY, a real node never imports this."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray


class NumpySource:
    """A `node.noise.Source` of predictable words, so that a simulated run draws the very noise a node would."""

    secure = False

    def __init__(self, generator: np.random.Generator) -> None:
        self._generator = generator

    def words(self, count: int) -> NDArray[np.uint64]:
        return self._generator.integers(0, 1 << 64, count, dtype=np.uint64)
