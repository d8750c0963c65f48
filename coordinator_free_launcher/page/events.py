"""Faults in words, from the records of whoever noticed them; no value of a payload is in any of them."""

from __future__ import annotations

from network_dp.view import Record


def fault_of(user: str, record: Record) -> str | None:
    """One sentence on a record that tells of trouble or of its end; None for the others."""
    fields = record.fields
    match record.kind:
        case "start" if fields.get("life", 1) > 1:
            return f"{user} came back (start {fields['life']})"
        case "rejoined":
            return f"{user} rejoined after a lost or old disk"
        case "peer":
            return f"{user} found {fields['peer']} {fields['state']}"
        case "visit" if fields["cause"] == "reissue":
            return f"{user} took the token of step {record.step} up again"
        case "abandoned":
            return f"{user} gave up a lost branch at step {record.step}"
        case "result":
            return f"{user} has the final result"
    return None
