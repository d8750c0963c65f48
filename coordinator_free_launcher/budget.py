"""Before a user's node starts: charge its ledger with the run's promise, or refuse what its budget does not allow.

The accountant is too heavy for a node. So whoever makes a bundle writes the run's charge into it, whoever starts a node
charges the ledger here first, and the node itself only looks whether its ledger holds this run (docs/adr/0020).

``python -m coordinator_free_launcher.budget BUNDLE``: the same in a process of its own, gone before the node begins.
"""

from __future__ import annotations

import math
import subprocess
import sys
from collections.abc import Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Final

import numpy as np
from numpy.typing import NDArray

from coordinator_free_launcher.identity.bundle import read_node_file
from network_dp import ledger
from network_dp.errors import UserError
from network_dp.ledger import Budget, Charge, Ledger, LedgerError, Walked
from network_dp.plan import Plan
from network_dp.plan_reader import load

CHARGE: Final = "charge.json"
REFUSED: Final = 2
DEFAULT_DELTA: Final = 1e-6  # of a total, where no budget names one


def ledger_of(bundle: Path) -> Path | None:
    """Where this user keeps its ledger; None: nowhere."""
    named = read_node_file(bundle).ledger
    return None if named is None else bundle / named


@lru_cache(maxsize=256)
def spent(book: Ledger, delta: float) -> float:
    """Epsilon at `delta` of all runs together: what each was charged or, where that was more, what it really showed."""
    if not book.charges:
        return 0.0
    from network_dp.accounting.guarantee import composed_epsilon, of_run  # scipy: only where a budget is

    return composed_epsilon([of_run(charge, book.walked(charge.run)) for charge in book.charges], delta)


def overspent(book: Ledger, charge: Charge, who: str) -> str:
    """One sentence with both numbers if the run would overspend; "" if it fits, or if there is no budget."""
    budget = book.budget
    if budget is None or book.has(charge.run):
        return ""
    after = spent(book.plus(charge), budget.delta)
    if after <= budget.epsilon:
        return ""
    now = spent(book, budget.delta)
    return (
        f"{who}: this run would bring what {who} has spent from epsilon {now:.4g} to {after:.4g} at delta = "
        f"{budget.delta:g}, beyond its budget of {budget.epsilon:g}: not started, nothing was sent; ask for a plan "
        f"with more noise, or change the budget with `network-dp budget set`"
    )


def charge_all(plan: Plan, bundles: Mapping[str, Path]) -> None:
    """Charge every user here that keeps a ledger, once per run; if one of them must not take part, charge nobody."""
    books = {name: path for name, bundle in bundles.items() if (path := ledger_of(bundle)) is not None}
    charges = {name: _believed(bundles[name] / CHARGE, plan) for name in books}
    refused = [text for name, path in books.items() if (text := overspent(ledger.read(path), charges[name], name))]
    if refused:
        raise LedgerError(refused[0] + (f" (and {len(refused) - 1} more users)" if len(refused) > 1 else ""))
    for name, path in books.items():
        _charge(path, charges[name], name)


def _believed(path: Path, plan: Plan) -> Charge:
    """A bundle's charge; a Gaussian one is held against its own points, before any ledger holds it."""
    charge = ledger.read_charge(path, plan.hash, plan.run_id)
    if charge.mu2 is not None:
        from network_dp.accounting.guarantee import of_charge

        of_charge(charge)
    return charge


def _charge(path: Path, charge: Charge, who: str) -> None:
    def decide(book: Ledger) -> Charge | None:
        if text := overspent(book, charge, who):
            raise LedgerError(text)
        return None if book.has(charge.run) else charge

    ledger.append(path, decide)


def record_walked(plan: Plan, bundles: Sequence[Path], epsilons: NDArray[np.float64]) -> None:
    """Note beside each user's charge what the run really showed, epsilons[u, v]; it counts where it is the higher."""
    delta = 0.0 if plan.mechanism.pure else plan.noise.delta
    slack = 1e-8 if plan.mechanism.additive else 1e-3  # losses of responses are rounded up to another grid than before
    is_gaussian = plan.mechanism.by_exposure and (plan.in_one_round or not plan.walk.anonymous)
    worst = np.where(np.eye(plan.n, dtype=np.bool_), 0.0, epsilons).max(axis=1).tolist()
    for bundle, epsilon in zip(bundles, worst, strict=True):
        path = ledger_of(bundle)
        if path is not None and path.exists():
            note = Walked(plan.run_id, epsilon if math.isfinite(epsilon) else None, delta, is_gaussian, slack)
            ledger.append(path, lambda book, note=note: None if note in book.entries else note)  # type: ignore[misc]


def set_budget(path: Path, budget: Budget) -> None:
    ledger.append(path, lambda book: budget)


def charge_aside(bundle: Path) -> int:
    """Charge one bundle in a process of its own, which takes the accountant with it when it ends; its exit code."""
    try:
        if ledger_of(bundle) is None:
            return 0
    except (UserError, OSError, KeyError, TypeError):
        return 0  # the node refuses such a bundle, and says what is wrong with it
    return subprocess.run([sys.executable, "-m", "coordinator_free_launcher.budget", str(bundle)]).returncode


def main(bundle: Path) -> int:
    try:
        charge_all(load(bundle / "plan.toml"), {read_node_file(bundle).name: bundle})
    except LedgerError as error:
        print(f"error: {error}", file=sys.stderr)
        return REFUSED
    return 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
