"""Wrong values for every option and argument of every command, made from the command line's own declarations.

Whatever is typed: no traceback, never exit code 1 (a verdict) nor 70 (a fault of the program), and a sentence.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer
from typer.testing import CliRunner

from coordinator_free_launcher.cli.app import app

ENDLESS = {("run",), ("demo",)}  # a right value would start long work
ALLOWED = {0, 2, 3, 5, 130}
NUMBERS = ("nan", "-3", "0", "1000000000000", "banana")
PATHS = ("absent/deep/x", "a-file", "a-file/below", "unreadable")
TEXTS = ("", "banana", "http://x", "../..")


def commands(command: Any = None, words: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    command = command or typer.main.get_command(app)
    if inner := getattr(command, "commands", None):
        for name, child in inner.items():
            yield from commands(child, (*words, name))
    else:
        yield words, command


def wrong_values(parameter: Any) -> tuple[str, ...]:
    kind = str(parameter.type_descriptor.annotation)
    if "int" in kind or "float" in kind:
        return NUMBERS
    return PATHS if "Path" in kind else TEXTS


def cases() -> Iterator[tuple[str, ...]]:
    """One wrong value at a time; what else is required gets a value of the right kind."""
    for words, command in commands():
        needed = [p for p in command.params if p.required]
        for parameter in command.params:
            if getattr(parameter, "is_flag", False) or (words in ENDLESS and parameter.name == "out"):
                continue
            for value in wrong_values(parameter):
                given = [(p, "good.toml" if p is not parameter else value) for p in needed]
                if parameter not in needed:
                    given.append((parameter, value))
                pairs = ([v] if p.param_type_name == "argument" else [p.opts[0], v] for p, v in given)
                yield (*words, *itertools.chain.from_iterable(pairs))


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


def test_no_wrong_value_of_any_option_ends_in_a_traceback(
    place: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("simulator.faults.runner.run_seed", _no_work)
    monkeypatch.setattr("simulator.faults.runner.run_many", _no_work)
    monkeypatch.setattr("network_dp.audit.run", _no_work)
    monkeypatch.setattr("coordinator_free_launcher.local.audit.run", _no_work)
    monkeypatch.setattr("coordinator_free_launcher.cli.reproduce._make", _no_work)
    monkeypatch.setattr("simulator.datasets.generated", _no_work)
    monkeypatch.setattr("coordinator_free_launcher.identity.invite.invite", _no_work)
    monkeypatch.setattr("coordinator_free_launcher.identity.discover.find", _no_work)
    monkeypatch.setenv("NO_COLOR", "1")
    command, tried, wrong = typer.main.get_command(app), 0, []
    for words in cases():
        tried += 1
        try:
            command.main(list(words), prog_name="network-dp")
        except SystemExit as end:
            code = end.code
        except (Exception, KeyboardInterrupt) as error:  # not pytest's own: a time-out must end the test
            code = repr(error)
        said = capsys.readouterr()
        allowed = ALLOWED | {1} if words[0] == "health" else ALLOWED  # its 1 is the answer no
        if code not in allowed or (code == 2 and not said.err.strip()):
            wrong.append((words, code))
    assert wrong == [], "\n".join(map(str, wrong))
    assert tried > 300


def _no_work(*_: object, **__: object) -> None:
    raise typer.Exit(0)


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
