"""Fig. 1b: what every pair actually lost on simulated walks of the real sum (T = 100 n, 10 walks), against n."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from network_dp.accounting import bounds, gaussian
from simulator import pairs, walks
from simulator.figures.against_n import DELTA, EPSILONS_0, HEADER, VISITS, WALKS, Losses, panel, sentence, together
from simulator.figures.base import Figure, Flavour, Settings
from simulator.parallel import map_runs, seeds
from simulator.published import walk_losses

NS = (5, 10, 20, 50, 100, 200, 400)
DELTA_0 = 1e-7


@dataclass(frozen=True)
class Job:
    flavour: Flavour
    n: int
    epsilon_0: float
    seed: np.random.SeedSequence


def losses(job: Job) -> Losses:
    """One walk: losses of all pairs, and of all users under local DP."""
    generator = np.random.default_rng(job.seed)
    walk = walks.uniform(job.n, VISITS * job.n, generator)
    if job.flavour == "published":
        walk[0] = 0  # their walk starts at user 0
        network = walk_losses.network_losses(walk, job.n, lambda length: job.epsilon_0 / np.sqrt(length))
        return Losses(network, walk_losses.local_losses(walk, job.n, job.epsilon_0))
    sigma = gaussian.sigma(job.epsilon_0, DELTA_0, 1.0)
    return Losses(
        pairs.sum_losses(walk, job.n, sigma, 1.0, DELTA, generator),
        pairs.local_losses(walk, job.n, sigma, 1.0, DELTA),
    )


def measure(flavour: Flavour, n: int, epsilon_0: float, n_walks: int, settings: Settings) -> Losses:
    """All walks of one point together."""
    items = [Job(flavour, n, epsilon_0, seed) for seed in seeds(settings.seed, n_walks)]
    parts = map_runs(losses, items, jobs=settings.jobs, label=f"fig1b n = {n}", progress=settings.progress)
    return together(parts)


def hidden_bound(n: int, epsilon_0: float) -> float:
    """Before a run, and only if nobody could tell who else held the token."""
    sigma = gaussian.sigma(epsilon_0, DELTA_0, 1.0)
    return bounds.network_epsilon("sum", n, VISITS * n, sigma, 1.0, DELTA, path="hidden")


def make(flavour: Flavour, settings: Settings) -> Figure:
    ns = list(NS[:4] if settings.quick else NS)
    n_walks = 3 if settings.quick else WALKS
    results = {e: [measure(flavour, n, e, n_walks, settings) for n in ns] for e in EPSILONS_0}
    kind = "as published" if flavour == "published" else flavour
    title = f"Fig. 1b {kind}: the sum, T = 100 n, {n_walks} walks"
    drawn, rows = panel(flavour, title, ns, results, hidden_bound)
    return Figure("fig1b", flavour, drawn, HEADER, rows, _notes(flavour, ns[-1], n_walks, results[EPSILONS_0[0]][-1]))


def _notes(flavour: Flavour, n: int, n_walks: int, last: Losses) -> str:
    seen = sentence(n, last)
    if flavour == "published":
        return f"""Fig. 1b, published flavour: {n_walks} walks, all pairs; mean, bars from best to worst pair.
{seen}
The authors' formulas: local DP by advanced composition, several times looser than exact; network losses get a larger
delta and miss repeated contributions in a cycle (THEORY.md#printed)."""
    return f"""Fig. 1b, audited: {n_walks} walks, all pairs; mean, bars from best to worst pair.
Network: exact epsilon at delta {DELTA:g} of what v saw of u on the actual walk, which everybody may know; not released.
Local: exact, same noise, same delta. Triangles: bound before the run if the path were hidden, which TLS does not give.
{seen}"""
