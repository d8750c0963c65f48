"""Tokens that are not handed over: the initial one, and one that is taken up again under a new epoch."""

from __future__ import annotations

from node.protocols.effects import Log
from node.protocols.walk import routing, visit
from node.protocols.walk.routing import Route
from node.protocols.walk.state import Arrived, Context, Ended, Inputs, Planned, State, Step
from node.protocols.walk.values import NO_HOP, Epoch, Hop, Token
from node.protocols.walk.view_lines import peer_line


def start_walk(ctx: Context, state: State, epoch: Epoch, inputs: Inputs) -> Step:
    """The public initial token. Complete graph: the starter only draws the first holder. Ring: it is position 1."""
    durable = state.durable._replace(started=True)
    state = state._replace(durable=durable, watch_at=inputs.now + ctx.timing.lease_s)
    begun = ctx.worker.begin(inputs.supply)
    # Random elements are for the first contributor to add: this user may be the next to look at what it sent.
    blank = begun.payload if begun.cover is None else begun.payload - begun.cover
    token = Token(blank, 0, 0, 0, ctx.rule.blank_ledger(ctx.n))
    first, raw = ctx.topology.first_step, token.encode()
    if ctx.topology.may_hold(ctx.me, first):
        incoming = visit.Incoming(Hop(epoch, first), token, raw, inputs.digest(raw), "start", None, None)
        return visit.open_visit(ctx, state, incoming, inputs, news={})
    hop = Hop(epoch, 0)
    visited = visit.visited_entry(ctx, state, hop, "start", blank, inputs)
    state, route = _route(ctx, state, 0, inputs)
    token = routing.pass_by(ctx, token, 0, route)
    arrived = Arrived(hop, durable.visits + 1, "start", visited, raw, inputs.digest(raw))
    return _issue(ctx, state, arrived, route, visit.Outgoing(token, token.encode(), False, 0), inputs)


def take_unreliable_for_down(ctx: Context, state: State, inputs: Inputs) -> Step:
    """Who does not answer a vote gets no token either, nor who acknowledged the last one and votes as if it had never
    seen it: else a user that takes tokens and keeps silent about them would be shown one fresh copy after the other."""
    unreliable = set(ctx.others - state.promises.keys())
    custody = state.durable.custody
    if isinstance(custody, Planned) and state.durable.acked:
        vote = state.promises.get(custody.next)
        if vote is not None and vote.granted and vote.rank < custody.out_hop:
            unreliable.add(custody.next)
    # Who says that it got further was believed long enough, and nothing came of it.
    furthest = NO_HOP if custody is None else custody.out_hop
    unreliable |= {user for user, vote in state.promises.items() if vote.rank > furthest and vote.result is None}
    down = {**state.down, **dict.fromkeys(unreliable, inputs.now + ctx.timing.down_ttl_s)}
    return state._replace(down=down), [Log(peer_line(ctx, user, "down", inputs)) for user in sorted(unreliable)]


def reissue(ctx: Context, state: State, inputs: Inputs) -> Step:
    """The last bytes again, under the new epoch, with one full fresh noise of this user's own (THEORY.md#one-token),
    or as many as the next user needs."""
    custody = state.durable.custody
    if custody is None:
        return start_walk(ctx, state, state.bid, inputs)
    step = custody.out_hop.step - 1
    state, route = _route(ctx, state, step, inputs)
    base, units = routing.pass_by(ctx, visit.read_token(ctx, custody.out), step, route), ctx.rule.full
    if ctx.rule.by_ledger:
        units = max(units, routing.missing_units(ctx, base, route.next, 0))
    supply = ctx.worker.enough(inputs.supply(), units, inputs.supply)
    mixed = ctx.worker.refresh(base.payload, supply, units, max(step, 1))
    token = visit.extend(ctx, base, mixed, units, False)
    hop, old = Hop(state.bid, step), custody.hop if isinstance(custody, Ended) else custody.out_hop
    visited = visit.visited_entry(ctx, state, hop, "reissue", base.payload, inputs, base=[*old.epoch, old.step])
    arrived = Arrived(hop, state.durable.visits + 1, "reissue", visited, custody.out, custody.out_digest)
    outgoing = visit.Outgoing(token, token.encode(), False, units, noise=mixed.noise, cover=mixed.cover)
    return _issue(ctx, state, arrived, route, outgoing, inputs)


def _route(ctx: Context, state: State, step: int, inputs: Inputs) -> tuple[State, Route]:
    route = routing.choose(ctx, state, step, inputs, barred=frozenset())
    if route is None:  # enough users answered just now: what was believed of them before is out of date
        state = state._replace(down={})
        route = routing.choose(ctx, state, step, inputs, barred=frozenset())
        assert route is not None
    return state, route


def _issue(
    ctx: Context, state: State, arrived: Arrived, route: Route, outgoing: visit.Outgoing, inputs: Inputs
) -> Step:
    """Send a token that is not a visit's: an initial one, or one taken up again."""
    durable = state.durable._replace(custody=arrived, visits=arrived.visit)
    state = state._replace(durable=durable, draft=None, tries=0)
    state = visit.route_to(ctx, state, route, outgoing, inputs, counts={})
    return state, [Log(arrived.visited.line)]
