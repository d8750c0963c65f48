"""The runtime drives any protocol over any transport: here one that is neither ours, in memory."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from node.protocols.effects import Answered, Begin, Finished, Persist, PersistFailed, Received, Reply, Send, Stop, Tick
from node.runtime import Runtime
from node.storage.journal import Journal
from node.storage.records import Changes, Lines
from node.storage.store import Store
from node.storage.view_log import ViewLog

USERS = 4


class Count(NamedTuple):
    """A number that goes round once; every user adds one and keeps what it passed on."""

    durable: int = 0
    answered: bool = False
    wake_at: float | None = None


class Add(NamedTuple):
    number: int


class Around:
    """A ``Machine``: the smallest protocol that sends, answers, journals, computes, waits and ends."""

    total = USERS

    def __init__(self, me: int) -> None:
        self._me = me

    def initial(self, durable: int) -> Count:
        return Count(durable)

    def step(self, state: Count, event: Any, now: float) -> tuple[Count, list[Any]]:
        match event:
            case Begin() if self._me == 0:
                return state._replace(wake_at=now + 0.01), []
            case Tick():
                return state._replace(wake_at=None), [Add(0)]
            case Received(_, ticket, number) if self._me == 0:
                return state, [Reply(ticket, "thanks"), Finished(None, bytes([number])), Stop(0, "round")]
            case Received(_, ticket, number):
                return state, [Reply(ticket, "thanks"), Add(number)]
            case int(number):
                effects = [Persist({"number": number}, True), Send((self._me + 1) % USERS, 1, number)]
                return state._replace(durable=number), effects
            case Answered(_, _, _, "thanks") if self._me != 0:
                return state._replace(answered=True), [Stop(0, "passed on")]
        assert not isinstance(event, PersistFailed)
        return state, []

    def compute(self, work: Add) -> int:
        return work.number + 1

    def wake_at(self, state: Count) -> float | None:
        return state.wake_at

    def progress(self, state: Count) -> int:
        return state.durable

    def status(self, state: Count) -> tuple[str, bool]:
        return "COUNTING", state.answered

    def admits(self, state: Count, peer: int, begun: Any, now: float) -> bool:
        return False

    def refusal(self, state: Count, request: Any, error: Exception) -> Any | None:
        return None


class Numbers:
    """A ``RecordCodec``."""

    def encode(self, changes: Changes) -> bytes:
        return msgspec.msgpack.encode(changes)

    def decode(self, text: memoryview) -> dict[str, Any]:
        return msgspec.msgpack.decode(text, type=dict[str, int])

    def apply(self, durable: int, changes: Changes) -> int:
        return int(changes.get("number", durable))

    def whole(self, durable: int) -> Changes:
        return {"number": durable}

    def begun_again(self, start: int) -> int:
        return start

    def merge(self, before: Changes, changes: Changes) -> Changes:
        return {**before, **changes}

    def long_parts(self, changes: Changes) -> dict[str, Any]:
        return {}

    def exchanged(self, field: Any, part: Any) -> Any:
        return part

    def known_digest(self, field: Any) -> bytes | None:
        return None

    def lines(self, history: Iterable[Changes]) -> dict[int, Lines]:
        return {}


class InMemory:
    """A transport: ``Outbound`` on one side, and the other side is a call."""

    def __init__(self, me: int, everybody: list[Runtime[Count]]) -> None:
        self._me, self._everybody = me, everybody
        self.on_cold: Callable[[int], None] = lambda peer: None

    async def send(self, peer: int, request: Any) -> Any | None:
        return await self._everybody[peer].ask(self._me, request)

    async def close(self) -> None: ...


def opened(folder: Path) -> Store:
    folder.mkdir(exist_ok=True)
    journal = Journal(folder, Numbers(), 0, sync=False)
    return Store(journal, ViewLog(folder / "view.jsonl", "{}"), lambda j, v, p, b, a: j.append(p.changes, sync=p.sync))


async def go_round(folder: Path) -> tuple[list[bytes], list[int], list[tuple[str, bool]]]:
    everybody: list[Runtime[Count]] = []
    results: list[bytes] = []
    told: list[int] = []
    stores = [opened(folder / str(user)) for user in range(USERS)]
    for user, store in enumerate(stores):
        client = InMemory(user, everybody)
        everybody.append(Runtime(Around(user), store, client, lambda end: results.append(end.token), told.append))
    for runtime in everybody:
        runtime.begin(again=False)
    await asyncio.wait_for(asyncio.gather(*(runtime.stopped for runtime in everybody)), 30)
    for runtime, store in zip(everybody, stores, strict=True):
        await runtime.close()
        store.view_log.close()
        store.journal.close()
    return results, told, [runtime.status for runtime in everybody]


def test_a_runtime_drives_a_protocol_and_a_transport_it_has_never_seen(tmp_path: Path) -> None:
    results, told, statuses = asyncio.run(go_round(tmp_path))
    assert results == [bytes([USERS])]
    assert max(told) == USERS
    assert [final for _, final in statuses] == [False, True, True, True]


def test_a_journal_keeps_the_records_of_a_protocol_it_has_never_seen(tmp_path: Path) -> None:
    asyncio.run(go_round(tmp_path))
    stores = [opened(tmp_path / str(user)) for user in range(USERS)]
    assert [store.journal.durable for store in stores] == [1, 2, 3, 4]
    for store in stores:
        store.journal.close()
        store.view_log.close()
