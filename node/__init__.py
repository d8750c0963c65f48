"""One user of a run, one process.

gRPC's own event engine passes every message through three threads before Python hears of it. Its older poller does the
same in one: half the thread switches a hop, and less memory a process. It has to be chosen before gRPC is loaded.
"""

import os

os.environ.setdefault("GRPC_EXPERIMENTS", "-event_engine_client,-event_engine_listener")
