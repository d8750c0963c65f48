"""The accountant's long work, with a bar: what a plan's promise rests on, computed once and kept (`law_cache`)."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from coordinator_free_launcher.cli.provision import read_plan
from coordinator_free_launcher.cli.say import bar
from network_dp.plan import Plan

WORK: Final = "least noise that is enough"


def prepare(plan: Plan, colluders: int = 1) -> None:
    """Compute the laws behind a plan's promises, so that asking for them later takes no time."""
    from network_dp.accounting.profile import exposure_law
    from network_dp.promise import walk_law

    for size in sorted({1, colluders}):
        law = walk_law(plan, size)
        if law is not None:
            with bar(WORK, 1.0) as step:
                exposure_law(law, step)


def read_final(path: Path) -> Plan:
    """The plan in a file with its noise calibrated, however long that takes."""
    from coordinator_free_launcher.identity.finalise import finalise

    wish = read_plan(path)
    prepare(wish)
    return finalise(wish)
