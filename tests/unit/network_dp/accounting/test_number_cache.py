"""Numbers on disk: found again by function and arguments, never believed when they are not what they say."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from network_dp.accounting import disk_cache, number_cache
from network_dp.accounting.number_cache import kept

asked: list[float] = []


@kept
def third(of: float, delta: float = 1.0) -> float:
    asked.append(of)
    return of / 3


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv(disk_cache.VARIABLE, str(tmp_path))
    asked.clear()
    return tmp_path


def test_a_number_is_computed_once_for_the_same_arguments() -> None:
    assert [third(1.0), third(1.0), third(1.0, delta=0.5), third(2.0)] == [1 / 3, 1 / 3, 1 / 3, 2 / 3]
    assert asked == [1.0, 1.0, 2.0]
    assert third(float("inf")) == third(float("inf")) == float("inf")
    assert asked == [1.0, 1.0, 2.0, float("inf")]


def lower(path: Path) -> None:
    path.write_text(f"{(0.25).hex()} {path.read_text().split()[1]}")


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-1])


def no_text(path: Path) -> None:
    path.write_bytes(b"\xff\xfe")


def written_by_others(path: Path) -> None:
    path.chmod(0o622)


@pytest.mark.parametrize("damage", [lower, cut, no_text, written_by_others], ids=lambda damage: damage.__name__)
def test_what_is_not_what_it_says_is_computed_again(folder: Path, damage: Callable[[Path], None]) -> None:
    third(1.0)
    damage(*folder.iterdir())
    assert third(1.0) == 1 / 3
    assert len(asked) == 2


def test_a_number_of_another_question_is_not_believed(folder: Path) -> None:
    third(1.0)
    (first,) = folder.iterdir()
    third(2.0)
    (second,) = set(folder.iterdir()) - {first}
    second.write_bytes(first.read_bytes())
    assert third(2.0) == 2 / 3


def test_another_source_code_finds_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    third(1.0)
    monkeypatch.setattr(number_cache, "_CODE", "of tomorrow")
    third(1.0)  # the code that is running is still that of today
    assert len(asked) == 1
    kept(third.__wrapped__)(1.0)
    assert len(asked) == 2


def test_a_number_that_no_accountant_gives_is_not_believed(folder: Path) -> None:
    third(1.0)
    (path,) = folder.iterdir()
    path.write_text(f"{(-1.0).hex()} {number_cache._checksum(path.name, -1.0)}")
    assert third(1.0) == 1 / 3
