"""SIGKILL at any point of the walk: the run goes on from the journal, with the same bytes."""

from __future__ import annotations

import pytest
from typer.testing import CliRunner

from coordinator_free_launcher.cli.app import app
from coordinator_free_launcher.local.launch import launch
from tests.system.faults.conftest import MakeTown
from tests.system.faults.evidence import check
from tests.system.harness import Harness

pytestmark = pytest.mark.process

WALKS = {
    "ring": {"topology": "ring", "rounds": 400},
    "complete": {"topology": "complete", "steps": 2000},
}


def _frozen_in_the_middle(town: Harness, step: int = 60) -> tuple[str, str]:
    town.start_all()
    town.wait_step(step)
    town.freeze()
    assert town.furthest() < town.plan.total_steps, "the walk is over already: make it longer"
    return town.roles()


@pytest.mark.parametrize("walk", WALKS)
def test_an_undisturbed_run_has_all_the_evidence(make_town: MakeTown, walk: str) -> None:
    town = make_town(5, **WALKS[walk])
    town.start_all()
    town.wait_all()
    assert len(check(town)) == town.plan.total_steps + (walk == "complete")


@pytest.mark.parametrize("walk", WALKS)
@pytest.mark.parametrize("role", ["holder", "sender", "receiver"])
def test_a_killed_user_comes_back_and_nothing_is_lost(make_town: MakeTown, walk: str, role: str) -> None:
    town = make_town(5, **WALKS[walk])
    holder, sender = _frozen_in_the_middle(town)
    following = town.names[(town.names.index(holder) + 1) % town.plan.n]
    victim = {"holder": holder, "sender": sender, "receiver": following}[role]
    town.kill(victim)
    town.thaw()
    town.start(victim)
    town.wait_all()
    check(town)


def test_everybody_is_killed_at_once_and_the_relaunch_goes_on(make_town: MakeTown) -> None:
    town = make_town(5, **WALKS["ring"])
    _frozen_in_the_middle(town)
    before = town.furthest()
    town.close()
    outcome = launch(town.folder)
    assert outcome.ok and outcome.result is not None
    branch = check(town)
    assert before > 1 and branch[-1].visit.step == town.plan.total_steps
    # Launched once more, the finished run says so and changes nothing.
    said = CliRunner().invoke(app, ["launch", str(town.folder)])
    assert said.exit_code == 0 and "this run is finished" in " ".join(said.output.split())
    check(town)


#: Effects of a hop at any user, of the end, and (with somebody gone) of the search for a lost token.
EFFECTS = ["Persist:3", "Log:4", "Log:5", "Log:6", "Reply:4", "Reply:5", "Offer:2", "Handoff:2", "Finished"]


@pytest.mark.parametrize("walk", ["ring", "complete"])
def test_a_crash_at_every_effect_in_turn_then_a_restart(make_town: MakeTown, walk: str) -> None:
    """One user after the other crashes right before an effect of each kind, and is started again at once."""
    town = make_town(5, topology=walk, **({"rounds": 24} if walk == "ring" else {"steps": 120}))
    crashed = _relay(town, EFFECTS)
    town.wait_all()
    check(town)
    assert len(crashed) >= len(EFFECTS) - 2, crashed


def _relay(town: Harness, effects: list[str]) -> list[str]:
    """Starts everybody with the first effects to crash at; whoever crashes comes back with the next one."""
    left, crashed, watched = list(effects), [], {}
    for name in [*town.names[1:], town.names[0]]:
        watched[name] = left.pop(0)
    town.start_all(crash=watched)
    while watched:
        town.until("a crash or an end", lambda: any(name in town.codes for name in watched))
        for name in [name for name in watched if name in town.codes]:
            effect, code = watched.pop(name), town.codes[name]
            if code == 0:
                continue
            assert code == -9, f"{name} ended with {code}\n{town.describe()}"
            crashed.append(effect)
            if left:
                watched[name] = left.pop(0)
                town.start(name, crash_at=watched[name])
            else:
                town.start(name)
    return crashed


@pytest.mark.parametrize("effect", ["Locate", "Fence"])
def test_a_crash_while_asking_or_voting_about_a_lost_token(make_town: MakeTown, effect: str) -> None:
    """The holder is lost, and whoever asks around or calls a vote crashes on its first question, then comes back."""
    lost = "user-2"
    town = make_town(5, timing={"linger_s": 60.0}, topology="ring", rounds=24)
    town.start_all(crash=dict.fromkeys(town.names, effect) | {lost: "Handoff:8"})
    crashed = set()
    others = [name for name in town.names if name != lost]

    def ended() -> bool:
        for name in [name for name in others if town.codes.get(name) == -9]:
            crashed.add(name)
            town.codes.pop(name)
            town.pool.start(town.bundle(name))
        return all((town.state(name) / "result.json").exists() for name in others)

    town.until("the others have a result", ended)
    town.start(lost)
    town.until("all have it", lambda: (town.state(lost) / "result.json").exists())
    check(town)
    assert crashed
