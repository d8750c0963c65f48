"""The tool that changes the program: it makes the changes it says, and tells who noticed and who did not."""

from __future__ import annotations

import json
import random
import time
from datetime import date
from pathlib import Path

import pytest

from tests.mutants import __main__ as tool
from tests.mutants.must_die import MUST_DIE
from tests.mutants.operators import Mutant, mutants
from tests.mutants.runner import Copy, Fate, Job, run_all
from tests.mutants.targets import ROOT, TARGETS

SOURCE = '''"""A tree of one file."""

LIMIT = 3


def allowed(count: int, late: bool) -> bool:
    if late:
        return False
    assert count >= 0, f"{count + 1}"
    return max(count, 1) <= LIMIT and not late


def store(disk: list[int]) -> None:
    disk.append(1)
'''
EXPECTED = {
    ("negation", "late", "not (late)"),
    ("guard off", "late", "False and (late)"),
    ("truth", "False", "True"),
    ("and/or", "max(count, 1) <= LIMIT and not late", "((max(count, 1) <= LIMIT) or (not late))"),
    ("comparison", "max(count, 1) <= LIMIT", "max(count, 1) < LIMIT"),
    ("opposite", "max", "min"),
    ("off by one", "1", "2"),
    ("dropped call", "disk.append(1)", "pass"),
}


def test_each_operator_changes_what_decides_and_nothing_else() -> None:
    found = mutants("node/thing.py", SOURCE)
    assert {(mutant.operator, mutant.was, mutant.becomes) for mutant in found} == EXPECTED
    assert len(found) == len(EXPECTED) + 1, "one number in each function"
    assert all(len(mutant.diff(SOURCE).splitlines()) == 2 for mutant in found)


def test_a_change_behind_letters_of_several_bytes_hits_its_place() -> None:
    source = 'def f(x):\n    return x == "é" and x < 1\n'
    (mutant,) = [m for m in mutants("a.py", source) if m.was == "x < 1"]
    assert mutant.apply(source) == 'def f(x):\n    return x == "é" and x <= 1\n'


FILES = ["node/storage/journal.py", "node/protocols/walk/election.py", "analyzer/checks/integrity.py"]


@pytest.mark.parametrize("file", FILES)
def test_a_changed_file_is_still_a_program(file: str) -> None:
    source = (ROOT / file).read_text()
    for mutant in random.Random(1).sample(mutants(file, source), 40):
        compile(mutant.apply(source), mutant.id, "exec")


def test_a_change_of_a_file_that_has_changed_is_refused() -> None:
    with pytest.raises(AssertionError, match="the file has changed"):
        Mutant("a.py", 1, 0, "named", "x", "y").apply("z = 1\n")


@pytest.mark.parametrize("named", MUST_DIE, ids=lambda named: named.name.replace(" ", "-"))
def test_what_must_die_has_its_place_and_its_tests(named) -> None:
    mutant = named.mutant(ROOT)
    compile(mutant.apply((ROOT / named.file).read_text()), named.file, "exec")
    assert (ROOT / named.seen_by).exists()


def test_every_target_has_files_and_tests_and_no_reason_is_out_of_date() -> None:
    found = [m for target in TARGETS for file in target.paths() for m in mutants(file, (ROOT / file).read_text())]
    for target in TARGETS:
        files = target.paths()
        assert sum(mutant.file in files for mutant in found) > 100
        assert all((ROOT / name).exists() for stage in target.tests for name in stage if not name.startswith("-"))
    known = tool.equivalents()
    assert all(known.values()) and known.keys() <= {tool.key(mutant) for mutant in found}


def test_a_sample_is_drawn_from_every_target_by_its_seed() -> None:
    found = tool.generic([target.name for target in TARGETS])
    drawn = tool.draw(found, 3, seed=5)
    assert len(drawn) == 3 * len(TARGETS) and drawn == tool.draw(found, 3, seed=5) != tool.draw(found, 3, seed=6)


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A tree whose tests look at a limit, not at whether it is late, and not at the disk."""
    (tmp_path / "node").mkdir()
    (tmp_path / "tests").mkdir()
    (tmp_path / "node" / "__init__.py").touch()  # or the installed package would be found first
    (tmp_path / "node" / "thing.py").write_text(SOURCE)
    (tmp_path / "tests" / "test_thing.py").write_text(
        "from node.thing import LIMIT, allowed\n\n"
        "def test_limit():\n    assert allowed(LIMIT, False) and not allowed(LIMIT + 1, False)\n"
    )
    return tmp_path


@pytest.mark.slow
def test_a_planted_survivor_is_reported_and_a_change_that_is_noticed_is_not(tree: Path) -> None:
    found = {mutant.operator: mutant for mutant in mutants("node/thing.py", SOURCE)}
    jobs = [Job(found[name], (("tests/test_thing.py",),), 0) for name in ("comparison", "guard off", "negation")]
    told: list[str] = []
    outcomes = run_all(jobs, workers=2, seconds=600.0, root=tree, tell=lambda outcome: told.append(outcome.fate))
    assert [outcome.fate for outcome in outcomes] == [Fate.KILLED, Fate.SURVIVED, Fate.KILLED]
    assert "test_limit" in outcomes[0].by and sorted(told) == ["killed", "killed", "survived"]
    assert (tree / "node" / "thing.py").read_text() == SOURCE, "the tree itself is never touched"


def test_what_does_not_end_is_ended(tree: Path) -> None:
    folder = tree / "copy"
    folder.mkdir()
    began = time.monotonic()
    assert Copy(tree, folder).run(["-c", "while True: pass"], 0.5)[0] is None
    assert time.monotonic() - began < 60.0


def test_when_the_time_is_over_nothing_more_is_tried(tree: Path) -> None:
    (mutant, *_) = mutants("node/thing.py", SOURCE)
    (outcome,) = run_all([Job(mutant, (("tests/test_thing.py",),), 0)], workers=1, seconds=-1.0, root=tree)
    assert outcome.fate is Fate.NOT_RUN


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_what_must_die_dies(capsys: pytest.CaptureFixture[str]) -> None:
    """Some of the list, others every day; ``make mutants`` tries all of it."""
    for named in random.Random(date.today().toordinal()).sample(MUST_DIE, 4):
        code = tool.main(["--must-die", "--json", "--only", named.name])
        said = json.loads(capsys.readouterr().out)
        assert code == 0 and said["summary"]["must die"]["killed"] == 1, (named.name, said)
