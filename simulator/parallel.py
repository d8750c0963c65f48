"""Many independent runs over cores, or over a cluster: joblib, one seed per run, a progress bar.

Every run gets a child of one `SeedSequence`, so results do not depend on how many workers there are, or where.
On a cluster, choose joblib's backend around the call:

    from dask.distributed import Client
    with Client("scheduler:8786"), joblib.parallel_config(backend="dask"):
        results = map_runs(function, items, jobs=None)
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

import numpy as np

Item = TypeVar("Item")
Result = TypeVar("Result")


def seeds(seed: int, count: int) -> list[np.random.SeedSequence]:
    """Independent seeds for `count` runs."""
    return np.random.SeedSequence(seed).spawn(count)


def map_runs(
    function: Callable[[Item], Result],
    items: Sequence[Item],
    *,
    jobs: int | None = 1,
    label: str = "",
    progress: bool = False,
) -> list[Result]:
    """function(item) for every item, in order.

    `jobs` is the number of worker processes: 1 stays in this process, -1 takes all cores, None leaves the choice to
    the surrounding `joblib.parallel_config` (that is how a cluster is used).
    """
    from joblib import Parallel, delayed
    from rich.console import Console
    from rich.progress import Progress

    screen = Console(stderr=True)
    with Progress(console=screen, transient=True, disable=not (progress and screen.is_terminal)) as bar:
        task = bar.add_task(label, total=len(items))
        results: list[Result] = []
        for result in Parallel(n_jobs=jobs, return_as="generator")(delayed(function)(item) for item in items):
            results.append(result)
            bar.advance(task)
    return results
