"""What users of a graph lose to several together (THEORY.md#graph-sets), against every set by itself."""

from itertools import combinations

import numpy as np
import pytest

from network_dp import graph_walk, promise
from network_dp.accounting import disk_cache
from network_dp.graphs import sets
from network_dp.graphs.generators import Options, adjacency, generate
from network_dp.graphs.pairs import Promise
from network_dp.graphs.weights import metropolis, simple, stationary
from network_dp.plan_reader import from_dict


def law(kind, n, weights="metropolis"):
    peers = adjacency(generate(kind, n, Options(seed=1, degree=2)))
    return (metropolis if weights == "metropolis" else simple)(peers), stationary(peers, weights)


@pytest.mark.parametrize("task", ["sum", "sgd"])
@pytest.mark.parametrize(
    ("kind", "n", "weights", "size", "distance", "most"),
    [
        ("hypercube", 8, "metropolis", 2, 1, 6),
        ("ring-lattice", 7, "metropolis", 3, 1, 20),
        ("star", 6, "simple", 2, 1, 3),
        ("path", 5, "metropolis", 2, 2, 10),
        ("complete", 6, "metropolis", 3, 1, 1),
    ],
)
def test_sets_of_one_kind_have_one_moment_and_no_kind_is_left_out(task, kind, n, weights, size, distance, most):
    p, pi = law(kind, n, weights)
    pairs = Promise(task, p, pi, 16, released=True)
    found = sets.kinds(pairs.classes, pairs.distances, size, distance, 16)
    assert len(found) <= most

    def moment(u, chosen):
        return round(graph_walk.prepare(task, p, pi, u, chosen, 16, released=True).log_moment(0.4), 9)

    assert {moment(u, chosen) for u, chosen in found} == {
        moment(u, chosen) for u, chosen in all_sets(pairs.distances, size, distance)
    }


#: The triples of a Steiner system on 13 points that not every symmetry keeps: as a graph, triples that meet are peers.
TRIPLES = "1ab 014 027 03c 05b 068 09a 125 138 169 17c 236 249 28a 2bc 347 35a 39b 458 46b 4ac 56c 579 67a 78b 89c"


def test_users_of_one_colour_may_have_other_sets_of_three():
    """26 users with 15 peers each, three colours of pairs: but three others stand around some as around no other."""
    triples = [set(triple) for triple in TRIPLES.split()]
    peers = [[j for j, other in enumerate(triples) if other != mine and other & mine] for mine in triples]
    table = adjacency(peers)
    pairs = Promise("sum", metropolis(table), stationary(table, "metropolis"), 6)
    assert len(np.unique(pairs.classes)) == 3
    listed = {sets._colours(pairs.classes, *kind) for kind in sets.kinds(pairs.classes, pairs.distances, 3, 2, 6)}
    of_user_0 = {sets._colours(pairs.classes, u, chosen) for u, chosen in all_sets(pairs.distances, 3, 2) if u == 0}
    assert listed == {sets._colours(pairs.classes, u, chosen) for u, chosen in all_sets(pairs.distances, 3, 2)}
    assert of_user_0 < listed


def all_sets(distances, size, distance):
    for u in range(len(distances)):
        far = [v for v in range(len(distances)) if distances[u, v] >= distance]
        if far:
            yield from ((u, chosen) for chosen in combinations(far, min(size, len(far))))


def test_the_worst_set_is_the_worst_of_all_sets():
    p, pi = law("path", 4)
    pairs = Promise("sum", p, pi, 12)
    each = {
        (u, chosen): graph_walk.prepare("sum", p, pi, u, chosen, 12).epsilon(3.0, 1.0, 1e-5)
        for u, chosen in all_sets(pairs.distances, 2, 1)
    }
    worst, kind = pairs.worst_set(2, 3.0, 1.0, 1e-5)
    assert worst == pytest.approx(max(each.values()), rel=1e-9) and each[kind] == pytest.approx(worst, rel=1e-9)
    assert worst > pairs.worst(3.0, 1.0, 1e-5).epsilon * (1 - 1e-9)  # more users see no less


def plan_of(kind, n, task, distance=1, release="all"):
    peers = generate(kind, n, Options(seed=1))
    names = [f"user-{i}" for i in range(n)]
    users = [
        {"name": name, "address": f"127.0.0.1:{7000 + i}", "peers": [names[j] for j in peers[i]]}
        for i, name in enumerate(names)
    ]
    noise = {"sigma": 4.0, "delta": 1e-5, "distance": distance}
    return from_dict(
        {"walk": {"topology": "graph", "steps": 40, "release": release}, "task": task, "noise": noise, "users": users}
    )


def test_a_plan_promises_what_its_worst_set_may_learn():
    plan = plan_of("hypercube", 8, {"kind": "mean", "lower": 0.0, "upper": 1.0})
    one, two, three = (promise.promised(plan, colluders) for colluders in (1, 2, 3))
    assert (one.bound, two.bound) == (promise.WORST_PAIR, promise.WORST_SET)
    assert one.epsilon < two.epsilon < three.epsilon


def test_where_too_many_sets_differ_everybody_else_together_is_the_bound(monkeypatch):
    monkeypatch.setenv(disk_cache.VARIABLE, "off")
    plan = plan_of("hypercube", 8, {"kind": "mean", "lower": 0.0, "upper": 1.0})
    worst = promise.promised(plan, 7)
    monkeypatch.setattr(sets, "MOST_STEPS", 40)
    found = promise.promised(plan, 2)
    assert found.bound == promise.AGAINST_ALL
    assert worst.bound == promise.WORST_SET and worst.epsilon <= found.epsilon < float("inf")
    monkeypatch.setattr(sets, "MOST_LISTED", 5)
    assert promise.promised(plan, 2) == found


@pytest.mark.parametrize("colluders", [1, 2])
def test_a_result_that_stays_with_its_holder_is_not_in_the_promise(colluders):
    mean = {"kind": "mean", "lower": 0.0, "upper": 1.0}
    kept, shown = (plan_of("path", 4, mean, release=release) for release in ("holder", "all"))
    assert promise.promised(kept, colluders).epsilon < promise.promised(shown, colluders).epsilon * (1 - 1e-3)
