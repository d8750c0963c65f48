"""Faults in words, from the records of whoever noticed them; no value of a payload is in any of them."""

from __future__ import annotations

from typing import NamedTuple

from network_dp.view import Record


class Event(NamedTuple):
    """What the page lists: one sentence, and how bad it is (a colour's name in page.css)."""

    look: str
    text: str


def fault_of(user: str, record: Record) -> Event | None:
    """A record that tells of trouble or of its end; None for the others."""
    fields = record.fields
    match record.kind:
        case "start" if fields.get("life", 1) > 1:
            return Event("up", f"{user} came back (start {fields['life']})")
        case "rejoined":
            return Event("up", f"{user} rejoined after a lost or old disk")
        case "peer":
            return Event(fields["state"], f"{user} found {fields['peer']} {fields['state']}")
        case "visit" if fields["cause"] == "reissue":
            return Event("paused", f"{user} took the token of step {record.step} up again")
        case "abandoned":
            return Event("paused", f"{user} gave up a lost branch at step {record.step}")
        case "result":
            return Event("ended", f"{user} has the final result")
    return None
