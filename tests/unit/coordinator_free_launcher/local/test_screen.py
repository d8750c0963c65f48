"""The screen tells: users' warnings, for whom a run waits, and who was killed, stopped, stalled or never started."""

from __future__ import annotations

import fcntl
import io
import os
from pathlib import Path

import pytest
from rich.console import Console

from coordinator_free_launcher.cli.chaos import draw
from coordinator_free_launcher.cli.options import paced
from coordinator_free_launcher.cli.say import wrapped
from coordinator_free_launcher.cli.show import Screen
from coordinator_free_launcher.local.chaos import Picture
from coordinator_free_launcher.local.launch import Progress, slow
from coordinator_free_launcher.local.relay import AGAIN_S, LINES, Relay
from coordinator_free_launcher.local.status import running_pid, status_of
from node import process
from node.protocols import exits
from tests.unit.coordinator_free_launcher.conftest import MakePlan

NAMES = ["anna", "bert", "carl", "dora", "emil"]


class Logs:
    """Process logs of a few users, and a clock."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.now = folder, 0.0
        for name in NAMES:
            (folder / "users" / name / "state").mkdir(parents=True)
        self.say("anna", "ERROR", "of an earlier start")
        self.relay = Relay(folder, NAMES, lambda: self.now)

    def say(self, name: str, level: str, text: str) -> None:
        with (self.folder / "users" / name / "state" / "node.log").open("a") as file:
            file.write(f"time=2026-01-01 10:00:00,000 user={name} level={level} from=node {text}\n")

    def news(self, after_s: float = 1.0) -> list[str]:
        self.now += after_s
        return self.relay.news()


@pytest.fixture
def logs(tmp_path: Path) -> Logs:
    return Logs(tmp_path)


def test_warnings_and_errors_are_relayed_and_nothing_else(logs: Logs) -> None:
    logs.say("bert", "INFO", "serving")
    logs.say("bert", "WARNING", "9 of 10 users must be alive to go on. Missing: carl")
    logs.say("carl", "ERROR", "No space left on device: the lines wait in memory; free some space")
    assert logs.news() == [
        "bert: 9 of 10 users must be alive to go on. Missing: carl",
        "carl: No space left on device: the lines wait in memory; free some space",
    ]
    assert logs.news() == []


def test_a_sentence_is_told_once_for_all_who_say_it_and_again_after_a_while(logs: Logs) -> None:
    for name in NAMES:
        logs.say(name, "WARNING", "INSECURE")
    assert logs.news() == ["anna, bert, carl and 2 more: INSECURE"]
    logs.say("anna", "WARNING", "INSECURE")
    assert logs.news() == []
    logs.say("anna", "WARNING", "INSECURE")
    assert logs.news(AGAIN_S) == ["anna: INSECURE"]


def test_a_flood_is_counted_not_shown(logs: Logs) -> None:
    for number in range(LINES + 7):
        logs.say("anna", "WARNING", f"refused call {number}")
    told = logs.news()
    assert len(told) == LINES + 1 and told[-1] == "... and 7 more, in the users' node.log"


def shown(*statuses: Progress, terminal: bool = True) -> str:
    console = Console(file=io.StringIO(), width=80, force_terminal=terminal, color_system=None)
    screen = Screen("lunch", console)
    for status in statuses:
        screen.show(status)
    console.print(screen._draw())
    return console.file.getvalue()


def test_whoever_waits_does_not_look_finished() -> None:
    """One user of three on this machine: it serves, the others are not there."""
    text = "waiting for bert, carl (3 of 3 users are needed); try: network-dp doctor lunch"
    drawn = shown(Progress(1, 1, 0, 15, still_s=4.0, waiting=text))
    assert "lunch: 1 of 1 user here serves" in drawn and " ".join(text.split()) in " ".join(drawn.split())
    assert "1/1" not in drawn and "0:00:00 0:00:00" not in drawn and "100%" not in drawn


def test_a_stall_in_the_middle_names_who_is_missing_and_goes_away() -> None:
    waiting = Progress(3, 5, 7, 15, still_s=4.0, waiting="waiting for user-2; try: network-dp doctor run")
    assert "7/15" in shown(waiting) and "waiting for user-2" in shown(waiting)
    assert "waiting" not in shown(waiting, Progress(5, 5, 8, 15))


def test_a_crowd_in_which_everybody_answers_is_not_said_to_wait_until_the_token_may_be_lost(
    make_plan: MakePlan,
) -> None:
    crowd, three = make_plan(200), make_plan(3, timing={"preset": "lan"})
    assert slow(crowd, 0, 20.0) == slow(crowd, 7, 20.0) == slow(crowd, crowd.total_steps, 20.0) == ""
    assert slow(three, 2, 29.0) == ""
    assert slow(three, 2, 40.0).startswith("no step for 40 s, though everybody answers")
    assert "until everybody has the result" in slow(crowd, crowd.total_steps, 40.0)


def test_sentences_are_broken_between_words_and_commands_stay_whole() -> None:
    text = wrapped(
        "error: a sentence that is longer than the screen\n    then: network-dp doctor /a/path-of/one-word", 30
    )
    assert text.splitlines() == [
        "error: a sentence that is",
        "longer than the screen",
        "    then: network-dp doctor",
        "    /a/path-of/one-word",
    ]


def test_without_a_terminal_it_is_said_in_lines() -> None:
    status = Progress(1, 1, 0, 15, waiting="waiting for bert", told=("bert: trouble",))
    assert shown(status, status, terminal=False).count("waiting for bert") == 2, "said once, and drawn at the end"
    assert "bert: trouble" in shown(status, terminal=False)


def test_the_picture_of_chaos_is_whole_at_80_columns() -> None:
    names = [f"user-{i}" for i in range(24)]
    picture = Picture(dict.fromkeys(names, "up"), 30, 120, 12.0, ("   1.0 s  user-3 killed",))
    console = Console(file=io.StringIO(), width=80, force_terminal=True, color_system=None)
    console.print(draw(picture))
    lines = console.file.getvalue().splitlines()
    words = {word for line in lines for word in line.split()}
    assert set(names) <= words and "user-3 killed" in console.file.getvalue()
    bar = next(line for line in lines if "━" in line)
    assert "user" not in bar and len(bar.rstrip()) <= 80


def test_status_tells_how_each_user_ended(tmp_path: Path) -> None:
    state = tmp_path
    assert status_of(state) == "never started"
    (state / "lives").write_text("1")
    assert status_of(state) == "killed"
    for code, word in ((exits.STOPPED, "stopped"), (exits.STALLED, "stalled"), (exits.BAD_INPUT, "failed")):
        process.ends(state, code)
        assert status_of(state) == word
    process.begins(state)
    assert status_of(state) == "killed", "a new process that says nothing"
    (state / "result.json").write_text("{}")
    assert status_of(state) == "finished"


def test_a_running_user_is_known_by_its_lock_and_its_number(tmp_path: Path) -> None:
    lock = tmp_path / "lock"
    lock.write_text(f"{os.getpid()}\n")
    assert running_pid(tmp_path) is None, "an old lock"
    with lock.open("r+") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        assert running_pid(tmp_path) == os.getpid() and status_of(tmp_path) == "running"


def test_a_pace_is_slow_enough_to_follow_and_fast_enough_to_live() -> None:
    import typer

    assert paced("5/s") == 5.0 and paced("1") == 1.0 and paced(None) is None
    for text in ("0.5/s", "0", "-1", "nan", "fast", "1000/s"):
        with pytest.raises(typer.BadParameter):
            paced(text)
