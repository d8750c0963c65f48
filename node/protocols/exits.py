"""Exit codes of a user's process (documented in docs/PROTOCOL.md)."""

from __future__ import annotations

from typing import Final

DONE: Final = 0  # the result is final here
INTERNAL: Final = 1  # a bug: the log says where
BAD_INPUT: Final = 2  # plan, bundle, certificate or data cannot be used
OLD_DISK: Final = 3  # peers remember more than the journal: use --rejoin
STALLED: Final = 4  # too few users alive for too long; the token is kept, start again to go on
LOCKED: Final = 5  # another process uses this state directory
CORRUPT: Final = 6  # the journal is damaged in the middle
STOPPED: Final = 75  # asked to stop before the end; start again to go on
