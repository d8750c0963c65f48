"""Speeds of what needs no network: fault simulation, exposure, bounds, figures, noise.

All in seconds of processor time, which other work on the machine hardly changes; what is measured here never waits.
"""

from __future__ import annotations

import os
import resource
import time
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from benchmarks.bench import Bench
from benchmarks.rows import Row, Target, growth
from network_dp import exposure as network_exposure
from network_dp.accounting import bounds as network_bounds
from network_dp.accounting import profile
from network_dp.accounting.moments import Law
from node.noise import SystemSource, discrete_gaussian, discrete_laplace
from simulator.faults.runner import run_many
from simulator.pairs import sum_losses
from simulator.walks import uniform

STEPS_PER_USER = 100
SEED = 20260116
AUTHORS_FIG2_CPU_S = 83.0  # their code, n = 200, T = 100 n, 10 walks, measured on this kind of machine
FIG2_WALKS = 10


def seconds(work: Callable[[], object]) -> float:
    started = time.process_time()
    work()
    return time.process_time() - started


def _children_s() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def faults(bench: Bench) -> list[Row]:
    """Schedules of the deterministic fault simulator a minute, with all cores to itself."""
    bench.say("fault simulator")
    started, jobs = _children_s(), os.cpu_count() or 1
    tally = run_many(SEED, bench.pick(3000, 100), None, max(2, jobs), lambda tally: None)
    rate = 60.0 * jobs * tally.schedules / (_children_s() - started)
    target = Target(10_000, "high", "value")
    note = f"{tally.schedules} schedules on {jobs} cores, {len(tally.failures)} failures"
    return [Row("faults", "fault schedules", rate, "1/min", target=target, note=note)]


# ---- exposure ------------------------------------------------------------------------------------------------


def pair_by_loop(walk: list[int], u: int, v: int) -> float:
    """S[u, v] of a sum, step by step (THEORY.md#exposure): c^2 / m of every cycle between two visits of v."""
    total, c, m = 0.0, 0, 0
    for holder in walk:
        if holder == v:
            if c:
                total += c * c / m
            c = m = 0
        else:
            m += 1
            if holder == u:
                c += 1
    return total


def _walk(n: int) -> NDArray[np.int64]:
    return uniform(n, STEPS_PER_USER * n, np.random.default_rng(SEED))


def exposure(bench: Bench) -> list[Row]:
    """All pairs of a walk, its growth, and a plain loop over steps and pairs for the same numbers."""
    rows = []
    sizes = bench.pick((500, 1000, 2000), (50, 100, 200))
    for task in ("sum", "sgd"):
        times = []
        for n in sizes:
            bench.say(f"exposure of all pairs, {task}, n = {n}")
            walk = _walk(n)
            times.append(seconds(lambda walk=walk, n=n, task=task: network_exposure.matrix(walk, n, task)))  # type: ignore[misc]
        what = f"exposure of all pairs, {task}, n = {sizes[-1]}, T = {STEPS_PER_USER * sizes[-1]}"
        rows.append(Row("exposure", what, times[-1], "CPU s", target=Target(20.0, "low", "value"), better="low"))
        rows.append(growth("exposure", f"exposure, {task}, T = 100 n", sizes, times))
    return [*rows, _against_loop(bench), _fig2(bench)]


def _against_loop(bench: Bench) -> Row:
    n = bench.pick(400, 40)
    walk = _walk(n)
    bench.say(f"exposure against a loop over steps and pairs, n = {n}")
    matrix = network_exposure.matrix(walk, n, "sum")
    ours = seconds(lambda: network_exposure.matrix(walk, n, "sum"))
    chosen = np.random.default_rng(SEED).choice(n, (bench.pick(500, 20), 2))
    pairs = [(int(u), int(v)) for u, v in chosen if u != v]
    plain = walk.tolist()
    started = time.process_time()
    found = [pair_by_loop(plain, u, v) for u, v in pairs]
    loop = (time.process_time() - started) * n * (n - 1) / len(pairs)
    assert np.allclose(found, [matrix[u, v] for u, v in pairs]), "the loop and the library disagree"
    note = f"loop extrapolated from {len(pairs)} of {n * (n - 1)} pairs, numbers equal"
    what = f"exposure of all pairs, sum, n = {n}, T = {STEPS_PER_USER * n}"
    return Row("exposure", what, ours, "CPU s", loop / ours, "Python loop", Target(100.0, "high"), note=note)


def _fig2(bench: Bench) -> Row:
    n = bench.pick(200, 20)
    bench.say(f"the computation of the paper's Fig. 2, n = {n}")
    dice = np.random.default_rng(SEED)

    def walks() -> None:
        for _ in range(FIG2_WALKS):
            sum_losses(uniform(n, STEPS_PER_USER * n, dice), n, 1.0, 1.0, 1e-6, dice)

    ours = seconds(walks)
    target = Target(100.0, "high")
    what, note = f"Fig. 2 of the paper, n = {n}, {FIG2_WALKS} walks", "their 83 CPU seconds, not measured in this run"
    return Row("exposure", what, ours, "CPU s", AUTHORS_FIG2_CPU_S / ours, "authors' code", target, note=note)


# ---- bounds --------------------------------------------------------------------------------------------------


def bounds(bench: Bench) -> list[Row]:
    """The ex-ante promise: epsilon of a plan before anything runs."""
    rows = []
    for task, n, steps, limit in (
        ("sgd", 2000, 20_000, 2.0),
        ("sum", 2000, 20_000, 2.0),
        ("sgd", 100_000, 10_000_000, 60.0),
        ("sum", 100_000, 10_000_000, 60.0),
    ):
        if bench.quick and n > 2000:
            continue
        what = f"network_epsilon, {task}, n = {n}, T = {steps}"
        bench.say(what)
        target = Target(limit, "low", "value")
        rows.append(Row("bounds", what, _epsilon_s(task, n, steps), "CPU s", target=target, better="low"))
    for task in ("sgd", "sum"):
        what = f"exposure law from scratch, {task}, n = 2000, T = 20000"
        bench.say(what)
        law = Law(task, 2000, 20_000)  # type: ignore[arg-type]
        took = seconds(lambda law=law: profile.computed_law(law))  # type: ignore[misc]
        rows.append(Row("bounds", what, took, "CPU s", target=Target(15.0, "low", "value"), better="low"))
    sizes = bench.pick((1500, 6000, 24_000), (300, 600, 1200))
    times = [_epsilon_s("sgd", n, 10 * n) for n in sizes]
    rows.append(growth("bounds", "network_epsilon, sgd, T = 10 n", sizes, times))
    return rows


def _epsilon_s(task: str, n: int, steps: int) -> float:
    return seconds(lambda: network_bounds.network_epsilon(task, n, steps, 7.51, 2.0, 1e-6, accountant="renyi"))  # type: ignore[arg-type]


# ---- noise ---------------------------------------------------------------------------------------------------


SCALES = tuple(1 << power for power in (10, 20, 30, 40))
LAWS = {"Gaussian": discrete_gaussian, "Laplace": discrete_laplace}


def noise(bench: Bench) -> list[Row]:
    """Exact noise from the system's CSPRNG: in a vector, of the scale that takes longest, and one by one."""
    source, count, single = SystemSource(), bench.pick(1_000_000, 100_000), 200
    bench.say("noise sampler")
    numpy_s = min(seconds(lambda: np.random.default_rng(SEED).normal(size=count)) for _ in range(3))
    rows = []
    for name, law in LAWS.items():
        slowest_s = max(
            min(seconds(lambda law=law, scale=scale: law(scale, count, source)) for _ in range(3))  # type: ignore[misc]
            for scale in SCALES
        )
        what, target = f"exact discrete {name}, scales 2^10 to 2^40", Target(2e7, "high", "value")
        rows.append(Row("noise", what, count / slowest_s, "1/s", numpy_s / slowest_s, "numpy's inexact normal", target))
    single_s = seconds(lambda: [discrete_gaussian(SCALES[1], 1, source) for _ in range(single)])
    return [*rows, Row("noise", "exact discrete Gaussian, one by one", single / single_s, "1/s")]
