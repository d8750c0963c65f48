"""Randomised response on the complete graph: exact compositions averaged over paths (THEORY.md#response-complete)."""

import itertools
import math
from functools import lru_cache

import numpy as np
import pytest

from network_dp import calibrate, promise
from network_dp.accounting import response_walk, shuffle
from network_dp.accounting.moments import Law
from network_dp.accounting.randomised_response import Response, Window, window_losses
from network_dp.plan_reader import from_dict


@lru_cache
def windows_of_all_walks(law):
    """Multisets of windows, by number of others, and how probable they are."""
    n, c, found = law.n_users, law.colluders, {}
    for walk in itertools.product("vuo", repeat=law.n_steps):
        cycles = "".join(walk).split("v")
        others = []
        for cycle in cycles if law.released else cycles[:-1]:
            mine = cycle.count("u")
            others += [(len(cycle) - mine) // max(mine, 1)] * mine
        chance = (c / n) ** walk.count("v") * (1 / n) ** walk.count("u") * ((n - c - 1) / n) ** walk.count("o")
        key = tuple(sorted(others))
        found[key] = found.get(key, 0.0) + chance
    return found


def listed_delta(law, response, epsilon, interval):
    """delta by listing all walks and convolving the losses of their windows."""
    total = 0.0
    losses = [window_losses(response, Window(others), interval) for others in range(law.n_steps)]
    for others, chance in windows_of_all_walks(law).items():
        composed, lowest = np.ones(1), 0
        for one in others:
            composed, lowest = np.convolve(composed, losses[one].probabilities), lowest + losses[one].lowest
        above = (lowest + np.arange(len(composed))) * interval - epsilon
        total += chance * float(composed @ np.maximum(-np.expm1(-above), 0.0))
    return total


@pytest.mark.parametrize("released", [False, True])
@pytest.mark.parametrize("n,steps,colluders", [(2, 5, 1), (3, 6, 1), (4, 7, 2)])
@pytest.mark.parametrize("delta", [0.05, 1e-4])
def test_epsilon_is_that_of_all_walks_and_all_losses(n, steps, colluders, released, delta):
    law, response = Law("sum", n, steps, colluders, released), Response(3, 0.5)
    found = response_walk.epsilon(law, response, delta)
    interval = response_walk._walk(law, response).interval
    exact = listed_delta(law, response, found, interval)
    assert delta * (1 - 1e-6) <= exact <= delta  # the same losses: what is proved about rounding, and nothing else
    assert listed_delta(law, response, found * 0.98, interval / 3) > delta  # finer losses: the grid costs little


@pytest.mark.parametrize("released", [False, True])
@pytest.mark.parametrize(("n", "steps"), [(9, 3), (4, 5), (2, 6), (50, 2)])
@pytest.mark.parametrize("delta", [1e-6, 1e-12])
def test_a_loss_that_saturates_is_never_told_too_small(n, steps, released, delta):
    """So short a walk can lose so little that the best order is in the thousands, where tilted numbers overflow."""
    response = Response(4, 0.05)
    found = shuffle.complete_epsilon(n, steps, 4, 0.05, delta, released)
    law, interval = Law("sum", n, steps, 1, released), 1e-3  # which listed losses are rounded up to, once a window
    assert listed_delta(law, response, found + steps * interval, interval) <= delta * (1 + 1e-6)


def test_the_known_example_is_far_below_renyi():
    """n = 20, T = 100, delta = 0.01."""
    size = (20, 100, 4, 0.5, 0.01)
    assert shuffle.complete_epsilon(*size, accountant="renyi") == pytest.approx(6.436, abs=0.01)
    assert shuffle.complete_epsilon(*size) == pytest.approx(4.611, abs=0.005)


def test_epsilon_grows_steadily_as_delta_falls():
    law, response = Law("sum", 10, 30), Response(2, 0.4)
    found = [response_walk.epsilon(law, response, 10.0**-k) for k in (1, 2, 3, 5, 8, 12)]
    assert found == sorted(found) and math.isfinite(found[-1])


def test_a_long_walk_has_no_such_number():
    law = Law("sum", 20, response_walk.LONGEST_WALK + 1)
    assert response_walk.epsilon(law, Response(4, 0.5), 0.01) == math.inf


def test_a_plan_uses_it_and_says_so():
    users = [{"name": f"user-{i}", "address": f"127.0.0.1:{7000 + i}"} for i in range(6)]
    walk, task = {"topology": "complete", "steps": 18, "min_live": 6}, {"kind": "histogram", "buckets": 3}
    noise = {"mechanism": "rr", "gamma": 0.6, "delta": 1e-3}
    plan = from_dict({"walk": walk, "task": task, "noise": noise, "users": users})
    found = promise.promised(plan)
    assert found.bound == "exact compositions averaged over paths"
    renyi = promise.promised(plan, accountant="renyi")
    assert found.epsilon < renyi.epsilon
    gamma = calibrate.gamma(found.epsilon, 1e-3, topology="complete", n_users=6, n_buckets=3, n_steps=18, released=True)
    assert 0.6 * 0.995 < gamma < 0.6 * 1.005 or plan.walk.release != "all"
