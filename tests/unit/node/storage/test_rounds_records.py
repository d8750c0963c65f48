"""The journal of anonymous rounds: what was said survives, the log has its line, and a lost disk forgets on purpose."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from network_dp import view
from node.protocols.effects import Persist
from node.protocols.rounds.state import Durable
from node.storage import rounds_records
from node.storage.journal import Journal
from node.storage.rounds_records import ROUNDS
from node.storage.view_log import ViewLog

HEADER = view.encode("header", schema=view.SCHEMA, run="r", plan="p", user="u", values=True, insecure=False)


def spoken(visit: int) -> str:
    fields = {"epoch": [0, 1], "step": visit + 1, "visit": visit, "cause": "start", "base": None}
    return view.encode("spoken", **fields, sent=[visit], time=1.0)


def round_line(counter: int) -> str:
    return view.encode("round", adder=0, counter=counter, epoch=[0, 1], step=1, digest="ab", time=1.0)


def opened(folder: Path, *, rejoin: bool = False) -> tuple[Journal, ViewLog]:
    folder.mkdir(exist_ok=True)
    journal = Journal(folder, ROUNDS, Durable(), sync=True, rejoin=rejoin)
    log = ViewLog(folder / "view.jsonl", HEADER)
    rounds_records.begin(journal, log, rejoin=rejoin, wall_time=1000.0)
    return journal, log


def kinds(folder: Path) -> list[str]:
    return [json.loads(line)["kind"] for line in (folder / "view.jsonl").read_text().splitlines()]


def say(journal: Journal, log: ViewLog, visit: int, *, logged: bool) -> None:
    changes = {"epoch": 1, "to_step": visit + 1, "said": b"s" * 80, "out": b"o", "visits": visit, "line": spoken(visit)}
    rounds_records.write(journal, log, Persist(changes, True), None, None)
    if logged:
        log.append(spoken(visit))
        for counter in range(200):
            log.append(round_line(counter))
        log.flush()


@pytest.mark.parametrize("logged", [False, True])
def test_a_restart_logs_a_line_that_was_cut_short_and_no_other(tmp_path: Path, logged: bool) -> None:
    journal, log = opened(tmp_path)
    say(journal, log, 1, logged=True)
    say(journal, log, 2, logged=logged)
    journal.close()
    log.close()
    journal, log = opened(tmp_path)
    log.close()
    assert journal.durable.to_step == 3 and journal.durable.said == b"s" * 80
    journal.close()
    assert kinds(tmp_path).count("spoken") == 2


def test_a_user_that_rejoins_forgets_what_it_said_and_numbers_on(tmp_path: Path) -> None:
    journal, log = opened(tmp_path)
    say(journal, log, 5, logged=True)
    journal.close()
    log.close()
    (tmp_path / "journal").unlink()
    journal, log = opened(tmp_path, rejoin=True)
    durable = journal.durable
    assert durable.rejoined and durable.visits == 6 and not durable.said and not durable.barrier
    journal.close()
    log.close()
    assert kinds(tmp_path)[-1] == "rejoined"


def test_a_record_of_another_protocol_is_not_believed() -> None:
    for changes in ({"custody": None}, {"to_step": "1"}, {"final": 1}, {"said": "text"}):
        with pytest.raises(ValueError, match="not changes of a state"):
            ROUNDS.decode(memoryview(ROUNDS.encode(changes)))
