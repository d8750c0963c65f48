"""A hop of our token against a hop of a bare one, side by side: warm, cold, and with a long token."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from itertools import pairwise
from pathlib import Path
from statistics import median

from benchmarks.bare_rings import SKIPPED, bare_ring, ring_rate
from benchmarks.bench import Bench
from benchmarks.rows import Row, Target
from benchmarks.town import Visit, launched, make_plan, make_run, start_all, until, vector_task, visits, walk
from benchmarks.turns import Mark, Ring, Turns, paired, take_turns
from network_dp.plan import Plan
from node.many.zygote import LONG_WALK

SMALL_BYTES = 100
MIB = 1 << 20
RING = 5
BARE = ("unary", "synced", "tls")
FASTEST = 5_000  # hops per second that no ring of ours makes: a walk longer than its turns
FIRST_VISITS = 5  # of a user, before the first turn: until then nothing is warm


def ring_hops_per_s(seen: Sequence[Visit]) -> float:
    """Hops per second between the visits of one user of a ring; the first fifth is left out."""
    warm = seen[int(len(seen) * SKIPPED) :]
    return (warm[-1].step - warm[0].step) / (warm[-1].time - warm[0].time)


def _plan(rounds: int, *, dimension: int, durability: str, noise: bool, n: int) -> Plan:
    """A ring of our users; a long token is one number a coordinate and is not logged."""
    long = dimension > 1
    return make_plan(
        n,
        task=vector_task(dimension, noise=noise) if long else None,
        topology="ring",
        rounds=rounds,
        durability=durability,
        log_values=not long,
        release="holder" if long else "all",
    )


def our_rate(folder: Path, rounds: int, *, dimension: int, durability: str, noise: bool = True, n: int = RING) -> float:
    """Hops per second of a ring of our users that goes round by itself."""
    run = make_run(folder, _plan(rounds, dimension=dimension, durability=durability, noise=noise, n=n))
    walk(run)
    return ring_hops_per_s(visits(run, "user-0"))


@contextmanager
def our_ring(
    name: str, folder: Path, rounds: int, *, dimension: int, durability: str, noise: bool = True, n: int = RING
) -> Iterator[Ring]:
    """A ring of our users to take turns with; stopped, until its first one."""
    run = make_run(folder, _plan(rounds, dimension=dimension, durability=durability, noise=noise, n=n))
    with launched(run) as launch:
        start_all(launch)
        until(launch, "the token goes round", lambda: len(visits(run, "user-0")) >= FIRST_VISITS)

        def marks() -> Sequence[Mark]:
            return [(visit.time, visit.step) for visit in visits(run, "user-0")]

        ring = Ring(name, list(launch.pool.pids.values()), marks)
        ring.pause()
        yield ring


# ---- warm ----------------------------------------------------------------------------------------------------


def warm(bench: Bench) -> list[Row]:
    """A ring of five, 100 B and 1 MiB, bare and ours."""
    short, long = Turns(8, 1.5, 0.3), Turns(6, 1.5, 0.3)
    few = Turns(2, 0.5, 0.1)
    rows = _warm(bench, "100 B", SMALL_BYTES, 1, bench.pick(short, few), bench.pick(3000, 300))
    return rows + _warm(bench, "1 MiB", MIB, MIB // 8, bench.pick(long, few), bench.pick(300, 50))


def _warm(bench: Bench, name: str, size: int, dimension: int, turns: Turns, tuned_hops: int) -> list[Row]:
    keys = make_run(bench.folder / f"warm-{size}-keys", make_plan(RING, topology="ring", rounds=1))
    long = dimension > 1
    # Ours walks far enough to share its memory for ever (docs/adr/0012), which takes a while at the start.
    rounds = max(bench.pick(LONG_WALK, 0), int(turns.count * turns.seconds * FASTEST)) // RING
    with ExitStack() as stack:
        rings = []
        for kind in BARE:
            bench.say(f"warm hop, {name}: a bare {kind} ring comes up")
            rings.append(stack.enter_context(bare_ring(kind, keys, RING, size, kind)))
        for durability in ("process", "machine"):
            bench.say(f"warm hop, {name}: ours comes up, durability {durability}")
            folder = bench.folder / f"warm-{size}-{durability}"
            ours = our_ring(durability, folder, rounds, dimension=dimension, durability=durability, noise=not long)
            rings.append(stack.enter_context(ours))
        bench.say(f"warm hop, {name}: {turns.count} turns of {turns.seconds:g} s each")
        rates = take_turns(rings, turns)
    bench.say(f"warm hop, {name}: bare unary ring with our poller")
    tuned = ring_rate(keys, RING, size, tuned_hops, "unary", tuned=True)  # to know, not to compare with: once
    unit, each = ("MB/s", size / 1e6) if long else ("hops/s", 1.0)
    rows = [Row("warm", f"bare {kind} ring, {name}", each * median(rates[kind]), unit) for kind in BARE]
    rows.append(Row("warm", f"bare unary ring, {name}, our poller", each * tuned, unit))
    what = f"{name} token" + (", noise not drawn" if long else "")
    for durability, limit in (("process", 1.0), ("machine", 0.8)):
        title, target = f"{what}, durability {durability}", Target(limit, "high")
        rows.append(_against("warm", title, rates, durability, "unary", "bare unary gRPC", target, unit, each))
        rows.append(_against("warm", title, rates, durability, "tls", "bare asyncio TLS", None, unit, each))
    title, rival = f"{what}, durability machine", "bare unary gRPC, one sync per hop"
    rows.append(_against("warm", title, rates, "machine", "synced", rival, None, unit, each))
    if long:
        bench.say(f"warm hop, {name}: ours with exact noise")
        folder = bench.folder / f"warm-{size}-noisy"
        rate = our_rate(folder, bench.pick(20, 3), dimension=dimension, durability="process")
        title = f"{name} token, exact noise drawn"
        rows.append(Row("warm", title, each * rate, unit, rate / median(rates["unary"]), "bare unary gRPC"))
    return rows


def _against(
    section: str,
    title: str,
    rates: Mapping[str, Sequence[float]],
    ours: str,
    rival: str,
    against: str,
    target: Target | None = None,
    unit: str = "hops/s",
    each: float = 1.0,
) -> Row:
    """One of our rings against another that took turns with it; ``each``: units a hop."""
    ratio, error = paired(rates[ours], rates[rival])
    return Row(section, title, each * median(rates[ours]), unit, ratio, against, target, error=error)


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
    hops = bench.pick(1000, 100)
    keys = make_run(bench.folder / "cold-keys", make_plan(CROWD, topology="ring", rounds=1))
    bare, ours = [], []
    for turn in range(bench.pick(3, 1)):
        bench.say("cold hop: bare ring")
        bare.append(1.0 / ring_rate(keys, CROWD, SMALL_BYTES, hops, "cold"))
        bench.say("cold hop: ours, one connection kept")
        plan = make_plan(CROWD, topology="complete", steps=hops, durability="process")
        run = make_run(bench.folder / f"cold-{turn}", plan)
        walk(run, warm_channels="1")
        ours.append(cold_hop_s(visits(run)))
    bare_s, our_s = median(bare), median(ours)
    target = Target(1.6, "low")
    return [
        Row("cold", "bare connect + handshake + call + close", 1000 * bare_s, "ms", better="low"),
        Row("cold", "our hop to a peer not connected", 1000 * our_s, "ms", our_s / bare_s, "bare cold", target, "low"),
    ]


# ---- long tokens ---------------------------------------------------------------------------------------------


def large(bench: Bench) -> list[Row]:
    """64 MiB in chunks, a ring of three, against the better of two bare gRPC streams in chunks of 512 KiB: gRPC as it
    comes, and with what our users ask of poller and allocator. And a bare asyncio TLS ring, to know."""
    size = bench.pick(64 * MIB, 4 * MIB)
    name, n = f"{size // MIB} MiB token", 3
    turns = bench.pick(Turns(6, 5.0, 0.5), Turns(2, 1.0, 0.1))
    keys = make_run(bench.folder / "large-keys", make_plan(n, topology="ring", rounds=1))
    rounds = int(turns.count * turns.seconds * bench.pick(40, 400)) // n
    with ExitStack() as stack:
        rings = []
        for kind, tuned in (("stream", False), ("kept", True), ("tls", False)):
            bench.say(f"{name}: a bare {kind} ring comes up")
            rings.append(stack.enter_context(bare_ring(kind, keys, n, size, kind, tuned=tuned)))
        bench.say(f"{name}: ours comes up, noise not drawn")
        folder = bench.folder / "large"
        ours = our_ring("ours", folder, rounds, dimension=size // 8, durability="process", noise=False, n=n)
        rings.append(stack.enter_context(ours))
        bench.say(f"{name}: {turns.count} turns of {turns.seconds:g} s each")
        rates = take_turns(rings, turns)
    bench.say(f"{name}: ours with exact noise")
    noisy_rounds = bench.pick(10, 3)  # the first two use what was drawn before the walk began: they are left out
    noisy = our_rate(bench.folder / "large-noisy", noisy_rounds, dimension=size // 8, durability="process", n=n)
    each, target = size / 1e6, Target(0.7, "high")
    noisy *= each
    plain, kept = (each * median(rates[kind]) for kind in ("stream", "kept"))
    best, title = "kept" if kept > plain else "stream", f"{name}, noise not drawn"
    return [
        Row("large", f"bare gRPC stream, {name}", plain, "MB/s"),
        Row("large", f"bare gRPC stream, {name}, memory kept, our poller", kept, "MB/s"),
        _against("large", title, rates, "ours", best, "best bare gRPC stream", target, "MB/s", each),
        _against("large", title, rates, "ours", "stream", "bare gRPC stream", None, "MB/s", each),
        _against("large", title, rates, "ours", "tls", "bare asyncio TLS", None, "MB/s", each),
        Row("large", f"{name}, exact noise drawn", noisy, "MB/s", noisy / max(plain, kept), "best bare gRPC stream"),
    ]
