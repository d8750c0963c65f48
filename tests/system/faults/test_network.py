"""A bad network between two users: resets, delays, repeated bytes, slow and one-way links."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from tests.system.faults.conftest import MakeTown
from tests.system.faults.evidence import check
from tests.system.faults.proxy import Proxy
from tests.system.harness import CALM, Harness

pytestmark = pytest.mark.process

RING = {"topology": "ring", "rounds": 60}
Between = Callable[[Harness, str, str], Proxy]


@pytest.fixture
def between() -> Iterator[Between]:
    """A proxy on the way from one user to another."""
    proxies: list[Proxy] = []

    def make(town: Harness, sender: str, receiver: str) -> Proxy:
        proxy = Proxy(next(user.address for user in town.plan.users if user.name == receiver))
        proxies.append(proxy)
        (town.bundle(sender) / "addresses.toml").write_text(f'{receiver} = "{proxy.address}"\n')
        return proxy

    yield make
    for proxy in proxies:
        proxy.close()


def test_connections_reset_in_mid_stream_lose_nothing(make_town: MakeTown, between: Between) -> None:
    town = make_town(4, **RING)
    proxy = between(town, "user-1", "user-2")
    town.start_all()
    for step in range(20, 200, 20):
        town.wait_step(step)
        proxy.reset()
    town.wait_all()
    check(town)
    assert proxy.faults >= 1 and proxy.connections > 1


def test_a_slow_and_late_link_only_takes_longer(make_town: MakeTown, between: Between) -> None:
    town = make_town(4, timing=CALM, topology="ring", rounds=12)
    proxy = between(town, "user-1", "user-2")
    proxy.delay_s, proxy.bytes_per_s = 0.03, 50_000.0
    town.start_all()
    town.wait_all()
    branch = check(town)
    assert len(branch) == town.plan.total_steps and not town.reissues()
    assert proxy.pieces > 24


def test_delays_beyond_every_time_out_are_survived(make_town: MakeTown, between: Between) -> None:
    """Answers come when nobody waits for them any more: late messages change nothing."""
    town = make_town(4, **RING)
    proxy = between(town, "user-1", "user-2")
    town.start_all()
    town.wait_step(40)
    proxy.delay_s = 1.5
    town.wait_step(min(120, town.furthest() + 12))
    proxy.delay_s = 0.0
    town.wait_all()
    check(town)


def test_repeated_bytes_are_refused_by_the_channel_and_change_nothing(make_town: MakeTown, between: Between) -> None:
    town = make_town(4, **RING)
    proxy = between(town, "user-1", "user-2")
    town.start_all()
    for step in (30, 60, 90):
        town.wait_step(step)
        proxy.repeat_after = proxy.pieces
        town.until("repeated", lambda: proxy.repeat_after < 0 or town.furthest() == town.plan.total_steps)
    town.wait_all()
    check(town)
    assert proxy.faults >= 1


def test_a_link_that_swallows_everything_is_gone_around(make_town: MakeTown, between: Between) -> None:
    """Bytes leave and nothing comes: indefinite once a token was among them, until a vote; else gone around."""
    town = make_town(5, **RING)
    proxy = between(town, "user-1", "user-2")
    town.start_all()
    town.wait_step(40)
    proxy.swallow = True
    before = town.furthest()
    town.wait_step(before + 20)
    proxy.swallow = False
    town.wait_all()
    check(town)
    assert proxy.faults >= 1
