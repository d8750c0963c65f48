"""Pads cancel, labels open for their owner alone, and what is malformed says nothing."""

from __future__ import annotations

import os
import secrets

import numpy as np
import pytest
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey

from node.protocols.rounds.labels import can_seal, count_of, label_of, opened, scalar_of, shuffled, times
from node.protocols.rounds.pads import LIFE_BYTES, Pads
from node.protocols.rounds.seal import sealed, unsealed
from node.protocols.rounds.speech import Kind, Speech, decoded, encoded, size_of, words

N, RUN = 7, "run"
PRIVATE = [os.urandom(32) for _ in range(N)]
PUBLIC = [X25519PrivateKey.from_private_bytes(key).public_key().public_bytes_raw() for key in PRIVATE]


def pads() -> list[Pads]:
    return [Pads(user, PRIVATE[user], PUBLIC, RUN, 9) for user in range(N)]


def test_the_pads_of_a_roll_cancel_and_no_single_one_is_zero() -> None:
    roll = {user: os.urandom(LIFE_BYTES) for user in (0, 2, 3, 6)}
    everybody = pads()
    blocks = [everybody[user].total(roll, 2, 5) for user in roll]
    assert all(block.any() for block in blocks)
    assert not np.sum(blocks, axis=0, dtype=np.uint64).any()


@pytest.mark.parametrize("changed", ["counter", "own life", "peer's life", "adder's life", "adder", "run"])
def test_another_round_life_or_run_gives_another_pad(changed: str) -> None:
    lives = {user: os.urandom(LIFE_BYTES) for user in range(N)}
    mine = Pads(0, PRIVATE[0], PUBLIC, RUN, 4)
    first = mine.total(lives, 2, 5)
    other = {"own life": 0, "peer's life": 1, "adder's life": 2}.get(changed)
    roll = lives if other is None else {**lives, other: os.urandom(LIFE_BYTES)}
    again = Pads(0, PRIVATE[0], PUBLIC, "another", 4) if changed == "run" else mine
    second = again.total(roll, 3 if changed == "adder" else 2, 6 if changed == "counter" else 5)
    assert (first != second).all()


def test_a_point_of_low_order_is_refused() -> None:
    with pytest.raises(ValueError):
        Pads(0, PRIVATE[0], [PUBLIC[0], bytes(32)], RUN, 4)
    with pytest.raises(ValueError):
        shuffled(bytes(32) + PUBLIC[1], os.urandom, secrets.randbelow)
    assert unsealed(scalar_of(PRIVATE[0]), bytes(80), b"") is None


def test_everybody_can_tell_a_label_that_nobody_could_seal_to() -> None:
    order_8 = 325606250916557431795983626356110631294008115727848805560023387167927233504
    p = 2**255 - 19
    for low in (0, 1, p - 1, p, p + 1, order_8, order_8 + 2**255):
        point = low.to_bytes(32, "little")
        assert not can_seal(opened([PUBLIC[1], point])) and not can_seal(point + PUBLIC[1])
        with pytest.raises(ValueError):
            times(scalar_of(PRIVATE[0]), point)
    assert can_seal(opened(PUBLIC)) and not can_seal(opened(PUBLIC)[1:])
    for point in PUBLIC:
        assert times(scalar_of(PRIVATE[0]), point)


def test_after_three_shuffles_each_label_opens_for_exactly_one_user() -> None:
    labels = opened(PUBLIC)
    for _ in range(3):
        labels = shuffled(labels, os.urandom, secrets.randbelow)
    owners = []
    for number in range(count_of(labels)):
        box = sealed(label_of(labels, number), os.urandom(32), b"token", b"step 1")
        opens = [user for user in range(N) if unsealed(scalar_of(PRIVATE[user]), box, b"step 1") == b"token"]
        assert len(opens) == 1 and unsealed(scalar_of(PRIVATE[opens[0]]), box, b"step 2") is None
        owners += opens
    assert sorted(owners) == list(range(N))


def test_a_shuffle_leaves_no_point_as_it_was_and_no_two_shuffles_are_alike() -> None:
    """Every list has its own r: labels of two steps have nothing in common."""
    lists = [opened(PUBLIC), *(shuffled(opened(PUBLIC), os.urandom, secrets.randbelow) for _ in range(5))]
    points = [one[at : at + 32] for one in lists for at in range(0, len(one), 32)]
    assert len(set(points)) == len(points) == 6 * (N + 1)


def test_a_shuffle_is_uniform() -> None:
    counts = np.zeros(3)
    for _ in range(300):
        turned = shuffled(opened(PUBLIC[:3]), lambda size: b"\x01" * size, secrets.randbelow)
        again = shuffled(opened(PUBLIC[:1]), lambda size: b"\x01" * size, secrets.randbelow)
        counts[[label_of(turned, number) for number in range(3)].index(label_of(again, 0))] += 1
    assert ((counts - 100) ** 2 / 100).sum() < 27.6  # chi-square, 2 degrees: false alarm 1e-6


def test_pads_of_two_stretches_differ() -> None:
    lives = {user: os.urandom(LIFE_BYTES) for user in range(N)}
    mine = Pads(0, PRIVATE[0], PUBLIC, RUN, 64)
    seen = [mine.total(lives, 1, counter).tobytes() for counter in range(1, 100)]
    assert len(set(seen)) == len(seen)


def test_one_speaker_is_heard_none_or_two_are_not() -> None:
    size = size_of(16)
    one = encoded(Speech(Kind.RESULT, 1, 4, b"a" * 16), RUN, size)
    two = encoded(Speech(Kind.RESULT, 1, 4, b"b" * 16), RUN, size)
    assert len(one) == len(encoded(Speech(Kind.TOKEN, 1, 1, b"c" * 64), RUN, size)) == 8 * size
    assert len(encoded(Speech(Kind.BUSY, 1, 1), RUN, size)) == 8 * size
    assert decoded(one, RUN, 3, 16) == Speech(Kind.RESULT, 1, 4, b"a" * 16)
    assert decoded((words(one) + words(two)).tobytes(), RUN, 3, 16) is None
    assert decoded(bytes(8 * size), RUN, 3, 16) is None
    assert decoded(one, "another", 3, 16) is None
    assert decoded(encoded(Speech(Kind.TOKEN, 1, 4, b"c" * 64), RUN, size), RUN, 3, 16) is None
    assert decoded(encoded(Speech(Kind.TOKEN, 0, 2, b"c" * 64), RUN, size), RUN, 3, 16) is None
