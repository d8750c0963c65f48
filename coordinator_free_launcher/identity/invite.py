"""Enrolment over the network: one side invites with a short code, the others join. No private key travels.

The joiner sends its card; when every user of the plan has, the inviter signs (``enrol.sign``) and sends everybody the
public folder over the same connections. All sizes and waits are bounded, and a few wrong codes end the invitation.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final

import msgspec

from coordinator_free_launcher.identity.bundle import PUBLIC
from coordinator_free_launcher.identity.certificates import IdentityError
from coordinator_free_launcher.identity.channel import Channel, InvitationError, Opening
from coordinator_free_launcher.identity.enrol import CARD_MAX, Card, sign
from network_dp.errors import UserError
from network_dp.plan import Plan

HELLO_MAX: Final = 256  # bytes, of the only message that is read before the code is proved
PUBLIC_MAX: Final = 1 << 24
ANSWER_S: Final = 15.0
WRONG_CODES: Final = 10
CONNECTIONS: Final = 256  # that proved no code: SPAKE2 in Python is not constant-time, so nobody may time it for ever


class Request(msgspec.Struct, forbid_unknown_fields=True):
    card: str


class Reply(msgspec.Struct, forbid_unknown_fields=True):
    """Either an error, or the files of the public folder."""

    error: str = ""
    files: dict[str, str] = {}


def _decoded(raw: bytes, kind: type[Any]) -> Any:
    try:
        return msgspec.json.decode(raw, type=kind)
    except msgspec.DecodeError:
        raise InvitationError("the other side sent something else than an invitation's message") from None


class Inviter:
    """Serves one invitation until everybody has the signed plan."""

    def __init__(self, plan: Plan, code: str, out: Path, own: Sequence[Card], say: Callable[[str], None]) -> None:
        self._plan, self._code, self._out, self._say = plan, code, out, say
        self._cards = {card.name: card for card in own}
        self._to_serve = set(plan.names) - set(self._cards)
        self._wrong = self._unproved = 0
        self._signed: asyncio.Future[Path] = asyncio.get_running_loop().create_future()
        self._over = asyncio.Event()
        self._failed: UserError | None = None

    async def serve(self, listener: socket.socket, wait_s: float) -> Path:
        """The public folder, once everybody has it."""
        async with await asyncio.start_server(self._connected, sock=listener, limit=CARD_MAX):
            try:
                await self._sign_when_complete()
                await asyncio.wait_for(self._over.wait(), wait_s)
            except TimeoutError:
                missing = ", ".join(sorted(self._to_serve))
                self._fail(InvitationError(f"{missing}: not joined after {wait_s:.0f} s; invite again"))
            finally:  # a server ends with its last connection: nobody waits for a plan that will not come
                self._fail(InvitationError("the inviting machine ended the invitation; invite again"))
        if self._failed is not None:
            raise self._failed
        return self._signed.result()

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._unproved += 1
        if self._unproved > CONNECTIONS:
            self._fail(InvitationError(f"{CONNECTIONS} connections that proved no code: invite again, with a new code"))
        try:
            if self._failed is None:
                await self._one(reader, writer)
        except (InvitationError, TimeoutError, OSError, asyncio.IncompleteReadError):
            pass  # whoever it was may come again
        finally:
            writer.close()

    async def _one(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        opening = Opening(self._code, "invite")
        await _send(writer, opening.message)
        channel = opening.channel(await _receive(reader, HELLO_MAX))
        sealed = await _receive(reader, CARD_MAX)
        try:
            request = _decoded(channel.open(sealed), Request)
        except InvitationError:
            self._count_wrong()
            raise
        self._unproved -= 1
        try:
            name = self._admit(request.card)
        except UserError as error:
            await _send(writer, channel.seal(msgspec.json.encode(Reply(error=str(error)))))
            return
        await self._sign_when_complete()
        try:
            public = await asyncio.shield(self._signed)
        except UserError as error:
            await _send(writer, channel.seal(msgspec.json.encode(Reply(error=str(error)))))
            return
        files = {file: (public / file).read_text() for file in PUBLIC}
        await _send(writer, channel.seal(msgspec.json.encode(Reply(files=files))))
        self._to_serve.discard(name)
        if not self._to_serve:
            self._over.set()

    def _count_wrong(self) -> None:
        self._wrong += 1
        self._say("somebody tried with another code")
        if self._wrong >= WRONG_CODES:
            self._fail(InvitationError(f"{WRONG_CODES} attempts with wrong codes: invite again, with a new code"))

    def _fail(self, error: UserError) -> None:
        """The first failure counts, and is told to everybody who waits; after the last plan was sent there is none."""
        if self._over.is_set():
            return
        self._failed = error
        if not self._signed.done():
            self._signed.set_exception(error)
            self._signed.exception()  # it need not have been waited for
        self._over.set()

    def _admit(self, text: str) -> str:
        """The name on a card that may take part; the same card may come twice, another of that name may not."""
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "card"
            path.write_text(text)
            card = Card.read(path)
        card.key()
        if card.name not in self._plan.names:
            raise IdentityError(f"the plan has no user {card.name}; it has {', '.join(self._plan.names)}")
        if self._cards.setdefault(card.name, card) != card:
            raise IdentityError(f"{card.name} has joined already, with another key: ask who it was")
        missing = [name for name in self._plan.names if name not in self._cards]
        self._say(f"{card.name} joined from {card.address}" + (f"; waiting for {', '.join(missing)}" * bool(missing)))
        return card.name

    async def _sign_when_complete(self) -> None:
        if len(self._cards) < self._plan.n or self._signed.done():
            return
        try:
            public = sign(self._plan, list(self._cards.values()), self._out)
        except UserError as error:
            self._fail(error)
            return
        self._signed.set_result(public)
        if not self._to_serve:
            self._over.set()


async def _send(writer: asyncio.StreamWriter, message: bytes) -> None:
    writer.write(len(message).to_bytes(4) + message)
    await asyncio.wait_for(writer.drain(), ANSWER_S)


async def _receive(reader: asyncio.StreamReader, most: int) -> bytes:
    async with asyncio.timeout(ANSWER_S):
        size = int.from_bytes(await reader.readexactly(4))
        if size > most:
            raise InvitationError("a message that is too long")
        return await reader.readexactly(size)


def invite(
    plan: Plan,
    code: str,
    out: Path,
    listener: socket.socket,
    *,
    own: Sequence[Card] = (),
    wait_s: float = 1800.0,
    say: Callable[[str], None] = lambda text: None,
) -> Path:
    """Wait until every user of the plan has joined, sign, and send everybody the public folder OUT/public."""

    async def run() -> Path:
        return await Inviter(plan, code, out, own, say).serve(listener, wait_s)

    return asyncio.run(run())


class Joining:
    """A joiner's connection: ``address`` is how the inviter's network sees this machine."""

    def __init__(self, at: tuple[str, int], code: str) -> None:
        nobody = f"{at[0]}:{at[1]}: no invitation answers ({{}}); compare the address"
        try:
            self._socket = socket.create_connection(at, ANSWER_S)
        except OSError as error:
            raise InvitationError(nobody.format(error)) from None
        try:
            self._deadline = time.monotonic() + ANSWER_S
            self.address: str = self._socket.getsockname()[0]
            opening = Opening(code, "join")
            self._send(opening.message)
            self._channel: Channel = opening.channel(self._receive(HELLO_MAX))
        except OSError as error:
            self.close()
            raise InvitationError(nobody.format(error)) from None
        except InvitationError:
            self.close()
            raise

    def send_card(self, card: Path) -> None:
        self._send(self._channel.seal(msgspec.json.encode(Request(card.read_text()))))

    def receive_public(self, folder: Path, wait_s: float) -> None:
        """Wait until everybody has joined, and write the public folder."""
        self._deadline = time.monotonic() + wait_s
        try:
            sealed = self._receive(PUBLIC_MAX)
        except TimeoutError:
            raise InvitationError(f"not everybody joined within {wait_s:.0f} s; join again") from None
        except OSError:
            raise InvitationError("the inviter hung up: compare the code, then join again") from None
        reply: Reply = _decoded(self._channel.open(sealed), Reply)
        if reply.error or set(reply.files) != set(PUBLIC):
            raise InvitationError(reply.error or "the inviter sent other files than a plan and its certificates")
        folder.mkdir(parents=True, exist_ok=True)
        for file, text in reply.files.items():
            (folder / file).write_text(text)

    def close(self) -> None:
        with contextlib.suppress(OSError):
            self._socket.close()

    def _send(self, message: bytes) -> None:
        self._socket.sendall(len(message).to_bytes(4) + message)

    def _receive(self, most: int) -> bytes:
        size = int.from_bytes(self._exactly(4))
        if size > most:
            raise InvitationError("a message that is too long")
        return self._exactly(size)

    def _exactly(self, size: int) -> bytes:
        data = b""
        while len(data) < size:
            self._socket.settimeout(max(0.001, self._deadline - time.monotonic()))  # however slowly bytes drip in
            piece = self._socket.recv(size - len(data))
            if not piece:
                raise ConnectionError("the connection was closed")
            data += piece
        return data
