"""Why can this machine not take part? One check after the other, for every peer, in the words of what to do.

The checks go up the layers, and the first that fails explains the rest: the name resolves, the port answers, the
right key sits behind it, its certificate is valid now, the peer talks to us, it has the same plan, its clock agrees.
"""

from __future__ import annotations

import socket
import ssl
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

import grpc
from cryptography import x509

from coordinator_free_launcher.identity.certificates import IdentityError, certificate_pem, host_of, user_dns, user_name
from network_dp.plan import User
from node.app import moved
from node.config import Bundle, read_bundle
from node.pins import pin_of
from node.wire.v1 import peer_pb2 as pb
from node.wire.v1 import peer_pb2_grpc

ANSWER_S: Final = 5.0
#: Beyond this, times in logs of two machines can no longer be compared, and certificates expire at odd moments.
SKEW_S: Final = 30.0
SOON_S: Final = 7 * 86400.0


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """One check: about whom, what, whether it is fine, what was found, what to do."""

    user: str
    check: str
    fine: bool
    found: str
    remedy: str = ""


class _IllError(Exception):
    """A check failed; the checks above it make no sense."""

    def __init__(self, check: str, found: str, remedy: str) -> None:
        super().__init__(found)
        self.finding = (check, found, remedy)


def examine(folder: Path, answer_s: float = ANSWER_S) -> list[Diagnosis]:
    """All findings about the user of a bundle and its peers, in plan order; peers are asked at the same time.

    Where peers relay, nobody else needs to be reached."""
    bundle = read_bundle(folder)
    elsewhere = moved(bundle)
    users = bundle.public.plan.users
    places = [elsewhere.get(index, user.address) for index, user in enumerate(users)]
    met = [i for i, user in enumerate(users) if _meets(bundle, user)]
    with ThreadPoolExecutor(max_workers=min(32, len(users))) as pool:
        by_user = pool.map(lambda i: list(_examine_user(bundle, i, users[i], places[i], answer_s)), met)
        return [finding for findings in by_user for finding in findings]


def _meets(bundle: Bundle, user: User) -> bool:
    plan = bundle.public.plan
    return plan.walk.control != "relay" or user.name in (bundle.name, *(plan.users[bundle.me].peers or ()))


def _examine_user(bundle: Bundle, index: int, user: User, address: str, answer_s: float) -> Iterator[Diagnosis]:
    own = index == bundle.me
    checks: list[tuple[str, Callable[[], str]]] = [
        ("name", lambda: _name(user, address, own=own)),
        ("port", lambda: _port(user, address, answer_s, own=own)),
        ("certificate", lambda: _certificate(bundle, index, address, answer_s)),
        ("plan and clock", lambda: _status(bundle, index, address, answer_s)),
    ]
    for check, look in checks:
        try:
            yield Diagnosis(user.name, check, True, look())
        except _IllError as ill:
            yield Diagnosis(user.name, ill.finding[0], False, *ill.finding[1:])
            return


def _name(user: User, address: str, *, own: bool) -> str:
    host = host_of(address)
    try:
        found = {str(info[4][0]) for info in socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)}
    except OSError as error:
        raise _IllError(
            "name",
            f'"{host}" has no address here ({error.strerror or error})',
            f"ask {user.name} for its IP address and write it to addresses.toml in your bundle "
            f'({user.name} = "IP:PORT"), or add the name to your DNS or hosts file',
        ) from None
    local = all(text.startswith("127.") or text == "::1" for text in found)
    if local and not own and host not in found:
        raise _IllError(
            "name",
            f'"{host}" is this machine itself here ({", ".join(sorted(found))})',
            f"a hosts file maps the name to loopback; write {user.name}'s address to addresses.toml in your bundle",
        )
    return f"{host} is {', '.join(sorted(found))}"


def _port(user: User, address: str, answer_s: float, *, own: bool) -> str:
    host, port = host_of(address), int(address.rsplit(":", 1)[1])
    start = f"start {user.name} {'here' if own else 'there'} (network-dp launch DIR --only {user.name})"
    begin = time.monotonic()
    try:
        socket.create_connection((host, port), timeout=answer_s).close()
    except ConnectionRefusedError:
        raise _IllError(
            "port",
            f"the machine at {host} answers, but nothing listens on port {port}",
            f"{start}; if it runs, its port or bind address differs from the plan's {address}",
        ) from None
    except TimeoutError:
        raise _IllError(
            "port",
            f"no answer from {address} in {answer_s:g} s",
            f"is {user.name}'s machine on, on this network, and at this address? A firewall that drops packets "
            f"looks the same: allow TCP port {port} in on it",
        ) from None
    except OSError as error:
        raise _IllError(
            "port",
            f"no way to {address}: {error.strerror or error}",
            f"check your own network, and that {user.name}'s address is right (addresses.toml overrides the plan's)",
        ) from None
    return f"{address} answers in {1e3 * (time.monotonic() - begin):.0f} ms"


def _served(bundle: Bundle, index: int, address: str, answer_s: float) -> x509.Certificate:
    """The certificate shown at an address, whatever it is: it is looked at here, not trusted."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    context.set_alpn_protocols(["h2"])
    context.load_cert_chain(bundle.folder / "cert.pem", bundle.folder / "key.pem")
    host, port = host_of(address), int(address.rsplit(":", 1)[1])
    try:
        with (
            socket.create_connection((host, port), timeout=answer_s) as plain,
            context.wrap_socket(plain) as secure,
        ):
            return x509.load_der_x509_certificate(secure.getpeercert(binary_form=True) or b"")
    except (OSError, ValueError) as error:
        raise _IllError(
            "certificate",
            f"what listens at {address} does not speak TLS with us ({type(error).__name__})",
            f"another program may use that port; ask {bundle.public.plan.names[index]} which port its node listens on",
        ) from None


def _certificate(bundle: Bundle, index: int, address: str, answer_s: float) -> str:
    user = bundle.public.plan.users[index]
    certificate = _served(bundle, index, address, answer_s)
    shown = pin_of(certificate)
    if shown != user.key:
        raise _IllError("certificate", *_wrong_key(bundle, user, certificate, shown, address))
    now, soon = datetime.now(UTC), certificate.not_valid_after_utc
    if not certificate.not_valid_before_utc <= now <= soon:
        span = f"{certificate.not_valid_before_utc:%Y-%m-%d %H:%M} to {soon:%Y-%m-%d %H:%M} UTC"
        raise _IllError(
            "certificate",
            f"valid from {span}; your clock says {now:%Y-%m-%d %H:%M} UTC",
            "if your clock is wrong, set it; else have the cards signed again (network-dp sign keeps the pins)",
        )
    left_s = (soon - now).total_seconds()
    hint = "" if left_s > SOON_S else f"; only {left_s / 3600.0:.0f} hours left: have it signed again"
    return f"is {user.name}'s, valid until {soon:%Y-%m-%d}{hint}"


def _wrong_key(bundle: Bundle, user: User, certificate: x509.Certificate, shown: str, address: str) -> tuple[str, str]:
    """Who sits there instead, as far as can be told."""
    if shown in bundle.public.pins:
        other = bundle.public.plan.names[bundle.public.pins[shown]]
        return (
            f"{other} answers at {address}, not {user.name}",
            f"the address of {user.name} is wrong: ask for the right one and write it to addresses.toml in your bundle",
        )
    try:
        name = user_name(certificate)
    except IdentityError:
        name = "a program outside this run"
    return (
        f"{name} answers at {address} with a key the plan does not pin for {user.name}",
        f"{user.name} made a new key after its card was signed, runs another plan, or somebody sits in between: "
        "ask; if the key is new, sign all cards again",
    )


def _status(bundle: Bundle, index: int, address: str, answer_s: float) -> str:
    """Same plan, same time? Asked on the certificate shown there, renewed or not: its key was checked before."""
    name = bundle.public.plan.names[index]
    shown = _served(bundle, index, address, answer_s)
    if pin_of(shown) != bundle.public.plan.users[index].key:
        raise _IllError("certificate", f"{name} changed its key while being looked at", "run the doctor again")
    credentials = grpc.ssl_channel_credentials(certificate_pem(shown), bundle.key_pem, bundle.certificate_pem)
    options = [
        ("grpc.ssl_target_name_override", user_dns(name)),
        ("grpc.enable_http_proxy", 0),
        ("grpc.enable_retries", 0),
        ("grpc.use_local_subchannel_pool", 1),
    ]
    with grpc.secure_channel(address, credentials, options) as channel:
        before_s = time.time()
        try:
            answer = peer_pb2_grpc.PeerStub(channel).Status(pb.StatusRequest(), timeout=answer_s)
        except grpc.RpcError as error:
            raise _IllError("talk", *_refusal(name, error)) from None
        after_s = time.time()
    if answer.context.plan_hash.hex() != bundle.public.plan.hash:
        raise _IllError(
            "plan",
            f"{name} has another plan ({answer.context.plan_hash.hex()[:12]}, yours is {bundle.public.plan.hash[:12]})",
            "one of you has an old public folder: take the newest one (network-dp accept), on every machine",
        )
    if shown != x509.load_pem_x509_certificate(bundle.public.certificates[index]):
        raise _IllError(
            "certificate",
            f"{name} has a newer or older certificate than the one you know: you will not send to it",
            "certificates were signed again: take the newest public folder (network-dp accept), on every machine",
        )
    skew_s = answer.wall_time_s - (before_s + after_s) / 2.0
    if abs(skew_s) > SKEW_S + (after_s - before_s) / 2.0:
        ahead = "ahead of" if skew_s > 0 else "behind"
        raise _IllError(
            "clock",
            f"{name}'s clock is {abs(skew_s):,.0f} s {ahead} yours",
            "set the wrong one (switch on network time): certificates are checked against it",
        )
    return f"same plan, clocks within {abs(skew_s) + (after_s - before_s) / 2.0:.1f} s, {answer.phase}"


def _refusal(name: str, error: grpc.RpcError) -> tuple[str, str]:
    code = error.code()
    if code is grpc.StatusCode.PERMISSION_DENIED:
        return (
            f"{name} does not know your key",
            f"{name} has a plan with another key of yours: take the newest public folder, on both machines",
        )
    if code is grpc.StatusCode.DEADLINE_EXCEEDED:
        return f"{name} accepted the connection but does not answer", "its process hangs or is stopped: restart it"
    return (
        f"{name} breaks off the connection ({code.name})",
        f"{name} does not accept your certificate: its clock may be wrong, yours may have expired, or it trusts "
        "another signer; run the doctor on its machine too",
    )
