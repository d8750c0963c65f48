"""What must hold after every step (THEORY.md#rules, PROTOCOL.md#custody); the first breach ends the schedule."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING

from network_dp import view
from node.protocols.effects import Finished, Send
from node.protocols.walk.digests import digest
from node.protocols.walk.messages import (
    Accepted,
    Answer,
    Fence,
    Granted,
    Handoff,
    Offer,
    Promise,
    Publish,
    Published,
    Request,
    Result,
)
from node.protocols.walk.routing import live
from node.protocols.walk.state import Context, Durable, Ended, Planned, State
from node.protocols.walk.values import hop_tag
from node.protocols.walk.visit import read_token
from simulator.faults.evidence import Content, Evidence, Sent, ViolationError, Visit
from simulator.faults.exposure import ceiling, exposures, ring_ceiling

if TYPE_CHECKING:
    from node.tasks import Task

Choice = tuple[int, int]  # how many users were open to the draw, and which of them it was


class Invariants:
    """Watches one run from outside: disks, messages, logs."""

    def __init__(self, contexts: Sequence[Context], task: Task, now: Callable[[int], float]) -> None:
        self._contexts = contexts
        self._now = now  # what a user's own clock says
        self.evidence = Evidence(contexts, task)
        self.choices: list[Choice] = []
        self._bytes: dict[bytes, tuple[int, Handoff]] = {}  # a planned hop, by its key
        self._sights: list[list[Content]] = [[Content(frozenset(), frozenset())] for _ in contexts]
        self._left: dict[Visit, Sent] = {}  # the last token of a visit that left
        self._ends: dict[bytes, Sent] = {}  # the end of a walk, by its name
        self._result: Result | None = None
        self.value: bytes = b""

    # ---- disks ------------------------------------------------------------------------------------------------

    def persisted(self, ctx: Context, before: Durable, after: Durable, state: State) -> None:
        """Promises and high-water marks only grow; the choice of a next user is noted for the test of its law."""
        if after.promised < before.promised:
            raise ViolationError(f"u{ctx.me} takes a promise back")
        if after.high_water < before.high_water:
            raise ViolationError(f"u{ctx.me} forgets a hop it took")
        if before.final and after.result != before.result:
            raise ViolationError(f"u{ctx.me} changes a final result")
        old, new = before.custody, after.custody
        if not isinstance(new, Planned) or new is old:
            return
        if not ctx.topology.uniform or ctx.edge_cap is not None:
            return
        if not isinstance(old, Planned) or (old.next, old.out_hop, old.key) != (new.next, new.out_hop, new.key):
            self.note_choice(ctx, state, new.next)

    def note_choice(self, ctx: Context, state: State, chosen: int) -> None:
        alive = live(ctx, state, self._now(ctx.me))
        if chosen in alive:
            self.choices.append((len(alive), alive.index(chosen)))

    def numbers(self, user: int, log: Iterable[str]) -> None:
        """No number of a visit stands for two of them, whatever became of the disk in between."""
        visits: dict[int, str] = {}
        for line in log:
            if line.startswith('{"kind":"visit"'):
                number = view.decode(line).fields["visit"]
                if visits.setdefault(number, line) != line:
                    raise ViolationError(f"u{user} has two visits with the number {number} in its log")

    # ---- messages ---------------------------------------------------------------------------------------------

    def sending(self, ctx: Context, disk: Durable, send: Send[Request]) -> None:
        """Nothing leaves that is not on the disk, and no token that is not in the log."""
        match send.request:
            case Offer(hop):
                if disk.custody is None or disk.custody.out_hop != hop:
                    raise ViolationError(f"u{ctx.me} offers an unknown hop")
            case Handoff():
                self._handing(ctx, disk, send.peer, send.request)
            case Fence(epoch):
                if disk.promised != epoch:
                    raise ViolationError(f"u{ctx.me} asks for votes without its own promise on disk")
            case Publish(result, final):
                if (disk.result, disk.final) != (result, final):
                    raise ViolationError(f"u{ctx.me} publishes what is not on its disk")
                if result.token:
                    self._leaving(ctx.me, self._end(result))
            case _:
                pass

    def _handing(self, ctx: Context, disk: Durable, peer: int, handoff: Handoff) -> None:
        custody, me = disk.custody, ctx.me
        same = isinstance(custody, Planned) and (custody.out_hop, custody.out, custody.key, custody.next) == (
            handoff.hop,
            handoff.token,
            handoff.key,
            peer,
        )
        if not same:
            raise ViolationError(f"u{me} hands over bytes that are not in its journal")
        if not ctx.topology.may_pass(me, peer, handoff.hop.step):
            raise ViolationError(f"u{me} hands the token to u{peer}, which is not its peer")
        sent = self.evidence.sent.get(hop_tag(handoff.key, ctx.run_id, handoff.hop, digest(handoff.token)))
        if sent is None:
            raise ViolationError(f"u{me} hands over a token before its log says so")
        to, first = self._bytes.setdefault(handoff.key, (peer, handoff))
        if (to, first.hop, first.token) != (peer, handoff.hop, handoff.token):
            raise ViolationError(f"u{me} sends other bytes for hop {handoff.hop} than the first time")
        self._leaving(me, sent)

    def _leaving(self, me: int, sent: Sent) -> None:
        """All tokens of a visit that leave, its published result too, hold the same contribution and the same draw."""
        known = self._left.setdefault(sent.visit, sent)
        if known.real != sent.real or not known.content.noise <= sent.content.noise:
            raise ViolationError(f"u{me}: tokens of visit {sent.visit} that left differ in more than added noise")
        same_kind = (known.to is None) == (sent.to is None)  # a result may hold closing elements on top
        if same_kind and known.content == sent.content and known.payload != sent.payload:
            raise ViolationError(f"u{me}: noise redrawn for visit {sent.visit} after its token had left")
        self._left[sent.visit] = sent

    def replying(self, ctx: Context, disk: Durable, request: Request, answer: Answer) -> None:
        """An acknowledgement or a vote is on the disk before it leaves."""
        match request, answer:
            case Handoff(hop), Accepted():
                if disk.high_water < hop:
                    raise ViolationError(f"u{ctx.me} acknowledges hop {hop} that is not in its journal")
            case Fence(epoch), Promise(granted=True, final=False):
                if disk.promised < epoch:
                    raise ViolationError(f"u{ctx.me} votes for {epoch} without journaling it")
            case Publish(result), Published(accepted=True):
                kept = disk.result is not None and (disk.final or disk.result == result)
                if not kept:
                    raise ViolationError(f"u{ctx.me} acknowledges a result that is not in its journal")
            case Offer(hop), Granted():
                if hop.epoch < disk.promised:
                    raise ViolationError(f"u{ctx.me} grants a hop of an epoch it promised to refuse")
            case _:
                pass

    # ---- what users see ---------------------------------------------------------------------------------------

    def delivered(self, receiver: int, request: Request) -> None:
        """Bytes reached a user, taken or not: they count as seen."""
        ctx = self._contexts[receiver]
        if isinstance(request, Handoff):
            sent = self.evidence.sent.get(hop_tag(request.key, ctx.run_id, request.hop, digest(request.token)))
            if sent is None:
                raise ViolationError(f"u{receiver} gets a token that no log says was sent")
            self.evidence.reached(sent)
            self._see(receiver, sent.content)
        elif isinstance(request, Publish) and request.result.token:
            end = self._end(request.result)
            self.evidence.reached(end)
            self._see(receiver, end.content)

    def old_disk(self, user: int, disk: Durable) -> None:
        """A user is taken back to an earlier moment; see ``Evidence.forget`` for what is undone with it."""
        self.evidence.forget(user, disk.visits)
        self._left = {
            visit: sent for visit, sent in self._left.items() if visit[0] != user or self.evidence.is_known(visit)
        }

    def _see(self, user: int, content: Content) -> None:
        """Against everything it saw or sent before, in any branch, raw data of others carry one full foreign noise."""
        seen = content.foreign(user)
        observations = self._sights[user]
        if seen in observations:
            return
        full = self._contexts[user].rule.full
        for old in observations:
            data = old.contributions ^ seen.contributions
            if data and len(old.noise ^ seen.noise) < full:
                raise ViolationError(f"u{user} can read raw contributions {sorted(data)} from two tokens it saw")
        observations.append(seen)

    def _end(self, result: Result) -> Sent:
        end = self._ends.get(result.end)
        if end is None:
            raise ViolationError("a result is published that nobody's log says is the end of a walk")
        return end

    def ended(self, ctx: Context, disk: Durable) -> None:
        """A walk ends: remember its content under the name of the end (called when the finish is in the log)."""
        custody, result = disk.custody, disk.result
        if not isinstance(custody, Ended) or result is None:
            return
        known = self._ends.get(result.end)
        # An end that nobody else has seen may be undone by an old disk, and come again with the same token.
        if known is not None and (known.visit[0] != ctx.me or self.evidence.is_known(known.visit)):
            return
        finish = self.evidence.finish_of(ctx.me, custody.visit)
        if finish is None:
            raise ViolationError(f"u{ctx.me} ends a walk that is not in its log")
        if custody.hop.step + ctx.topology.most_skipped < ctx.total:
            raise ViolationError(f"u{ctx.me} ends the walk at step {custody.hop.step} of {ctx.total}")
        token = read_token(ctx, custody.out)
        if token.payload.tolist() != finish.payload:
            raise ViolationError(f"u{ctx.me} publishes another token than it logged")
        if token.contributions != len(finish.content.contributions):
            raise ViolationError(f"the token counts {token.contributions} contributions, the logs say {finish.content}")
        self._ends[result.end] = finish

    def finished(self, ctx: Context, effect: Finished[Result]) -> None:
        """One final result, the same everywhere."""
        self._end(effect.result)
        first = self._result or effect.result
        self._result = first
        if (first.end, first.token) != (effect.result.end, effect.result.token):
            raise ViolationError(
                f"u{ctx.me} has another final result than its peers: {effect.result.epoch}, {first.epoch}"
            )
        if effect.token:
            if self.value not in (b"", effect.token):
                raise ViolationError(f"u{ctx.me} writes another result than its peers")
            self.value = effect.token

    def at_end(self) -> None:
        """From all it saw together, nobody can compute another user's data without noise."""
        for ctx in self._contexts:
            observations = self._sights[ctx.me]
            on_a_ring = ring_ceiling(observations, ctx.topology.most_turns(ctx.total)) if ctx.rule.by_ledger else None
            for user, exposure in exposures(observations, ctx.rule.full).items():
                most = ceiling(observations, user) if on_a_ring is None else on_a_ring
                if exposure > most + 1e-6:
                    raise ViolationError(f"u{user} has exposure {exposure:g} to u{ctx.me}")
