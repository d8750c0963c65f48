"""Fig. 1b: what every pair actually lost on simulated walks of the real sum (T = 100 n, 10 walks), against n."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from network_dp.accounting import bounds, gaussian
from simulator import pairs, walks
from simulator.figures.base import HIDDEN, KNOWN, LOCAL, Figure, Flavour, Settings, bound_line, canvas, error_bars
from simulator.pairs import Spread, merge
from simulator.parallel import map_runs, seeds
from simulator.published import walk_losses

NS = (5, 10, 20, 50, 100, 200, 400)
EPSILONS_0 = (0.1, 0.4)
VISITS, WALKS = 100, 10
DELTA_0, DELTA = 1e-7, 1e-5


@dataclass(frozen=True)
class Job:
    flavour: Flavour
    n: int
    epsilon_0: float
    seed: np.random.SeedSequence


@dataclass(frozen=True)
class Losses:
    network: Spread
    local: Spread


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
    return Losses(merge([part.network for part in parts]), merge([part.local for part in parts]))


def hidden_bound(n: int, epsilon_0: float) -> float:
    """Before a run, and only if nobody could tell who else held the token."""
    sigma = gaussian.sigma(epsilon_0, DELTA_0, 1.0)
    return bounds.network_epsilon("sum", n, VISITS * n, sigma, 1.0, DELTA, path="hidden")


def make(flavour: Flavour, settings: Settings) -> Figure:
    ns = list(NS[:4] if settings.quick else NS)
    n_walks = 3 if settings.quick else WALKS
    results = {e: [measure(flavour, n, e, n_walks, settings) for n in ns] for e in EPSILONS_0}
    drawn, (ax,) = canvas()
    rows: list[tuple[str | float, ...]] = []
    for e, points in results.items():
        dashed = e == EPSILONS_0[1]
        error_bars(ax, ns, [p.local for p in points], f"local DP, ε₀ = {e}", LOCAL, dashed)
        error_bars(ax, ns, [p.network for p in points], f"network DP, ε₀ = {e}", KNOWN, dashed)
        for n, p in zip(ns, points, strict=True):
            for name, s in (("network", p.network), ("local", p.local)):
                rows.append((name, e, n, s.mean, s.low, s.high, s.count, str(s.sampled)))
        if flavour == "audited":
            hidden = [hidden_bound(n, e) for n in ns]
            rows += [("hidden_bound", e, n, x, x, x, 1, "False") for n, x in zip(ns, hidden, strict=True)]
            bound_line(ax, ns, hidden, f"hidden path, bound, ε₀ = {e}", HIDDEN, dashed)
    ax.set(xscale="log", yscale="log", xlabel="number of users n")
    published = flavour == "published"
    ax.set_ylabel("privacy loss ε" if published else f"privacy loss ε at δ = {DELTA:g}")
    ax.set_title(f"Fig. 1b {'as published' if published else 'audited'}: the sum, T = 100 n, {n_walks} walks")
    drawn.legend(loc="outside lower center", fontsize=8, ncols=3)
    header = ("curve", "epsilon_0", "n", "mean", "least", "greatest", "count", "sampled")
    last = results[EPSILONS_0[0]][-1]
    return Figure("fig1b", flavour, drawn, header, rows, _notes(flavour, ns[-1], n_walks, last))


def _notes(flavour: Flavour, n: int, n_walks: int, last: Losses) -> str:
    network, local = last.network, last.local
    seen = (
        f"Seen: at n = {n}, eps0 = {EPSILONS_0[0]}, the mean pair loses {network.mean:.3g} ({network.low:.3g} to "
        f"{network.high:.3g}), a user under local DP {local.mean:.3g}:\n{local.mean / network.mean:.1f} times more on "
        f"average, {local.mean / network.high:.1f} times more than the worst pair."
    )
    if flavour == "published":
        return f"""Fig. 1b, published flavour: {n_walks} walks, all pairs; mean, bars from best to worst pair.
{seen}
The authors' formulas: local DP by advanced composition, several times looser than exact; network losses get a larger
delta and miss repeated contributions in a cycle (THEORY.md#printed)."""
    return f"""Fig. 1b, audited: {n_walks} walks, all pairs; mean, bars from best to worst pair.
Network: exact epsilon at delta {DELTA:g} of what v saw of u on the actual walk, which everybody may know; not released.
Local: exact, same noise, same delta. Triangles: bound before the run if the path were hidden, which TLS does not give.
{seen}"""
