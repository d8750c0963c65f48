"""The protocol core under seeded disasters: no invariant breaks, and a seed replays its disaster."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import pytest

from node.protocols.walk import questions
from simulator.faults.evidence import Content
from simulator.faults.exposure import exposures
from simulator.faults.network import Weather
from simulator.faults.runner import RunCounts, run_batch, run_many, run_schedule, run_seed
from simulator.faults.scenario import GRAPHS, SCENARIOS, STAGES
from simulator.faults.schedule import Kill, Schedule, Timed, draw


@pytest.mark.parametrize("index", range(len(SCENARIOS)), ids=[scenario.name for scenario in SCENARIOS])
def test_every_scenario_ends_without_faults(index: int) -> None:
    tally = run_schedule(Schedule(1, index))
    assert not tally.failures


@pytest.mark.parametrize("name", [scenario.name for scenario in GRAPHS])
def test_walks_among_peers_end_well_under_any_disaster(name: str) -> None:
    index = next(index for index, stage in enumerate(STAGES) if stage.name == name)
    found = [run_schedule(replace(draw(seed), scenario=index, timed=())) for seed in range(40)]
    assert [failure for tally in found for failure in tally.failures] == []


def test_a_seed_replays_to_the_last_word() -> None:
    first: list[str] = []
    second: list[str] = []
    run_seed(88, first.append)
    run_seed(88, second.append)
    assert first == second and len(first) > 20


def test_no_invariant_breaks_in_a_few_hundred_schedules() -> None:
    tally = run_batch(50_000, 300)
    assert [f"{failure.seed}: {failure.what}" for failure in tally.failures] == []


@pytest.mark.slow
def test_no_invariant_breaks_and_the_next_hop_is_uniform_in_thousands_of_schedules() -> None:
    """Chi-square over all draws of a next user, false-alarm rate 1e-9 (and the seeds are fixed)."""
    tally = run_many(0, 3000, None, 2, lambda _: None)
    assert [f"{failure.seed}: {failure.what}" for failure in tally.failures] == []
    assert tally.schedules == 3000
    assert sum(tally.choices.values()) > 5000
    assert tally.law_holds


def test_asking_a_few_users_at_a_time_breaks_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(questions, "FIRST_ASKED", 2)  # so that small runs ask in several rounds, as large ones do
    tally = run_batch(60_000, 200)
    assert [f"{failure.seed}: {failure.what}" for failure in tally.failures] == []


def test_the_law_test_notices_a_bent_law() -> None:
    fair = RunCounts(choices=Counter({(3, 0): 1000, (3, 1): 1010, (3, 2): 990}))
    bent = RunCounts(choices=Counter({(3, 0): 700, (3, 1): 1150, (3, 2): 1150}))  # leaves the sender out now and then
    assert fair.law_holds and not bent.law_holds


def test_a_killed_machine_loses_what_was_not_synced_and_the_walk_goes_on() -> None:
    for nth in range(1, 30):
        for index in (3, 9):
            schedule = Schedule(nth, index, kills=(Kill("Persist", nth, 1.0, machine=True),))
            assert not run_schedule(schedule).failures


@pytest.mark.parametrize("effect", ["Persist", "Log", "Offer", "Handoff", "Granted", "Accepted", "Publish", "Finished"])
def test_a_crash_at_every_effect_of_a_walk_is_survived(effect: str) -> None:
    for nth in range(1, 14):
        for index in (0, 5, 9, 12):
            schedule = Schedule(nth, index, kills=(Kill(effect, nth, 1.0, machine=False),))
            assert not run_schedule(schedule).failures


def test_total_loss_of_messages_until_the_storm_is_over_only_delays_the_result() -> None:
    assert not run_schedule(Schedule(5, 0, Weather(loss=1.0))).failures


def test_exposure_is_infinite_when_two_tokens_differ_by_data_alone() -> None:
    noise = frozenset({(2, 0, 1, 0)})
    one = Content(frozenset({(0, 0, 1)}), noise)
    two = Content(frozenset({(0, 0, 1), (1, 0, 1)}), noise)
    assert exposures([one], 1) == {0: 1.0}
    assert exposures([one, two], 1)[1] == float("inf")


def test_a_late_comer_gets_a_result_that_fewer_than_a_majority_still_have() -> None:
    """Two of four have the final result, one lost its disk: the last one wins their promises and publishes it again."""
    assert not run_seed(7341).failures


def test_a_result_is_believed_in_the_end_of_one_user_that_is_there_for_a_moment_now_and_then() -> None:
    """One of three is lost, and the only one that finished comes back for six seconds every twenty."""
    kills = Kill("Persist", 14, None, machine=True), Kill("Fence", 8, None, machine=True)
    late, stop = Timed(0.0, "late", 1, 1.0), Timed(0.07770775253865114, "stop", 0)
    timed = late, stop, Timed(0.5777077525386511, "kill", 0, 15.0)
    index = next(place for place, scenario in enumerate(SCENARIOS) if scenario.name == "complete n=3 T=5")
    assert not run_schedule(Schedule(50011325, index, kills=kills, timed=timed)).failures
