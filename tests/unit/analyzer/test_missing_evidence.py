"""What is missing convicts nobody: logs, ends of logs, values, and lines before a disk came back. What contradicts
does (test_tampered_logs)."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path

import pytest

from analyzer.analysis import analyze_runs
from analyzer.run import Analysis
from analyzer.verdict import Status
from benchmarks.generated_logs import Faults, plan_text, write_run
from benchmarks.simulated_logs import write_disaster
from network_dp import view
from tests.unit.analyzer import tamper
from tests.unit.analyzer.conftest import GRID, HISTOGRAM, PLANS, SGD

Lines = list[str]
Harm = Callable[[random.Random, Lines], Lines]


REJOINED = view.encode("rejoined") + "\n"


def cut_short(chance: random.Random, lines: Lines) -> Lines:
    """The last lines are gone; not the header, nor the line that says that others are."""
    least = lines.index(REJOINED) + 1 if REJOINED in lines else 1
    return lines[: chance.randint(least, len(lines))]


def torn(chance: random.Random, lines: Lines) -> Lines:
    """The last bytes are gone."""
    kept = cut_short(chance, lines)
    return kept if len(kept) == 1 or kept[-1] == REJOINED else [*kept[:-1], kept[-1][: chance.randint(1, 20)]]


def exported(chance: random.Random, lines: Lines) -> Lines:
    shown = (view.exported(view.decode(line)) for line in lines)
    return [f"{line}\n" for line in shown if line is not None]


def hole(chance: random.Random, lines: Lines) -> Lines:
    """A disk came back: old, empty or with holes."""
    place = chance.randint(1, len(lines))
    share = chance.choice((0.0, 0.2, 0.5, 0.9))
    old = chance.randint(1, place)
    kept = [line for i, line in enumerate(lines[1:place], 1) if (i < old) or chance.random() < share]
    return [lines[0], *kept, REJOINED, *lines[place:]]


HARMS: tuple[Harm, ...] = (cut_short, torn, exported, hole)


def harmed(logs: dict[str, Lines], seed: int, folder: Path) -> list[Path]:
    """Some logs are missing, some of the others are harmed in one way or two."""
    chance = random.Random(seed)
    kept = sorted(chance.sample(sorted(logs), chance.randint(1, len(logs)))) if chance.random() < 0.5 else sorted(logs)
    rate = chance.choice((0.0, 0.3, 1.0))
    paths = []
    for name in kept:
        lines = logs[name]
        for harm in chance.sample(HARMS, 2):
            lines = harm(chance, lines) if chance.random() < rate and not torn_already(lines) else lines
        paths.append(folder / f"{name}.jsonl")
        paths[-1].write_text("".join(lines))
    return paths


def torn_already(lines: Lines) -> bool:
    return not lines[-1].endswith("\n")


def judged(paths: list[Path], plan: Path) -> Analysis:
    (analysis,) = analyze_runs(paths, plan, is_user=False).runs
    wrong = [(check.id, check.observed, check.evidence[:2]) for check in analysis.checks if check.status is Status.FAIL]
    assert wrong == []
    return analysis


def convict_nobody(run: Path, folder: Path, seeds: range) -> None:
    names = sorted(path.name for path in (run / "users").iterdir())
    logs = {name: tamper.log_of(run, name).read_text().splitlines(keepends=True) for name in names}
    folder.mkdir()
    for seed in seeds:
        judged(harmed(logs, seed, folder), run / "plan.toml")


SPREAD = f"sigma = 2.0\n{GRID}\nspread = true"
FAULTY = {
    "a walk that lost its token": (plan_text(), Faults(lose_at=20, lose_after=4)),
    "a walk whose end was lost": (plan_text(length=24), Faults(lose_at=20, lose_after=4)),
    "a walk that was refused": (plan_text(), Faults(refuse_at=20)),
    "a walk whose holder never ran": (plan_text(), Faults(unrun_at=20)),
    "a ring that lost its token": (plan_text("ring", 6, 5), Faults(lose_at=12, lose_after=3)),
    "a ring with a dead user": (plan_text("ring", 6, 5), Faults(dead=frozenset({2}))),
    "a spread ring with users away": (plan_text("ring", 5, 4, noise=SPREAD), Faults(away=frozenset({10, 14}))),
    "a model that lost its token": (plan_text(task=SGD, noise="sigma = 3.0"), Faults(lose_at=20, lose_after=4)),
    "responses that lost their token": (
        plan_text(task=HISTOGRAM, noise="gamma = 0.3"),
        Faults(lose_at=20, lose_after=4),
    ),
    "a ring of responses with a dead user": (
        plan_text("ring", 6, 4, task=HISTOGRAM, noise="gamma = 0.3"),
        Faults(dead=frozenset({3})),
    ),
}


@pytest.mark.parametrize("plan", PLANS, ids=lambda name: name.replace(" ", "-"))
def test_missing_evidence_of_an_honest_run_convicts_nobody(tmp_path, plan):
    write_run(tmp_path / "run", PLANS[plan], 7)
    convict_nobody(tmp_path / "run", tmp_path / "shown", range(8))


@pytest.mark.parametrize("case", FAULTY, ids=lambda name: name.replace(" ", "-"))
def test_missing_evidence_of_a_run_with_faults_convicts_nobody(tmp_path, case):
    write_run(tmp_path / "run", FAULTY[case][0], 11, FAULTY[case][1])
    convict_nobody(tmp_path / "run", tmp_path / "shown", range(8))


@pytest.mark.slow
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("times", [1, pytest.param(4, marks=pytest.mark.full)])
def test_missing_evidence_convicts_nobody_whatever_the_run(tmp_path, times):
    cases = [(text, None) for text in PLANS.values()] + list(FAULTY.values())
    for number, (text, faults) in enumerate(cases * times):
        write_run(tmp_path / str(number), text, 100 + number, faults)
        convict_nobody(tmp_path / str(number), tmp_path / f"shown-{number}", range(1000 * number, 1000 * number + 60))


#: Old disks: one that learns of the end, and two whose journal is older than the log.
OLD_DISKS = (27, 2482, 3290)
#: A graph by simple weights: the holder's only peer is lost before the last step.
ALONE = 60000007
#: A user started again within one visit: whom its roll-call finds silent is nobody it drew.
STARTED_AGAIN = 300000591


@pytest.mark.parametrize("seed", [*range(12), *OLD_DISKS, ALONE, STARTED_AGAIN])
def test_missing_evidence_of_a_simulated_disaster_convicts_nobody(tmp_path, seed):
    write_disaster(tmp_path / "run", seed)
    convict_nobody(tmp_path / "run", tmp_path / "shown", range(12))


@pytest.mark.slow
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("seeds", [range(100, 160), pytest.param(range(160, 260), marks=pytest.mark.full)], ids=len)
def test_missing_evidence_of_many_simulated_disasters_convicts_nobody(tmp_path, seeds):
    for seed in seeds:
        write_disaster(tmp_path / str(seed), seed)
        convict_nobody(tmp_path / str(seed), tmp_path / f"shown-{seed}", range(1000 * seed, 1000 * seed + 25))


@pytest.mark.slow
def test_one_log_alone_convicts_nobody_wherever_it_is_cut(tmp_path):
    """Every user of every kind of run, the finisher and one that was visited once included."""
    texts = {**PLANS, "short ring": plan_text("ring", 5, 1), "short walk": plan_text(n=6, length=5)}
    for number, text in enumerate(texts.values()):
        run = tmp_path / str(number)
        write_run(run, text, 3)
        for path in sorted((run / "users").glob("*/state/view.jsonl")):
            lines = path.read_text().splitlines(keepends=True)
            for end in {len(lines), *range(1, len(lines), max(1, len(lines) // 3))}:
                (tmp_path / "mine.jsonl").write_text("".join(lines[:end]))
                own = judged([tmp_path / "mine.jsonl"], run / "plan.toml")
                assert own.alone is not None and own.status is Status.UNKNOWN


def test_a_missing_log_of_a_user_that_handed_the_token_to_itself_proves_nothing(tmp_path):
    walk = write_run(tmp_path, plan_text(n=4, length=60), 1)
    for user in range(4):
        own = tamper.read(tmp_path, f"user-{user}")
        assert any(line["kind"] == "sent" and line["to"] == f"user-{user}" for line in own), "each has a self-hop"
        paths = [tamper.log_of(tmp_path, name) for name in walk.names if name != f"user-{user}"]
        assert judged(paths, tmp_path / "plan.toml").status is Status.UNKNOWN


def test_a_disk_that_came_back_leaves_the_verdict_open(tmp_path):
    """Its log may be whole, but nobody can tell."""
    write_run(tmp_path, plan_text(), 1)
    lines = tamper.read(tmp_path, "user-2")
    tamper.rewrite(tmp_path, "user-2", [*lines[:8], {"kind": "rejoined"}, *lines[8:]])
    analysis = judged([tmp_path], tmp_path / "plan.toml")
    assert analysis.status is Status.UNKNOWN
    assert "user-2" in {check.id: check for check in analysis.checks}["logs"].observed


@pytest.mark.parametrize("caps", ["contributions = 6", "edge = 3"])
def test_a_contribution_counted_by_a_disk_that_was_lost_convicts_nobody(tmp_path, caps):
    """What an old disk forgot it may do again, where nobody has seen it: its log, kept elsewhere, has both."""
    write_run(tmp_path, plan_text(n=3, length=80, caps=caps), 1)
    lines = tamper.read(tmp_path, "user-1")
    place = tamper.nth(lines, "sent", 0, lambda line: not line["real"])
    lines[place].update(real=True, contribution=[0] * len(lines[place]["sent"]))
    tamper.rewrite(tmp_path, "user-1", [*lines[:place], {"kind": "rejoined"}, *lines[place:]])
    (analysis,) = analyze_runs([tmp_path]).runs
    assert {check.id: check.status for check in analysis.checks}["caps"] is Status.UNKNOWN


def without(run: Path, user: str, kinds: set[str], after: int) -> None:
    lines = tamper.read(run, user)
    tamper.rewrite(run, user, [x for i, x in enumerate(lines) if i < after or x["kind"] not in kinds])


def test_a_result_that_nobody_finished_is_a_contradiction(tmp_path):
    """All logs are here to their end, the walk stops on its way, and yet there is a result."""
    write_run(tmp_path, plan_text(), 1)
    for user in (f"user-{u}" for u in range(5)):
        without(tmp_path, user, {"visit", "sent", "finish", "accepted"}, 10)
    (analysis,) = analyze_runs([tmp_path]).runs
    result = {check.id: check for check in analysis.checks}["result"]
    assert result.status is Status.FAIL and "no log shows how the walk ended" in result.evidence[0].text


def test_a_result_that_nobody_finished_proves_nothing_while_a_log_is_cut(tmp_path):
    """The control of the test above: the finisher's log ends before the walk does."""
    write_run(tmp_path, plan_text(), 1)
    finisher = next(
        f"user-{u}" for u in range(5) if any(x["kind"] == "finish" for x in tamper.read(tmp_path, f"user-{u}"))
    )
    tamper.rewrite(tmp_path, finisher, tamper.read(tmp_path, finisher)[:-2])
    analysis = judged([tmp_path], tmp_path / "plan.toml")
    assert {check.id: check.status for check in analysis.checks}["result"] is Status.UNKNOWN


@pytest.mark.parametrize("kind", ["visit", "sent"])
def test_a_line_missing_after_the_disk_came_back_is_a_contradiction(tmp_path, kind):
    """What a log must hold is there, or the log was changed."""
    write_run(tmp_path, plan_text(), 1)
    lines = tamper.read(tmp_path, "user-2")
    place = tamper.nth(lines, kind, 3)
    kept = [*lines[:1], {"kind": "rejoined"}, *lines[tamper.nth(lines, "visit", 1) : place], *lines[place + 1 :]]
    tamper.rewrite(tmp_path, "user-2", kept)
    assert analyze_runs([tmp_path]).status is Status.FAIL
