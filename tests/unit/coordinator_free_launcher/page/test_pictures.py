"""The live page's pictures as folds of view records: what is in them, and what never is."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest

from coordinator_free_launcher.budget import spent
from coordinator_free_launcher.identity.bundle import write_node_file
from coordinator_free_launcher.identity.finalise import finalise
from coordinator_free_launcher.page.costs import costs_of, cut_short, error_at, seen_by_all
from coordinator_free_launcher.page.mine import Mine
from coordinator_free_launcher.page.room import POINTS, Room
from coordinator_free_launcher.page.sources import budget_of, ledger_time
from coordinator_free_launcher.tail import LINE_BYTES, PIECE_BYTES, Tail
from network_dp import ledger
from network_dp.ledger import Budget, Charge, Ledger
from network_dp.plan import Plan
from network_dp.plan_reader import from_dict
from network_dp.promise import promised_epsilon
from network_dp.view import Record, decode, encode

SECRET = 424242


def plan_of(topology: str = "ring", length: int = 10, n: int = 4) -> Plan:
    walk = {"topology": topology, "rounds" if topology == "ring" else "steps": length}
    values = {
        "walk": walk,
        "task": {"kind": "mean"},
        "noise": {"sigma": 0.5, "delta": 1e-6},
        "users": [{"name": f"u{i}", "address": f"127.0.0.1:{7000 + i}"} for i in range(n)],
    }
    return finalise(from_dict(values))


def line(kind: str, **fields: object) -> Record:
    return decode(encode(kind, **fields))


def visit(step: int, by: int, *, epoch: int = 0, cause: str = "handoff") -> Record:
    sender = f"u{by}"
    return line("visit", epoch=[epoch, 0], step=step, visit=step, cause=cause, **{"from": sender}, received=[SECRET])


def sent(step: int, to: int, *, at: int | None = None, epoch: int = 0, real: bool = True, total: int = 0) -> Record:
    """``step``: the receiver's; ``at``: the number of the sender's visit."""
    number = step - 1 if at is None else at
    values = {"contribution": [SECRET], "noise": [SECRET], "sent": [total or SECRET]}
    return line("sent", epoch=[epoch, 0], step=step, visit=number, to=f"u{to}", tag="t", real=real, units=1, **values)


def ring_walk(steps: int, n: int = 4) -> list[tuple[str, Record]]:
    """Who logged what, in the order of the walk."""
    records = []
    for step in range(1, steps + 1):
        records.append((f"u{(step - 1) % n}", visit(step, (step - 2) % n)))
        records.append((f"u{(step - 1) % n}", sent(step + 1, step % n, total=step)))
    return records


# ---- budget ----------------------------------------------------------------------------------------------------------


def test_a_user_sees_what_all_its_runs_cost_against_its_budget(tmp_path: Path) -> None:
    book = tmp_path / "ledger.json"
    write_node_file(tmp_path, "u1", None, None, ledger=book)
    assert budget_of(tmp_path) is None and ledger_time(tmp_path) is None, "no ledger yet"
    charge = Charge("ab" * 32, "cd" * 32, "run", "a curve", None, ((0.5, 1e-2), (2.0, 1e-6)))
    ledger.append(book, lambda known: Budget(3.0, 1e-5))
    ledger.append(book, lambda known: charge)
    found = budget_of(tmp_path)
    assert found is not None and (found["limit"], found["delta"], found["runs"]) == (3.0, 1e-5, 1)
    assert found["spent"] == pytest.approx(spent(Ledger((charge,)), 1e-5)) and found["spent"] > 0
    assert ledger_time(tmp_path) is not None


# ---- mine ------------------------------------------------------------------------------------------------------------


def test_mine_counts_what_i_gave_to_whom_and_what_i_saw() -> None:
    mine = Mine(plan_of(), "u1")
    for record in (visit(2, 0), sent(3, 2), line("accepted", epoch=[0, 0], step=3, to="u2"), visit(6, 0), sent(7, 2)):
        mine.take(record)
    picture = mine.picture()
    peers = {peer["name"]: peer for peer in picture["peers"]}
    assert (picture["visits"], picture["contributions"], picture["step"]) == (2, 2, 6)
    assert (peers["u2"]["handed"], peers["u2"]["link"], peers["u0"]["got"]) == (2, "up", 2)
    assert set(peers) == {"u0", "u2", "u3"}


def test_a_visit_that_was_refused_first_is_one_contribution_and_two_hand_overs() -> None:
    mine = Mine(plan_of(), "u1")
    for record in (visit(2, 0), sent(3, 2, at=2), line("peer", peer="u2", state="down"), sent(4, 3, at=2)):
        mine.take(record)
    peers = {peer["name"]: peer for peer in mine.picture()["peers"]}
    assert mine.contributions == 1
    assert (peers["u2"]["handed"], peers["u2"]["link"], peers["u3"]["handed"]) == (1, "down", 1)
    assert mine.picture()["events"] == [("down", "u1 found u2 down")]


def test_values_are_in_no_picture_unless_their_owner_asks() -> None:
    hidden, shown = Mine(plan_of(), "u1"), Mine(plan_of(), "u1", values=True)
    for record in (visit(2, 0), sent(3, 2), line("result", epoch=[0, 0], value=[SECRET])):
        hidden.take(record)
        shown.take(record)
    assert str(SECRET) not in json.dumps(hidden.picture())
    assert shown.picture()["values"]["contribution"] == [SECRET]


# ---- the room --------------------------------------------------------------------------------------------------------


def test_the_room_follows_the_token_and_counts_hops() -> None:
    room = Room(plan_of())
    room.read(ring_walk(5), 0.0)
    room.read([], 1.0)
    picture = room.picture()
    assert (picture["step"], picture["holder"], picture["contributions"]) == (5, 0, 5)
    assert [hop[1:] for hop in picture["trail"]] == [(0, 1), (1, 2), (2, 3), (3, 0), (0, 1)]
    assert picture["hops_per_second"] == 5.0


def test_the_speed_is_shown_however_seldom_anybody_looks() -> None:
    """Of two thousand users on a busy machine there is one look in five seconds or more."""
    room, walk = Room(plan_of()), ring_walk(10)
    room.read(walk[:10], 0.0)
    room.read(walk[10:], 10.0)
    room.read([], 20.0)
    assert room.picture()["hops_per_second"] == 0.5
    room.read([], 30.0)
    assert room.picture()["hops_per_second"] == 0.0


def test_records_are_taken_in_the_order_of_the_walk_however_the_files_were_read() -> None:
    """One file is read before, another after a hop between them: nothing is taken before its cause."""
    walk = ring_walk(8)
    late = [(name, record) for name, record in walk if name == "u1"]
    early = [(name, record) for name, record in walk if name != "u1"]
    room = Room(plan_of(), lambda payload, contributions, cover: payload[0] / contributions)
    room.read(early, 0.0)
    assert room.picture()["trail"] == []
    room.read(late, 0.2)
    room.read([], 0.4)
    picture = room.picture()
    assert [hop[1] for hop in picture["trail"]] == [0, 1, 2, 3, 0, 1, 2, 3]
    assert {value for _, value, _ in picture["points"]} == {1.0}  # the token of hop s holds s contributions


def test_a_token_taken_up_again_moves_the_room_back_and_its_lost_branch_does_not_count() -> None:
    room = Room(plan_of())
    room.read(ring_walk(3), 0.0)
    room.read([], 0.2)
    again = line("visit", epoch=[1, 1], step=2, visit=9, cause="reissue", base=[0, 0, 2], **{"from": None})
    room.read([("u2", line("abandoned", epoch=[0, 0], step=3, by=[1, 1])), ("u1", again)], 0.4)
    room.read([], 0.6)
    picture = room.picture()
    assert (picture["holder"], picture["step"], picture["contributions"]) == (1, 2, 2)
    said = ["u2 gave up a lost branch at step 3", "u1 took the token of step 2 up again"]
    assert [event.text for event in picture["events"]] == said


def hidden(plan: Plan) -> Plan:
    return replace(plan, walk=replace(plan.walk, path="hidden"))


def test_a_hidden_path_shows_neither_holder_nor_hops() -> None:
    plan = plan_of("complete", 20)
    room = Room(hidden(plan))
    room.read(ring_walk(5), 0.0)
    room.read([], 1.0)
    assert (room.picture()["holder"], room.picture()["trail"]) == (None, [])


def call(counter: int, step: int) -> Record:
    return line("round", adder=0, counter=counter, epoch=[0, 0], step=step, digest="00" * 32)


def test_a_hidden_walk_shows_rounds_and_attendance() -> None:
    room = Room(hidden(plan_of("complete", 20)))
    assert room.picture()["rounds"] == 0 and room.picture()["roll"] == [0, 1, 2, 3]
    room.read([("u0", call(1, 3)), ("u1", call(1, 3)), ("u1", call(2, 4))], 0.0)
    room.read([("u2", line("attendance", users=["u0", "u2"]))], 1.0)
    picture = room.picture()
    assert (picture["rounds"], picture["step"], picture["roll"]) == (2, 4, [0, 2])
    room.read([("u0", call(3, 21))], 2.0)
    assert room.picture()["step"] == 20, "the last round's number is one further"
    plain = Room(plan_of()).picture()
    assert plain["rounds"] is None and plain["roll"] is None


def test_my_page_of_a_hidden_walk_does_not_tell_a_neighbour_when_i_held_the_token() -> None:
    spoken = {"received": [SECRET], "contribution": [SECRET], "noise": [1], "sent": [SECRET]}
    records = [
        call(1, 3),
        line("spoken", epoch=[0, 0], step=4, visit=1, cause="visit", base=[0, 0, 3], **spoken),
        call(2, 4),
    ]
    seen = {}
    for values in (False, True):
        mine = Mine(hidden(plan_of("complete", 20)), "u1", values=values)
        for record in records:
            mine.take(record)
        seen[values] = mine.picture()
    assert seen[False]["step"] == 4 and seen[False]["visits"] is seen[False]["contributions"] is None
    assert str(SECRET) not in json.dumps(seen[False])
    assert seen[True]["visits"] == seen[True]["contributions"] == 1


def test_a_graph_is_drawn_by_its_edges_a_complete_one_is_not() -> None:
    plan = plan_of("complete", 20)
    lists = (("u1", "u3"), ("u0", "u2"), ("u1", "u3"), ("u0", "u2"))
    users = tuple(replace(user, peers=peers) for user, peers in zip(plan.users, lists, strict=True))
    assert Room(replace(plan, users=users)).picture()["edges"] == [(0, 1), (0, 3), (1, 2), (2, 3)]
    assert Room(plan).picture()["edges"] == []


def test_users_of_a_graph_stand_near_their_peers_and_fill_the_drawing() -> None:
    plan = plan_of("complete", 20, n=8)
    lists = [tuple(f"u{j}" for j in range(4 * (i // 4), 4 * (i // 4) + 4) if j != i) for i in range(8)]
    lists[3], lists[4] = (*lists[3], "u4"), (*lists[4], "u3")  # two groups with one bridge
    users = tuple(replace(user, peers=peers) for user, peers in zip(plan.users, lists, strict=True))
    places = Room(replace(plan, users=users)).picture()["places"]
    assert {min(axis) for axis in zip(*places, strict=True)} == {-1.0}
    assert {max(axis) for axis in zip(*places, strict=True)} == {1.0}
    assert math.dist(places[0], places[1]) < math.dist(places[0], places[7])
    assert Room(plan).picture()["places"] is None


def test_a_long_run_keeps_a_bounded_picture() -> None:
    plan = plan_of(length=500)
    room = Room(plan, lambda payload, contributions, cover: payload[0] / contributions)
    for step, (name, record) in enumerate(ring_walk(2000)):
        room.read([(name, record)], step / 100)
    room.read([], 100.0)
    assert len(room.picture()["points"]) <= POINTS + 1
    assert len(json.dumps(room.picture())) < 30_000


# ---- costs -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("topology", "length"), [("ring", 10), ("complete", 60)])
def test_exposure_grows_to_the_promise_and_never_understates_a_shorter_walk(topology: str, length: int) -> None:
    plan = plan_of(topology, length)
    costs = costs_of(plan)
    steps = range(0, plan.total_steps + 1, 5)
    grown = [costs.at(step) for step in steps]
    assert grown[0] == 0.0 and grown[-1] == costs.promise == promised_epsilon(plan)
    assert all(a <= b for a, b in pairwise(grown))
    for step in (7, 21, 33):
        assert costs.at(step) >= promised_epsilon(cut_short(plan, step))


def test_a_ring_has_no_bound_against_somebody_who_sees_every_message_and_a_graph_has_one() -> None:
    assert seen_by_all(plan_of("ring"), 3) is None
    few, many = (seen_by_all(plan_of("complete", 60), count) for count in (1, 5))
    assert 0 < few < many


def test_the_error_of_the_estimate_shrinks_along_the_walk() -> None:
    plan = plan_of("complete", 400)
    assert error_at(plan, 40) > error_at(plan, 400)


# ---- reading ---------------------------------------------------------------------------------------------------------


def test_a_growing_file_gives_each_whole_line_once(tmp_path) -> None:
    path = tmp_path / "view.jsonl"
    tail = Tail(path)
    assert tail.records() == []
    first, second = encode("rejoined", time=1.0), encode("rejoined", time=2.0)
    path.write_text(first + "\n" + second[:9])
    assert [record.fields["time"] for record in tail.records()] == [1.0]
    path.write_text(first + "\n" + second + "\nnot a record\n")
    assert [record.fields["time"] for record in tail.records()] == [2.0]
    path.write_text(second + "\n")
    assert [record.fields["time"] for record in tail.records()] == [2.0]


def test_a_line_too_long_for_a_page_is_left_out_and_the_next_one_read(tmp_path) -> None:
    path = tmp_path / "view.jsonl"
    path.write_text('{"kind":"' + "x" * (LINE_BYTES + PIECE_BYTES) + "\n" + encode("rejoined", time=3.0) + "\n")
    tail = Tail(path)
    found = [record for _ in range(LINE_BYTES // PIECE_BYTES + 3) for record in tail.records()]
    assert [record.fields["time"] for record in found] == [3.0]
