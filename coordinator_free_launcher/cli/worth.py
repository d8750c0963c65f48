"""``plan check``: will the answer be worth having, and what else would the same epsilon buy?"""

from __future__ import annotations

import math
from typing import Any

from network_dp.plan import Plan


def as_plain(plan: Plan) -> dict[str, Any]:
    """For JSON."""
    from network_dp.alternatives import alternatives
    from network_dp.usefulness import usefulness

    found = usefulness(plan)
    others = [{"name": one.name, "value": _finite(one.value), "against": one.against} for one in alternatives(plan)]
    if found is None:
        return {"usefulness": None, "alternatives": others}
    worth = {"kind": found.kind, "value": _finite(found.value), "noise": found.noise, "sentence": found.sentence}
    return {"usefulness": worth, "alternatives": others}


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None


def worth(plan: Plan) -> str:
    """A sentence on the answer of a plan whose noise is not known yet."""
    from coordinator_free_launcher.identity.finalise import finalise
    from network_dp.usefulness import usefulness

    found = usefulness(finalise(plan))
    return "" if found is None else _sentence(found.sentence)


def _sentence(text: str) -> str:
    return f"{text[0].upper()}{text[1:]}."


def show_worth(plan: Plan) -> None:
    """A sentence on the answer, and a table of the other ways to spend the same epsilon."""
    from rich.console import Console
    from rich.table import Table

    from network_dp.alternatives import advice, alternatives
    from network_dp.usefulness import usefulness

    console, found = Console(), usefulness(plan)
    if found is None:
        return
    colour = "red" if found.noise else "default"
    console.print(_sentence(found.sentence), style=colour, highlight=False)
    others = alternatives(plan)
    if not others:
        return
    accuracy = found.kind == "accuracy"
    column = "accuracy (reference)" if accuracy else "error / range"
    if (said := advice(plan, found.value, others)) is not None:
        console.print(_sentence(said), highlight=False)
    table = Table("", column, "protects against", title="What the same epsilon buys")
    table.add_row("this plan", f"{found.value:.1%}", "see above")
    for one in others:
        table.add_row(one.name, f"{one.value:.1%}", one.against)
    console.print(table)
