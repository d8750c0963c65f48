"""Golden transcripts and the generated parts of docs/PROTOCOL.md.

To accept a change you understand: ``python -m simulator.protocol_page --write``.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from node.protocols.walk.machine import CUSTODY, HAPPY_PATH, PROGRESS, WATCH
from node.protocols.walk.state import Context, Phase, State, Step
from simulator.faults.schedule import Schedule
from simulator.faults.stories import COMPLETE, RING, SLOW_RING, STORIES, Story, transcript
from simulator.faults.world import World
from simulator.protocol_page import PAGE, events, render, watch

TRANSCRIPTS = Path(__file__).parents[3] / "golden" / "scenarios"


@pytest.mark.parametrize("story", STORIES, ids=lambda story: story.name)
def test_a_conversation_goes_as_its_golden_transcript_says(story: Story) -> None:
    assert transcript(story) == (TRANSCRIPTS / f"{story.name}.txt").read_text()


def test_there_is_no_transcript_without_a_story() -> None:
    assert {path.stem for path in TRANSCRIPTS.glob("*.txt")} == {story.name for story in STORIES}


def test_the_protocol_page_is_up_to_date() -> None:
    page = PAGE.read_text()
    assert render(page) == page


def test_the_page_shows_every_row_of_the_tables() -> None:
    for (phase, event), row in CUSTODY.items():
        lines = [line.split(" | ") for line in events().splitlines() if line.startswith(f"| {event} |")]
        line = next(line for line in lines if phase.name in line[1].split(", ") or line[1] == "any phase")
        assert row.run.__name__ in line[2]
        assert {end.name for end in row.to} <= {phase.name, *line[3].removesuffix(" |").split(", ")}
    for (kind, event), lookout in WATCH.items():
        for after in lookout.to:
            assert any(
                line.strip().startswith(f"{kind.name} --> {after.name}:") and event in line
                for line in watch().splitlines()
            )


def test_the_happy_path_is_what_a_walk_without_faults_takes(monkeypatch: pytest.MonkeyPatch) -> None:
    taken: set[tuple[Phase, str, Phase]] = set()

    def noting(run: Any, event: str) -> Any:
        def noted(ctx: Context, state: State, *more: Any) -> Step:
            after, effects = run(ctx, state, *more)
            if after.phase is not state.phase:
                taken.add((state.phase, event, after.phase))
            return after, effects

        return noted

    for table in (CUSTODY, WATCH):
        for key, row in list(table.items()):
            monkeypatch.setitem(table, key, row._replace(run=noting(row.run, key[1])))
    for phase, (run, to) in list(PROGRESS.items()):
        monkeypatch.setitem(PROGRESS, phase, (noting(run, ""), to))
    for stage in (0, SLOW_RING, COMPLETE):
        for seed in range(4):
            World(Schedule(seed, stage)).run()
    assert taken == set(HAPPY_PATH)


def test_a_transition_that_its_row_does_not_allow_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    key = (Phase.HANDING, "accepted")
    monkeypatch.setitem(CUSTODY, key, CUSTODY[key]._replace(to=frozenset({Phase.DONE})))
    with pytest.raises(AssertionError):
        World(Schedule(1, RING)).run()
