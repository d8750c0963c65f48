"""What a user's process asks of gRPC before it is loaded; whoever starts one sets it, importing never does.

gRPC's own event engine passes every message through three threads before Python hears of it. Its older poller does the
same in one: half the thread switches a hop, and less memory a process (docs/adr/0009).
"""

from __future__ import annotations

import os
from typing import Final

ONE_POLLER: Final = {"GRPC_EXPERIMENTS": "-event_engine_client,-event_engine_listener"}


def set_up() -> None:
    """For the first line of a process's ``main``, before anything loads gRPC; what the operator chose stays."""
    for name, value in ONE_POLLER.items():
        os.environ.setdefault(name, value)
