"""Walks as arrays."""

from __future__ import annotations

import numpy as np

from simulator import walks


def test_visit_numbers_count_every_user_on_its_own() -> None:
    assert walks.visit_numbers(np.array([2, 0, 2, 2, 1, 0])).tolist() == [1, 1, 2, 3, 1, 2]


def test_a_cap_keeps_the_first_visits() -> None:
    kept = walks.within_cap(np.array([2, 0, 2, 2, 1, 0]), 2)
    assert kept.tolist() == [True, True, True, False, True, True]


def test_no_cap_keeps_all() -> None:
    assert walks.within_cap(np.array([0, 0, 0]), None).all()


def test_a_uniform_walk_visits_the_sender_as_often_as_anybody() -> None:
    walk = walks.uniform(10, 100_000, np.random.default_rng(1))
    stays = float(np.mean(walk[1:] == walk[:-1]))
    assert abs(stays - 0.1) < 5 * np.sqrt(0.09 / 100_000)


def test_a_ring_walk_goes_round() -> None:
    assert walks.ring(3, 2).tolist() == [0, 1, 2, 0, 1, 2]
