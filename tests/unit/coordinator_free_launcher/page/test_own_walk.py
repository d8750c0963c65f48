"""What one's own log tells of what each peer saw: the exposure on the path that was walked always lies in the range."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest
from numpy.typing import NDArray

from coordinator_free_launcher.identity.finalise import finalise
from coordinator_free_launcher.page.own_walk import REST, OwnWalk, ranges
from network_dp import exposure
from network_dp.accounting import bounds
from network_dp.plan import Plan
from network_dp.plan_reader import from_dict
from network_dp.promise import aim
from network_dp.view import Record, decode, encode

MEAN = {"kind": "mean"}
SGD = {"kind": "sgd", "features": 2, "step_size": 1.0}


def plan_of(n: int, steps: int, task: dict[str, object], release: str = "all", **changes: object) -> Plan:
    values = {
        "walk": {"topology": "complete", "steps": steps, "release": release},
        "task": task,
        "noise": {"sigma": 2.0, "delta": 1e-6},
        "users": [{"name": f"u{i}", "address": f"127.0.0.1:{7000 + i}"} for i in range(n)],
        **changes,
    }
    return finalise(from_dict(values))


def line(kind: str, **fields: object) -> Record:
    return decode(encode(kind, **fields))


def visit(step: int, sender: str | None, epoch: int = 0) -> Record:
    return line("visit", epoch=[epoch, 0], step=step, visit=step, cause="handoff", **{"from": sender})


def sent(step: int, to: str, *, real: bool = True) -> Record:
    """``step``: the receiver's."""
    return line("sent", epoch=[0, 0], step=step, visit=step - 1, to=to, tag="t", real=real, units=1)


def accepted(step: int, to: str) -> Record:
    return line("accepted", epoch=[0, 0], step=step, to=to)


Refusals = dict[int, list[int]]  # the receiver's step -> who refused the token first, bytes and all


def log_of(user: int, walk: NDArray[np.int64], ended: bool = True, refused: Refusals | None = None) -> Iterator[Record]:
    """What a user writes down of a walk on which no token is lost."""
    for at in np.flatnonzero(walk == user):
        step = int(at) + 1
        yield visit(step, f"u{walk[at - 1]}" if at else None)
        if step == len(walk):
            yield line("finish", epoch=[0, 0], step=step, visit=step, real=True, units=1)
        else:
            yield from (sent(step + 1, f"u{other}") for other in (refused or {}).get(step + 1, ()))
            yield sent(step + 1, f"u{walk[at + 1]}")
            yield accepted(step + 1, f"u{walk[at + 1]}")
    if ended:
        yield line("result", epoch=[0, 0], value=None)


def read(records: Iterator[Record] | list[Record]) -> OwnWalk:
    own = OwnWalk()
    for record in records:
        own.take(record)
    return own


@pytest.mark.parametrize("release", ["all", "holder"])
@pytest.mark.parametrize("task", [MEAN, SGD], ids=["mean", "sgd"])
def test_the_exposure_that_all_logs_show_lies_in_the_range_of_ones_own(task: dict[str, object], release: str) -> None:
    rng = np.random.default_rng(3)
    for n, steps in ((3, 12), (5, 40), (8, 60)):
        plan = plan_of(n, steps, task, release)
        for _ in range(4):
            walk = rng.integers(n, size=steps)
            seen = exposure.matrix(walk, n, plan.task.accounting, release == "all")
            for user in range(n):
                own = read(log_of(user, walk))
                found = own.exposures(plan, plan.names)
                for other in set(range(n)) - {user}:
                    least, most = found[f"u{other}"]
                    assert least - 1e-9 <= seen[user, other] <= most + 1e-9 <= own.contributions + 1e-6


def seen_with_refusals(walk: NDArray[np.int64], n: int, released: bool, refused: Refusals) -> NDArray[np.float64]:
    """The exposure of sums from the observations themselves: who refuses a token sees it and adds nothing."""
    seen = np.zeros((n, n))
    for other in range(n):
        looks = {at for at, holder in enumerate(walk) if other in (holder, *refused.get(at + 1, ()))}
        observations = [
            exposure.Observation(
                {user: int(np.sum(walk[:at] == user)) for user in range(n)},
                {f"noise {i}": 1.0 for i in np.flatnonzero(walk[:at] != other)},
            )
            for at in sorted(looks | ({len(walk)} if released else set()))
        ]
        for user, exposed in exposure.general(observations).items():
            seen[user, other] = exposed
    return seen


@pytest.mark.parametrize("release", ["all", "holder"])
def test_what_was_shown_to_whoever_refused_is_in_the_range_whoever_sent_it(release: str) -> None:
    """Drawn again, the next step may be the sender's own; and what others sent is not in this user's log."""
    rng = np.random.default_rng(5)
    for n, steps in ((3, 6), (4, 9), (5, 12)):
        plan = plan_of(n, steps, MEAN, release)
        for _ in range(30):
            walk = rng.integers(n, size=steps)
            refusals = rng.random((steps + 1, n)) < 0.2
            refused = {
                step: [v for v in range(n) if refusals[step, v] and v != walk[step - 2]] for step in range(2, steps + 1)
            }
            seen = seen_with_refusals(walk, n, release == "all", refused)
            for user in range(n):
                found = read(log_of(user, walk, refused=refused)).exposures(plan, plan.names)
                for other in set(range(n)) - {user}:
                    least, most = found[f"u{other}"]
                    assert least - 1e-9 <= seen[user, other] <= most + 1e-9


def test_before_the_end_the_range_holds_wherever_the_token_has_got_to() -> None:
    """The last thing this user knows is to whom it handed the token; the others may be further."""
    rng = np.random.default_rng(4)
    plan = plan_of(5, 40, MEAN)
    walk = rng.integers(5, size=40)
    for length in range(1, 41):
        seen = exposure.matrix(walk[:length], 5, "sum")
        own = read(record for record in log_of(0, walk, ended=False) if record.step <= length)
        found = own.exposures(plan, plan.names)
        assert all(found[f"u{v}"][0] - 1e-9 <= seen[0, v] <= found[f"u{v}"][1] + 1e-9 for v in range(1, 5))


def test_whom_i_handed_it_to_can_have_seen_more_than_others() -> None:
    plan = plan_of(6, 40, MEAN)
    found = read([visit(10, "u1"), sent(11, "u2"), accepted(11, "u2")]).exposures(plan, ["u1", "u2"])
    assert found["u1"] == (0.0, 1 / 2)  # it knows what it sent me; my noise and u2's are the least that hides me
    assert found["u2"] == (1 / 10, 1.0)  # for sure under ten noises; under mine alone, if it refused what u1 sent
    assert found[REST] == (0.0, 1 / 2)  # who refused what u1 sent, and then what u2 sent


def test_a_token_that_came_from_and_went_to_one_user_is_known_exactly() -> None:
    plan = plan_of(6, 40, MEAN)
    own = read([visit(10, "u1"), sent(11, "u1"), accepted(11, "u1")])
    assert own.exposures(plan, ["u1"])["u1"] == (1.0, 1.0)
    bound = ranges(plan, own, ["u1"])
    assert bound is not None
    assert bound["u1"].least == bound["u1"].most == bounds.exposure_epsilon(1.0, 2.0, 1.0, aim(plan))


def test_who_refused_the_token_may_have_looked_at_it() -> None:
    plan = plan_of(6, 40, MEAN)
    again = line("sent", epoch=[0, 0], step=11, visit=10, to="u3", tag="t", real=True, units=1)
    found = read([visit(10, "u1"), sent(11, "u2"), again, accepted(11, "u3")]).exposures(plan, ["u2", "u3"])
    assert found["u2"] == (0.0, 1.0) and found["u3"] == (1 / 10, 1.0) and found[REST] == (0.0, 1 / 2)


def test_a_visit_that_only_adds_noise_exposes_nothing() -> None:
    plan = plan_of(6, 40, MEAN)
    assert read([visit(10, "u1"), sent(11, "u2", real=False)]).exposures(plan, ["u2"])["u2"] == (0.0, 0.0)


def test_after_a_lost_token_every_contribution_counts_as_seen_and_after_a_lost_disk_nothing_is_said() -> None:
    plan = plan_of(6, 40, MEAN)
    records = [visit(10, "u1"), sent(11, "u2"), accepted(11, "u2")]
    taken_up = read([*records, visit(12, None, epoch=1)])
    assert taken_up.exposures(plan, ["u2"])["u2"] == (0.0, 1.0)
    assert ranges(plan, read([*records, line("rejoined")]), ["u2"]) is None


def test_met_again_at_the_same_step_after_a_lost_token_a_user_has_contributed_twice() -> None:
    plan = plan_of(6, 40, MEAN)
    again = line("visit", epoch=[1, 1], step=10, visit=11, cause="handoff", **{"from": "u1"})
    more = line("sent", epoch=[1, 1], step=11, visit=11, to="u1", tag="t", real=True, units=1)
    own = read([visit(10, "u1"), sent(11, "u1"), again, more])
    seen = exposure.general([exposure.Observation({0: 1}, {name: 1.0}) for name in ("one noise", "another")])
    assert own.contributions == 2
    assert own.exposures(plan, ["u1"])["u1"] == (0.0, pytest.approx(seen[0]))


@pytest.mark.parametrize(
    "walk",
    [{"topology": "ring", "rounds": 5}, {"topology": "complete", "steps": 40, "path": "hidden"}],
    ids=["ring", "hidden"],
)
def test_where_all_peers_are_alike_there_are_no_ranges(walk: dict[str, object]) -> None:
    plan = plan_of(6, 40, {"kind": "mean", "lower": 0.0, "upper": 1.0}, walk=walk)
    assert ranges(plan, read([visit(10, "u1"), sent(11, "u2")]), ["u2"]) is None
