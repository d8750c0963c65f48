"""Joining by a code: real sockets, real keys; a wrong code gets one guess and learns nothing."""

from __future__ import annotations

import contextlib
import re
import socket
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from typer.testing import CliRunner

from coordinator_free_launcher.cli.app import app
from coordinator_free_launcher.identity import invite as invitations
from coordinator_free_launcher.identity.channel import InvitationError, Opening, new_code
from coordinator_free_launcher.identity.enrol import accept, keygen
from coordinator_free_launcher.identity.invite import HELLO_MAX, WRONG_CODES, Joining, invite
from network_dp.errors import UserError
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

    def __init__(self, out: Path, wait_s: float = 30.0) -> None:
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.at = self.listener.getsockname()
        self.said: list[str] = []
        self.error: Exception | None = None
        self.thread = threading.Thread(target=self._run, args=(out, wait_s))
        self.thread.start()

    def _run(self, out: Path, wait_s: float) -> None:
        try:
            invite(plan(), "1111-2222", out, self.listener, wait_s=wait_s, say=self.said.append)
        except UserError as error:
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


class Between:
    """Somebody on the line: passes on what ``change`` makes of the joiner's messages, and remembers them."""

    def __init__(self, to: tuple[str, int], change: Callable[[int, bytes], bytes] = lambda i, message: message) -> None:
        self._to, self._change = to, change
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.at = self._listener.getsockname()
        self.heard: list[bytes] = []
        threading.Thread(target=self._pass_on, daemon=True).start()

    def _pass_on(self) -> None:
        joiner, _ = self._listener.accept()
        with joiner, socket.create_connection(self._to) as inviter, self._listener, contextlib.suppress(OSError):
            threading.Thread(target=self._back, args=(inviter, joiner), daemon=True).start()
            while (message := framed(joiner)) is not None:
                self.heard.append(message)
                send(inviter, self._change(len(self.heard) - 1, message))

    @staticmethod
    def _back(inviter: socket.socket, joiner: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while piece := inviter.recv(1 << 16):
                joiner.sendall(piece)
            joiner.shutdown(socket.SHUT_RDWR)


def framed(connection: socket.socket) -> bytes | None:
    head = connection.recv(4, socket.MSG_WAITALL)
    return connection.recv(int.from_bytes(head), socket.MSG_WAITALL) if len(head) == 4 else None


def send(connection: socket.socket, message: bytes) -> None:
    connection.sendall(len(message).to_bytes(4) + message)


def test_a_recorded_conversation_cannot_be_played_again(tmp_path: Path) -> None:
    running = Running(tmp_path / "signed", wait_s=3.0)
    between = Between(running.at)
    joining = Joining(between.at, "1111-2222")
    joining.send_card(keygen("anna", "127.0.0.1:7000", tmp_path / "anna"))
    wait_for(lambda: any("anna joined" in text for text in running.said))
    with socket.create_connection(running.at) as again:
        for message in between.heard:
            send(again, message)
        assert framed(again) is not None and framed(again) is None, "its half of a new key, and nothing else"
    assert running.said.count("somebody tried with another code") == 1
    assert sum("joined" in text for text in running.said) == 1
    joining.close()
    running.thread.join(20.0)
    assert "bert, carl: not joined" in str(running.error) and not (tmp_path / "signed").exists()


def test_somebody_on_the_line_who_guesses_wrong_reads_nothing_and_is_noticed_by_both(tmp_path: Path) -> None:
    running = Running(tmp_path / "signed", wait_s=2.0)
    attacker = Opening("0000-0000", "invite")
    between = Between(running.at, lambda i, message: Opening("0000-0000", "join").message if i == 0 else message)
    with pytest.raises(InvitationError, match="compare the code"):
        joined(between.at, "1111-2222", keygen("anna", "127.0.0.1:7000", tmp_path / "anna"), tmp_path / "public")
    hello, card = between.heard
    with pytest.raises(InvitationError):
        attacker.channel(hello).open(card)
    running.thread.join(20.0)
    assert running.said == ["somebody tried with another code"]


def test_a_message_thrown_back_at_its_sender_opens_nothing() -> None:
    one = Opening("1", "invite")
    with pytest.raises(InvitationError):
        one.channel(one.message)


def test_an_invitation_that_is_not_completed_ends_for_everybody(tmp_path: Path) -> None:
    running = Running(tmp_path / "signed", wait_s=1.0)
    began = time.monotonic()
    with pytest.raises(InvitationError, match="bert, carl: not joined after 1 s; invite again"):
        joined(running.at, "1111-2222", keygen("anna", "127.0.0.1:7000", tmp_path / "anna"), tmp_path / "public")
    running.thread.join(20.0)
    assert time.monotonic() - began < 15.0 and "bert, carl: not joined after 1 s" in str(running.error)


def test_cards_that_cannot_be_signed_together_are_told_to_everybody(tmp_path: Path) -> None:
    running = Running(tmp_path / "signed")
    said: list[str] = []

    def take_part(card: Path) -> None:
        with pytest.raises(InvitationError, match="addresses must differ") as refused:
            joined(running.at, "1111-2222", card, tmp_path / "public")
        said.append(str(refused.value))

    cards = [keygen(name, "127.0.0.1:7000", tmp_path / name) for name in NAMES]
    threads = [threading.Thread(target=take_part, args=(card,)) for card in cards]
    for thread in threads:
        thread.start()
    for thread in [*threads, running.thread]:
        thread.join(20.0)
    assert len(said) == 3


def test_bytes_that_drip_in_do_not_make_a_joiner_wait_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(invitations, "ANSWER_S", 0.5)
    over = threading.Event()

    def drip(listener: socket.socket) -> None:
        connection, _ = listener.accept()
        with connection, contextlib.suppress(OSError):
            connection.sendall((100).to_bytes(4))
            while not over.wait(0.1):
                connection.sendall(b"x")

    with socket.create_server(("127.0.0.1", 0)) as listener:
        threading.Thread(target=drip, args=(listener,), daemon=True).start()
        began = time.monotonic()
        with pytest.raises(InvitationError, match="no invitation answers"):
            Joining(listener.getsockname(), "1")
        over.set()
    assert time.monotonic() - began < 5.0


def wait_for(seen: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 10.0
    while not seen():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_connections_that_prove_nothing_end_the_invitation(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each tells how long the library takes for a secret of the code's."""
    monkeypatch.setattr(invitations, "CONNECTIONS", 4)
    running = Running(tmp_path / "signed")
    for _ in range(5):
        with socket.create_connection(running.at) as silent:
            framed(silent)
    running.thread.join(20.0)
    assert "4 connections that proved no code" in str(running.error)


def test_join_says_what_is_wrong_with_its_arguments(tmp_path: Path) -> None:
    done = CliRunner().invoke(app, ["join", "1111-2222", "--name", "anna", "--at", "nowhere", "--dir", str(tmp_path)])
    assert done.exit_code == 2 and "must be HOST:PORT" in done.output
    with socket.create_server(("127.0.0.1", 0)) as closed:
        at = f"127.0.0.1:{closed.getsockname()[1]}"
    done = CliRunner().invoke(app, ["join", "1111-2222", "--name", "anna", "--at", at, "--dir", str(tmp_path)])
    assert done.exit_code == 2 and "no invitation answers" in done.output
    assert not (tmp_path / "users").exists()
