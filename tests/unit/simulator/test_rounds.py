"""Hidden walks under disasters: all invariants hold, and planted bugs are found."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

from coordinator_free_launcher.cli.app import app
from node.protocols.effects import Begin, Persist
from node.protocols.rounds import adder, lists, lives, machine, masked, visit
from node.protocols.rounds.pads import Pads
from node.protocols.rounds.state import Durable
from simulator.faults.evidence import ViolationError
from simulator.rounds.runner import run_many
from simulator.rounds.world import World


def test_every_invariant_holds() -> None:
    done, events, failures = run_many(0, 20, None)
    assert (done, failures) == (20, []) and events > 5000


def test_a_seed_replays_its_schedule() -> None:
    first, again = World(3), World(3)
    first.run()
    again.run()
    assert (first.events, first.now, first.disks) == (again.events, again.now, again.disks)


def _found(words: str, most: int = 60, first: int = 0) -> None:
    for seed in range(first, first + most):
        try:
            World(seed).run()
        except ViolationError as error:
            if words in str(error):
                return
    pytest.fail(f"not found in {most} schedules")


def test_a_life_used_again_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pads would cover two messages."""
    monkeypatch.setattr(machine, "new_life", lambda ctx, inputs: bytes([ctx.me + 1]) * 16)
    monkeypatch.setattr(adder, "_is_old", lambda state, peer, block: False)
    _found("under one pad", 200)


def test_a_counter_answered_twice_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """An adder that begins to count anew, and users that do not notice."""
    right = adder._open

    def wrong(ctx: Any, state: Any, *rest: Any) -> Any:
        return right(ctx, state._replace(adding=state.adding._replace(counter=0)), *rest)

    monkeypatch.setattr(adder, "_open", wrong)
    sound = machine._sound
    monkeypatch.setattr(machine, "_sound", lambda ctx, state, call: sound(ctx, state._replace(answered={}), call))
    _found("under one pad")


def test_one_list_for_two_steps_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    right = lists.turned

    def wrong(batch: Any, secret: Any, below: Any) -> Any:
        done = right(batch, secret, below)
        return done._replace(batch=done.batch._replace(lists=done.batch.lists[:1] * len(done.batch.lists)))

    monkeypatch.setattr(lists, "turned", wrong)
    _found("one list of labels")


def test_noise_drawn_twice_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """A holder that forgets, in a crash, what it has said."""
    right = machine.step

    def wrong(ctx: Any, state: Any, event: Any, inputs: Any) -> Any:
        if isinstance(event, Begin):
            kept = Durable(promised=state.durable.promised, accepted=state.durable.accepted)
            state = state._replace(durable=kept._replace(result=state.durable.result, final=state.durable.final))
        return right(ctx, state, event, inputs)

    monkeypatch.setattr(machine, "step", wrong)
    _found("drawn twice", 200)


def test_lives_forgotten_when_everybody_was_down_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """An old disk comes back, and nobody remembers: its user draws noise again."""

    def trouble(world: World) -> None:
        world.at(0.3, world._back_up)
        world.at(3.2, world._all_down)

    monkeypatch.setattr(World, "_plan_trouble", trouble)
    World(41).run()
    monkeypatch.setattr(lives, "is_old", lambda met, user, own: False)
    _found("drawn twice", 10, first=38)


def test_a_token_taken_up_without_fresh_noise_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    right = visit.take_up

    def wrong(ctx: Any, state: Any, inputs: Any) -> Any:
        return right(ctx, state, inputs._replace(supply=lambda: 0))

    monkeypatch.setattr(visit, "take_up", wrong)
    _found("without fresh noise", 200)


def test_a_holder_that_speaks_before_its_journal_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    right = machine.step

    def wrong(ctx: Any, state: Any, event: Any, inputs: Any) -> Any:
        after, effects = right(ctx, state, event, inputs)
        return after, [effect for effect in effects if not (isinstance(effect, Persist) and "said" in effect.changes)]

    monkeypatch.setattr(machine, "step", wrong)
    _found("not in its journal", 3)


def test_an_epoch_that_nobody_gives_up_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """Users that go on in an old epoch after they promised to a new one."""
    right = visit.speech

    def wrong(ctx: Any, state: Any) -> bytes:
        if state.mine > (0, 0) and state.mine[1] > state.heard[1]:
            said: bytes = state.durable.said
            return said
        return right(ctx, state)

    monkeypatch.setattr(visit, "speech", wrong)
    _found("gave up", 10, first=120)


@pytest.mark.parametrize("when", ["early", "late"])
def test_a_holder_that_is_not_on_the_beat_is_found(when: str, monkeypatch: pytest.MonkeyPatch) -> None:
    right = machine._outcome

    def wrong(ctx: Any, state: Any, peer: Any, answer: Any, inputs: Any) -> Any:
        after, effects = right(ctx, state, peer, answer, inputs)
        if after.opened and after.send_at is not None:
            after = after._replace(send_at=after.send_at + (0.01 if when == "late" else -0.01))
        return after, effects

    monkeypatch.setattr(machine, "_outcome", wrong)
    _found("not on the beat", 5)


def test_a_minority_that_goes_on_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    from simulator.rounds import world

    right = world.context
    monkeypatch.setattr(world, "context", lambda *rest: right(*rest[:3], 2, *rest[4:]))
    _found("minority", 100)


def test_a_user_without_pads_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Pads, "total", lambda self, roll, adder, counter: np.zeros(self._size, np.uint64))
    _found("without pads", 3)


def test_a_vote_that_is_not_journaled_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    right = machine.step

    def wrong(ctx: Any, state: Any, event: Any, inputs: Any) -> Any:
        after, effects = right(ctx, state, event, inputs)
        return after, [
            effect for effect in effects if not (isinstance(effect, Persist) and "accepted" in effect.changes)
        ]

    monkeypatch.setattr(machine, "step", wrong)
    _found("a vote", 3)


def test_masked_sums_hold_too() -> None:
    for seed in range(40):
        World(seed, in_one_round=True).run()


def test_a_share_with_the_noise_of_another_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    right = masked.share
    monkeypatch.setattr(
        masked, "share", lambda ctx, state, call, inputs: right(ctx, state, call, inputs._replace(supply=lambda: 7))
    )
    with pytest.raises(ViolationError, match="without fresh noise"):
        World(0, in_one_round=True).run()


def test_a_total_without_everybodys_share_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """A user that sends pads only, counted as if it had spoken: the total has too little noise."""
    right = masked.share

    def wrong(ctx: Any, state: Any, call: Any, inputs: Any) -> Any:
        after, said, line = right(ctx, state, call, inputs)
        return after, said[:8] + bytes(len(said) - 8) if ctx.me == 2 else said, line

    monkeypatch.setattr(masked, "share", wrong)
    with pytest.raises(ViolationError, match="not the sum"):
        World(2, in_one_round=True).run()


def test_the_command_tells_a_schedule_of_rounds_on_request() -> None:
    command = ["simulate", "faults", "--protocol", "rounds"]
    said = CliRunner().invoke(app, [*command, "--seed", "3", "--trace"])
    assert said.exit_code == 0 and "gets Outcome for Block" in said.output and "every invariant held" in said.output
    assert CliRunner().invoke(app, [*command, "--trace"]).exit_code == 2
