"""One rule broken once, all else in order: each lie is found although no other rule gives it away."""

from __future__ import annotations

from pathlib import Path

import pytest

from analyzer.analysis import analyze_runs
from analyzer.verdict import Check, Status
from benchmarks.generated_logs import Walk, plan_text, save, write_run
from network_dp import plan_reader
from tests.unit.analyzer import tamper

TOTAL = 40  # steps of the complete graph, below


def failing(run: Path, check_id: str) -> Check:
    (analysis,) = analyze_runs([run]).runs
    found = {check.id: check for check in analysis.checks}[check_id]
    assert found.status is Status.FAIL, [(c.id, c.status, c.observed) for c in analysis.checks]
    return found


def said_at(check: Check) -> dict[tuple[str, int], str]:
    return {(finding.user, finding.line): finding.text for finding in check.evidence}


class Strayed(Walk):
    """A walk that leaves the rules at one step and keeps every other rule."""

    at = 12

    def sidestep(self, to: int | None, step: int) -> tuple[int | None, int]:
        raise NotImplementedError

    def next_hop(self, user: int, step: int) -> tuple[int | None, int]:
        to, next_step = super().next_hop(user, step)
        if step != self.at:
            return to, next_step
        self.culprit, self.line = self.names[user], len(self.lines[user]) + 1  # of the send that follows
        return self.sidestep(to, next_step)


class OffTheRing(Strayed):
    def sidestep(self, to, step):
        return (to + 1) % self.n, step


class WithAGap(Strayed):
    def sidestep(self, to, step):
        return to, step + 1


class CutShort(Strayed):
    def sidestep(self, to, step):
        return None, step


def stray(folder: Path, kind: type[Strayed], text: str) -> Strayed:
    walk = kind(plan_reader.parse(text), 1)
    walk.run()
    save(folder, text, walk)
    return walk


def test_a_position_sent_to_another_users_place_is_found(tmp_path: Path) -> None:
    walk = stray(tmp_path, OffTheRing, plan_text("ring", 5, 4))
    assert "wrong user" in said_at(failing(tmp_path, "order"))[walk.culprit, walk.line]


def test_a_step_that_was_left_out_is_found(tmp_path: Path) -> None:
    stray(tmp_path, WithAGap, plan_text(length=TOTAL))
    assert any("from step 12 to 14" in text for text in said_at(failing(tmp_path, "steps")).values())


def test_a_walk_that_ended_early_is_found(tmp_path: Path) -> None:
    walk = stray(tmp_path, CutShort, plan_text(length=TOTAL))
    assert said_at(failing(tmp_path, "steps"))[walk.culprit, walk.line] == f"the walk ended at step 12 of {TOTAL}"


def test_an_initial_token_that_is_not_zero_is_found(tmp_path: Path) -> None:
    """The first holder's own noise takes the difference up, so that its sum is right."""
    write_run(tmp_path, plan_text("ring", 5, 4), 1)
    line = tamper.change(tmp_path, "user-0", "visit", 0, lambda x: x["received"].__setitem__(0, 7))
    tamper.change(tmp_path, "user-0", "sent", 0, lambda x: x["noise"].__setitem__(0, x["noise"][0] - 7))
    assert said_at(failing(tmp_path, "conservation")) == {("user-0", line): "the initial token is not zero"}


@pytest.mark.parametrize("off", [-1, 1])
def test_a_result_that_counts_one_contribution_more_or_less_is_found(tmp_path: Path, off: int) -> None:
    write_run(tmp_path, plan_text(length=TOTAL), 1)

    def edit(x):
        x["contributions"] += off

    line = tamper.change(tmp_path, "user-3", "result", 0, edit)
    (where, text), *others = said_at(failing(tmp_path, "result")).items()
    assert where == ("user-3", line) and f"counts {TOTAL + off}" in text and not others


def claim(run: Path, user: str, place: int) -> int:
    """A visit past a cap says that it contributed; a contribution of zero, so that every sum is right."""
    lines = tamper.read(run, user)
    lines[place].update(real=True, contribution=[0] * len(lines[place]["sent"]))
    tamper.rewrite(run, user, lines)
    return place + 1


def past_cap(x) -> bool:
    return not x["real"]


def test_one_contribution_above_the_cap_is_found(tmp_path: Path) -> None:
    write_run(tmp_path, plan_text(length=80, caps="contributions = 6"), 1)
    assert analyze_runs([tmp_path]).status is Status.PASS, "all users are at their cap"
    line = claim(tmp_path, "user-2", tamper.nth(tamper.read(tmp_path, "user-2"), "sent", 0, past_cap))
    assert said_at(failing(tmp_path, "caps")) == {("user-2", line): "contributed more than 6 times"}


def test_one_contribution_above_an_edges_cap_is_found(tmp_path: Path) -> None:
    write_run(tmp_path, plan_text(n=3, length=80, caps="edge = 3"), 1)
    assert analyze_runs([tmp_path]).status is Status.PASS
    lines = tamper.read(tmp_path, "user-1")
    place = tamper.nth(lines, "sent", 0, past_cap)
    to, line = lines[place]["to"], claim(tmp_path, "user-1", place)
    assert said_at(failing(tmp_path, "caps")) == {("user-1", line): f"contributed more than 3 times towards {to}"}


def test_the_same_hop_sent_twice_with_other_bytes_is_found(tmp_path: Path) -> None:
    write_run(tmp_path, plan_text(length=TOTAL), 1)
    lines = tamper.read(tmp_path, "user-2")
    place = tamper.nth(lines, "sent", 1)
    again = {**lines[place], "sent": [lines[place]["sent"][0] + 1], "tag": "0" * 64}
    tamper.rewrite(tmp_path, "user-2", [*lines[: place + 1], again, *lines[place + 1 :]])
    text = said_at(failing(tmp_path, "redraw"))["user-2", place + 2]
    assert text == f"sent the same hop (step {again['step']}) twice with different bytes"


def test_a_visit_that_never_sent_the_token_on_is_found(tmp_path: Path) -> None:
    """Whoever finished also handed the token to somebody else, who kept it: both ends of that hop agree."""
    write_run(tmp_path, plan_text(length=TOTAL), 1)
    logs = {f"user-{u}": tamper.read(tmp_path, f"user-{u}") for u in range(5)}
    giver = next(user for user, lines in logs.items() if any(line["kind"] == "finish" for line in lines))
    keeper = next(user for user in logs if user != giver)
    finish = next(line for line in logs[giver] if line["kind"] == "finish")
    sent = {**finish, "kind": "sent", "step": TOTAL + 1, "to": keeper, "tag": "1" * 64}
    visits = sum(line["kind"] == "visit" for line in logs[keeper])
    kept = {
        **{name: sent[name] for name in ("epoch", "step", "tag", "time")},
        "kind": "visit",
        "visit": visits + 1,
        "cause": "handoff",
        "from": giver,
        "received": sent["sent"],
    }
    tamper.rewrite(tmp_path, giver, [*logs[giver], sent])
    tamper.rewrite(tmp_path, keeper, [*logs[keeper], kept])
    where = (keeper, len(logs[keeper]) + 1)
    assert said_at(failing(tmp_path, "steps")) == {where: f"visited at step {TOTAL + 1} but never sent the token on"}
