"""The view log: whole lines only, none repeated after a crash, nobody else's to read."""

from __future__ import annotations

from pathlib import Path

from network_dp import view
from node.storage.in_step import TAIL_LINES
from node.storage.view_log import ViewLog

HEADER = view.encode("header", schema=view.SCHEMA, run="r", plan="p", user="u", values=True, insecure=False)


def visit(step: int, time: float = 1.0) -> str:
    fields = {"epoch": [0, 0], "step": step, "visit": step, "cause": "handoff", "from": "v", "received": [step]}
    return view.encode("visit", **fields, time=time)


def logged(path: Path, *lines: str) -> None:
    log = ViewLog(path, HEADER)
    for line in lines:
        log.append(line)
    log.close()


def test_the_header_comes_first_and_once(tmp_path: Path) -> None:
    path = tmp_path / "view.jsonl"
    logged(path, visit(1))
    logged(path, visit(2))
    assert path.read_text().splitlines() == [HEADER, visit(1), visit(2)]


def test_only_the_owner_can_read_it(tmp_path: Path) -> None:
    logged(tmp_path / "view.jsonl")
    assert (tmp_path / "view.jsonl").stat().st_mode & 0o777 == 0o600


def test_a_torn_line_is_cut_at_every_byte(tmp_path: Path) -> None:
    path = tmp_path / "view.jsonl"
    logged(path, visit(1), visit(2))
    whole = path.read_bytes()
    start = whole.rindex(b"\n", 0, -1) + 1
    for length in range(start, len(whole)):
        path.write_bytes(whole[:length])
        logged(path, visit(3))
        assert path.read_text().splitlines() == [HEADER, visit(1), visit(3)], length


def test_lines_logged_again_after_a_crash_are_not_repeated(tmp_path: Path) -> None:
    path = tmp_path / "view.jsonl"
    logged(path, visit(1), visit(2))
    logged(path, visit(2), visit(3))
    assert path.read_text().splitlines() == [HEADER, visit(1), visit(2), visit(3)]


def test_a_line_the_crash_swallowed_is_logged_when_it_comes_again(tmp_path: Path) -> None:
    path = tmp_path / "view.jsonl"
    logged(path, visit(1))
    logged(path, visit(1), visit(2))
    assert path.read_text().splitlines() == [HEADER, visit(1), visit(2)]


def test_after_the_start_equal_lines_are_new_lines(tmp_path: Path) -> None:
    path = tmp_path / "view.jsonl"
    peer = view.encode("peer", peer="v", state="down", time=1.0)
    logged(path, peer)
    log = ViewLog(path, HEADER)
    log.settle()
    log.append(peer)
    log.close()
    assert path.read_text().splitlines() == [HEADER, peer, peer]


def test_restarts_are_kept_and_do_not_hide_the_lines_before_them(tmp_path: Path) -> None:
    path = tmp_path / "view.jsonl"
    logged(path, visit(1))
    starts = [view.encode("start", life=life, time=float(life)) for life in range(2, 2 + 3 * TAIL_LINES)]
    for line in starts:
        logged(path, line, visit(1, time=99.0))
    assert path.read_text().splitlines() == [HEADER, visit(1), *starts]


def test_a_very_long_last_line_is_read_whole(tmp_path: Path) -> None:
    path = tmp_path / "view.jsonl"
    fields = {"epoch": [0, 0], "step": 1, "visit": 1, "cause": "handoff", "from": "v"}
    long = view.encode("visit", **fields, received=list(range(100_000)), time=1.0)
    logged(path, long)
    logged(path, long, visit(2))
    assert path.read_text().splitlines() == [HEADER, long, visit(2)]
