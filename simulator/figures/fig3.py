"""Fig. 3 (appendix): what every pair lost on simulated walks of a histogram by randomised response (T = 100 n)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from network_dp.accounting import shuffle
from network_dp.accounting.randomised_response import Response
from simulator import walks
from simulator.figures.against_n import DELTA, EPSILONS_0, HEADER, VISITS, WALKS, Losses, panel, sentence, together
from simulator.figures.base import Figure, Flavour, Settings
from simulator.pairs import Spread
from simulator.parallel import map_runs, seeds
from simulator.published import walk_losses
from simulator.published.shuffling import shuffled_epsilons
from simulator.responses import SimulatedWindows, hidden_epsilon, response_losses, windows

NS = {"published": (50, 100, 200, 500, 1000, 2000, 5000), "audited": (10, 20, 50, 100, 200, 400)}
BUCKETS = 10


@dataclass(frozen=True)
class Job:
    n: int
    epsilon_0: float
    seed: np.random.SeedSequence
    table: SimulatedWindows | None  # None: the authors' formulas


def losses(job: Job) -> Losses:
    """One walk."""
    walk = walks.uniform(job.n, VISITS * job.n, np.random.default_rng(job.seed))
    if job.table is not None:
        network = response_losses(walk, job.n, job.table, DELTA)
        return Losses(network, local_losses(walk, job.n, job.table.response))
    walk[0] = 0  # their walk starts at user 0
    network = walk_losses.network_losses(
        walk, job.n, lambda length: shuffled_epsilons(job.epsilon_0, length, walk_losses.DELTA)
    )
    return Losses(network, walk_losses.local_losses(walk, job.n, job.epsilon_0))


def local_losses(walk: walks.Ints, n: int, response: Response) -> Spread:
    """Local DP over users: exact composition of as many answers as each gave, interpolated between 4 counts."""
    counts = np.bincount(walk, minlength=n)
    grid = np.unique(np.linspace(counts.min(), counts.max(), 4).astype(np.int64))
    exact = [shuffle.local_epsilon(int(k), response.n_buckets, response.gamma, DELTA) for k in grid]
    values = np.interp(counts, grid, exact)
    return Spread(float(values.mean()), float(exact[0]), float(exact[-1]), n)


def measure(flavour: Flavour, n: int, epsilon_0: float, n_walks: int, settings: Settings) -> Losses:
    table = windows(_response(epsilon_0), 12 * n) if flavour == "audited" else None
    items = [Job(n, epsilon_0, seed, table) for seed in seeds(settings.seed, n_walks)]
    parts = map_runs(losses, items, jobs=settings.jobs, label=f"fig3 n = {n}", progress=settings.progress)
    return together(parts)


def _response(epsilon_0: float) -> Response:
    return Response(BUCKETS, shuffle.local_gamma(epsilon_0, BUCKETS))


def hidden_bound(n: int, epsilon_0: float) -> float:
    """Before a run, and only if nobody could tell who else held the token."""
    return hidden_epsilon(n, VISITS * n, _response(epsilon_0), DELTA)


def make(flavour: Flavour, settings: Settings) -> Figure:
    ns = list(NS[flavour][:2] if settings.quick else NS[flavour])
    n_walks = 2 if settings.quick else WALKS
    results = {e: [measure(flavour, n, e, n_walks, settings) for n in ns] for e in EPSILONS_0}
    kind = "as published: histograms" if flavour == "published" else f"audited: histogram of {BUCKETS} buckets"
    title = f"Fig. 3 {kind}, T = 100 n, {n_walks} walks"
    drawn, rows = panel(flavour, title, ns, results, hidden_bound)
    notes = _notes(flavour, ns[-1], n_walks, results[EPSILONS_0[0]][-1])
    return Figure("fig3", flavour, drawn, HEADER[:-1], [row[:-1] for row in rows], notes)  # all pairs, never a sample


def _notes(flavour: Flavour, n: int, n_walks: int, last: Losses) -> str:
    seen = sentence(n, last)
    if flavour == "published":
        return f"""Fig. 3, published flavour: {n_walks} walks, all pairs; mean, bars from best to worst pair.
{seen}
The authors' formulas: generic shuffling bounds (Balle et al. 2019) inside amplification by subsampling; local DP by
advanced composition. Not valid guarantees (THEORY.md#printed)."""
    return f"""Fig. 3, audited: {n_walks} walks, all pairs; mean, bars from best to worst pair.
{BUCKETS}-ary randomised response, delta {DELTA:g} for all. Network: Renyi bound of the actual cycles, path known, not
released (THEORY.md#response-complete). Local: exact composition. Triangles: bound before the run if the path were
hidden, which TLS does not give.
{seen}"""
