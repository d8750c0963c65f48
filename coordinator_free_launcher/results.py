"""What a run from Python returns: the value with its error, what was promised and kept, and a picture."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from html import escape
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from coordinator_free_launcher.local.run import LocalRun
from network_dp.errors import UserError
from network_dp.expected import CERTAIN, expected_contributions, expected_error
from network_dp.plan import Plan
from network_dp.simplex import on_simplex

Array = NDArray[np.float64]


@dataclass(frozen=True, repr=False)
class Result:
    """``value`` and its expected error ``std``; ``epsilon`` as promised; ``verdict`` as the analyzer judged the run."""

    run: LocalRun

    def __post_init__(self) -> None:
        if self.run.outcome.result is None:
            failed = [name for name, code in self.run.outcome.codes.items() if code != 0]
            where = f"see {self.run.folder}/users/NAME/state/node.log"
            raise UserError(f"the run ended without a result ({len(failed)} users did not end well): {where}")

    @property
    def plan(self) -> Plan:
        return self.run.plan

    @property
    def folder(self) -> Path:
        return self.run.folder

    @property
    def report(self) -> Path | None:
        return self.run.report

    @property
    def verdict(self) -> str:
        return self.run.verdict

    @cached_property
    def epsilon(self) -> float | None:
        """What the plan promises, at its delta."""
        from network_dp.promise import reached_epsilon

        return reached_epsilon(self.plan)

    @cached_property
    def std(self) -> float | None:
        return expected_error(self.plan)

    @property
    def raw(self) -> dict[str, Any]:
        """The result as the users published it."""
        return dict(self.run.outcome.result or {})

    @property
    def array(self) -> Array:
        return np.array(self.raw["value"], dtype=np.float64)

    @property
    def value(self) -> Any:
        return float(self.array[0]) if self.array.size == 1 else self.array

    @property
    def names(self) -> list[str]:
        """Of the numbers of the value."""
        return list(self.plan.task.names() or map(str, range(self.array.size)))

    def _said(self) -> str:
        error = "" if self.std is None else f" ± {CERTAIN * self.std:.2g} (95 %)"
        shown = f"{self.value:.4g}" if self.array.size == 1 else np.array2string(self.array, precision=3, threshold=8)
        return f"{shown}{error}"

    def _promise(self) -> str:
        return "no epsilon" if self.epsilon is None else f"epsilon {self.epsilon:.3g}"

    def __repr__(self) -> str:
        return f"{self.plan.task.kind} {self._said()}; {self._promise()}, {self.plan.n} users, {self.verdict}"

    def _rows(self) -> list[tuple[str, str]]:
        return [("value", self._said())]

    def _repr_html_(self) -> str:
        rows = [*self._rows(), ("privacy", self._promise()), ("users", str(self.plan.n)), ("verdict", self.verdict)]
        if self.report is not None:
            rows.append(("report", str(self.report)))
        cells = "".join(f"<tr><th>{escape(name)}</th><td>{escape(text)}</td></tr>" for name, text in rows)
        return f"<table><caption>{escape(self.plan.name)}</caption>{cells}</table>"

    def plot(self, ax: Any = None) -> Any:
        """Bars with a band that holds 95 % of the noise, on the given axes or on new ones."""
        import matplotlib.pyplot as plt

        axes = plt.subplots()[1] if ax is None else ax
        axes.bar(self.names, self.array, yerr=None if self.std is None else CERTAIN * self.std, capsize=4)
        axes.set_title(f"{self.plan.task.kind}, {self._promise()}")
        return axes


class Estimate(Result):
    """A mean or a sum over users."""

    @property
    def array(self) -> Array:
        """A walk counts a user as often as it came by: the sum over users is their number times the mean."""
        return np.array(self.raw["mean" if self.plan.task.per_user else "sum_over_users"], dtype=np.float64)

    @cached_property
    def std(self) -> float | None:
        error = expected_error(self.plan)
        if error is None or self.plan.task.per_user:
            return error
        return error * self.plan.n / expected_contributions(self.plan)


class Histogram(Result):
    """Shares of the buckets. Noise can make a share negative: ``shares`` is the nearest vector of true shares."""

    @property
    def shares(self) -> Array:
        return on_simplex(self.array)

    def as_dict(self) -> dict[str, float]:
        """Name of a bucket -> its share, as found."""
        return dict(zip(self.names, self.array.tolist(), strict=True))

    def _rows(self) -> list[tuple[str, str]]:
        return [
            (name, f"{share:.1%} ± {CERTAIN * (self.std or 0.0):.1%} (95 %)") for name, share in self.as_dict().items()
        ]


class Model(Result):
    """A linear model: weights of the features, then the intercept."""

    def _said(self) -> str:
        return f"of {self.array.size} weights"

    @property
    def weights(self) -> Array:
        return np.array(self.raw["weights"], dtype=np.float64)

    @property
    def intercept(self) -> float:
        return float(self.raw["intercept"])

    def predict(self, X: Any) -> Array:
        """-1 or 1 (ridge: a number) for every row of features: an array, or a frame with the columns of the plan."""
        from coordinator_free_launcher.local.score import margins, prepared
        from node.tasks import table_of

        features = self._features(X)
        rows = prepared(self.plan, table_of(np.column_stack([features, np.ones(len(features))]), "X"))
        said = margins(self.array, rows)
        return np.where(said >= 0.0, 1.0, -1.0) if self.plan.task.classifies else said

    def score(self, X: Any, y: Any) -> float:
        """The share of rows whose label the model finds, labels as the users have them; ridge: R squared."""
        reading, said = self.plan.task.reading, self.predict(X)
        labels = np.array([reading.last(label) for label in np.asarray(y).tolist()], dtype=np.float64)
        if self.plan.task.classifies:
            return float(np.mean(said == np.where(labels > 0, 1.0, -1.0)))
        return 1.0 - float(((said - labels) ** 2).sum() / ((labels - labels.mean()) ** 2).sum())

    def _features(self, X: Any) -> Array:
        columns = self.plan.task.reading.names
        if columns is not None and hasattr(X, "columns"):
            X = X[list(columns[:-1])]
        return np.asarray(X, dtype=np.float64)
