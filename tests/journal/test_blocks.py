"""Memory of long tokens is used again, but never while anybody can still read it."""

from __future__ import annotations

import gc

import numpy as np
import pytest

from node.blocks import KEPT, Blocks

SIZE = 70_001


def address(view: memoryview) -> int:
    return int(np.frombuffer(view, np.uint8).__array_interface__["data"][0])


@pytest.mark.parametrize("hold", [
    lambda view: view, lambda view: view.toreadonly(), lambda view: view[5:9].toreadonly(),
    lambda view: np.frombuffer(view, np.uint8), lambda view: np.frombuffer(view.toreadonly(), np.uint8)[3:4],
])  # fmt: skip
def test_a_block_is_not_used_again_while_any_view_of_it_is_alive(hold) -> None:
    blocks = Blocks()
    first = blocks.room(SIZE)
    place, held = address(first), hold(first)
    del first
    gc.collect()
    second = blocks.room(SIZE)
    assert address(second) != place
    del held
    gc.collect()
    assert address(blocks.room(SIZE)) == place


def test_numbers_at_the_end_of_a_block_are_aligned() -> None:
    view = Blocks().room(SIZE)
    assert len(view) == SIZE and (address(view) + SIZE) % 8 == 0


def test_no_more_blocks_are_kept_than_a_walk_needs() -> None:
    blocks = Blocks()
    many = [blocks.room(SIZE) for _ in range(KEPT + 4)]
    del many
    gc.collect()
    assert len(blocks._free) == KEPT
