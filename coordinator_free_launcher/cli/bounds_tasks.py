"""What `network-dp bounds` and `calibrate` ask of a task: a new one is a class and a line in ``TASKS``."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, ClassVar, Final, Literal

from network_dp import utility
from network_dp.errors import require

if TYPE_CHECKING:
    from coordinator_free_launcher.cli.bounds_kinds import BoundsQuery


class Adding:
    """A sum of vectors; the other tasks differ from it."""

    walk: ClassVar[Literal["sum", "sgd"]] = "sum"  # its accounting
    hidden_on_ring: ClassVar[bool] = True  # by the noise of others
    responds: ClassVar[bool] = False  # by randomised response, where no sigma is given
    error_means: ClassVar[str] = "standard deviation of the result"

    def check(self, query: BoundsQuery) -> None:
        """Refuse options that make no sense for it."""
        require(query.lipschitz is None, "--lipschitz is only for --task sgd; leave it out")
        require(self.responds or query.buckets is None, "--buckets is only for --task histogram; leave it out")

    def sensitivity(self, query: BoundsQuery) -> float:
        return query.sensitivity

    def error(self, query: BoundsQuery, sigma: float) -> float:
        return utility.sum_std(sigma, n_users=query.users, released=query.released, **query.kind.length(query))


class Averaging(Adding):
    def error(self, query: BoundsQuery, sigma: float) -> float:
        size = {"n_users": query.users, "released": query.released, **query.kind.length(query)}
        return utility.mean_std(sigma, cap=query.cap, value_std=query.sensitivity / 2, **size)


class Counting(Adding):
    responds = True

    def sensitivity(self, query: BoundsQuery) -> float:
        return math.sqrt(2)  # of one-hot vectors


class Learning(Adding):
    walk = "sgd"
    hidden_on_ring = False
    error_means = "bound on F(tau) - F(w*), for dimension and diameter 1"

    def check(self, query: BoundsQuery) -> None:
        require(query.lipschitz is not None and query.lipschitz > 0, "--task sgd needs --lipschitz above 0")
        require(query.buckets is None, "--buckets is only for --task histogram; leave it out")

    def sensitivity(self, query: BoundsQuery) -> float:
        return 2 * (query.lipschitz or 0.0)  # gradients of an L-Lipschitz loss

    def error(self, query: BoundsQuery, sigma: float) -> float:
        return utility.sgd_suboptimality(1.0, query.lipschitz or 0.0, 1, sigma, query.length)


TASKS: Final[Mapping[str, Adding]] = {"sum": Adding(), "mean": Averaging(), "histogram": Counting(), "sgd": Learning()}
