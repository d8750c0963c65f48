"""A graph of peers: who saw most of one user, and what distance buys, before a run and after it (THEORY.md#graphs)."""

from __future__ import annotations

import math
from html import escape
from typing import Final

import numpy as np

from analyzer.report.figures import circle, figure
from analyzer.report.svg import Axes, heat, number
from analyzer.run import Analysis
from network_dp.graph_promise import promised_matrix
from network_dp.topology import Graph

_DRAWN_USERS: Final = 60
_CHOICES: Final = 16  # users for each of whom there is a picture


def seen_of_one(analysis: Analysis) -> str:
    """The graph, coloured by how much each user saw of one of them: of the one of whom most was seen."""
    numbers, plan = analysis.privacy, analysis.run.plan
    if numbers.epsilon is None or numbers.worst is None or not plan.topology.listed:
        return ""
    if plan.n > _DRAWN_USERS:
        return ""
    assert isinstance(plan.topology, Graph)
    first, most = numbers.worst[0], float(np.nanmax(np.where(np.isfinite(numbers.epsilon), numbers.epsilon, 0.0)))
    body = _picture(analysis, plan.topology, first, most)
    others = [user for user in range(plan.n) if user != first] if plan.n <= _CHOICES else []
    if others:
        each = "".join(f"<details><summary>of {escape(plan.names[user])}</summary>{{}}</details>" for user in others)
        body += "<details><summary>Of another user</summary>"
        body += each.format(*(_picture(analysis, plan.topology, user, most) for user in others)) + "</details>"
    told = f"What each user could learn about {plan.names[first]} (black) on the path that was walked: warmer is more."
    return figure("Who saw most of one user", body, told)


def _picture(analysis: Analysis, graph: Graph, user: int, most: float) -> str:
    epsilon, name = analysis.privacy.epsilon, analysis.run.logs.name
    assert epsilon is not None
    place, marks = circle(graph.n_users), []
    for a, peers in enumerate(graph.peers):
        for b in (peer for peer in peers if peer > a):
            (x0, y0), (x1, y1) = place[a], place[b]
            marks.append(f'<line class="curve trace" x1="{x0:.1f}" y1="{y0:.1f}" x2="{x1:.1f}" y2="{y1:.1f}"/>')
    shares = np.where(np.isfinite(epsilon[user]), epsilon[user] / max(most, 1e-300), 1.0)
    for v, (x, y) in enumerate(place):
        red, green, blue, _ = heat(np.array([shares[v]]))[0].tolist()
        if v == user:
            marks.append(
                f'<circle class="node" cx="{x:.1f}" cy="{y:.1f}" r="8"><title>{escape(name(v))}</title></circle>'
            )
            continue
        tip = f"{escape(name(v))}: ε {number(float(epsilon[user, v]))}"
        fill = f'style="fill:rgb({red},{green},{blue})"'
        marks.append(f'<circle {fill} cx="{x:.1f}" cy="{y:.1f}" r="9"><title>{tip}</title></circle>')
    label = f'role="img" aria-label="What users saw of {escape(name(user))}"'
    return f'<svg class="square" viewBox="20 20 360 360" {label}>{"".join(marks)}</svg>'


def by_distance(analysis: Analysis) -> str:
    """Epsilon of pairs against the hops between them: the worst and the mean of this run, and the worst promised."""
    numbers, plan = analysis.privacy, analysis.run.plan
    if numbers.epsilon is None or not plan.topology.listed:
        return ""
    assert isinstance(plan.topology, Graph)
    distance, epsilon = plan.topology.distances(), numbers.epsilon
    hops = list(range(1, int(distance.max()) + 1))
    worst = [float(epsilon[distance == d].max()) for d in hops]
    mean = [float(epsilon[distance == d].mean()) for d in hops]
    before = promised_matrix(plan)
    promised = [] if before is None else [float(before[distance == d].max()) for d in hops]
    top = max((value for value in (*worst, *promised) if math.isfinite(value)), default=1.0)
    axes = Axes((0.8, len(hops) + 0.2), (0.0, top * 1.1), "Epsilon against distance")
    axes.line(list(zip(hops, worst, strict=True)), "observed", "this run, worst pair")
    axes.line(list(zip(hops, mean, strict=True)), "local", "this run, average pair")
    if promised:
        axes.line(list(zip(hops, promised, strict=True)), "law", "promised before the run, worst pair")
    for d, value in zip(hops, worst, strict=True):
        if math.isfinite(value):
            axes.dot(d, value, "observed", tip=f"{d} hops: ε {number(value)}")
    axes.scales("hops between two users", "epsilon", x_ticks=hops)
    told = "What distance in the graph buys: neighbours see most of each other."
    if plan.noise.distance and plan.noise.distance > 1:
        told += f" The plan promises from {plan.noise.distance} hops on; nearer users are trusted."
    return figure("Epsilon against distance", axes.render(), told)
