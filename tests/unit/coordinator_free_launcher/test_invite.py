"""Joining by a code: real sockets, real keys; a wrong code gets one guess and learns nothing."""

from __future__ import annotations

import re
import socket
import threading
from pathlib import Path

import pytest
from typer.testing import CliRunner

from coordinator_free_launcher.cli.app import app
from coordinator_free_launcher.identity.channel import InvitationError, Opening, new_code
from coordinator_free_launcher.identity.enrol import accept, keygen
from coordinator_free_launcher.identity.invite import HELLO_MAX, WRONG_CODES, Joining, invite
from network_dp.plan_reader import from_dict

NAMES = ("anna", "bert", "carl")


def plan():
    users = [{"name": name, "address": f"{name}.invalid:7000"} for name in NAMES]
    walk, noise = {"topology": "ring", "rounds": 2}, {"epsilon": 5.0}
    return from_dict({"name": "lunch", "walk": walk, "task": {"kind": "mean"}, "noise": noise, "users": users})


def pair(one: str, other: str):
    a, b = Opening(one, "invite"), Opening(other, "join")
    return a.channel(b.message), b.channel(a.message)


def test_the_same_code_opens_messages_in_order_and_each_once() -> None:
    inviter, joiner = pair("1234-5678", "12345678")
    first, second = joiner.seal(b"first"), joiner.seal(b"second")
    assert (inviter.open(first), inviter.open(second)) == (b"first", b"second")
    with pytest.raises(InvitationError):
        inviter.open(second)
    assert joiner.open(inviter.seal(b"back")) == b"back"


def test_another_code_or_a_changed_message_opens_nothing() -> None:
    inviter, joiner = pair("1234-5678", "1234-5679")
    with pytest.raises(InvitationError, match="code"):
        inviter.open(joiner.seal(b"card"))
    inviter, joiner = pair("1", "1")
    sealed = bytearray(joiner.seal(b"card"))
    sealed[3] ^= 1
    with pytest.raises(InvitationError):
        inviter.open(bytes(sealed))


def test_a_first_message_that_is_none_is_refused() -> None:
    for wrong in (b"", b"A" * 33, b"x" * HELLO_MAX):
        with pytest.raises(InvitationError):
            Opening("1", "join").channel(wrong)


def test_codes_are_eight_random_digits() -> None:
    codes = {new_code() for _ in range(50)}
    assert len(codes) == 50 and all(re.fullmatch(r"\d{4}-\d{4}", code) for code in codes)


class Running:
    """An invitation in a thread."""

    def __init__(self, out: Path) -> None:
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.at = self.listener.getsockname()
        self.said: list[str] = []
        self.error: Exception | None = None
        self.thread = threading.Thread(target=self._run, args=(out,))
        self.thread.start()

    def _run(self, out: Path) -> None:
        try:
            invite(plan(), "1111-2222", out, self.listener, wait_s=30.0, say=self.said.append)
        except InvitationError as error:
            self.error = error


def joined(at: tuple[str, int], code: str, card: Path, public: Path) -> None:
    joining = Joining(at, code)
    try:
        joining.send_card(card)
        joining.receive_public(public, 30.0)
    finally:
        joining.close()


def test_three_machines_join_one_is_a_stranger_and_one_mistypes(tmp_path: Path) -> None:
    running = Running(tmp_path / "signed")
    cards = {n: keygen(n, f"127.0.0.1:{7000 + i}", tmp_path / n) for i, n in enumerate((*NAMES, "eve"))}
    with pytest.raises(InvitationError, match="compare the code"):
        joined(running.at, "1111-2223", cards["anna"], tmp_path / "anna/public")
    with pytest.raises(InvitationError, match="no user eve"):
        joined(running.at, "1111-2222", cards["eve"], tmp_path / "eve/public")
    threads = [
        threading.Thread(target=joined, args=(running.at, "1111-2222", cards[name], tmp_path / name / "public"))
        for name in NAMES
    ]
    for thread in threads:
        thread.start()
    for thread in [*threads, running.thread]:
        thread.join(40.0)
    assert running.error is None and "somebody tried with another code" in running.said
    for name in NAMES:
        assert accept(tmp_path / name / "public", tmp_path / name) == [name]
    plans = {(tmp_path / name / "plan.toml").read_bytes() for name in NAMES}
    assert len(plans) == 1
    assert not list((tmp_path / "signed").rglob("key.pem"))  # private keys stayed where they were made


def test_many_wrong_codes_end_the_invitation(tmp_path: Path) -> None:
    running = Running(tmp_path / "signed")
    card = keygen("anna", "127.0.0.1:7000", tmp_path / "anna")
    for guess in range(WRONG_CODES):
        with pytest.raises(InvitationError):
            joined(running.at, f"0000-{guess:04}", card, tmp_path / "anna/public")
    running.thread.join(20.0)
    assert "wrong codes" in str(running.error) and not (tmp_path / "signed").exists()


def test_join_says_what_is_wrong_with_its_arguments(tmp_path: Path) -> None:
    done = CliRunner().invoke(app, ["join", "1111-2222", "--name", "anna", "--at", "nowhere", "--dir", str(tmp_path)])
    assert done.exit_code == 2 and "must be HOST:PORT" in done.output
    with socket.create_server(("127.0.0.1", 0)) as closed:
        at = f"127.0.0.1:{closed.getsockname()[1]}"
    done = CliRunner().invoke(app, ["join", "1111-2222", "--name", "anna", "--at", at, "--dir", str(tmp_path)])
    assert done.exit_code == 2 and "no invitation answers" in done.output
    assert not (tmp_path / "users").exists()
