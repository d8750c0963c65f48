"""A live walk goes on to its conserved result while intruders, and one user that misbehaves, do what they can."""

from __future__ import annotations

import asyncio
import os
import threading
from pathlib import Path

import grpc
import pytest

from coordinator_free_launcher.identity.certificates import Authority
from coordinator_free_launcher.local.launch import launch
from node.protocols.walk.messages import Accepted, Already, Declined, Handoff, Offer, Refused
from node.protocols.walk.values import Hop
from node.transport import codec
from node.wire.v1 import peer_pb2 as pb
from node.wire.v1 import peer_pb2_grpc
from tests.system.harness import PATIENT, bundles, make_plan
from tests.system.walked import Ran, check_chain, check_conserved, check_ended_well
from tests.unit.node.transport.stage import bundle, calling, code_of, forged, frame, papers_of, sender

pytestmark = pytest.mark.process

VICTIM, INSIDER = 0, 3
FAR, LONG_AGO = Hop((0, 0), 10**6), Hop((0, 0), 1)


class Log:
    """What the attacks met."""

    def __init__(self) -> None:
        self.codes: dict[str, set[grpc.StatusCode]] = {}
        self.answers: dict[str, set[type]] = {}
        self.error: BaseException | None = None
        self.rounds = 0


async def _strangers(run: Path, log: Log) -> None:
    own = Authority.load(run / "ca")
    for case, papers in {
        "wrong CA": forged(Authority.new("elsewhere")),
        "expired": forged(own, valid_days=-0.5),
        "plaintext": None,
        "unpinned": forged(own),
        "oneself": papers_of(bundle(run, VICTIM)),
    }.items():
        async with calling(run, papers, VICTIM) as channel:
            call = peer_pb2_grpc.PeerStub(channel).Locate(pb.LocateRequest(context=frame(run).context()))
            log.codes.setdefault(case, set()).add(await code_of(call))
    host, port = bundle(run, VICTIM).bind.rsplit(":", 1)
    _, writer = await asyncio.open_connection(host, int(port))
    writer.write(os.urandom(4096))
    writer.close()


async def _insider(run: Path, log: Log) -> None:
    """User 3's own key, used outside its process: tokens out of order, too long, without a grant, of another plan."""
    async with sender(run, INSIDER, token_bytes=10) as client:
        for case, request in {
            "too long": Handoff(FAR, bytes(16), bytes(32), bytes(2_000_000)),
            "no grant": Handoff(FAR, bytes(16), bytes(32), bytes(45)),
            "old step": Handoff(LONG_AGO, bytes(16), bytes(32), bytes(45)),
            "old offer": Offer(LONG_AGO),
        }.items():
            log.answers.setdefault(case, set()).add(type(await client.send(VICTIM, request)))
    async with calling(run, papers_of(bundle(run, INSIDER)), VICTIM) as channel:
        context = frame(run).context(FAR)
        context.plan_hash = bytes(32)
        stream = peer_pb2_grpc.PeerStub(channel).Hop(iter([pb.HopRequest(context=context, offer=pb.Offer())]))
        log.answers.setdefault("another plan", set()).add(type(codec.hop_answer_in(await stream.read())))


async def _attack(run: Path, log: Log) -> None:
    await _strangers(run, log)
    await _insider(run, log)
    log.rounds += 1


def test_the_walk_goes_on_whatever_intruders_do(tmp_path: Path) -> None:
    plan = make_plan(4, topology="complete", steps=5000, task={"kind": "mean"}, noise={"sigma": 0.5}, timing=PATIENT)
    run = bundles(plan, tmp_path, {name: [[i / 4]] for i, name in enumerate(plan.names)})
    log, done = Log(), threading.Event()

    def attack_while_it_walks() -> None:
        try:
            asyncio.run(_attack(run, log))
        except BaseException as error:
            log.error = error
        finally:
            done.set()

    attacker = threading.Thread(target=attack_while_it_walks, daemon=True)
    at_step: list[int] = []

    def show(progress: object) -> None:
        step = int(getattr(progress, "step", 0))
        if step >= 5 and not attacker.ident:
            attacker.start()
        if done.is_set() and not at_step:
            at_step.append(step)

    outcome = launch(run, show=show)
    attacker.join(60.0)
    if log.error is not None:
        raise log.error
    ran = Ran(run, outcome)
    check_ended_well(ran)
    check_chain(ran)
    check_conserved(ran)
    assert log.rounds == 1 and at_step, "the attack was over before the walk was"
    for case in ("wrong CA", "expired", "plaintext"):
        assert log.codes[case] == {grpc.StatusCode.UNAVAILABLE}, case
    for case in ("unpinned", "oneself"):
        assert log.codes[case] == {grpc.StatusCode.PERMISSION_DENIED}, case
    assert log.answers["another plan"] == {Declined}
    assert log.answers["too long"] == {Refused} and log.answers["no grant"] == {Refused}
    assert log.answers["old step"] <= {Accepted, Refused} and log.answers["old offer"] <= {Already, Declined}
    noted = (ran.state(plan.names[VICTIM]) / "node.log").read_text()
    assert "the key is not in the plan" in noted and "refused a token of 2000000 bytes from user-3" in noted
