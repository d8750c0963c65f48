"""The parent of users who note every request that came in: when, from whom, what it was and how long; of a block,
for which round, of labels, whose turn it was.

``python -m tests.system.watched_rounds RUN``: a zygote like any other. With the file RUN/late, a bug is planted in its
users: the holder of a token sends its block so many seconds late.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import Any

from node.many import zygote
from node.protocols.effects import Tick
from node.protocols.rounds.messages import Block, Shuffle
from node.rounds import Rounds
from node.transport.rounds_codec import RoundsCodec
from node.transport.rounds_server import RoundService

NOTES = "arrivals"


def _watch(notes: Path) -> None:
    read, answer, sizes = RoundsCodec.request_in, RoundService._answer, list[int]()

    def request_in(self: RoundsCodec, data: bytes) -> Any:
        sizes[:] = [len(data)]
        return read(self, data)

    def noted(self: RoundService, user: int, serial: int, request: Any, *more: Any) -> Any:
        number = request.counter if isinstance(request, Block) else _turn(request)
        with notes.open("a") as file:
            file.write(f"{self._me} {number} {user} {time.monotonic()!r} {sizes[0]} {type(request).__name__}\n")
        return answer(self, user, serial, request, *more)

    RoundsCodec.request_in = request_in  # type: ignore[method-assign]
    RoundService._answer = noted  # type: ignore[method-assign]


def _turn(request: Any) -> int:
    """Whose turn it was to shuffle these labels, as the batch itself says."""
    if not isinstance(request, Shuffle):
        return -1
    batch = request.batch
    return batch.crowd[(batch.first + batch.turns - 1) % len(batch.crowd)]


def _plant(late_s: float) -> None:
    step = Rounds.step

    def late(self: Rounds, state: Any, event: Any, now: float) -> Any:
        holds = state.opened or state.mine > state.heard
        if isinstance(event, Tick) and state.call is not None and holds:
            time.sleep(late_s)
        return step(self, state, event, now)

    Rounds.step = late  # type: ignore[method-assign]


if __name__ == "__main__":
    run = Path(sys.argv[1])
    _watch(run / NOTES)
    if (run / "late").exists():
        _plant(float((run / "late").read_text()))
    sys.exit(zygote.main())
