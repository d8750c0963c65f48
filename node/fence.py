"""The boundary around a task's code: what it raises may hold a value, so only type and place pass."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import ParamSpec, TypeVar

from node.errors import TaskFailedError
from node.logs import described

P = ParamSpec("P")
T = TypeVar("T")


def fenced(work: Callable[P, T], *passing: type[Exception]) -> Callable[P, T]:
    """``work``, whose errors are ``TaskFailedError``, but for those ``passing``, which are written without values."""

    @wraps(work)
    def call(*arguments: P.args, **named: P.kwargs) -> T:
        try:
            return work(*arguments, **named)
        except passing:
            raise
        except Exception as error:
            raise TaskFailedError(f"the task failed: {described(error)}; mend the task, or its data") from None

    return call
