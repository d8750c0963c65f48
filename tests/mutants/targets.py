"""Which files are changed, and who must notice."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]


@dataclass(frozen=True)
class Target:
    """Files that belong together, the tests that look at them (the quick ones first), and whether schedules do too."""

    name: str
    files: tuple[str, ...]
    tests: tuple[tuple[str, ...], ...]  # stages; the next only where the one before saw nothing
    schedules: bool = False
    leave_out: frozenset[str] = frozenset()  # of the files: they show, and decide nothing

    def paths(self, root: Path = ROOT) -> list[str]:
        found = (path for pattern in self.files for path in root.glob(pattern))
        return sorted(str(path.relative_to(root)) for path in found if path.name not in self.leave_out)


_SHOWN = {"terminal.py", "as_json.py", "report.py", "html.py", "export.py", "errors.py", "__init__.py", "cli.py"}
_SLOW = "tests/protocol/test_ledger.py"

TARGETS: tuple[Target, ...] = (
    Target(
        "protocol",
        ("node/protocol/*.py",),
        (
            ("tests/protocol", f"--ignore={_SLOW}", "tests/simulator/test_stories.py"),
            (_SLOW, "tests/simulator/test_old_disks.py"),
        ),
        schedules=True,
    ),
    Target(
        "storage",
        ("node/journal.py", "node/records.py", "node/shelf.py", "node/view_log.py", "node/in_step.py"),
        (("tests/journal", "--ignore=tests/journal/test_shelf.py"), ("tests/journal/test_shelf.py",)),
    ),
    Target("checks", ("analyzer/*.py",), (("tests/analyzer",),), leave_out=frozenset(_SHOWN)),
)


def target_of(file: str, root: Path = ROOT) -> Target | None:
    return next((target for target in TARGETS if file in target.paths(root)), None)
