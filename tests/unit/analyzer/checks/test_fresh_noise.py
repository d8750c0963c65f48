"""Noise that is shared, used again, left out or tied to other noise is found; so are elements that are not uniform."""

from __future__ import annotations

from collections.abc import Callable
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from analyzer.analysis import analyze_runs
from analyzer.reconstruct.noise_laws import laplace_tail
from analyzer.run import analyze
from analyzer.verdict import Check, Status
from benchmarks.generated_logs import Faults, plan_text, write_run
from network_dp import view
from network_dp.plan_reader import dump
from node.protocols.walk.effects import Event
from node.worker import NoiseDraw
from simulator.faults.schedule import draw
from simulator.faults.world import World
from tests.unit.analyzer import tamper
from tests.unit.analyzer.conftest import GRID, HISTOGRAM, SGD

VECTOR = 'kind = "mean"\ndimension = 100'
LAPLACE = f'mechanism = "laplace"\nscale = 2.0\n{GRID}'
WIDE_SGD = 'kind = "sgd"\nfeatures = 31\nstep_size = 0.5\nradius = 2.0'


def verdicts(folder: Path) -> dict[str, Check]:
    (analysis,) = analyze_runs([folder]).runs
    return {check.id: check for check in analysis.checks}


def found(folder: Path, check_id: str) -> Check:
    """The check failed, and no other that looks at what was done right."""
    checks = verdicts(folder)
    assert checks[check_id].status is Status.FAIL, {id: (c.status, c.observed) for id, c in checks.items()}
    for id in ("links", "steps", "conservation", "duty", "foreign"):
        assert id not in checks or checks[id].status is Status.PASS, checks[id]
    return checks[check_id]


def accused(check: Check) -> set[str]:
    return {finding.user for finding in check.evidence}


# ---- shared noise -----------------------------------------------------------------------------------------------


def one_stream() -> Callable[[int], np.random.Generator]:
    """Every user has a generator of its own, all with the same seed."""
    streams: dict[int, np.random.Generator] = {}
    return lambda user: streams.setdefault(user, np.random.default_rng(5))


SHARED = {
    "ring of vectors": plan_text("ring", 5, 20, task=VECTOR),
    "graph of numbers": plan_text(n=5, length=100),
    "graph of vectors": plan_text(n=5, length=100, task=VECTOR),
    "ring of numbers": plan_text("ring", 5, 20),
    "spread ring": plan_text("ring", 5, 20, noise=f"sigma = 2.0\n{GRID}\nspread = true"),
    "laplace": plan_text("ring", 5, 20, noise=LAPLACE),
    "sgd": plan_text(n=5, length=100, task=SGD, noise="sigma = 3.0"),
    "coarse grid": plan_text(n=5, length=400, noise="sigma = 2.0\ngrid = 0.5"),
    "responses": plan_text(n=5, length=600, task=HISTOGRAM, noise="gamma = 0.5"),
    "many users": plan_text(n=40, length=2000),
}


@pytest.mark.parametrize("plan", SHARED, ids=lambda name: name.replace(" ", "-"))
def test_one_stream_for_all_users_is_found(tmp_path, plan):
    write_run(tmp_path, SHARED[plan], 1, Faults(source=one_stream()))
    found(tmp_path, "fresh")


@pytest.mark.parametrize("task", ['kind = "sum"', VECTOR], ids=["number", "vector"])
def test_a_user_that_uses_six_noises_again_and_again_is_found(tmp_path, task):
    kept: list[list[Any]] = []

    def bend(user: int, noise: list[Any]) -> list[Any]:
        if user != 2:
            return noise
        kept.append(noise if len(kept) < 6 else kept[len(kept) - 6])
        return kept[-1]

    write_run(tmp_path, plan_text(n=5, length=100, task=task), 1, Faults(bend=bend))
    assert accused(found(tmp_path, "fresh")) == {"user-2"}


def after_another(weight: float, mixed: bool) -> Callable[[int, list[Any]], list[Any]]:
    """User 3 takes ``weight`` times user 2's last noise, on top of its own or in its place."""
    last: dict[int, list[Any]] = {}

    def bend(user: int, noise: list[Any]) -> list[Any]:
        if user == 2:
            last[2] = noise
        if user == 3 and 2 in last:
            whole = type(noise[0])
            return [whole(weight * b) + (a if mixed else 0) for a, b in zip(noise, last[2], strict=True)]
        return noise

    return bend


@pytest.mark.parametrize(
    ("text", "weight", "mixed"),
    [
        (plan_text(n=5, length=100, task=VECTOR), -1.0, True),
        (plan_text(n=5, length=100, task=VECTOR), -1.0, False),
        (plan_text(n=5, length=100, task=VECTOR), 1.0, False),
        (plan_text(n=5, length=400), -1.0, True),
        (plan_text(n=5, length=100), -1.0, False),
        (plan_text("ring", 5, 40, task=VECTOR), -1.0, True),
        (plan_text("ring", 5, 40, noise=LAPLACE), -1.0, False),
        (plan_text(n=5, length=100, task=WIDE_SGD, noise="sigma = 3.0"), -1.0, True),
    ],
)
def test_noise_that_follows_another_users_last_is_found(tmp_path, text, weight, mixed):
    write_run(tmp_path, text, 1, Faults(bend=after_another(weight, mixed)))
    assert "user-3" in " ".join(finding.text for finding in found(tmp_path, "fresh").evidence)


def test_noise_of_which_each_takes_back_the_one_before_is_found(tmp_path):
    """x_i = e_i - e_(i-1): every noise has nearly its size, and all of them together vanish."""
    before: list[list[int]] = [[0]]

    def bend(user: int, noise: list[int]) -> list[int]:
        before.append(noise)
        return [round((a - b) / 2**0.5) for a, b in zip(noise, before[-2], strict=True)]

    write_run(tmp_path, plan_text(n=5, length=300), 1, Faults(bend=bend))
    assert "1 draws before" in found(tmp_path, "fresh").observed


class OneStream(World):
    """The protocol core itself, every user handed the same noises in the same order."""

    def feed(self, user: int, event: Event) -> None:
        self.turn = user
        super().feed(user, event)

    def _take_noise(self) -> NoiseDraw:
        handed = self.__dict__.setdefault("handed", {})
        place = next(handed.setdefault(self.turn, count()))
        return NoiseDraw(self.cast.pool[place % len(self.cast.pool)].noise, self._source)


def written(world: World, folder: Path) -> Path:
    plan = world.cast.scenario.plan
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "plan.toml").write_text(dump(plan))
    for name, process in zip(plan.names, world.users, strict=True):
        fields = {"schema": view.SCHEMA, "run": plan.run_id, "plan": plan.hash, "user": name}
        header = view.encode("header", **fields, values=True, insecure=False)
        log = folder / "users" / name / "state" / "view.jsonl"
        log.parent.mkdir(parents=True)
        log.write_text("".join(f"{line}\n" for line in dict.fromkeys([header, *process.log])))
    return folder


def test_the_protocol_core_with_one_stream_of_noise_is_found(tmp_path):
    convicted = 0
    for seed in range(40):
        schedule = draw(seed)
        if schedule.timed or any(event.what == "old disk" for event in schedule.timed):
            continue
        world = OneStream(schedule)
        world.run()
        checks = {check.id: check for check in analyze([written(world, tmp_path / str(seed))]).checks}
        convicted += checks["fresh"].status is Status.FAIL
    assert convicted >= 3


# ---- missing noise ----------------------------------------------------------------------------------------------


def no_noise(lines: list[dict[str, Any]], place: int) -> None:
    """This line's noise was zero; what it sent follows."""
    noise = lines[place]["noise"]
    lines[place]["sent"] = [a - b for a, b in zip(lines[place]["sent"], noise, strict=True)]
    lines[place]["noise"] = [0 * value for value in noise]


@pytest.mark.parametrize(
    "text",
    [
        plan_text(n=5, length=100, task=VECTOR),
        plan_text(n=5, length=100, task='kind = "mean"\ndimension = 4'),
        plan_text(n=5, length=100, task=WIDE_SGD, noise="sigma = 3.0"),
        plan_text("ring", 5, 20, task=VECTOR),
    ],
    ids=["100", "4", "sgd", "ring"],
)
def test_one_visit_without_noise_is_found(tmp_path, text):
    drawn = count()
    write_run(tmp_path, text, 1, Faults(bend=lambda user, noise: [0 * x for x in noise] if next(drawn) == 7 else noise))
    check = found(tmp_path, "noise")
    assert len(check.evidence) == 1 and "visit" in check.evidence[0].text


def test_noise_that_is_claimed_and_not_logged_is_found(tmp_path):
    write_run(tmp_path, plan_text(), 1)

    def edit(line: dict[str, Any]) -> None:
        line["sent"] = [a - b for a, b in zip(line["sent"], line["noise"], strict=True)]
        line["noise"] = None

    line = tamper.change(tmp_path, "user-2", "sent", 1, edit)
    check = verdicts(tmp_path)["noise"]
    assert check.status is Status.FAIL
    assert {(finding.user, finding.line) for finding in check.evidence} == {("user-2", line)}


def test_laplace_noise_of_several_units_is_tested(tmp_path):
    """User 2 claims three components whenever it is on duty and adds them, or none; it claims six and adds one."""
    text = plan_text("ring", 5, 200, noise=LAPLACE)
    write_run(tmp_path / "right", text, 1, Faults(more_units={2: 2}))
    assert verdicts(tmp_path / "right")["noise"].status is Status.PASS
    write_run(tmp_path / "none", text, 1, Faults(more_units={2: 2}, noise_scale={2: 0.0}))
    assert accused(found(tmp_path / "none", "noise")) == {"user-2"}
    write_run(tmp_path / "one", text, 1)
    lines = tamper.read(tmp_path / "one", "user-2")
    for line in lines:
        if line["kind"] == "sent" and line["units"]:
            line["units"] = 6
    tamper.rewrite(tmp_path / "one", "user-2", lines)
    assert verdicts(tmp_path / "one")["noise"].status is Status.FAIL


@pytest.mark.parametrize("units", [1, 2, 3, 7])
def test_the_tail_of_a_sum_of_laplace_variables(units):
    sums = np.abs(np.random.default_rng(3).laplace(size=(20_000, units)).sum(axis=1))
    tails = np.sort(2 * laplace_tail(sums, units))
    assert np.abs(tails - np.arange(1, 20_001) / 20_000).max() < 0.015  # Kolmogorov-Smirnov: p = 2e-4


def test_a_top_up_of_zeros_is_found(tmp_path):
    """What left first is fine; the components added for the second receiver are none."""
    write_run(tmp_path, plan_text("ring", 5, 20, task=VECTOR), 1)
    lines = tamper.read(tmp_path, "user-2")
    place = next(i for i, line in enumerate(lines) if line["kind"] == "sent" and line["units"] == 1)
    first = dict(lines[place], to="user-4", step=lines[place]["step"] + 1, tag="0" * 64)
    lines[place]["units"] = 2
    lines.insert(place, first)
    tamper.rewrite(tmp_path, "user-2", lines)
    check = verdicts(tmp_path)["noise"]
    assert check.status is Status.FAIL and {(f.user, f.line) for f in check.evidence} == {("user-2", place + 2)}


# ---- elements ---------------------------------------------------------------------------------------------------


def test_cover_elements_in_one_bucket_are_found(tmp_path):
    def first_bucket(number: int, buckets: int) -> list[int]:
        return [number] + [0] * (buckets - 1)

    text = plan_text("ring", 12, 3, task=HISTOGRAM, noise="gamma = 0.5")
    write_run(tmp_path, text, 1, Faults(elements=first_bucket))
    assert "10 of 10" in found(tmp_path, "elements").observed


def test_elements_of_one_user_in_one_bucket_are_found(tmp_path):
    """Past its cap a user adds one uniform element per visit; user 2 does not draw them."""
    text = plan_text(length=300, task=HISTOGRAM, noise="gamma = 0.5", caps="contributions = 3")
    write_run(tmp_path, text, 1)
    lines = tamper.read(tmp_path, "user-2")
    for line in lines:
        if line["kind"] in ("sent", "finish") and line["cover"]:
            line["cover"] = [1, 0, 0, 0]
    tamper.rewrite(tmp_path, "user-2", lines)
    check = verdicts(tmp_path)["elements"]
    assert check.status is Status.FAIL and "user-2" in accused(check)
