"""Peer lists of a plan: who may hand the token to whom, and where a list cannot be one (THEORY.md#graphs)."""

from __future__ import annotations

from collections.abc import Sequence

from network_dp.plan import Plan, PlanError, User
from network_dp.topology import Graph, Topology, distances_from
from network_dp.untrusted import shortened

NAMED = 10  # users that an error names
MOST_RELAYED = 100_000  # numbers of a token in one message that peers pass on


def least_alive_on(n: int) -> int:
    """The default of ``min_live``: a majority, without which nobody could take a lost token up again."""
    return n // 2 + 1


def check_peers(kind: type[Topology], users: tuple[User, ...]) -> None:
    """``PlanError`` unless the lists make a connected graph without loops, or there are none where none belong."""
    if not kind.listed:
        for i, user in enumerate(users):
            if user.peers is not None:
                raise PlanError(f'users[{i}].peers: only a walk with topology "graph" has lists of peers')
        return
    places = {user.name: i for i, user in enumerate(users)}
    for i, user in enumerate(users):
        _check_list(i, user, places)
    for user in users:
        for peer in user.peers or ():
            if user.name not in (users[places[peer]].peers or ()):
                raise PlanError(
                    f"users[{places[peer]}].peers: {peer} does not name {user.name}, which names it: "
                    f'peers are mutual; add "{user.name}" to the peers of {peer}, or take the edge out'
                )
    _check_connected(users, places)


def _check_list(i: int, user: User, places: dict[str, int]) -> None:
    if not user.peers:
        raise PlanError(f'users[{i}].peers is missing: {user.name} needs at least one peer, as peers = ["user-1"]')
    for peer in user.peers:
        if peer == user.name:
            raise PlanError(f"users[{i}].peers: {user.name} names itself: the weights say how often a holder stays")
        if peer not in places:
            raise PlanError(f'users[{i}].peers: "{shortened(peer)}" is not a user of this plan')


def _check_connected(users: tuple[User, ...], places: dict[str, int]) -> None:
    peers = tuple(tuple(places[peer] for peer in user.peers or ()) for user in users)
    far = [user.name for user, distance in zip(users, distances_from(peers, 0), strict=True) if distance < 0]
    if far:
        raise PlanError(
            f"users.peers: no way leads from {users[0].name} to {_some(far)}: add a peer between the two parts"
        )


def _some(names: Sequence[str]) -> str:
    more = len(names) - NAMED
    return ", ".join(names[:NAMED]) + (f" and {more} more" if more > 0 else "")


def check_graph(plan: Plan) -> None:
    """``PlanError`` unless a walk among peers can hold what the plan asks of it."""
    if not isinstance(plan.topology, Graph):
        return
    if not plan.mechanism.by_exposure:
        raise PlanError(
            f'noise.mechanism = "{plan.noise.mechanism}": has no accounting on a graph of peers; use "gaussian"'
        )
    if plan.walk.control == "relay" and plan.task.dimension > MOST_RELAYED:
        raise PlanError(
            f"task.dimension = {plan.task.dimension}: peers pass on messages of at most {MOST_RELAYED:,} numbers; "
            'use walk.control = "direct"'
        )
    longest = int(plan.topology.distances().max()) if (plan.noise.distance or 1) > 1 else 1
    if (plan.noise.distance or 1) > longest:
        raise PlanError(f"noise.distance = {plan.noise.distance}: the longest way between two users is {longest} hops")
    if plan.walk.weights == "simple" and plan.task.own_code:
        raise PlanError(
            'walk.weights = "simple": a task of your own must meet all users equally often; use "metropolis"'
        )
