"""eps against delta for the worst pair: this run, the promise and local DP."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from analyzer.reconstruct.observations import Observations
from analyzer.reconstruct.responses import Responses
from analyzer.report.svg import Axes, figure
from analyzer.run import Analysis
from network_dp.accounting import bounds
from network_dp.accounting.shuffle import composed_epsilon
from network_dp.plan import Plan
from network_dp.promise import local_epsilon, promised_epsilon, response_of

Curve = list[tuple[float, float]]


def _at(plan: Plan, delta: float) -> Plan:
    return replace(plan, noise=replace(plan.noise, delta=delta))


def profile(analysis: Analysis) -> str:
    numbers, plan = analysis.privacy, analysis.run.plan
    if numbers.worst is None or numbers.exposure is None:
        return ""
    if plan.mechanism.pure:
        return _bars(analysis)
    deltas = [10.0 ** float(e) for e in np.linspace(-12, -2, 21)]
    few = deltas[::2]
    made = max(numbers.contributions, default=0)
    curves: list[tuple[str, str, Curve]] = [
        ("observed", "this run, worst pair", _curve(few, _observed(analysis, few))),
        ("law", "promised before the run", _curve(few, [promised_epsilon(_at(plan, d)) for d in few])),
        ("local", "local DP", _curve(deltas, [local_epsilon(_at(plan, d), made) for d in deltas])),
    ]
    if _same(curves[0][2], curves[1][2]):
        curves[:2] = [("observed", "this run, worst pair: as promised", curves[0][2])]
    high = 4 * max((y for _, _, curve in curves[:2] for _, y in curve), default=0.0)
    shown = [(kind, text, [(x, y) for x, y in curve if y <= high]) for kind, text, curve in curves]
    shown = [(kind, text, curve) for kind, text, curve in shown if len(curve) > len(few) // 2]
    if not shown:
        return ""
    top = max(y for _, _, curve in shown for _, y in curve) * 1.08
    axes = Axes((-12.0, -2.0), (0.0, top), "Epsilon against delta")
    for kind, text, curve in shown:
        axes.line(curve, kind, text)
    axes.upright(math.log10(plan.noise.delta), "mark", "the plan's delta")
    axes.scales("delta", "epsilon", x_ticks=range(-12, -1, 2), x_text=lambda x: f"1e{x:.0f}")
    missing = [text for kind, text, _ in curves if kind not in {kind for kind, _, _ in shown}]
    words = "Lower is more private."
    words += f" Not drawn, because it is far above the others or has no bound: {', '.join(missing)}." if missing else ""
    return figure("Privacy of the worst pair", axes.render(), words)


def _same(one: Curve, other: Curve) -> bool:
    """Would two curves lie on each other?"""
    return len(one) == len(other) > 0 and all(
        abs(a[1] - b[1]) <= 0.01 * abs(b[1]) for a, b in zip(one, other, strict=True)
    )


def _observed(analysis: Analysis, deltas: list[float]) -> list[float]:
    """eps of the worst pair at every delta, from its exposure or from the windows its answers were in."""
    numbers, plan = analysis.privacy, analysis.run.plan
    assert numbers.worst is not None and numbers.exposure is not None
    u, v = numbers.worst
    if not plan.mechanism.additive:
        windows = Responses(plan, Observations(analysis.run)).windows([v]).of(u)
        return [composed_epsilon(response_of(plan), windows, delta) for delta in deltas]
    assert plan.noise.sigma is not None
    value = float(numbers.exposure[u, v])
    return [bounds.exposure_epsilon(value, plan.noise.sigma, plan.sensitivity, delta) for delta in deltas]


def _curve(deltas: list[float], values: list[float] | list[float | None]) -> Curve:
    return [(math.log10(d), y) for d, y in zip(deltas, values, strict=True) if y is not None and math.isfinite(y)]


def _bars(analysis: Analysis) -> str:
    """Laplace noise: pure epsilon, whatever delta."""
    numbers = analysis.privacy
    shown = [
        ("observed", "worst pair", numbers.worst_epsilon),
        ("observed", "mean pair", numbers.mean_epsilon),
        ("law", "promised", numbers.promised),
    ]
    bars = [(kind, text, y) for kind, text, y in shown if y is not None and math.isfinite(y)]
    axes = Axes((-0.6, len(bars) - 0.4), (0.0, max(y for _, _, y in bars) * 1.15), "Epsilon compared")
    for i, (kind, text, y) in enumerate(bars):
        axes.bar(i - 0.35, i + 0.35, y, kind, f"{text}: {y:.4g}")
    names = [f"{text} {y:.3g}" for _, text, y in bars]
    axes.scales("", "epsilon", x_ticks=range(len(bars)), x_text=lambda x: names[int(x)])
    words = "Pure epsilon (delta = 0); lower is more private. Somebody who saw every message would see raw values."
    return figure("Privacy of the worst pair", axes.render(), words)
