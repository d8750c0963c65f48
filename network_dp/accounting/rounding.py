"""What floating point may do to a number, for bounds that must hold and not only be close.

u = 2^-53 is the relative error of one operation. Elementary functions (exp, log, expm1, log1p) are taken to be good to
four units in the last place, 8 u: more than C libraries and numpy's vectors claim.
"""

from __future__ import annotations

from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

UNIT = 2.0**-53

Numbers = TypeVar("Numbers", NDArray[np.float64], NDArray[np.complex128])


def halving_sum(values: Numbers) -> Numbers:
    """The sum, shape (1,), by adding the second half to the first until one number is left.

    Every number passes through ceil(log2 n) additions, so the error is at most ceil(log2 n) u times the sum of moduli.
    """
    while len(values) > 1:
        half = (len(values) + 1) // 2
        folded = values[:half].copy()
        folded[: len(values) - half] += values[half:]
        values = folded
    return values
