"""How far an honest walk may go (THEORY.md#before-a-run).

The promise on the complete graph is an average over paths, so a single honest run may exceed its epsilon. What it may
not do, but for a stated probability, is exceed the law of its own exposure: from the moment E exp(b S_uv) of the
uniform walk, Markov's inequality and a union over all pairs give a limit s with P(any S_uv > s) <= FALSE_ALARM.

Two limits: the one an honest run keeps whatever it lost on the way (beyond it: FAIL), and the one it keeps when it lost
no more tokens than its plan reserved for (beyond it: OVERSPENT; docs/adr/0019).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

import numpy as np

from analyzer.read.tables import Floats
from analyzer.reconstruct.exposures import Piece, one_epsilon
from analyzer.reconstruct.responses import ORDERS
from analyzer.verdict import FALSE_ALARM
from network_dp.accounting import bounds, shuffle
from network_dp.accounting.moments import Law, log_moment
from network_dp.accounting.number_cache import kept
from network_dp.graphs import promise as graph_promise
from network_dp.graphs.visits import most_visits
from network_dp.plan import Plan
from network_dp.promise import has_walk_law, local_epsilon, noise_at_every_step, response_law, response_of
from network_dp.topology import Graph

_MAX_PIECES: Final = 50
_RING_LEAST: Final = 3
_GRID_ERROR: Final = 1 + 1e-3  # losses are rounded up to a grid that depends on how many windows there are
_TILTS: Final = tuple(float(b) for b in np.geomspace(0.02, 60.0, 25))


@lru_cache(maxsize=64)
@kept
def exposure_limit(laws: tuple[Law, ...], n_events: float, chance: float) -> float:
    """s with P(S > s for any of ``n_events`` pairs or sets) <= ``chance`` on an honest walk.

    A forked run is several walks, each starting from a token everybody is taken to know: their moments multiply.
    """
    room = math.log(n_events / chance)
    return min((sum(log_moment(law, b) for law in laws) + room) / b for b in _TILTS)


def exposure_tail(plan: Plan, n_live: int, values: Floats) -> Floats:
    """ln of a bound on P(S_uv > s) for each value s, before the run (Markov on the moment)."""
    law = Law(plan.task.accounting, n_live, plan.total_steps, 1, plan.walk.release == "all")
    tilts = np.array(_TILTS)
    moments = np.array([log_moment(law, b) for b in _TILTS])
    return np.asarray(np.min(moments[:, None] - tilts[:, None] * values[None, :], axis=0), dtype=np.float64)


@dataclass(frozen=True, slots=True)
class Course:
    """What happened in a run that an honest one cannot help."""

    pieces: Sequence[Piece]
    n_live: int
    extra: int = 0  # ring: what tokens off the branch add (THEORY.md#one-token): each 1, or the rounds since one's last
    n_skipped: int = 0  # ring: users that were passed by at least once
    down: frozenset[int] | None = frozenset()  # now and then, which bends the law of a graph; None: nobody knows


def undisturbed(
    plan: Plan, n_live: int, extra: int = 0, n_skipped: int = 0, down: frozenset[int] | None = frozenset()
) -> Course:
    """The whole walk as one piece, of which only the length counts."""
    whole = Piece(np.broadcast_to(np.int64(0), (plan.total_steps,)), plan.walk.release == "all")
    return Course([whole], n_live, extra, n_skipped, down)


def limit_for(plan: Plan, course: Course, colluders: int = 1) -> float | None:
    """The exposure (randomised response: the eps) an honest run stays under; None when theory gives no law.

    Laplace noise: the contributions of one user that another sees, which cost the same each.
    """
    if not plan.mechanism.additive:
        return _response_limit(plan, course, colluders)
    pieces = course.pieces
    if not plan.topology.drawn:
        if colluders > 1:
            return None
        return float((plan.walk.rounds or 0) + course.extra)
    if plan.graph is not None:
        return _graph_limit(plan, plan.graph, pieces, course.down)
    if course.n_live <= colluders:
        return None
    most = _most_contributions(plan, course)
    if not has_walk_law(plan) or len(pieces) > _MAX_PIECES:
        return most
    lengths = sorted((len(piece.rows), piece.released) for piece in pieces if len(piece.rows))
    laws = tuple(Law(plan.task.accounting, course.n_live, length, colluders, released) for length, released in lengths)
    return min(most, exposure_limit(laws, _n_events(plan, colluders), FALSE_ALARM))


def _graph_limit(plan: Plan, graph: Graph, pieces: Sequence[Piece], down: frozenset[int] | None) -> float:
    """Nobody sees more of a user than all its contributions, and a walk meets it only so often."""
    lengths, cap = [len(piece.rows) for piece in pieces if len(piece.rows)], plan.caps.contributions
    if down is None:
        most = float(sum(lengths))
    elif down or len(lengths) > 1 or not noise_at_every_step(plan):
        most = most_visits(graph, lengths, down, FALSE_ALARM)
    else:
        most = graph_promise.exposure_limit(plan, FALSE_ALARM / 2)
        most = min(most, most_visits(graph, lengths, (), FALSE_ALARM / 2))
    return most if cap is None else min(most, float(cap))


def reserved_limit(
    plan: Plan, n_live: int, n_skipped: int = 0, down: frozenset[int] | None = frozenset()
) -> float | None:
    """The same for a run that lost no more tokens than its plan reserved for: what was promised, path by path."""
    return limit_for(plan, undisturbed(plan, n_live, plan.noise.reissues, n_skipped, down))


def path_limit(plan: Plan) -> float | None:
    """Complete graph: the eps that no pair exceeds on any one path, but for FALSE_ALARM; None where the promise itself
    holds on every path, or where there is none."""
    lawful = has_walk_law(plan) or plan.topology.listed or not plan.mechanism.additive
    if not plan.topology.drawn or not lawful:
        return None
    limit = reserved_limit(plan, plan.walk.min_live)
    return limit if limit is None or not plan.mechanism.additive else one_epsilon(plan, limit)


def path_sentence(promised: float | None, limit: float | None) -> str:
    """Why a single path may show more than the promise, and what it may not exceed."""
    if promised is None or limit is None:
        return ""
    return (
        f"The promise ({promised:.4g}) is an average over all paths the token could have taken: a single path may "
        f"exceed it, but no pair exceeds {limit:.4g}, except with probability {FALSE_ALARM:g}."
    )


def _n_events(plan: Plan, colluders: int) -> float:
    """Pairs of a user and a set of observers."""
    return float(plan.n) * math.comb(plan.n - 1, colluders)


def _most_contributions(plan: Plan, course: Course) -> float:
    """What one user gives at most on the complete graph, but for FALSE_ALARM; S cannot exceed it."""
    steps = sum(len(piece.rows) for piece in course.pieces)
    most = bounds.visits(course.n_live, steps, FALSE_ALARM / plan.n)
    return float(most if plan.caps.contributions is None else min(most, plan.caps.contributions))


def _response_limit(plan: Plan, course: Course, colluders: int) -> float | None:
    """Randomised response: the eps an honest run stays under.

    Local DP of all answers always holds. On a straight ring every window holds all users that were never skipped; on
    a straight complete graph the Renyi moment of the walk, Markov's inequality and a union over all pairs say more:
    asking for a delta that much smaller.
    """
    response, delta, forked = response_of(plan), plan.noise.delta, len(course.pieces) > 1
    if not plan.topology.drawn:
        if colluders > 1:
            return None
        rounds, taking_part = plan.walk.rounds or 0, plan.n - course.n_skipped
        if not forked and taking_part >= _RING_LEAST:
            size = (taking_part, rounds, response.n_buckets, response.gamma)
            return shuffle.ring_epsilon(*size, delta, reissues=course.extra) * _GRID_ERROR
        again = sum(-(-len(piece.rows) // plan.n) for piece in course.pieces if piece.off_branch)
        return local_epsilon(plan, rounds + again) * _GRID_ERROR
    if course.n_live <= colluders:
        return None
    everything = local_epsilon(plan, int(_most_contributions(plan, course)))
    if forked or plan.caps.past == "forward":
        return everything
    asked = delta * FALSE_ALARM / _n_events(plan, colluders)
    return min(everything, response_law(plan, course.n_live, asked, colluders, np.array(ORDERS)))
