"""load -> integrity -> exposure -> verdict: the analyzer in one call."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from analyzer import verdict
from analyzer.checks import fresh, integrity, others_noise, privacy, randomness, rounds, single_log, utility, walk_law
from analyzer.checks.integrity import Run
from analyzer.checks.privacy import Privacy
from analyzer.checks.single_log import Alone
from analyzer.checks.utility import Utility
from analyzer.errors import InputError
from analyzer.read import load
from analyzer.read.tables import HANDOFF, START
from analyzer.read.truth import Truth
from analyzer.reconstruct import increments, lineage
from analyzer.verdict import Check, Status


@dataclass(frozen=True, slots=True)
class UserCard:
    """One user's own page: what it did, gave away and could have learned."""

    name: str
    has_log: bool
    visits: int
    contributions: int
    gave_epsilon: float | None
    gave_to: str | None
    learned_epsilon: float | None
    learned_about: str | None
    events: int
    clipped: int


@dataclass(frozen=True, slots=True)
class Analysis:
    """Everything that is known about one run."""

    run: Run
    privacy: Privacy
    utility: Utility
    checks: tuple[Check, ...]
    alone: Alone | None

    @property
    def status(self) -> Status:
        return verdict.overall(self.checks)

    @property
    def shows_path(self) -> bool:
        """May a report show who held the token, and when? Not of a hidden walk: reports are passed on."""
        return not self.run.plan.walk.anonymous

    def cards(self) -> list[UserCard]:
        """One card per user, in plan order."""
        logs, numbers = self.run.logs, self.privacy
        held = visits_per_user(self.run)
        events = np.bincount([event.user for event in logs.events], minlength=logs.plan.n)
        cards = []
        for user in range(logs.plan.n):
            gave = learned = None
            to = about = None
            if numbers.epsilon is not None:
                others = np.arange(logs.plan.n) != user
                to = int(np.argmax(np.where(others, numbers.epsilon[user], -1.0)))
                about = int(np.argmax(np.where(others, numbers.epsilon[:, user], -1.0)))
                gave, learned = float(numbers.epsilon[user, to]), float(numbers.epsilon[about, user])
            cards.append(
                UserCard(
                    name=logs.name(user),
                    has_log=user in logs.files,
                    visits=int(held[user]),
                    contributions=numbers.contributions[user] if numbers.contributions else 0,
                    gave_epsilon=gave,
                    gave_to=None if to is None else logs.name(to),
                    learned_epsilon=learned,
                    learned_about=None if about is None else logs.name(about),
                    events=int(events[user]),
                    clipped=logs.clipped.get(user, 0),
                )
            )
        return cards


def visits_per_user(run: Run) -> np.ndarray[Any, np.dtype[np.int64]]:
    """How often each user held the token, in all branches; the step 0 that only draws the first holder is left out."""
    visits = run.logs.visits
    counted = (visits["cause"] == HANDOFF) | ((visits["cause"] == START) & (visits["step"] > 0))
    held = np.bincount(visits["user"][counted], minlength=run.plan.n)
    ghosts = run.lineage.sents[len(run.logs.sents) :]["user"]
    return np.asarray(held + np.bincount(ghosts, minlength=run.plan.n), dtype=np.int64)


def analyze(
    paths: Sequence[Path],
    plan: Path | None = None,
    colluders: Sequence[str] = (),
    max_colluders: int = 1,
    truth: Truth | None = None,
    *,
    is_user: bool = True,
) -> Analysis:
    """Read the logs of one run and judge it. ``InputError``: they are not the logs of one run.

    ``is_user``: whoever asks may be a user of the plan, who must not put the logs of a hidden run together."""
    logs = load.load(paths, plan)
    tree = lineage.build(logs)
    run = Run(logs, tree, increments.build(tree, logs.plan.n))
    if logs.plan.walk.anonymous:
        return _anonymous(paths, run, truth, is_user=is_user)
    members = [_user(run, name) for name in colluders]
    numbers = privacy.measure(run, members, max_colluders)
    result = utility.measure(run, truth)
    checks = [
        *integrity.checks(run),
        *others_noise.checks(run),
        *walk_law.checks(run),
        *randomness.checks(run),
        *fresh.checks(run),
        *single_log.checks(run),
        *privacy.checks(run, numbers),
        *utility.checks(run, result),
    ]
    return Analysis(run, numbers, result, tuple(checks), single_log.look(run))


def _anonymous(paths: Sequence[Path], run: Run, truth: Truth | None, *, is_user: bool) -> Analysis:
    """A run over anonymous rounds. Several logs together show the path to whoever reads them."""
    if is_user and len(run.logs.files) > 1 and not run.plan.in_one_round:
        raise InputError(
            paths[0],
            None,
            "holds logs of several users of a hidden run: together they show who held the token. A user reads its own "
            "log only; if you are none of the users, give --i-am-not-a-user",
        )
    attended = rounds.Attended(run.plan, load.attended(run.plan, run.logs))
    numbers, result = rounds.measure(run, attended), utility.measure(run, truth)
    return Analysis(run, numbers, result, tuple(rounds.checks(run, attended, numbers, result)), None)


def _user(run: Run, name: str) -> int:
    if name not in run.plan.names:
        raise InputError("--colluders", None, f'"{name}" is not a user of the plan')
    return run.plan.index(name)
