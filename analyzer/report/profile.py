"""eps against delta for the worst pair: this run, the promise, local DP, and the paper's printed bound."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from analyzer.judge import Analysis
from analyzer.promise import local_epsilon, promised_epsilon
from analyzer.report.as_printed import as_printed
from analyzer.report.charts import figure
from analyzer.report.svg import Frame
from network_dp import bounds
from network_dp.plan import Plan

Curve = list[tuple[float, float]]


def _at(plan: Plan, delta: float) -> Plan:
    return replace(plan, noise=replace(plan.noise, delta=delta))


def profile(analysis: Analysis) -> str:
    numbers, plan = analysis.privacy, analysis.run.plan
    if numbers.worst is None or numbers.exposure is None:
        return ""
    if plan.noise.mechanism != "gaussian":
        return _bars(analysis)
    assert plan.noise.sigma is not None
    u, v = numbers.worst
    value = float(numbers.exposure[u, v])
    deltas = [10.0**e for e in np.linspace(-12, -2, 21)]
    few = deltas[::2]
    made = max(numbers.contributions, default=0)
    curves: list[tuple[str, str, Curve]] = [
        ("observed", "this run, worst pair", _curve(deltas, [_epsilon(plan, value, d) for d in deltas])),
        ("law", "promised before the run", _curve(few, [promised_epsilon(_at(plan, d)) for d in few])),
        ("local", "local DP", _curve(deltas, [local_epsilon(_at(plan, d), made) for d in deltas])),
        ("printed", "the paper's printed bound", _curve(few, [as_printed(_at(plan, d)) for d in few])),
    ]
    tops = [max(y for _, y in curve) for _, _, curve in curves if curve]
    if not tops:
        return ""
    top = min(max(tops), 4 * max(tops[0], *(tops[1:2] or [0.0]))) * 1.08
    frame = Frame((-12.0, -2.0), (0.0, top), "Epsilon against delta")
    for kind, text, curve in curves:
        frame.line([(x, y) for x, y in curve if y <= top], kind, text)
    frame.upright(math.log10(plan.noise.delta), "mark", "the plan's delta")
    frame.axes("delta", "epsilon", x_ticks=range(-12, -1, 2), x_text=lambda x: f"1e{x:.0f}")
    missing = [text for _, text, curve in curves if not any(y <= top for _, y in curve)]
    words = "Lower is more private. The printed bound is shown for comparison only; no verdict uses it."
    words += f" Above the chart, infinite or not defined: {', '.join(missing)}." if missing else ""
    return figure("Privacy of the worst pair", frame.render(), words)


def _epsilon(plan: Plan, value: float, delta: float) -> float:
    assert plan.noise.sigma is not None
    return bounds.exposure_epsilon(value, plan.noise.sigma, plan.sensitivity, delta)


def _curve(deltas: list[float], values: list[float] | list[float | None]) -> Curve:
    return [(math.log10(d), y) for d, y in zip(deltas, values, strict=True) if y is not None and math.isfinite(y)]


def _bars(analysis: Analysis) -> str:
    numbers = analysis.privacy
    shown = [
        ("observed", "worst pair", numbers.worst_epsilon),
        ("observed", "mean pair", numbers.mean_epsilon),
        ("law", "promised", numbers.promised),
        ("local", "local DP", numbers.local),
    ]
    bars = [(kind, text, y) for kind, text, y in shown if y is not None and math.isfinite(y)]
    frame = Frame((-0.6, len(bars) - 0.4), (0.0, max(y for _, _, y in bars) * 1.15), "Epsilon compared")
    for i, (kind, text, y) in enumerate(bars):
        frame.bar(i - 0.35, i + 0.35, y, kind, f"{text}: {y:.4g}")
    names = [f"{text} {y:.3g}" for _, text, y in bars]
    frame.axes("", "epsilon", x_ticks=range(len(bars)), x_text=lambda x: names[int(x)])
    return figure("Privacy compared", frame.render(), "Epsilon at the plan's delta; lower is more private.")
