"""Certificates that run out in the middle of a run: the walk stops with a reason, and goes on once they are renewed."""

from __future__ import annotations

import time

import pytest

from coordinator_free_launcher.identity.certificates import Authority, certificate_pem, host_of, read_key
from node.protocols import exits
from tests.system.faults.conftest import MakeTown
from tests.system.faults.evidence import check
from tests.system.harness import Harness, slow_task

pytestmark = pytest.mark.process

DAY_S = 86400.0


def _certify(town: Harness, seconds: float) -> None:
    """New certificates for the same keys, by the run's own signer, into every bundle."""
    authority = Authority.load(town.folder / "ca")
    pems = []
    for user in town.plan.users:
        key = read_key(town.bundle(user.name) / "key.pem").public_key()
        pems.append(certificate_pem(authority.certify(user.name, host_of(user.address), key, seconds / DAY_S)))
        (town.bundle(user.name) / "cert.pem").write_bytes(pems[-1])
    for folder in (town.folder, *(town.bundle(name) for name in town.names)):
        path = folder / "certificates.pem"
        path.unlink()
        path.write_bytes(b"".join(pems))


def test_a_run_stops_at_expiry_with_a_reason_and_goes_on_after_renewal(make_town: MakeTown) -> None:
    town = make_town(4, task=slow_task(0.1), timing={"stall_timeout_s": 1.0}, topology="ring", rounds=12)
    began = time.monotonic()
    town.start_all()
    town.wait_step(2)
    town.close()
    # Long enough to be started with, however busy the machine is; time passes while nobody moves.
    ends_at = time.time() + 3.0 + 3.0 * (time.monotonic() - began)
    _certify(town, ends_at - time.time())
    town.codes.clear()
    town.start_all()
    town.wait_step(town.furthest() + 2)
    town.freeze()
    town.until("the certificates have run out", lambda: time.time() > ends_at + 1.0)
    town.thaw()
    expired = "certificate has expired: renew it for the same key"
    town.until("somebody says why", lambda: any(expired in town.log(name) for name in town.names))
    town.until("somebody stops", lambda: exits.STALLED in town.codes.values())
    before = town.furthest()
    town.close()
    assert 2 <= before < town.plan.total_steps
    # Started with the old certificate it refuses, and says what to do.
    town.start("user-1")
    assert town.wait_code("user-1") == exits.BAD_INPUT
    assert "cert.pem has expired" in town.log("user-1")
    town.close()
    _certify(town, 3600.0)
    town.codes.clear()
    town.start_all()
    town.wait_all()
    branch = check(town)
    assert branch[-1].visit.step > before
