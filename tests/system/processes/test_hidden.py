"""A hidden walk over real processes: it comes to an end whatever happens to whom, and nothing tells who holds it."""

from __future__ import annotations

import json
import math
import subprocess
import sys
import tomllib
from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from analyzer.analysis import analyze_runs
from analyzer.verdict import Status
from coordinator_free_launcher.local.run import judge, run_locally
from network_dp.plan_reader import from_dict
from tests.system.harness import Harness, make_plan, slow_task
from tests.system.watched_rounds import NOTES

pytestmark = [pytest.mark.process, pytest.mark.slow]

USERS = 6
LONGEST_Z = 4.0  # of an honest run one in 15,000 is further out


def hidden(n: int, steps: int, *, beat_ms: float = 12.0, known_steps: int = 0, **changes: Any) -> Any:
    timing = {"handoff_timeout_s": 3.0, "lease_s": 2.0, "linger_s": 1.0}
    rounds = {"beat_ms": beat_ms, "known_steps": known_steps}
    return make_plan(n, topology="complete", path="hidden", steps=steps, timing=timing, anonymous=rounds, **changes)


@pytest.fixture
def towns(tmp_path: Path) -> Iterator[Any]:
    made: list[Harness] = []

    def make(plan: Any, parent: str = "node.many.zygote") -> Harness:
        made.append(Harness(tmp_path / f"town-{len(made)}", plan, parent=parent))
        return made[-1]

    yield make
    for town in made:
        town.close()


def results(town: Harness) -> list[dict[str, Any]]:
    return [json.loads((town.state(name) / "result.json").read_text()) for name in town.names]


# ---- faults ------------------------------------------------------------------------------------------------------


def test_holder_adder_and_shuffler_are_killed_and_the_run_keeps_its_promise(towns: Any) -> None:
    """Each dies in the middle of its duty: computing, answering a round, shuffling; and comes back. The promise allows
    for steps that their absence shows."""
    town = towns(hidden(USERS, 60, min_live=4, known_steps=12))
    victims = {"user-1": "Compute:3", "user-2": "Turn", "user-3": "Reply:40"}
    town.start_all(crash=victims)
    for name in victims:
        town.until(f"{name} is dead", lambda name=name: town.codes.get(name) == -9)
        town.start(name)
    town.wait_all()
    assert len({result["end"] for result in results(town)}) == 1
    assert {result["contributions"] for result in results(town)} == {60}
    judgement = judge(town.folder)
    assert judgement.verdict == "PASS", judgement


# ---- nothing tells -----------------------------------------------------------------------------------------------


class Arrival(NamedTuple):
    adder: int  # who got it
    counter: int  # of a block's round
    user: int
    at: float
    size: int
    kind: str

    @property
    def turn(self) -> int:
        """Of labels: whose it was to shuffle them."""
        return self.counter


def requests(town: Harness) -> list[Arrival]:
    lines = [line.split() for line in (town.folder / NOTES).read_text().splitlines()]
    return [Arrival(*map(int, line[:3]), float(line[3]), int(line[4]), line[5]) for line in lines]


def arrivals(town: Harness) -> list[Arrival]:
    """Blocks of rounds; block 0 is a wish to take part."""
    return [request for request in requests(town) if request.kind == "Block" and request.counter > 0]


def holders(town: Harness) -> dict[tuple[int, int], int]:
    """(adder, counter) of the first round after a token was heard -> who had opened it: what only all logs together
    tell."""
    spoke = {
        line.fields["step"]: user
        for user, name in enumerate(town.names)
        for line in town.of_kind(name, "spoken")
        if line.fields["cause"] == "visit"
    }
    found: dict[tuple[int, int], int] = {}
    steps = set[int]()
    for line in town.of_kind(town.names[0], "round"):
        step = line.fields["step"]
        if step not in steps and step + 1 in spoke:
            found[line.fields["adder"], line.fields["counter"]] = spoke[step + 1]
        steps.add(step)
    return found


def z_of_ranks(town: Harness) -> tuple[float, int]:
    """Is the holder's block earlier or later than others? Its rank among m blocks is uniform if it tells nothing,
    because the holder is drawn uniformly whatever everybody's own speed is. Returns z of the mean, and the rounds."""
    came = defaultdict[tuple[int, int], list[Arrival]](list)
    for arrival in arrivals(town):
        came[arrival.adder, arrival.counter].append(arrival)
    total, variance, rounds = 0.0, 0.0, 0
    for key, holder in holders(town).items():
        order = [one.user for one in sorted(came[key], key=lambda one: one.at)]
        if holder in order:
            total += order.index(holder) - (len(order) - 1) / 2
            variance += (len(order) ** 2 - 1) / 12
            rounds += 1
    return total / math.sqrt(variance), rounds


def finished(town: Harness) -> Harness:
    town.start_all()
    town.wait_all()
    return town


@pytest.fixture(scope="module")
def watched(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Harness]:
    """One run whose task takes a third of the beat, on purpose."""
    plan = hidden(USERS, 700, beat_ms=15.0, task=slow_task(0.005))
    town = Harness(tmp_path_factory.mktemp("watched"), plan, parent="tests.system.watched_rounds")
    yield finished(town)
    town.close()


@pytest.mark.timeout(600)
def test_all_blocks_of_a_round_have_one_size_and_everybody_sends_one(watched: Harness) -> None:
    assert len({arrival.size for arrival in arrivals(watched)}) == 1
    rounds = Counter((arrival.adder, arrival.counter) for arrival in arrivals(watched))
    assert set(rounds.values()) <= set(range(1, USERS)) and Counter(rounds.values()).most_common(1)[0][0] == USERS - 1
    assert max(Counter((one.adder, one.counter, one.user) for one in arrivals(watched)).values()) == 1


@pytest.mark.timeout(600)
def test_who_sends_what_else_follows_the_public_rotation_and_not_the_token(watched: Harness) -> None:
    """Beside its blocks everybody passes on shuffled labels, batch after batch in turn, and nothing else."""
    others = [one for one in requests(watched) if one.kind != "Block"]
    shuffled = [one for one in others if one.kind == "Shuffle"]
    assert {one.kind for one in others} <= {"Shuffle", "Want"}  # whoever misses a batch asks for it
    assert len(shuffled) > 100 and all(one.user == one.turn for one in shuffled)


@pytest.mark.timeout(600)
def test_arrival_times_do_not_tell_the_holder_even_of_a_slow_task(watched: Harness) -> None:
    z, rounds = z_of_ranks(watched)
    assert rounds >= 500
    assert abs(z) < LONGEST_Z, f"z = {z:.2f} over {rounds} rounds"


def test_the_rank_test_finds_a_holder_that_is_late(towns: Any) -> None:
    plan = hidden(USERS, 60, beat_ms=12.0)
    town = towns(plan, parent="tests.system.watched_rounds")
    (town.folder / "late").write_text("0.01")
    z, rounds = z_of_ranks(finished(town))
    assert rounds >= 40
    assert z > LONGEST_Z, f"z = {z:.2f} over {rounds} rounds"


@pytest.mark.timeout(600)
def test_files_and_process_logs_look_the_same_whoever_held_the_token(watched: Harness) -> None:
    visits = {name: len(watched.of_kind(name, "spoken")) for name in watched.names}
    assert len(set(visits.values())) > 1
    files = {frozenset(path.name for path in watched.state(name).iterdir()) for name in watched.names}
    said = {
        frozenset(line.partition("from=")[2].replace(name, "NAME") for line in _calm(watched.log(name)))
        for name in watched.names
    }
    assert len(files) == 1 and len(said) == 1
    assert len({(watched.state(name) / "result.json").read_bytes() for name in watched.names}) == 1


@pytest.mark.timeout(600)
def test_labels_are_drawn_uniformly(watched: Harness) -> None:
    (analysis,) = analyze_runs([watched.folder], is_user=False).runs
    (labels,) = [check for check in analysis.checks if check.id == "labels"]
    assert labels.status is Status.PASS and "700 draws" in labels.observed, labels


def _calm(log: str) -> list[str]:
    """Lines of a log without addresses, who was not up yet, and calls that the stop of an adder cancels."""
    lines = [line for line in log.splitlines() if line.startswith("time=")]
    return [line.partition(" on 127.")[0] for line in lines if "no answer" not in line and "broke off" not in line]


# ---- masked sum --------------------------------------------------------------------------------------------------


def test_a_masked_sum_is_one_round_and_survives_a_killed_user(towns: Any) -> None:
    """Whoever dies with its share on the way costs an attempt; nobody's value is in the result twice."""
    noise = {"mechanism": "gaussian", "sigma": 0.01}
    timing = {"handoff_timeout_s": 2.0, "lease_s": 2.0, "linger_s": 1.0}
    plan = make_plan(
        6, topology="complete", protocol="masked_sum", anonymous={"attempts": 3}, noise=noise, timing=timing
    )
    town = towns(plan)
    town.start_all(crash={"user-2": "Block:2"})
    town.until("user-2 is dead", lambda: town.codes.get("user-2") == -9)
    town.start("user-2")
    town.wait_all()
    ends = results(town)
    assert len({result["end"] for result in ends}) == 1
    shares = ends[0]["contributions"]
    assert shares >= 5
    everything = [sum((user + 1) / (6 + d + 1) for user in range(6)) for d in range(2)]
    for total, all_of_it in zip(ends[0]["total"], everything, strict=True):
        assert all_of_it - 1.0 - 0.1 < total < all_of_it + 0.1
    assert all(len(town.of_kind(name, "spoken")) <= 3 for name in town.names)
    assert judge(town.folder).verdict == "PASS"


# ---- models ------------------------------------------------------------------------------------------------------


def test_the_digits_of_the_examples_are_trained_and_the_run_keeps_its_promise(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """docs/MODELS.md with fewer users and steps: the example's own file, data and task."""
    folder = Path(__file__).parents[3] / "examples"
    monkeypatch.setenv("PYTHONPATH", str(folder))
    monkeypatch.syspath_prepend(str(folder))
    plan = tomllib.loads((folder / "digits.toml").read_text())
    plan["users"], plan["walk"]["steps"] = plan["users"][:USERS], 20
    words = [sys.executable, folder / "digits_mlp.py", "data", str(USERS), tmp_path]
    subprocess.run(words, check=True, timeout=120)
    files = {user["name"]: tmp_path / "users" / f"{user['name']}.csv" for user in plan["users"]}
    ledgers = tmp_path / "ledgers"
    done = run_locally(from_dict(plan), tmp_path / "run", data=files, ledgers=ledgers)
    assert done.verdict == "PASS", done
    assert len(done.outcome.result["value"]) == 226
