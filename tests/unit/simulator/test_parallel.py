"""Many runs: the same numbers whoever computes them."""

from __future__ import annotations

import numpy as np
import pytest

from simulator.parallel import map_runs, seeds


def draw(seed: np.random.SeedSequence) -> float:
    return float(np.random.default_rng(seed).standard_normal())


def test_results_do_not_depend_on_the_number_of_workers() -> None:
    items = seeds(7, 6)
    assert map_runs(draw, items, jobs=1) == map_runs(draw, items, jobs=2)


def test_runs_have_different_seeds() -> None:
    assert len(set(map_runs(draw, seeds(7, 20)))) == 20


def test_a_seed_gives_the_same_runs_again() -> None:
    assert map_runs(draw, seeds(7, 3)) == map_runs(draw, seeds(7, 3))


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")  # dask's own
def test_a_dask_cluster_on_this_machine_gives_the_same_numbers() -> None:
    import distributed
    import joblib

    items = seeds(7, 6)
    with (
        distributed.LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None) as cluster,
        distributed.Client(cluster),
        joblib.parallel_config(backend="dask"),
    ):
        assert map_runs(draw, items, jobs=None) == map_runs(draw, items, jobs=1)
