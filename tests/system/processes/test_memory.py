"""Many users on one machine: what they share stays shared (node/many/immortal.py)."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from statistics import fmean

import pytest

from benchmarks.memory import private_kib
from benchmarks.town import launched, make_plan, make_run, start, until
from node.many.zygote import MANY

pytestmark = pytest.mark.process

SHARES_FOR_EVER = sys.version_info >= (3, 12)  # older Pythons count the references of every object
WALKED_MIB = 8.0 if SHARES_FOR_EVER else 12.0

IMMORTAL = """
import gc, json, sys, weakref
import numpy as np
from node.many.immortal import make_immortal
class Thing: pass
kept, table, gone = Thing(), [str(number) for number in range(1000, 2000)], Thing()
proxy = weakref.proxy(gone)
del gone  # whoever asks the proxy for its class now gets an error
marked = make_immortal()
gc.freeze()
before = sys.getrefcount(kept), sys.getrefcount(table[7]), sys.getrefcount(Thing), sys.getrefcount(json.dumps.__code__)
more = [[kept, table[7], Thing, json.dumps.__code__] for _ in range(50)]
after = sys.getrefcount(kept), sys.getrefcount(table[7]), sys.getrefcount(Thing), sys.getrefcount(json.dumps.__code__)
late = Thing()
gone = weakref.ref(late)
del late, more
table.clear()
gc.collect()
print(json.dumps([marked, before != after, gone() is None, int(np.ones(9).sum())]))
"""


def test_objects_from_before_the_fork_are_not_counted_any_more_and_later_ones_are_freed_as_ever() -> None:
    done = subprocess.run([sys.executable, "-c", IMMORTAL], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    marked, written, freed, total = json.loads(done.stdout)
    assert freed and total == 9
    assert written is not SHARES_FOR_EVER
    assert marked > 10_000 if SHARES_FOR_EVER else marked == 0


@pytest.mark.skipif(not Path("/proc/self/smaps_rollup").exists(), reason="Linux tells what a process does not share")
def test_a_user_that_has_walked_owns_little_memory(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run", make_plan(MANY, topology="complete", steps=40 * MANY))
    with launched(run) as launch:
        others = [name for name in launch.names if name != launch.plan.walk.starter]
        start(launch, others, warm_channels=1)
        start(launch, [launch.plan.walk.starter], warm_channels=1)
        until(launch, "everybody has walked", lambda: launch.step > 8 * MANY)
        used_mib = fmean(private_kib(pid) / 1024 for pid in launch.pool.pids.values())
    assert used_mib < WALKED_MIB
