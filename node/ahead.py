"""A long token's visit, reckoned by a thread while the token arrives: the transition finds it done.

Between a token's last byte in and its first byte out no other user has work: what passes over its bytes are left for
then (bounds, sum, digest) cost a hop their whole length. While chunks come, the cores are not busy all the time. The
sum is written straight to its place on the journal's shelf: the journal has nothing left to write but its name.

Nothing here decides anything. What is reckoned comes from the core's forecast, stays here, and is dropped unless the
transition that takes the token had the same arguments. Only places that no record names are written.
"""

from __future__ import annotations

import asyncio
from concurrent.futures import Future, ThreadPoolExecutor, wait
from queue import SimpleQueue

import numpy as np

from node.journal import Journal
from node.protocol.digests import RunningDigest
from node.protocol.state import Foreseen, Reckoned
from node.protocol.values import Octets, Sheet
from node.shelf import Blank
from node.tasks.pieces import PIECE


class Reckoning:
    """One token that arrives, in the order of its bytes. The event loop puts its pieces in; a thread does the rest."""

    def __init__(self, owner: Reckoner, foreseen: Foreseen, whole: memoryview, ahead: Blank) -> None:
        self._owner = owner
        self._foreseen = foreseen
        self._whole = whole
        self._ahead = ahead
        self._start = len(foreseen.head)
        self._received = np.frombuffer(whole, foreseen.filler.contribution.dtype, offset=self._start)
        self._sheet = Sheet(foreseen.head, self._received, ahead.room)
        self._digest = RunningDigest(len(whole))
        self._numbers = self._hashed = 0  # numbers reckoned so far; bytes of the outgoing token hashed so far
        self._worth_it = True  # until something shows that the transition will not want it
        self._given_up = False
        self._pieces: SimpleQueue[Octets | None] = SimpleQueue()
        self._work: Future[bytes] = Future()
        self.token = whole.toreadonly()
        self.reckoned: Reckoned | None = None

    # ---- on the event loop ------------------------------------------------------------------------------------

    def start(self, helper: ThreadPoolExecutor) -> None:
        """``RuntimeError``: no thread."""
        self._work = helper.submit(self._fill)

    def put(self, piece: Octets) -> None:
        """The next bytes; nobody may change them any more."""
        self._pieces.put(piece)

    async def digest(self) -> bytes | None:
        """All bytes were put in: the digest of them, once they are in their place. None: closed before they were."""
        self._pieces.put(None)
        found = await asyncio.wrap_future(self._work)
        if self._given_up:
            return None
        if self._worth_it and self._hashed == len(self._whole):
            out = self._ahead.data = self._sheet.finished()
            self.reckoned = Reckoned(self.token, self._foreseen, self._sheet.payload, out, self._digest.digest())
        return found

    def give_up(self) -> None:
        self._given_up = True
        self._pieces.put(None)

    def close(self) -> None:
        """The token was taken, or it was not. The thread has ended when this returns: it writes nowhere any more."""
        self.give_up()
        wait([self._work])
        self._owner.closed(self)

    # ---- in the thread ----------------------------------------------------------------------------------------

    def _fill(self) -> bytes:
        room, running, at = np.frombuffer(self._whole, np.uint8), RunningDigest(len(self._whole)), 0
        while (piece := self._pieces.get()) is not None and not self._given_up:
            running.update(piece)
            np.copyto(room[at : at + len(piece)], np.frombuffer(piece, np.uint8))  # lets others run, as ``=`` does not
            at += len(piece)
            if self._worth_it:
                self._worth_it = self._reckon(at)
        return running.digest()

    def _reckon(self, arrived: int) -> bool:
        """Go on with the numbers that are whole. False: they do not fit."""
        while self._numbers < (whole := (arrived - self._start) // self._received.itemsize):
            end = min(self._numbers + PIECE, whole)
            if not self._foreseen.filler.fill(self._received, self._sheet.payload, slice(self._numbers, end)):
                return False
            self._numbers = end
        reckoned = self._sheet.until(self._numbers)
        self._digest.update(reckoned[self._hashed :])
        self._hashed = len(reckoned)
        return True


class Reckoner:
    """At most one token at a time: a user has one visit at a time."""

    def __init__(self, journal: Journal) -> None:
        self._journal = journal
        self._current: Reckoning | None = None
        self._closed = False
        self._helper = ThreadPoolExecutor(1)

    @property
    def free(self) -> bool:
        return not self._closed and self._current is None

    @property
    def reckoned(self) -> Reckoned | None:
        return None if self._current is None else self._current.reckoned

    def begin(self, foreseen: Foreseen, whole: memoryview) -> Reckoning | None:
        """None: one is under way, or there is no place, memory or thread for it. The visit is then reckoned later."""
        ahead = self._journal.write_ahead(len(whole)) if self.free else None
        if ahead is None:
            return None
        reckoning = None
        try:
            reckoning = Reckoning(self, foreseen, whole, ahead)
            reckoning.start(self._helper)
        except (MemoryError, RuntimeError):
            if reckoning is not None:
                reckoning.give_up()  # the executor keeps its work, for the next thread that starts
            self._journal.settle()
            return None
        self._current = reckoning
        return reckoning

    def closed(self, reckoning: Reckoning) -> None:
        if self._current is reckoning:
            self._current = None
            self._journal.settle()

    def close(self) -> None:
        """Before the journal is closed."""
        self._closed = True
        if self._current is not None:
            self._current.close()
        self._helper.shutdown()
