"""The users' parent on a machine whose disk forgets what nobody synced (``tests/unit/node/storage/lossy_disk.py``)."""

from __future__ import annotations

import sys

from node.many import zygote
from tests.unit.node.storage import lossy_disk

if __name__ == "__main__":
    lossy_disk.install()
    sys.exit(zygote.main())
