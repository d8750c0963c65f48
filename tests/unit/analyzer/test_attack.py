"""The attack of one user on the others: as good as it claims, and no better."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from analyzer.attack import AttackError, Guess, guesses
from benchmarks.generated_logs import plan_text, write_run
from coordinator_free_launcher.cli.app import app
from network_dp.plan_reader import load
from network_dp.view import decode
from tests.unit.analyzer.conftest import GRID, HISTOGRAM


def views(run: Path) -> dict[str, Path]:
    return {path.parents[1].name: path for path in sorted(run.glob("users/*/state/view.jsonl"))}


def attacked(run: Path, name: str) -> list[Guess]:
    lines = views(run)[name].read_bytes().splitlines()
    return guesses(load(run / "plan.toml"), map(decode, lines))


def truths(run: Path) -> dict[str, float]:
    """What everybody really contributed, from its own log: an attacker has one log only."""
    grid = load(run / "plan.toml").noise.grid or 1.0
    found = {}
    for name, path in views(run).items():
        records = map(decode, path.read_bytes().splitlines())
        given = [record.fields["contribution"][0] for record in records if record.fields.get("real")]
        found.update({name: given[0] * grid} if given else {})
    return found


@pytest.mark.parametrize(("topology", "length"), [("ring", 5), ("complete", 60)])
@pytest.mark.parametrize("sigma", [0.5, 3.0])
def test_guesses_are_as_far_off_as_they_say(tmp_path: Path, topology: str, length: int, sigma: float) -> None:
    scores = []
    for seed in range(12):
        run = tmp_path / f"{seed}"
        write_run(run, plan_text(topology, 6, length, noise=f"sigma = {sigma}\n{GRID}"), seed)
        true = truths(run)
        found = [guess for name in views(run) for guess in attacked(run, name) if guess.user in true]
        scores += [(guess.value - true[guess.user]) / guess.error for guess in found]
        assert all(0 <= guess.learned <= 1 for guess in found)
    assert 0.5 < float(np.sqrt(np.mean(np.square(scores)))) < 1.5


def test_less_noise_tells_more(tmp_path: Path) -> None:
    learned = []
    for sigma in (0.5, 3.0):
        run = tmp_path / f"{sigma}"
        write_run(run, plan_text("complete", 6, 60, noise=f"sigma = {sigma}\n{GRID}"), 3)
        learned.append(max(guess.learned for name in views(run) for guess in attacked(run, name)))
    assert learned[0] > 2 * learned[1] > 0


def test_randomised_responses_are_not_attacked_this_way(tmp_path: Path) -> None:
    write_run(tmp_path, plan_text(task=HISTOGRAM, noise="gamma = 0.3"), 1)
    with pytest.raises(AttackError, match="sums"):
        attacked(tmp_path, next(iter(views(tmp_path))))


def test_the_command_prints_and_draws(tmp_path: Path) -> None:
    write_run(tmp_path / "run", plan_text("ring", 6, 5), 1)
    name, path = next(iter(views(tmp_path / "run").items()))
    words = ["attack", str(path.parents[1]), "--plan", str(tmp_path / "run" / "plan.toml")]
    result = CliRunner().invoke(app, [*words, "--json", "--plot", str(tmp_path / "plot.png")])
    found = json.loads(result.output)
    assert {guess["user"] for guess in found} == set(views(tmp_path / "run")) - {name}
    assert (tmp_path / "plot.png").stat().st_size > 1000
    assert "learned" in CliRunner().invoke(app, words).output
    path.write_text(path.read_text() + "{}\n")
    broken = CliRunner().invoke(app, words)
    assert broken.exit_code == 2 and "view.jsonl:" in broken.output
