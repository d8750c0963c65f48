"""Plans with a hidden path: what they hold by default, and where they are refused."""

from __future__ import annotations

import pytest

from network_dp.plan import PlanError
from network_dp.plan_reader import dump, parse


def text(walk: str = "steps = 40", task: str = 'kind = "mean"', users: int = 5, **tables: str) -> str:
    parts = {"walk": f'topology = "complete"\npath = "hidden"\n{walk}', "task": task, "noise": "sigma = 2.0", **tables}
    body = "\n".join(f"[{name}]\n{lines}" for name, lines in parts.items())
    return body + "".join(f'\n[[users]]\nname = "u{i}"\naddress = "127.0.0.1:{7000 + i}"' for i in range(users))


def test_defaults_of_a_hidden_path() -> None:
    plan = parse(text(users=50))
    assert plan.rounds is not None
    assert (plan.rounds.colluders, plan.rounds.shufflers, plan.rounds.known_steps) == (1, 2, 0)
    assert plan.walk.min_live == 45
    assert parse(dump(plan)) == plan


def test_a_known_path_has_no_rounds_and_keeps_its_hash() -> None:
    known = parse(text().replace('path = "hidden"\n', ""))
    assert known.rounds is None
    assert known.hash == parse(text().replace("hidden", "known")).hash
    assert known.hash != parse(text()).hash


def test_a_histogram_is_gaussian_unless_it_says_otherwise() -> None:
    assert parse(text(task='kind = "histogram"\nbuckets = 4')).noise.mechanism == "gaussian"


def test_a_large_step_needs_no_contraction() -> None:
    task = 'kind = "sgd"\nfeatures = 3\nstep_size = 20.0'
    assert parse(text(task=task)).task.dimension == 4
    with pytest.raises(PlanError, match="contraction"):
        parse(text(task=task).replace("hidden", "known"))


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        (text(walk="steps = 40").replace("complete", "ring").replace("steps", "rounds"), "too small a crowd"),
        (text(caps="contributions = 3"), "take out \\[caps\\]"),
        (text(task='kind = "mean"\nrows = "per_visit"'), "rows"),
        (text(task='kind = "histogram"\nbuckets = 4', noise='mechanism = "rr"\ngamma = 0.5'), "no accounting"),
        (text(walk='steps = 40\nrelease = "holder"'), "everybody gets it"),
        (text(users=3), "fewer than 3 are left"),
        (text(rounds="colluders = 3"), "fewer than 3 are left"),
        (text(walk="steps = 40\nmin_live = 3"), "at least 4"),
        (text(walk="steps = 40\nmin_live = 4", users=7), "at least 5"),
        (text(walk='steps = 40\nprotocol = "masked_sum"'), "one round"),
        (text(walk='protocol = "masked_sum"', task='kind = "sgd"\nfeatures = 3\nstep_size = 1.0'), "adds up"),
        (text(rounds="beat_ms = 1.0").replace("hidden", "known"), "only a plan"),
        (text(rounds="shufflers = 2"), "is not a key"),
        (text(task='kind = "sum"\ndimension = 50000', rounds="beat_ms = 20.0"), "use at least 50"),
    ],
)
def test_refused_where_it_cannot_hold(changed: str, words: str) -> None:
    with pytest.raises(PlanError, match=words):
        parse(changed)
