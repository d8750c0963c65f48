"""Fig. 3 (appendix): what every pair lost on simulated walks of a histogram by randomised response (T = 100 n)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from network_dp.accounting import shuffle
from network_dp.accounting.randomised_response import Response
from simulator import walks
from simulator.figures.base import HIDDEN, KNOWN, LOCAL, Figure, Flavour, Settings, bound_line, canvas, error_bars
from simulator.pairs import Spread, merge
from simulator.parallel import map_runs, seeds
from simulator.published import walk_losses
from simulator.published.shuffling import shuffled_epsilons
from simulator.responses import SimulatedWindows, hidden_epsilon, response_losses, windows

NS = {"published": (50, 100, 200, 500, 1000, 2000, 5000), "audited": (10, 20, 50, 100, 200, 400)}
EPSILONS_0 = (0.1, 0.4)
BUCKETS = 10
VISITS, WALKS = 100, 10
DELTA = 1e-5


@dataclass(frozen=True)
class Job:
    n: int
    epsilon_0: float
    seed: np.random.SeedSequence
    table: SimulatedWindows | None  # None: the authors' formulas


def losses(job: Job) -> tuple[Spread, Spread]:
    """One walk: (network, local)."""
    walk = walks.uniform(job.n, VISITS * job.n, np.random.default_rng(job.seed))
    if job.table is not None:
        return response_losses(walk, job.n, job.table, DELTA), local_losses(walk, job.n, job.table.response)
    walk[0] = 0  # their walk starts at user 0
    network = walk_losses.network_losses(
        walk, job.n, lambda length: shuffled_epsilons(job.epsilon_0, length, walk_losses.DELTA)
    )
    return network, walk_losses.local_losses(walk, job.n, job.epsilon_0)


def local_losses(walk: walks.Ints, n: int, response: Response) -> Spread:
    """Local DP over users: exact composition of as many answers as each gave, interpolated between 4 counts."""
    counts = np.bincount(walk, minlength=n)
    grid = np.unique(np.linspace(counts.min(), counts.max(), 4).astype(np.int64))
    exact = [shuffle.local_epsilon(int(k), response.n_buckets, response.gamma, DELTA) for k in grid]
    values = np.interp(counts, grid, exact)
    return Spread(float(values.mean()), float(exact[0]), float(exact[-1]), n)


def measure(flavour: Flavour, n: int, epsilon_0: float, n_walks: int, settings: Settings) -> tuple[Spread, Spread]:
    response = Response(BUCKETS, shuffle.local_gamma(epsilon_0, BUCKETS))
    table = windows(response, 12 * n) if flavour == "audited" else None
    items = [Job(n, epsilon_0, seed, table) for seed in seeds(settings.seed, n_walks)]
    parts = map_runs(losses, items, jobs=settings.jobs, label=f"fig3 n = {n}", progress=settings.progress)
    return merge([network for network, _ in parts]), merge([local for _, local in parts])


def make(flavour: Flavour, settings: Settings) -> Figure:
    ns = list(NS[flavour][:2] if settings.quick else NS[flavour])
    n_walks = 2 if settings.quick else WALKS
    results = {e: [measure(flavour, n, e, n_walks, settings) for n in ns] for e in EPSILONS_0}
    drawn, (ax,) = canvas()
    rows: list[tuple[str | float, ...]] = []
    for e, points in results.items():
        dashed = e == EPSILONS_0[1]
        error_bars(ax, ns, [local for _, local in points], f"local DP, ε₀ = {e}", LOCAL, dashed)
        error_bars(ax, ns, [network for network, _ in points], f"network DP, ε₀ = {e}", KNOWN, dashed)
        for n, point in zip(ns, points, strict=True):
            for name, s in zip(("network", "local"), point, strict=True):
                rows.append((name, e, n, s.mean, s.low, s.high, s.count))
        if flavour == "audited":
            response = Response(BUCKETS, shuffle.local_gamma(e, BUCKETS))
            hidden = [hidden_epsilon(n, VISITS * n, response, DELTA) for n in ns]
            rows += [("hidden_bound", e, n, x, x, x, 1) for n, x in zip(ns, hidden, strict=True)]
            bound_line(ax, ns, hidden, f"hidden path, bound, ε₀ = {e}", HIDDEN, dashed)
    published = flavour == "published"
    ax.set(xscale="log", yscale="log", xlabel="number of users n")
    ax.set_ylabel("privacy loss ε" if published else f"privacy loss ε at δ = {DELTA:g}")
    kind = "histograms" if published else f"histogram of {BUCKETS} buckets"
    ax.set_title(f"Fig. 3 {'as published' if published else 'audited'}: {kind}, T = 100 n, {n_walks} walks")
    drawn.legend(loc="outside lower center", fontsize=8, ncols=3)
    header = ("curve", "epsilon_0", "n", "mean", "least", "greatest", "count")
    return Figure("fig3", flavour, drawn, header, rows, _notes(flavour, ns[-1], n_walks, *results[EPSILONS_0[0]][-1]))


def _notes(flavour: Flavour, n: int, n_walks: int, network: Spread, local: Spread) -> str:
    seen = (
        f"Seen: at n = {n}, eps0 = {EPSILONS_0[0]}, the mean pair loses {network.mean:.3g} ({network.low:.3g} to "
        f"{network.high:.3g}), a user under local DP {local.mean:.3g}:\n{local.mean / network.mean:.1f} times more on "
        f"average, {local.mean / network.high:.1f} times more than the worst pair."
    )
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
