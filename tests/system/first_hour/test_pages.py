"""The pages for new users, played literally in an empty folder: every command of every ``sh`` block works.

The program is a wheel that lies outside the clone: what the pages need must be in it. A block named after a file
(``toml plan.toml``) is that file. On a page for several people a block says whose laptop it is for.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

pytestmark = [pytest.mark.process, pytest.mark.slow]

ROOT = Path(__file__).parents[3]
BLOCK = re.compile(r"^```(\w+)[ ]?([\w.-]*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
FRIENDS = {"anna": "21", "bert": "22", "carl": "23"}


@pytest.fixture(scope="module")
def shell(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """The environment of somebody who installed the wheel."""
    place = tmp_path_factory.mktemp("installed")
    pip = [sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check"]
    wheel = [*pip, "wheel", "--no-deps", "--no-build-isolation", "--wheel-dir", str(place), str(ROOT)]
    subprocess.run(wheel, check=True, capture_output=True, timeout=120)
    (file,) = place.glob("*.whl")
    subprocess.run([*pip, "install", "--no-deps", "--target", str(place / "lib"), str(file)], check=True, timeout=120)
    (place / "bin").mkdir()
    for name, module in (("network-dp", "-m coordinator_free_launcher"), ("python", "")):
        script = place / "bin" / name
        script.write_text(f'#!/bin/sh\nexec "{sys.executable}" {module} "$@"\n')
        script.chmod(0o755)
    return {
        **os.environ,
        "PATH": f"{place / 'bin'}:{os.environ['PATH']}",
        "PYTHONPATH": str(place / "lib"),
        "MPLBACKEND": "agg",
    }


def blocks(page: str) -> list[tuple[str, str, str]]:
    return BLOCK.findall((ROOT / page).read_text())


def play(script: str, folder: Path, shell: dict[str, str]) -> str:
    command = ["bash", "-euo", "pipefail", "-c", script]
    done = subprocess.run(command, cwd=folder, env=shell, capture_output=True, text=True, timeout=250)
    assert done.returncode == 0, f"{script}\n{done.stdout[-3000:]}\n{done.stderr[-3000:]}"
    return done.stdout


@pytest.mark.parametrize("page", ["docs/TUTORIAL.md", "docs/TASKS.md", "README.md"])
def test_every_command_of_a_page_works(page: str, shell: dict[str, str], tmp_path: Path) -> None:
    said, played = "", 0
    for language, name, text in blocks(page):
        if language == "sh":
            said, played = said + play(text, tmp_path, shell), played + 1
        elif language == "python" and not name:
            said, played = said + play(f"python - <<'END'\n{text}\nEND", tmp_path, shell), played + 1
        elif name:
            (tmp_path / name).write_text(text)
    assert played
    assert re.search(r"verdict: (PASS|PARTIAL)", said)


def test_the_program_is_the_installed_one(shell: dict[str, str], tmp_path: Path) -> None:
    where = play("python -c 'import network_dp, node; print(network_dp.__file__, node.__file__)'", tmp_path, shell)
    assert all(shell["PYTHONPATH"] in path for path in where.split())


def test_three_laptops(shell: dict[str, str], tmp_path: Path) -> None:
    """Cards, the public folder and the exported logs are carried over as the page says; 192.168 is 127.168 here."""
    for name in FRIENDS:
        (tmp_path / name).mkdir()
    said = ""
    for language, who, text in blocks("docs/LAN.md"):
        if language == "toml" and who == "plan.toml":
            (tmp_path / "anna" / who).write_text(text)
        elif language == "sh":
            carry(text, tmp_path)
            names = FRIENDS if who == "everybody" else [who]
            scripts = [
                text.replace("bert", name).replace("192.168.1.22", f"127.168.1.{FRIENDS[name]}")
                if who == "everybody"
                else text
                for name in names
            ]
            with ThreadPoolExecutor() as pool:
                said += "".join(pool.map(lambda name, script: play(script, tmp_path / name, shell), names, scripts))
    assert said.count("Result of lunch") == 3
    assert "PARTIAL" in said
    assert (tmp_path / "anna" / "report.html").exists()


def carry(text: str, place: Path) -> None:
    """What people send each other before a step."""
    anna = place / "anna"
    if "network-dp sign" in text:
        (anna / "cards").mkdir()
        for name in FRIENDS:
            shutil.copy(place / name / "lunch" / f"{name}.card", anna / "cards")
    if "network-dp accept" in text:
        for name in FRIENDS:
            shutil.copytree(anna / "signed" / "public", place / name / "public")
    if "network-dp analyze" in text:
        for name in FRIENDS:
            if name != "anna":
                shutil.copy(place / name / f"{name}.jsonl", anna)
