"""What the runtime drives: one user's side of a protocol, as functions of its state. The walk's is ``node/walk.py``."""

from __future__ import annotations

from typing import Any, Protocol, TypeVar

State = TypeVar("State")


class Machine(Protocol[State]):
    """A protocol for one user. It keeps nothing that changes: all of that is in its state, which the runtime owns."""

    total: int  # steps of the whole run

    def initial(self, durable: Any) -> State:
        """The state of a process that just started, with what its journal holds."""
        ...

    def step(self, state: State, event: Any, now: float) -> tuple[State, list[Any]]:
        """One transition: the state after it, and effects (``node/protocols/effects.py``), ``Persist`` first."""
        ...

    def compute(self, work: Any) -> Any:
        """Off the event loop: an effect that only this protocol knows, and the event that it ends with."""
        ...

    def wake_at(self, state: State) -> float | None:
        """When to feed ``Tick``."""
        ...

    def progress(self, state: State) -> int:
        """The furthest step that this user may show; -1: none yet."""
        ...

    def status(self, state: State) -> tuple[str, bool]:
        """In a word, and whether the result is final."""
        ...

    def admits(self, state: State, peer: int, begun: Any, now: float) -> bool:
        """May this long message, of which the first bytes have come, have room in memory?"""
        ...

    def refusal(self, state: State, request: Any, error: Exception) -> Any | None:
        """What a peer is told when its request made a transition raise; None: that the call failed."""
        ...
