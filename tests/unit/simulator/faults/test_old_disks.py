"""An old copy of a disk put back in the middle of a walk: recognised where anybody has seen what it forgot, and
harmless where nobody has."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

import pytest

from node.protocols.walk import memory
from node.protocols.walk.values import NO_HOP
from simulator.faults.runner import run_schedule, run_seed
from simulator.faults.scenario import SCENARIOS
from simulator.faults.schedule import Kill, Schedule, Timed
from simulator.faults.world import World

PARTS = (0.0, 0.3, 0.6, 0.8, 0.95)


def stage(name: str) -> int:
    return next(index for index, scenario in enumerate(SCENARIOS) if scenario.name == name)


def put_back(seed: int, index: int, at_s: float, user: int, part: float, *kills: Kill) -> Schedule:
    return Schedule(seed, index, kills=kills, timed=(Timed(at_s, "old disk", user, part),), quiet_s=at_s)


def failures(schedules: Iterator[Schedule]) -> list[str]:
    return [f"{failure.schedule}: {failure.what}" for s in schedules for failure in run_schedule(s).failures]


def told(seed: int, index: int) -> list[str]:
    lines: list[str] = []
    World(Schedule(seed, index), lines.append).run()
    return lines


def any_moment(name: str, seeds: int) -> Iterator[Schedule]:
    """Whoever writes a line to its log gets an old disk then, and now and then was killed before."""
    index = stage(name)
    for seed in range(seeds):
        lines = [line.split() for line in told(seed, index) if line.split()[2:3] == ["log"]]
        for place, (time, user, *_) in enumerate(lines):
            kill = (Kill("Handoff", 1 + place % 5, 1.0, machine=False),) if place % 3 == 0 else ()
            yield put_back(seed, index, float(time), int(user[1:]), PARTS[place % len(PARTS)], *kill)


def after_the_end(name: str, seeds: int) -> Iterator[Schedule]:
    """The last holder gets an old disk when the others have seen its result, and before it is final."""
    index = stage(name)
    for seed in range(seeds):
        time, user, *_ = next(line for line in told(seed, index) if line.endswith("log finish")).split()
        for part in PARTS:
            yield put_back(seed, index, float(time) - 0.04, int(user[1:]), part)


def who_took_it_is_lost(name: str, seeds: int) -> Iterator[Schedule]:
    """Whoever took a token has passed it on and is lost for good; who sent it comes back as it was before."""
    index = stage(name)
    for seed in range(seeds):
        logs = [line.split() for line in told(seed, index) if line.split()[2:3] == ["log"]]
        passed_on = [place for place, line in enumerate(logs) if line[3] == "accepted"]
        for sent, next_sent in pairwise(passed_on):
            kill, at_s = Kill("Log", next_sent + 1, None, machine=False), float(logs[next_sent][0]) + 0.02
            yield put_back(seed, index, at_s, int(logs[sent][1][1:]), 0.5, kill)


@pytest.mark.parametrize(
    "name",
    [
        "ring n=4 K=2 slow",
        "ring n=6 K=1 cap",
        "complete n=5 T=8 caps",
        "complete n=4 T=6 slow",
        "complete n=4 T=6 forward",
    ],
)
def test_an_old_disk_at_any_moment_breaks_nothing(name: str) -> None:
    assert failures(any_moment(name, 4)) == []


def test_a_result_that_others_have_seen_is_not_made_again_with_other_noise() -> None:
    assert failures(after_the_end("ring n=4 K=2 slow", 8)) == []


def test_the_simulator_notices_when_an_old_disk_is_believed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "remembers_more", lambda *_: False)
    assert any("noise redrawn" in what for what in failures(after_the_end("ring n=4 K=2 slow", 4)))
    assert any("a silent fork" in what for what in failures(any_moment("complete n=4 T=6 slow", 8)))
    assert any("cap 1" in what for what in failures(any_moment("complete n=4 T=6 forward", 8)))


def test_the_simulator_notices_when_a_token_in_hand_is_trusted_though_others_got_further(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    schedules, at_boot = list(who_took_it_is_lost("complete n=4 T=6 slow", 1)), memory.at_boot
    assert not any("noise redrawn" in what for what in failures(iter(schedules)))
    monkeypatch.setattr(memory, "at_boot", lambda ctx, durable: at_boot(ctx, durable)._replace(held=NO_HOP))
    assert any("noise redrawn" in what for what in failures(iter(schedules)))


def test_the_finisher_comes_back_as_it_was_before_and_ends_the_walk_no_second_time() -> None:
    """Two of four have journaled its result, and say so; the fourth never heard of it and would take the token."""
    kills = Kill("Publish", 4, 3.0, machine=True), Kill("Log", 10, 1.0, machine=False)
    schedule = put_back(50004366, stage("complete n=4 T=6 sgd"), 3.253365732507055, 3, 0.3198134050290887, *kills)
    assert not run_schedule(schedule).failures


def test_who_forgot_that_it_ended_the_walk_does_not_outvote_the_one_that_remembers() -> None:
    """One of three has the final result. What the finisher took of it counts as taken, though it answered with the
    result before the acknowledgement: else it would vote as one that never saw the end."""
    kills = Kill("Publish", 5, 3.0, machine=False), Kill("Log", 14, 1.0, machine=False)
    schedule = put_back(50028979, stage("ring n=3 K=2"), 1.507201169173119, 0, 0.23377685820712435, *kills)
    assert not run_schedule(schedule).failures


#: With a cap; at the first start after the old disk was noticed, the journal held a token that had not left yet.
NEVER_LEFT = 100110347


def test_a_line_written_again_for_a_token_that_never_left_counts_nothing() -> None:
    assert run_seed(NEVER_LEFT).failures == []


#: With a cap; the finisher's disk goes back to before its visit, whose result had not left, and it ends the walk
#: with the very same token again.
SAME_END = 100003288


def test_an_end_that_never_left_is_not_the_one_with_the_same_token_that_leaves() -> None:
    assert run_seed(SAME_END).failures == []


#: An old journal, with a log that was kept elsewhere and is ahead of it: the hop in the journal had not left then, and
#: leaves now.
LOG_AHEAD = 400161815


def test_what_an_old_journal_sends_is_in_the_log_that_is_ahead_of_it() -> None:
    assert run_seed(LOG_AHEAD).failures == []
