"""The world of one schedule: a virtual clock, processes that die and come back, and the messages between them.

Effects are carried out one by one, as the runtime does, and a process may be killed before any of them. Everything
random comes from the schedule's seed, so a seed replays the whole disaster.
"""

from __future__ import annotations

from collections.abc import Callable

import node.storage.in_step as in_step
from network_dp import view
from node.noise import SeededSource
from node.protocols.effects import (
    Answered,
    Begin,
    Finished,
    Log,
    Persist,
    PersistFailed,
    Received,
    Reply,
    Send,
    Stop,
    Stopping,
    StreamClosed,
    Tick,
)
from node.protocols.exits import OLD_DISK, STALLED
from node.protocols.walk import machine
from node.protocols.walk.effects import Compute, Computed, Effect, Event
from node.protocols.walk.messages import Answer, Handoff, Offer, Request
from node.protocols.walk.state import Context, Durable, Inputs, State
from node.protocols.walk.values import Epoch
from node.tasks import make_task
from node.worker import NoiseDraw
from simulator.faults import trace
from simulator.faults.dice import ScheduleDice, seeded
from simulator.faults.disk import Disk, ViewFile
from simulator.faults.evidence import ViolationError
from simulator.faults.invariants import Invariants
from simulator.faults.network import Network
from simulator.faults.scenario import Members, cast
from simulator.faults.schedule import Kill, Schedule, Timed
from simulator.virtual_time import VirtualTime

PATIENCE_S = 240.0  # after the last fault, everybody must have the result within this virtual time
MAX_EVENTS = 30_000
COMPUTE_S = 0.7
TICK_S = 1e-6  # timers are never early, whatever the rounding
RELAUNCH_S = 20.0
WRITE_AFTER_S = 0.05  # lines wait for the next record, or so long


class Process:
    """One user: its disk, and its state while it runs."""

    __slots__ = (
        "ctx",
        "disk",
        "exit_code",
        "last_s",
        "life",
        "log",
        "lost",
        "offset_s",
        "rejoin",
        "sizes",
        "state",
        "told",
        "wake_at",
    )

    def __init__(self, ctx: Context) -> None:
        self.ctx = ctx
        self.disk = Disk(Durable(promised=(0, ctx.start)))
        self.log = ViewFile()
        self.told: dict[str, None] = {}  # lines of visits that it ever logged, since its disk was last exchanged
        self.sizes: list[int] = []  # of the log, when each record of the journal was written
        self.rejoin = False
        self.last_s = 0.0  # when it last did anything
        self.state: State | None = None  # None: not running
        self.life = 0
        self.lost = False
        self.exit_code: int | None = None
        self.offset_s = 0.0  # its clock against the world's
        self.wake_at: float | None = None


class Call:
    """One Send until its one answer."""

    __slots__ = ("attempt", "done", "life", "peer", "request", "sender")

    def __init__(self, sender: int, life: int, peer: int, attempt: int, request: Request) -> None:
        self.sender, self.life, self.peer, self.attempt, self.request = sender, life, peer, attempt, request
        self.done = False


class KilledError(Exception):
    """The process dies here: the rest of its effects do not happen."""

    def __init__(self, kill: Kill) -> None:
        self.kill = kill


class World(VirtualTime):
    """Runs one schedule; ``run`` returns when everybody has the result, or raises ``ViolationError``."""

    def __init__(self, schedule: Schedule, tell: Callable[[str], None] | None = None) -> None:
        super().__init__()
        self.schedule = schedule
        self.cast: Members = cast(schedule.scenario)
        self._tell = tell
        self._random = seeded("world", schedule.seed)
        self._dice = ScheduleDice(seeded("dice", schedule.seed))
        self._source = SeededSource(b"world %d" % schedule.seed)
        self._next_noise = self._random.randrange(len(self.cast.pool))
        self.network = Network(self._random, schedule.weather)
        self.users = [Process(ctx) for ctx in self.cast.contexts]
        self._timing = self.cast.contexts[0].timing
        self._tickets: dict[int, Call] = {}
        self._kills = {kill: kill.nth for kill in schedule.kills}
        self._drops = dict(schedule.drops)
        plan = self.cast.scenario.plan
        self._may_lose = plan.n - max(plan.majority, plan.walk.min_live)
        self.checks = Invariants(self.cast.contexts, make_task(plan), lambda user: self.now + self.users[user].offset_s)

    def run(self) -> None:
        late = {event.user: event.value for event in self.schedule.timed if event.what == "late"}
        for user in range(len(self.users)):
            self.at(late.get(user, 0.0) + self._random.random() * 0.05, self.start, user)
        for event in self.schedule.timed:
            if event.what != "late":
                self.at(event.at_s, self._happen, event)
        self.at(self.schedule.quiet_s, self._quiet)
        deadline = self.schedule.quiet_s + PATIENCE_S
        while self._queue and not self.over:
            action, arguments = self.advance()
            if self.now > deadline:
                raise ViolationError(f"no result {PATIENCE_S:g} s after the last fault: {self._standing()}")
            if self.events > MAX_EVENTS:
                raise ViolationError(f"busy without end: {self._standing()}")
            action(*arguments)
        if not self.over:
            raise ViolationError(f"nothing will ever happen again: {self._standing()}")
        for index, process in enumerate(self.users):
            self.checks.numbers(index, process.log)

    @property
    def over(self) -> bool:
        return all(user.lost or user.disk.durable.final for user in self.users)

    def _standing(self) -> str:
        parts = []
        for index, user in enumerate(self.users):
            state = "lost" if user.lost else f"exit {user.exit_code}" if user.state is None else user.state.phase.name
            watch = "" if user.state is None else f"/{user.state.watch.name}"
            parts.append(f"u{index} {state}{watch}{' final' if user.disk.durable.final else ''}")
        return ", ".join(parts)

    # ---- faults -----------------------------------------------------------------------------------------------

    def _happen(self, event: Timed) -> None:
        if self.now >= self.schedule.quiet_s and event.what != "old disk":
            return
        self.tell(f"-- {event.what} u{event.user} {sorted(event.group) or ''}")
        user = self.users[event.user]
        match event.what:
            case "split":
                self.network.split(event.group, len(self.users))
            case "heal":
                self.network.heal()
            case "full" | "free":
                user.disk.full = event.what == "full"
            case "jump":
                user.offset_s += event.value
                self._set_timer(event.user)
            case "kill":
                if user.state is not None:
                    self._die(event.user, Kill("", 0, event.value, machine=False))
            case "stop":
                self.feed(event.user, Stopping())
            case "old disk":
                self.at(self.now + 0.05, self._put_old_disk_back, event.user, event.value)
            case "late":
                pass

    def _put_old_disk_back(self, user: int, part: float) -> None:
        process = self.users[user]
        self._hang_up(user)
        records = int(part * (process.disk.records + 1))
        process.disk.cut(records)
        process.sizes = process.sizes[:records]
        if self._random.random() < 0.5:  # the log is as old as the journal, or was kept elsewhere
            process.log.cut(process.sizes[-1] if process.sizes else 0)
        process.told.clear()
        self.checks.old_disk(user, process.disk.durable)
        self.tell(f"-- u{user} comes back with an old disk ({process.disk.records} records)")
        self.at(self.now + self._random.choice((0.03, 0.1, 0.3)), self.start, user)

    def _quiet(self) -> None:
        """Nothing goes wrong from here on, and whoever can come back does: with the result only if an old disk is
        about to be put back, which those that have finished may be the only ones to recognise."""
        self.tell("-- all faults are over")
        witnesses = any(event.what == "old disk" for event in self.schedule.timed)
        self._kills.clear()
        self.network.calm()
        for index, user in enumerate(self.users):
            user.disk.full = False
            if not user.lost and (witnesses or not user.disk.durable.final):
                self.at(self.now, self.start, index)
        self.at(self.now + RELAUNCH_S, self._relaunch)

    def _relaunch(self) -> None:
        """Some have left with the result, others still miss it: the operator starts the finished users again."""
        for index, user in enumerate(self.users):
            if not user.lost:
                self.at(self.now, self.start, index)
        self.at(self.now + RELAUNCH_S, self._relaunch)

    def _strike(self, effect: Effect) -> None:
        """Dies just before this effect, where the schedule says so."""
        body: object = effect
        if isinstance(effect, Send):
            body = effect.request
        elif isinstance(effect, Reply):
            body = effect.answer
        name = type(body).__name__
        for kill, left in self._kills.items():
            if kill.effect == name:
                self._kills[kill] = left - 1
                if left == 1:
                    del self._kills[kill]
                    raise KilledError(kill)

    def _can_do_without(self, user: int) -> bool:
        """Where losing one user for good cuts others off, no walk can end."""
        left = {other for other, process in enumerate(self.users) if not process.lost} - {user}
        return self.cast.scenario.plan.topology.holds_together(left)

    def _die(self, user: int, kill: Kill) -> None:
        process = self.users[user]
        self._hang_up(user)
        if kill.restart_after_s is None and self._may_lose > 0 and self._can_do_without(user):
            self._may_lose -= 1
            process.lost = True
            self.tell(f"-- u{user} is lost for good")
            return
        process.log.lose_unwritten()
        if kill.machine:
            process.log.lose_unsynced(self._random.randint(0, process.log.unsynced))
        unsynced = process.disk.unsynced
        if unsynced:
            # A process holds such records back for a moment: killed, it loses all of them, or none if it just wrote.
            keep = self._random.randint(0, unsynced) if kill.machine else self._random.choice((0, unsynced))
            process.disk.lose_unsynced(keep)
            process.sizes = process.sizes[: process.disk.records]
        self.tell(f"-- u{user} is killed{' (power)' if kill.machine else ''}")
        self.at(self.now + (kill.restart_after_s or 1.0), self.start, user)

    def _hang_up(self, user: int) -> None:
        """A process ends, and with it its streams: peers that can be reached notice."""
        self.users[user].state = None
        for peer, process in enumerate(self.users):
            if process.state is not None:
                for delay in self.network.copies(user, peer)[:1]:
                    self.at(self.now + delay, self._cold, peer, process.life, user)

    def _cold(self, user: int, life: int, peer: int) -> None:
        if self.users[user].life == life:
            self.feed(user, StreamClosed(peer))

    def start(self, user: int) -> None:
        process = self.users[user]
        if process.state is not None or process.lost:
            return
        self.tell(f"-- u{user} starts")
        process.life += 1
        process.exit_code = process.wake_at = None
        self._open_log(user, process)
        process.state = State(durable=process.disk.durable)
        self.feed(user, Begin(again=process.life > 1))
        process.log.settle()

    def _open_log(self, user: int, process: Process) -> None:
        """As a user's process does: complete the log from the journal. Then nothing may be missing in it."""
        process.log.open()
        known = set(process.log)
        wall_time = self.now + process.offset_s
        in_step.begin(process.disk, process.log, rejoin=process.rejoin, wall_time=wall_time)
        process.log.append(view.encode("start", life=process.life, time=wall_time))
        process.sizes += [process.log.size] * (process.disk.records - len(process.sizes))
        process.rejoin = False
        for line in process.log:
            # With nothing in hand, what was never logged before never left, and never will.
            if line not in known and process.disk.durable.custody is not None:
                self._read(user, process, line)
        if missing := process.told.keys() - set(process.log):
            raise ViolationError(f"u{user}: {len(missing)} lines of its view log are lost: {min(missing)[:200]}")
        self.checks.numbers(user, process.log)

    # ---- transitions ------------------------------------------------------------------------------------------

    def _take_noise(self) -> NoiseDraw:
        self._next_noise = (self._next_noise + 1) % len(self.cast.pool)
        return NoiseDraw(self.cast.pool[self._next_noise].noise, self._source)

    def feed(self, user: int, event: Event) -> None:
        """One event, as the runtime would: persist first, void the transition if that fails, then the rest in order."""
        process = self.users[user]
        state = process.state
        if state is None:
            return
        now = self.now + process.offset_s
        if self.now > process.last_s + WRITE_AFTER_S:
            process.log.flush()
        process.last_s = self.now
        inputs = Inputs(now, self._dice, self._take_noise, now)
        after, effects = machine.step(process.ctx, state, event, inputs)
        if process.disk.full and any(isinstance(effect, Persist) for effect in effects):
            if isinstance(event, PersistFailed):
                raise ViolationError(f"u{user} journals although its disk is full")
            self.tell(f"   u{user} disk full")
            self.feed(user, PersistFailed(event))
            return
        process.state = after
        try:
            for effect in effects:
                if self._kills:
                    self._strike(effect)
                if not isinstance(effect, Log | Persist):
                    process.log.flush()
                self._carry_out(user, process, effect, state)
                if process.state is None:
                    return
        except KilledError as death:
            self._die(user, death.kill)
            return
        if isinstance(event, Answered):
            process.log.flush()
        if process.disk.durable != after.durable:
            raise ViolationError(f"u{user}: its journal does not lead to its state")
        self._set_timer(user)

    def _carry_out(self, user: int, process: Process, effect: Effect, state: State) -> None:
        disk = process.disk
        if self._tell is not None:
            text = trace.effect_text(effect)
            if text is not None:
                self.tell(f"   u{user} {text}")
        match effect:
            case Persist():
                before = disk.durable
                assert process.state is not None
                in_step.write(disk, process.log, effect, state, process.state)
                process.sizes.append(process.log.size)
                self.checks.persisted(process.ctx, before, disk.durable, process.state)
            case Log(line):
                process.log.append(line)
                self._read(user, process, line)
            case Send():
                self.checks.sending(process.ctx, disk.durable, effect)
                self._send(user, process, effect)
            case Reply(ticket, answer):
                call = self._tickets.pop(ticket)
                self.checks.replying(process.ctx, disk.durable, call.request, answer)
                self._reply(user, call, answer)
            case Compute(payload, number, visit):
                result = process.ctx.worker.contribute(payload, number)
                self.at(self.now + COMPUTE_S, self._computed, user, process.life, Computed(result, visit))
            case Finished():
                self.checks.finished(process.ctx, effect)
            case Stop(code, _):
                self._stop(user, process, code)
            case _:
                pass

    def _read(self, user: int, process: Process, line: str) -> None:
        """A line is in the log: what does it say?"""
        record = self.checks.evidence.log(user, line)
        if record.kind in ("visit", "sent", "finish"):
            process.told[line] = None
        if record.kind == "finish":
            self.checks.ended(process.ctx, process.disk.durable)
        elif record.kind == "visit" and record.fields["cause"] != "handoff":
            self._issued(user, record.epoch)

    def _issued(self, user: int, epoch: Epoch) -> None:
        """A token appears that nobody handed over: the first one, or one a majority gave its promise for."""
        forgetful = sum(event.what == "old disk" for event in self.schedule.timed)
        promised = sum(process.disk.durable.promised >= epoch for process in self.users)
        if promised + forgetful < self.cast.contexts[0].majority:
            raise ViolationError(f"u{user} issues epoch {epoch} with {promised} promises")

    def _computed(self, user: int, life: int, event: Computed) -> None:
        if self.users[user].life == life:
            self.feed(user, event)

    def _stop(self, user: int, process: Process, code: int) -> None:
        self._hang_up(user)
        process.exit_code = code
        if code == OLD_DISK:
            process.rejoin = True
            process.told.clear()
            self.checks.evidence.eras[user] += 1
            self.at(self.now + 1.0, self.start, user)
        elif code == STALLED:
            self.at(self.now + 5.0, self.start, user)

    def _set_timer(self, user: int) -> None:
        process = self.users[user]
        if process.state is None:
            return
        wake_at = process.state.wake_at
        if wake_at is not None:
            wake_at += TICK_S - process.offset_s
        if wake_at != process.wake_at:
            process.wake_at = wake_at
            if wake_at is not None:
                self.at(wake_at, self._tick, user, process.life, wake_at)

    def _tick(self, user: int, life: int, wake_at: float) -> None:
        process = self.users[user]
        if process.life == life and process.wake_at == wake_at and process.state is not None:
            process.wake_at = None
            self.feed(user, Tick())

    # ---- messages ---------------------------------------------------------------------------------------------

    def _timeout_s(self, request: Request) -> float:
        if isinstance(request, Offer):
            return self._timing.offer_timeout_s
        return self._timing.handoff_timeout_s if isinstance(request, Handoff) else self._timing.locate_timeout_s

    def _send(self, user: int, process: Process, send: Send[Request]) -> None:
        call = Call(user, process.life, send.peer, send.attempt, send.request)
        delays = self._fate(user, send.peer, send.request)
        if self._tell is not None:
            fate = "" if delays else "  (lost)"
            self.tell(f"   u{user} -> u{send.peer} {trace.message(send.request)}{fate}")
        for delay in delays:
            self.at(self.now + delay, self._arrive, call)
        self.at(self.now + self._timeout_s(send.request), self._answer, call, None)

    def _fate(self, sender: int, receiver: int, message: object) -> list[float]:
        name = type(message).__name__
        if name in self._drops:
            self._drops[name] -= 1
            if self._drops[name] == 0:
                return []
        return self.network.copies(sender, receiver)

    def _arrive(self, call: Call) -> None:
        receiver = self.users[call.peer]
        if receiver.state is None:
            self.at(self.now + 0.001, self._answer, call, None)
            return
        ticket = self.serial()
        self._tickets[ticket] = call
        self.checks.delivered(call.peer, call.request)
        self.feed(call.peer, Received(call.sender, ticket, call.request))
        if self._tickets.pop(ticket, None) is not None and receiver.state is not None:
            raise ViolationError(f"u{call.peer} left {trace.message(call.request)} without an answer")

    def _reply(self, user: int, call: Call, answer: Answer) -> None:
        delays = self._fate(user, call.sender, answer)
        if self._tell is not None:
            fate = "" if delays else "  (lost)"
            self.tell(f"   u{user} -> u{call.sender} {trace.message(answer)}{fate}")
        if delays:
            self.at(self.now + delays[0], self._answer, call, answer)

    def _answer(self, call: Call, answer: Answer | None) -> None:
        if call.done:
            return
        call.done = True
        if self.users[call.sender].life == call.life:
            self.feed(call.sender, Answered(call.peer, call.attempt, call.request, answer))

    def tell(self, text: str) -> None:
        if self._tell is not None:
            self._tell(f"{self.now:8.3f} {text}")
