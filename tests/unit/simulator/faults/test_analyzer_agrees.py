"""The analyzer, which knows nothing of the protocol's code, finds no fault in the view logs of simulated disasters."""

from __future__ import annotations

from pathlib import Path

import pytest

from analyzer.run import analyze
from analyzer.verdict import Status
from network_dp import view
from network_dp.plan_reader import dump
from simulator.faults.schedule import draw
from simulator.faults.world import World


def write_run(world: World, folder: Path) -> None:
    """A run directory as the launcher makes it; a line written again after a restart is kept once, as on disk."""
    plan = world.cast.scenario.plan
    (folder / "plan.toml").write_text(dump(plan))
    for name, process in zip(plan.names, world.users, strict=True):
        header = view.encode(
            "header", schema=view.SCHEMA, run=plan.run_id, plan=plan.hash, user=name, values=True, insecure=False
        )
        log = folder / "users" / name / "state" / "view.jsonl"
        log.parent.mkdir(parents=True)
        log.write_text("".join(f"{line}\n" for line in dict.fromkeys([header, *process.log])))


def judge(seed: int, folder: Path) -> bool:
    """Run one seed and check its verdict; False: an old disk was put back, and what is missing may leave it open."""
    schedule = draw(seed)
    old = any(event.what == "old disk" for event in schedule.timed)
    world = World(schedule)
    world.run()
    folder.mkdir()
    write_run(world, folder)
    for check in analyze([folder], None, (), 1, None).checks:
        assert check.status is Status.PASS or (old and check.status is not Status.FAIL), (seed, check)
    return not old


@pytest.mark.parametrize(
    "seed",
    [
        57,  # one capped response, seen among others
        149,  # a ring of responses whose first holder was voted for
        1953,  # a token refused, topped up for somebody else, and back
    ],
)
def test_the_analyzer_passes_what_was_once_hard_to_judge(tmp_path: Path, seed: int) -> None:
    assert judge(seed, tmp_path / "run")


#: A journal from before its user handed the token to itself comes back, and the token goes to somebody else.
KEPT = 400161815


def test_a_disk_that_forgot_that_it_kept_the_token_convicts_nobody(tmp_path: Path) -> None:
    judge(KEPT, tmp_path / "run")


def test_a_token_that_a_disk_forgot_to_have_given_to_another_has_two_holders(tmp_path: Path) -> None:
    world = World(draw(KEPT))
    world.run()
    write_run(world, tmp_path)
    logs = [tmp_path / "users" / f"u{user}" / "state" / "view.jsonl" for user in (0, 2)]
    lines = [log.read_text().splitlines(keepends=True) for log in logs]
    (kept,) = (line for line in lines[0] if '"visit":3,' in line and line.startswith('{"kind":"visit"'))
    logs[0].write_text("".join(line for line in lines[0] if line != kept))
    logs[1].write_text("".join([*lines[1][:2], kept, *lines[1][2:]]))
    found = {check.id: check.status for check in analyze([tmp_path], None, (), 1, None).checks}
    assert found["steps"] is Status.FAIL


@pytest.mark.slow
def test_the_analyzer_passes_what_the_simulator_passes(tmp_path: Path) -> None:
    assert sum(judge(seed, tmp_path / str(seed)) for seed in range(60)) > 40
