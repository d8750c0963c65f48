"""Noisy gossip (Muffliato, NeurIPS 2022): the printed exposure of a pair against that of the joint view."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from network_dp import gossip, printed
from network_dp.graphs.generators import adjacency
from network_dp.graphs.pairs import distances
from network_dp.graphs.weights import metropolis
from simulator.figures.base import CENTRAL, HIDDEN, Figure, Flavour, Settings, canvas
from simulator.figures.walks import connected
from simulator.parallel import map_runs

GRAPHS = (("path", 16, 25), ("grid", 36, 25), ("hypercube", 32, 25), ("erdos-renyi", 32, 25))
QUICK = (("path", 16, 25), ("grid", 9, 9), ("hypercube", 8, 9), ("erdos-renyi", 8, 9))


@dataclass(frozen=True)
class Job:
    kind: str
    n_users: int
    n_rounds: int
    seed: int


@dataclass(frozen=True)
class Line:
    """Exposure to the last user, mean over all at that distance from it."""

    kind: str
    n_users: int
    n_rounds: int
    distance: int
    users: int
    printed: float
    joint: float


def one_graph(job: Job) -> list[Line]:
    peers = connected(job.kind, job.n_users, job.seed)
    weights, observer = metropolis(adjacency(peers)), job.n_users - 1
    stated = printed.gossip_exposure(weights, job.n_rounds, observer)
    joint = gossip.joint_exposure(peers, job.n_rounds, observer)
    away = distances(weights)[observer]
    return [
        Line(
            job.kind,
            job.n_users,
            job.n_rounds,
            distance,
            int(np.sum(away == distance)),
            float(stated[away == distance].mean()),
            float(joint[away == distance].mean()),
        )
        for distance in range(1, int(away.max()) + 1)
    ]


def make(flavour: Flavour, settings: Settings) -> Figure:
    jobs = [Job(*one, settings.seed) for one in (QUICK if settings.quick else GRAPHS)]
    found = map_runs(one_graph, jobs, jobs=settings.jobs, label="gossip", progress=settings.progress)
    drawn, axes = canvas(4, width=14.0, height=4.0)
    for ax, lines in zip(axes, found, strict=True):
        x = [line.distance for line in lines]
        ax.semilogy(
            x, [max(line.printed, 1e-16) for line in lines], "^:", color=HIDDEN, label="printed, round by round"
        )
        if flavour == "audited":
            ax.semilogy(x, [line.joint for line in lines], "o-", color=CENTRAL, label="joint view, exact")
        ax.set(title=f"{lines[0].kind}, n = {lines[0].n_users}, {lines[0].n_rounds} rounds", xlabel="distance")
    axes[0].set_ylabel("exposure S of a pair")
    drawn.legend(*axes[0].get_legend_handles_labels(), loc="outside lower center", ncols=2, fontsize=9)
    header = tuple(Line.__dataclass_fields__)
    rows = [tuple(getattr(line, name) for name in header) for lines in found for line in lines]
    return Figure("gossip", flavour, drawn, header, rows, _notes(flavour, found))


def _notes(flavour: Flavour, found: list[list[Line]]) -> str:
    lines = [
        f"Noisy gossip averaging, {flavour} flavour: exposure to the last user (1: its noisy value is known exactly).",
        "graph        n   rounds  distance  printed      joint view",
    ]
    lines += [
        f"{one.kind:<12}{one.n_users:<5}{one.n_rounds:>5}{one.distance:>9}{one.printed:>13.3g}{one.joint:>13.3g}"
        for part in found
        for one in part
    ]
    lines.append(
        "What a user receives in different rounds shares the same noises: once it has received as many independent\n"
        "combinations as there are others, it can solve for everybody's noisy value, at any distance."
    )
    return "\n".join(lines)
