"""A process log holds no text of an exception and a bounded number of lines, and a full disk is nobody's traceback."""

from __future__ import annotations

import logging
import subprocess
import sys

from node.logs import LINES_MAX, WINDOW_S, Sparing, described

SPEAKS = """
import asyncio, errno, logging, sys

class Disk:
    def __init__(self): self.full, self.text = False, ""
    def write(self, text):
        self.text += text
        if self.full: raise OSError(errno.ENOSPC, "no space")
    def flush(self): pass

disk = sys.stderr = Disk()
from node import logs
logs.set_up("user-0")
log = logging.getLogger("node.test")
def fail(value): raise KeyError(value)
async def on_loop():
    loop = asyncio.get_running_loop()
    loop.set_exception_handler(logs.on_loop)
    loop.call_soon(fail, "secret-1")
    lost = loop.create_task(asyncio.sleep(0))
    await lost
    async def task(): fail("secret-2")
    left = loop.create_task(task())
    await asyncio.sleep(0.01)
    del left
asyncio.run(on_loop())
try: fail("secret-3")
except KeyError: log.exception("it failed")
class Gone:
    def __del__(self): fail("secret-4")
Gone()
import threading
thread = threading.Thread(target=fail, args=["secret-6"])
thread.start()
thread.join()
disk.full = True
log.error("one %s", "line")
disk.full = False
sys.stdout.write(disk.text)
fail("secret-5")
"""


def test_no_way_into_the_log_brings_the_text_of_an_exception() -> None:
    done = subprocess.run([sys.executable, "-c", SPEAKS + "\n"], capture_output=True, text=True, timeout=60)
    said = done.stdout + done.stderr
    assert done.returncode == 1 and said.count("KeyError") >= 5, said
    assert "secret" not in said and "Traceback" not in said
    assert "Logging error" not in said and len([line for line in said.splitlines() if "one line" in line]) == 1


def test_an_error_is_described_by_type_and_places() -> None:
    try:
        {}["secret"]
    except KeyError as error:
        assert described(error).startswith("KeyError at test_logs.py:") and "secret" not in described(error)


def test_lines_of_one_kind_are_bounded_and_what_was_left_out_is_counted() -> None:
    now = [0.0]
    sparing = Sparing(lambda: now[0])

    def let_through(text: str, argument: int) -> str | None:
        record = logging.LogRecord("node.server", logging.WARNING, "", 0, text, (argument,), None)
        return record.getMessage() if sparing.filter(record) else None

    heard = [let_through("refused %d", number) for number in range(LINES_MAX + 5)]
    assert None not in heard[:LINES_MAX] and heard[LINES_MAX:] == [None] * 5
    assert let_through("another %d", 1) == "another 1"
    assert list(sparing.rest()) == ['5 lines like "refused ..." left out']
    now[0] = WINDOW_S
    assert let_through("refused %d", 7) == "refused 7 (5 lines like this left out)"
    assert let_through("refused %d", 8) == "refused 8" and list(sparing.rest()) == []


def test_what_was_left_out_can_be_said_through_the_same_filter() -> None:
    sparing = Sparing(lambda: 0.0)
    for kind in ("one", "another"):
        record = logging.LogRecord("node", logging.INFO, "", 0, kind, None, None)
        assert sum(sparing.filter(record) for _ in range(LINES_MAX + 2)) == LINES_MAX
    said = [logging.LogRecord("node", logging.WARNING, "", 0, text, None, None) for text in sparing.rest()]
    for text in sparing.rest():  # a line that is said is a kind of its own
        sparing.filter(logging.LogRecord("node", logging.WARNING, "", 0, text, None, None))
    assert [record.getMessage() for record in said] == [
        f'2 lines like "{kind}" left out' for kind in ("one", "another")
    ]


def test_kinds_without_end_share_one_bound() -> None:
    sparing = Sparing(lambda: 0.0)
    records = [logging.LogRecord("x", logging.INFO, "", 0, f"text {n}", None, None) for n in range(2000)]
    assert sum(sparing.filter(record) for record in records) <= 256 + LINES_MAX
