"""Keys and certificates: who a user is, provable to peers, with no server to ask.

One P-256 key per user. Its certificate names the user three times: a URI (``network-dp://user/NAME``, read by the
receiver), a DNS name of its own (``NAME.users.network-dp.invalid``, demanded by the sender: two users may share a
host, never this name) and the host of its address (for ordinary TLS tools). The plan pins the SHA-256 of the public
key, so a certificate can be renewed but not swapped. A user's certificate also serves as its own trust root: a
sender trusts the receiver's certificate and no other.
"""

from __future__ import annotations

import ipaddress
import os
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_pem_private_key,
)
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from network_dp.errors import UserError
from node.pins import DNS_SUFFIX, pin

URI_PREFIX: Final = "network-dp://user/"
VALID_DAYS: Final = 365
#: Certificates are valid from a day before they are made: clocks of laptops are wrong by hours, not by days.
BACKDATED: Final = timedelta(days=1)

PrivateKey = ec.EllipticCurvePrivateKey
PublicKey = ec.EllipticCurvePublicKey


class IdentityError(UserError, ValueError):
    """A key, certificate or request that cannot be used; the message says which and why."""


def user_uri(name: str) -> str:
    """The name peers read in a caller's certificate."""
    return URI_PREFIX + name


def user_dns(name: str) -> str:
    """The name a sender demands of the receiver (``ssl_target_name_override``)."""
    return name + DNS_SUFFIX


def new_key() -> PrivateKey:
    return ec.generate_private_key(ec.SECP256R1())


def new_round_key(path: Path) -> str:
    """A new X25519 key for anonymous rounds, written for its owner only; returns its public part, hex."""
    key = X25519PrivateKey.generate()
    write_key(key, path)
    return round_pin(key)


def round_pin(key: X25519PrivateKey) -> str:
    """The public part as the plan pins it."""
    return key.public_key().public_bytes_raw().hex()


def read_round_key(path: Path) -> X25519PrivateKey:
    """The X25519 key in a file, or ``IdentityError``."""
    try:
        key = load_pem_private_key(path.read_bytes(), password=None)
    except (OSError, ValueError) as error:
        raise IdentityError(f"{path}: no key that can be read ({type(error).__name__}); make it anew") from None
    if not isinstance(key, X25519PrivateKey):
        raise IdentityError(f"{path}: not an X25519 key; make it anew")
    return key


def certificate_key(certificate: x509.Certificate) -> PublicKey:
    """The P-256 public key in a certificate, or ``IdentityError``."""
    key = certificate.public_key()
    if not isinstance(key, ec.EllipticCurvePublicKey) or not isinstance(key.curve, ec.SECP256R1):
        raise IdentityError("the certificate's key is not on the curve P-256")
    return key


def user_name(certificate: x509.Certificate) -> str:
    """The user a certificate names, from its URI, or ``IdentityError``."""
    try:
        names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except x509.ExtensionNotFound:
        raise IdentityError("the certificate names no user") from None
    uris = [uri for uri in names.get_values_for_type(x509.UniformResourceIdentifier) if uri.startswith(URI_PREFIX)]
    if len(uris) != 1:
        raise IdentityError(f"the certificate names {len(uris)} users, not one")
    return uris[0].removeprefix(URI_PREFIX)


def host_of(address: str) -> str:
    """HOST of "HOST:PORT" or "[IPv6]:PORT"."""
    return address.rsplit(":", 1)[0].strip("[]")


def _host_name(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        pass
    if not host.isascii():
        raise IdentityError(f'host "{host}": write it in ASCII (punycode), certificates take nothing else')
    return x509.DNSName(host)


def _key_usage(*, authority: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=not authority,
        key_cert_sign=authority,
        crl_sign=authority,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )


def _named(text: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text[:64])])


@dataclass(frozen=True, slots=True)
class Authority:
    """The signer of one plan's certificates; needed when signing, never at run time."""

    certificate: x509.Certificate
    key: PrivateKey

    @classmethod
    def new(cls, label: str, valid_days: float = VALID_DAYS) -> Authority:
        key, name, now = new_key(), _named(f"network-dp {label}"), datetime.now(UTC)
        builder = (
            x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number())
            .not_valid_before(now - BACKDATED)
            .not_valid_after(now + timedelta(days=valid_days))
            .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
            .add_extension(_key_usage(authority=True), critical=True)
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        )
        return cls(builder.sign(key, hashes.SHA256()), key)

    @classmethod
    def load(cls, folder: Path) -> Authority:
        """From FOLDER/ca.pem and FOLDER/ca.key."""
        certificate = x509.load_pem_x509_certificate((folder / "ca.pem").read_bytes())
        key = read_key(folder / "ca.key")
        if pin(key.public_key()) != pin(certificate_key(certificate)):
            raise IdentityError(f"{folder}: ca.key and ca.pem do not belong together")
        return cls(certificate, key)

    def save(self, folder: Path) -> None:
        folder.mkdir(mode=0o700)
        (folder / "ca.pem").write_bytes(certificate_pem(self.certificate))
        write_key(self.key, folder / "ca.key")

    def certify(self, name: str, host: str, key: PublicKey, valid_days: float = VALID_DAYS) -> x509.Certificate:
        """A certificate for user ``name`` reached at ``host``. The names are ours: a request's are never copied."""
        now = datetime.now(UTC)
        names: list[x509.GeneralName] = [
            x509.UniformResourceIdentifier(user_uri(name)),
            x509.DNSName(user_dns(name)),
            _host_name(host),
        ]
        uses = [ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH]
        issuer = x509.AuthorityKeyIdentifier.from_issuer_public_key(self.key.public_key())
        # An expired certificate (valid_days <= 0, for tests of refusals) still needs a start before its end.
        end = now + timedelta(days=valid_days)
        return (
            x509.CertificateBuilder(self.certificate.subject, _named(name), key, x509.random_serial_number())
            .not_valid_before(min(now, end) - BACKDATED)
            .not_valid_after(end)
            .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
            .add_extension(_key_usage(authority=False), critical=True)
            .add_extension(x509.ExtendedKeyUsage(uses), critical=False)
            .add_extension(x509.SubjectAlternativeName(names), critical=False)
            .add_extension(issuer, critical=False)
            .sign(self.key, hashes.SHA256())
        )


def certificate_pem(certificate: x509.Certificate) -> bytes:
    return certificate.public_bytes(Encoding.PEM)


def read_key(path: Path) -> PrivateKey:
    """A P-256 private key from a PEM file, or ``IdentityError``."""
    try:
        key = load_pem_private_key(path.read_bytes(), password=None)
    except (ValueError, TypeError) as error:
        raise IdentityError(f"{path}: not an unencrypted PEM private key ({error})") from None
    if not isinstance(key, ec.EllipticCurvePrivateKey) or not isinstance(key.curve, ec.SECP256R1):
        raise IdentityError(f"{path}: the key is not on the curve P-256")
    return key


def write_key(key: PrivateKey | X25519PrivateKey, path: Path) -> None:
    """A new file, readable by its owner from the first byte on; never over an existing one."""
    pem = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
        file.write(pem)
