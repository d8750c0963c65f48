"""What a certificate says, and what real gRPC makes of it."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterator
from concurrent import futures
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import grpc
import pytest
from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import ExtendedKeyUsageOID
from grpc_health.v1 import health, health_pb2, health_pb2_grpc

from coordinator_free_launcher.identity.certificates import (
    Authority,
    IdentityError,
    PrivateKey,
    certificate_pem,
    host_of,
    new_key,
    read_key,
    user_dns,
    user_name,
    user_uri,
    write_key,
)
from node.pins import pin

ANSWER_S = 5.0


@dataclass(frozen=True)
class Person:
    name: str
    key: PrivateKey
    certificate: x509.Certificate

    @property
    def pem(self) -> bytes:
        return certificate_pem(self.certificate)

    @property
    def pair(self) -> tuple[bytes, bytes]:
        return self.key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()), self.pem


def person(authority: Authority, name: str, host: str = "127.0.0.1", valid_days: float = 1.0) -> Person:
    key = new_key()
    return Person(name, key, authority.certify(name, host, key.public_key(), valid_days))


@contextmanager
def serving(who: Person, roots: bytes) -> Iterator[int]:
    server = grpc.server(futures.ThreadPoolExecutor(2), options=[("grpc.so_reuseport", 0)])
    health_pb2_grpc.add_HealthServicer_to_server(health.HealthServicer(), server)
    port = server.add_secure_port(
        "127.0.0.1:0", grpc.ssl_server_credentials([who.pair], roots, require_client_auth=True)
    )
    server.start()
    try:
        yield port
    finally:
        server.stop(None).wait(ANSWER_S)


def call(port: int, caller: Person, trusts: Person) -> grpc.StatusCode:
    """Ask the server at ``port``, as a sender does: the receiver's own certificate is the only root."""
    credentials = grpc.ssl_channel_credentials(trusts.pem, *caller.pair)
    options = [
        ("grpc.ssl_target_name_override", user_dns(trusts.name)),
        ("grpc.enable_http_proxy", 0),
        ("grpc.use_local_subchannel_pool", 1),
    ]
    with grpc.secure_channel(f"ipv4:127.0.0.1:{port}", credentials, options) as channel:
        try:
            health_pb2_grpc.HealthStub(channel).Check(health_pb2.HealthCheckRequest(), timeout=ANSWER_S)
        except grpc.RpcError as error:
            return error.code()
        return grpc.StatusCode.OK


@pytest.fixture(scope="module")
def authority() -> Authority:
    return Authority.new("tests")


def test_a_certificate_names_its_user_by_uri_dns_and_address(authority: Authority) -> None:
    names = person(authority, "anna", "10.1.2.3").certificate.extensions.get_extension_for_class(
        x509.SubjectAlternativeName
    )
    assert list(names.value) == [
        x509.UniformResourceIdentifier("network-dp://user/anna"),
        x509.DNSName("anna.users.network-dp.invalid"),
        x509.IPAddress(ipaddress.ip_address("10.1.2.3")),
    ]


def test_a_host_name_becomes_a_dns_name(authority: Authority) -> None:
    names = person(authority, "anna", "laptop.local").certificate.extensions.get_extension_for_class(
        x509.SubjectAlternativeName
    )
    assert names.value.get_values_for_type(x509.DNSName) == [user_dns("anna"), "laptop.local"]


@pytest.mark.parametrize(
    ("address", "host"), [("a.b:1", "a.b"), ("10.0.0.1:99", "10.0.0.1"), ("[fe80::1]:5", "fe80::1")]
)
def test_the_host_of_an_address(address: str, host: str) -> None:
    assert host_of(address) == host


def test_a_user_may_serve_and_call_but_not_sign(authority: Authority) -> None:
    extensions = person(authority, "anna").certificate.extensions
    uses = extensions.get_extension_for_class(x509.ExtendedKeyUsage).value
    assert set(uses) == {ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH}
    assert not extensions.get_extension_for_class(x509.BasicConstraints).value.ca
    assert not extensions.get_extension_for_class(x509.KeyUsage).value.key_cert_sign
    signer = authority.certificate.extensions
    assert signer.get_extension_for_class(x509.BasicConstraints).value.ca
    assert signer.get_extension_for_class(x509.KeyUsage).value.key_cert_sign


def test_the_name_is_read_back_from_the_certificate(authority: Authority) -> None:
    assert user_name(person(authority, "anna").certificate) == "anna"
    assert user_uri("anna") == "network-dp://user/anna"
    with pytest.raises(IdentityError, match="names no user"):
        user_name(authority.certificate)


def test_renewal_keeps_the_pin(authority: Authority) -> None:
    key = new_key()
    first, second = (authority.certify("anna", "h", key.public_key()) for _ in range(2))
    assert first.serial_number != second.serial_number
    assert pin(key.public_key()) == pin(first.public_key()) == pin(second.public_key())  # type: ignore[arg-type]


def test_a_private_key_is_never_written_over(tmp_path: Path) -> None:
    key = new_key()
    write_key(key, tmp_path / "key.pem")
    assert (tmp_path / "key.pem").stat().st_mode & 0o777 == 0o600
    assert pin(read_key(tmp_path / "key.pem").public_key()) == pin(key.public_key())
    with pytest.raises(FileExistsError):
        write_key(new_key(), tmp_path / "key.pem")


def test_an_authority_whose_key_is_not_its_own_is_refused(tmp_path: Path) -> None:
    Authority.new("one").save(tmp_path / "one")
    Authority.new("two").save(tmp_path / "two")
    (tmp_path / "two" / "ca.pem").replace(tmp_path / "one" / "ca.pem")
    with pytest.raises(IdentityError, match="do not belong together"):
        Authority.load(tmp_path / "one")


def test_grpc_accepts_the_right_user_on_its_own_certificate_as_root(authority: Authority) -> None:
    anna, bert = person(authority, "anna"), person(authority, "bert")
    with serving(bert, certificate_pem(authority.certificate)) as port:
        assert call(port, caller=anna, trusts=bert) == grpc.StatusCode.OK


def test_grpc_refuses_another_user_at_that_address(authority: Authority) -> None:
    """Same authority, same host, own valid certificate: still not the user the sender means."""
    anna, bert, carl = (person(authority, name) for name in ("anna", "bert", "carl"))
    with serving(carl, certificate_pem(authority.certificate)) as port:
        assert call(port, caller=anna, trusts=bert) == grpc.StatusCode.UNAVAILABLE


def test_grpc_refuses_another_key_with_the_same_names(authority: Authority) -> None:
    """Even an authority gone bad cannot put another key in a user's place: only the pinned certificate is trusted."""
    anna, bert, impostor = person(authority, "anna"), person(authority, "bert"), person(authority, "bert")
    with serving(impostor, certificate_pem(authority.certificate)) as port:
        assert call(port, caller=anna, trusts=bert) == grpc.StatusCode.UNAVAILABLE


def test_grpc_refuses_an_expired_receiver(authority: Authority) -> None:
    anna, bert = person(authority, "anna"), person(authority, "bert", valid_days=-0.001)
    with serving(bert, certificate_pem(authority.certificate)) as port:
        assert call(port, caller=anna, trusts=bert) == grpc.StatusCode.UNAVAILABLE


def test_grpc_refuses_an_expired_caller(authority: Authority) -> None:
    anna, bert = person(authority, "anna", valid_days=-0.001), person(authority, "bert")
    with serving(bert, certificate_pem(authority.certificate)) as port:
        assert call(port, caller=anna, trusts=bert) == grpc.StatusCode.UNAVAILABLE


def test_grpc_refuses_a_caller_of_another_authority(authority: Authority) -> None:
    stranger, bert = person(Authority.new("other"), "anna"), person(authority, "bert")
    with serving(bert, certificate_pem(authority.certificate)) as port:
        assert call(port, caller=stranger, trusts=bert) == grpc.StatusCode.UNAVAILABLE
