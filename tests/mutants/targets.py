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
_SLOW = "tests/unit/node/protocols/walk/test_ledger.py"

TARGETS: tuple[Target, ...] = (
    Target(
        "protocol",
        ("node/protocols/walk/*.py",),
        (
            ("tests/unit/node/protocols/walk", f"--ignore={_SLOW}", "tests/unit/simulator/faults/test_stories.py"),
            (_SLOW, "tests/unit/simulator/faults/test_old_disks.py"),
        ),
        schedules=True,
    ),
    Target(
        "rounds",
        ("node/protocols/rounds/*.py", "node/storage/rounds_records.py"),
        (
            ("tests/unit/node/protocols/rounds", "tests/unit/node/storage/test_rounds_records.py"),
            ("tests/unit/simulator/test_rounds.py",),
        ),
    ),
    Target(
        "storage",
        (
            "node/storage/journal.py",
            "node/storage/records.py",
            "node/storage/walk_records.py",
            "node/storage/blob_store.py",
            "node/storage/view_log.py",
            "node/storage/in_step.py",
        ),
        (
            ("tests/unit/node/storage", "--ignore=tests/unit/node/storage/test_blob_store.py"),
            ("tests/unit/node/storage/test_blob_store.py",),
        ),
    ),
    Target(
        "checks",
        ("analyzer/*.py", "analyzer/checks/*.py", "analyzer/reconstruct/*.py", "analyzer/read/*.py"),
        (("tests/unit/analyzer",),),
        leave_out=frozenset(_SHOWN),
    ),
)


def target_of(file: str, root: Path = ROOT) -> Target | None:
    return next((target for target in TARGETS if file in target.paths(root)), None)
