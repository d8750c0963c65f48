"""Who is said to be down excuses only the draws of who said so; honest walks with users down pass."""

from __future__ import annotations

from pathlib import Path

import pytest

from analyzer.analysis import analyze_runs
from analyzer.read.export import export
from analyzer.verdict import Check, Status
from benchmarks.generated_logs import Faults, plan_text, write_run
from tests.unit.analyzer import tamper


def uniform(paths: list[Path], plan: Path | None = None) -> Check:
    (analysis,) = analyze_runs(paths, plan).runs
    return {check.id: check for check in analysis.checks}["uniform"]


def prefers(rng, holder, n):
    return 2 if holder == 1 else int(rng.integers(n))


def say_down(run: Path, user: str, peer: str, place: int = 2) -> None:
    lines = tamper.read(run, user)
    lines.insert(place, {"kind": "peer", "peer": peer, "state": "down", "time": 1.0})
    tamper.rewrite(run, user, lines)


@pytest.mark.parametrize(
    ("length", "says"), [(100, "user-5"), (300, "user-5"), (300, "user-1"), (1000, "user-0"), (1000, "user-1")]
)
def test_a_down_line_hides_no_preference(tmp_path, length, says):
    """User 1 always sends to user 2; somebody, or user 1 itself, says that user 2 is down."""
    write_run(
        tmp_path, plan_text(n=10, length=length).replace("min_live = 10", "min_live = 3"), 1, Faults(choose=prefers)
    )
    say_down(tmp_path, says, "user-2")
    check = uniform([tmp_path])
    assert check.status is Status.FAIL
    assert any(finding.user == "user-1" and "to user-2" in finding.text for finding in check.evidence)


def test_a_down_line_of_another_hides_no_avoidance(tmp_path):
    """Nobody but user 5 says that user 2 is down, and nobody ever draws it."""

    def avoids(rng, holder, n):
        drawn = int(rng.integers(n - 1))
        return drawn + (drawn >= 2)

    write_run(tmp_path, plan_text(n=10, length=400), 1, Faults(choose=avoids))
    say_down(tmp_path, "user-5", "user-2")
    assert any("user-2 was drawn 0 times" in finding.text for finding in uniform([tmp_path]).evidence)


GONE = {
    "one, always": lambda user, step: user == 3,
    "three, always": lambda user, step: user in (1, 3, 5),
    "in turns": lambda user, step: user == (step // 50) % 8,
    "flapping": lambda user, step: user == 4 and step % 7 < 3,
}


@pytest.mark.parametrize("down_steps", [0, 5, 200])
@pytest.mark.parametrize("gone", GONE, ids=lambda name: name.replace(" ", "-"))
def test_users_that_are_down_bend_no_honest_walk(tmp_path, gone, down_steps):
    text = plan_text(n=8, length=2000).replace("min_live = 8", "min_live = 3")
    write_run(tmp_path, text, 3, Faults(gone=GONE[gone], down_steps=down_steps))
    assert uniform([tmp_path]).status is Status.PASS


def exported(run: Path) -> list[Path]:
    for user in sorted(path.name for path in (run / "users").iterdir()):
        export(tamper.log_of(run, user), run / f"{user}.jsonl")
    return sorted(run.glob("*.jsonl"))


def test_exported_logs_leave_open_what_users_down_explain(tmp_path):
    text = plan_text(n=8, length=2000).replace("min_live = 8", "min_live = 3")
    write_run(tmp_path, text, 3, Faults(gone=GONE["one, always"]))
    check = uniform(exported(tmp_path), tmp_path / "plan.toml")
    assert check.status is Status.PARTIAL and "exported logs do not say who was down" in check.observed


def test_exported_logs_convict_a_walk_that_no_users_down_explain(tmp_path):
    text = plan_text(n=10, length=1000).replace("min_live = 10", "min_live = 3")
    write_run(tmp_path, text, 1, Faults(choose=prefers))
    assert uniform(exported(tmp_path), tmp_path / "plan.toml").status is Status.FAIL
