"""A user's bundle, read and checked before anything starts: plan, identity, data.

Refusals name the file and what to do. No value of the data ever appears in one (THEORY.md#no-side-channel).
"""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat, load_pem_private_key

from network_dp import ledger
from network_dp.plan import Plan, PlanError, User
from network_dp.plan_reader import parse
from network_dp.untrusted import FormatError, read_text, toml
from node.errors import BundleError, LostDiskError
from node.pins import pin_of
from node.protocols.rounds import state as rounds
from node.protocols.rounds.pads import Pads
from node.protocols.rounds.speech import size_of
from node.protocols.walk.state import Context, Worker
from node.worker import BoundTask

LEAST_LEASE = 8  # rounds
_PEM = re.compile(rb"-----BEGIN CERTIFICATE-----.+?-----END CERTIFICATE-----\n?", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Public:
    """What all users share: the plan and everybody's certificates (PEM, in plan order)."""

    plan: Plan
    certificates: tuple[bytes, ...]
    pins: dict[str, int] = field(default_factory=dict)  # SHA-256 of a public key -> user


@dataclass(frozen=True, slots=True)
class Bundle:
    """One user's own part."""

    folder: Path
    public: Public
    name: str
    me: int
    key_pem: bytes
    certificate_pem: bytes
    ca_pem: bytes
    bind: str
    data: Path
    state: Path
    round_key: bytes = b""  # X25519, where the plan has anonymous rounds
    ledger: Path | None = None


def _read(path: Path) -> str:
    try:
        return read_text(path)
    except FormatError as error:
        raise BundleError(f"{path}: {error}") from None
    except OSError as error:
        raise BundleError(f"{path}: {error.strerror}. Provision the run again, or copy the whole bundle.") from None


def read_public(folder: Path) -> Public:
    """plan.toml and certificates.pem of a bundle or of a run directory; every certificate must match its pin."""
    try:
        plan = parse(_read(folder / "plan.toml"))
    except PlanError as error:
        raise BundleError(f"{folder / 'plan.toml'}: {error}") from None
    certificates = tuple(_PEM.findall(_read(folder / "certificates.pem").encode()))
    if len(certificates) != plan.n:
        raise BundleError(f"{folder / 'certificates.pem'}: {len(certificates)} certificates for {plan.n} users")
    pins: dict[str, int] = {}
    for index, user in enumerate(plan.users):
        if user.key is None:
            raise BundleError(f"{folder / 'plan.toml'}: {user.name} has no key: provision the plan first")
        pins[user.key] = index
    return Public(plan, certificates, pins)


def read_bundle(folder: Path, public: Public | None = None, *, rejoin: bool = False) -> Bundle:
    """Everything one user needs, or ``BundleError``. ``rejoin``: a lost disk may begin anew, as receiver only."""
    public = public or read_public(folder)
    try:
        values = toml(_read(folder / "node.toml"))
    except FormatError as error:
        raise BundleError(f"{folder / 'node.toml'}: {error}") from None
    unknown = values.keys() - {"name", "data", "bind", "ledger"}
    if unknown or "name" not in values or not all(isinstance(value, str) for value in values.values()):
        raise BundleError(f"{folder / 'node.toml'}: needs name, may have data, bind and ledger, nothing else")
    name = values["name"]
    try:
        me = public.plan.index(name)
    except ValueError:
        raise BundleError(f'{folder / "node.toml"}: name = "{name}" is not a user of the plan') from None
    user = public.plan.users[me]
    bundle = Bundle(
        folder=folder,
        public=public,
        name=name,
        me=me,
        key_pem=_read(folder / "key.pem").encode(),
        certificate_pem=_read(folder / "cert.pem").encode(),
        ca_pem=_read(folder / "ca.pem").encode(),
        bind=values.get("bind") or user.bind or user.address,
        data=folder / values.get("data", "data.csv"),
        state=folder / "state",
        round_key=b"" if not public.plan.walk.anonymous else _round_key(folder, user),
        ledger=folder / values["ledger"] if "ledger" in values else None,
    )
    _check_identity(bundle)
    _check_charged(bundle)
    if rejoin:
        bundle.state.mkdir(mode=0o700, exist_ok=True)
        (bundle.state / "born").touch()
    elif not (bundle.state / "born").exists():
        raise LostDiskError(
            f"{bundle.state}: not the disk this user's life began on. Restore it, or come back with --rejoin."
        )
    return bundle


def _round_key(folder: Path, user: User) -> bytes:
    """The key for anonymous rounds, which must be the one the plan pins."""
    path = folder / "round.pem"
    text = _read(path).encode()
    _check_mode(path)
    try:
        key = load_pem_private_key(text, password=None)
    except ValueError as error:
        raise BundleError(f"{path}: cannot be read ({error})") from None
    if not isinstance(key, X25519PrivateKey) or key.public_key().public_bytes_raw().hex() != user.round_key:
        raise BundleError(f"{path}: not the round key that the plan pins for {user.name}")
    return key.private_bytes_raw()


def _check_mode(path: Path) -> None:
    if path.stat().st_mode & 0o077:
        raise BundleError(f"{path} is readable by others: chmod 600 it")


def _check_identity(bundle: Bundle) -> None:
    _check_mode(bundle.folder / "key.pem")
    try:
        certificate = x509.load_pem_x509_certificate(bundle.certificate_pem)
        key = load_pem_private_key(bundle.key_pem, password=None)
    except ValueError as error:
        raise BundleError(f"{bundle.folder}: key.pem or cert.pem cannot be read ({error})") from None
    pinned = bundle.public.plan.users[bundle.me].key
    own = key.public_key().public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
    if pin_of(certificate) != pinned or hashlib.sha256(own).hexdigest() != pinned:
        raise BundleError(f"{bundle.folder}: key.pem and cert.pem are not the key the plan pins for {bundle.name}")
    if certificate.not_valid_after_utc <= datetime.now(UTC):
        ended = certificate.not_valid_after_utc.isoformat(timespec="seconds")
        raise BundleError(f"{bundle.folder / 'cert.pem'} has expired ({ended}): have it renewed for the same key")


def _check_charged(bundle: Bundle) -> None:
    """Who keeps a ledger takes part only in runs that it holds: charged before any token (THEORY.md#budget)."""
    if bundle.ledger is None:
        return
    try:
        charged = ledger.read(bundle.ledger).has(bundle.public.plan.run_id)
    except ledger.LedgerError as error:
        raise BundleError(str(error)) from None
    if not charged:
        raise BundleError(
            f"{bundle.ledger}: this run is not charged to {bundle.name}'s ledger: start it with `network-dp launch` or "
            "`network-dp node`, which charge it first"
        )


def context(plan: Plan, me: int, worker: Worker, *, noise_every_visit: bool) -> Context:
    """A walk as the protocol core sees it."""
    rule = replace(plan.noise_rule, by_ledger=False) if noise_every_visit else plan.noise_rule
    return Context(
        me=me,
        names=plan.names,
        run_id=plan.run_id,
        topology=plan.topology,
        rule=rule,
        release_all=plan.walk.release == "all",
        min_live=plan.walk.min_live,
        cap=plan.caps.contributions,
        edge_cap=plan.caps.edge,
        forward_past_cap=plan.caps.past == "forward",
        log_values=plan.walk.log_values,
        timing=plan.timing,
        worker=worker,
    )


def rounds_context(bundle: Bundle, worker: BoundTask, incarnation: int) -> rounds.Context:
    """Anonymous rounds as their core sees them. A round may take ``handoff_timeout_s``, as a token may elsewhere."""
    plan = bundle.public.plan
    assert plan.rounds is not None
    publics = tuple(bytes.fromhex(user.round_key or "") for user in plan.users)
    timing, beat_s = plan.timing, plan.rounds.beat_ms / 1000.0
    size = size_of(8 * worker.dimension + (rounds.COUNT_BYTES if plan.in_one_round else 0))
    try:
        pads = Pads(bundle.me, bundle.round_key, publics, plan.run_id, size)
    except ValueError:
        raise BundleError(f"{bundle.folder / 'plan.toml'}: a round key is not one: provision the plan again") from None
    return rounds.Context(
        me=bundle.me,
        names=plan.names,
        run_id=plan.run_id,
        publics=publics,
        private=bundle.round_key,
        pads=pads,
        quorum=max(plan.majority, plan.walk.min_live),
        total_steps=plan.total_steps,
        starter=plan.topology.starter,
        shufflers=plan.rounds.shufflers,
        beat_s=beat_s,
        block_s=beat_s + timing.handoff_timeout_s,
        answer_s=2 * (beat_s + timing.handoff_timeout_s),
        retry_s=timing.retry_max_s,
        linger_s=timing.linger_s,
        stall_s=timing.stall_timeout_s,
        lease=max(LEAST_LEASE, round(timing.lease_s / beat_s)),
        incarnation=incarnation,
        log_values=plan.walk.log_values,
        worker=worker,
        in_one_round=plan.in_one_round,
        attempts=plan.rounds.attempts,
    )
