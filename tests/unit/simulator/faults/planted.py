"""Bugs to plant into the protocol core: each is one way custody systems go wrong."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from node.protocols.effects import Answered, Persist, Received
from node.protocols.walk import arrival, handover, issue, machine, routing, visit
from node.protocols.walk.messages import Granted, Handoff, Offer, Why
from node.protocols.walk.routing import Route
from node.protocols.walk.state import FINISH, Arrived, Context, Grant, Inputs, Phase, Planned, State, Step, Watch
from node.protocols.walk.values import Hop, Token

Plant = Callable[[pytest.MonkeyPatch], None]


def redraw_noise_on_resend(patch: pytest.MonkeyPatch) -> None:
    """The outgoing token is made anew, with fresh noise, every time it is sent."""

    def granted(ctx: Context, state: State, event: Answered[Offer, Granted], inputs: Inputs) -> Step:
        custody = state.durable.custody
        line = custody.sent.fields if isinstance(custody, Planned) else {}
        if isinstance(custody, Planned) and state.handed and custody.units and line.get("noise") is not None:
            token = visit.read_token(ctx, custody.out)
            clean = token.payload - np.array(line["noise"], token.payload.dtype)
            mixed = ctx.worker.mix(clean, None, inputs.supply(), custody.units, custody.hop.step, False)
            contribution = None if line["contribution"] is None else np.array(line["contribution"])
            route, again = Route(custody.next, custody.out_hop.step), token._replace(payload=mixed.payload)
            outgoing = visit.Outgoing(
                again, again.encode(), custody.real, custody.units, contribution, mixed.noise, mixed.cover
            )
            state = visit.route_to(ctx, state, route, outgoing, inputs, {})
        return handover.on_granted(ctx, state._replace(phase=Phase.OFFERING), event, inputs)

    key = (Phase.OFFERING, "granted")
    patch.setitem(machine.CUSTODY, key, machine.CUSTODY[key]._replace(run=granted))  # type: ignore[arg-type]


def count_hops_instead_of_positions(patch: pytest.MonkeyPatch) -> None:
    """The paper's counter: one noise every n - 1 hops, whoever was skipped."""

    by_ledger = routing.missing_units

    def missing_units(ctx: Context, token: Token, receiver: int, own: int) -> int:
        if receiver == FINISH or ctx.rule.share:  # the paper's counter is for Alg. 1, and leaves the release open
            return by_ledger(ctx, token, receiver, own)
        hops_since = sum(seen == token.noise_units for seen in token.ledger)
        return ctx.rule.full if token.noise_units == 0 or hops_since >= ctx.n - 1 else 0

    patch.setattr(routing, "missing_units", missing_units)


def forget_who_was_passed_by(patch: pytest.MonkeyPatch) -> None:
    """One full noise in every window, however many rounds it covers."""
    patch.setattr(routing, "pass_by", lambda ctx, token, position, route, times=1: token)


def reissue_without_fresh_noise(patch: pytest.MonkeyPatch) -> None:
    """The last token again, as it is."""
    send = issue._issue

    def bare(
        ctx: Context, state: State, arrived: Arrived, route: Route, outgoing: visit.Outgoing, inputs: Inputs
    ) -> Step:
        if arrived.cause == "reissue":
            token = visit.read_token(ctx, arrived.out)
            outgoing = visit.Outgoing(token, token.encode(), False, 0)
        return send(ctx, state, arrived, route, outgoing, inputs)

    patch.setattr(issue, "_issue", bare)


def acknowledge_before_journaling(patch: pytest.MonkeyPatch) -> None:
    """The journal record is written after everything else."""
    step = machine.step

    def late(ctx: Context, state: State, event: Any, inputs: Inputs) -> Step:
        state, effects = step(ctx, state, event, inputs)
        return state, sorted(effects, key=lambda effect: isinstance(effect, Persist))

    patch.setattr(machine, "step", late)


def reroute_after_an_indefinite_timeout(patch: pytest.MonkeyPatch) -> None:
    """No answer to a token is taken for a no."""

    def lost(ctx: Context, state: State, event: Answered[Handoff, Any], inputs: Inputs) -> Step:
        return handover._elsewhere(ctx, state, inputs)

    key = (Phase.HANDING, "no answer")
    to = machine.CUSTODY[Phase.OFFERING, "no answer"].to
    patch.setitem(machine.CUSTODY, key, machine.Transition(lost, to))  # type: ignore[arg-type]


def ignore_epochs(patch: pytest.MonkeyPatch) -> None:
    """A user takes hops of an epoch it promised to refuse."""
    obstacle = arrival._obstacle

    def blind(ctx: Context, state: State, peer: int, hop: Hop) -> Why | None:
        why = obstacle(ctx, state, peer, hop)
        return None if why is Why.FENCED else why

    patch.setattr(arrival, "_obstacle", blind)


def reissue_without_a_majority(patch: pytest.MonkeyPatch) -> None:
    """Whoever misses the token takes it up again, without asking enough others."""
    for key in ((Watch.LOCATING, "located"), (Watch.FENCING, "promised")):
        lookout = machine.WATCH[key]

        def alone(ctx: Context, state: State, event: Any, inputs: Inputs, run: Any = lookout.run) -> Step:
            lonely = ctx._replace(min_live=1)
            vars(lonely)["majority"] = 1
            step: Step = run(lonely, state, event, inputs)
            return step

        patch.setitem(machine.WATCH, key, lookout._replace(run=alone))  # type: ignore[arg-type]


def accept_a_late_duplicate_after_a_refusal(patch: pytest.MonkeyPatch) -> None:
    """Any grant will do: a copy of a refused token that comes late is taken after all."""

    def trusting(ctx: Context, state: State, event: Received[Handoff], inputs: Inputs) -> Step:
        grant = Grant(event.request.grant, event.request.hop, inputs.now + 1.0)
        return arrival.on_handoff(ctx, state._replace(grants={**state.grants, event.peer: grant}), event, inputs)

    for key, row in list(machine.CUSTODY.items()):
        if row.run is arrival.on_handoff:
            patch.setitem(machine.CUSTODY, key, row._replace(run=trusting))  # type: ignore[arg-type]


BUGS: tuple[Plant, ...] = (
    redraw_noise_on_resend,
    count_hops_instead_of_positions,
    forget_who_was_passed_by,
    reissue_without_fresh_noise,
    acknowledge_before_journaling,
    reroute_after_an_indefinite_timeout,
    ignore_epochs,
    reissue_without_a_majority,
    accept_a_late_duplicate_after_a_refusal,
)
