"""Histograms over buckets 0 .. L-1: by randomised response (Alg. 2 and 5), or as a Gaussian sum
(THEORY.md#histograms)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from network_dp.noise_rule import cover_elements
from network_dp.plan import HistogramTask, Plan, PlanError
from node.noise import Source, respond, response_coins, uniform_below
from node.tasks.additive import AdditiveTask, add
from node.tasks.base import LocalData, Noise, Payload, PayloadError, Tally, TaskError, require_full_noise
from node.tasks.data import DataError, Table
from node.tasks.rows import expect_usable, shares


class GaussianHistogram(AdditiveTask):
    """Shares of the user's rows in the buckets, or one row's one-hot vector, with Gaussian noise on every count.

    Either is a vector of non-negative numbers with sum 1, and two of them are at most sqrt(2) apart.
    """

    def __init__(self, plan: Plan, spec: HistogramTask) -> None:
        super().__init__(plan, spec.buckets)
        self.averaged = spec.rows == "average"
        if self.grid > 1:
            raise PlanError(f"noise.grid = {self.grid:g}: must be at most 1, so that a count of one lies on the grid")

    def prepare(self, table: Table) -> LocalData:
        buckets, clipped = bucket_indices(table, self.dimension)
        checked, one = len(buckets), round(1 / self.grid)
        if self.averaged:
            return LocalData(shares(buckets[:, 0], self.dimension, one)[np.newaxis], None, clipped, checked)
        expect_usable(self.plan, table)
        return LocalData(buckets, None, clipped, checked)

    def contribution(self, received: Payload, data: LocalData, index: int) -> Payload:
        row = data.row(index)
        return row if self.averaged else one_hot(int(row[0]), self.dimension) * round(1 / self.grid)

    def finish(self, payload: Payload, tally: Tally) -> Mapping[str, Any]:
        return histogram_estimate(self.values_of(payload) * self.plan.topology.correction, tally)


class ResponseHistogram:
    """Counts of randomised responses: the truth with probability 1 - gamma, else a uniform bucket.

    The contribution is the one-hot truth and the noise is the difference to what is said, so their sum is the
    response. The coins (lie or not, and which bucket) are drawn before the token arrives. On the ring R1 = ceil(gamma
    (n-2)) cover elements hide each end (THEORY.md#cover-elements).
    """

    dtype: Literal["int64", "float64"] = "int64"
    payload_max: float = 1 << 51  # counts
    noise_every_visit = True
    noise_only_is_cover = True

    def __init__(self, plan: Plan, spec: HistogramTask) -> None:
        if plan.noise.gamma is None:
            raise PlanError("noise.gamma is missing: provisioning must compute it before a run")
        self.plan = plan
        self.averaged = spec.rows == "average"
        self.gamma = plan.noise.gamma
        self.dimension = spec.buckets
        self.quick = True
        self.opening_cover = 0 if plan.topology.drawn else cover_elements(self.gamma, plan.n)
        self.closing_cover = self.opening_cover if plan.walk.release == "all" else 0

    def prepare(self, table: Table) -> LocalData:
        buckets, clipped = bucket_indices(table, self.dimension)
        if self.averaged and len(buckets) > 1:
            raise DataError(
                f"{table.file}: has {len(buckets)} rows, and a randomised response says one bucket per user: "
                'give one row, or let the plan say task.rows = "per_visit"'
            )
        expect_usable(self.plan, table)
        return LocalData(buckets, None, clipped, len(buckets))

    def initial(self, source: Source) -> Payload:
        return self._drawn_cover(self.opening_cover, source)

    def draw(self, source: Source) -> Noise:
        """One row: the coin of the response, and the uniform element to add instead past the cap."""
        coin = response_coins(self.dimension, self.gamma, 1, source)
        return Noise(np.stack([coin, uniform_below(self.dimension, 1, source)], axis=1))

    def draw_many(self, source: Source, count: int) -> list[Noise]:
        return [self.draw(source) for _ in range(count)]

    def validate(self, payload: Payload) -> None:
        if payload.dtype != np.int64 or payload.shape != (self.dimension,):
            raise PayloadError(f"the payload must be {self.dimension} integers")
        if ((payload < 0) | (payload > 3 * self.payload_max)).any():
            raise PayloadError("the payload must hold counts")

    def contribution(self, received: Payload, data: LocalData, index: int) -> Payload:
        return one_hot(int(data.row(index)[0]), self.dimension)

    def noise_sum(self, noise: Noise, units: int, contribution: Payload | None) -> Payload:
        require_full_noise(units, contribution)
        coin, element = noise.units[0]
        if contribution is None:
            return one_hot(int(element), self.dimension) * units
        said = respond(int(contribution.argmax()), coin)
        return one_hot(int(said), self.dimension) - contribution

    def apply(self, received: Payload, contribution: Payload | None, noise: Payload | None, step: int) -> Payload:
        if contribution is not None and noise is None:
            raise TaskError("a response without its noise would be the truth")
        return add(received, contribution, noise)

    def closing(self, source: Source) -> Payload | None:
        return self._drawn_cover(self.closing_cover, source) if self.closing_cover else None

    def finish(self, payload: Payload, tally: Tally) -> Mapping[str, Any]:
        return histogram_estimate(debias(payload, self.gamma, tally), tally)

    def _drawn_cover(self, count: int, source: Source) -> NDArray[np.int64]:
        return np.bincount(uniform_below(self.dimension, count, source), minlength=self.dimension).astype(np.int64)


def debias(counts: Payload, gamma: float, tally: Tally) -> NDArray[np.float64]:
    """h_l = (tau_l - (gamma N + R) / L) / (1 - gamma) after N responses and R cover elements
    (THEORY.md#debiasing)."""
    uniform_share = (gamma * tally.contributions + tally.cover) / len(counts)
    return (counts.astype(np.float64) - uniform_share) / (1 - gamma)


def histogram_estimate(counts: NDArray[np.float64], tally: Tally) -> dict[str, Any]:
    """Counts of contributions per bucket; the value is their share of all contributions."""
    shares = (counts / tally.contributions).tolist() if tally.contributions else None
    return {
        "value": shares,
        "counts": counts.tolist(),
        "contributions": tally.contributions,
        "cover": tally.cover,
    }


def one_hot(bucket: int, size: int) -> NDArray[np.int64]:
    vector = np.zeros(size, dtype=np.int64)
    vector[bucket] = 1
    return vector


def bucket_indices(table: Table, buckets: int) -> tuple[NDArray[np.int64], int]:
    """The table's only column as bucket indices (rows, 1), and how many were moved to the first or last bucket."""
    table.expect_columns(1, "a bucket index")
    fractional = np.argwhere(table.values != np.rint(table.values))
    if fractional.size:
        raise table.error(int(fractional[0, 0]), 0, f"is not a bucket index (a whole number from 0 to {buckets - 1})")
    inside = np.clip(table.values, 0, buckets - 1)
    return inside.astype(np.int64), int((inside != table.values).sum())
