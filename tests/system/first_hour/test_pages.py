"""The pages, played literally in an empty folder: every command of every ``sh`` block works, and all Python.

The program is a wheel that lies outside the clone: what the pages need must be in it. A block named after a file
(``toml plan.toml``) is that file. On a page for several people a block says whose laptop it is for. What is too large
for a test is played smaller (``SMALLER``), and what cannot run here has a reason (``ELSEWHERE``).
"""

from __future__ import annotations

import gzip
import os
import random
import re
import shutil
import subprocess
import sys
import tomllib
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

pytestmark = [pytest.mark.process, pytest.mark.slow]

ROOT = Path(__file__).parents[3]
PAGES = ("README.md", *sorted(str(path.relative_to(ROOT)) for path in (ROOT / "docs").rglob("*.md")))
BLOCK = re.compile(r"^```(\w*)[ ]?([\w.-]*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
COMMAND = re.compile(r"^(?:\$ |\w+\$ )?(?:network-dp|python3?|make|docker|kubectl|git|pip)\b", re.MULTILINE)
FRIENDS = {"anna": "21", "bert": "22", "carl": "23"}

#: What a page has -> what is played instead, and why where that is not plain.
SMALLER = {
    "--kill 0.2/s --seconds 30": "--kill 0 --pause 0 --seconds 1",  # tests/system/faults kills
    "--kill 1/s --pause 0.5/s --seconds 15": "--kill 0 --pause 0 --seconds 1",
    "audit ring_sum --real --users 10 --runs 4": "audit --real ring_sum --users 4 --runs 1",
    "audit ring_sum": "audit ring_sum --runs 20000",
    "audit complete_sgd": "audit complete_sgd --runs 20000",
    "reproduce fig2": "reproduce fig1b --quick",  # all of them: tests/unit/simulator/figures
    "reproduce all": "reproduce fig1b --quick",
    "reproduce walks": "reproduce walks --quick",
    "hypercube --users 16": "hypercube --users 8",
    "ring-lattice --users 12": "ring-lattice --users 8",
    "--users 50": "--users 12",
    "--users 40": "--users 12",
    "--users 2000 --steps 20000": "--users 200 --steps 2000",
    "range(40)": "range(12)",
    "seq 0 39": "seq 0 11",
    "--schedules 2000": "--schedules 20",
    "measure('audited', 2000,": "measure('audited', 50,",
    "/tmp/digits": "digits",
    "examples/": f"{ROOT}/examples/",  # part of the clone, not of the wheel
    "bob.jsonl.gz --plan plan.toml": "bob.jsonl.gz --plan plan.toml || test $? -eq 3",  # UNKNOWN: two logs of six
    "my-view.jsonl --plan plan.toml": "my-view.jsonl --plan plan.toml || test $? -eq 3",
}
#: First words of blocks that no test can play here, and what does instead.
ELSEWHERE = {
    "make demo": "this test is part of it; tests/system/processes/test_screen.py starts the demo",
    "git clone": "the wheel is what is installed here",
    "python -m benchmarks": "minutes of measuring on a quiet machine; tests/unit/benchmarks measures tiny sizes",
    "network-dp data houses --csv FILE": "a data set that is not ours to ship, and the better part of an hour",
    "PYTHONPATH=examples": "fifty users; tests/system/processes/test_hidden.py trains the example for some steps",
    "docker/airgap/prepare": "needs root and a Debian mirror",
    "docker compose": "needs an engine: tests/system/containers/test_compose.py runs these very files",
    "time docker compose": "needs an engine: tests/system/containers/test_compose.py has 8, 16 and 50 users",
    "docker stack": "needs a swarm: tests/system/containers/test_swarm.py walks to the result in one",
    "kubectl": "no cluster here: tests/system/containers/test_files.py holds the manifests against the schemas",
    "import joblib": "tests/unit/simulator/test_parallel.py does it with two workers on this machine",
}

#: How dialogues begin, and who has them.
DIALOGUES = {
    "anna$ network-dp invite": "test_the_dialogue_of_an_invitation",
    "$ network-dp doctor": "tests/system/hosts/test_doctor.py has its sentences from machines that are really ill",
}

FOR_USERS = ("docs/TUTORIAL.md", "docs/TASKS.md", "README.md")
ON_RUNS = ("docs/ANALYZER.md", "docs/BUDGETS.md", "docs/DEPLOY.md")
EXPERIMENTS = tuple(f"docs/{page}.md" for page in ("AUDIT", "CHAOS", "FIGURES", "GRAPHS", "LIBRARY", "MODELS"))
FOR_THREE = "docs/LAN.md"


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


def played(text: str) -> bool:
    return not text.startswith(tuple(ELSEWHERE))


def smaller(text: str) -> str:
    for written, instead in SMALLER.items():
        text = text.replace(written, instead)
    return text


def play(script: str, folder: Path, shell: dict[str, str]) -> str:
    command = ["bash", "-euo", "pipefail", "-c", script]
    done = subprocess.run(command, cwd=folder, env=shell, capture_output=True, text=True, timeout=250)
    assert done.returncode == 0, f"{script}\n{done.stdout[-3000:]}\n{done.stderr[-3000:]}"
    return done.stdout


@pytest.fixture(scope="module")
def three_runs(shell: dict[str, str], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What the pages about finished runs speak of: one plan, three runs of it, logs as their users hand them over."""
    folder = tmp_path_factory.mktemp("runs")
    (folder / "people").mkdir()
    for name in ("ann", "bob", "carl", "dora", "emil", "frida"):
        (folder / "people" / f"{name}.csv").write_text("hours\n0.42\n")
    new = "network-dp plan new --data people --column hours --lower 0 --upper 1"
    play(f"{new} --epsilon 1 --topology complete --steps 60 --out plan.toml", folder, shell)
    play("network-dp provision plan.toml --data people --ledgers off --out run-1", folder, shell)
    another = "sed -i.bak s/run_number\\ =\\ 1/run_number\\ =\\ $n/ run-$n/plan.toml run-$n/users/*/plan.toml"
    play(f"for n in 2 3; do cp -r run-1 run-$n; {another}; done", folder, shell)
    play("for n in 1 2 3; do network-dp launch run-$n; done", folder, shell)
    shutil.copytree(folder / "run-1", folder / "run")
    for name in ("ann", "bob"):
        play(f"network-dp export run/users/{name}/state/view.jsonl --out {name}.jsonl", folder, shell)
    (folder / "bob.jsonl.gz").write_bytes(gzip.compress((folder / "bob.jsonl").read_bytes()))
    shutil.copy(folder / "run/users/ann/state/view.jsonl", folder / "my-view.jsonl")
    shutil.copy(folder / "run/plan.toml", folder / "plan.toml")
    return folder


def a_houses_table(path: Path) -> None:
    names = "longitude,latitude,housing_median_age,total_rooms,total_bedrooms,population,households,median_income"
    rows = [",".join(f"{random.uniform(1, 9):.6f}" for _ in range(9)) for _ in range(300)]
    path.write_bytes(gzip.compress("\n".join([f"{names},median_house_value", *rows]).encode()))


@pytest.mark.parametrize("page", FOR_USERS)
def test_every_command_of_a_page_works(page: str, shell: dict[str, str], tmp_path: Path) -> None:
    assert re.search(r"verdict: (PASS|PARTIAL)", play_page(page, tmp_path, shell))


@pytest.mark.parametrize("page", ON_RUNS)
def test_every_command_on_finished_runs_works(
    page: str, shell: dict[str, str], three_runs: Path, tmp_path: Path
) -> None:
    folder = shutil.copytree(three_runs, tmp_path / "here")
    given = "from network_dp.plan_reader import load; from pathlib import Path; plan = load(Path('run/plan.toml'))"
    play_page(page, folder, {**shell, "XDG_STATE_HOME": str(tmp_path)}, given)


@pytest.mark.parametrize("page", EXPERIMENTS)
def test_every_command_of_an_experiment_works(page: str, shell: dict[str, str], tmp_path: Path) -> None:
    a_houses_table(tmp_path / "houses.csv.gz")
    play_page(page, tmp_path, shell)


def play_page(page: str, folder: Path, shell: dict[str, str], given: str = "") -> str:
    """``given``: what a page's Python takes for granted."""
    said = []
    for language, name, text in blocks(page):
        if language in ("sh", "python") and not name and played(text):
            code = f"python - <<'END'\n{given}\n{text}\nEND" if language == "python" else text
            said.append(play(smaller(code), folder, shell))
        elif name:
            (folder / name).write_text(text)
    assert said
    return "".join(said)


@pytest.mark.parametrize("page", PAGES)
def test_no_block_of_commands_is_left_out(page: str) -> None:
    """Commands are in ``sh`` blocks, dialogues in ``console``, files have names; the rest is pictures and output."""
    for language, _, text in blocks(page):
        if language in ("sh", "python"):
            assert page in (*FOR_USERS, *ON_RUNS, *EXPERIMENTS, FOR_THREE) or not played(text), (
                f"{page}: play it or say why not: {text}"
            )
        elif language == "console":
            assert text.startswith(tuple(DIALOGUES)), f"{page}: play it or say who does: {text}"
        elif language == "toml":
            assert tomllib.loads(text)
        else:
            assert not COMMAND.search(text), f"{page}: a command in a block that is no sh: {text}"
    outside = BLOCK.sub("", (ROOT / page).read_text())
    assert not re.search(r"^    (?:\$ )?network-dp ", outside, re.MULTILINE), f"{page}: a command outside a sh block"
    assert not re.search(r"^(?:```|~~~)", outside, re.MULTILINE), f"{page}: a block that this test cannot read"


def test_every_reason_is_for_a_block_that_is_there() -> None:
    texts = [text for page in PAGES for _, _, text in blocks(page)]
    assert [words for words in ELSEWHERE if not any(text.startswith(words) for text in texts)] == []
    assert [words for words in SMALLER if not any(words in text for text in texts)] == []


def test_the_model_on_the_page_is_the_example() -> None:
    (shown,) = (tomllib.loads(text) for language, _, text in blocks("docs/MODELS.md") if language == "toml")
    assert part_of(shown, tomllib.loads((ROOT / "examples" / "digits.toml").read_text()))


def part_of(small: Any, large: Any) -> bool:
    if not isinstance(small, dict):
        return bool(small == large)
    return all(key in large and part_of(value, large[key]) for key, value in small.items())


def test_the_program_is_the_installed_one(shell: dict[str, str], tmp_path: Path) -> None:
    where = play("python -c 'import network_dp, node; print(network_dp.__file__, node.__file__)'", tmp_path, shell)
    assert all(shell["PYTHONPATH"] in path for path in where.split())


def test_three_laptops(shell: dict[str, str], tmp_path: Path) -> None:
    """Cards, the public folder and the exported logs are carried over as the page says; 192.168 is 127.168 here."""
    for name in FRIENDS:
        (tmp_path / name).mkdir()
    said = ""
    for language, who, text in blocks(FOR_THREE):
        if language == "toml" and who == "plan.toml":
            (tmp_path / "anna" / who).write_text(text)
        elif language == "sh":
            if not played(text):
                continue
            carry(text, tmp_path)
            text = smaller(text)
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


def test_the_dialogue_of_an_invitation(shell: dict[str, str], tmp_path: Path) -> None:
    """anna types her line, everybody theirs, with the code that is shown; by address, since these laptops are one."""
    said = blocks(FOR_THREE)
    (plan,) = (text for language, name, text in said if (language, name) == ("toml", "plan.toml"))
    (dialogue,) = (text for language, _, text in said if language == "console" and text.startswith("anna$"))
    lines = dict(re.findall(r"^(\w+)\$ (.*)$", dialogue, re.MULTILINE))
    shown = re.search(r"code (\d{4}-\d{4})", dialogue)
    assert shown is not None
    (tmp_path / "plan.toml").write_text(plan)
    command = f"exec {lines['anna']} --no-announce --host 127.0.0.1 --port 0"
    inviter = subprocess.Popen(["bash", "-c", command], cwd=tmp_path, env=shell, stdout=subprocess.PIPE, text=True)
    try:
        assert inviter.stdout is not None
        code, _, at = (inviter.stdout.readline().split()[-1] for _ in range(3))

        def join(name: str) -> str:
            (tmp_path / name).mkdir()
            (tmp_path / name / "mine.csv").write_text("7.5\n")
            line = lines["bert"].replace("bert", name).replace(shown[1], code)
            return play(f"{line} --at {at} --port 70{FRIENDS[name]}", tmp_path / name, shell)

        with ThreadPoolExecutor() as pool:
            joined = list(pool.map(join, FRIENDS))
        assert "everybody has the plan" in inviter.communicate(timeout=60)[0]
    finally:
        inviter.kill()
        inviter.wait()
    assert all("ready. Start with: network-dp launch lunch" in one for one in joined)


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
