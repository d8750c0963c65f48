"""What users of a graph lose to several together (THEORY.md#graph-sets), against every set by itself."""

from itertools import combinations

import pytest

from network_dp import graph_walk, promise
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
def test_the_worst_set_is_the_worst_of_all_sets(task, kind, n, weights, size, distance, most):
    p, pi = law(kind, n, weights)
    pairs = Promise(task, p, pi, 24, released=True)
    found = sets.kinds(pairs.classes, pairs.distances, size, distance, 24)
    assert len(found) <= most
    by_itself = {}
    for u in range(n):
        far = [v for v in range(n) if pairs.distances[u, v] >= distance]
        for chosen in combinations(far, min(size, len(far))):
            if chosen:
                epsilon = graph_walk.epsilon(task, p, pi, u, chosen, 24, 3.0, 1.0, 1e-5, released=True)
                by_itself[u, chosen] = epsilon
    worst, (target, observers) = pairs.worst_set(size, 3.0, 1.0, 1e-5, distance)
    assert worst == pytest.approx(max(by_itself.values()), rel=1e-9)
    assert by_itself[target, observers] == pytest.approx(worst, rel=1e-9)
    assert worst > pairs.worst(3.0, 1.0, 1e-5, distance).epsilon * (1 - 1e-9)  # more users see no less


def plan_of(kind, n, task, distance=1):
    peers = generate(kind, n, Options(seed=1))
    names = [f"user-{i}" for i in range(n)]
    users = [
        {"name": name, "address": f"127.0.0.1:{7000 + i}", "peers": [names[j] for j in peers[i]]}
        for i, name in enumerate(names)
    ]
    noise = {"sigma": 4.0, "delta": 1e-5, "distance": distance}
    return from_dict({"walk": {"topology": "graph", "steps": 80}, "task": task, "noise": noise, "users": users})


def test_a_plan_promises_what_its_worst_set_may_learn():
    plan = plan_of("hypercube", 8, {"kind": "mean", "lower": 0.0, "upper": 1.0})
    one, two, three = (promise.promised(plan, colluders) for colluders in (1, 2, 3))
    assert (one.bound, two.bound) == (promise.WORST_PAIR, promise.WORST_SET)
    assert one.epsilon < two.epsilon < three.epsilon


def test_where_too_many_sets_differ_everybody_else_together_is_the_bound(monkeypatch):
    plan = plan_of("hypercube", 8, {"kind": "mean", "lower": 0.0, "upper": 1.0})
    worst = promise.promised(plan, 7)
    monkeypatch.setattr(sets, "MOST_STEPS", 80)
    found = promise.promised(plan, 2)
    assert found.bound == promise.AGAINST_ALL
    assert worst.bound == promise.WORST_SET and worst.epsilon <= found.epsilon < float("inf")
    monkeypatch.setattr(sets, "MOST_LISTED", 5)
    assert promise.promised(plan, 2) == found
