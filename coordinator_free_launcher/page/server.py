"""The page itself: a few fixed files, one stream of pictures, and in chaos two buttons. Starlette, on loopback.

Whoever asks must know the random token in the address (compared in constant time) and must ask for this very machine
(the Host header is an IP address or localhost: a name that was made to point here by somebody else is refused). Nothing
is loaded from elsewhere: the Content-Security-Policy forbids it, and inline scripts and styles with it.
"""

from __future__ import annotations

import asyncio
import ipaddress
import json
import logging
import secrets
import socket
import threading
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import suppress
from importlib.resources import files
from typing import Any, Final

import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import FileResponse, PlainTextResponse, Response, StreamingResponse
from starlette.routing import Route

from coordinator_free_launcher.page.sources import Source
from network_dp.errors import UserError

LOOPBACK: Final = "127.0.0.1"
POLL_S: Final = 0.2
REST: Final = 9  # times as long as the last look: the page never takes more than a tenth of one core from the run
STREAMS: Final = 8  # open pages at a time
BODY_BYTES: Final = 1024
ACTIONS: Final = ("kill", "freeze")

#: Files of the page and what they are; "" is the page.
_FILES: Final = {
    "": ("page.html", "text/html; charset=utf-8"),
    "page.css": ("page.css", "text/css; charset=utf-8"),
    **{name: (name, "text/javascript; charset=utf-8") for name in ("page.js", "room.js", "mine.js", "draw.js")},
}
_HEADERS: Final = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src data:; "
        "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    ),
    "Cache-Control": "no-store",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
}
#: The report is one file with its style in it and no script.
_REPORT_HEADERS: Final = {
    **_HEADERS,
    "Content-Security-Policy": "default-src 'none'; style-src 'unsafe-inline'; img-src data:; frame-ancestors 'none'",
}

Act = Callable[[str, str], None]
Handler = Callable[[Request], Awaitable[Response]]


class PageError(UserError):
    """The page cannot be served there; the message says why."""


def is_this_machine(host: str, port: int) -> bool:
    """Does a Host header name this server by an IP address or as localhost?"""
    name, _, asked = host.rpartition(":")
    if asked != str(port):
        return False
    try:
        ipaddress.ip_address(name.removeprefix("[").removesuffix("]"))
    except ValueError:
        return name == "localhost"
    return True


class Page:
    """One served page. ``follow`` says what it shows; ``start`` and ``close`` serve it from a thread."""

    def __init__(self, source: Source | None = None, *, host: str = LOOPBACK, port: int = 0, act: Act | None = None):
        self._source, self._act = source, act
        self._token = secrets.token_urlsafe(24)
        self._host, self._streams = host, 0
        self._picture = "{}"
        try:
            self._socket = socket.create_server((host, port))
        except OSError as error:
            raise PageError(f"{host}:{port}: {error.strerror}; give another --port") from None
        self.port: int = self._socket.getsockname()[1]
        routes = [
            Route("/{token}/events", self._guarded(self._events)),
            Route("/{token}/report", self._guarded(self._report)),
            Route("/{token}/act", self._guarded(self._acted), methods=["POST"]),
            Route("/{token}/{name:path}", self._guarded(self._file)),
        ]
        config = uvicorn.Config(
            Starlette(routes=routes), ws="none", lifespan="off", log_config=None, server_header=False, access_log=False
        )
        config.timeout_graceful_shutdown = 1
        logging.getLogger("uvicorn.error").setLevel(logging.CRITICAL)  # its start and stop are ours to tell
        self._server = uvicorn.Server(config)
        self._thread = threading.Thread(target=self._serve, name="page", daemon=True)

    @property
    def address(self) -> str:
        shown = LOOPBACK if ipaddress.ip_address(self._host).is_unspecified else self._host
        return f"http://{f'[{shown}]' if ':' in shown else shown}:{self.port}/{self._token}/"

    def follow(self, source: Source, act: Act | None = None) -> None:
        self._source, self._act = source, act

    def start(self) -> None:
        self._thread.start()

    def close(self) -> None:
        self._server.should_exit = True
        self._thread.join(5.0)
        self._socket.close()

    def _serve(self) -> None:
        asyncio.run(self._until_closed())

    async def _until_closed(self) -> None:
        poller = asyncio.create_task(self._poll())
        await self._server.serve([self._socket])
        poller.cancel()

    async def _poll(self) -> None:
        while True:
            source, act, took_s = self._source, self._act, 0.0
            if source is not None:
                with suppress(OSError):  # a run's folder that is being removed: the last picture stays
                    self._picture, took_s = await asyncio.to_thread(_drawn, source, act is not None)
            await asyncio.sleep(max(POLL_S, REST * took_s))

    def _guarded(self, handler: Handler) -> Handler:
        async def guarded(request: Request) -> Response:
            known = secrets.compare_digest(request.path_params["token"].encode(), self._token.encode())
            if not known or not is_this_machine(request.headers.get("host", ""), self.port):
                return PlainTextResponse("not found", 404, _HEADERS)
            return await handler(request)

        return guarded

    async def _file(self, request: Request) -> Response:
        found = _FILES.get(request.path_params["name"])
        if found is None:
            return PlainTextResponse("not found", 404, _HEADERS)
        name, media = found
        return Response(files(__package__).joinpath("static", name).read_bytes(), 200, _HEADERS, media)

    async def _report(self, request: Request) -> Response:
        path = None if self._source is None else self._source.report
        if path is None:
            return PlainTextResponse("there is no report yet", 404, _HEADERS)
        return FileResponse(path, headers=_REPORT_HEADERS, media_type="text/html; charset=utf-8")

    async def _acted(self, request: Request) -> Response:
        """Kill or freeze one user; only where somebody who can has lent the page its hand."""
        body = b""
        async for piece in request.stream():
            body += piece
            if len(body) > BODY_BYTES:
                return PlainTextResponse("too long", 413, _HEADERS)
        asked = _action(body)
        if self._act is None or asked is None or request.headers.get("origin") != str(request.base_url).rstrip("/"):
            return PlainTextResponse("refused", 403, _HEADERS)
        self._act(*asked)
        return Response(status_code=204, headers=_HEADERS)

    async def _events(self, request: Request) -> Response:
        if self._streams >= STREAMS:
            return PlainTextResponse("too many open pages", 503, _HEADERS)
        return StreamingResponse(self._pictures(), headers=_HEADERS, media_type="text/event-stream")

    async def _pictures(self) -> AsyncIterator[str]:
        self._streams += 1
        shown = ""
        try:
            while not self._server.should_exit:
                if self._picture != shown:
                    shown = self._picture
                    yield f"data: {shown}\n\n"
                await asyncio.sleep(POLL_S)
        finally:
            self._streams -= 1


def _drawn(source: Source, buttons: bool) -> tuple[str, float]:
    """The picture now, and the CPU seconds it took."""
    before = time.thread_time()
    picture = {**source.poll(time.monotonic()), "buttons": buttons}
    return json.dumps(picture, allow_nan=False), time.thread_time() - before


def _action(body: bytes) -> tuple[str, str] | None:
    """(user, kill or freeze) of a request; None for anything else."""
    try:
        values: Any = json.loads(body)
    except ValueError:
        return None
    if not isinstance(values, dict) or set(values) != {"user", "what"} or values["what"] not in ACTIONS:
        return None
    return (values["user"], values["what"]) if isinstance(values["user"], str) else None
