"""Who may see the page, and what its headers forbid: asked over a real socket."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from contextlib import ExitStack
from itertools import pairwise
from pathlib import Path
from typing import Any

import httpx
import pytest
from typer.testing import CliRunner

from coordinator_free_launcher.cli.app import app
from coordinator_free_launcher.page.server import BODY_BYTES, POLL_S, REST, STREAMS, Page, is_this_machine

STATIC = Path(__file__).parents[4] / "coordinator_free_launcher" / "page" / "static"


class Still:
    """A picture that does not move."""

    report = None

    def poll(self, now: float) -> dict[str, Any]:
        return {"view": "mine", "user": "</script><b>eve"}


@pytest.fixture(scope="module")
def asked() -> list[tuple[str, str]]:
    return []


@pytest.fixture(scope="module")
def page(asked: list[tuple[str, str]]) -> Iterator[Page]:
    page = Page(Still(), act=lambda name, what: asked.append((name, what)))
    page.start()
    yield page
    page.close()


def test_the_page_and_its_files_are_served_under_a_strict_policy(page: Page) -> None:
    for name in ("", "page.css", "page.js", "room.js", "mine.js", "draw.js"):
        answer = httpx.get(page.address + name)
        assert answer.status_code == 200
        policy = answer.headers["content-security-policy"]
        assert "default-src 'none'" in policy and "unsafe" not in policy and "http" not in policy
        assert answer.headers["referrer-policy"] == "no-referrer" and answer.headers["cache-control"] == "no-store"


@pytest.mark.parametrize("name", ["..%2f..%2fserver.py", "page.html", "report"])
def test_nothing_else_is_served(page: Page, name: str) -> None:
    assert httpx.get(page.address + name).status_code == 404


def test_without_the_token_there_is_nothing(page: Page) -> None:
    home = f"http://127.0.0.1:{page.port}/"
    token = page.address.removeprefix(home).strip("/")
    assert len(token) >= 32
    for wrong in ("", "x/", token[:-1] + "/", token + "x/events", "ü" * 32 + "/"):
        assert httpx.get(home + wrong).status_code == 404


@pytest.mark.parametrize("host", ["evil.example", "evil.example:{port}", "127.0.0.1", "127.0.0.1:1", ""])
def test_a_name_that_points_here_is_not_enough(page: Page, host: str) -> None:
    assert httpx.get(page.address, headers={"host": host.format(port=page.port)}).status_code == 404


def test_this_machine_is_named_by_an_address_or_as_localhost() -> None:
    assert all(is_this_machine(host, 80) for host in ("127.0.0.1:80", "localhost:80", "[::1]:80", "192.168.1.4:80"))


def test_pictures_come_as_a_stream_of_events(page: Page) -> None:
    with httpx.stream("GET", page.address + "events") as answer:
        assert answer.headers["content-type"].startswith("text/event-stream")
        first = next(text for text in answer.iter_lines() if text)
    assert first.startswith('data: {"view": "mine"')


def test_only_so_many_pages_are_open_at_a_time(page: Page) -> None:
    with ExitStack() as stack:
        opened = [stack.enter_context(httpx.stream("GET", page.address + "events")) for _ in range(STREAMS)]
        streams = [answer.iter_raw() for answer in opened]
        assert all(map(next, streams))
        assert httpx.get(page.address + "events").status_code == 503


def test_a_button_must_come_from_this_page_and_say_what_it_means(page: Page, asked: list[tuple[str, str]]) -> None:
    home = f"http://127.0.0.1:{page.port}"
    good = {"user": "u1", "what": "kill"}

    def press(body: Any, origin: str = home) -> int:
        return httpx.post(page.address + "act", json=body, headers={"origin": origin}).status_code

    assert press(good) == 204
    assert press(good, "http://evil.example") == press(good, "null") == 403
    for wrong in ({"user": "u1", "what": "rm"}, {"user": 1, "what": "kill"}, good | {"more": 1}, [good]):
        assert press(wrong) == 403
    assert press({"user": "x" * BODY_BYTES, "what": "kill"}) == 413
    assert asked == [("u1", "kill")]


class Heavy:
    """A picture that takes long to draw."""

    report = None

    def __init__(self) -> None:
        self.looks: list[float] = []

    def poll(self, now: float) -> dict[str, Any]:
        until = time.thread_time() + 0.05
        while time.thread_time() < until:
            pass
        self.looks.append(now)
        return {}


def test_a_picture_that_takes_long_is_drawn_seldom() -> None:
    source = Heavy()
    page = Page(source)
    page.start()
    deadline = time.monotonic() + 20.0
    while len(source.looks) < 4 and time.monotonic() < deadline:
        time.sleep(0.05)
    page.close()
    apart = [later - earlier for earlier, later in pairwise(source.looks)]
    assert min(apart) > 0.05 * (1 + REST) * 0.9 > POLL_S


def test_no_script_of_the_page_makes_markup_of_a_text_or_asks_another_machine() -> None:
    for path in STATIC.iterdir():
        text = path.read_text()
        assert not re.search(r"innerHTML|outerHTML|insertAdjacent|document\.write|eval\(|\son\w+=", text), path.name
        assert re.findall(r"https?://[^\"]+", text) in ([], ["http://www.w3.org/2000/svg"]), path.name


def test_watch_says_what_is_wrong_with_its_arguments(tmp_path: Path) -> None:
    for arguments, said in (
        ([str(tmp_path)], "has no plan.toml"),
        ([str(tmp_path), "--host", "example.org"], "must be an IP address of this machine"),
    ):
        done = CliRunner().invoke(app, ["watch", *arguments])
        assert done.exit_code == 2 and said in done.output.replace("\n", " ")
