"""A visit reckoned while its token arrives is the visit that would have been reckoned afterwards, or it is dropped."""

from __future__ import annotations

import asyncio
import errno
import os
import tempfile
import threading
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from network_dp.plan_reader import from_dict
from node import ahead
from node.ahead import Reckoner, Reckoning
from node.config import context
from node.journal import Journal
from node.noise import SystemSource
from node.protocol.digests import digest
from node.protocol.effects import Effect, Note, Persist, Received, Reply, Send
from node.protocol.foresee import foresee
from node.protocol.machine import step
from node.protocol.messages import Accepted, Handoff, Refused, Why
from node.protocol.state import Durable, Foreseen, Grant, Inputs, Reckoned, State
from node.protocol.values import Hop, Token, room
from node.tasks import LocalData, make_task
from node.tasks.sums import Sum
from node.worker import BoundTask, Supply
from simulator.faults.dice import SeededDice, seeded

EPOCH, SENDER, ME, GRANT, NOW = (0, 0), 0, 1, b"g" * 16, 50.0
NUMBERS = 9000  # more than the journal keeps in a record
START = Durable(promised=EPOCH)
HOP = Hop(EPOCH, 2)


class Stage:
    """The second user of a run that waits for a token, with a journal of its own."""

    def __init__(
        self, folder: Path, *, numbers: int = NUMBERS, spread: bool = False, row_type: Any = np.int64, **walk: Any
    ) -> None:
        walk = walk or {"topology": "ring", "rounds": 3}
        plan = from_dict(
            {
                "walk": {"log_values": False, "release": "holder", **walk},
                "task": {"kind": "sum", "dimension": numbers, "lower": 0.0, "upper": 1.0},
                "noise": {"sigma": 2.0, "spread": spread, "grid": 2.0**-20},
                "users": [{"name": f"user-{i}", "address": f"127.0.0.1:{2000 + i}"} for i in range(4)],
            }
        )
        task = make_task(plan)
        rows = np.arange(2 * numbers, dtype=row_type).reshape(2, numbers)
        worker, source = BoundTask(task, LocalData(rows, None, 0), plan.unit_count, 1), SystemSource()
        self.supplies: list[Supply] = [worker.supply(source) for _ in range(6)]
        self.ctx = context(plan, ME, worker, noise_every_visit=False)
        grants = {SENDER: Grant(GRANT, HOP, NOW + 1.0)}
        self.state = State(durable=START, checked=True, grants=grants)
        self.journal = Journal(folder, START, sync=False)
        self.journal.make_room(len(self.token()))
        self.reckoner = Reckoner(self.journal)

    def token(self, *, contributions: int = 1, units: int = 1, ledger: tuple[int, ...] = (0, 0, 0, 0)) -> bytes:
        payload = np.arange(self.ctx.worker.dimension, dtype=np.int64) * 7 - 1000
        return Token(payload, contributions, 0, units, ledger if self.ctx.ledger else ()).encode()

    def foresee(self, data: bytes, **changes: Any) -> Foreseen | None:
        begun = Handoff(HOP, GRANT, b"k" * 32, data[:200])._replace(**changes)
        return foresee(self.ctx, self.state, SENDER, begun, self.supplies[0], NOW)

    async def arrive(self, data: bytes, pieces: list[int] | None = None) -> tuple[Reckoning, Handoff]:
        """The token, in pieces of these sizes."""
        foreseen = self.foresee(data)
        assert foreseen is not None
        reckoning = self.reckoner.begin(foreseen, room(len(data)))
        for _ in range(500):  # the thread may hold the last token's place for a moment longer
            if reckoning is None:
                await asyncio.sleep(0.01)
                reckoning = self.reckoner.begin(foreseen, room(len(data)))
        assert reckoning is not None
        cuts = [0, *sorted({min(int(at), len(data)) for at in np.cumsum(pieces or [])} - {0, len(data)}), len(data)]
        for start, end in pairwise(cuts):
            reckoning.put(data[start:end])
        token_digest = await reckoning.digest()
        assert token_digest is not None and token_digest == digest(data) and bytes(reckoning.token) == data
        return reckoning, Handoff(HOP, GRANT, b"k" * 32, reckoning.token, token_digest)

    def take(self, handoff: Handoff, reckoned: Reckoned | None, skip: int = 0) -> tuple[State, list[Effect]]:
        supplies = iter(self.supplies[skip:])
        inputs = Inputs(NOW, SeededDice(seeded("ahead", 1)), lambda: next(supplies), 0.0, reckoned=reckoned)
        return step(self.ctx, self.state, Received(SENDER, 1, handoff), inputs)

    def persist(self, effects: list[Effect]) -> None:
        assert isinstance(effects[0], Persist)
        self.journal.append(effects[0].changes, sync=True)

    def close(self) -> None:
        self.reckoner.close()
        self.journal.close()


@pytest.fixture
def stage(tmp_path: Path) -> Iterator[Stage]:
    there = Stage(tmp_path)
    yield there
    there.close()


def adopted(state: State, reckoned: Reckoned | None) -> bool:
    assert reckoned is not None and state.durable.custody is not None
    return state.durable.custody.out is reckoned.out


# ---- the same ----------------------------------------------------------------------------------------------------


@given(
    numbers=st.integers(8200, 90_000),
    pieces=st.lists(st.integers(1, 300_000), max_size=12),
    spread=st.booleans(),
    units=st.integers(0, 9),
    ledger=st.tuples(*[st.integers(0, 9)] * 4),
)
@settings(deadline=None, max_examples=60)
def test_what_was_reckoned_ahead_is_what_the_transition_would_have_reckoned(
    numbers: int, pieces: list[int], spread: bool, units: int, ledger: tuple[int, ...]
) -> None:
    with tempfile.TemporaryDirectory() as name:
        there = Stage(Path(name), numbers=numbers, spread=spread)
        data = there.token(units=units, ledger=ledger)
        foreseen = there.foresee(data)
        if foreseen is None:
            there.close()
        assume(foreseen is not None)  # else more noise than one supply has is needed, or nobody may send this ledger
        reckoning, handoff = asyncio.run(there.arrive(data, pieces))
        state, effects = there.take(handoff, reckoning.reckoned)
        without, other_effects = there.take(handoff, None)
        assert adopted(state, reckoning.reckoned)
        assert (state.durable, effects) == (without.durable, other_effects)
        assert reckoning.token.readonly and isinstance(reckoning.reckoned.out, memoryview)
        assert reckoning.reckoned.out.readonly and not reckoning.reckoned.payload.flags.writeable
        there.close()


@pytest.mark.parametrize("topology", [{"topology": "ring", "rounds": 3}, {"topology": "complete", "steps": 40}])
def test_the_journal_names_the_place_that_was_written_ahead(topology: dict[str, Any], tmp_path: Path) -> None:
    there = Stage(tmp_path, **topology)
    reckoning, handoff = asyncio.run(there.arrive(there.token(), [5000, 40_000]))
    state, effects = there.take(handoff, reckoning.reckoned)
    assert adopted(state, reckoning.reckoned)
    written = (tmp_path / "journal.0").stat()
    there.persist(effects)
    assert (tmp_path / "journal.0").stat().st_mtime_ns == written.st_mtime_ns, "not written a second time"
    assert not any((tmp_path / "journal.1").read_bytes()), "nor elsewhere"
    reckoning.close()
    there.close()
    again = Journal(tmp_path, START, sync=False)
    assert again.durable == state.durable
    again.close()


def test_places_take_turns_whether_their_bytes_were_written_ahead_or_not(tmp_path: Path) -> None:
    there = Stage(tmp_path)
    for turn in range(6):
        reckoning, handoff = asyncio.run(there.arrive(there.token(contributions=turn + 1)))
        state, effects = there.take(handoff, reckoning.reckoned if turn % 3 else None)
        there.persist(effects)
        reckoning.close()
        assert state.durable.custody is not None
        last = bytes(state.durable.custody.out)
        del reckoning, handoff, state, effects  # their views go with them, and their places are free
    there.close()
    again = Journal(tmp_path, START, sync=False)
    assert again.durable.custody is not None and again.durable.custody.out == last
    again.close()
    assert len(list(tmp_path.glob("journal.*"))) <= 3, "the last one, the one before, and one that was given up"


def test_a_place_written_ahead_is_synced_before_a_record_names_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    there = Stage(tmp_path)
    there.journal.close()
    there.journal = Journal(tmp_path, START, sync=True)
    there.journal.make_room(len(there.token()))
    there.reckoner = Reckoner(there.journal)
    reckoning, handoff = asyncio.run(there.arrive(there.token()))
    order: list[str] = []
    names = {path.stat().st_ino: path.name for path in tmp_path.iterdir()}
    sync, write = os.fdatasync, os.pwrite

    def synced(file: int) -> None:
        order.append("sync " + names[os.fstat(file).st_ino])
        sync(file)

    def written(file: int, data: Any, at: int) -> int:
        order.append("write " + names[os.fstat(file).st_ino])
        return write(file, data, at)

    monkeypatch.setattr(os, "fdatasync", synced)
    monkeypatch.setattr(os, "pwrite", written)
    there.persist(there.take(handoff, reckoning.reckoned)[1])
    assert order == ["sync journal.0", "write journal", "sync journal"]
    there.close()


# ---- not the same: reckoned again, by the transition ---------------------------------------------------------------


def ordinary(there: Stage, handoff: Handoff, reckoned: Reckoned | None, **how: Any) -> None:
    """The transition does not adopt, and does what it does without anything to adopt."""
    state, effects = there.take(handoff, reckoned, **how)
    without, other_effects = there.take(handoff, None, **how)
    assert not adopted(state, reckoned)
    assert (state.durable, effects) == (without.durable, other_effects)


def test_with_other_noise_it_is_not_adopted(stage: Stage) -> None:
    """Somebody else took the noise that was looked at: it belongs to that visit (theory.md 8.1)."""
    reckoning, handoff = asyncio.run(stage.arrive(stage.token()))
    ordinary(stage, handoff, reckoning.reckoned, skip=1)


def test_for_another_route_it_is_not_adopted(stage: Stage) -> None:
    """The next user went down meanwhile: it is passed by, and the token's ledger says so."""
    reckoning, handoff = asyncio.run(stage.arrive(stage.token()))
    stage.state = stage.state._replace(down={ME + 1: NOW + 100.0})
    ordinary(stage, handoff, reckoning.reckoned)


def test_with_another_contribution_it_is_not_adopted(tmp_path: Path) -> None:
    there = Stage(tmp_path, topology="complete", steps=40)
    reckoning, handoff = asyncio.run(there.arrive(there.token()))
    there.state = there.state._replace(durable=START._replace(contributions=1))
    ordinary(there, handoff, reckoning.reckoned)
    there.close()


def test_of_other_bytes_it_is_not_adopted(stage: Stage) -> None:
    """Not even of equal ones: the bounds of those were not checked."""
    reckoning, handoff = asyncio.run(stage.arrive(stage.token()))
    ordinary(stage, handoff._replace(token=bytes(handoff.token)), reckoning.reckoned)


def test_with_another_head_it_is_not_adopted(stage: Stage) -> None:
    reckoning, handoff = asyncio.run(stage.arrive(stage.token()))
    assert reckoning.reckoned is not None
    other = reckoning.reckoned.foreseen._replace(head=bytes(len(reckoning.reckoned.foreseen.head)))
    ordinary(stage, handoff, reckoning.reckoned._replace(foreseen=other))


@pytest.mark.parametrize("at", [0, NUMBERS // 2, NUMBERS - 1])
def test_a_token_out_of_bounds_is_refused_and_leaves_nothing_to_adopt(stage: Stage, at: int) -> None:
    data = bytearray(stage.token())
    start = len(data) - 8 * (NUMBERS - at)
    data[start : start + 8] = (-(2**63)).to_bytes(8, "little", signed=True)
    reckoning, handoff = asyncio.run(stage.arrive(bytes(data)))
    assert reckoning.reckoned is None
    _, effects = stage.take(handoff, stage.reckoner.reckoned)
    assert [type(effect) for effect in effects] == [Note, Reply] and not isinstance(effects[0], Persist)
    assert isinstance(effects[1], Reply) and effects[1].answer == Refused(Why.UNFIT, EPOCH)


def test_on_a_full_disk_it_is_not_begun_and_the_transition_meets_the_disk_itself(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: Any) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "posix_fallocate", full)
        foreseen, data = stage.foresee(stage.token()), stage.token()
        assert foreseen is not None and stage.reckoner.begin(foreseen, room(len(data))) is None
    handoff = Handoff(HOP, GRANT, b"k" * 32, data, digest(data))
    state, effects = stage.take(handoff, stage.reckoner.reckoned)
    stage.persist(effects)
    assert any(isinstance(effect, Send) for effect in effects)
    assert state.durable.custody is not None


# ---- not even begun ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "why",
    [
        {"grant": b"x" * 16},
        {"hop": Hop(EPOCH, 6)},
        {"hop": Hop(EPOCH, 3)},
        {"hop": Hop((1, 0), 2)},
        {"token": b""},
        {"token": bytes(200)},
    ],
)
def test_a_hand_over_that_would_be_refused_starts_no_work(stage: Stage, why: dict[str, Any]) -> None:
    data = stage.token()
    assert stage.foresee(data) is not None
    assert stage.foresee(data, **why) is None


@pytest.mark.parametrize(
    "change",
    [
        {"grants": {}},
        {"draining": True},
        {"disk_full": True},
        {"durable": START._replace(mark=HOP)},
        {"durable": START._replace(rejoined=True)},
        {"durable": START._replace(final=True)},
        {"grants": {SENDER: Grant(GRANT, HOP, NOW)}},
        {"down": dict.fromkeys((0, 2, 3), NOW + 9.0)},
    ],
)
def test_a_user_that_would_not_take_it_starts_no_work(stage: Stage, change: dict[str, Any]) -> None:
    stage.state = stage.state._replace(**change)
    assert stage.foresee(stage.token()) is None


def test_what_more_than_contribution_and_noise_goes_into_is_not_foreseen(stage: Stage) -> None:
    data = stage.token()
    assert stage.foresee(stage.token(contributions=0)) is None, "the first contributor may add random elements"
    assert stage.foresee(stage.token(ledger=(0, 0, 5, 0))) is None, "needs more noise than one supply has"
    for changes in ({"cap": 0}, {"edge_cap": 5}):
        stage.ctx = stage.ctx._replace(**changes)
        assert stage.foresee(data) is None
        stage.ctx = stage.ctx._replace(cap=None, edge_cap=None)
    stage.ctx = stage.ctx._replace(total=HOP.step, release_all=True)
    assert stage.foresee(data) is None, "the last user may add random elements"


def test_a_task_that_does_more_than_add_is_not_foreseen(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its own rules would be passed over, for what it contributes and for what fits."""
    assert stage.foresee(stage.token()) is not None
    for rule in ("validate", "contribution", "apply", "apply_into", "fill"):
        with monkeypatch.context() as patch:
            patch.setattr(Sum, rule, lambda *_: None, raising=False)
            assert stage.foresee(stage.token()) is None, rule


def test_rows_of_other_numbers_are_not_foreseen(tmp_path: Path) -> None:
    there = Stage(tmp_path, numbers=NUMBERS, row_type=np.int32)
    assert there.foresee(there.token()) is None
    there.close()


def test_other_bytes_are_looked_at_also_beside_what_was_reckoned(stage: Stage) -> None:
    reckoning, handoff = asyncio.run(stage.arrive(stage.token()))
    bad = bytearray(stage.token())
    bad[-8:] = (-(2**63)).to_bytes(8, "little", signed=True)
    _, effects = stage.take(handoff._replace(token=bytes(bad), digest=b""), reckoning.reckoned)
    assert isinstance(effects[-1], Reply) and effects[-1].answer == Refused(Why.UNFIT, EPOCH)


@pytest.mark.parametrize("missing", ["memory", "thread"])
def test_what_cannot_be_begun_costs_no_later_token_anything(
    stage: Stage, missing: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def none(*_: Any, **__: Any) -> None:
        raise MemoryError if missing == "memory" else RuntimeError("can't start new thread")

    data = stage.token()
    foreseen = stage.foresee(data)
    assert foreseen is not None
    with monkeypatch.context() as patch:
        patch.setattr(*((ahead, "Sheet") if missing == "memory" else (threading.Thread, "start")), none)
        assert stage.reckoner.begin(foreseen, room(len(data))) is None
    for _ in range(2):
        reckoning, handoff = asyncio.run(stage.arrive(data))
        assert adopted(stage.take(handoff, reckoning.reckoned)[0], reckoning.reckoned)
        reckoning.close()


def test_one_token_at_a_time(stage: Stage) -> None:
    data = stage.token()
    reckoning, _ = asyncio.run(stage.arrive(data))
    foreseen = stage.foresee(data)
    assert foreseen is not None
    assert stage.reckoner.begin(foreseen, room(len(data))) is None
    reckoning.close()
    assert stage.reckoner.reckoned is None, "closed: nobody adopts it any more"
    assert stage.reckoner.begin(foreseen, room(len(data))) is not None


def test_a_token_that_breaks_off_ends_the_work(stage: Stage, tmp_path: Path) -> None:
    """What it leaves is a free place: the next token is written there."""
    data = stage.token()
    foreseen = stage.foresee(data)
    assert foreseen is not None
    broken = stage.reckoner.begin(foreseen, room(len(data)))
    assert broken is not None
    broken.put(data[:20_000])
    broken.close()
    broken.put(data[20_000:])
    assert stage.reckoner.reckoned is None
    del broken
    reckoning, handoff = asyncio.run(stage.arrive(data))
    state, effects = stage.take(handoff, reckoning.reckoned)
    assert adopted(state, reckoning.reckoned) and isinstance(effects[-1], Reply)
    assert isinstance(effects[-1].answer, Accepted)
    assert not any((tmp_path / "journal.1").read_bytes())


def test_a_user_that_ends_while_a_token_arrives_takes_no_part_of_it(stage: Stage) -> None:
    async def leave(data: bytes, foreseen: Foreseen) -> None:
        reckoning = stage.reckoner.begin(foreseen, room(len(data)))
        assert reckoning is not None
        reckoning.put(data)
        stage.reckoner.close()
        assert await reckoning.digest() is None
        assert reckoning.reckoned is None and stage.reckoner.reckoned is None

    foreseen = stage.foresee(stage.token())
    assert foreseen is not None
    asyncio.run(leave(stage.token(), foreseen))


def test_after_the_end_nothing_is_begun(stage: Stage) -> None:
    data = stage.token()
    foreseen = stage.foresee(data)
    assert foreseen is not None
    stage.reckoner.close()
    assert stage.reckoner.begin(foreseen, room(len(data))) is None
