"""Plans and runs that several tests look at."""

from __future__ import annotations

import pytest

from benchmarks.generated_logs import GRID, HISTOGRAM, SGD, plan_text

PLANS = {
    "complete sum": plan_text(),
    "complete vector mean": plan_text(task='kind = "mean"\ndimension = 3'),
    "complete capped": plan_text(length=80, caps="contributions = 6\nedge = 3"),
    "ring sum": plan_text("ring", 5, 4),
    "ring kept by its holder": plan_text("ring", 5, 4, release="holder"),
    "spread ring": plan_text("ring", 6, 5, noise=f"sigma = 2.0\n{GRID}\nspread = true"),
    "laplace ring": plan_text("ring", 5, 4, noise=f'mechanism = "laplace"\nscale = 2.0\n{GRID}'),
    "responses on a ring": plan_text("ring", 6, 4, task=HISTOGRAM, noise="gamma = 0.3"),
    "responses on a graph": plan_text(task=HISTOGRAM, noise="gamma = 0.3"),
    "gaussian histogram": plan_text(task=HISTOGRAM, noise=f'mechanism = "gaussian"\nsigma = 2.0\n{GRID}'),
    "sgd": plan_text(task=SGD, noise="sigma = 3.0"),
    "sgd with shrinking steps": plan_text(task=SGD + '\nschedule = "inverse_sqrt"', noise="sigma = 3.0"),
    "sgd on a ring": plan_text("ring", 5, 4, task=SGD, noise="sigma = 3.0"),
}


@pytest.fixture(params=PLANS, ids=lambda name: name.replace(" ", "-"))
def any_plan(request: pytest.FixtureRequest) -> str:
    return PLANS[request.param]
