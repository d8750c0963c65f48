"""The charts of the report, one function each: an analysis in, a figure's HTML out ("" when nothing can be drawn)."""

from __future__ import annotations

import math
from collections import Counter
from html import escape
from typing import Final

import numpy as np
from scipy.special import ndtri
from scipy.stats import binom, norm

from analyzer.draws import CELLS, lie_rate
from analyzer.exposures import walking_rows
from analyzer.judge import Analysis, visits_per_user
from analyzer.limits import exposure_tail
from analyzer.privacy import n_live
from analyzer.report.svg import Frame, blocks, heat, nice_ticks, number, png
from analyzer.tables import HANDOFF, REISSUE, START, Event, Floats
from network_dp.plan import SgdTask
from network_dp.promise import has_walk_law

DRAWN_USERS: Final = 60
_DOTS: Final = 1500


def figure(title: str, body: str, caption: str) -> str:
    if not body:
        return ""
    return f"<figure><h3>{escape(title)}</h3>{body}<figcaption>{escape(caption)}</figcaption></figure>"


def _circle(n: int) -> list[tuple[float, float]]:
    angle = [2 * math.pi * i / n - math.pi / 2 for i in range(n)]
    return [(200 + 150 * math.cos(a), 200 + 150 * math.sin(a)) for a in angle]


def walk(analysis: Analysis) -> str:
    """Who handed the token to whom: users on a circle, an edge as thick as it was used."""
    run = analysis.run
    sents = run.lineage.sents
    used = sents[sents["to"] >= 0]
    n = run.plan.n
    beside = ~run.lineage.on_branch if run.lineage.complete else np.zeros(len(sents), dtype=np.bool_)
    lost = {(int(row["user"]), int(row["to"])) for row in sents[beside] if row["to"] >= 0}
    if n > DRAWN_USERS:
        return _edge_map(analysis)
    counts: dict[tuple[int, int], int] = {}
    for user, to in zip(used["user"].tolist(), used["to"].tolist(), strict=True):
        counts[user, to] = counts.get((user, to), 0) + 1
    place = _circle(n)
    most = max(counts.values(), default=1)
    name = run.logs.name
    marks = []
    for (u, v), count in sorted(counts.items(), key=lambda item: item[1]):
        kind = "edge lost" if (u, v) in lost else "edge"
        tip = f"<title>{escape(name(u))} to {escape(name(v))}: {count}</title>"
        strength = 0.15 + 0.85 * count / most
        style = f'style="stroke-width:{0.6 + 3 * count / most:.2f};opacity:{strength:.2f}"'
        marks.append(f'<path class="{kind}" {style} d="{_edge(place, u, v)}">{tip}</path>')
    visits = visits_per_user(run)
    for i, (x, y) in enumerate(place):
        kind = "node" if i in run.logs.files else "node absent"
        radius = 4 + 7 * math.sqrt(visits[i] / max(1, visits.max()))
        marks.append(
            f'<circle class="{kind}" cx="{x:.1f}" cy="{y:.1f}" r="{radius:.1f}">'
            f"<title>{escape(name(i))}: {visits[i]} visits</title></circle>"
        )
        if n <= 24:
            tx, ty = 200 + (x - 200) * 1.13, 200 + (y - 200) * 1.13
            side = "start" if x > 230 else "end" if x < 170 else "middle"
            marks.append(
                f'<text class="tick" x="{tx:.1f}" y="{ty + 4:.1f}" text-anchor="{side}">{escape(name(i))}</text>'
            )
    label = 'role="img" aria-label="The walk of the token"'
    body = f'<svg class="square" viewBox="-30 0 460 400" {label}>{"".join(marks)}</svg>'
    told = f"{len(used)} hand-overs over {len(counts)} edges; thicker is more often, larger is more visits."
    return figure("The walk", body, told + (" Red: tokens that left beside the accepted branch." if lost else ""))


def _edge(place: list[tuple[float, float]], u: int, v: int) -> str:
    (x0, y0), (x1, y1) = place[u], place[v]
    if u == v:
        ox, oy = 200 + (x0 - 200) * 1.2, 200 + (y0 - 200) * 1.2
        return f"M{x0:.1f},{y0:.1f} A14,14 0 1 1 {ox:.1f},{oy:.1f} A14,14 0 1 1 {x0:.1f},{y0:.1f}"
    mx, my = (x0 + x1) / 2, (y0 + y1) / 2
    return f"M{x0:.1f},{y0:.1f} Q{mx + (y1 - y0) * 0.12:.1f},{my - (x1 - x0) * 0.12:.1f} {x1:.1f},{y1:.1f}"


def _image(matrix: Floats, top: float, label: str) -> str:
    shown = blocks(matrix)
    scaled = shown / top if top > 0 else shown
    address = png(heat(np.asarray(scaled, dtype=np.float64)))
    scale = png(heat(np.linspace(0, 1, 120)[None, :].repeat(8, axis=0)))
    return (
        f'<img class="pixels" alt="{escape(label)}" src="{address}">'
        f'<div class="scale"><span>0</span><img alt="" src="{scale}"><span>{number(top)}</span></div>'
    )


def _edge_map(analysis: Analysis) -> str:
    run, n = analysis.run, analysis.run.plan.n
    used = run.lineage.sents[run.lineage.sents["to"] >= 0]
    counts = np.zeros((n, n))
    np.add.at(counts, (used["user"], used["to"]), 1.0)
    body = _image(counts, float(counts.max()), "How often each edge was used")
    return figure("The walk", body, f"Hand-overs from each user (down) to each user (across); {len(used)} in all.")


def heat_map(analysis: Analysis) -> str:
    """eps of all pairs."""
    epsilon = analysis.privacy.epsilon
    if epsilon is None:
        return ""
    finite = epsilon[np.isfinite(epsilon)]
    top = float(finite.max()) if len(finite) else 1.0
    shown = np.where(np.isinf(epsilon), top, epsilon).astype(np.float64)
    np.fill_diagonal(shown, np.nan)
    body = _image(shown, top, "Epsilon of every pair of users")
    blocked = " Each cell shows the largest value of a block of users." if len(epsilon) > 160 else ""
    words = "How much each user (down) gave away to each user (across): epsilon at delta "
    return figure("Who learned about whom", body, f"{words}{analysis.run.plan.noise.delta:g}.{blocked}")


def exposure_law(analysis: Analysis) -> str:
    """Share of pairs above each exposure, against what an honest walk allows (no Gaussian noise: above each eps)."""
    numbers, run = analysis.privacy, analysis.run
    gaussian = run.plan.noise.mechanism == "gaussian"
    seen = numbers.exposure if gaussian else numbers.epsilon
    if seen is None:
        return ""
    values = np.sort(seen[~np.eye(run.plan.n, dtype=np.bool_)])
    values = values[np.isfinite(values)]
    if len(values) == 0:
        return ""
    limit = numbers.limit if gaussian else numbers.limit_epsilon
    top = max(float(values[-1]), min(limit or 0.0, float(values[-1]) * 3 + 1)) * 1.06
    floor = math.floor(math.log10(0.5 / len(values))) if len(values) > 1 else -1
    floor = min(floor, -1)
    frame = Frame((0.0, top), (floor, 0.0), "Distribution of exposure")
    index = np.unique(np.linspace(0, len(values) - 1, min(400, len(values))).astype(np.int64))
    share = 1 - np.arange(len(values)) / len(values)
    frame.line([(0.0, 0.0), *((float(values[i]), math.log10(share[i])) for i in index)], "observed", "this run")
    if has_walk_law(run.plan):
        grid = np.linspace(top / 60, top, 60)
        tail = exposure_tail(run.plan, n_live(run), grid)
        law = [(float(s), min(0.0, t / math.log(10))) for s, t in zip(grid, tail, strict=True)]
        frame.line([(s, y) for s, y in law if y >= floor], "law", "law, at most")
    if not gaussian and numbers.promised is not None:
        frame.upright(numbers.promised, "law", "promised before the run")
    if limit is not None:
        frame.upright(limit, "limit", "limit of the verdict")
    frame.axes(
        "exposure S" if gaussian else "epsilon",
        "share of pairs above",
        y_ticks=range(floor, 1),
        y_text=lambda y: number(10.0**y),
    )
    what = "exposure" if gaussian else "epsilon"
    before = "the bound on its law before the run" if gaussian else "what was promised before the run"
    caption = f"Each pair's {what} on the path that was really taken, and {before}."
    return figure("Exposure against its law", frame.render(), caption)


def noise(analysis: Analysis) -> str:
    """Drawn noise against its law."""
    tally, plan = analysis.run.logs.noise, analysis.run.plan
    total = int(tally.count.sum())
    if total == 0:
        return ""
    if plan.noise.mechanism == "rr":
        return _lies(analysis)
    edges = np.asarray(ndtri(np.arange(1, CELLS) / CELLS))
    density = norm.pdf
    if plan.noise.mechanism == "laplace":
        quantile = np.arange(1, CELLS) / CELLS
        edges = np.where(quantile < 0.5, np.log(2 * quantile), -np.log(2 * (1 - quantile)))
    per = 1 if total > 64 * 20 else (4 if total > 16 * 8 else 8)
    edges, bins = edges[per - 1 :: per], tally.bins.reshape(-1, per).sum(axis=1)[1:-1]
    height = bins / total / np.diff(edges)
    top = max(float(height.max()), 0.5) * 1.15
    frame = Frame((float(edges[0]), float(edges[-1])), (0.0, top), "Noise against its law")
    for i, value in enumerate(height):
        frame.bar(float(edges[i]), float(edges[i + 1]), float(value), "observed", f"{bins[i]} draws")
    grid = np.linspace(edges[0], edges[-1], 80)
    law = density(grid) if plan.noise.mechanism == "gaussian" else 0.5 * np.exp(-np.abs(grid))
    frame.line([(float(x), float(y)) for x, y in zip(grid, law, strict=True)], "law", "law of the plan")
    frame.key("observed", f"{total} draws")
    frame.axes("noise in units of " + ("sigma" if plan.noise.mechanism == "gaussian" else "scale"), "density")
    return figure("The noise that was drawn", frame.render(), "All users together; the outermost cells are left out.")


def _lies(analysis: Analysis) -> str:
    tally, plan = analysis.run.logs.noise, analysis.run.plan
    rate = lie_rate(plan)
    seen = np.flatnonzero(tally.count)
    shares = tally.total[seen] / tally.count[seen]
    frame = Frame((-0.5, len(seen) - 0.5), (0.0, max(1.0, float(shares.max()))), "Lies per user")
    for i, share in enumerate(shares.tolist()):
        frame.bar(i - 0.4, i + 0.4, share, "observed", f"{analysis.run.logs.name(int(seen[i]))}: {share:.3g}")
    frame.line([(-0.5, rate), (len(seen) - 0.5, rate)], "law", f"expected {rate:.3g}")
    frame.key("observed", "share of responses that differ from the truth")
    frame.axes("user", "share of lies")
    return figure("Randomised responses", frame.render(), "How often each user's response was not the truth.")


def visits(analysis: Analysis) -> str:
    """Visits per user against the binomial."""
    run, plan = analysis.run, analysis.run.plan
    if run.logs.absent:
        return ""
    counts = visits_per_user(run)
    low, high = int(counts.min()), int(counts.max())
    if plan.topology.drawn:
        spread = binom(plan.total_steps, 1 / plan.n)
        low, high = min(low, int(spread.ppf(0.001))), max(high, int(spread.ppf(0.999)))
    number_of = np.bincount(counts, minlength=high + 1)
    law = plan.n * binom.pmf(np.arange(high + 1), plan.total_steps, 1 / plan.n)
    top = max(float(number_of.max()), float(law.max()) if plan.topology.drawn else 0.0) * 1.12
    frame = Frame((low - 0.7, high + 0.7), (0.0, top), "Visits per user")
    for count in range(low, high + 1):
        frame.bar(count - 0.4, count + 0.4, float(number_of[count]), "observed", f"{number_of[count]} users")
    if plan.topology.drawn:
        points = [(float(count), float(law[count])) for count in range(low, high + 1)]
        frame.line(points, "law", f"Binomial({plan.total_steps}, 1/{plan.n})")
    frame.key("observed", "users")
    ticks = [x for x in nice_ticks(low, high) if x == int(x)]
    frame.axes("visits", "users", x_ticks=ticks)
    return figure("Visits per user", frame.render(), "How many users held the token how often.")


def timeline(analysis: Analysis) -> str:
    """The token's place over time, with what went wrong on the way."""
    run, logs = analysis.run, analysis.run.logs
    rows = logs.visits[(logs.visits["cause"] == HANDOFF) | (logs.visits["cause"] == START)]
    timed = bool(len(rows)) and bool(np.isfinite(rows["time"]).all())
    x = rows["time"] - rows["time"].min() if timed else rows["step"].astype(np.float64)
    if len(rows) == 0:
        return ""
    origin = float(rows["time"].min()) if timed else 0.0
    faults = _faults(analysis) if timed else []
    last = max([float(x.max()), *(event.time - origin for event in faults)])
    frame = Frame((0.0, last), (-0.5, run.plan.n - 0.5), "Timeline")
    order = np.argsort(x, kind="stable")
    order = order[np.unique(np.linspace(0, len(order) - 1, min(_DOTS, len(order))).astype(np.int64))]
    if run.plan.n <= DRAWN_USERS and len(rows) <= 400:
        frame.line([(float(x[i]), float(rows["user"][i])) for i in order], "trace")
    for i in order:
        frame.dot(float(x[i]), float(rows["user"][i]), "observed", 2.4)
    for event in faults[:200]:
        tip = f"{logs.name(event.user)} {event.text}"
        frame.dot(max(0.0, event.time - origin), float(event.user), "fault", 4, tip)
    if faults:
        frame.key("fault", _told(faults))
    frame.key("observed", "the token's place")
    ticks = [y for y in nice_ticks(0, run.plan.n - 1) if y == int(y)]
    frame.axes("seconds" if timed else "step", "user", y_ticks=ticks)
    return figure(
        "Timeline",
        frame.render(),
        "Where the token was, and when somebody was started again, found a neighbour down, gave a branch up or took an "
        "old token up again.",
    )


def _faults(analysis: Analysis) -> list[Event]:
    """Everything off the straight path that has a time, re-issues included, in order."""
    logs = analysis.run.logs
    again = logs.visits[logs.visits["cause"] == REISSUE]
    taken_up = [
        Event(int(row["user"]), "reissue", f"took the token of step {row['step']} up again", row["time"], row["line"])
        for row in again
    ]
    found = [event for event in [*logs.events, *taken_up] if math.isfinite(event.time)]
    return sorted(found, key=lambda event: event.time)


_KINDS: Final = {
    "restart": ("restart", "restarts"),
    "peer": ("neighbour found down or up", "neighbours found down or up"),
    "abandoned": ("branch given up", "branches given up"),
    "reissue": ("re-issue", "re-issues"),
}


def _told(faults: list[Event]) -> str:
    counts = Counter(event.kind for event in faults)
    return ", ".join(f"{counts[kind]} {words[counts[kind] > 1]}" for kind, words in _KINDS.items() if counts[kind])


def gradients(analysis: Analysis) -> str:
    """SGD: size of the gradients along the walk."""
    run = analysis.run
    if not isinstance(run.plan.task, SgdTask) or not run.lineage.complete:
        return ""
    if analysis.utility.learning:
        return _learning(analysis)
    rows = walking_rows(run)
    size = run.lineage.sents["size"][rows]
    known = np.flatnonzero(np.isfinite(size))
    if len(known) < 2:
        return ""
    window = max(1, len(known) // 100)
    smooth = np.convolve(size[known], np.ones(window) / window, mode="valid")
    steps = known[window - 1 :] + 1
    frame = Frame((0.0, float(len(rows))), (0.0, run.plan.task.lipschitz * 1.05), "Gradients along the walk")
    frame.line(
        [(float(s), float(v)) for s, v in zip(steps, smooth, strict=True)], "observed", f"mean of {window} steps"
    )
    frame.line([(0.0, run.plan.task.lipschitz), (float(len(rows)), run.plan.task.lipschitz)], "limit", "L")
    frame.axes("step", "gradient norm")
    return figure("Learning", frame.render(), "Norm of the contributed gradients: they shrink as the model fits.")


def _learning(analysis: Analysis) -> str:
    points = analysis.utility.learning
    loss_name = {"logistic": "logistic loss", "ridge": "squared loss", "smoothed_hinge": "smoothed hinge loss"}
    task = analysis.run.plan.task
    assert isinstance(task, SgdTask)
    graded = not math.isnan(points[-1][2])
    top = max([1.0 if graded else 0.0, *(loss for _, loss, _ in points)]) * 1.05
    frame = Frame((0.0, float(points[-1][0])), (0.0, top), "Learning along the walk")
    if graded:
        frame.line([(float(step), accuracy) for step, _, accuracy in points], "observed", "accuracy on the test set")
    frame.line([(float(step), loss) for step, loss, _ in points], "law", f"{loss_name[task.loss]} on the test set")
    frame.axes("step", "accuracy, loss" if graded else "loss")
    last = f"{points[-1][2]:.1%} of the test set is right" if graded else f"the loss is {points[-1][1]:.3g}"
    caption = f"The model after each part of the walk; at the end {last}."
    return figure("Learning", frame.render(), caption)


def all_charts(analysis: Analysis) -> str:
    from analyzer.report.profile import profile

    drawn = (
        walk(analysis),
        heat_map(analysis),
        exposure_law(analysis),
        profile(analysis),
        noise(analysis),
        visits(analysis),
        timeline(analysis),
        gradients(analysis),
    )
    return "".join(drawn)
