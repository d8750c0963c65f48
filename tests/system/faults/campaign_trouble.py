"""Kinds of trouble, and how much of each makes a profile of the campaign."""

from __future__ import annotations

import os
import resource
import shutil
import subprocess
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from tests.system.faults.campaign_ordeal import Ordeal
from tests.system.faults.proxy import Proxy
from tests.unit.node.storage.lossy_disk import cut_power, forgets_all

UNLIMITED = (resource.RLIM_INFINITY, resource.RLIM_INFINITY)
FAKETIME = Path("/usr/lib/x86_64-linux-gnu/faketime/libfaketimeMT.so.1")


def kill(ordeal: Ordeal) -> None:
    names = ordeal.victims(ordeal.dice.choice((1, 1, 2, 3)))
    ordeal.town.kill(*names)
    ordeal.faults["kill"] += len(names)
    ordeal.restart_in(names)


def kill_all(ordeal: Ordeal) -> None:
    names = ordeal.victims(ordeal.town.plan.n)
    ordeal.town.kill(*names)
    ordeal.faults["kill all"] += 1
    ordeal.restart_in(names, 0.0, 0.5)


def freeze(ordeal: Ordeal) -> None:
    names = ordeal.victims(ordeal.dice.choice((1, 1, 2)))
    ordeal.town.freeze(*names)
    ordeal.faults["freeze"] += len(names)
    ordeal.away(names)

    def thaw() -> None:
        ordeal.town.thaw(*names)
        ordeal.home(names)

    ordeal.back_in(0.3, 3.0, thaw)


def cut(ordeal: Ordeal) -> None:
    """Power goes off for some machines: what nobody synced is lost, all of it or all but a drawn part."""
    names = ordeal.victims(ordeal.dice.choice((1, 2, ordeal.town.plan.n)))
    ordeal.town.kill(*names)
    for name in names:
        ordeal.kept.look(name)
        some = ordeal.dice.random() < 0.5
        keep = (lambda writes: ordeal.dice.randint(0, writes)) if some else forgets_all
        ordeal.faults["writes lost"] += cut_power(ordeal.town.state(name), keep)
    ordeal.faults["power cut"] += len(names)
    ordeal.restart_in(names, 0.0, 0.8)


def lose_disk(ordeal: Ordeal) -> None:
    name = ordeal.disk_victim()
    if name is None:
        return
    ordeal.town.kill(name)
    ordeal.kept.look(name)
    shutil.rmtree(ordeal.town.state(name))
    ordeal.town.state(name).mkdir(mode=0o700)
    ordeal.faults["disk lost"] += 1
    ordeal.restart_in([name])


def put_back(ordeal: Ordeal) -> None:
    """The first time a disk is copied, later the old copy takes its place."""
    old = ordeal.town.folder.with_name("old")  # not in the run's folder, where it would be one more log
    copies = sorted(path.name for path in old.iterdir()) if old.exists() else []
    name = copies[0] if copies and copies[0] in ordeal.victims(ordeal.town.plan.n) else ordeal.disk_victim()
    if name is None:
        return
    ordeal.town.kill(name)
    ordeal.kept.look(name)
    state = ordeal.town.state(name)
    if name in copies:
        shutil.rmtree(state)
        (old / name).rename(state)
        ordeal.faults["old disk"] += 1
    else:
        shutil.copytree(state, old / name)
    ordeal.restart_in([name])


def damage(ordeal: Ordeal) -> None:
    """One byte of a journal is another one: found, and refused, unless it hit the last record."""
    name = ordeal.disk_victim()
    if name is None:
        return
    ordeal.town.kill(name)
    ordeal.kept.look(name)
    journal = ordeal.town.state(name) / "journal"
    data = bytearray(journal.read_bytes())
    written = len(bytes(data).rstrip(b"\0"))
    if written > 64:
        data[ordeal.dice.randrange(8, written // 2)] ^= 1 << ordeal.dice.randrange(8)
        journal.write_bytes(data)
        ordeal.faults["damaged"] += 1
    ordeal.restart_in([name])


def fill(ordeal: Ordeal) -> None:
    """No file of a process grows beyond what its journal has now."""
    for name in ordeal.victims(ordeal.dice.choice((1, 2))):
        pid = ordeal.town.pool.pids[name]
        journal = ordeal.town.state(name) / "journal"
        resource.prlimit(pid, resource.RLIMIT_FSIZE, (journal.stat().st_size, resource.RLIM_INFINITY))
        ordeal.faults["full"] += 1
        ordeal.back_in(0.2, 2.0, lambda pid=pid: _free(pid))


def _free(pid: int) -> None:
    with suppress(ProcessLookupError):
        resource.prlimit(pid, resource.RLIMIT_FSIZE, UNLIMITED)


# ---- profiles ------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Profile:
    """A kind of trouble and how often; ``prepare`` changes the town before it starts and gives the trouble."""

    trouble: Callable[[Ordeal], None] | None = None
    times: int = 6
    prepare: Callable[[Ordeal], Callable[[Ordeal], None]] | None = None
    durability: str | None = None
    parent: str = "node.many.zygote"
    missing: Callable[[], str] = lambda: ""  # why this machine cannot


def _between(ordeal: Ordeal, name: str, others: list[str]) -> Proxy:
    """What ``others`` send to ``name`` goes through a proxy."""
    address = next(user.address for user in ordeal.town.plan.users if user.name == name)
    proxy = Proxy(address)
    ordeal.undo.append(proxy.close)
    for other in others:
        with (ordeal.town.bundle(other) / "addresses.toml").open("a") as file:
            file.write(f'{name} = "{proxy.address}"\n')
    return proxy


def _shut(ordeal: Ordeal, proxies: list[Proxy], what: str) -> None:
    for proxy in proxies:
        proxy.swallow = True
    ordeal.faults[what] += 1

    def open_again() -> None:
        for proxy in proxies:
            proxy.swallow = False
            proxy.reset()

    ordeal.back_in(0.3, 3.0, open_again)


def partitions(ordeal: Ordeal) -> Callable[[Ordeal], None]:
    """Two groups, drawn once; while they are apart nothing passes between them."""
    names = ordeal.dice.sample(ordeal.town.names, ordeal.town.plan.n)
    size = ordeal.dice.randint(1, len(names) // 2)
    groups = names[:size], names[size:]
    proxies = [_between(ordeal, name, groups[1 - side]) for side in (0, 1) for name in groups[side]]
    return lambda ordeal: _shut(ordeal, proxies, "partition")


def blocked_ports(ordeal: Ordeal) -> Callable[[Ordeal], None]:
    """Nobody reaches these users, who reach everybody."""
    names = ordeal.dice.sample(ordeal.town.names, 2)
    proxies = [_between(ordeal, name, [n for n in ordeal.town.names if n != name]) for name in names]
    return lambda ordeal: _shut(ordeal, ordeal.dice.sample(proxies, ordeal.dice.choice((1, 2))), "port blocked")


def small_disks(ordeal: Ordeal) -> Callable[[Ordeal], None]:
    """Disks of their own for two users, which somebody else fills up. Needs root; without it, a limit per process."""
    if os.geteuid() != 0:
        return fill
    names = ordeal.dice.sample(ordeal.town.names, 2)
    for name in names:
        state, kept = ordeal.town.state(name), ordeal.town.folder.with_name(f"{name}-state")
        shutil.copytree(state, kept)
        subprocess.run(["mount", "-t", "tmpfs", "-o", "size=2m,mode=0700", "none", state], check=True)
        shutil.copytree(kept, state, dirs_exist_ok=True)
        ordeal.undo.append(lambda state=state, kept=kept: _unmount(state, kept))
    return lambda ordeal: _stuff(ordeal, ordeal.dice.choice(names))


def _unmount(state: Path, kept: Path) -> None:
    """What was on the small disk is evidence: it stays in the run's folder."""
    shutil.copytree(state, kept, dirs_exist_ok=True)
    subprocess.run(["umount", "-l", state], check=True)
    shutil.copytree(kept, state, dirs_exist_ok=True)


def _stuff(ordeal: Ordeal, name: str) -> None:
    filler = ordeal.town.state(name) / "filler"
    with suppress(OSError), filler.open("ab", buffering=0) as file:
        while True:
            file.write(b"x" * 4096)
    ordeal.faults["full"] += 1
    ordeal.back_in(0.2, 2.0, lambda: filler.unlink(missing_ok=True))


def clocks(ordeal: Ordeal) -> Callable[[Ordeal], None]:
    """Everybody's wall clock jumps (faketime); what runs by the monotonic one goes on."""
    offset = ordeal.town.folder / "offset"

    def jump(ordeal: Ordeal) -> None:
        offset.write_text(f"{ordeal.dice.choice((-7200, -60, 60, 3600)):+d}\n")
        ordeal.faults["clock jump"] += 1

    offset.write_text("+0\n")
    _set({"LD_PRELOAD": str(FAKETIME), "FAKETIME_TIMESTAMP_FILE": str(offset.absolute()), **_FAKED}, ordeal)
    return jump


_FAKED = {"FAKETIME_NO_CACHE": "1", "FAKETIME_DONT_FAKE_MONOTONIC": "1"}


def _set(values: dict[str, str], ordeal: Ordeal) -> None:
    """For the users' parent, which starts with the first user."""
    before = {name: os.environ.get(name) for name in values}
    os.environ.update(values)
    assert ordeal.town.pool
    for name, value in before.items():
        os.environ.pop(name) if value is None else os.environ.update({name: value})


def mixed(ordeal: Ordeal) -> None:
    ordeal.dice.choice((kill, kill, freeze, kill_all, lose_disk, damage, put_back, fill))(ordeal)


PROFILES: dict[str, Profile] = {
    "kill": Profile(kill),
    "kill all": Profile(kill_all, 3),
    "freeze": Profile(freeze),
    "partition": Profile(times=4, prepare=partitions),
    "blocked port": Profile(times=4, prepare=blocked_ports),
    "power cut": Profile(cut, 4, durability="machine", parent="tests.system.faults.forgetful"),
    "lost disk": Profile(lose_disk, 3),
    "old disk": Profile(put_back, 4),
    "damaged journal": Profile(damage, 3),
    "full disk": Profile(times=4, prepare=small_disks),
    "clock": Profile(times=4, prepare=clocks, missing=lambda: "" if FAKETIME.exists() else "no faketime here"),
    "mix": Profile(mixed, 8),
}
