"""A full disk: the user says so, takes no token, loses nothing, and goes on when there is space again."""

from __future__ import annotations

import os
import resource
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.system.faults.conftest import MakeTown
from tests.system.faults.evidence import check
from tests.system.harness import Harness

pytestmark = pytest.mark.process

WALKS = {"ring": {"topology": "ring", "rounds": 100}, "complete": {"topology": "complete", "steps": 400}}
SAYS = "the disk took no journal record"
UNLIMITED = (resource.RLIM_INFINITY, resource.RLIM_INFINITY)


def _full(town: Harness, name: str) -> None:
    """No file of this process may grow past the size its journal has now (root or not, on any file system)."""
    size = (town.state(name) / "journal").stat().st_size
    resource.prlimit(town.pool.pids[name], resource.RLIMIT_FSIZE, (size, resource.RLIM_INFINITY))


@pytest.mark.parametrize("walk", WALKS)
def test_a_user_with_a_full_disk_says_so_and_goes_on_when_there_is_space(make_town: MakeTown, walk: str) -> None:
    town = make_town(5, **WALKS[walk])
    town.start_all()
    town.wait_step(50)
    _full(town, "user-2")
    town.until("user-2 says so", lambda: SAYS in town.log("user-2"))
    before = town.furthest()
    town.wait_step(min(before + 20, town.plan.total_steps))
    resource.prlimit(town.pool.pids["user-2"], resource.RLIMIT_FSIZE, UNLIMITED)
    town.wait_all()
    check(town)


@pytest.fixture
def small_disk() -> Iterator[Callable[[Path], None]]:
    """Puts a folder on a disk of its own, 256 KiB small; needs root."""
    mounted: list[Path] = []

    def mount(folder: Path) -> None:
        kept = folder.with_name("kept")
        folder.rename(kept)
        folder.mkdir(mode=0o700)
        subprocess.run(["mount", "-t", "tmpfs", "-o", "size=256k,mode=0700", "none", folder], check=True)
        mounted.append(folder)
        shutil.copytree(kept, folder, dirs_exist_ok=True)

    yield mount
    for folder in mounted:
        subprocess.run(["umount", "-l", folder], check=True)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may mount a small disk")
def test_a_disk_that_is_really_full_tears_no_record_and_no_line(
    make_town: MakeTown, small_disk: Callable[[Path], None]
) -> None:
    town = make_town(5, **WALKS["ring"])
    small_disk(town.state("user-2"))
    town.start_all()
    town.wait_step(30)
    filler = town.state("user-2") / "filler"
    with filler.open("wb", buffering=0) as file:
        try:
            while True:
                file.write(b"x" * 512)
        except OSError:
            pass
    before = town.furthest()
    town.wait_step(before + 100)
    filler.unlink()
    town.wait_all()
    check(town)
    shutil.copytree(town.state("user-2"), town.folder / "looked-at")
