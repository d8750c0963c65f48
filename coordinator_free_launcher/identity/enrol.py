"""Users on machines of their own: no private key ever travels.

1. Each user, on its machine: ``keygen`` makes the key and a *card* (name, address, signing request), a public file.
2. One person, offline: ``sign`` takes the plan and all cards and writes the *public folder*: the finished plan with
   every key pinned, all certificates, the signer's certificate. It writes the names into the certificates itself:
   whatever a request asks for beyond its key is ignored.
3. Each user: ``accept`` takes the public folder, checks that the plan pins the key that lies here, and completes the
   bundle. Signer and cards are needed no more.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from dataclasses import replace as changed
from pathlib import Path

from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509.oid import NameOID

from coordinator_free_launcher.identity.bundle import (
    DATA_SUFFIXES,
    PUBLIC,
    ProvisionError,
    make_state,
    read_node_file,
    user_folder,
    write_node_file,
)
from coordinator_free_launcher.identity.certificates import (
    VALID_DAYS,
    Authority,
    IdentityError,
    PublicKey,
    certificate_key,
    certificate_pem,
    host_of,
    new_key,
    new_round_key,
    read_key,
    read_round_key,
    round_pin,
    user_name,
    write_key,
)
from coordinator_free_launcher.identity.finalise import finalise
from coordinator_free_launcher.identity.provision import published, write_charges
from network_dp.plan import Plan
from network_dp.plan_reader import ADDRESS_ALLOWED, HEX_32, NAME, dump, is_address, load, parse
from network_dp.untrusted import FormatError, read_text, toml
from node.pins import pin

CARD_SCHEMA = "network-dp/card/1"
CARD_MAX = 1 << 16  # bytes


@dataclass(frozen=True, slots=True)
class Card:
    """What a user tells the signer: who it is, where it is reached, and a request that proves it has the key."""

    name: str
    address: str
    request: str
    round_key: str = ""  # public part of its key for anonymous rounds, hex

    def write(self, path: Path) -> None:
        values = {"schema": CARD_SCHEMA, "name": self.name, "address": self.address, "request": self.request}
        values["round_key"] = self.round_key
        path.write_text("".join(f"{key} = {json.dumps(value)}\n" for key, value in values.items()))

    @classmethod
    def read(cls, path: Path) -> Card:
        try:
            values = toml(read_text(path, CARD_MAX))
        except OSError as error:
            raise IdentityError(f"{path}: {error.strerror}") from None
        except FormatError:
            raise IdentityError(f"{path}: not a card (made by `network-dp keygen`)") from None
        fields = [values.pop(key, None) for key in ("schema", "name", "address", "request")]
        fields.append(values.pop("round_key", ""))
        if fields[0] != CARD_SCHEMA or values or not all(isinstance(field, str) for field in fields):
            raise IdentityError(f"{path}: not a card (made by `network-dp keygen`)")
        return cls(*fields[1:])

    def key(self) -> PublicKey:
        """The public key of the request, whose signature shows that its owner has the private one."""
        try:
            request = x509.load_pem_x509_csr(self.request.encode())
            sound = request.is_signature_valid
        except ValueError:
            sound = False
        if not sound:
            raise IdentityError(f"the card of {self.name}: its signing request is damaged or not signed by its key")
        key = request.public_key()
        if not isinstance(key, ec.EllipticCurvePublicKey) or not isinstance(key.curve, ec.SECP256R1):
            raise IdentityError(f"the card of {self.name}: its key is not on the curve P-256")
        return key


def check_own(name: str, data: Path | None) -> None:
    """Refuse a name that no plan can have, and data that no user can read."""
    if not NAME.fullmatch(name):
        raise IdentityError(f'name "{name}": must be lower-case letters, digits and dashes, at most 63')
    if data is not None and not data.is_file():
        raise IdentityError(f"{data}: no such file (the data of {name})")
    if data is not None and data.suffix not in DATA_SUFFIXES:
        raise IdentityError(f"{data}: must be a table: {', '.join(DATA_SUFFIXES)} (the data of {name})")


def keygen(
    name: str,
    address: str,
    root: Path,
    bind: str | None = None,
    data: Path | None = None,
    ledger: Path | None = None,
) -> Path:
    """Make the key of user ``name`` in ROOT/users/NAME and its card ROOT/NAME.card; returns the card.

    ``ledger``: the file in which this user keeps what all its runs cost."""
    check_own(name, data)
    for label, value in (("address", address), ("bind", bind)):
        if value is not None and not is_address(value):
            raise IdentityError(f'{label} "{value}": {ADDRESS_ALLOWED}')
    bundle = user_folder(root, name)
    if bundle.exists():
        raise ProvisionError(f"{bundle} exists: keys and state are never overwritten")
    bundle.mkdir(parents=True, mode=0o700)
    key = new_key()
    write_key(key, bundle / "key.pem")
    write_node_file(bundle, name, None if data is None else str(data.absolute()), bind, ledger)
    make_state(bundle, name)
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    request = x509.CertificateSigningRequestBuilder(subject).sign(key, hashes.SHA256())
    card = root / f"{name}.card"
    round_key = new_round_key(bundle / "round.pem")
    Card(name, address, request.public_bytes(Encoding.PEM).decode(), round_key).write(card)
    return card


def sign(plan: Plan, cards: Sequence[Card], out: Path, valid_days: float = VALID_DAYS) -> Path:
    """Finish the plan for the users of the cards; returns OUT/public, the folder everybody gets.

    OUT/ca keeps the signer for renewals; it must stay with the person who signs.
    """
    keys = _keys(plan, cards)
    addresses = {card.name: card.address for card in cards}
    users = tuple(changed(user, address=addresses[user.name]) for user in plan.users)
    placed = finalise(parse(dump(changed(plan, users=users))))  # checked again: addresses must be sound and differ
    if (out / "public").exists():
        raise ProvisionError(f"{out / 'public'} exists; give a new folder, or remove it to sign again")
    if (out / "ca").exists():
        authority = Authority.load(out / "ca")
    else:
        authority = Authority.new(plan.name, valid_days)
        out.mkdir(parents=True, exist_ok=True)
        authority.save(out / "ca")
    final = published(placed, {name: pin(key) for name, key in keys.items()}, _round_keys(plan, cards))
    certificates = [
        authority.certify(user.name, host_of(user.address), keys[user.name], valid_days) for user in final.users
    ]
    public = out / "public"
    public.mkdir()
    (public / "certificates.pem").write_bytes(b"".join(map(certificate_pem, certificates)))
    (public / "ca.pem").write_bytes(certificate_pem(authority.certificate))
    (public / "plan.toml").write_text(dump(final))
    return public


def _keys(plan: Plan, cards: Sequence[Card]) -> dict[str, PublicKey]:
    """The key of every user of the plan: one card each, no stranger, no key twice."""
    keys: dict[str, PublicKey] = {}
    owners: dict[str, str] = {}
    for card in cards:
        if card.name not in plan.names:
            raise IdentityError(f"the card of {card.name}: the plan has no such user; it has {', '.join(plan.names)}")
        if card.name in keys:
            raise IdentityError(f"two cards of {card.name}: ask which one is right")
        key = card.key()
        other = owners.setdefault(pin(key), card.name)
        if other != card.name:
            raise IdentityError(f"the cards of {other} and {card.name} hold the same key: each user makes its own")
        keys[card.name] = key
    missing = [name for name in plan.names if name not in keys]
    if missing:
        raise IdentityError(f"no card of {', '.join(missing)}: every user of the plan needs one")
    return keys


def _round_keys(plan: Plan, cards: Sequence[Card]) -> dict[str, str]:
    """The round key of every user, where the plan has anonymous rounds."""
    if not plan.walk.anonymous:
        return {}
    for card in cards:
        if not HEX_32.fullmatch(card.round_key):
            raise IdentityError(f"the card of {card.name} has no round key: make it anew with `network-dp keygen`")
    return {card.name: card.round_key for card in cards}


def read_signed(public: Path) -> Plan:
    """The plan of a public folder, whose files are all there."""
    for file in PUBLIC:
        if not (public / file).is_file():
            raise IdentityError(f"{public / file} is missing: copy the whole folder that `network-dp sign` wrote")
    plan = load(public / "plan.toml")
    if not plan.noise.calibrated or any(user.key is None for user in plan.users):
        raise IdentityError(f"{public / 'plan.toml'}: not a plan that `network-dp sign` finished")
    return plan


def accept(public: Path, root: Path, *, replace: bool = False) -> list[str]:
    """Complete the bundles in ROOT/users with the public folder; returns the names of the users that live here.

    A user that accepted another plan before keeps it, unless ``replace``.
    """
    plan = read_signed(public)
    try:
        certificates = x509.load_pem_x509_certificates(read_text(public / "certificates.pem").encode())
        authority = x509.load_pem_x509_certificate(read_text(public / "ca.pem").encode())
    except ValueError:
        raise IdentityError(f"{public}: certificates.pem or ca.pem holds no certificates; copy it again") from None
    if [user_name(certificate) for certificate in certificates] != list(plan.names):
        raise IdentityError(f"{public}: the certificates are not those of the plan's users, in its order")
    own = {name: user_folder(root, name) for name in plan.names if (user_folder(root, name) / "key.pem").is_file()}
    if not own:
        raise IdentityError(f"{root / 'users'} holds no key of a user of this plan ({', '.join(plan.names)})")
    for name, bundle in own.items():
        _check_own(plan, certificates[plan.index(name)], authority, name, bundle)
        if not replace and (bundle / "plan.toml").exists() and load(bundle / "plan.toml").hash != plan.hash:
            raise ProvisionError(
                f"{name} has accepted another plan before ({bundle / 'plan.toml'}): to replace it, give --replace"
            )
    for name, bundle in own.items():
        for file in PUBLIC:
            shutil.copyfile(public / file, bundle / file)
        (bundle / "cert.pem").write_bytes(certificate_pem(certificates[plan.index(name)]))
    for file in ("plan.toml", "certificates.pem"):
        shutil.copyfile(public / file, root / file)
    counted = [bundle for bundle in own.values() if read_node_file(bundle).ledger is not None]
    if counted:
        write_charges(plan, counted)
    return list(own)


def own_data(plan: Plan, root: Path) -> dict[str, Path]:
    """The data files, as far as they are there, of the plan's users that live in ROOT."""
    files = {}
    for name in plan.names:
        bundle = user_folder(root, name)
        if (bundle / "node.toml").is_file():
            path = bundle / (read_node_file(bundle).data or "data.csv")
            if path.is_file():
                files[name] = path
    return files


def _check_own(plan: Plan, certificate: x509.Certificate, authority: x509.Certificate, name: str, bundle: Path) -> None:
    here, pinned = pin(read_key(bundle / "key.pem").public_key()), plan.users[plan.index(name)].key
    if not here == pinned == pin(certificate_key(certificate)):
        raise IdentityError(f"the plan pins another key for {name} than the one in {bundle}: was another card signed?")
    if plan.walk.anonymous:
        drawn = round_pin(read_round_key(bundle / "round.pem"))
        if drawn != plan.users[plan.index(name)].round_key:
            raise IdentityError(f"the plan pins another round key for {name} than the one in {bundle}")
    try:
        certificate.verify_directly_issued_by(authority)
    except (ValueError, TypeError, InvalidSignature) as error:
        raise IdentityError(f"the certificate of {name} is not signed by ca.pem ({type(error).__name__})") from None
    begun = [path.name for path in (bundle / "state").iterdir() if path.name != "born"]
    if begun and (bundle / "plan.toml").exists() and load(bundle / "plan.toml").hash != plan.hash:
        raise ProvisionError(f"{bundle} has begun a run of another plan: make a new folder for the new one")
