"""What two users could learn together, and with somebody who watches every link, about who held the token and what it
contributed: no more than the promise, and more as soon as a bug gives the holder away (THEORY.md#hidden-path).

The core of the protocol runs as it is; the harness of ``network-dp audit`` judges the attack. The colluders strip their
own pads off every block that one of them adds up, undo their own shuffles of labels, and time every block. They are
even told every value of the token, which the promise allows for.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from network_dp import audit, hidden
from network_dp.plan_reader import from_dict
from node.dice import SystemDice
from node.protocols.effects import Received
from node.protocols.rounds import lists, machine
from node.protocols.rounds.effects import Computed, Turn
from node.protocols.rounds.messages import BATCH, Block, Call
from node.protocols.rounds.pads import Pads, Words
from node.protocols.rounds.speech import Kind, decoded, words
from tests.unit.analyzer.hidden_run import HiddenRun, values

pytestmark = pytest.mark.slow

USERS, STEPS, RUNS = 8, 480, 3  # the duty of the adder is with a colluder all the time
COLLUDERS, VICTIM = (0, 1), 5
HONEST = [user for user in range(USERS) if user not in COLLUDERS]
WALK, SIGMA, DELTA, DRAWS, CONFIDENCE = 120, 3.0, 0.1, 100_000, 0.9999
SURE = 1e6  # a likelihood ratio
Floats = NDArray[np.float64]
Blocks = dict[int, tuple[Words, float]]  # user -> its block, and when it came
Attack = tuple[Floats, NDArray[np.int64]]


class Remembering(SystemDice):
    """A colluder's dice: it knows what it drew."""

    def __init__(self) -> None:
        self.drawn: list[int] = []

    def below(self, bound: int) -> int:
        self.drawn.append(super().below(bound))
        return self.drawn[-1]


class Unshuffled(SystemDice):
    """Of a shuffler that leaves every label in its place."""

    def below(self, bound: int) -> int:
        return bound - 1


class Watched(HiddenRun):
    """A run with what the colluders see of it and, for the judge alone, who held the token."""

    honest_dice: SystemDice = SystemDice()

    def __init__(self) -> None:
        plan = {
            "name": "watched",
            "walk": {"topology": "complete", "path": "hidden", "steps": STEPS},
            "rounds": {"colluders": len(COLLUDERS)},
            "task": {"kind": "sum", "lower": 0.0, "upper": 1.0},
            "noise": {"sigma": 2.0, "grid": 2.0**-20},
            "users": [{"name": f"u{user}", "address": f"127.0.0.1:{7000 + user}"} for user in range(USERS)],
        }
        super().__init__(from_dict(plan), values(USERS))
        self.holders: dict[int, int] = {}  # step -> who contributes in it
        self.blocks: dict[tuple[int, int], tuple[Call, Blocks]] = {}  # as an adder that is a colluder gets them
        self.orders: dict[tuple[int, int], list[int]] = {}  # batch and place: whose labels, by own shuffles alone
        self.pads = [
            Pads(user, one.private, one.publics, one.run_id, one.block_bytes // 8)
            for user, one in enumerate(self.contexts[: len(COLLUDERS)])
        ]
        self.labels: dict[int, int] = {}  # step -> the label that a colluder drew for its holder

    def feed(self, user: int, event: Any) -> None:
        before = self.states[user]
        if isinstance(event, Computed):
            self.holders[before.heard[1]] = user
        call = before.adding.call
        match event:
            case Received(peer, _, Block(counter=counter, data=data)) if call is not None and user in COLLUDERS:
                if counter == call.counter:
                    self.blocks.setdefault((user, counter), (call, {}))[1][peer] = words(data), self.now
        self.dice = Remembering()
        super().feed(user, event)
        after = self.states[user].durable
        if user in COLLUDERS and after.visits > before.durable.visits and after.to_step <= STEPS:
            self.labels[after.to_step] = self.dice.drawn[0]

    def _carry_out(self, user: int, effect: Any) -> None:
        if not isinstance(effect, Turn):
            super()._carry_out(user, effect)
            return
        dice = Remembering() if user in COLLUDERS else self.honest_dice
        done = lists.turned(effect.batch, dice.secret, dice.below)
        if isinstance(dice, Remembering):
            self._undo(effect.batch.number, len(effect.batch.lists), iter(dice.drawn))
        self.at(self.now, lambda: self.feed(user, done))

    def _undo(self, number: int, count: int, drawn: Iterator[int]) -> None:
        for place in range(count):
            order = self.orders.setdefault((number, place), list(range(USERS)))
            for last in range(USERS - 1, 0, -1):
                other = next(drawn)
                order[last], order[other] = order[other], order[last]

    def suspicions(self) -> dict[int, Mapping[int, float]]:
        """Step -> how likely each honest user is to have held it, for the colluders."""
        ratios = {step: dict.fromkeys(HONEST, 1.0) for step in self.holders if self.holders[step] in HONEST}
        for call, blocks in self.blocks.values():
            total = np.sum([block for block, _ in blocks.values()], axis=0, dtype=np.uint64)
            said = decoded(total.tobytes(), self.plan.run_id, STEPS, self.contexts[0].token_bytes)
            if said is not None and said.kind in (Kind.TOKEN, Kind.RESULT) and said.step - 1 in ratios:
                for user in HONEST:
                    ratios[said.step - 1][user] *= self._fits(call, user, blocks, total)
        for step, place in self.labels.items():
            owner = self.orders.get(divmod(step - 1, BATCH), range(USERS))[place]
            if step in ratios and owner in HONEST:
                ratios[step][owner] *= SURE
        sums = {step: sum(of.values()) for step, of in ratios.items()}
        return {step: {user: one / sums[step] for user, one in of.items()} for step, of in ratios.items()}

    def _fits(self, call: Call, user: int, blocks: Blocks, total: Words) -> float:
        """Is this user's block, without the pads that it has with colluders, the message or nothing; is it early?"""
        left, at = blocks[user]
        for colluder in COLLUDERS:
            left = left + self._pad(call, colluder, user)
        others = min(when for other, (_, when) in blocks.items() if other in HONEST and other != user)
        early = SURE if at < others - 1e-3 else 1.0
        return early * (SURE if (left == total).all() else 1.0 if left.any() else 1 / SURE)

    def _pad(self, call: Call, colluder: int, user: int) -> Words:
        """What this colluder added for this user, who took it away again."""
        pads = self.pads[colluder]
        few = {one: call.roll[one] for one in (colluder, call.adder)}
        both = pads.total({**few, user: call.roll[user]}, call.adder, call.counter).copy()
        return both - pads.total(few, call.adder, call.counter)


# ---- bugs ----------------------------------------------------------------------------------------------------------


def no_bug(patch: pytest.MonkeyPatch) -> None:
    pass


def no_pads_at_one_user(patch: pytest.MonkeyPatch) -> None:
    """It has none with honest users; a bug on one side only would garble every round."""
    right = Pads._sum

    def wrong(self: Pads, roll: Mapping[int, bytes], adder: int, number: int) -> Words:
        if self._me not in COLLUDERS:
            kept = (*COLLUDERS, VICTIM) if self._me == VICTIM else [user for user in roll if user != VICTIM]
            roll = {user: roll[user] for user in roll if user in kept}
        return right(self, roll, adder, number)

    patch.setattr(Pads, "_sum", wrong)


def holder_sends_early(patch: pytest.MonkeyPatch) -> None:
    right = machine._outcome

    def wrong(*arguments: Any) -> Any:
        after, effects = right(*arguments)
        return (after._replace(send_at=after.send_at - 0.005) if after.opened else after), effects

    patch.setattr(machine, "_outcome", wrong)


def shufflers_that_do_not_shuffle(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Watched, "honest_dice", Unshuffled())


# ---- the attack ----------------------------------------------------------------------------------------------------

Plant = Callable[[pytest.MonkeyPatch], None]


def attacked(plant: Plant, patch: pytest.MonkeyPatch) -> list[Attack]:
    """Of each run, over the steps of honest holders: how much the colluders suspect each honest user, and who."""
    plant(patch)
    found = []
    for _ in range(RUNS):
        run = Watched()
        run.run()
        suspicions = run.suspicions()
        assert len(suspicions) > STEPS / 2
        suspected = np.array([[of[user] for user in HONEST] for of in suspicions.values()])
        found.append((suspected, np.array([HONEST.index(run.holders[step]) for step in suspicions])))
    return found


def test_two_users_that_pool_what_they_see_learn_no_more_than_the_promise(monkeypatch: pytest.MonkeyPatch) -> None:
    found = attacked(no_bug, monkeypatch)
    assert told(found) == 0.0
    assert 0.0 < learned(found) <= PROMISE


@pytest.mark.parametrize("plant", [no_pads_at_one_user, holder_sends_early, shufflers_that_do_not_shuffle])
def test_a_bug_that_shows_the_holder_costs_more_than_the_promise(plant: Plant, monkeypatch: pytest.MonkeyPatch) -> None:
    """Labels in order tell a colluder to whom it speaks itself: every fourth holder."""
    found = attacked(plant, monkeypatch)
    assert told(found) > 0.0
    assert learned(found, [VICTIM] if plant is no_pads_at_one_user else HONEST) > PROMISE


def told(found: Sequence[Attack]) -> float:
    """A lower bound on ln of the ratio by which the view tells who holds the token from somebody else."""
    suspected, held = (np.concatenate(parts) for parts in zip(*found, strict=True))
    steps, other = np.arange(len(held)), (held + 1) % len(HONEST)
    return audit.lower_epsilon(suspected[steps, other, None], suspected[steps, held, None], 0.0, CONFIDENCE)


PROMISE = hidden.epsilon(USERS, WALK, 1 / SIGMA, DELTA, len(COLLUDERS))


def learned(found: Sequence[Attack], victims: Sequence[int] = HONEST) -> float:
    """By walks of so many steps, with a victim's data at one extreme or the other; everybody else's is known."""
    rng = np.random.default_rng(7)
    suspected = np.concatenate([of for of, _ in found])
    held = np.concatenate([holder for _, holder in found])[:, None] == np.arange(len(HONEST))
    chosen = [HONEST.index(victim) for victim in victims]
    scores = []
    for extreme in (0, 1):
        steps, victim = rng.integers(len(held), size=(DRAWS // 2, WALK)), rng.choice(chosen, size=(DRAWS // 2, 1))
        seen = extreme * held[steps, victim] + rng.normal(0.0, SIGMA, steps.shape)
        ratios = 1 + suspected[steps, victim] * np.expm1((2 * seen - 1) / (2 * SIGMA**2))
        scores.append(np.log(ratios).sum(axis=1)[:, None])
    return audit.lower_epsilon(scores[0], scores[1], DELTA, CONFIDENCE)
