"""Walks on graphs (Cyffers, Bellet & Upadhyay, ICML 2024): the printed bound, the valid one, and what walks cost.

SGD, path known, T about 8.6 steps per user. Against the distance of a pair: the printed Thm 3, the valid bounds
(Renyi moment of all pairs; profile of one typical pair), and what simulated walks really showed.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from network_dp import exposure, printed
from network_dp.accounting import gaussian
from network_dp.graphs import profile as graph_profile
from network_dp.graphs.generators import GraphError, Options, Peers, adjacency, generate
from network_dp.graphs.pairs import Promise
from network_dp.graphs.weights import metropolis, stationary
from simulator.figures.base import HIDDEN, KNOWN, LOCAL, NONE, Figure, Flavour, Settings, canvas
from simulator.parallel import map_runs, seeds

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

KINDS = ("hypercube", "erdos-renyi", "grid", "geometric")
SIGMA, DELTA, SENSITIVITY = 4.0, 1e-5, 1.0
STEPS_PER_USER = 275 / 32


@dataclass(frozen=True)
class Size:
    sides: dict[str, int]
    n_walks: int
    profile: bool


FULL = Size({"hypercube": 32, "erdos-renyi": 32, "grid": 36, "geometric": 32}, 200, True)
QUICK = Size({"hypercube": 8, "erdos-renyi": 8, "grid": 9, "geometric": 8}, 20, False)


@dataclass(frozen=True)
class Job:
    kind: str
    size: Size
    seed: int
    random: np.random.SeedSequence


@dataclass(frozen=True)
class Line:
    """One graph and distance: means over pairs; of walks also the largest loss of any pair on any walk."""

    kind: str
    n_users: int
    n_steps: int
    distance: int
    pairs: int
    printed: float
    valid: float
    profile: float
    walked: float
    walked_max: float
    local: float


def one_graph(job: Job) -> list[Line]:
    n = job.size.sides[job.kind]
    n_steps = round(STEPS_PER_USER * n)
    peers = adjacency(connected(job.kind, n, job.seed))
    p, pi = metropolis(peers), stationary(peers)
    promise = Promise("sgd", p, pi, n_steps)
    valid, stated = (
        promise.matrix(SIGMA, SENSITIVITY, DELTA),
        printed.random_walk_at(p, n_steps, SIGMA, SENSITIVITY, DELTA),
    )
    walks = walked(p, n_steps, job.size.n_walks, np.random.default_rng(job.random))
    seen = np.stack([_epsilons(exposure.matrix(walk, n, "sgd")) for walk in walks])
    local = np.mean([graph_profile.local_epsilon(p, pi, u, n_steps, SIGMA, SENSITIVITY, DELTA) for u in range(n)])
    lines = []
    for distance in range(1, int(promise.distances.max()) + 1):
        here = promise.distances == distance
        u, v = _typical(valid, here)
        profile = (
            graph_profile.epsilon(p, pi, u, [v], n_steps, SIGMA, SENSITIVITY, DELTA) if job.size.profile else np.nan
        )
        numbers = (stated[here].mean(), valid[here].mean(), profile, seen[:, here].mean(), seen[:, here].max(), local)
        lines.append(Line(job.kind, n, n_steps, distance, int(here.sum()), *(float(x) for x in numbers)))
    return lines


def connected(kind: str, n_users: int, seed: int) -> Peers:
    """The first connected graph of that kind, from that seed on."""
    for more in range(100):
        try:
            return generate(kind, n_users, Options(seed=seed + more))
        except GraphError:
            continue
    return generate(kind, n_users, Options(seed=seed))


def walked(p: Floats, n_steps: int, n_walks: int, generator: np.random.Generator) -> Ints:
    """[walk, step]: holders of walks that start anywhere."""
    n = len(p)
    edges = np.cumsum(p, axis=1)
    holder = generator.integers(0, n, n_walks)
    path = np.empty((n_walks, n_steps), dtype=np.int64)
    for step in range(n_steps):
        path[:, step] = holder
        holder = np.minimum((edges[holder] < generator.random(n_walks)[:, None]).sum(axis=1), n - 1)
    return path


def _epsilons(exposures: Floats) -> Floats:
    return gaussian.epsilons(np.sqrt(exposures) * SENSITIVITY / SIGMA, DELTA)


def _typical(valid: Floats, here: NDArray[np.bool_]) -> tuple[int, int]:
    """The pair with the median bound."""
    places = np.flatnonzero(here)
    middle = places[np.argsort(valid.reshape(-1)[places], kind="stable")[len(places) // 2]]
    return divmod(int(middle), len(valid))


def make(flavour: Flavour, settings: Settings) -> Figure:
    size = QUICK if settings.quick else FULL
    jobs = [Job(k, size, settings.seed, random) for k, random in zip(KINDS, seeds(settings.seed, 4), strict=True)]
    found = map_runs(one_graph, jobs, jobs=settings.jobs, label="walks", progress=settings.progress)
    drawn, axes = canvas(4, width=14.0, height=4.2)
    for ax, lines in zip(axes, found, strict=True):
        x = [line.distance for line in lines]
        ax.plot(x, [line.printed for line in lines], "^:", color=HIDDEN, label="printed Thm 3, sender unknown")
        if flavour == "audited":
            ax.plot(x, [line.valid for line in lines], "o-", color=KNOWN, label="valid, path known (Renyi)")
            ax.plot(x, [line.profile for line in lines], "s--", color=KNOWN, label="valid, typical pair (profile)")
            ax.plot(x, [line.walked for line in lines], ".-", color=NONE, label="simulated walks, mean")
            ax.plot(x, [line.walked_max for line in lines], "_", color=NONE, ms=10, label="simulated walks, largest")
            ax.axhline(lines[0].local, color=LOCAL, label="local DP, mean over users (profile)")
        ax.set(title=f"{lines[0].kind}, n = {lines[0].n_users}, T = {lines[0].n_steps}", xlabel="distance", xticks=x)
    axes[0].set_ylabel(f"ε of a pair at δ = {DELTA:g}")
    drawn.legend(*axes[0].get_legend_handles_labels(), loc="outside lower center", ncols=6, fontsize=9)
    header = tuple(Line.__dataclass_fields__)
    rows = [tuple(getattr(line, name) for name in header) for lines in found for line in lines]
    return Figure("walks", flavour, drawn, header, rows, _notes(flavour, found))


def _notes(flavour: Flavour, found: list[list[Line]]) -> str:
    lines = [
        f"SGD walks on graphs, {flavour} flavour: sigma = {SIGMA:g}, Delta = {SENSITIVITY:g}, delta = {DELTA:g}.",
        "graph        n    T  distance  printed  valid (profile)  walked mean (largest)  local",
    ]
    lines += [
        f"{one.kind:<12}{one.n_users:<4}{one.n_steps:>4}{one.distance:>8}{one.printed:>11.2f}{one.valid:>8.2f}"
        f" ({one.profile:.2f}){one.walked:>14.2f} ({one.walked_max:.2f}){one.local:>12.2f}"
        for part in found
        for one in part
    ]
    lines.append(
        "The printed bound assumes that nobody knows from whom the token came, and counts T/n contributions. With a\n"
        "known path it is too small far away, and walks with many visits in a row exceed it."
    )
    return "\n".join(lines)
