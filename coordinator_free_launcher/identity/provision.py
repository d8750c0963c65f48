"""Everything a run on one machine needs, in one go: signer, keys, certificates, the finished plan, one bundle per user.

For users on several machines, where no private key may travel, see ``enrol``.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from pathlib import Path

from coordinator_free_launcher.budget import CHARGE
from coordinator_free_launcher.identity.bundle import (
    DATA_SUFFIXES,
    PUBLIC,
    ProvisionError,
    make_state,
    share,
    user_folder,
    write_node_file,
)
from coordinator_free_launcher.identity.certificates import (
    VALID_DAYS,
    Authority,
    certificate_pem,
    host_of,
    new_key,
    new_round_key,
    write_key,
)
from coordinator_free_launcher.identity.finalise import finalise
from coordinator_free_launcher.identity.look import look
from network_dp.ledger import FILE
from network_dp.plan import Plan, User
from network_dp.plan_reader import dump, load
from node.pins import pin


def already_provisioned(plan: Plan, out: Path) -> bool:
    """Is ``out`` a finished provision of this very plan (same promises, same users, same addresses)?"""
    try:
        found = load(out / "plan.toml")
    except FileNotFoundError:
        return False
    wanted = finalise(plan)
    places = [(user.name, user.address) for user in wanted.users]
    return unpinned(found).hash == unpinned(wanted).hash and places == [(u.name, u.address) for u in found.users]


def unpinned(plan: Plan) -> Plan:
    """The plan without keys: what is promised, whoever holds the keys."""
    return replace(plan, users=tuple(replace(user, key=None, round_key=None) for user in plan.users))


def published(plan: Plan, pins: Mapping[str, str], round_pins: Mapping[str, str]) -> Plan:
    """The public plan: keys pinned, paths of private data left out."""
    return replace(
        plan,
        users=tuple(
            replace(user, key=pins[user.name], round_key=round_pins.get(user.name), data=None) for user in plan.users
        ),
    )


def provision(
    plan: Plan,
    out: Path,
    data: Mapping[str, Path] | None = None,
    valid_days: float = VALID_DAYS,
    *,
    allow_clipping: bool = False,
    ledgers: Path | None = None,
    say: Callable[[str], None] = lambda text: None,
) -> Path:
    """Write the bundles of all users of ``plan`` to the new folder ``out`` and return it.

    ``data`` maps names to files that are copied into the bundles; without it, a user's ``data`` in the plan is
    noted by its absolute path. All data that is there is read and checked before anything is written: what cannot be
    used is refused, and so is data of which most would be clipped, unless ``allow_clipping``; ``say`` is told of the
    rest. ``ledgers``: each user keeps LEDGERS/NAME/ledger.json and its node starts only once that is charged. All or
    nothing: the work happens beside ``out`` and is renamed at the end; what an
    interrupted attempt left behind was never used and is removed. An existing folder is never written into.
    """
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise ProvisionError(f"{out} exists and is not empty: keys and state are never overwritten; give a new folder")
    final = finalise(plan)
    files = _data_files(final, data)
    here = {name: path for name, path in files.items() if data is not None or path.is_file()}
    for text in look(final, here, allow_clipping=allow_clipping):
        say(text)
    out.parent.mkdir(parents=True, exist_ok=True)
    work = out.parent / f".{out.name}.unfinished"
    if work.exists():
        shutil.rmtree(work)
    work.mkdir(mode=0o755)
    try:
        _fill(work, final, files, copied=data is not None, valid_days=valid_days, ledgers=ledgers)
        work.rename(out)
    except BaseException:
        shutil.rmtree(work, ignore_errors=True)
        raise
    return out


def _data_files(plan: Plan, data: Mapping[str, Path] | None) -> dict[str, Path]:
    if data is None:
        return {user.name: Path(user.data).absolute() for user in plan.users if user.data is not None}
    missing = [name for name in plan.names if name not in data]
    if missing:
        raise ProvisionError(f"no data for {', '.join(missing[:5])}{' ...' if len(missing) > 5 else ''}")
    for name in plan.names:
        if data[name].suffix not in DATA_SUFFIXES:
            raise ProvisionError(f"{data[name]}: data is one of {', '.join(DATA_SUFFIXES)}")
        if not data[name].is_file():
            raise ProvisionError(f"{data[name]}: no such file (the data of {name})")
    return dict(data)


def _fill(
    work: Path, plan: Plan, files: Mapping[str, Path], *, copied: bool, valid_days: float, ledgers: Path | None
) -> None:
    authority = Authority.new(plan.name, valid_days)
    authority.save(work / "ca")
    (work / "users").mkdir()
    pins, round_pins, certificates = {}, {}, []
    for user in plan.users:
        bundle = user_folder(work, user.name)
        bundle.mkdir(mode=0o700)
        key = new_key()
        write_key(key, bundle / "key.pem")
        pins[user.name] = pin(key.public_key())
        if plan.walk.anonymous:
            round_pins[user.name] = new_round_key(bundle / "round.pem")
        certificate = certificate_pem(authority.certify(user.name, host_of(user.address), key.public_key(), valid_days))
        (bundle / "cert.pem").write_bytes(certificate)
        certificates.append(certificate)
        make_state(bundle, user.name)
        _fill_data(bundle, user, files.get(user.name), copied=copied, ledgers=ledgers)
    (work / "certificates.pem").write_bytes(b"".join(certificates))
    public = published(plan, pins, round_pins)
    (work / "plan.toml").write_text(dump(public))
    if ledgers is not None:
        write_charges(public, [user_folder(work, name) for name in plan.names])
    _share_public(work, plan)


def write_charges(plan: Plan, bundles: Iterable[Path]) -> None:
    """Beside each plan what the run costs at most: computed here, where the accountant is."""
    from network_dp.accounting.guarantee import charge_of
    from network_dp.ledger import write_charge

    charge = charge_of(plan)
    for bundle in bundles:
        write_charge(bundle / CHARGE, charge)


def _fill_data(bundle: Path, user: User, source: Path | None, *, copied: bool, ledgers: Path | None) -> None:
    data = None if source is None else str(source)
    if source is not None and copied:
        data = f"data{source.suffix}"
        shutil.copyfile(source, bundle / data)
        (bundle / data).chmod(0o600)
    kept = None if ledgers is None else ledgers.absolute() / user.name / FILE
    write_node_file(bundle, user.name, data, user.bind, kept)


def _share_public(work: Path, plan: Plan) -> None:
    for file in PUBLIC:
        source = work / "ca" / file if file == "ca.pem" else work / file
        source.chmod(0o444)
        for name in plan.names:
            source = share(source, user_folder(work, name) / file)
