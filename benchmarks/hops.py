"""A hop of our token against a hop of a bare one, side by side: warm, cold, and with a long token."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from statistics import median

from benchmarks.bare_member import SKIPPED
from benchmarks.bare_rings import ring_rate
from benchmarks.bench import Bench
from benchmarks.rows import Row, Target
from benchmarks.town import Visit, make_plan, make_run, vector_task, visits, walk
from node.zygote import LONG_WALK

SMALL_BYTES = 100
MIB = 1 << 20
RING = 5
BARE = ("unary", "synced", "tls")


def ring_hops_per_s(seen: Sequence[Visit]) -> float:
    """Hops per second between the visits of one user of a ring; the first fifth is left out."""
    warm = seen[int(len(seen) * SKIPPED) :]
    return (warm[-1].step - warm[0].step) / (warm[-1].time - warm[0].time)


def our_rate(folder: Path, rounds: int, *, dimension: int, durability: str, noise: bool = True, n: int = RING) -> float:
    """Hops per second of a ring of our users; a long token is one number a coordinate and is not logged."""
    long = dimension > 1
    plan = make_plan(
        n, task=vector_task(dimension, noise=noise) if long else None, topology="ring", rounds=rounds,
        durability=durability, log_values=not long, release="holder" if long else "all",
    )  # fmt: skip
    run = make_run(folder, plan)
    walk(run)
    return ring_hops_per_s(visits(run, "user-0"))


def warm(bench: Bench) -> list[Row]:
    """A ring of five, 100 B and 1 MiB: bare, ours, bare, ours; medians."""
    # Ours walks far enough to share its memory for ever (docs/adr/0012), which takes a while at the start.
    rows = _warm(bench, "100 B", SMALL_BYTES, 1, hops=bench.pick(3000, 300), our_hops=bench.pick(LONG_WALK, 300))
    long_hops = bench.pick(300, 50)
    return rows + _warm(bench, "1 MiB", MIB, MIB // 8, hops=long_hops, our_hops=long_hops)


def _warm(bench: Bench, name: str, size: int, dimension: int, hops: int, our_hops: int) -> list[Row]:
    keys = make_run(bench.folder / f"warm-{size}-keys", make_plan(RING, topology="ring", rounds=1))
    long = dimension > 1
    found: dict[str, list[float]] = {}
    for turn in range(bench.pick(3, 1)):
        for kind in BARE:
            bench.say(f"warm hop, {name}: bare {kind} ring")
            found.setdefault(kind, []).append(ring_rate(keys, RING, size, hops, kind))
        for durability in ("process", "machine"):
            bench.say(f"warm hop, {name}: ours, durability {durability}")
            folder = bench.folder / f"warm-{size}-{durability}-{turn}"
            rate = our_rate(folder, our_hops // RING, dimension=dimension, durability=durability, noise=not long)
            found.setdefault(durability, []).append(rate)
    bench.say(f"warm hop, {name}: bare unary ring with our poller")
    found["tuned"] = [ring_rate(keys, RING, size, hops, "unary", tuned=True)]  # to know, not to compare with: once
    rate_of = {kind: median(rates) for kind, rates in found.items()}
    what = f"{name} token" + (", noise not drawn" if long else "")
    rows = [Row("warm", f"bare {kind} ring, {name}", rate_of[kind], "hops/s") for kind in BARE]
    rows.append(Row("warm", f"bare unary ring, {name}, our poller", rate_of["tuned"], "hops/s"))
    for durability, limit in (("process", 1.0), ("machine", 0.8)):
        rate = rate_of[durability]
        title = f"{what}, durability {durability}"
        target = Target(limit, "high")
        rows.append(Row("warm", title, rate, "hops/s", rate / rate_of["unary"], "bare unary gRPC", target))
        rows.append(Row("warm", title, rate, "hops/s", rate / rate_of["tls"], "bare asyncio TLS"))
    synced = rate_of["machine"] / rate_of["synced"]
    title = f"{what}, durability machine"
    rows.append(Row("warm", title, rate_of["machine"], "hops/s", synced, "bare unary gRPC, one sync a hop"))
    if long:
        bench.say(f"warm hop, {name}: ours with exact noise")
        folder = bench.folder / f"warm-{size}-noisy"
        rate = our_rate(folder, bench.pick(20, 3), dimension=dimension, durability="process")
        title = f"{name} token, exact noise drawn"
        rows.append(Row("warm", title, rate, "hops/s", rate / rate_of["unary"], "bare unary gRPC"))
    return rows


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
    comes, and with what our users ask of poller and allocator."""
    size = bench.pick(64 * MIB, 4 * MIB)
    name, n = f"{size // MIB} MiB token", 3
    rounds = bench.pick(10, 3)
    keys = make_run(bench.folder / "large-keys", make_plan(n, topology="ring", rounds=1))
    plain, kept, ours = [], [], []
    for turn in range(bench.pick(3, 1)):
        bench.say(f"{name}: bare stream")
        plain.append(ring_rate(keys, n, size, rounds * n, "stream"))
        bench.say(f"{name}: bare stream that keeps its memory")
        kept.append(ring_rate(keys, n, size, rounds * n, "kept", tuned=True))
        bench.say(f"{name}: ours, noise not drawn")
        folder = bench.folder / f"large-{turn}"
        ours.append(our_rate(folder, rounds, dimension=size // 8, durability="process", noise=False, n=n))
    bench.say(f"{name}: ours with exact noise")
    noisy_rounds = bench.pick(10, 3)  # the first two use what was drawn before the walk began: they are left out
    noisy = our_rate(bench.folder / "large-noisy", noisy_rounds, dimension=size // 8, durability="process", n=n)
    megabytes = size / 1e6
    plain_mb, kept_mb, our_mb, noisy_mb = (rate * megabytes for rate in (*map(median, (plain, kept, ours)), noisy))
    best_mb, target = max(plain_mb, kept_mb), Target(0.7, "high")
    best, title = "best bare gRPC stream", f"{name}, noise not drawn"
    return [
        Row("large", f"bare gRPC stream, {name}", plain_mb, "MB/s"),
        Row("large", f"bare gRPC stream, {name}, memory kept, our poller", kept_mb, "MB/s"),
        Row("large", title, our_mb, "MB/s", our_mb / best_mb, best, target),
        Row("large", title, our_mb, "MB/s", our_mb / plain_mb, "bare gRPC stream"),
        Row("large", f"{name}, exact noise drawn", noisy_mb, "MB/s", noisy_mb / best_mb, best),
    ]
