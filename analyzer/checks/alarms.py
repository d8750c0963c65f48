"""How often a check may cry wolf on an honest run, at most."""

from __future__ import annotations

from typing import Final

FALSE_ALARM: Final = 1e-6
NOISE_ALARM: Final = 1e-5  # where noise is looked at
ELEMENTS_ALARM: Final = 1e-4  # for the few elements that cover the ends of a ring
