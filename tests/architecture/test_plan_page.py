"""docs/PLAN.md has every key that the reader of plans asks for, with what it allows and its default."""

from __future__ import annotations

from simulator.plan_page import PAGE, keys, rendered


def test_the_page_is_what_the_reader_says() -> None:
    assert PAGE.read_text() == rendered(PAGE.read_text()), "run: python -m simulator.plan_page"


def test_every_key_has_a_meaning() -> None:
    empty = [line for line in PAGE.read_text().splitlines() if line.startswith("| `") and line.endswith("|  |")]
    assert empty == []
    assert sum(len(table) for table in keys().values()) > 70
