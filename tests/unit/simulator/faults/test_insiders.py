"""One user with a valid key says what no honest user says: the others end with the right result all the same.

The insider follows the protocol but for its lies, so the simulator's invariants go on to judge everything that honest
users do: a forged token taken, or a result that no log knows, would be a breach.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from node.protocols import exits
from node.protocols.effects import Received, Send, Stop
from node.protocols.walk.digests import digest
from node.protocols.walk.effects import Effect
from node.protocols.walk.messages import (
    Answer,
    Declined,
    Fence,
    Granted,
    Handoff,
    Located,
    Offer,
    Promise,
    Publish,
    Published,
    Refused,
    Request,
    Result,
    Why,
)
from node.protocols.walk.values import Epoch, Hop, Token
from simulator.faults.scenario import STAGES
from simulator.faults.schedule import Kill, Schedule, Timed
from simulator.faults.world import Call, Process, World

TOP = 2**62 - 1  # the wire lets no larger number pass
LIAR, VICTIM = 1, 0
RING, COMPLETE = "ring n=5 K=2", "complete n=6 T=6 edge"
LONG_RING = "ring n=5 K=9"
LOST = Kill("Handoff", 4, None, machine=False)  # the token is lost for good, with its holder
RESTARTED = tuple(Timed(0.3, "kill", user, 0.5) for user in range(5))

Lie = Callable[[Answer], Answer]


class Insider(World):
    """A world in which one user's answers are what ``lie`` makes of them, and which says more than it should."""

    def __init__(self, schedule: Schedule, lie: Lie = lambda answer: answer, *, swallows: bool = False) -> None:
        super().__init__(schedule)
        self._lie = lie
        self._swallows = swallows
        self.answers: list[Answer] = []  # to what it said on top
        self.stops: list[tuple[int, Stop]] = []

    def say(self, at_s: float, victim: int, words: Callable[[], Request]) -> None:
        self.at(at_s, self._say, victim, words)

    def _say(self, victim: int, words: Callable[[], Request]) -> None:
        if self.users[victim].state is None:
            self.at(self.now + 0.1, self._say, victim, words)
            return
        ticket, request = self.serial(), words()
        self._tickets[ticket] = Call(LIAR, self.users[LIAR].life, victim, -1, request)
        self.feed(victim, Received(LIAR, ticket, request))

    def _reply(self, user: int, call: Call, answer: Answer) -> None:
        if call.attempt == -1:
            self.answers.append(answer)
            return
        super()._reply(user, call, self._lie(answer) if user == LIAR else answer)

    def _send(self, user: int, process: Process, send: Send) -> None:
        lost = self._swallows and user == LIAR and isinstance(send.request, Offer | Handoff)
        if lost:
            self.at(self.now + 0.5, self._answer, Call(user, process.life, send.peer, send.attempt, send.request), None)
        else:
            super()._send(user, process, send)

    def _carry_out(self, user: int, process: Process, effect: Effect, state: Any) -> None:
        if isinstance(effect, Stop):
            self.stops.append((user, effect))
        super()._carry_out(user, process, effect, state)

    def ends_well(self) -> None:
        self.run()
        self.checks.at_end()
        honest = [stop for user, stop in self.stops if user != LIAR]  # who is told of its own lies may believe them
        assert not [stop for stop in honest if stop.code in (exits.OLD_DISK, exits.INTERNAL)]


def stage(name: str) -> int:
    return next(index for index, scenario in enumerate(STAGES) if scenario.name == name)


def schedule(name: str, seed: int, *kills: Kill, timed: tuple[Timed, ...] = ()) -> Schedule:
    return Schedule(seed, stage(name), kills=kills, timed=timed)


def token_of(world: World, **changes: Any) -> Token:
    ctx = world.cast.contexts[0]
    ledger = ctx.rule.blank_ledger(ctx.n)
    return Token(np.zeros(ctx.worker.dimension, ctx.worker.dtype), 3, 0, 3, ledger)._replace(**changes)


def invented(world: World, epoch: Epoch | None = None) -> Result:
    token = token_of(world, payload=np.full(world.cast.contexts[0].worker.dimension, 12345)).encode()
    return Result(epoch or (0, world.cast.contexts[0].start), digest(token)[:16], token)


def places(answer: Answer) -> Answer:
    """All epochs of an answer at the top of the range, as if a lie could raise everybody there."""
    match answer:
        case Located() | Promise() | Published():
            return answer._replace(promised=(TOP, LIAR))
        case Declined() | Refused():
            return answer._replace(promised=(TOP, LIAR))
    return answer


@pytest.mark.parametrize("name", [RING, COMPLETE])
@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("counter", [TOP, 2**61, 2**21])
def test_a_fence_that_nobody_could_ever_top_is_refused(name: str, seed: int, counter: int) -> None:
    world = Insider(schedule(name, seed, LOST))
    for user in (0, 2, 3):
        world.say(0.2, user, lambda: Fence((counter, LIAR)))
    world.ends_well()
    assert {answer.why for answer in world.answers if isinstance(answer, Promise)} <= {Why.MISBEHAVIOUR}


@pytest.mark.parametrize("name", [RING, COMPLETE])
@pytest.mark.parametrize("seed", range(3))
def test_absurd_promises_in_answers_raise_nobody_beyond_reach(name: str, seed: int) -> None:
    world = Insider(schedule(name, seed, LOST, timed=RESTARTED[:1]), places)
    world.ends_well()
    assert max(user.disk.durable.promised[0] for user in world.users) < 2**30


@pytest.mark.parametrize("name", [RING, COMPLETE])
@pytest.mark.parametrize("final", [False, True])
@pytest.mark.parametrize("kills", [(), (LOST,)], ids=["calm", "lost"])
@pytest.mark.parametrize("seed", range(2))
def test_an_invented_result_told_to_one_user_is_nobodys(name: str, final: bool, kills: Any, seed: int) -> None:
    world = Insider(schedule(name, seed, *kills))
    world.say(0.15, VICTIM, lambda: Publish(invented(world), final, final))
    world.ends_well()


@pytest.mark.parametrize("name", [RING, COMPLETE])
@pytest.mark.parametrize("seed", range(2))
def test_an_invented_result_in_every_answer_is_nobodys(name: str, seed: int) -> None:
    def lie(answer: Answer) -> Answer:
        return answer._replace(result=invented(world), final=True) if isinstance(answer, Located | Promise) else answer

    world = Insider(schedule(name, seed, LOST, timed=RESTARTED[2:3]), lie)
    world.ends_well()


@pytest.mark.parametrize("token", ["short", "garbage", "other name"])
@pytest.mark.parametrize("final", [False, True])
def test_a_result_that_is_no_token_is_not_journaled(token: str, final: bool) -> None:
    world = Insider(schedule(RING, 1, LOST))
    true = invented(world)
    wrong = {"short": b"x", "garbage": b"\xff" * len(true.token), "other name": true.token}[token]
    for user in (0, 2, 3, 4):
        world.say(0.15, user, lambda: Publish(Result(true.epoch, b"e" * 16, wrong), final, False))
    world.ends_well()
    assert {answer.accepted for answer in world.answers if isinstance(answer, Published)} == {False}


@pytest.mark.parametrize("token", [b"", b"short", b"\xff" * 93])
def test_final_results_that_cannot_be_read_crash_nobody(token: bytes) -> None:
    def lie(answer: Answer) -> Answer:
        result = Result((0, LIAR), b"e" * 16, token)
        return answer._replace(result=result, final=True) if isinstance(answer, Located | Promise) else answer

    Insider(schedule(RING, 2, LOST, timed=RESTARTED[2:4]), lie).ends_well()


EDGES: tuple[dict[str, Any], ...] = (
    {"payload": 2**62},
    {"payload": -(2**62)},
    {"payload": 2**61 + 2**60 + 2**59},
    {"noise_units": 2**62},
    {"contributions": 2**62},
    {"cover": 2**62},
)


@pytest.mark.parametrize("name", [RING, COMPLETE])
@pytest.mark.parametrize("edge", EDGES, ids=str)
def test_a_token_that_would_not_fit_after_a_visit_is_refused(name: str, edge: dict[str, Any]) -> None:
    world = Insider(schedule(name, 1))
    hop = Hop((0, world.cast.contexts[0].start), 3)  # the victim's position on the ring
    changes = dict(edge)
    if "payload" in edge:
        changes["payload"] = np.full(world.cast.contexts[0].worker.dimension, edge["payload"])
    victim = VICTIM if name == RING else 2  # on the complete graph the first user is about to start the walk
    world.say(0.001, victim, lambda: Offer(hop))

    def forged() -> Request:
        (granted,) = [answer for answer in world.answers if isinstance(answer, Granted)]
        return Handoff(hop, granted.grant, b"k" * 32, token_of(world, **changes).encode())

    world.say(0.002, victim, forged)
    world.at(0.0, world.start, victim)
    world.ends_well()
    assert [answer.why for answer in world.answers if isinstance(answer, Refused)] == [Why.UNFIT]


@pytest.mark.parametrize("name", [RING, COMPLETE])
@pytest.mark.parametrize("field", ["taken", "given", "vote", "rank"])
@pytest.mark.parametrize("counter", [TOP, 2**61])
def test_an_absurd_memory_ends_nobody(name: str, field: str, counter: int) -> None:
    def lie(answer: Answer) -> Answer:
        absurd: Any = (counter, LIAR) if field == "vote" else Hop((counter, LIAR), 1)
        return answer._replace(**{field: absurd}) if isinstance(answer, Located) else answer

    for seed in range(2):
        Insider(schedule(name, seed, timed=RESTARTED), lie).ends_well()


@pytest.mark.parametrize("name", [RING, COMPLETE])
@pytest.mark.parametrize("rank", ["none", "its own", "the end"])
def test_who_swallows_a_token_and_says_that_it_has_it_is_not_believed_for_ever(
    name: str, rank: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def lie(answer: Answer) -> Answer:
        match answer:
            case Located():
                lies = {"none": {}, "its own": {}, "the end": {"rank": Hop(answer.promised, 6)}}[rank]
                return answer._replace(responsible=True, **lies)
            case Promise() if rank == "the end":
                return answer._replace(rank=Hop(answer.promised, 6))
        return answer

    monkeypatch.setattr("simulator.faults.world.PATIENCE_S", 600.0)  # it swallows more than one
    Insider(schedule(name, 3), lie, swallows=True).ends_well()


def test_a_forged_token_far_ahead_is_not_taken_on_a_ring() -> None:
    world = Insider(schedule(LONG_RING, 4))
    ahead = Hop((0, 3), 28)  # the victim's position, some rounds on

    def forged() -> Request:
        granted = [answer for answer in world.answers if isinstance(answer, Granted)]
        assert not granted
        return Offer(ahead)

    for at_s in (0.12, 0.16, 0.2, 0.24):
        world.say(at_s, VICTIM, forged)
    world.ends_well()
    assert {answer.why for answer in world.answers if isinstance(answer, Declined)} == {Why.NO_GRANT}


def test_a_user_that_was_passed_by_for_a_round_is_not_kept_out() -> None:
    """Cut off for some rounds and never restarted, it asks others how far the walk is, and takes part again."""
    cut = (Timed(0.3, "split", 0, group=frozenset({VICTIM})), Timed(1.5, "heal", 0))
    world = World(schedule(LONG_RING, 5, timed=cut))
    world.run()
    steps = [line for line in world.users[VICTIM].log if '"kind":"visit"' in line]
    assert len(steps) > 1


def test_a_bidder_that_can_never_find_a_majority_ends_and_names_who_cannot_vote() -> None:
    world = Insider(schedule(RING, 7, Kill("Handoff", 2, None, machine=False)))
    for user in (0, 1, 2):
        world.users[user].rejoin = True
    with pytest.raises(Exception, match="no result"):
        world.run()
    stalled = [(user, stop) for user, stop in world.stops if stop.code == exits.STALLED]
    assert stalled
    assert any("cannot vote (lost disk, or restarted): u0, u1, u2" in stop.text for _, stop in stalled)
