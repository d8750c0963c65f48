"""Code of the users: a callable that a plan names."""

from __future__ import annotations

import importlib
from typing import Any

from network_dp.plan import PlanError


def imported(factory: str) -> Any:
    """The callable "module:name", or PlanError."""
    module, _, name = factory.partition(":")
    try:
        return getattr(importlib.import_module(module), name)
    except (ImportError, AttributeError) as error:
        raise PlanError(f'task.factory = "{factory}": cannot be imported here: {error}') from error
