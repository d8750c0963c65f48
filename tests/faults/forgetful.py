"""The users' parent on a machine whose disk forgets what nobody synced (``tests/journal/lossy_disk.py``)."""

from __future__ import annotations

import sys

from node import zygote
from tests.journal import lossy_disk

if __name__ == "__main__":
    lossy_disk.install()
    sys.exit(zygote.main())
