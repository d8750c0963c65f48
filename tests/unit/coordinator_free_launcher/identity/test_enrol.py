"""Keys made where they are used, signed elsewhere: no private key travels, no request chooses its names."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509.oid import NameOID
from typer.testing import CliRunner

from coordinator_free_launcher.cli.app import app
from coordinator_free_launcher.identity.bundle import ProvisionError
from coordinator_free_launcher.identity.certificates import IdentityError, read_key, user_name
from coordinator_free_launcher.identity.enrol import Card, accept, keygen, sign
from network_dp.plan_reader import dump, parse
from node.config import read_bundle
from node.pins import pin

NAMES = ("user-0", "user-1", "user-2")


@pytest.fixture
def cards(tmp_path: Path) -> list[Card]:
    """Three machines, each with its own folder and key."""
    paths = [keygen(name, f"10.9.0.{i + 1}:7000", tmp_path / f"machine-{i}") for i, name in enumerate(NAMES)]
    return [Card.read(path) for path in paths]


def request(key: ec.EllipticCurvePrivateKey, common_name: str) -> str:
    greedy = (
        x509.CertificateSigningRequestBuilder(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common_name)]))
        .add_extension(x509.SubjectAlternativeName([x509.UniformResourceIdentifier("network-dp://user/user-0")]), False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), True)
    )
    return greedy.sign(key, hashes.SHA256()).public_bytes(Encoding.PEM).decode()


def test_three_machines_end_with_usable_bundles(make_plan: Any, tmp_path: Path, cards: list[Card]) -> None:
    public = sign(make_plan(), cards, tmp_path / "signer")
    for i, name in enumerate(NAMES):
        assert accept(public, tmp_path / f"machine-{i}") == [name]
        (tmp_path / f"machine-{i}/users/{name}/data.csv").write_text("0.5\n")
        bundle = read_bundle(tmp_path / f"machine-{i}/users/{name}")
        assert (bundle.name, bundle.public.plan.users[i].address) == (name, f"10.9.0.{i + 1}:7000")


def test_no_private_key_travels(make_plan: Any, tmp_path: Path, cards: list[Card]) -> None:
    public = sign(make_plan(), cards, tmp_path / "signer")
    sent = [*public.iterdir(), *tmp_path.glob("machine-*/*.card")]
    assert len(sent) == 6
    assert not [path for path in sent if "PRIVATE KEY" in path.read_text()]
    assert (tmp_path / "machine-0/users/user-0/key.pem").stat().st_mode & 0o777 == 0o600


def test_the_names_a_request_asks_for_are_ignored(make_plan: Any, tmp_path: Path, cards: list[Card]) -> None:
    key = ec.generate_private_key(ec.SECP256R1())
    greedy = Card("user-1", "10.9.0.2:7000", request(key, "user-0"))
    public = sign(make_plan(), [cards[0], greedy, cards[2]], tmp_path / "signer")
    certificate = x509.load_pem_x509_certificates((public / "certificates.pem").read_bytes())[1]
    assert user_name(certificate) == "user-1"
    assert not certificate.extensions.get_extension_for_class(x509.BasicConstraints).value.ca
    assert parse((public / "plan.toml").read_text()).users[1].key == pin(key.public_key())


def test_a_request_not_signed_by_its_key_is_refused(make_plan: Any, tmp_path: Path, cards: list[Card]) -> None:
    """Somebody else's public key under one's own name: no proof of the private key, no certificate."""
    pem = cards[1].request.splitlines()
    middle = len(pem) - 3
    pem[middle] = pem[middle][:-4] + ("AAAA" if not pem[middle].endswith("AAAA") else "BBBB")
    broken = replace(cards[1], request="\n".join(pem) + "\n")
    with pytest.raises(IdentityError, match=r"card of user-1.*damaged or not signed"):
        sign(make_plan(), [cards[0], broken, cards[2]], tmp_path / "signer")


def test_missing_double_and_foreign_cards_are_named(make_plan: Any, tmp_path: Path, cards: list[Card]) -> None:
    with pytest.raises(IdentityError, match="no card of user-2"):
        sign(make_plan(), cards[:2], tmp_path / "s")
    with pytest.raises(IdentityError, match="two cards of user-0"):
        sign(make_plan(), [*cards, cards[0]], tmp_path / "s")
    with pytest.raises(IdentityError, match="no such user"):
        sign(make_plan(), [*cards[:2], replace(cards[2], name="mallory")], tmp_path / "s")
    with pytest.raises(IdentityError, match="hold the same key"):
        sign(make_plan(), [*cards[:2], replace(cards[1], name="user-2")], tmp_path / "s")
    assert not (tmp_path / "s").exists()


def test_a_plan_that_pins_another_key_is_not_accepted(make_plan: Any, tmp_path: Path, cards: list[Card]) -> None:
    keygen("user-0", "10.9.0.1:7000", tmp_path / "new-machine")
    public = sign(make_plan(), cards, tmp_path / "signer")
    with pytest.raises(IdentityError, match="pins another key for user-0"):
        accept(public, tmp_path / "new-machine")
    assert not (tmp_path / "new-machine/users/user-0/plan.toml").exists()


def test_a_certificate_of_another_signer_is_not_accepted(make_plan: Any, tmp_path: Path, cards: list[Card]) -> None:
    public = sign(make_plan(), cards, tmp_path / "signer")
    other = sign(make_plan(), cards, tmp_path / "other")
    (other / "ca.pem").replace(public / "ca.pem")
    with pytest.raises(IdentityError, match=r"not signed by ca\.pem"):
        accept(public, tmp_path / "machine-0")


def test_a_begun_run_is_not_given_another_plan(make_plan: Any, tmp_path: Path, cards: list[Card]) -> None:
    accept(sign(make_plan(), cards, tmp_path / "signer"), tmp_path / "machine-0")
    (tmp_path / "machine-0/users/user-0/state/journal").write_text("begun")
    other = sign(make_plan(noise={"sigma": 9.0}), cards, tmp_path / "signer-2")
    with pytest.raises(ProvisionError, match="begun a run of another plan"):
        accept(other, tmp_path / "machine-0")


def test_signing_again_renews_certificates_and_keeps_pins(make_plan: Any, tmp_path: Path, cards: list[Card]) -> None:
    first = sign(make_plan(), cards, tmp_path / "signer").rename(tmp_path / "first")
    second = sign(make_plan(), cards, tmp_path / "signer")
    assert parse((first / "plan.toml").read_text()).hash == parse((second / "plan.toml").read_text()).hash
    assert (first / "ca.pem").read_bytes() == (second / "ca.pem").read_bytes()
    assert (first / "certificates.pem").read_bytes() != (second / "certificates.pem").read_bytes()


def test_a_second_keygen_never_replaces_a_key(tmp_path: Path) -> None:
    keygen("anna", "10.0.0.1:7000", tmp_path)
    before = pin(read_key(tmp_path / "users/anna/key.pem").public_key())
    with pytest.raises(ProvisionError, match="never overwritten"):
        keygen("anna", "10.0.0.1:7000", tmp_path)
    assert pin(read_key(tmp_path / "users/anna/key.pem").public_key()) == before


@pytest.mark.parametrize(("name", "address"), [("Anna", "h:1"), ("anna", "h"), ("anna", "h:0"), ("anna", ":7000")])
def test_nonsense_is_refused_before_a_key_is_made(tmp_path: Path, name: str, address: str) -> None:
    with pytest.raises(IdentityError):
        keygen(name, address, tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_a_file_that_is_no_card_is_refused(tmp_path: Path) -> None:
    (tmp_path / "x.card").write_text(json.dumps({"a": 1}))
    with pytest.raises(IdentityError, match="not a card"):
        Card.read(tmp_path / "x.card")
    (tmp_path / "y.card").write_text('schema = "network-dp/card/1"\nname = "a"\n')
    with pytest.raises(IdentityError, match="not a card"):
        Card.read(tmp_path / "y.card")


def test_the_commands_say_what_to_do_next(make_plan: Any, tmp_path: Path) -> None:
    def run(*arguments: str) -> str:
        result = CliRunner().invoke(app, list(arguments))
        assert result.exit_code == 0, result.output
        return " ".join(result.output.split())

    (tmp_path / "plan.toml").write_text(dump(make_plan()))
    for i, name in enumerate(NAMES):
        folder = str(tmp_path / name)
        assert "Send" in run("keygen", name, "--address", f"10.0.0.{i + 1}:7000", "--dir", folder)
    cards = [str(tmp_path / name / f"{name}.card") for name in NAMES]
    assert "keep" in run("sign", str(tmp_path / "plan.toml"), *cards, "--out", str(tmp_path / "signed"))
    said = run("accept", str(tmp_path / "signed" / "public"), "--dir", str(tmp_path / "user-1"))
    assert said.endswith("--only user-1")


def call(*arguments: str | Path) -> tuple[int, str]:
    result = CliRunner().invoke(app, [str(argument) for argument in arguments])
    return result.exit_code, result.output


def test_accept_shows_what_the_user_agrees_to(make_plan: Any, tmp_path: Path, cards: list[Card]) -> None:
    plan = make_plan(task={"kind": "mean", "lower": 18.0, "upper": 99.0}, noise={"epsilon": 2.0, "delta": 1e-7})
    code, said = call("accept", sign(plan, cards, tmp_path / "signer"), "--dir", tmp_path / "machine-0")
    assert code == 0
    lines = dict(line.split(None, 1) for line in said.splitlines())
    assert lines["task"] == 'mean, rows = "average"' and lines["bounds"] == "[18, 99]"
    assert lines["epsilon"].startswith("2 towards any one user") and lines["delta"] == "1e-07"
    assert lines["topology"].startswith("ring, 2 rounds; the result goes to everybody")
    assert lines["users"] == "3: user-0, user-1, user-2"


def test_accept_replaces_a_plan_only_when_told(make_plan: Any, tmp_path: Path, cards: list[Card]) -> None:
    mild, harsh = (
        sign(make_plan(noise={"epsilon": epsilon}), cards, tmp_path / f"signer-{epsilon}") for epsilon in (2.0, 20.0)
    )
    machine = tmp_path / "machine-0"
    accept(mild, machine)
    before = {path: path.read_bytes() for path in machine.rglob("*") if path.is_file()}
    code, said = call("accept", harsh, "--dir", machine)
    assert code == 2 and "user-0 has accepted another plan before" in said and "--replace" in said
    assert "20 towards any one user" in said, "what would have been agreed to"
    assert {path: path.read_bytes() for path in machine.rglob("*") if path.is_file()} == before
    assert call("accept", mild, "--dir", machine)[0] == 0, "the same plan again, for instance with new certificates"
    assert call("accept", harsh, "--dir", machine, "--replace")[0] == 0
    assert (machine / "plan.toml").read_bytes() == (harsh / "plan.toml").read_bytes()


def test_accept_looks_at_the_users_own_data(make_plan: Any, tmp_path: Path, cards: list[Card]) -> None:
    public, data = sign(make_plan(), cards, tmp_path / "signer"), tmp_path / "machine-0/users/user-0/data.csv"
    data.write_text("0.5,1\n")
    code, said = call("accept", public, "--dir", tmp_path / "machine-0")
    assert code == 2 and "data.csv: has 2 columns, the plan needs 1" in said
    data.write_text("0.5\n41.5\n")
    code, said = call("accept", public, "--dir", tmp_path / "machine-0")
    assert code == 0 and "warning: 1 of 2 values lie outside the public bounds [0, 1]" in said


def test_a_plan_that_nobody_signed_is_not_accepted(make_plan: Any, tmp_path: Path, cards: list[Card]) -> None:
    public = sign(make_plan(), cards, tmp_path / "signer")
    (public / "plan.toml").write_text(dump(make_plan(noise={"epsilon": 1.0})))
    code, said = call("accept", public, "--dir", tmp_path / "machine-0")
    assert code == 2 and "not a plan that `network-dp sign` finished" in said
