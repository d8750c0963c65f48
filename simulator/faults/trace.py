"""A run in words: one line for everything that happens between users."""

from __future__ import annotations

from typing import Any

from node.protocols.effects import Finished, Log, Note, Persist, Reply, Send, Stop
from node.protocols.walk.effects import Compute, Effect
from node.protocols.walk.messages import (
    Already,
    Declined,
    Fence,
    Granted,
    Handoff,
    Located,
    Offer,
    Promise,
    Publish,
    Published,
    Refused,
)
from node.protocols.walk.values import Hop


def hop_text(hop: Hop) -> str:
    return f"{hop.epoch[0]}.{hop.epoch[1]}#{hop.step}"


def message(value: Any) -> str:
    """A message without secrets or bytes: the same for every seed that leads to the same conversation."""
    match value:
        case Offer(hop):
            return f"Offer {hop_text(hop)}"
        case Handoff(hop):
            return f"Handoff {hop_text(hop)}"
        case Granted() | Already():
            return type(value).__name__
        case Declined(why, promised) | Refused(why, promised):
            return f"{type(value).__name__} {why.name} (promised {promised[0]}.{promised[1]})"
        case Located(rank=rank, promised=promised):
            state = " holding" if value.responsible else ""
            ending = " final" if value.final else " result" if value.result else ""
            return f"Located {hop_text(rank)}{state}{ending} (promised {promised[0]}.{promised[1]})"
        case Fence(epoch):
            return f"Fence {epoch[0]}.{epoch[1]}"
        case Promise():
            verdict = "yes" if value.granted else f"no: {value.why.name if value.why else ''}"
            return f"Promise {verdict} (rank {hop_text(value.rank)}{', result' if value.result else ''})"
        case Publish(result, final, everybody):
            standing = "final" if final else "proposed"
            return f"Publish {result.epoch[0]}.{result.epoch[1]} {standing}{' everybody' if everybody else ''}"
        case Published():
            return f"Published {'yes' if value.accepted else 'no'}"
        case None:
            return "(no answer)"
        case _:
            return type(value).__name__


def effect_text(effect: Effect) -> str | None:
    """An effect that is not a message, or None when it is not worth a line."""
    match effect:
        case Persist(changes, sync):
            return f"journal{'' if sync else ' (no sync)'} {', '.join(sorted(changes))}"
        case Log(line):
            return f"log {line.split(',', 1)[0][9:-1]}"
        case Compute():
            return "compute"
        case Finished(result):
            return f"final result {result.epoch[0]}.{result.epoch[1]}"
        case Stop(code, text):
            return f"exit {code}: {text}"
        case Note(level, text):
            return f"{level}: {text}"
        case Send() | Reply():
            return None
    return None
