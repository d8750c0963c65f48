"""The analyzer misses nothing that somebody saw, and excuses nothing that the plan does not allow."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from analyzer.checks.privacy import n_live
from analyzer.reconstruct.observations import Observations
from analyzer.run import analyze
from analyzer.verdict import Status
from benchmarks.generated_logs import Faults, Walk, plan_text, write_run
from network_dp import plan_reader
from network_dp.accounting import shuffle
from tests.unit.analyzer import tamper

HISTOGRAM = 'kind = "histogram"\nbuckets = 4'


class EndsTwice(Walk):
    """The branch of ``lose_at`` goes on to an end, which some were told of, and is dropped: its sender starts again."""

    def lose(self, issuer: int, to: int, step: int) -> tuple[int | None, int]:
        kept, old_epoch, old_step = self.token, self.epoch, step
        holder: int | None = to
        sender = issuer
        while holder is not None:
            self.arrive(holder, step, "handoff", sender)
            after, next_step = self.next_hop(holder, step)
            self.token = self.leave(holder, after, self.send(holder, step, after, next_step))
            sender, holder, step = holder, after, next_step
        self.token, self.epoch, self.faults.lose_at = kept, (1, issuer), None
        self.arrive(issuer, old_step - 1, "reissue", None, base=[*old_epoch, old_step])
        next_to, next_step = self.next_hop(issuer, old_step - 1)
        units = self.plan.unit_count
        noise = self.noise(issuer, units, None)
        fields = self._log_send(issuer, old_step - 1, next_to, next_step, units=units, noise=noise)
        self.token = self.leave(issuer, next_to, fields)
        return next_to, next_step


def written(folder: Path, text: str, walk: Walk) -> Path:
    folder.mkdir()
    (folder / "plan.toml").write_text(text)
    for name, lines in zip(walk.plan.names, walk.lines, strict=True):
        state = folder / "users" / name / "state"
        state.mkdir(parents=True)
        (state / "view.jsonl").write_text("".join(line + "\n" for line in lines))
    return folder


@pytest.mark.parametrize("release", ["all", "holder"])
def test_a_dropped_end_counts_as_seen_by_everybody_if_it_was_released(tmp_path: Path, release: str) -> None:
    text = plan_text("ring", 5, 2, release=release)
    walk = EndsTwice(plan_reader.parse(text), 3, Faults(lose_at=9)).run()
    found = analyze([written(tmp_path / "run", text, walk)])
    users = found.run.lineage.sents["to"]
    assert int((~found.run.lineage.on_branch & (users < 0)).sum()) == 1  # one end did not become the result
    told = Observations(found.run).most_extra
    branch_only = Observations(found.run)
    branch_only._dropped_ends = branch_only._dropped_ends[:0]
    assert found.privacy.exposure is not None
    least = [float(branch_only.column(np.arange(5) == v)[4]) for v in range(3)]
    counted = found.privacy.exposure[4, :3].tolist()
    if release == "all":
        assert told == branch_only.most_extra + 1
        assert all(more > less for more, less in zip(counted, least, strict=True))
    else:
        assert told == branch_only.most_extra and counted == least


def test_users_found_down_excuse_a_walk_only_as_far_as_the_plan_allows(tmp_path: Path) -> None:
    write_run(tmp_path / "run", plan_text(n=6, length=30).replace("min_live = 6", "min_live = 5"), 1)
    lines = tamper.read(tmp_path / "run", "user-0")
    lines += [{"kind": "peer", "peer": f"user-{i}", "state": "down", "time": 1.0} for i in (1, 2, 3)]
    tamper.rewrite(tmp_path / "run", "user-0", lines)
    assert n_live(analyze([tmp_path / "run"]).run) == 5


class DiesLate(Walk):
    """Users 3, 4 and 5 are gone from the last positions of the third round on."""

    def next_hop(self, user: int, step: int) -> tuple[int | None, int]:
        if step >= 3 * self.n - 3:
            self.faults.dead = frozenset({3, 4, 5})
        return super().next_hop(user, step)


def test_the_last_window_of_a_ring_of_responses_counts_when_nothing_is_released(tmp_path: Path) -> None:
    text = plan_text("ring", 6, 4, task=HISTOGRAM, noise="gamma = 0.3", release="holder")
    plan = plan_reader.parse(text)
    whole = analyze([written(tmp_path / "whole", text, Walk(plan, 1).run())])
    dying = analyze([written(tmp_path / "dying", text, DiesLate(plan, 1).run())])
    assert plan.noise.gamma is not None

    def bound(n_users: int) -> float:
        return shuffle.ring_epsilon(n_users, 4, 4, plan.noise.gamma or 0.0, plan.noise.delta)

    assert whole.privacy.worst_epsilon == pytest.approx(bound(6))
    assert dying.privacy.worst_epsilon == pytest.approx(bound(3))  # user 0's last window: answers of 1 and 2 only


def test_elements_of_who_only_started_do_not_cover_the_first_answer(tmp_path: Path) -> None:
    text = plan_text("ring", 6, 4, task=HISTOGRAM, noise="gamma = 0.3")
    write_run(tmp_path / "run", text, 1)
    checks = {check.id: check for check in analyze([tmp_path / "run"]).checks}
    assert checks["cover"].status is Status.PASS
    first = tamper.read(tmp_path / "run", "user-0")
    second = tamper.read(tmp_path / "run", "user-1")
    visit, sent = tamper.nth(first, "visit", 0), tamper.nth(first, "sent", 0)
    cover = first[sent]["cover"]
    start = {**first[visit], "step": 0, "visit": 1}
    issued = {
        **first[sent],
        "step": 1,
        "to": "user-0",
        "tag": "0" * 64,
        "real": False,
        "units": 0,
        "contribution": None,
        "noise": None,
        "sent": cover,
        "visit": 1,
    }
    for line in second:
        if "visit" in line:
            line["visit"] += 1
    tamper.rewrite(tmp_path / "run", "user-1", [*second[:2], start, issued, *second[2:]])
    first[visit] |= {"cause": "handoff", "from": "user-1", "tag": "0" * 64, "received": cover}
    first[sent]["cover"] = None
    tamper.rewrite(tmp_path / "run", "user-0", first)
    found = {check.id: check for check in analyze([tmp_path / "run"]).checks}
    assert found["conservation"].status is Status.PASS and found["links"].status is Status.PASS
    assert found["cover"].status is Status.FAIL
