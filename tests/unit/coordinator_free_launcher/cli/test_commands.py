"""The command line: every command explains itself, every error is one plain sentence with exit code 2."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer.main
from typer.testing import CliRunner

from coordinator_free_launcher.cli.app import app


def commands(group: Any, words: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """All commands and groups, by their words."""
    yield words
    for name, command in sorted(getattr(group, "commands", {}).items()):
        yield from commands(command, (*words, name))


ROOT = Path(__file__).parents[4]
COMMANDS = list(commands(typer.main.get_command(app)))


def _invoke(*words: object) -> tuple[int, str]:
    result = CliRunner().invoke(app, [str(word) for word in words])
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result.exit_code, result.output


def test_a_bar_leaves_no_trace_where_no_terminal_is() -> None:
    done = CliRunner().invoke(app, ["graph", "star", "--users", "5"])
    assert (done.exit_code, done.stderr) == (0, "")


def test_the_issues_commands_exist() -> None:
    needed = {("plan", "new"), ("plan", "check"), ("provision",), ("node",), ("launch",), ("status",), ("run",)}
    assert needed <= set(COMMANDS)


@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
def test_every_command_has_help_with_a_sentence(words: tuple[str, ...]) -> None:
    code, said = _invoke(*words, "--help")
    assert code == 0
    assert "Usage:" in said
    assert any(line.rstrip(" │").endswith(".") for line in said.splitlines())
    assert not re.search(r"<(bool|str|int|float|path|list)|\{\w+\}|\bx<=", said), "words, not types"


@pytest.mark.parametrize("module", ["coordinator_free_launcher", "coordinator_free_launcher.cli.app"])
def test_the_modules_run_the_command_line_too(module: str) -> None:
    """And do not end in silence with exit code 0, as a module without an entry point would."""
    words = [sys.executable, "-m", module, "bounds", "--steps", "5"]
    done = subprocess.run(words, capture_output=True, text=True, check=False, cwd=ROOT)
    assert done.returncode == 2 and "--sigma" in done.stderr


def test_ctrl_c_while_the_program_is_still_being_loaded_is_one_line() -> None:
    program = (
        "import sys\n"
        "class Impatient:\n"
        "    def find_spec(self, name, path=None, target=None):\n"
        "        if name == 'typer': raise KeyboardInterrupt\n"
        "sys.meta_path.insert(0, Impatient())\n"
        "from coordinator_free_launcher.start import main\n"
        "main()\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False, cwd=ROOT)
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "Stopped.\n")


NOT_UTF8 = b'name = "\xff\xfe"\n'


@pytest.mark.parametrize(
    "words",
    [
        ("plan", "check", "absent.toml"),
        ("plan", "check", "."),
        ("plan", "check", "binary.toml"),
        ("plan", "check", "broken.toml"),
        ("plan", "check", "other.toml"),
        ("run", "absent.toml"),
        ("run", "binary.toml"),
        ("run", "good.toml", "--data", "absent"),
        ("run", "foreign.toml", "--keep-ports", "--out", "new"),
        ("provision", "foreign.toml", "--out", "new"),
        ("provision", "absent.toml", "--out", "new"),
        ("provision", "good.toml", "--out", "."),
        ("provision", "good.toml", "--out", "new", "--data", "absent"),
        ("launch", "absent"),
        ("launch", "."),
        ("launch", "half"),
        ("launch", "binary"),
        ("status", "absent"),
        ("status", "binary"),
        ("node", "absent"),
    ],
    ids=" ".join,
)
def test_an_error_is_one_plain_sentence_with_code_2(
    words: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    _files(tmp_path)
    code, said = _invoke(*words)
    said += capfd.readouterr().err
    assert code == 2, said
    assert "Traceback" not in said
    lines = [line for line in said.splitlines() if "error" in line.lower()]
    assert len(lines) == 1, said
    assert not (tmp_path / "new").exists()


def _files(folder: Path) -> None:
    users = "".join(f'[[users]]\nname = "u{i}"\naddress = "HOST:{20000 + i}"\n' for i in range(3))
    good = f'[walk]\ntopology = "ring"\nrounds = 1\n[task]\nkind = "mean"\n[noise]\nsigma = 1.0\n{users}'
    (folder / "good.toml").write_text(good.replace("HOST", "127.0.0.1"))
    (folder / "foreign.toml").write_text(good.replace("HOST", "rechner-für-alle"))
    (folder / "binary.toml").write_bytes(NOT_UTF8)
    (folder / "broken.toml").write_text("[walk\n")
    (folder / "other.toml").write_text("[project]\nname = 'x'\n")
    (folder / "half").mkdir()
    (folder / "half" / "plan.toml").write_text(good.replace("HOST", "127.0.0.1"))
    (folder / "binary").mkdir()
    (folder / "binary" / "plan.toml").write_bytes(NOT_UTF8)
