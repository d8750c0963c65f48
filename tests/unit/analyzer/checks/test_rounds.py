"""Runs over anonymous rounds: one log alone, all logs of somebody who is no user, and what is wrong is found."""

from __future__ import annotations

import json
import re
from base64 import b64decode
from pathlib import Path
from typing import Any

import pytest

from analyzer.analysis import analyze_runs
from analyzer.errors import InputError
from analyzer.read.export import export
from analyzer.reconstruct.rounds import known_steps, read
from analyzer.report.as_json import as_text
from analyzer.report.page import page, write
from analyzer.verdict import Check, Status
from network_dp import view
from network_dp.plan_reader import parse
from network_dp.promise import usual_local_epsilon
from tests.unit.analyzer.hidden_run import HiddenRun, LossyRun, values
from tests.unit.analyzer.test_missing_evidence import convict_nobody


def text(walk: str, task: str, users: int, noise: str = "sigma = 2.0\ngrid = 0.0009765625") -> str:
    body = f'[walk]\ntopology = "complete"\n{walk}\n[task]\n{task}\n[noise]\n{noise}\n'
    return body + "".join(f'[[users]]\nname = "u{i}"\naddress = "127.0.0.1:{7000 + i}"\n' for i in range(users))


MEAN = 'kind = "mean"\nlower = 0.0\nupper = 1.0'


@pytest.fixture(scope="module")
def hidden(tmp_path_factory: pytest.TempPathFactory) -> Path:
    run = HiddenRun(parse(text('path = "hidden"\nsteps = 60', MEAN, 6)), values(6))
    run.run()
    return run.write(tmp_path_factory.mktemp("hidden"))


@pytest.fixture(scope="module")
def masked(tmp_path_factory: pytest.TempPathFactory) -> Path:
    run = HiddenRun(parse(text('protocol = "masked_sum"', MEAN, 6)), values(6))
    run.run()
    return run.write(tmp_path_factory.mktemp("masked"))


def statuses(path: Path, **options: Any) -> dict[str, Status]:
    (run,) = analyze_runs([path], **options).runs
    return {check.id: check.status for check in run.checks}


def test_all_logs_together_are_refused_to_a_user_and_pass_for_somebody_else(hidden: Path, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="--i-am-not-a-user"):
        analyze_runs([hidden])
    analyses = analyze_runs([hidden], is_user=False)
    found = {check.id: (check.status, check.observed) for check in analyses.runs[0].checks}
    assert analyses.status is Status.PASS, found
    assert {"attendance", "exposure", "labels", "conservation", "links", "result"} <= found.keys()
    assert json.loads(as_text(analyses))["status"] == "PASS"
    assert write(analyses, tmp_path / "report.html")


def test_one_log_alone_passes_and_shows_its_own_visits_only(hidden: Path) -> None:
    log = hidden / "users" / "u2" / "state" / "view.jsonl"
    analyses = analyze_runs([log])
    assert {check.id for check in analyses.runs[0].checks} == {"attendance", "exposure", "promise", "visits"}
    assert analyses.status is Status.PASS


def test_a_report_of_a_hidden_run_can_be_passed_on(hidden: Path) -> None:
    """It judges from all logs, and tells nobody who held the token."""
    (analysis,) = analyze_runs([hidden], is_user=False).runs
    assert json.loads(as_text(analyze_runs([hidden], is_user=False)))["users"] == []
    assert analysis.privacy.local == usual_local_epsilon(analysis.run.plan)  # not from how often anybody contributed
    text = page(analysis)
    for telling in ("The walk", "Timeline", "Visits per user", "own card", 'class="edge'):
        assert telling not in text
    (verdict,) = re.findall(r"-verdict.json' href='data:[^;]+;base64,([^']+)'", text)
    assert json.loads(b64decode(verdict))["users"] == []
    assert "The path is hidden" in text and "the most anybody could learn in this run" in text


def _changed(source: Path, target: Path, user: str, change: Any) -> Path:
    for log in source.rglob("view.jsonl"):
        copy = target / log.relative_to(source)
        copy.parent.mkdir(parents=True)
        lines = [json.loads(line) for line in log.read_text().splitlines()]
        if log.parts[-3] == user:
            lines = change(lines)
        copy.write_text("\n".join(map(json.dumps, lines)) + "\n")
    (target / "plan.toml").write_text((source / "plan.toml").read_text())
    return target


def _first_visit(lines: list[dict[str, Any]]) -> dict[str, Any]:
    return next(line for line in lines if line["kind"] == "spoken" and line["cause"] in ("visit", "share"))


def test_missing_evidence_of_an_honest_run_over_rounds_convicts_nobody(
    hidden: Path, masked: Path, tmp_path: Path
) -> None:
    lossy = LossyRun(parse(text('path = "hidden"\nsteps = 60\nmin_live = 4', MEAN, 6)), values(6), 30)
    lossy.run()
    (tmp_path / "lossy").mkdir()
    for number, run in enumerate((hidden, masked, lossy.write(tmp_path / "lossy"))):
        convict_nobody(run, tmp_path / str(number), range(12))


def test_labels_are_not_judged_by_logs_without_their_visits(hidden: Path, tmp_path: Path) -> None:
    """A log that ends early shows fewer visits than its user made."""

    def change(lines: list[dict[str, Any]]) -> list[dict[str, Any]]:
        return lines[: lines.index(_first_visit(lines))]

    assert statuses(_changed(hidden, tmp_path, "u1", change), is_user=False)["labels"] is Status.UNKNOWN


def test_a_changed_contribution_is_found(hidden: Path, tmp_path: Path) -> None:
    def change(lines: list[dict[str, Any]]) -> list[dict[str, Any]]:
        _first_visit(lines)["contribution"][0] += 1
        return lines

    assert statuses(_changed(hidden, tmp_path, "u1", change), is_user=False)["conservation"] is Status.FAIL


def test_a_step_that_somebody_hides_is_found(hidden: Path, tmp_path: Path) -> None:
    def change(lines: list[dict[str, Any]]) -> list[dict[str, Any]]:
        lines.remove(_first_visit(lines))
        return lines

    found = statuses(_changed(hidden, tmp_path, "u1", change), is_user=False)
    assert Status.FAIL in (found["links"], found["steps"])


def test_a_round_of_too_few_is_found(hidden: Path, tmp_path: Path) -> None:
    def change(lines: list[dict[str, Any]]) -> list[dict[str, Any]]:
        return [*lines, {"kind": "attendance", "users": ["u0", "u1"]}]

    found = statuses(_changed(hidden, tmp_path, "u1", change), is_user=False)
    assert found["attendance"] is Status.FAIL


def test_a_walk_that_waited_for_a_user_that_was_away_costs_more_than_the_promise(hidden: Path, tmp_path: Path) -> None:
    def change(lines: list[dict[str, Any]]) -> list[dict[str, Any]]:
        base = _first_visit(lines)["base"]
        at = next(
            i for i, line in enumerate(lines) if line["kind"] == "round" and [*line["epoch"], line["step"]] == base
        )
        rolls = [[f"u{user}" for user in users] for users in ((0, 2, 3, 4, 5), range(6))]
        return [*lines[: at + 1], *({"kind": "attendance", "users": roll} for roll in rolls), *lines[at + 1 :]]

    changed = _changed(hidden, tmp_path, "u1", change)
    (run,) = analyze_runs([changed], is_user=False).runs
    (cost,) = [check for check in run.checks if check.id == "exposure"]
    assert cost.status is Status.OVERSPENT and "1 steps of one user known" in cost.observed


def cost(path: Path, **options: Any) -> Check:
    (run,) = analyze_runs([path], **options).runs
    (found,) = [check for check in run.checks if check.id == "exposure"]
    return found


def own_log(run: Path, user: int) -> Path:
    return run / "users" / f"u{user}" / "state" / "view.jsonl"


@pytest.mark.parametrize("after", [False, True], ids=["before its next block", "after its next block"])
def test_a_holder_that_started_again_is_known(hidden: Path, tmp_path: Path, after: bool) -> None:
    def change(lines: list[dict[str, Any]]) -> list[dict[str, Any]]:
        base = _first_visit(lines)["base"]
        at = after + next(
            i for i, line in enumerate(lines) if line["kind"] == "round" and [*line["epoch"], line["step"]] == base
        )
        return [*lines[:at], {"kind": "start", "life": 2}, *lines[at:]]

    found = cost(_changed(hidden, tmp_path, "u1", change), is_user=False)
    assert " 0 steps of one user known" not in found.observed


def test_a_walk_taken_up_again_from_before_a_lost_speaker_makes_it_known(tmp_path: Path) -> None:
    """The holder and the last other speaker are lost: whoever asks names an earlier step than the last one heard."""
    plan = parse(text('path = "hidden"\nsteps = 30\nmin_live = 5', MEAN, 8))
    run = LossyRun(plan, values(8), at_step=12, and_speaker=True)
    run.run()
    logs = {
        user: read(plan, [(i, view.decode(line)) for i, line in enumerate(run.lines[user])]) for user in range(plan.n)
    }
    found = known_steps(plan, logs)
    assert found[run.lost[1]] >= 1
    assert all(found[user] == 0 for user in range(plan.n) if user not in run.lost), "who was there is not known"
    most = max(found.values())
    assert f" {most} steps of one user known" in cost(run.write(tmp_path), is_user=False).observed


def test_only_what_was_said_after_the_step_that_is_named_becomes_known() -> None:
    """u1 speaks for steps 2, 4 and 6, and is lost with the holder of 6; the walk goes on from 3."""
    plan = parse(text('path = "hidden"\nsteps = 30\nmin_live = 4', MEAN, 6))

    def heard(epoch: int, step: int) -> str:
        return view.encode("round", adder=0, counter=step, epoch=[epoch, 1], step=step, digest="")

    def visit(step: int) -> str:
        return view.encode("spoken", epoch=[0, 1], step=step, visit=step, cause="visit", base=[0, 1, step - 1])

    def log(*lines: str) -> Any:
        return read(plan, [(i, view.decode(line)) for i, line in enumerate(lines)])

    everybody, fewer = (
        view.encode("attendance", users=users) for users in (list(plan.names), ["u0", "u2", "u3", "u4"])
    )
    before = [everybody, *(heard(0, step) for step in range(1, 7))]
    u0 = log(*before, fewer, heard(1, 3), heard(1, 4))
    u1 = log(*before, visit(2), visit(4), visit(6))
    u2 = log(*before, visit(3), visit(5))
    assert known_steps(plan, {0: u0, 1: u1, 2: u2}) == {0: 0, 1: 2, 2: 0}


def test_a_roll_stands_until_it_changes() -> None:
    """u1 leaves at step 4, the walk comes to it at step 5 and waits: no new roll is logged there."""
    plan = parse(text('path = "hidden"\nsteps = 30\nmin_live = 4', MEAN, 6))
    lines = [
        view.encode("round", adder=0, counter=4, epoch=[0, 1], step=4, digest=""),
        view.encode("attendance", users=["u0", "u2", "u3", "u4", "u5"]),
        view.encode("round", adder=0, counter=5, epoch=[0, 1], step=5, digest=""),
    ]
    said = view.encode("spoken", epoch=[0, 1], step=6, visit=1, cause="visit", base=[0, 1, 5])
    u0, u1 = (read(plan, [(i, view.decode(line)) for i, line in enumerate(some)]) for some in (lines, [said]))
    assert known_steps(plan, {0: u0, 1: u1}) == {0: 0, 1: 1}


def test_one_log_of_a_disturbed_run_counts_all_its_steps_and_is_no_pass(tmp_path: Path) -> None:
    """Everybody hears how many steps there are. Within the promise or not: one log cannot show who became known."""
    for least, wanted in ((7, Status.OVERSPENT), (5, Status.UNKNOWN)):
        run = LossyRun(parse(text(f'path = "hidden"\nsteps = 30\nmin_live = {least}', MEAN, 8)), values(8), at_step=12)
        run.run()
        (folder := tmp_path / str(least)).mkdir()
        whole = cost(run.write(folder), is_user=False)
        assert analyze_runs([folder], is_user=False).status is not Status.FAIL, "nobody did anything wrong"
        alone = cost(own_log(folder, (run.lost[0] + 1) % 8))
        assert "31 steps" in whole.observed and "31 steps" in alone.observed, "one was walked twice"
        assert alone.status is wanted, alone


def test_one_log_that_passes_says_what_it_assumes(hidden: Path, masked: Path) -> None:
    for run in (hidden, masked):
        found = cost(own_log(run, 2))
        assert found.status is Status.PASS and "never away itself is assumed" in found.rule


@pytest.mark.parametrize("change", ["cut", "restart", "absence"])
def test_one_log_that_shows_a_disturbance_is_no_pass(hidden: Path, tmp_path: Path, change: str) -> None:
    def changed(lines: list[dict[str, Any]]) -> list[dict[str, Any]]:
        if change == "cut":
            return [line for line in lines if line["kind"] != "result"]
        extra = {"kind": "start", "life": 2} if change == "restart" else {"kind": "attendance", "users": NOT_U3}
        return [*lines[:4], extra, *lines[4:]]

    found = cost(own_log(_changed(hidden, tmp_path, "u2", changed), 2))
    assert found.status is Status.UNKNOWN and "cannot show all" in found.observed


NOT_U3 = ["u0", "u1", "u2", "u4", "u5"]


def test_exported_logs_show_no_cost_and_pass_nothing(hidden: Path, masked: Path, tmp_path: Path) -> None:
    for run in (hidden, masked):
        for log in run.rglob("view.jsonl"):
            copy = tmp_path / run.name / log.relative_to(run)
            copy.parent.mkdir(parents=True)
            export(log, copy)
        (tmp_path / run.name / "plan.toml").write_text((run / "plan.toml").read_text())
        found = cost(tmp_path / run.name, is_user=False)
        assert found.status is Status.PARTIAL
        assert found.number is not None and found.limit is not None
        assert found.number == pytest.approx(found.limit), "no less than the plan allows"


def test_one_log_tells_the_same_mean_as_all(hidden: Path) -> None:
    (alone,), (whole,) = analyze_runs([own_log(hidden, 2)]).runs, analyze_runs([hidden], is_user=False).runs
    assert alone.utility.estimate == whole.utility.estimate


def test_labels_that_favour_somebody_are_found(hidden: Path, tmp_path: Path) -> None:
    """One user opens nearly everything."""
    for log in hidden.rglob("view.jsonl"):
        copy = tmp_path / log.relative_to(hidden)
        copy.parent.mkdir(parents=True)
        lines = log.read_text().splitlines()
        copy.write_text("\n".join(line for line in lines if '"cause":"visit"' not in line) + "\n")
    visits = [
        line for log in hidden.rglob("view.jsonl") for line in log.read_text().splitlines() if '"cause":"visit"' in line
    ]
    with (tmp_path / "users" / "u3" / "state" / "view.jsonl").open("a") as file:
        file.write("\n".join(visits) + "\n")
    (tmp_path / "plan.toml").write_text((hidden / "plan.toml").read_text())
    assert statuses(tmp_path, is_user=False)["labels"] is Status.FAIL


def test_a_masked_sum_passes_and_a_changed_share_is_found(masked: Path, tmp_path: Path) -> None:
    analyses = analyze_runs([masked])
    found = {check.id: (check.status, check.observed) for check in analyses.runs[0].checks}
    assert analyses.status is Status.PASS, found
    assert write(analyses, tmp_path / "report.html")

    def change(lines: list[dict[str, Any]]) -> list[dict[str, Any]]:
        _first_visit(lines)["noise"][0] += 1
        return lines

    assert statuses(_changed(masked, tmp_path / "x", "u1", change))["conservation"] is Status.FAIL


def _with_noises(run: Path, folder: Path, noises: dict[str, Any]) -> Path:
    """The run with other noises, whose shares and result fit them."""
    change = {}
    for log in sorted((run / "users").glob("*/state/view.jsonl")):
        share = _first_visit([json.loads(line) for line in log.read_text().splitlines()])
        change[log.parts[-3]] = [int(x) for x in noises.get(log.parts[-3], share["noise"])]
    total: list[int] = []

    def fitted(name: str) -> Any:
        def edit(lines: list[dict[str, Any]]) -> list[dict[str, Any]]:
            share = _first_visit(lines)
            share["noise"] = change[name]
            share["sent"] = [a + b for a, b in zip(share["contribution"], share["noise"], strict=True)]
            total[:] = [a + b for a, b in zip(total or [0] * len(share["sent"]), share["sent"], strict=True)]
            return lines

        return edit

    def end(lines: list[dict[str, Any]]) -> list[dict[str, Any]]:
        next(line for line in lines if line["kind"] == "result")["value"] = total
        return lines

    for number, name in enumerate(sorted(change)):
        run = _changed(run, folder / f"share-{number}", name, fitted(name))
    for number, name in enumerate(sorted(change)):
        run = _changed(run, folder / f"end-{number}", name, end)
    return run


@pytest.fixture(scope="module")
def wide(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return masked_run(100, tmp_path_factory.mktemp("wide"))


def masked_run(dimension: int, folder: Path) -> Path:
    task = f"{MEAN}\ndimension = {dimension}"
    run = HiddenRun(parse(text('protocol = "masked_sum"', task, 6)), values(6, dimension))
    run.run()
    return run.write(folder)


def test_no_noise_of_a_masked_sum_is_missing_taken_back_or_used_twice(wide: Path, tmp_path: Path) -> None:
    """Every share is tested by itself and against all others, as every visit of a walk."""
    run = wide
    theirs = _first_visit([json.loads(line) for line in own_log(run, 2).read_text().splitlines()])["noise"]
    lies = {"missing": [0] * 100, "taken back": [-x for x in theirs], "used twice": theirs}
    lies["half taken back"] = [-x // 2 for x in theirs]
    honest = statuses(_with_noises(run, tmp_path / "honest", {}))
    assert {honest[id] for id in ("conservation", "bounds", "noise", "fresh")} == {Status.PASS}
    for what, noise in lies.items():
        found = statuses(_with_noises(run, tmp_path / what, {"u1": noise}))
        assert found["conservation"] is Status.PASS
        assert Status.FAIL in (found["noise"], found["fresh"]), what


def test_a_noise_of_another_size_is_found(masked: Path, tmp_path: Path) -> None:
    def change(lines: list[dict[str, Any]]) -> list[dict[str, Any]]:
        share = _first_visit(lines)
        share["noise"][0] = 40960  # 20 sigma
        share["sent"] = [share["noise"][0] + share["contribution"][0]]
        return lines

    assert statuses(_changed(masked, tmp_path, "u1", change))["noise"] is Status.FAIL


def test_a_masked_sum_outside_the_public_bounds_is_remarked_on(masked: Path, tmp_path: Path) -> None:
    (honest,) = analyze_runs([masked]).runs
    estimate = honest.utility.estimate
    assert estimate is not None and (honest.utility.remark is not None) == (not 0 <= estimate[0] <= 1)
    (analysis,) = analyze_runs([_with_noises(masked, tmp_path, {"u1": [40960]})]).runs
    assert "outside" in (analysis.utility.remark or "")


def test_a_noise_of_three_numbers_is_not_used_twice_nor_taken_back(tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()
    run = masked_run(3, tmp_path / "run")
    theirs = _first_visit([json.loads(line) for line in own_log(run, 2).read_text().splitlines()])["noise"]
    assert statuses(run)["fresh"] is Status.PASS
    for what, noise in {"twice": theirs, "back": [-x for x in theirs]}.items():
        assert statuses(_with_noises(run, tmp_path / what, {"u1": noise}))["fresh"] is Status.FAIL, what


def test_a_share_without_noise_is_found_whatever_its_visit_is_called(wide: Path, tmp_path: Path) -> None:
    def again(lines: list[dict[str, Any]]) -> list[dict[str, Any]]:
        share = _first_visit(lines)
        bare = {**share, "noise": [0] * 100, "sent": share["contribution"], "step": share["step"] + 1}
        return [*lines, bare]

    found = statuses(_changed(wide, tmp_path, "u1", again))
    assert found["redraw"] is Status.FAIL


def test_a_log_of_lies_is_found_by_itself(wide: Path, tmp_path: Path) -> None:
    lies = _with_noises(wide, tmp_path, {"u1": [0] * 100})
    assert analyze_runs([own_log(lies, 1)]).status is Status.FAIL
    assert analyze_runs([own_log(wide, 1)]).status is Status.PASS


@pytest.mark.parametrize("part", ["noise", "contribution"])
def test_a_share_of_which_a_part_is_not_told_is_no_share(masked: Path, tmp_path: Path, part: str) -> None:
    def change(lines: list[dict[str, Any]]) -> list[dict[str, Any]]:
        _first_visit(lines)[part] = None
        return lines

    assert statuses(_changed(masked, tmp_path, "u1", change))["conservation"] is Status.FAIL


def test_noise_that_nobody_shows_is_not_judged(masked: Path, tmp_path: Path) -> None:
    run = masked
    for number in range(6):
        run = _changed(
            run, tmp_path / str(number), f"u{number}", lambda lines: [x for x in lines if x["kind"] != "spoken"]
        )
    assert not {"noise", "fresh"} & statuses(run).keys()
