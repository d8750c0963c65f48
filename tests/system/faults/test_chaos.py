"""Random trouble, and at the end the exact conserved result; ``network-dp chaos`` is the same as a command."""

from __future__ import annotations

import io
import json

import pytest
from rich.console import Console
from typer.testing import CliRunner

from coordinator_free_launcher.cli import chaos as cli_chaos
from coordinator_free_launcher.cli.app import app
from coordinator_free_launcher.local.chaos import Chaos, Picture, Rates
from tests.system.faults.conftest import MakeTown
from tests.system.faults.evidence import check
from tests.system.harness import slow_task

pytestmark = [pytest.mark.process, pytest.mark.timeout(600)]

RATES = Rates(kill=2.0, pause=1.0)
TIMING = {"lease_s": 4.0, "linger_s": 5.0, "start_timeout_s": 30.0}


def _under_trouble(make_town: MakeTown, topology: str, seconds: float, seed: int) -> None:
    hop_s = 0.02
    steps = int(seconds / hop_s)
    walk = {"topology": "ring", "rounds": steps // 20} if topology == "ring" else {"topology": topology, "steps": steps}
    town = make_town(20, task=slow_task(hop_s), timing=TIMING, **walk)
    tally = Chaos(town.folder, RATES, seconds, seed).go(lambda picture: None, patience_s=300.0)
    assert tally.kills > 0 and tally.pauses > 0
    assert tally.finished and tally.identical, f"{tally}\n{town.describe()}"
    check(town)


@pytest.mark.parametrize("topology", ["ring", "complete"])
def test_twenty_users_under_random_trouble_end_with_the_exact_sum(make_town: MakeTown, topology: str) -> None:
    _under_trouble(make_town, topology, seconds=8.0, seed=1)


@pytest.mark.full
@pytest.mark.timeout(900)
@pytest.mark.parametrize("seed", [2, 3])
@pytest.mark.parametrize("topology", ["ring", "complete"])
def test_a_minute_of_random_trouble_ends_with_the_exact_sum(make_town: MakeTown, topology: str, seed: int) -> None:
    _under_trouble(make_town, topology, seconds=60.0, seed=seed)


def test_the_chaos_command_reports_kills_result_and_verdict_as_json(make_town: MakeTown) -> None:
    town = make_town(5, task=slow_task(0.01), topology="ring", rounds=60)
    said = CliRunner().invoke(
        app, ["chaos", str(town.folder), "--kill", "2/s", "--pause", "1/s", "--seconds", "3", "--seed", "4", "--json"]
    )
    assert said.exit_code == 0, said.output
    values = json.loads(said.stdout)
    assert values["ok"] and values["finished"] and values["identical"] and values["verdict"] != "FAIL"
    assert values["result"]["value"] is not None
    check(town)
    again = CliRunner().invoke(app, ["chaos", str(town.folder)])
    assert again.exit_code != 0 and "finished already" in " ".join(again.output.split())


@pytest.mark.parametrize("text", ["often", "-1/s", "0.1/m", "1000/s"])
def test_a_rate_that_is_none_is_refused(text: str) -> None:
    with pytest.raises(Exception, match="must be a rate"):
        cli_chaos.rate(text)


def test_the_picture_shows_who_is_down_and_how_far_the_walk_is() -> None:
    users = {"user-0": "up", "user-1": "down", "user-2": "paused"}
    console = Console(width=100, record=True, file=io.StringIO())
    console.print(cli_chaos.draw(Picture(users, 7, 40, 12.3, ("   1.0 s  user-1 killed",))))
    shown = console.export_text()
    assert "step 7 of 40; 1 up, 1 down, 1 paused, 0 ended; 12 s of trouble left" in shown
    assert all(name in shown for name in users) and "user-1 killed" in shown


def test_the_chaos_command_kills_users_of_a_hidden_path_and_all_end_with_one_result(make_town: MakeTown) -> None:
    """Whoever is killed may be the holder, the adder or a shuffler; absences show steps, as many as the plan allows."""
    timing = {"handoff_timeout_s": 3.0, "lease_s": 2.0, "linger_s": 1.0}
    rounds = {"beat_ms": 12.0, "known_steps": 100}
    town = make_town(6, topology="complete", path="hidden", steps=100, min_live=4, anonymous=rounds, timing=timing)
    said = CliRunner().invoke(
        app, ["chaos", str(town.folder), "--kill", "2/s", "--pause", "1/s", "--seconds", "3", "--seed", "4", "--json"]
    )
    assert said.exit_code == 0, said.output
    values = json.loads(said.stdout)
    assert values["kills"] and values["finished"] and values["identical"] and values["verdict"] == "PASS"
    assert values["result"]["contributions"] == 100
