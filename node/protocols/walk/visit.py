"""One visit: from a received token to the bytes that will leave, with noise drawn once.

A visit's parts (what came, the contribution, the pre-drawn noise) stay in memory as a ``Draft`` until the hand-over, so
the next user may still change. The outgoing bytes are journaled before they leave and are never recomputed after that.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from node.protocols.effects import Log
from node.protocols.walk import routing
from node.protocols.walk.digests import LONG_BYTES
from node.protocols.walk.effects import Compute
from node.protocols.walk.routing import Route
from node.protocols.walk.state import (
    FINISH,
    Arrived,
    Context,
    Custody,
    Draft,
    Durable,
    Ended,
    Entry,
    Inputs,
    Mixed,
    Phase,
    Planned,
    State,
    Step,
)
from node.protocols.walk.values import Hop, Octets, Payload, Token, TokenBuffer, TokenError, decode_token, hop_tag

MOST_COUNTED = 1 << 60  # contributions, cover elements or noise components in a token: none of a walk comes near it


def read_token(ctx: Context, data: Octets) -> Token:
    """The token in bytes of this user's own, or in a result; else ``TokenError``."""
    token = decode_token(data, **ctx.shape)
    if not ctx.worker.fits(token.payload) or not plausible(ctx, token, ctx.total):
        raise TokenError("token outside the plan's bounds")
    return token


def read_arrival(ctx: Context, data: Octets, step: int) -> Token:
    """A token that arrives for ``step``: what is taken here must fit when it has been added to, here and further on.

    So the limits are twice as wide at the end of a walk as at its start, where they hold all that honest users ever
    add: a token made to be just too large fits nobody, instead of growing in one user's hands until it fits nobody."""
    token, part = decode_token(data, **ctx.shape), step / ctx.total
    small = max(token.contributions, token.cover, token.noise_units) <= MOST_COUNTED * (1.0 + part)
    if not small or not ctx.worker.fits(token.payload, part) or not plausible(ctx, token, step):
        raise TokenError("token outside the plan's bounds")
    return token


def plausible(ctx: Context, token: Token, step: int) -> bool:
    """W_r runs ahead of W by a full noise for every time r was passed by, once a round: nobody is made to add more."""
    return max(token.ledger, default=0) <= token.noise_units + ctx.rule.full * ctx.topology.most_turns(step)


def values(ctx: Context, **payloads: Payload | None) -> dict[str, Any]:
    """Payload fields of a log line, when the plan logs values."""
    if not ctx.log_values:
        return {}
    return {name: None if payload is None else payload.tolist() for name, payload in payloads.items()}


class Incoming(NamedTuple):
    """A token that this user takes charge of. ``sender`` None: nobody sent it, the walk starts here."""

    hop: Hop
    token: Token
    raw: Octets  # its bytes, as they came
    digest: bytes  # of these
    cause: str
    sender: int | None
    tag: str | None


def visited_entry(
    ctx: Context,
    state: State,
    hop: Hop,
    cause: str,
    received: Payload,
    inputs: Inputs,
    *,
    sender: int | None = None,
    **more: Any,
) -> Entry:
    """The line of this user's next visit. ``more``: what is said of some visits only."""
    fields = {
        "epoch": list(hop.epoch),
        "step": hop.step,
        "visit": state.durable.visits + 1,
        "cause": cause,
        "from": None if sender is None else ctx.names[sender],
        **more,
        **values(ctx, received=received),
        "time": inputs.wall_time,
    }
    return Entry("visit", fields)


def open_visit(
    ctx: Context, state: State, incoming: Incoming, inputs: Inputs, news: Mapping[str, Any], **receipt: Any
) -> Step:
    """Take charge of a token: log the visit, compute (now, or off the loop), and plan the next hop.

    ``receipt``: what else becomes durable with it. ``news``: what else changes, and is forgotten by a crash."""
    durable, hop = state.durable, incoming.hop
    visited = visited_entry(
        ctx, state, hop, incoming.cause, incoming.token.payload, inputs, sender=incoming.sender, tag=incoming.tag
    )
    token, opening = _opened(ctx, incoming.token, inputs)
    index, capped = next_index(ctx, durable, hop), is_capped(ctx, durable)
    contribution = None
    if ctx.worker.quick and not capped:
        contribution = ctx.worker.contribute(token.payload, index)
    state = state._replace(
        durable=durable._replace(
            high_water=hop,
            high_water_digest=b"" if incoming.sender is None else incoming.digest,
            high_water_from=ctx.me if incoming.sender is None else incoming.sender,
            visits=durable.visits + 1,
            custody=Arrived(hop, durable.visits + 1, incoming.cause, visited, incoming.raw, incoming.digest),
            **receipt,
        ),
        draft=Draft(token, contribution, None, durable.contributions, opening),
        handed=False,
        tries=0,
        retry_at=None,
        stalled_since=None,
        **news,
    )
    if not ctx.worker.quick and not capped:
        compute = Compute(token.payload, index, durable.visits + 1)
        return state._replace(phase=Phase.COMPUTING), [Log(visited.line), compute]
    state, more = plan_hop(ctx, state, inputs)
    return state, [Log(visited.line), *more]


def next_index(ctx: Context, durable: Durable, hop: Hop) -> int:
    """The number of a visit's contribution."""
    return ctx.topology.contribution_number(hop.step, durable.contributions)


def _opened(ctx: Context, token: Token, inputs: Inputs) -> tuple[Token, Payload | None]:
    """The first contributor adds the cover elements of its short window, and says which
    (THEORY.md#cover-elements).

    Its own, whoever sent the empty token: elements that the next receiver drew itself would hide nothing from it."""
    if token.contributions:
        return token, None
    begun = ctx.worker.begin(inputs.supply)
    if begun.cover is None:
        return token, None
    payload = token.payload + begun.cover
    return token._replace(payload=payload, cover=token.cover + begun.n_cover), begun.cover


def is_capped(ctx: Context, durable: Durable) -> bool:
    """Past its cap; a lost disk forgot the counts, so it counts as past every cap."""
    if durable.rejoined and (ctx.cap is not None or ctx.edge_cap is not None):
        return True
    return ctx.cap is not None and durable.contributions >= ctx.cap


def reopen_visit(ctx: Context, state: State, inputs: Inputs) -> Step:
    """After a restart: the receipt was journaled, the task had not finished, nothing has left: start it anew."""
    custody = state.durable.custody
    assert isinstance(custody, Arrived)
    token = read_token(ctx, custody.out)
    index = next_index(ctx, state.durable, custody.hop)
    token, opening = _opened(ctx, token, inputs)
    draft = Draft(token, None, None, state.durable.contributions, opening)
    if is_capped(ctx, state.durable):
        return plan_hop(ctx, state._replace(draft=draft), inputs)
    compute = Compute(token.payload, index, custody.visit)
    return state._replace(phase=Phase.COMPUTING, draft=draft), [compute]


def plan_hop(ctx: Context, state: State, inputs: Inputs) -> Step:
    """Choose the next user and make the outgoing bytes; this transition journals them before anything leaves."""
    custody = state.durable.custody
    assert custody is not None
    barred: frozenset[int] = frozenset()
    if state.draft is None and ctx.edge_cap is not None and _is_real(custody):
        barred = frozenset(user for user in ctx.others if state.durable.edges.get(user, 0) >= ctx.edge_cap)
    route = routing.choose(ctx, state, custody.hop.step, inputs, barred=barred)
    if route is None:
        return state._replace(phase=Phase.TOO_FEW), []
    if state.draft is None:
        assert isinstance(custody, Planned)  # its bytes may have left
        if route == (custody.next, custody.out_hop.step):  # the same user again: the same bytes
            return state._replace(phase=Phase.READY), []
        return _top_up(ctx, state, custody, route, inputs), []
    return _compose(ctx, state, state.draft, route, inputs), []


def _compose(ctx: Context, state: State, draft: Draft, route: Route, inputs: Inputs) -> State:
    """Outgoing token from the draft: the same noise whatever the next user; how much of it follows the rules."""
    durable, custody = state.durable, state.durable.custody
    assert custody is not None
    capped = draft.contribution is None
    edge_full = (
        ctx.edge_cap is not None
        and route.next not in (ctx.me, FINISH)
        and durable.edges.get(route.next, 0) - _counted(custody, route.next) >= ctx.edge_cap
    )
    real = not capped and not edge_full
    forward = capped and ctx.forward_past_cap
    received = routing.pass_by(ctx, draft.received, custody.hop.step, route)
    units = 0 if forward else routing.units_of(ctx, received, route.next)
    closing = route.next == FINISH and ctx.release_all
    contribution = draft.contribution if real else None
    payload, step = received.payload, max(custody.hop.step, 1)
    mixed, sheet = Mixed(payload, None, None, 0), None
    if not forward:
        draft = _with_noise(ctx, draft, units, inputs, closing=closing)
        state = state._replace(draft=draft)
        sheet = TokenBuffer(received.head(), payload) if payload.nbytes > LONG_BYTES else None
        out = None if sheet is None else sheet.payload
        mixed = ctx.worker.mix(payload, contribution, draft.supply, units, step, closing, out)
    cover = mixed.cover
    if draft.opening is not None:
        cover = draft.opening if cover is None else draft.opening + cover
    token = extend(ctx, received, mixed, units, real)
    data = token.encode() if sheet is None else sheet.encode(token)
    counts = _counts(durable, custody, draft.contributions_before + int(real), route.next, real)
    outgoing = Outgoing(token, data, real, units, contribution, mixed.noise, cover)
    return route_to(ctx, state, route, outgoing, inputs, counts)


def _with_noise(ctx: Context, draft: Draft, units: int, inputs: Inputs, *, closing: bool) -> Draft:
    """The draft with enough pre-drawn noise for this hop; none is taken where none is owed.

    What a visit took it keeps, whatever its route becomes: no noise is ever drawn twice for it
    (THEORY.md#noise-once)."""
    if not units and not closing:
        return draft
    supply = inputs.supply() if draft.supply is None else draft.supply
    return draft._replace(supply=ctx.worker.enough(supply, units, inputs.supply))


def _is_real(custody: Custody) -> bool:
    return isinstance(custody, Planned) and custody.real


def _counted(custody: Custody, receiver: int) -> int:
    """Is the contribution already counted on this edge (the plan being changed before anything left)?"""
    return int(isinstance(custody, Planned) and custody.real and custody.next == receiver)


def _counts(
    durable: Durable, custody: Custody, contributions: int, receiver: int, real: bool
) -> dict[str, int | Mapping[int, int]]:
    """The count of this visit's contribution moves to its new edge."""
    edges = dict(durable.edges)
    if isinstance(custody, Planned) and custody.real:
        edges[custody.next] = edges.get(custody.next, 0) - 1
    if real and receiver >= 0:
        edges[receiver] = edges.get(receiver, 0) + 1
    return {"contributions": contributions, "edges": edges}


def extend(ctx: Context, base: Token, mixed: Mixed, units: int, real: bool) -> Token:
    """The public counts of the outgoing token; W_me is W just after this hop."""
    total = base.noise_units + units
    ledger = _with(base.ledger, ctx.me, total) if ctx.rule.by_ledger else base.ledger
    return Token(mixed.payload, base.contributions + int(real), base.cover + mixed.n_cover, total, ledger)


def _with(ledger: tuple[int, ...], user: int, seen: int) -> tuple[int, ...]:
    return (*ledger[:user], seen, *ledger[user + 1 :])


def _top_up(ctx: Context, state: State, custody: Planned, route: Route, inputs: Inputs) -> State:
    """Re-route bytes that are fixed, because they (may) have left. The new receiver may need more noise.

    Who refused them saw them: in the ledger its next increment starts there (THEORY.md#one-token).
    """
    durable, added = state.durable, custody.sent.fields
    token, units = read_token(ctx, custody.out), 0
    if ctx.rule.by_ledger:
        token = _reread(ctx, state, custody, token, route)
        units = routing.missing_units(ctx, token, route.next, 0)
    closing = route.next == FINISH and ctx.release_all
    mixed = Mixed(token.payload, None, None, 0)
    if units or closing:
        supply = ctx.worker.enough(inputs.supply(), units, inputs.supply)
        mixed = ctx.worker.mix(token.payload, None, supply, units, max(custody.hop.step, 1), closing)
        token = extend(ctx, token, mixed, units, False)
    # A contribution that was seen stays counted on its edge, refused or not.
    before = custody._replace(real=False) if state.handed else custody
    counts = _counts(durable, before, durable.contributions, route.next, custody.real)
    outgoing = Outgoing(
        token,
        token.encode(),
        custody.real,
        custody.units + units,
        contribution=_sum(added.get("contribution"), None, token),
        noise=_sum(added.get("noise"), mixed.noise, token),
        cover=_sum(added.get("cover"), mixed.cover, token),
    )
    return route_to(ctx, state, route, outgoing, inputs, counts)


def _reread(ctx: Context, state: State, custody: Planned, token: Token, route: Route) -> Token:
    """The ledger of fixed bytes for another route: others are passed by, and who was sent them saw them."""
    old = Route(custody.next, custody.out_hop.step)
    token = routing.pass_by(ctx, token, custody.hop.step, old, -1)
    if state.handed:
        token = token._replace(ledger=_with(token.ledger, custody.next, token.noise_units))
    return routing.pass_by(ctx, token, custody.hop.step, route)


def _sum(logged: list[int] | list[float] | None, extra: Payload | None, token: Token) -> Payload | None:
    """What the log says was put into the token before, and what is added now."""
    if logged is None:
        return extra
    base = np.array(logged, token.payload.dtype)
    return base if extra is None else base + extra


class Outgoing(NamedTuple):
    """A token that is ready to leave, and what this user put into it."""

    token: Token
    data: Octets  # its bytes
    real: bool  # is a contribution of this user in it?
    units: int  # noise components of this user's
    contribution: Payload | None = None
    noise: Payload | None = None
    cover: Payload | None = None


def route_to(
    ctx: Context, state: State, route: Route, outgoing: Outgoing, inputs: Inputs, counts: Mapping[str, Any]
) -> State:
    """Fix next user and bytes in the custody record, and ``counts`` beside it (durable with this transition)."""
    durable, custody = state.durable, state.durable.custody
    assert custody is not None
    hop = Hop(custody.hop.epoch, route.step)
    key = inputs.dice.secret(32)
    token, data, real, units, contribution, noise, cover = outgoing
    data_digest = inputs.digest(data)
    fields: dict[str, Any] = {
        "epoch": list(hop.epoch),
        "visit": custody.visit,
        "real": real,
        "units": units,
        **values(ctx, cover=cover, contribution=contribution, noise=noise, sent=token.payload),
        "time": inputs.wall_time,
    }
    was = (custody.hop, custody.visit, custody.cause, custody.visited)
    planned: Custody
    if route.next == FINISH:
        sent = Entry("finish", {"step": custody.hop.step, **fields})
        planned = Ended(*was, hop, data, data_digest, real, units, sent)
    else:
        tag = hop_tag(key, ctx.run_id, hop, data_digest)
        sent = Entry("sent", {"step": hop.step, "to": ctx.names[route.next], "tag": tag, **fields})
        planned = Planned(*was, route.next, hop, data, data_digest, key, real, units, sent)
    return state._replace(durable=durable._replace(custody=planned, **counts), phase=Phase.READY, handed=False)
