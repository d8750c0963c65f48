"""Golden transcripts and the generated parts of docs/PROTOCOL.md.

To accept a change you understand: ``python -m simulator.protocol_page --write``.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from node.protocol.machine import CUSTODY, WATCH
from simulator.faults.stories import STORIES, Story, transcript
from simulator.protocol_page import PAGE, custody, render, watch

TRANSCRIPTS = Path(__file__).parent.parent / "scenarios"


@pytest.mark.parametrize("story", STORIES, ids=lambda story: story.name)
def test_a_conversation_goes_as_its_golden_transcript_says(story: Story) -> None:
    assert transcript(story) == (TRANSCRIPTS / f"{story.name}.txt").read_text()


def test_there_is_no_transcript_without_a_story() -> None:
    assert {path.stem for path in TRANSCRIPTS.glob("*.txt")} == {story.name for story in STORIES}


def test_the_protocol_page_is_up_to_date() -> None:
    page = PAGE.read_text()
    assert render(page) == page


def test_the_diagrams_show_every_row_of_the_tables() -> None:
    for (phase, outcome), row in CUSTODY.items():
        for end in row.to:
            assert any(
                line.strip().startswith(f"{phase.name} --> {end.name}:") and outcome in line
                for line in custody().splitlines()
            )
    for (kind, outcome), lookout in WATCH.items():
        for after in lookout.to:
            assert any(
                line.strip().startswith(f"{kind.name} --> {after.name}:") and outcome in line
                for line in watch().splitlines()
            )
