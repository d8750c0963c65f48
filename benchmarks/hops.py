"""A hop of our token against a hop of a bare one, side by side: warm, cold, and with a long token."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks.bare_rings import SKIPPED, bare_ring, ring_rate
from benchmarks.bench import Bench
from benchmarks.rows import Row, Target
from benchmarks.town import Visit, launched, make_plan, make_run, start_all, until, vector_task, visits, walk
from benchmarks.turns import Mark, Ring, Turns, paired, take_turns
from node.many.zygote import LONG_WALK

SMALL_BYTES = 100
MIB = 1 << 20
NUMBER_BYTES = 8  # a coordinate of a token
RING = 5
FASTEST = 5_000  # hops per second that no ring of ours makes: a walk longer than its turns
FIRST_VISITS = 5  # of a user, before the first turn: until then nothing is warm


@dataclass(frozen=True, slots=True)
class Ours:
    """A walk of our users, long enough for all its turns, with everything a real one does: exact noise is drawn."""

    topology: str
    durability: str
    size: int  # of the token, in bytes
    hops: int
    n: int = RING

    @property
    def name(self) -> str:
        return f"our {self.topology}, {self.durability}"

    @contextmanager
    def ring(self, folder: Path) -> Iterator[Ring]:
        """To take turns with; stopped, until its first one. A long token is not logged."""
        long = self.size > SMALL_BYTES
        length: dict[str, Any] = {"rounds": self.hops // self.n} if self.topology == "ring" else {"steps": self.hops}
        plan = make_plan(
            self.n,
            task=vector_task(self.size // NUMBER_BYTES) if long else None,
            topology=self.topology,
            durability=self.durability,
            log_values=not long,
            release="holder" if long else "all",
            **length,
        )
        run = make_run(folder, plan)
        # On a ring one user's log has it all; elsewhere everybody's is read.
        logs = ["user-0"] if self.topology == "ring" else list(plan.names)
        with launched(run) as launch:
            start_all(launch)
            until(launch, "the token goes round", lambda: len(visits(run, "user-0")) >= FIRST_VISITS)
            ring = Ring(self.name, list(launch.pool.pids.values()), lambda: marks_of(visits(run, *logs), self.topology))
            ring.pause()
            yield ring


def marks_of(seen: Sequence[Visit], topology: str) -> Sequence[Mark]:
    """Hops by when they had been made: those of a ring are its steps; elsewhere a hop to oneself counts for none."""
    if topology == "ring":
        return [(visit.time, visit.step) for visit in seen]
    found, hops = [], 0
    for visit in seen:
        hops += visit.sender != visit.user
        found.append((visit.time, hops))
    return found


@dataclass(frozen=True, slots=True)
class Contest:
    """Rings of one size of token that took turns, and what came out: hops a second, one number a turn."""

    section: str
    unit: str
    each: float  # units a hop
    rates: Mapping[str, Sequence[float]]

    def bare(self, what: str, name: str) -> Row:
        return Row(self.section, what, self.each * median(self.rates[name]), self.unit)

    def ours(self, what: str, name: str, rival: str, against: str, target: Target | None = None) -> Row:
        ratio, error = paired(self.rates[name], self.rates[rival])
        value = self.each * median(self.rates[name])
        return Row(self.section, what, value, self.unit, ratio, against, target, error=error)

    def best(self, *names: str) -> str:
        return max(names, key=lambda name: median(self.rates[name]))


def _contest(
    bench: Bench, section: str, title: str, bare: Mapping[str, bool], ours: Sequence[Ours], turns: Turns
) -> Contest:
    """All of them side by side, one running at a time; ``bare``: kinds, and whether with the poller of our users."""
    size, n = ours[0].size, ours[0].n
    keys = make_run(bench.folder / f"{section}-{size}-keys", make_plan(n, topology="ring", rounds=1))
    with ExitStack() as stack:
        rings = []
        for kind, tuned in bare.items():
            bench.say(f"{title}: a bare {kind} ring comes up")
            rings.append(stack.enter_context(bare_ring(kind, keys, n, size, kind, tuned=tuned)))
        for number, walk_of_ours in enumerate(ours):
            bench.say(f"{title}: {walk_of_ours.name} comes up")
            rings.append(stack.enter_context(walk_of_ours.ring(bench.folder / f"{section}-{size}-{number}")))
        bench.say(f"{title}: {turns.count} turns of {turns.seconds:g} s each")
        rates = take_turns(rings, turns, bench.say)
    unit, each = ("hops/s", 1.0) if size <= SMALL_BYTES else ("MB/s", size / 1e6)
    return Contest(section, unit, each, rates)


# ---- warm ----------------------------------------------------------------------------------------------------

UNARY, SYNCED = "bare unary gRPC", "bare unary gRPC, one sync per hop"
PROCESS, MACHINE, COMPLETE = "our ring, process", "our ring, machine", "our complete, process"
WARM_BARE = {"unary": False, "synced": False, "tls": False}


def warm(bench: Bench) -> Iterator[Row]:
    """A ring of five, 100 B and 1 MiB, bare and ours."""
    yield from _short(bench)
    yield from _mebibyte(bench)


def _short(bench: Bench) -> list[Row]:
    turns, name = bench.pick(Turns(6, 1.5, 0.3), Turns(2, 0.5, 0.1)), "100 B"
    # Ours walks far enough to share its memory for ever (docs/adr/0012), which takes a while at the start.
    hops = max(bench.pick(LONG_WALK, 0), int(turns.count * turns.seconds * FASTEST))
    ours = [Ours("ring", durability, SMALL_BYTES, hops) for durability in ("process", "machine")]
    found = _contest(bench, "warm", f"warm hop, {name}", WARM_BARE, ours, turns)
    bench.say(f"warm hop, {name}: bare unary ring with our poller")
    keys = bench.folder / f"warm-{SMALL_BYTES}-keys" / "run"
    tuned = ring_rate(keys, RING, SMALL_BYTES, bench.pick(3000, 300), "unary", tuned=True)  # to know: once
    process, machine = (f"{name} token, durability {durability}" for durability in ("process", "machine"))
    return [
        *(found.bare(f"bare {kind} ring, {name}", kind) for kind in WARM_BARE),
        Row("warm", f"bare unary ring, {name}, our poller", tuned, "hops/s"),
        found.ours(process, PROCESS, "unary", UNARY, Target(1.3, "high")),
        found.ours(process, PROCESS, "tls", "bare asyncio TLS"),
        found.ours(machine, MACHINE, "unary", UNARY, Target(0.8, "high")),
        found.ours(machine, MACHINE, "synced", SYNCED),
    ]


def _mebibyte(bench: Bench) -> list[Row]:
    turns, name = bench.pick(Turns(6, 1.5, 0.3), Turns(2, 0.5, 0.1)), "1 MiB"
    hops = max(bench.pick(LONG_WALK, 0), int(turns.count * turns.seconds * FASTEST))
    kinds = (("ring", "process"), ("ring", "machine"), ("complete", "process"))
    ours = [Ours(topology, durability, MIB, hops) for topology, durability in kinds]
    found = _contest(bench, "warm", f"warm hop, {name}", WARM_BARE, ours, turns)
    ring, complete = f"{name} token, ring", f"{name} token, complete graph"
    return [
        *(found.bare(f"bare {kind} ring, {name}", kind) for kind in WARM_BARE),
        found.ours(ring, PROCESS, "unary", UNARY, Target(0.8, "high")),
        found.ours(f"{ring}, durability machine", MACHINE, "unary", UNARY),
        found.ours(f"{ring}, durability machine", MACHINE, "synced", SYNCED),
        found.ours(complete, COMPLETE, "unary", UNARY, Target(0.5, "high")),
    ]


# ---- cold ----------------------------------------------------------------------------------------------------

CROWD = 20


def cold_hop_s(seen: Sequence[Visit]) -> float:
    """Mean seconds of a hop that had to connect: not to oneself, and not to the peer one sent to last (kept warm)."""
    last: dict[str, str] = {}
    times = []
    for before, after in pairwise(seen):
        if after.step != before.step + 1 or after.sender != before.user or after.user == before.user:
            continue
        if last.get(before.user) != after.user:
            times.append(after.time - before.time)
        last[before.user] = after.user
    kept = times[int(len(times) * SKIPPED) :]
    return sum(kept) / len(kept)


def cold(bench: Bench) -> list[Row]:
    """A complete graph of twenty, one connection kept a user, against connect + handshake + one call + close."""
    hops = bench.pick(700, 100)
    keys = make_run(bench.folder / "cold-keys", make_plan(CROWD, topology="ring", rounds=1))
    bare, ours = [], []
    for turn in range(bench.pick(4, 1)):
        bench.say("cold hop: bare ring")
        bare.append(1.0 / ring_rate(keys, CROWD, SMALL_BYTES, hops, "cold"))
        bench.say("cold hop: ours, one connection kept")
        plan = make_plan(CROWD, topology="complete", steps=hops, durability="process")
        run = make_run(bench.folder / f"cold-{turn}", plan)
        walk(run, warm_channels="1")
        ours.append(cold_hop_s(visits(run)))
    ratio, error = paired(ours, bare)
    what, target = "our hop to a peer not connected", Target(1.6, "low")
    return [
        Row("cold", "bare connect + handshake + call + close", 1000 * median(bare), "ms", better="low"),
        Row("cold", what, 1000 * median(ours), "ms", ratio, "bare cold", target, "low", error=error),
    ]


# ---- long tokens ---------------------------------------------------------------------------------------------

LARGE_RING = 3
LARGE_BARE = {"stream": False, "kept": True, "tls": False}


def large(bench: Bench) -> list[Row]:
    """64 MiB in chunks, three users, against the better of two bare gRPC streams in chunks of 512 KiB: gRPC as it
    comes, and with what our users ask of poller and allocator. And a bare asyncio TLS ring, to know."""
    size = bench.pick(64 * MIB, 4 * MIB)
    name = f"{size // MIB} MiB"
    turns = bench.pick(Turns(4, 4.0, 0.5), Turns(2, 1.0, 0.1))
    hops = int(turns.count * turns.most_s * bench.pick(40, 400))
    ours = [Ours(topology, "process", size, hops, LARGE_RING) for topology in ("ring", "complete")]
    found = _contest(bench, "large", f"{name} token", LARGE_BARE, ours, turns)
    best, against = found.best("stream", "kept"), "best bare gRPC stream"
    return [
        found.bare(f"bare gRPC stream, {name}", "stream"),
        found.bare(f"bare gRPC stream, {name}, memory kept, our poller", "kept"),
        found.bare(f"bare asyncio TLS ring, {name}", "tls"),
        found.ours(f"{name} token, ring", PROCESS, best, against, Target(0.4, "high")),
        found.ours(f"{name} token, ring", PROCESS, "stream", "bare gRPC stream"),
        found.ours(f"{name} token, complete graph", COMPLETE, best, against, Target(0.25, "high")),
    ]
