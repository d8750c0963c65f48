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
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat, load_pem_private_key

from network_dp.plan import Plan, PlanError
from network_dp.plan_reader import parse
from network_dp.untrusted import FormatError, read_text, toml
from node.errors import BundleError, LostDiskError
from node.protocol.state import Context, Worker

DNS_SUFFIX = ".users.network-dp.invalid"
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


def spki_pin(certificate: x509.Certificate) -> str:
    """SHA-256 of the public key (SubjectPublicKeyInfo, DER), hex."""
    data = certificate.public_key().public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
    return hashlib.sha256(data).hexdigest()


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
    unknown = values.keys() - {"name", "data", "bind"}
    if unknown or "name" not in values or not all(isinstance(value, str) for value in values.values()):
        raise BundleError(f"{folder / 'node.toml'}: needs name, may have data and bind, nothing else")
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
    )
    _check_identity(bundle)
    if rejoin:
        bundle.state.mkdir(mode=0o700, exist_ok=True)
        (bundle.state / "born").touch()
    elif not (bundle.state / "born").exists():
        raise LostDiskError(
            f"{bundle.state}: not the disk this user's life began on. Restore it, or come back with --rejoin."
        )
    return bundle


def _check_identity(bundle: Bundle) -> None:
    mode = (bundle.folder / "key.pem").stat().st_mode
    if mode & 0o077:
        raise BundleError(f"{bundle.folder / 'key.pem'} is readable by others: chmod 600 it")
    try:
        certificate = x509.load_pem_x509_certificate(bundle.certificate_pem)
        key = load_pem_private_key(bundle.key_pem, password=None)
    except ValueError as error:
        raise BundleError(f"{bundle.folder}: key.pem or cert.pem cannot be read ({error})") from None
    pinned = bundle.public.plan.users[bundle.me].key
    own = key.public_key().public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
    if spki_pin(certificate) != pinned or hashlib.sha256(own).hexdigest() != pinned:
        raise BundleError(f"{bundle.folder}: key.pem and cert.pem are not the key the plan pins for {bundle.name}")
    if certificate.not_valid_after_utc <= datetime.now(UTC):
        ended = certificate.not_valid_after_utc.isoformat(timespec="seconds")
        raise BundleError(f"{bundle.folder / 'cert.pem'} has expired ({ended}): have it renewed for the same key")


def context(plan: Plan, me: int, worker: Worker, *, noise_every_visit: bool) -> Context:
    """The run as the protocol core sees it."""
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
