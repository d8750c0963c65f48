"""Anonymous rounds per second, against a bare round of as many processes in the same run."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from statistics import fmean

from benchmarks.bench import Bench
from benchmarks.memory import KIB_PER_MIB, private_kib
from benchmarks.rows import Row, Target
from benchmarks.town import launched, until
from coordinator_free_launcher.identity.bundle import user_folder
from coordinator_free_launcher.local.demo_data import provision_demo
from coordinator_free_launcher.local.ports import free_ports, with_free_ports
from network_dp.plan_reader import from_dict
from network_dp.view import decode
from node.environment import ONE_POLLER

DIMENSION = 118  # a block of 1 KiB
BLOCK_BYTES = 1024
BEAT_MS = 0.118  # the least that a plan of this dimension may have; a real run waits longer
STEPS = {10: 600, 50: 250, 200: 60}
SECONDS = 5.0
BARE_TIMEOUT_S = 120.0
MOST_MIB = Target(10.0, "low", "value")


def rounds(bench: Bench) -> Iterator[Row]:
    sizes = {4: 30} if bench.quick else STEPS
    for n, steps in sizes.items():
        yield from _measured(bench, n, steps)


def _measured(bench: Bench, n: int, steps: int) -> list[Row]:
    bench.say(f"{n} users in anonymous rounds")
    folder = _provisioned(bench.folder / f"rounds-{n}", n, steps)
    bare = _bare(folder, 0.5 if bench.quick else SECONDS)
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    with launched(folder) as running:
        running.start_all(lambda progress: None)
        until(running, "half of the walk", lambda: running.step >= steps // 2)
        used_mib = fmean(private_kib(pid) / KIB_PER_MIB for pid in running.pool.pids.values())
        until(running, "all end", lambda: len(running.outcome.codes) == n)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    count, seconds = _rounds(folder)
    cpu_ms = 1000.0 * (after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime) / (n * count)
    ratio = count / seconds / bare
    return [
        Row("rounds", f"{n} users", count / seconds, "rounds/s", ratio, "bare round", Target(0.5, "high")),
        Row("rounds", f"{n} users, CPU per user", cpu_ms, "ms/round", better="low", note="with starting and ending"),
        Row("rounds", f"{n} users, private memory", used_mib, "MiB/user", target=MOST_MIB, better="low"),
    ]


def _provisioned(folder: Path, n: int, steps: int) -> Path:
    plan = from_dict(
        {
            "name": f"rounds-{n}",
            "walk": {"topology": "complete", "steps": steps, "path": "hidden", "durability": "process"},
            "rounds": {"beat_ms": BEAT_MS},
            "timing": {"handoff_timeout_s": 20.0, "lease_s": 60.0},
            "task": {"kind": "sum", "dimension": DIMENSION},
            "noise": {"sigma": 1.0},
            "users": [{"name": f"user-{i}", "address": f"127.0.0.1:{20000 + i}"} for i in range(n)],
        }
    )
    return provision_demo(with_free_ports(plan), folder)


def _bare(folder: Path, seconds: float) -> float:
    """Rounds per second of the least that could do it."""
    port = str(next(iter(free_ports(1))))
    command = [sys.executable, "-m", "benchmarks.bare_round", str(folder), port, str(BLOCK_BYTES), str(seconds)]
    environment = {**os.environ, **ONE_POLLER, "GRPC_VERBOSITY": "NONE", "GRPC_ENABLE_FORK_SUPPORT": "0"}
    done = subprocess.run(command, capture_output=True, text=True, timeout=BARE_TIMEOUT_S, env=environment, check=True)
    return float(done.stdout)


def _rounds(folder: Path) -> tuple[int, float]:
    """Rounds of a run and how long they took, as one user's own log says, while the token moved."""
    lines = (user_folder(folder, "user-1") / "state" / "view.jsonl").read_text().splitlines()
    blocks = [record for line in lines if (record := decode(line)).kind == "round" and record.step > 0]
    return len(blocks) - 1, blocks[-1].fields["time"] - blocks[0].fields["time"]
