"""How much noise is in a real run: the ring's rule by position, the closing noise, caps and self-hops."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest

from tests.system.harness import PATIENT, make_plan
from tests.system.walked import Ran, check_chain, check_conserved, run

pytestmark = pytest.mark.process

SUM = {"kind": "sum", "lower": 0.0, "upper": 1.0}
GAUSSIAN = {"sigma": 0.5}


def _ran(
    tmp_path: Path,
    n: int,
    walk: dict[str, Any],
    *,
    noise: dict[str, Any] = GAUSSIAN,
    task: dict[str, Any] = SUM,
    caps: dict[str, Any] | None = None,
) -> Ran:
    plan = make_plan(n, task=task, noise=noise, timing=PATIENT, caps=caps, **walk)
    ran = run(plan, tmp_path, {name: [[i % 2]] for i, name in enumerate(plan.names)})
    assert ran.outcome.ok
    check_chain(ran)
    check_conserved(ran)
    return ran


@pytest.mark.parametrize(("n", "rounds"), [(3, 1), (4, 4), (5, 3)])
@pytest.mark.parametrize("release", ["all", "holder"])
def test_ring_noises_are_ceil_of_kn_minus_one_over_n_minus_one(
    n: int, rounds: int, release: str, tmp_path: Path
) -> None:
    """K n - 1 hops with noise at hops 1, n, 2n-1, ..., and one full noise more on a release
    (THEORY.md#ring, #release)."""
    ran = _ran(tmp_path, n, {"topology": "ring", "rounds": rounds, "release": release})
    noisy = [visit.step for visit in ran.walk[:-1] if visit.left["units"]]
    assert noisy == list(range(1, n * rounds, n - 1))
    assert len(noisy) == math.ceil((n * rounds - 1) / (n - 1))
    assert ran.walk[-1].left["units"] == (1 if release == "all" else 0)
    assert all((visit.left["units"] > 0) == (visit.left["noise"] != [0]) for visit in ran.walk)


def test_a_spread_ring_adds_a_full_noise_first_and_a_share_at_every_hop(tmp_path: Path) -> None:
    ran = _ran(tmp_path, 4, {"topology": "ring", "rounds": 2}, noise={"sigma": 0.5, "spread": True})
    full = 3  # components of one noise: n - 1
    assert [visit.left["units"] for visit in ran.walk] == [full, 1, 1, 1, 1, 1, 1, full]


def test_response_rings_open_and_close_with_cover_elements(tmp_path: Path) -> None:
    gamma, n = 0.5, 4
    histogram = {"kind": "histogram", "buckets": 3}
    ran = _ran(tmp_path, n, {"topology": "ring", "rounds": 2}, noise={"gamma": gamma}, task=histogram)
    at_each_end = math.ceil(gamma * (n - 2))
    cover = [sum(visit.left["cover"] or [0]) for visit in ran.walk]
    assert cover == [at_each_end, *[0] * (2 * n - 2), at_each_end]


def test_past_the_contribution_cap_a_visit_adds_noise_only(tmp_path: Path) -> None:
    ran = _ran(tmp_path, 3, {"topology": "complete", "steps": 24}, caps={"contributions": 3})
    for name in ran.plan.names:
        visits = [visit for visit in ran.steps if visit.user == name]
        assert [visit.left["real"] for visit in visits] == [k < 3 for k in range(len(visits))]
        assert all(visit.left["units"] == 1 and visit.left["noise"] != [0] for visit in visits)
    assert sum(not visit.left["real"] for visit in ran.steps) >= 24 - 9


def test_in_local_mode_a_capped_user_forwards_unchanged(tmp_path: Path) -> None:
    ran = _ran(
        tmp_path,
        3,
        {"topology": "complete", "steps": 18},
        noise={**GAUSSIAN, "against": "local"},
        caps={"contributions": 2, "past": "forward"},
    )
    forwarded = [visit for visit in ran.steps if not visit.left["real"]]
    assert len(forwarded) >= 18 - 6
    assert all(visit.left["units"] == 0 and visit.left["sent"] == visit.came["received"] for visit in forwarded)


def test_ring_users_past_the_cap_keep_the_noise_rule(tmp_path: Path) -> None:
    ran = _ran(tmp_path, 3, {"topology": "ring", "rounds": 4}, caps={"contributions": 2})
    assert [visit.left["real"] for visit in ran.walk] == [True] * 6 + [False] * 6
    assert [visit.step for visit in ran.walk[:-1] if visit.left["units"]] == list(range(1, 12, 2))


def test_a_response_past_the_cap_is_one_uniform_element(tmp_path: Path) -> None:
    histogram = {"kind": "histogram", "buckets": 3}
    ran = _ran(
        tmp_path,
        3,
        {"topology": "complete", "steps": 15},
        noise={"gamma": 0.5},
        task=histogram,
        caps={"contributions": 1},
    )
    capped = [visit for visit in ran.steps if not visit.left["real"]]
    assert len(capped) >= 12
    assert all(sum(visit.left["cover"]) == 1 for visit in capped)


def test_the_edge_cap_bounds_real_contributions_towards_each_next_user(tmp_path: Path) -> None:
    cap = 2
    ran = _ran(tmp_path, 3, {"topology": "complete", "steps": 40}, caps={"edge": cap})
    used: dict[tuple[str, str | None], int] = {}
    for visit in ran.steps:
        edge = (visit.user, visit.next)
        own = visit.next in (visit.user, None)  # to oneself, or to the end of the walk: no edge
        assert visit.left["real"] == (own or used.get(edge, 0) < cap)
        used[edge] = used.get(edge, 0) + visit.left["real"]
        assert visit.left["units"] == 1
    assert any(not visit.left["real"] for visit in ran.steps)


def test_self_hops_are_hops_with_noise_and_tag_of_their_own(tmp_path: Path) -> None:
    ran = _ran(tmp_path, 3, {"topology": "complete", "steps": 24})
    own = [visit for visit in ran.steps if visit.next == visit.user]
    assert own, "24 draws among 3 users without a single self-hop: 6e-5 by chance, and the seed is fixed"
    assert all(visit.left["units"] == 1 and visit.left["tag"] for visit in own)
    for name in ran.plan.names:
        numbers = [visit.came["visit"] for visit in ran.walk if visit.user == name]
        assert numbers == list(range(1, len(numbers) + 1))
