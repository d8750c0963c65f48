"""What an onlooker who sees inside every machine checks after every effect of a hidden walk.

No pad covers two blocks; no list of labels serves two steps; one message for an epoch and step, fixed in the journal
before it leaves (so noise is drawn once), with a noise of its own; no message of a dead epoch; no vote that is not in
the journal; blocks leave on the beat, whoever speaks; no round of a minority; one result, with every contribution.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from network_dp import view
from node.protocols.rounds.messages import Block, Call
from node.protocols.rounds.speech import Kind, decoded
from node.protocols.rounds.state import COUNT_BYTES, Durable, Key, State
from simulator.faults.evidence import ViolationError
from simulator.rounds.scene import BEAT_S, STEPS, USERS, Counter

_TOKEN_BYTES = 8 * Counter.dimension
_SLACK_S = 1e-5


def require(holds: bool, text: str) -> None:
    if not holds:
        raise ViolationError(text)


class Evidence:
    """All that has left so far."""

    def __init__(self, quorum: int, in_one_round: bool) -> None:
        self._quorum = quorum
        self._in_one_round = in_one_round
        self._shape = (1, _TOKEN_BYTES + COUNT_BYTES) if in_one_round else (STEPS, _TOKEN_BYTES)
        self._blocks: dict[tuple[int, bytes, int, bytes, int], bytes] = {}
        self._said: dict[Key, tuple[int, bytes]] = {}
        self._heard: set[bytes] = set()
        self._tokens: dict[bytes, Key] = {}
        self._lists: dict[Any, Key] = {}
        self._noises: set[int] = set()
        self._shared: dict[int, dict[int, list[int]]] = {}  # attempt -> user -> its share
        self.result: bytes | None = None

    def leaves(self, user: int, state: State, disk: Durable, block: Block, now: float, called_at: float) -> None:
        """A block on its way to the adder."""
        call = state.call
        require(call is not None, f"u{user}: a block for no call")
        assert call is not None
        key = (user, block.life, call.adder, call.roll[call.adder], block.counter)
        require(self._blocks.setdefault(key, block.data) == block.data, f"u{user}: two blocks under one pad")
        require(len(call.roll) >= max(self._quorum, USERS // 2 + 1), f"u{user}: a round of a minority")
        require(abs(now - called_at - BEAT_S) < _SLACK_S, f"u{user}: a block that is not on the beat")
        votes = (0, 0) if disk.rejoined else (disk.promised, disk.accepted)
        require((block.promised, block.accepted) == votes, f"u{user}: a vote that is not in its journal")
        require(block.data != bytes(len(block.data)), f"u{user}: a block without pads")
        if self._in_one_round and block.counter % 2:
            self._shares(user, call, disk)
        elif state.spoke:
            self._speaks(user, state, disk)

    def _shares(self, user: int, call: Call, disk: Durable) -> None:
        """A share leaves: journaled, counted, with a noise that no other share has."""
        line = view.decode(disk.line).fields
        require(disk.promised == call.counter and line["visit"] == disk.visits, f"u{user}: a share without its journal")
        require(line["noise"][1] not in self._noises, f"u{user}: a share without fresh noise")
        self._noises.add(line["noise"][1])
        self._shared.setdefault(call.counter, {})[user] = line["sent"]

    def _speaks(self, user: int, state: State, disk: Durable) -> None:
        speech = decoded(state.spoke, "run", *self._shape)
        assert speech is not None
        if speech.kind in (Kind.BUSY, Kind.PREPARE):
            return
        key = speech.epoch, speech.step
        require(disk.said == state.spoke, f"u{user} says what is not in its journal")
        require(speech.epoch >= disk.promised, f"u{user} speaks in an epoch that it gave up")
        _, said = self._said.setdefault(key, (user, state.spoke))
        require(said == state.spoke, f"u{user}: another token for step {speech.step}: noise drawn twice")
        if speech.kind is Kind.TOKEN and np.frombuffer(disk.out, np.int64).any():
            require(self._tokens.setdefault(disk.out, key) == key, f"u{user}: a token taken up without fresh noise")

    def heard(self, total: bytes) -> None:
        """A sum that somebody gets."""
        self._heard.add(total)

    def forget(self, user: int) -> None:
        """An older disk takes this user's place: what it said in blocks that never came to a sum, nobody knows."""
        self._said = {key: one for key, one in self._said.items() if one[0] != user or one[1] in self._heard}

    def labels(self, state: State) -> None:
        for (epoch, number), batch in state.batches.items():
            for place, one in enumerate(batch.lists):
                key = (epoch, number * len(batch.lists) + place)
                require(self._lists.setdefault(one, key) == key, "one list of labels for two steps")

    def final(self, user: int, contributions: int, token: bytes) -> None:
        """Somebody says that this is the result."""
        self.result = self.result or token
        require(token == self.result, f"u{user}: two results")
        found = np.frombuffer(token, np.int64)
        require(found[0] == contributions, f"u{user}: not the sum of all contributions")
        if self._in_one_round:
            sums = [np.sum(list(shares.values()), axis=0).tolist() for shares in self._shared.values()]
            require(found.tolist() in sums and contributions >= self._quorum, f"u{user}: not the sum of an attempt")
        else:
            require(contributions == STEPS, f"u{user}: a walk that ended early")
