"""Laws on disk: found again by what they are, never believed when they are not what they say."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from network_dp.accounting import disk_cache, law_cache, profile
from network_dp.accounting.law_cache import ExposureLaw
from network_dp.accounting.moments import Law

LAW = Law("sum", 5, 20)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv(disk_cache.VARIABLE, str(tmp_path / "deep" / "laws"))
    return tmp_path / "deep" / "laws"


@pytest.fixture(scope="module")
def computed() -> ExposureLaw:
    return profile.computed_law(LAW)


def stored(folder: Path) -> Path:
    (path,) = folder.glob("*.law")
    return path


def test_a_law_is_found_again_to_the_last_bit(folder: Path, computed: ExposureLaw) -> None:
    assert law_cache.read(LAW) is None
    law_cache.write(LAW, computed)
    found = law_cache.read(LAW)
    assert found is not None
    assert (found.step, found.lost) == (computed.step, computed.lost)
    assert np.array_equal(found.probability, computed.probability)
    assert law_cache.read(Law("sum", 5, 21)) is None
    assert stored(folder).stat().st_mode & 0o777 == 0o600
    assert [path.name for path in folder.iterdir()] == [stored(folder).name]  # nothing unfinished is left


def test_what_is_out_of_reach_is_kept_too(folder: Path) -> None:
    law_cache.write(LAW, law_cache.OUT_OF_REACH)
    found = law_cache.read(LAW)
    assert found is not None and found.lost == 1.0 and len(found.probability) == 0


def halved(path: Path) -> None:
    """Half of the probability: another checksum."""
    head, _, payload = path.read_bytes().partition(b"\n")
    path.write_bytes(head + b"\n" + (np.frombuffer(payload) / 2).tobytes())


def for_another_walk(path: Path) -> None:
    path.write_bytes(path.read_bytes().replace(b'"n_steps": 20', b'"n_steps": 19'))


def with_a_negative_loss(path: Path) -> None:
    head, _, payload = path.read_bytes().partition(b"\n")
    path.write_bytes(head.replace(b'"lost": ', b'"lost": -') + b"\n" + payload)


def with_one_more_key(path: Path) -> None:
    path.write_bytes(path.read_bytes().replace(b'{"law"', b'{"more": 1, "law"'))


def with_another_step(path: Path) -> None:
    """Half of the step is a step too, and half of every exposure."""
    head, _, payload = path.read_bytes().partition(b"\n")
    values = json.loads(head)
    path.write_bytes(json.dumps({**values, "step": values["step"] / 2}).encode() + b"\n" + payload)


def with_less_lost(path: Path) -> None:
    head, _, payload = path.read_bytes().partition(b"\n")
    values = json.loads(head)
    path.write_bytes(json.dumps({**values, "lost": values["lost"] / 2}).encode() + b"\n" + payload)


def with_a_checksum_of_its_probabilities_alone(path: Path) -> None:
    head, _, payload = path.read_bytes().partition(b"\n")
    values = {**json.loads(head), "sha256": hashlib.sha256(payload).hexdigest()}
    path.write_bytes(json.dumps(values).encode() + b"\n" + payload)


def written_by_others(path: Path) -> None:
    path.chmod(0o622)


def elsewhere(path: Path) -> None:
    path.rename(path.with_suffix(".moved"))
    path.symlink_to(path.with_suffix(".moved"))


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-8])


DAMAGES = [
    halved,
    for_another_walk,
    with_a_negative_loss,
    with_one_more_key,
    with_another_step,
    with_less_lost,
    with_a_checksum_of_its_probabilities_alone,
    written_by_others,
    elsewhere,
    cut,
]


@pytest.mark.parametrize("damage", DAMAGES, ids=lambda damage: damage.__name__)
def test_a_file_that_is_not_what_it_says_is_computed_again(
    folder: Path, computed: ExposureLaw, damage: Callable[[Path], None]
) -> None:
    law_cache.write(LAW, computed)
    damage(stored(folder))
    assert law_cache.read(LAW) is None
    law_cache.write(LAW, computed)  # and replaced
    assert law_cache.read(LAW) is not None


@pytest.mark.parametrize("step", [0.0038125, 1.0, 2.0**-13])
def test_a_step_that_no_grid_has_is_not_believed(folder: Path, computed: ExposureLaw, step: float) -> None:
    law_cache.write(LAW, replace(computed, step=step))  # whatever its checksum says
    assert law_cache.read(LAW) is None


def test_another_accountant_finds_nothing(folder: Path, computed: ExposureLaw, monkeypatch: pytest.MonkeyPatch) -> None:
    law_cache.write(LAW, computed)
    monkeypatch.setattr(law_cache, "_CODE", "of tomorrow")
    assert law_cache.read(LAW) is None


def test_it_can_be_switched_off_and_does_without_a_disk(
    folder: Path, computed: ExposureLaw, monkeypatch: pytest.MonkeyPatch
) -> None:
    law_cache.write(LAW, computed)
    monkeypatch.setenv(disk_cache.VARIABLE, "off")
    assert law_cache.read(LAW) is None
    monkeypatch.setenv(disk_cache.VARIABLE, "/proc/nobody/can/write/here")
    law_cache.write(LAW, computed)
    assert law_cache.read(LAW) is None


def test_the_number_of_files_is_bounded(folder: Path, computed: ExposureLaw, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(disk_cache, "_MOST_FILES", 3)
    for steps in range(20, 26):
        law_cache.write(Law("sum", 5, steps), computed)
    assert len(list(folder.iterdir())) == 3
