"""The charts of the report, one function each: an analysis in, a figure's HTML out ("" when nothing can be drawn)."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator
from html import escape
from typing import Final

import numpy as np
from scipy.stats import binom

from analyzer.checks.integrity import Run
from analyzer.checks.limits import exposure_tail
from analyzer.checks.privacy import n_live
from analyzer.read.tables import HANDOFF, REISSUE, START, Event, Floats, Logs, Rows
from analyzer.reconstruct.draws import CELLS, lie_rate
from analyzer.reconstruct.exposures import walking_rows
from analyzer.reconstruct.noise_laws import law_of
from analyzer.report.graph_charts import by_distance, seen_of_one
from analyzer.report.learned import pairs
from analyzer.report.result import loss_curve
from analyzer.report.svg import Axes, circle, figure, nice_ticks, number
from analyzer.run import Analysis, visits_per_user
from network_dp.promise import has_walk_law

DRAWN_USERS: Final = 60
NAMED_USERS: Final = 24  # on a circle; more names would overlap
_DOTS: Final = 1500
_TRACED: Final = 400  # visits up to which a line through them can be followed
_LEAST_DRAWS: Final = 50  # fewer draws show no law


def walk(analysis: Analysis) -> str:
    """Who handed the token to whom: users on a circle, an edge as thick as it was used."""
    run = analysis.run
    if run.plan.n > NAMED_USERS:
        return ""  # a ball of wool
    sents = run.lineage.sents
    handed = Counter(_pairs(sents[sents["to"] >= 0]))
    lost = frozenset(_pairs(sents[run.lineage.off_branch & (sents["to"] >= 0)]))
    label = 'role="img" aria-label="The walk of the token"'
    marks = "".join([*_hops(run.logs, handed, lost), *_holders(run)])
    body = f'<svg class="square" viewBox="-30 0 460 400" {label}>{marks}</svg>'
    told = f"{handed.total()} hand-overs over {len(handed)} edges; thicker is more often, larger is more visits."
    return figure("The walk", body, told + (" Red: tokens that left the accepted branch." if lost else ""))


def _pairs(sents: Rows) -> Iterator[tuple[int, int]]:
    """Sender and receiver of each token."""
    return zip(sents["user"].tolist(), sents["to"].tolist(), strict=True)


def _hops(logs: Logs, handed: Counter[tuple[int, int]], lost: frozenset[tuple[int, int]]) -> Iterator[str]:
    """An edge for everybody who handed the token to somebody, the most used on top."""
    place, most = circle(logs.plan.n), max(handed.values(), default=1)
    for (u, v), count in sorted(handed.items(), key=lambda item: item[1]):
        kind = "edge lost" if (u, v) in lost else "edge"
        style = f'style="stroke-width:{0.6 + 3 * count / most:.2f};opacity:{0.15 + 0.85 * count / most:.2f}"'
        tip = f"<title>{escape(logs.name(u))} to {escape(logs.name(v))}: {count}</title>"
        yield f'<path class="{kind}" {style} d="{_edge(place, u, v)}">{tip}</path>'


def _holders(run: Run) -> Iterator[str]:
    """A disk for every user, its area as its visits, and its name outside the circle."""
    visits = visits_per_user(run)
    for user, (x, y) in enumerate(circle(run.plan.n)):
        kind, name = "node" if user in run.logs.files else "node absent", escape(run.logs.name(user))
        radius = 4 + 7 * math.sqrt(visits[user] / max(1, visits.max()))
        tip = f"<title>{name}: {visits[user]} visits</title>"
        yield f'<circle class="{kind}" cx="{x:.1f}" cy="{y:.1f}" r="{radius:.1f}">{tip}</circle>'
        outside, below = 200 + (x - 200) * 1.13, 200 + (y - 200) * 1.13 + 4
        side = "start" if x > 230 else "end" if x < 170 else "middle"
        yield f'<text class="tick" x="{outside:.1f}" y="{below:.1f}" text-anchor="{side}">{name}</text>'


def _edge(place: list[tuple[float, float]], u: int, v: int) -> str:
    (x0, y0), (x1, y1) = place[u], place[v]
    if u == v:
        ox, oy = 200 + (x0 - 200) * 1.2, 200 + (y0 - 200) * 1.2
        return f"M{x0:.1f},{y0:.1f} A14,14 0 1 1 {ox:.1f},{oy:.1f} A14,14 0 1 1 {x0:.1f},{y0:.1f}"
    mx, my = (x0 + x1) / 2, (y0 + y1) / 2
    return f"M{x0:.1f},{y0:.1f} Q{mx + (y1 - y0) * 0.12:.1f},{my - (x1 - x0) * 0.12:.1f} {x1:.1f},{y1:.1f}"


def exposure_law(analysis: Analysis) -> str:
    """Share of pairs above each exposure, against what an honest walk allows (no Gaussian noise: above each eps)."""
    numbers, plan = analysis.privacy, analysis.run.plan
    gaussian = plan.mechanism.by_exposure
    seen, limit = (numbers.exposure, numbers.limit) if gaussian else (numbers.epsilon, numbers.limit_epsilon)
    if seen is None:
        return ""
    values = np.sort(seen[~np.eye(plan.n, dtype=np.bool_)])
    values = values[np.isfinite(values)]
    if len(values) == 0:
        return ""
    most = float(values[-1])
    top = max(most, min(limit or 0.0, most * 3 + 1)) * 1.06
    floor = math.floor(math.log10(0.5 / len(values)))  # half a pair; the scale is logarithmic
    axes = Axes((0.0, top), (floor, 0.0), "Distribution of exposure")
    axes.line([(0.0, 0.0), *_share_above(values)], "observed", "this run")
    if has_walk_law(plan):
        grid = np.linspace(top / 60, top, 60)
        tail = np.minimum(0.0, exposure_tail(plan, n_live(analysis.run), grid) / math.log(10))
        axes.line([(float(s), float(y)) for s, y in zip(grid, tail, strict=True) if y >= floor], "law", "law, at most")
    if not gaussian and numbers.promised is not None:
        axes.upright(numbers.promised, "law", "promised before the run")
    if limit is not None:
        axes.upright(limit, "limit", "limit of the verdict")
    name = "exposure S of a pair" if gaussian else "epsilon of a pair"
    axes.scales(name, "share of pairs above", y_ticks=range(floor, 1), y_text=lambda y: number(10.0**y))
    what, before = ("exposure", "the bound on its law") if gaussian else ("epsilon", "what was promised")
    caption = f"Each pair's {what} on the path that was really taken, and {before} before the run."
    return figure("Exposure against its law", axes.render(), caption)


def _share_above(values: Floats) -> list[tuple[float, float]]:
    """Of sorted values: which share is at least as large, as a power of ten, at 400 places at most."""
    shown = np.unique(np.linspace(0, len(values) - 1, min(400, len(values))).astype(np.int64))
    return [(float(values[i]), math.log10(1 - i / len(values))) for i in shown]


def noise(analysis: Analysis) -> str:
    """Drawn noise against its law."""
    tally, plan = analysis.run.logs.noise, analysis.run.plan
    total = int(tally.count.sum())
    if total < _LEAST_DRAWS:
        return ""
    if not plan.mechanism.additive:
        return _lies(analysis)
    law = law_of(plan)
    edges = law.quantile(np.arange(1, CELLS) / CELLS)
    per = 1 if total > 64 * 20 else (4 if total > 16 * 8 else 8)
    edges, bins = edges[per - 1 :: per], tally.bins.reshape(-1, per).sum(axis=1)[1:-1]
    height = bins / total / np.diff(edges)
    top = max(float(height.max()), 0.5) * 1.15
    axes = Axes((float(edges[0]), float(edges[-1])), (0.0, top), "Noise against its law")
    for i, value in enumerate(height):
        axes.bar(float(edges[i]), float(edges[i + 1]), float(value), "observed", f"{bins[i]} draws")
    grid = np.linspace(edges[0], edges[-1], 80)
    axes.line([(float(x), float(y)) for x, y in zip(grid, law.density(grid), strict=True)], "law", "law of the plan")
    axes.key("bar", "observed", f"{total} draws")
    axes.scales(f"noise in units of {plan.mechanism.size_key}", "density")
    return figure("The noise that was drawn", axes.render(), "All users together; the outermost cells are left out.")


def _lies(analysis: Analysis) -> str:
    tally, plan = analysis.run.logs.noise, analysis.run.plan
    rate = lie_rate(plan)
    seen = np.flatnonzero(tally.count)
    shares = tally.total[seen] / tally.count[seen]
    axes = Axes((-0.5, len(seen) - 0.5), (0.0, max(1.0, float(shares.max()))), "Lies per user")
    for i, share in enumerate(shares.tolist()):
        axes.bar(i - 0.4, i + 0.4, share, "observed", f"{analysis.run.logs.name(int(seen[i]))}: {share:.3g}")
    axes.line([(-0.5, rate), (len(seen) - 0.5, rate)], "law", f"expected {rate:.3g}")
    axes.key("bar", "observed", "share of responses that differ from the truth")
    names = [analysis.run.logs.name(int(user)) for user in seen]
    axes.scales("user", "share of lies", x_ticks=_some(len(seen)), x_text=lambda x: names[int(x)])
    return figure("Randomised responses", axes.render(), "How often each user's response was not the truth.")


def visits(analysis: Analysis) -> str:
    """Visits per user against the binomial; a ring visits everybody equally often."""
    run, plan = analysis.run, analysis.run.plan
    if run.logs.absent or not plan.topology.uniform:
        return ""
    counts = visits_per_user(run)
    spread = binom(plan.total_steps, 1 / plan.n)
    low, high = min(int(counts.min()), int(spread.ppf(0.001))), max(int(counts.max()), int(spread.ppf(0.999)))
    number_of = np.bincount(counts, minlength=high + 1)
    law = plan.n * spread.pmf(np.arange(high + 1))
    axes = Axes((low - 0.7, high + 0.7), (0.0, max(float(number_of.max()), float(law.max())) * 1.12), "Visits per user")
    for count in range(low, high + 1):
        tip = f"{number_of[count]} users were visited {count} times"
        axes.bar(count - 0.4, count + 0.4, float(number_of[count]), "observed", tip)
    points = [(float(count), float(law[count])) for count in range(low, high + 1)]
    axes.line(points, "law", f"Binomial({plan.total_steps}, 1/{plan.n})")
    axes.key("bar", "observed", "users")
    axes.scales("visits", "users", x_ticks=[x for x in nice_ticks(low, high) if x == int(x)])
    return figure("Visits per user", axes.render(), "How many users held the token how often.")


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
    axes = Axes((0.0, last), (-0.5, run.plan.n - 0.5), "Timeline", left=90)
    order = np.argsort(x, kind="stable")
    order = order[np.unique(np.linspace(0, len(order) - 1, min(_DOTS, len(order))).astype(np.int64))]
    if run.plan.n <= DRAWN_USERS and len(rows) <= _TRACED:
        axes.line([(float(x[i]), float(rows["user"][i])) for i in order], "trace")
    for i in order:
        tip = f"{logs.name(int(rows['user'][i]))}, step {rows['step'][i]}"
        axes.dot(float(x[i]), float(rows["user"][i]), "observed", 2.4, tip)
    for event in faults[:200]:
        tip = f"{logs.name(event.user)} {event.text}"
        axes.dot(max(0.0, event.time - origin), float(event.user), "fault", 4, tip)
    if faults:
        axes.key("dot", "fault", _told(faults))
    axes.key("dot", "observed", "the token's place")
    axes.scales("seconds" if timed else "step", "", y_ticks=_some(run.plan.n), y_text=lambda y: logs.name(int(y))[:12])
    return figure(
        "Timeline",
        axes.render(),
        "Where the token was, and when somebody was started again, found a neighbour down, gave a branch up or took an "
        "old token up again.",
    )


def _some(n: int) -> list[int]:
    """Places on an axis of n users that leave room for their names."""
    return list(range(0, n, max(1, math.ceil(n / 12))))


def has_faults(analysis: Analysis) -> bool:
    return bool(_faults(analysis))


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
    run, most = analysis.run, analysis.run.plan.task.gradient_bound
    if most is None or not run.lineage.complete:
        return ""
    if analysis.utility.learning:
        return figure("Loss along the walk", loss_curve(analysis), "It falls as the model fits the test set.")
    rows = walking_rows(run)
    size = run.lineage.sents["size"][rows]
    known = np.flatnonzero(np.isfinite(size))
    if len(known) < 2:
        return ""
    window = max(1, len(known) // 100)
    smooth = np.convolve(size[known], np.ones(window) / window, mode="valid")
    steps = known[window - 1 :] + 1
    axes = Axes((0.0, float(len(rows))), (0.0, most * 1.05), "Gradients along the walk")
    axes.line([(float(s), float(v)) for s, v in zip(steps, smooth, strict=True)], "observed", f"mean of {window} steps")
    axes.line([(0.0, most), (float(len(rows)), most)], "limit", "L")
    axes.scales("step", "gradient norm")
    return figure("Gradients along the walk", axes.render(), "Norm of the contributions: it falls as the model fits.")


def _can_be_followed(analysis: Analysis) -> bool:
    """A timeline without faults says something only of a short walk; one with faults is for everybody."""
    return not has_faults(analysis) and len(analysis.run.logs.visits) <= _TRACED


def main_charts(analysis: Analysis) -> list[str]:
    """For every reader: who could learn about whom, the walk where names fit, and when something went wrong."""
    path = (walk(analysis), timeline(analysis) if has_faults(analysis) else "") if analysis.shows_path else ()
    drawn = (pairs(analysis), seen_of_one(analysis), by_distance(analysis), *path)
    return [chart for chart in drawn if chart]


def special_charts(analysis: Analysis) -> list[str]:
    """For whoever checks the theory."""
    from analyzer.report.profile import profile

    drawn = (
        profile(analysis),
        exposure_law(analysis),
        noise(analysis),
        visits(analysis) if analysis.shows_path else "",
        gradients(analysis),
        timeline(analysis) if analysis.shows_path and _can_be_followed(analysis) else "",
    )
    return [chart for chart in drawn if chart]
