"""How much noise a hop owes, in whole components: what a node obeys and the analyzer checks.

One full noise is ``full`` components. A visit adds one, unless the token's ledger decides (sums on a ring): then each
hop adds ``share`` components and, before the token goes to r, what is missing for r to find a full noise of others
since it last had it. Share 0 is Alg. 1, share 1 of n - 1 spreads the noise over the users
(THEORY.md#ring).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class NoiseRule:
    """``by_ledger``: the token carries W, the components in it, and W_r, their number after r's last hop."""

    full: int
    share: int
    by_ledger: bool

    def blank_ledger(self, n_users: int) -> tuple[int, ...]:
        return (0,) * n_users if self.by_ledger else ()

    def passed_by(self, ledger: tuple[int, ...], users: Sequence[int], times: int = 1) -> tuple[int, ...]:
        """W_r grows by a full noise for every round that r misses.

        When r comes back, its increment holds as many contributions of everybody else as rounds, c of them; with c full
        noises in it, it is worth c^2 / c, what c increments of one round would be worth: S <= K whoever is skipped.
        ``times`` = -1 takes it back, for bytes that go elsewhere.
        """
        if not self.by_ledger or not users:
            return ledger
        raised = list(ledger)
        for user in users:
            raised[user] += times * self.full
        return tuple(raised)

    def missing(self, noise_units: int, last_seen: int) -> int:
        """Components between W = ``noise_units`` and a full noise since ``last_seen``."""
        return max(0, self.full - (noise_units - last_seen))


def cover_elements(gamma: float, n_users: int) -> int:
    """R1 = ceil(gamma (n - 2)): cover elements that stand, at each end of a ring of randomised responses, for the
    answers a short increment lacks (THEORY.md#histograms)."""
    return math.ceil(gamma * (n_users - 2))
