"""The exit codes of any protocol, under the walk's name."""

from __future__ import annotations

from node.protocols.exits import BAD_INPUT as BAD_INPUT
from node.protocols.exits import CORRUPT as CORRUPT
from node.protocols.exits import DONE as DONE
from node.protocols.exits import INTERNAL as INTERNAL
from node.protocols.exits import LOCKED as LOCKED
from node.protocols.exits import OLD_DISK as OLD_DISK
from node.protocols.exits import STALLED as STALLED
from node.protocols.exits import STOPPED as STOPPED
