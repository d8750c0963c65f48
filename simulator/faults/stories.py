"""Eight conversations worth knowing, told by the simulator: golden transcripts and the diagrams of docs/PROTOCOL.md."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from simulator.faults.scenario import STAGES
from simulator.faults.schedule import Kill, Schedule, Timed
from simulator.faults.world import World

RING = next(i for i, stage in enumerate(STAGES) if stage.name.startswith("story: ring"))
SLOW_RING = next(i for i, stage in enumerate(STAGES) if stage.slow and not stage.plan.topology.drawn)
COMPLETE = next(i for i, stage in enumerate(STAGES) if stage.name.startswith("story: complete"))
_TIMED_LINE = re.compile(r"^ *[\d.]+ ")


@dataclass(frozen=True)
class Story:
    """What happens, and in which schedule it does."""

    name: str
    title: str
    text: str
    shown: tuple[str, str]  # first and last line of the part that a diagram shows
    schedule: Schedule


def _story(name: str, title: str, text: str, shown: tuple[str, str], stage: int, **faults: object) -> Story:
    return Story(name, title, text, shown, Schedule(1, stage, quiet_s=40.0, **faults))  # type: ignore[arg-type]


STORIES: tuple[Story, ...] = (
    _story(
        "normal_hop",
        "Normal hop",
        "Offer, grant, token, acknowledgement. The receiver journals before it acknowledges; the bytes were in the "
        "sender's journal before the offer, and in its log before they leave.",
        ("u2 -> u3 Offer", "u2 log accepted"),
        RING,
    ),
    _story(
        "lost_acknowledgement",
        "Lost acknowledgement",
        "The token arrived, its acknowledgement did not. The sender asks the same user again, never another one, "
        "and hears that the hop was taken.",
        ("u2 -> u3 Offer", "u2 log accepted"),
        SLOW_RING,
        drops=(("Accepted", 1),),
    ),
    _story(
        "crashed_receiver",
        "Crashed receiver",
        "Killed after journaling, before acknowledging. The sender waits for the same user; restarted, it asks "
        "what others remember of it, says that it has the hop, and goes on from its journal.",
        ("u2 -> u3 Offer", "u2 log accepted"),
        SLOW_RING,
        kills=(Kill("Accepted", 1, 2.0, False),),
    ),
    _story(
        "crashed_holder",
        "Crashed holder",
        "Killed with the token in hand. Restarted, it sends the journaled bytes: same noise, same next user.",
        ("-- u3 is killed", "u3 log accepted"),
        SLOW_RING,
        kills=(Kill("Offer", 2, 2.0, False),),
    ),
    _story(
        "skipped_neighbour",
        "Skipped ring neighbour",
        "A user of the ring does not answer offers. After three tries its position is skipped; the ledger in the "
        "token decides how much noise the next user needs instead.",
        ("u3 -> u0 Offer", "u3 log accepted"),
        RING,
        timed=(Timed(0.0, "late", 0, 12.0),),
    ),
    _story(
        "permanent_loss",
        "Permanent loss and re-issue",
        "The user that took the token is gone for good. When the lease ends, the one who got furthest asks around, "
        "wins a majority's promises, and takes its own last token up again with one full fresh noise.",
        ("u0 -> u3 Granted", "u2 log accepted"),
        RING,
        kills=(Kill("Handoff", 2, None, False),),
    ),
    _story(
        "late_return",
        "Late return",
        "The holder was cut off, the others took the token up again without it. When it is back, its epoch is "
        "refused at the offer: it gives its branch up and takes part in the new one.",
        ("-- split", "u0 log abandoned"),
        SLOW_RING,
        timed=(Timed(1.8, "split", 0, group=frozenset({0})), Timed(10.8, "heal", 0)),
    ),
    _story(
        "result",
        "Result",
        "The last holder is killed after it ended the walk, before anybody heard of it. The result is in its journal: "
        "back again, it wins the others' promises and publishes it.",
        ("u2 log finish", "u1 final result"),
        COMPLETE,
        kills=(Kill("Publish", 1, 2.0, False),),
    ),
)


def tell(story: Story) -> list[str]:
    """The story, line by line, without clock times; it must end well."""
    lines: list[str] = []
    world = World(story.schedule, lambda line: lines.append(_TIMED_LINE.sub("", line).rstrip()))
    world.run()
    world.checks.at_end()
    return lines


def transcript(story: Story) -> str:
    return (
        "\n".join([f"# {story.title}: {STAGES[story.schedule.scenario].name}", f"# {story.text}", *tell(story)]) + "\n"
    )


def write_transcripts(folder: Path) -> None:
    for story in STORIES:
        (folder / f"{story.name}.txt").write_text(transcript(story))
