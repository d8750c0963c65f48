"""A graph of peers: who saw most of one user, and what distance buys, before a run and after it (THEORY.md#graphs)."""

from __future__ import annotations

import math
from html import escape
from typing import Final

import numpy as np
from numpy.typing import NDArray

from analyzer.report.svg import Axes, circle, figure, heat, number
from analyzer.run import Analysis
from network_dp.graphs.promise import promised_matrix
from network_dp.topology import Graph

Floats = NDArray[np.float64]

_DRAWN_USERS: Final = 60
_EDGES: Final = "edges-between-peers"


def seen_of_one(analysis: Analysis) -> str:
    """The graph, coloured by how much each user saw of one of them, on the walked path and as promised before it: first
    of the user of whom most was seen, then of any other that a reader opens."""
    numbers, plan = analysis.privacy, analysis.run.plan
    if numbers.epsilon is None or numbers.worst is None or not plan.topology.listed or plan.n > _DRAWN_USERS:
        return ""
    assert isinstance(plan.topology, Graph)
    views = [("on the path that was walked", numbers.epsilon)]
    before = promised_matrix(plan)
    if before is not None:
        views.append(("as promised before the run", before))
    first = numbers.worst[0]
    order = [first, *(user for user in range(plan.n) if user != first)]
    pictures = [_pictures(analysis, plan.topology, user, views, drawn=user != first) for user in order]
    each = (
        f"<details><summary>of {escape(plan.names[user])}</summary>{body}</details>"
        for user, body in zip(order[1:], pictures[1:], strict=True)
    )
    body = f"{pictures[0]}<details><summary>Of another user</summary>{''.join(each)}</details>"
    told = f"What each user could learn about {plan.names[first]} (black): warmer is more."
    return figure("Who saw most of one user", body, told)


def _pictures(analysis: Analysis, graph: Graph, user: int, views: list[tuple[str, Floats]], *, drawn: bool) -> str:
    """One for each view, of one scale each; the edges are in the page once."""
    name, found = analysis.run.logs.name, []
    for number_of, (when, epsilon) in enumerate(views):
        most = float(np.nanmax(np.where(np.isfinite(epsilon), epsilon, 0.0)))
        edges = f'<use href="#{_EDGES}"/>' if drawn or number_of else f'<g id="{_EDGES}">{_edges(graph)}</g>'
        others = np.where(np.arange(graph.n_users) == user, -1.0, epsilon[user])
        label = f"What users saw of {escape(name(user))} {when}: {escape(name(int(others.argmax())))} saw most"
        svg = f'<svg class="square" viewBox="20 20 360 360" role="img" aria-label="{label}">'
        found.append(f"{svg}{edges}{_users(analysis, user, epsilon[user], most)}</svg><p>{label}.</p>")
    return "".join(found)


def _edges(graph: Graph) -> str:
    place, marks = circle(graph.n_users), []
    for a, peers in enumerate(graph.peers):
        for b in (peer for peer in peers if peer > a):
            (x0, y0), (x1, y1) = place[a], place[b]
            marks.append(f'<line class="curve trace" x1="{x0:.1f}" y1="{y0:.1f}" x2="{x1:.1f}" y2="{y1:.1f}"/>')
    return "".join(marks)


def _users(analysis: Analysis, user: int, row: Floats, most: float) -> str:
    name, marks = analysis.run.logs.name, []
    shares = np.where(np.isfinite(row), row / max(most, 1e-300), 1.0)
    for v, (x, y) in enumerate(circle(len(row))):
        if v == user:
            mark = f'class="node" cx="{x:.1f}" cy="{y:.1f}" r="8"><title>{escape(name(v))}</title>'
        else:
            red, green, blue, _ = heat(np.array([shares[v]]))[0].tolist()
            tip = f"{escape(name(v))}: ε {number(float(row[v]))}"
            mark = f'style="fill:rgb({red},{green},{blue})" cx="{x:.1f}" cy="{y:.1f}" r="9"><title>{tip}</title>'
        marks.append(f"<circle {mark}</circle>")
    return "".join(marks)


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
