"""What a refusal says: one sentence with what to do, exit code 2, and nothing written."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

from coordinator_free_launcher.cli.app import app


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    users = "".join(f'[[users]]\nname = "u{i}"\naddress = "127.0.0.1:{20000 + i}"\n' for i in range(3))
    plan = f'[walk]\ntopology = "ring"\nrounds = 1\n[task]\nkind = "mean"\n[noise]\nsigma = 1.0\n{users}'
    (tmp_path / "good.toml").write_text(plan)
    (tmp_path / "a-file").write_text("nothing")
    (tmp_path / "a-folder").mkdir()
    (tmp_path / "unreadable").symlink_to("unreadable")  # a loop: an OSError for root too
    monkeypatch.chdir(tmp_path)
    return tmp_path


def commands_and_says() -> list[tuple[tuple[str, ...], str]]:
    return [
        (("launch", "good.toml"), "network-dp run good.toml"),
        (("status", "good.toml"), "network-dp run good.toml"),
        (("chaos", "good.toml"), "network-dp run good.toml"),
        (("run", "a-folder"), "network-dp launch a-folder"),
        (("plan", "new", "--out", "absent/x.toml"), "absent/x.toml: no such file or folder"),
        (("plan", "new", "--users", "1000000"), "40000"),
        (("plan", "new", "--topology", "ring", "--steps", "100"), "--steps is not for a ring"),
        (("plan", "new", "--topology", "complete", "--rounds", "7"), "--rounds is not for a complete graph"),
        (("plan", "new", "--rounds", "0"), "walk.rounds = 0"),
        (("plan", "new", "--epsilon", "0"), "noise.epsilon = 0"),
        (("plan", "new", "--task", "histogram", "--edges", "1,x"), "--edges 1,x: must be numbers"),
        (("plan", "new", "--data", "a-file"), "a-file: is not a folder"),
        (("plan", "new", "--data", "a-folder"), "tables of 0 users"),
        (("plan", "check", "a-file"), "a-file: not a TOML file"),
        (("run", "good.toml", "--test", "a-file"), "only a model"),
        (("run", "good.toml", "--data", "a-folder"), "a-folder: 0 data files for u0"),
        (("analyze", "a-folder", "--html", "."), "a-folder: has no plan.toml"),
        (("plan", "check", "good.toml", "--colluders", "30"), "at least one must be left"),
        (("provision", "good.toml", "--out", "a-file/x", "--demo-data"), "a-file"),
        (("provision", "good.toml", "--out", "new"), "--demo-data"),
        (("provision", "good.toml", "--out", "new", "--demo-data", "--valid-days", "nan"), "--valid-days"),
        (("provision", "good.toml", "--out", "new", "--demo-data", "--valid-days", "-3"), "--valid-days"),
        (("compose", "good.toml", "--out", "new", "--memory", "banana"), "256m"),
        (("stack", "good.toml", "--out", "new", "--image", ""), "network-dp:latest"),
        (("keygen", "u0", "--address", "http://1.2.3.4:5"), "http://1.2.3.4:5"),
        (
            ("provision", "good.toml", "--out", "new", "--demo-data", "--data", "a-folder"),
            "--data is only for own data",
        ),
        (("provision", "good.toml", "--out", "new", "--demo-data", "--owner", "1000"), "give --deliver"),
        (("keygen", "u0", "--address", "127.0.0.1:1", "--data", "a-file"), "must be a table: .csv"),
        (("invite", "good.toml", "--out", "a-file/x"), "a-file"),
        (("join", "1234-5678", "--name", "Anna"), "lower-case letters"),
        (("keygen", "u0", "--address", "300.1.1.1:7000"), "300.1.1.1:7000"),
        (("analyze", "absent"), "absent: does not exist"),
        (("data", "houses", "--out", "a-file"), "nothing was overwritten"),
        (("data", "houses", "--out", "new", "--users", "1000000", "--users-dir", "people"), "cannot be dealt"),
        (("stack", "good.toml", "--out", "new", "--image", "http://x"), "network-dp:latest"),
        (("audit", "ring_sum", "--gamma", "0.3"), "--gamma is only for ring_histogram"),
        (("audit", "ring_sum", "--out", "new"), "give --real"),
        (("audit", "ring_sum", "--users", "1000000000000"), "--users"),
        (("bounds", "--topology", "ring", "--rounds", "2", "--sigma", "3", "--lipschitz", "1"), "only for --task sgd"),
        (("bounds", "--topology", "ring", "--rounds", "2", "--sigma", "3", "--buckets", "3"), "--task histogram"),
        (("bounds", "--topology", "ring", "--rounds", "2", "--sigma", "3", "--against", "n"), "give --plot"),
        (("bounds", "--topology", "ring", "--rounds", "2", "--sigma", "3", "--colluders", "100"), "to protect"),
        (("graph", "star", "--degree", "3"), "--degree is only for ring-lattice"),
        (("guarantee", "good.toml", "--out", "a-file"), "exists already"),
        (("reproduce", "fig1b", "--out", "a-file/x"), "a-file"),
        (("reproduce", "fig1b", "--houses", "absent.csv", "--out", "new"), "absent.csv: no such file"),
        (("demo", "--out", "a-folder"), "not an earlier demo's"),
        (("simulate", "faults", "--schedules", "0"), "--schedules"),
        (("simulate", "faults", "--jobs", "-3"), "--jobs"),
        (("reproduce", "fig1b", "--seed", "-1"), "--seed"),
    ]


@pytest.mark.parametrize(("words", "said"), commands_and_says(), ids=lambda value: " ".join(value)[:60])
def test_a_refusal_says_what_to_do(words: tuple[str, ...], said: str, place: Path) -> None:
    done = CliRunner().invoke(app, words, env={"COLUMNS": "300"})
    assert done.exit_code == 2
    assert said in done.output
    assert not (place / "new").exists()


def test_the_version_is_told() -> None:
    import network_dp

    done = CliRunner().invoke(app, ["--version"])
    assert (done.exit_code, done.output) == (0, f"network-dp {network_dp.__version__}\n")


def test_ctrl_c_is_one_line_and_130(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def stopped(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("simulator.faults.runner.run_many", stopped)
    done = CliRunner().invoke(app, ["simulate", "faults"])
    assert done.exit_code == 130 and done.output.splitlines()[-1] == "Stopped."
