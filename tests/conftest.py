"""Settings of the whole suite: no deadline for a property's example, since the machine may be busy; and nothing is
written into anybody's home: what commands keep between runs goes to a folder of the suite's own. Its processes share
the laws of exposures, which only the code of the accountant decides."""

from __future__ import annotations

import os
import tempfile

from hypothesis import settings

settings.register_profile("busy-machine", deadline=None)
settings.load_profile("busy-machine")

KEPT = tempfile.TemporaryDirectory(prefix="network-dp-tests-")  # processes that tests start inherit it
if "PYTEST_XDIST_WORKER" not in os.environ:
    os.environ["NETWORK_DP_CACHE"] = f"{KEPT.name}/laws"
os.environ["XDG_STATE_HOME"] = f"{KEPT.name}/state"
