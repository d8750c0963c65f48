"""What was computed, as a picture: a number on its range, bars with their error, or a model that learns."""

from __future__ import annotations

import math
from html import escape
from typing import Final

from analyzer.report.svg import Axes, nice_ticks, number
from analyzer.report.words import answer, band
from analyzer.run import Analysis

_BARS: Final = 60
_NAMED: Final = 12  # more names would overlap


def section(analysis: Analysis) -> str:
    told = answer(analysis)
    sentences = "".join(f"<p>{escape(text)}</p>" for text in told.sentences)
    return (
        "<section class='answer'><h2>What was computed</h2><div class='pair'>"
        f"<div><p class='what'>{escape(told.title)}</p><p class='value'>{escape(told.value)}</p>{sentences}</div>"
        f"<div>{_picture(analysis)}</div></div></section>"
    )


def _picture(analysis: Analysis) -> str:
    result = analysis.utility
    if result.learning:
        return _accuracy(analysis)
    if result.estimate is None or not analysis.run.plan.task.additive or len(result.estimate) > _BARS:
        return ""
    return _on_its_range(analysis) if len(result.estimate) == 1 else _bars(analysis)


def _range(analysis: Analysis) -> tuple[float, float] | None:
    plan = analysis.run.plan
    found, factor = plan.task.mean_range, 1 if plan.task.per_user else plan.n
    return None if found is None else (found[0] * factor, found[1] * factor)


def _on_its_range(analysis: Analysis) -> str:
    """One number: its band, the truth, and the range in which it can lie."""
    result, bounds = analysis.utility, _range(analysis)
    assert result.estimate is not None
    value, half = result.estimate[0], band(analysis) or 0.0
    truth = [] if result.truth is None else [result.truth[0]]
    ends = [value - half, value + half, *truth, *(bounds or ())]
    room = (max(ends) - min(ends)) * 0.04 or 1.0
    axes = Axes((min(ends) - room, max(ends) + room), (0.0, 1.0), "The result on its range", height=150, left=20)
    if bounds is not None:
        text = f"possible values: {number(bounds[0])} to {number(bounds[1])}"
        axes.bar(*bounds, 0.62, "possible", text, base=0.38)
        axes.key("bar", "possible", text)
    if half:
        text = f"95 %: {number(value - half)} to {number(value + half)}"
        axes.bar(value - half, value + half, 0.72, "band", text, base=0.28)
        axes.key("bar", "band", "95 % band")
    axes.dot(value, 0.5, "observed", 7, f"result: {number(value)}")
    axes.key("dot", "observed", "result")
    if truth:
        axes.segment((truth[0], 0.1), (truth[0], 0.9), "truth", f"truth: {number(truth[0])}")
        axes.key("line", "truth", "truth")
    axes.scales("", "", y_ticks=[])
    return axes.render()


def _bars(analysis: Analysis) -> str:
    """Several numbers: a bar each, with its band and the truth."""
    result, half, task = analysis.utility, band(analysis) or 0.0, analysis.run.plan.task
    values = result.estimate or ()
    truth = result.truth or ()
    ends = [0.0, *truth, *(value + sign * half for value in values for sign in (-1, 1))]
    room = (max(ends) - min(ends)) * 0.05
    axes = Axes((-0.6, len(values) - 0.4), (min(ends) - room, max(ends) + room), f"The {result.what}")
    for i, value in enumerate(values):
        tip = f"{task.coordinate(i)}: {number(value)} ± {half:.2g}"
        tip += f", truth {number(truth[i])}" if truth else ""
        axes.bar(i - 0.36, i + 0.36, value, "observed", tip, base=0.0)
        if half:
            axes.segment((i, value - half), (i, value + half), "whisker", tip)
        if truth:
            axes.segment((i - 0.36, truth[i]), (i + 0.36, truth[i]), "truth", tip)
    axes.key("bar", "observed", "result")
    if half:
        axes.key("line", "whisker", "95 % band")
    if truth:
        axes.key("line", "truth", "truth")
    names = [task.coordinate(i) for i in range(len(values))]
    named = len(values) <= _NAMED and sum(map(len, names)) <= 90
    ticks = list(range(len(values))) if named else [x for x in nice_ticks(0, len(values) - 1) if x == int(x)]
    axes.scales("", result.what, x_ticks=ticks, x_text=lambda x: names[int(x)])
    return axes.render()


def _accuracy(analysis: Analysis) -> str:
    """A model's quality along the walk, against the same without privacy and against a guess."""
    result = analysis.utility
    points = result.learning
    last = float(points[-1][0])
    if math.isnan(points[-1][2]):
        return loss_curve(analysis)
    axes = Axes((0.0, last), (0.0, 1.0), "Accuracy along the walk")
    axes.line([(float(step), accuracy) for step, _, accuracy in points], "observed", "this run, on the test set")
    for kind, text, level in (
        ("law", "without privacy", result.reference_accuracy),
        ("printed", "guessing the more common label", result.guess_accuracy),
    ):
        if level is not None:
            axes.line([(0.0, level), (last, level)], kind, f"{text}: {level:.1%}")
    axes.scales("step", "share that is right", y_text=lambda y: f"{y:.0%}")
    return axes.render()


def loss_curve(analysis: Analysis) -> str:
    points, words = analysis.utility.learning, analysis.run.plan.task.loss_in_words
    axes = Axes((0.0, float(points[-1][0])), (0.0, max(loss for _, loss, _ in points) * 1.05), "Loss along the walk")
    axes.line([(float(step), loss) for step, loss, _ in points], "observed", f"{words} on the test set")
    axes.scales("step", "loss")
    return axes.render()
