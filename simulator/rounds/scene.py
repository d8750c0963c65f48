"""What the users of simulated hidden walks compute: a token that counts its contributions and adds up its noises."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from node.protocols.rounds.effects import Payload
from node.protocols.rounds.pads import Pads
from node.protocols.rounds.speech import size_of
from node.protocols.rounds.state import COUNT_BYTES, Context

USERS, STEPS = 6, 6
BEAT_S, BLOCK_S, LEASE = 0.02, 0.3, 10
ATTEMPTS = 200
_NAMES = tuple(f"u{user}" for user in range(USERS))


class Mixed(NamedTuple):
    payload: Payload
    noise: Payload | None


class Counter:
    """A ``Worker``: [contributions, sum of all noises], where a noise is a large random number."""

    dtype, dimension = "int64", 2

    def fits(self, payload: Payload, part: float | None = None) -> bool:
        return True

    def begin(self, fresh: Callable[[], Any]) -> Mixed:
        return Mixed(np.zeros(2, np.int64), None)

    def contribute(self, payload: Payload, index: int) -> Payload:
        return np.array([1, 0], np.int64)

    def mix(
        self,
        payload: Payload,
        contribution: Payload | None,
        supply: Any | None,
        units: int,
        step: int,
        closing: bool,
        out: Payload | None = None,
    ) -> Mixed:
        noise: NDArray[np.int64] = np.array([0, supply], np.int64)
        added = noise if contribution is None else contribution + noise
        return Mixed(payload + added, noise)


def context(
    me: int,
    private: bytes,
    publics: tuple[bytes, ...],
    quorum: int,
    shufflers: int,
    incarnation: int,
    in_one_round: bool = False,
) -> Context:
    size = size_of(8 * Counter.dimension + (COUNT_BYTES if in_one_round else 0))
    return Context(
        me=me,
        names=_NAMES,
        run_id="run",
        publics=publics,
        private=private,
        pads=Pads(me, private, publics, "run", size),
        quorum=quorum,
        total_steps=1 if in_one_round else STEPS,
        starter=0,
        shufflers=shufflers,
        beat_s=BEAT_S,
        block_s=BLOCK_S,
        answer_s=3 * BLOCK_S,
        retry_s=0.2,
        linger_s=1e6,
        stall_s=1e6,
        lease=LEASE,
        incarnation=incarnation,
        log_values=True,
        worker=Counter(),
        in_one_round=in_one_round,
        attempts=ATTEMPTS,
    )
