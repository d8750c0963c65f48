"""One hidden walk under one seeded disaster, in virtual time.

Crashes before any effect, loss, delay, partitions, full disks, everybody down at once, a holder that is lost for good,
old disks. ``Evidence`` checks every effect; at the end everybody who can must have the one result.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey

from node.protocols.effects import Answered, Begin, Finished, Persist, PersistFailed, Received, Reply, Send, Stop, Tick
from node.protocols.exits import OLD_DISK
from node.protocols.rounds import lists, machine
from node.protocols.rounds.effects import Compute, Computed, Effect, Event, Turn
from node.protocols.rounds.lives import incarnation
from node.protocols.rounds.messages import Answer, Block, Outcome
from node.protocols.rounds.state import Durable, Inputs, State
from simulator.faults.dice import ScheduleDice
from simulator.faults.evidence import ViolationError
from simulator.rounds.evidence import Evidence
from simulator.rounds.scene import BLOCK_S, USERS, Counter, context
from simulator.virtual_time import VirtualTime

TROUBLE_S, PATIENCE_S = 6.0, 200.0
MAX_EVENTS = 200_000
_MOMENTS = ("said", "accepted", "promised", "Outcome", "Block", "Compute", "Turn", "")


def _moment(effect: Effect) -> str:
    """What a planned crash waits for: it comes just before this effect, or just after it."""
    match effect:
        case Persist(changed, _):
            return next((name for name in _MOMENTS if name in changed), "")
        case Reply(_, Outcome(total=total)):
            return "Outcome" if total else ""
        case Send(_, _, Block(counter=counter)):
            return "Block" if counter else ""
    return type(effect).__name__


class World(VirtualTime):
    """Runs the schedule of one seed; ``run`` returns when everybody left has the result, or raises."""

    def __init__(self, seed: int, trace: Callable[[str], None] | None = None, *, in_one_round: bool = False) -> None:
        super().__init__()
        source = self._random = random.Random(seed)  # noqa: S311  (a schedule, replayed by its seed)
        self._trace = trace
        self._dice = ScheduleDice(source)
        self.quorum = source.choice((4, 4, 5))
        self._shufflers = source.choice((2, 3))
        self._in_one_round = in_one_round
        self.evidence = Evidence(self.quorum, in_one_round)
        privates = [source.randbytes(32) for _ in range(USERS)]
        self._publics = tuple(X25519PrivateKey.from_private_bytes(p).public_key().public_bytes_raw() for p in privates)
        self._privates = privates
        self.disks = [Durable()] * USERS
        self._backups: list[tuple[Durable, int]] = [(Durable(), 0)] * USERS
        self.states: list[State | None] = [None] * USERS
        self.gone: set[int] = set()
        self.rejoined: set[int] = set()
        self._lives = [0] * USERS  # processes so far
        self._incarnations = [0] * USERS  # as the disk counts them
        self._attended = [0] * USERS  # the last incarnation that had a sum
        self._contexts: list[Any] = [None] * USERS
        self._calls: dict[int, tuple[int, int, int, Any, int]] = {}  # ticket -> who, its life, attempt, request, whom
        self._called_at = [0.0] * USERS
        self._full = [0.0] * USERS
        self._group: frozenset[int] = frozenset()
        self._crash = source.choice((0.0, 0.0, 0.003, 0.02))
        self._loss = source.choice((0.0, 0.05, 0.2))
        self._slow = source.choice((0.0, 0.0, 0.3))
        self._down_s = source.choice((0.5, 2.0, 5.0))
        self._kill = (source.choice(_MOMENTS), source.randrange(1, 7), source.random() < 0.5)

    def run(self) -> None:
        self._plan_trouble()
        for user in range(USERS):
            self.at(self._random.random() * 0.2, self._start, user)
        while not self._over():
            if not self._queue or self.now > TROUBLE_S + PATIENCE_S or self.events > MAX_EVENTS:
                heard = [state and state.heard for state in self.states]
                raise ViolationError(f"no result at {self.now:.1f} s after {self.events} events: {heard}")
            action, arguments = self.advance()
            action(*arguments)

    def _over(self) -> bool:
        return all(disk.final for user, disk in enumerate(self.disks) if user not in self.gone)

    def _plan_trouble(self) -> None:
        source = self._random
        for chance, action in ((0.5, self._split), (0.3, self._fill), (0.3, self._all_down), (0.4, self._lose_holder)):
            if source.random() < chance:
                self.at(source.random() * TROUBLE_S, action)
        if source.random() < 0.3:
            self.at(source.random() * TROUBLE_S, self._back_up)

    # ---- troubles ---------------------------------------------------------------------------------------------

    def _split(self) -> None:
        self._group = frozenset(self._random.sample(range(USERS), self._random.randrange(USERS)))
        self.at(self.now + 2 * self._random.random(), self._heal)

    def _heal(self) -> None:
        self._group = frozenset()

    def _fill(self) -> None:
        self._full[self._random.randrange(USERS)] = self.now + self._random.random()

    def _all_down(self) -> None:
        for user in range(USERS):
            self._die(user)

    def _enough_without_one(self) -> bool:
        """Can the rest go on? Whose disk was lost gives no share of a masked sum."""
        away = len(self.gone | self.rejoined) if self._in_one_round else len(self.gone)
        return USERS - away > self.quorum

    def _lose_holder(self) -> None:
        """Whoever has the token, or else anybody, is gone for good."""
        if self.gone or not self._enough_without_one():
            return
        holders = [
            user for user, state in enumerate(self.states) if state and (state.opened or state.mine > state.heard)
        ]
        user = self._random.choice(holders or list(range(USERS)))
        self._say(f"u{user} is gone for good")
        self.gone.add(user)
        self.states[user] = None

    def _back_up(self) -> None:
        """Somebody's disk is copied; after it took part in a round of a later life the copy takes the disk's place."""
        user = self._random.randrange(USERS)
        self._backups[user] = (self.disks[user], self._incarnations[user])
        self.at(self.now + self._random.random(), self._die, user)
        self.at(self.now + 3.0 + self._random.random(), self._restore, user)

    def _restore(self, user: int) -> None:
        late = self._attended[user] > self._backups[user][1] and not self.disks[user].final
        if late and (user in self.gone or self._enough_without_one()):
            self._say(f"u{user} gets an old disk")
            self._die(user)
            self.rejoined.add(user)
            self.evidence.forget(user)
            self.disks[user], self._incarnations[user] = self._backups[user]

    # ---- processes --------------------------------------------------------------------------------------------

    def _start(self, user: int) -> None:
        if self.states[user] is not None or user in self.gone:
            return
        self._lives[user] += 1
        self._incarnations[user] += 1
        number = self._incarnations[user]
        self._contexts[user] = context(
            user, self._privates[user], self._publics, self.quorum, self._shufflers, number, self._in_one_round
        )
        self.states[user] = State(durable=self.disks[user])
        self.feed(user, Begin(number > 1))

    def _die(self, user: int) -> None:
        if user not in self.gone:
            self._say(f"u{user} dies")
            self.states[user] = None
            self.at(self.now + self._random.random() * self._down_s, self._start, user)

    def feed(self, user: int, event: Event) -> None:
        state = self.states[user]
        if state is None:
            return
        if isinstance(event, Answered) and isinstance(event.answer, Outcome) and event.attempt == state.attempt:
            self._called_at[user] = self.now
        inputs = Inputs(self.now, self._dice, self._draw, self.now)
        after, effects = machine.step(self._contexts[user], state, event, inputs)
        if effects and isinstance(effects[0], Persist) and self.now < self._full[user]:
            if not isinstance(event, PersistFailed):
                self.feed(user, PersistFailed(event))
            return
        self.states[user] = after
        life = self._lives[user]
        for effect in effects:
            planned = self._is_planned(effect)
            if (planned and self._kill[2]) or (self.now < TROUBLE_S and self._random.random() < self._crash):
                self._die(user)
            if self.states[user] is not None and self._lives[user] == life:
                self._carry_out(user, after, effect)
            if planned:
                self._die(user)
            if self.states[user] is None or self._lives[user] != life:
                return
        self.evidence.labels(after)
        if after.wake_at is not None:
            self.at(max(after.wake_at, self.now) + 1e-6, self._tick, user, life)

    def _is_planned(self, effect: Effect) -> bool:
        name, count, before = self._kill
        if not name or _moment(effect) != name:
            return False
        self._kill = (name, count - 1, before)
        return count == 1

    def _draw(self) -> int:
        return self._random.getrandbits(50)  # no two sums of noises are alike

    def _tick(self, user: int, life: int) -> None:
        state = self.states[user]
        due = state is not None and state.wake_at is not None and state.wake_at <= self.now
        if due and self._lives[user] == life:
            self.feed(user, Tick())

    def _later(self, user: int, event: Event) -> None:
        """Work off the event loop takes its time, and dies with its process."""
        life = self._lives[user]
        took = self._random.random() * (self._slow if isinstance(event, Computed) else 0.01)
        self.at(self.now + took, lambda: self.feed(user, event) if self._lives[user] == life else None)

    def _carry_out(self, user: int, state: State, effect: Effect) -> None:
        match effect:
            case Persist(changed, _):
                self.disks[user] = self.disks[user]._replace(**changed)
            case Send(peer, attempt, request):
                if isinstance(request, Block) and request.counter:
                    disk = self.disks[user]
                    self.evidence.leaves(user, state, disk, request, self.now, self._called_at[user])
                self._send(user, peer, attempt, request)
            case Reply(ticket, answer):
                if isinstance(answer, Outcome) and answer.total:
                    self._summed(ticket, answer.total)
                if ticket in self._calls:
                    self._transmit(user, self._calls[ticket][0], lambda: self._answer(ticket, answer))
            case Compute(payload, index, visit):
                self._later(user, Computed(Counter().contribute(payload, index), visit))
            case Turn(batch):
                self._later(user, lists.turned(batch, self._dice.secret, self._dice.below))
            case Finished(result, token):
                self.evidence.final(user, result.contributions, token)
            case Stop(code, text):
                self._say(f"u{user} stops: {text}")
                self._die(user)
                if code == OLD_DISK:
                    self.disks[user] = Durable(rejoined=True)

    def _summed(self, ticket: int, total: bytes) -> None:
        """Everybody on the roll has answered, and remembers who was there."""
        self.evidence.heard(total)
        if ticket in self._calls:
            asker, _, _, block, _ = self._calls[ticket]
            self._attended[asker] = max(self._attended[asker], incarnation(block.life))

    def _send(self, user: int, peer: int, attempt: int, request: Any) -> None:
        ticket = self.serial()
        self._calls[ticket] = (user, self._lives[user], attempt, request, peer)
        self.at(self.now + 3 * BLOCK_S, self._answer, ticket, None)
        self._transmit(user, peer, lambda: self.feed(peer, Received(user, ticket, request)))

    def _transmit(self, sender: int, receiver: int, deliver: Callable[[], None]) -> None:
        """Over a link that loses, delays and may be cut; a user reaches itself at once."""
        if sender == receiver:
            self.at(self.now, deliver)
            return
        cut = (sender in self._group) != (receiver in self._group)
        lost = self.now < TROUBLE_S and self._random.random() < self._loss
        if not cut and not lost:
            self.at(self.now + self._random.choice((0.001, 0.004, 0.05)), deliver)

    def _answer(self, ticket: int, answer: Answer | None) -> None:
        asked = self._calls.pop(ticket, None)
        if asked is not None and self._lives[asked[0]] == asked[1]:
            if self._trace is not None:
                self._say(f"u{asked[0]} gets {type(answer).__name__} for {type(asked[3]).__name__}")
            self.feed(asked[0], Answered(asked[4], asked[2], asked[3], answer))

    def _say(self, text: str) -> None:
        if self._trace is not None:
            self._trace(f"{self.now:8.3f} {text}")
