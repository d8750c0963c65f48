"""Network differential privacy: its mathematics, the public schemas, and the door to runs from Python.

``import network_dp as ndp`` and ``ndp.mean(...)``, ``ndp.sum``, ``ndp.histogram``, ``ndp.logistic_regression`` or
``ndp.run("plan.toml")`` start real processes. They live in the launcher and are imported when
first used: this package itself is pure, and importing it loads nothing heavy (a node process imports it too).
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from coordinator_free_launcher.api import histogram, logistic_regression, mean, run, sum

__version__ = "0.1.0"
__all__ = ["__version__", "histogram", "logistic_regression", "mean", "run", "sum"]

_FACADE = "coordinator_free_launcher.api"


def __getattr__(name: str) -> Any:
    if name in __all__:
        return getattr(importlib.import_module(_FACADE), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
