"""What a report says in sentences, the same on the page, in a terminal and on the live page."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from analyzer.checks.single_log import Alone
from analyzer.report.svg import number
from analyzer.run import Analysis
from analyzer.verdict import Status
from network_dp.expected import CERTAIN
from network_dp.in_words import count
from network_dp.strength import bet, strength

_LINES: Final = 24
_BAR: Final = 30  # characters of the longest bar

_HEADS: Final = {
    Status.PASS: "kept its promise{}",
    Status.PARTIAL: "kept its promise{}, as far as the logs were handed over",
    Status.OVERSPENT: "was honest, but its faults cost more than its promise{}",
    Status.UNKNOWN: "shows nothing wrong, but evidence is missing that it kept its promise{}",
    Status.FAIL: "is wrong somewhere: nobody should rely on its promise{}",
}


def headline(analysis: Analysis) -> str:
    """The verdict as a sentence, with what was promised: a kept promise may still be a weak one."""
    promised = analysis.privacy.promised
    told = "" if promised is None else f" (epsilon {promised:.3g}, {strength(promised)})"
    return _HEADS[analysis.status].format(told)


@dataclass(frozen=True, slots=True)
class Answer:
    """What was computed: one number or a sentence, how sure it is, and what else is known of it."""

    title: str
    value: str
    sentences: tuple[str, ...] = ()
    lines: tuple[str, ...] = ()  # of several numbers each by itself, for a terminal


def band(analysis: Analysis) -> float | None:
    """Half the width of the interval that holds the true value with about 95 %: noise and the walk's sampling."""
    result = analysis.utility
    if result.noise_std is None:
        return None
    return CERTAIN * math.hypot(result.noise_std, result.sampling_std or 0.0)


def answer(analysis: Analysis) -> Answer:
    result, plan = analysis.utility, analysis.run.plan
    values = result.estimate
    title = result.what or plan.task.estimates
    title = title[0].upper() + title[1:]
    if result.learning:
        return _model(analysis, title)
    if values is None:
        return Answer(title, "not in these logs", ("Only the last holder kept the value, or no log here holds it.",))
    if not plan.task.additive:
        told = "Without a test set its quality is not known: give one to see its accuracy."
        return Answer(title, count(len(values), "weight"), (told,))
    if len(values) > 1:
        largest = max(range(len(values)), key=values.__getitem__)
        shown = f"{plan.task.coordinate(largest)}: {_with_band(values[largest], band(analysis))}"
        return Answer(f"{title}; the largest is", shown, tuple(_errors(analysis)), _lines(analysis, values))
    return Answer(title, _with_band(values[0], band(analysis)), tuple(_errors(analysis)))


def _lines(analysis: Analysis, values: Sequence[float]) -> tuple[str, ...]:
    """A name, a bar and a number for each, as far as a screen has room."""
    task, top, half = analysis.run.plan.task, max(map(abs, values)) or 1.0, band(analysis)
    names = [task.coordinate(i) for i in range(len(values))][:_LINES]
    width = max(map(len, names))
    lines = [
        f"  {name:<{width}} {_with_band(value, half):>16}  {'█' * round(max(0.0, value) / top * _BAR)}"
        for name, value in zip(names, values, strict=False)
    ]
    return (*lines, f"  and {len(values) - _LINES} more") if len(values) > _LINES else tuple(lines)


def _with_band(value: float, half: float | None) -> str:
    """As many digits as the error leaves a meaning."""
    if not half:
        return number(value)
    digits = max(0, 1 - math.floor(math.log10(half)))
    return f"{value:.{digits}f} ± {half:.{digits}f}" if digits < 7 else f"{number(value)} ± {half:.2g}"


def _errors(analysis: Analysis) -> list[str]:
    result, half, said = analysis.utility, band(analysis), []
    if half is not None:
        said.append(f"The true value lies within ± {half:.2g} of it, with a probability of about 95 %.")
    if result.truth is not None and result.truth_error is not None:
        true = f"The truth is {number(result.truth[0])}: off" if len(result.truth) == 1 else "Against the truth: off"
        many = "" if len(result.truth) == 1 else " where it is furthest"
        said.append(f"{true} by {result.truth_error:.2g}{many}.")
    if result.remark is not None:
        said.append(result.remark[0].upper() + result.remark[1:] + ".")
    return said


def _model(analysis: Analysis, title: str) -> Answer:
    result = analysis.utility
    step, loss, accuracy = result.learning[-1]
    words = analysis.run.plan.task.loss_in_words
    told = f"After {count(step, 'step')}: {words} {loss:.4g} on the test set."
    if math.isnan(accuracy):
        return Answer(title, f"{words} {loss:.3g}", (told,))
    said = ["Share of the test set that the model gets right.", told]
    if result.reference_accuracy is not None:
        said.append(f"A model of the same data without privacy: {result.reference_accuracy:.1%}.")
    if result.guess_accuracy is not None:
        said.append(f"Always guessing the more common label: {result.guess_accuracy:.1%}.")
    return Answer(title, f"{accuracy:.1%} right", tuple(said))


def own_words(own: Alone, delta: float) -> list[str]:
    """The same from one log alone."""
    spent, seen = own.spent_epsilon, count(own.tokens_seen, "time")
    said = [
        f"{own.user} made {count(own.contributions, 'contribution')} in {count(own.visits, 'visit')}, saw the token "
        f"{seen}, from {count(own.received_from, 'user')}, and handed it to {own.handed_to}.",
        f"It gave away at most epsilon {spent:.3g} ({strength(spent)}) at delta {delta:g}. {bet(spent, delta)}",
    ]
    if own.learned_epsilon is not None:
        said.append(
            f"It could have learned at most epsilon {own.learned_epsilon:.3g} ({strength(own.learned_epsilon)}) about "
            f"any one other user (longest gap between its visits: {count(own.longest_gap, 'step')} of others), if the "
            "others kept the plan: one log alone cannot show that."
        )
    return said


def learned(analysis: Analysis) -> list[str]:
    """What anybody could learn about anybody, in sentences; the first says the number."""
    numbers, delta = analysis.privacy, analysis.run.plan.noise.delta
    most = numbers.worst_epsilon
    if numbers.worst is not None:
        of, to = (analysis.run.logs.name(user) for user in numbers.worst)
        who = f"{to} about {of}. {numbers.words}"
    elif math.isfinite(most):
        who = f"{numbers.unknown}."
    else:
        return [f"No privacy numbers: {numbers.unknown}."]
    told = f"Epsilon {most:.3g} ({strength(most)}) at delta {delta:g} is the most that anybody could learn about "
    return [f"{told}anybody: {who}", bet(most, delta)]
