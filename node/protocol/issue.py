"""Tokens that are not handed over: the initial one, and one that is taken up again under a new epoch."""

from __future__ import annotations

from network_dp import view
from node.protocol import handover, routing, visit
from node.protocol.effects import Log
from node.protocol.routing import Route
from node.protocol.state import FINISH, UNROUTED, Context, Custody, Inputs, Mixed, Phase, State
from node.protocol.values import NO_HOP, Epoch, Hop, Token
from node.protocol.view_lines import peer_line
from node.protocol.visit import Step


def start_walk(ctx: Context, state: State, epoch: Epoch, inputs: Inputs) -> Step:
    """The public initial token. Complete graph: the starter only draws the first holder. Ring: it is position 1."""
    durable = state.durable._replace(started=True)
    state = state._replace(durable=durable, watch_at=inputs.now + ctx.timing.lease_s)
    begun = ctx.worker.begin(inputs.supply)
    # Random elements are for the first contributor to add: this user may be the next to look at what it sent.
    blank = begun.payload if begun.dummies is None else begun.payload - begun.dummies
    token = Token(blank, 0, 0, 0, ctx.rule.blank_ledger(ctx.n))
    first = ctx.topology.first_step
    if ctx.topology.may_hold(ctx.me, first):
        hop = Hop(epoch, first)
        raw = token.encode()
        state, effects = visit.open_visit(
            ctx,
            state,
            hop,
            token,
            inputs,
            cause="start",
            sender=None,
            tag=None,
            raw=raw,
            raw_digest=inputs.digest(raw),
            news={},
            mark=hop,
            mark_digest=b"",
            mark_from=ctx.me,
        )
        if state.phase is Phase.COMPUTING:
            return state, effects
        state, more = handover.dispatch(ctx, state, inputs)
        return state, effects + more
    line = view.encode(
        "visit",
        epoch=list(epoch),
        step=0,
        visit=durable.visits + 1,
        cause="start",
        **{"from": None},
        **visit.values(ctx, received=blank),
        time=inputs.wall_time,
    )
    state, route = _route(ctx, state, 0, inputs)
    token = routing.pass_by(ctx, token, 0, route)
    return _issue(ctx, state, Hop(epoch, 0), token, Mixed(blank, None, None, 0), 0, "start", line, route, inputs)


def take_unreliable_for_down(ctx: Context, state: State, inputs: Inputs) -> Step:
    """Who does not answer a vote gets no token either, nor who acknowledged the last one and votes as if it had never
    seen it: else a user that takes tokens and keeps silent about them would be shown one fresh copy after the other."""
    unreliable = set(ctx.others - state.promises.keys())
    custody = state.durable.custody
    if custody is not None and state.durable.acked:
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
    hop, old = Hop(state.bid, step), custody.hop if custody.next == FINISH else custody.out_hop
    line = view.encode(
        "visit",
        epoch=list(hop.epoch),
        step=step,
        visit=state.durable.visits + 1,
        cause="reissue",
        **{"from": None},
        base=[*old.epoch, old.step],
        **visit.values(ctx, received=base.payload),
        time=inputs.wall_time,
    )
    return _issue(ctx, state, hop, token, mixed, units, "reissue", line, route, inputs)


def _route(ctx: Context, state: State, step: int, inputs: Inputs) -> tuple[State, Route]:
    route = routing.choose(ctx, state, step, inputs, barred=frozenset())
    if route is None:  # enough users answered just now: what was believed of them before is out of date
        state = state._replace(down={})
        route = routing.choose(ctx, state, step, inputs, barred=frozenset())
        assert route is not None
    return state, route


def _issue(
    ctx: Context,
    state: State,
    hop: Hop,
    token: Token,
    mixed: Mixed,
    units: int,
    cause: str,
    line: str,
    route: Route,
    inputs: Inputs,
) -> Step:
    """Send a token that is not a visit's: an initial one, or one taken up again."""
    durable = state.durable
    number = durable.visits + 1
    custody = Custody(hop, number, cause, UNROUTED, hop, b"", b"", False, units, line, "", b"")
    state = state._replace(durable=durable._replace(custody=custody, visits=number), draft=None, tries=0)
    state = visit.route_to(
        ctx, state, route, token, inputs, counts={}, real=False, units=units, contribution=None, mixed=mixed
    )
    state, effects = handover.dispatch(ctx, state, inputs)
    return state, [Log(line), *effects]
