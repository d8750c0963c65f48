"""Wrong values for every option and argument of every command, made from the command line's own declarations.

What else a command needs is right (a plan, a run and its logs, cards, signed plans), so that each wrong value reaches
whoever must judge it; only the work behind all checks is left out. Whatever is typed: no traceback, never exit code 1
(a verdict, or a doctor's finding) nor 70 (a fault of the program), and a sentence.
"""

from __future__ import annotations

import os
import shutil
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import pytest
import typer
from typer.testing import CliRunner

from benchmarks.generated_logs import plan_text, write_run
from coordinator_free_launcher.cli.app import app
from coordinator_free_launcher.local.demo_data import provision_demo
from coordinator_free_launcher.page.server import Page
from network_dp.plan_reader import parse

ALLOWED: Final = {0, 2, 3}
ANSWERS: Final = {("health",): {1}, ("budget", "check"): {1}}  # their 1 is the answer no
PATIENCE_CPU_S: Final = 5.0
NUMBERS: Final = ("nan", "-3", "0", "0.5", "1000000000000", "banana")
PATHS: Final = ("absent/deep/x", "a-file", "a-file/below", "a-folder", "unreadable", "")
TEXTS: Final = ("", "banana", "http://x", "../..", "1,2,3", "-1")

#: What is done only after everything typed has been looked at: starting processes, waiting, long computations.
WORK: Final = (
    "coordinator_free_launcher.local.launch.NodePool",
    "coordinator_free_launcher.doctor.examine",
    "coordinator_free_launcher.identity.invite.invite",
    "coordinator_free_launcher.identity.discover.find",
    "coordinator_free_launcher.cli.reproduce._make",
    "node.app._serve",
    "simulator.faults.runner.run_seed",
    "simulator.faults.runner.run_many",
    "simulator.rounds.runner.run_many",
    "simulator.datasets.download",
    "simulator.datasets.generated",
)
#: Right values of what a command cannot do without, by command and parameter, or for all commands.
RIGHT: Final = {
    "plan_file": "good.toml",
    "folder": "run",
    "bundle": "run/users/u0",
    "out": "new",
    "name": "u0",
    "address": "127.0.0.1:20000",
    "cards": "u0.card",
    "public": "signed/public",
    "code": "1234-5678",
    "logs": "walked",
    "log": "walked/users/user-0/state/view.jsonl",
    "view": "walked/users/user-0/state/view.jsonl",
    "source": "walked",
    "figure": "fig1b",
    "epsilon": "1",
}
_WALK: Final = {"task": "sum", "topology": "ring", "users": "10", "rounds": "2"}
#: What must be given too for another option to be looked at.
WITH: Final[dict[tuple[str, ...], dict[str, str]]] = {
    ("bounds",): {**_WALK, "sigma": "3"},
    ("calibrate",): _WALK,
    ("graph",): {"kind": "path", "users": "3", "steps": "2", "sigma": "3"},
    ("audit",): {"algorithm": "ring_sum", "runs": "100", "users": "4"},
    ("provision",): {"demo_data": ""},
    ("doctor",): {"folder": "run"},
}


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


def typed(parameter: Any, value: str) -> list[str]:
    if parameter.param_type_name == "argument":
        return [value]
    return [*parameter.opts, *parameter.secondary_opts][:1] if parameter.is_flag else [f"{parameter.opts[0]}={value}"]


def cases() -> Iterator[tuple[tuple[str, ...], str, list[str]]]:
    """The command, the parameter, and all that is typed: one wrong value at a time, a flag as it is."""
    for words, command in commands():
        for parameter in command.params:
            for value in ("",) if getattr(parameter, "is_flag", False) else wrong_values(parameter):
                more = WITH.get(words, {})
                line: list[str] = []
                for one in command.params:
                    if one is parameter:
                        line += typed(one, value)
                    elif one.name in more or one.required:
                        line += typed(one, more.get(one.name, RIGHT.get(one.name, "")))
                yield words, parameter.name, [*words, *line]


@pytest.fixture(scope="module")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A plan, its run before it walks, a run that has walked, a card and a signed plan."""
    place = tmp_path_factory.mktemp("prepared")
    users = "".join(f'[[users]]\nname = "u{i}"\naddress = "127.0.0.1:{20000 + i}"\n' for i in range(3))
    plan = f'[walk]\ntopology = "ring"\nrounds = 1\n[task]\nkind = "mean"\n[noise]\nsigma = 1.0\n{users}'
    (place / "good.toml").write_text(plan)
    provision_demo(parse(plan), place / "run")
    write_run(place / "walked", plan_text(), 1)
    for i in range(3):
        _done("keygen", f"u{i}", "--address", f"127.0.0.1:{20000 + i}", "--dir", str(place / f"own-{i}"))
        shutil.copy(place / f"own-{i}" / f"u{i}.card", place)
    _done(
        "sign", str(place / "good.toml"), *(str(place / f"u{i}.card") for i in range(3)), "--out", str(place / "signed")
    )
    (place / "a-file").write_text("nothing")
    (place / "a-folder").mkdir()
    (place / "unreadable").symlink_to("unreadable")  # a loop: an OSError for root too
    return place


def _done(*words: str) -> None:
    done = CliRunner().invoke(app, words)
    assert done.exit_code == 0, done.output


@pytest.mark.slow
def test_whatever_is_typed_ends_in_a_sentence(
    prepared: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in WORK:
        monkeypatch.setattr(name, _no_work)
    monkeypatch.setattr("coordinator_free_launcher.page.server.Page.start", _served)
    monkeypatch.setenv("NO_COLOR", "1")
    command, wrong, reached = typer.main.get_command(app), [], set()
    for number, (words, parameter, line) in enumerate(cases()):
        place = tmp_path / str(number)
        shutil.copytree(prepared, place, symlinks=True, copy_function=os.link)
        monkeypatch.chdir(place)
        monkeypatch.setenv("XDG_STATE_HOME", str(place / "ledgers"))
        with limited():
            code = ended(command, line)
        said = capsys.readouterr()
        if code not in ALLOWED | ANSWERS.get(words, set()) or (code == 2 and not said.err.strip()):
            wrong.append((line, code, said.err[-300:]))
        reached.add((words, parameter))
    assert wrong == [], "\n".join(map(str, wrong))
    assert reached == {(words, one.name) for words, command in commands() for one in command.params}


def ended(command: Any, line: list[str]) -> object:
    try:
        command.main(line, prog_name="network-dp")
    except SystemExit as end:
        return end.code
    except (Exception, KeyboardInterrupt, Endless) as error:  # not pytest's own: a time-out must end the test
        return repr(error)
    return "went on"


class Endless(BaseException):
    """More work than anybody waits for, begun at a wrong value."""


@contextmanager
def limited() -> Iterator[None]:
    def ring(*_: object) -> None:
        raise Endless

    before = signal.signal(signal.SIGPROF, ring)
    signal.setitimer(signal.ITIMER_PROF, PATIENCE_CPU_S)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)


def _no_work(*_: object, **__: object) -> None:
    raise SystemExit(0)


def _served(page: Page) -> None:
    page._socket.close()
    _no_work()
