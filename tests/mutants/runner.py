"""Try one change at a time in a copy of the tree: does any test, or any schedule, notice?"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from tests.mutants.operators import Mutant
from tests.mutants.targets import ROOT, Target

STAGE_TIMEOUT_S = 240.0  # on a busy machine; a change that makes a test wait for ever has been noticed, too
_COPIED = (
    *("network_dp", "node", "coordinator_free_launcher", "analyzer", "simulator", "benchmarks", "tests", "examples"),
    *("docs", "proto", "docker", "pyproject.toml", "README.md", "CHANGELOG.md", "Makefile"),
)
_SCHEDULES = """
import sys
from simulator.faults.runner import run_seed
for seed in range(int(sys.argv[1])):
    for failure in run_seed(seed).failures:
        sys.exit(f"schedule {failure.seed}: {failure.what}")
"""


class Fate(StrEnum):
    KILLED = "killed"
    HUNG = "hung"  # noticed as well: the tests did not come to an end
    SURVIVED = "survived"
    NOT_RUN = "not run"  # the time was over


@dataclass(frozen=True)
class Outcome:
    mutant: Mutant
    fate: Fate
    by: str = ""  # what noticed it
    seconds: float = 0.0


class Copy:
    """A copy of the tree, of which one file at a time is changed."""

    def __init__(self, root: Path, folder: Path) -> None:
        self.folder, self._clock = folder, int(time.time())
        for name in _COPIED:
            source = root / name
            if source.is_dir():
                shutil.copytree(source, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
            elif source.exists():
                shutil.copy2(source, folder / name)

    @contextmanager
    def changed(self, mutant: Mutant | None) -> Iterator[None]:
        if mutant is None:
            yield
            return
        path = self.folder / mutant.file
        source = path.read_text()
        try:
            self._write(path, mutant.apply(source))
            yield
        finally:
            self._write(path, source)

    def _write(self, path: Path, text: str) -> None:
        """Compiled files go by the second and the size: every text gets a second of its own."""
        path.write_text(text)
        self._clock += 1
        os.utime(path, (self._clock, self._clock))

    def run(self, arguments: Sequence[str], timeout_s: float) -> tuple[int | None, str]:
        """(exit code, None: did not end in time; last words). Whatever it started is ended with it."""
        environment = {**os.environ, "PYTHONDONTWRITEBYTECODE": "", "OMP_NUM_THREADS": "1"}
        with tempfile.TemporaryFile() as said:
            process = subprocess.Popen(
                [sys.executable, *arguments],
                cwd=self.folder,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=said,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
            try:
                code: int | None = process.wait(timeout_s)
            except subprocess.TimeoutExpired:
                code = None
            finally:
                if process.poll() is None:
                    os.killpg(process.pid, signal.SIGKILL)  # the session made above
                    process.wait()
            said.seek(0)
            return code, said.read().decode(errors="replace")


def _stages(tests: Sequence[Sequence[str]], schedules: int) -> Iterator[list[str]]:
    """The first tests, the schedules, then the tests that take longer."""
    marks = "not slow and not process and not full and not containers and not hosts"
    for place, names in enumerate(tests):
        yield ["-m", "pytest", "-x", "-q", "--no-header", "-p", "no:cacheprovider", "-m", marks, *names]
        if place == 0 and schedules:
            yield ["-c", _SCHEDULES, str(schedules)]


def _noticed_by(words: str) -> str:
    lines = [line for line in words.splitlines() if line.startswith(("FAILED", "ERROR", "schedule"))]
    return (lines or words.splitlines() or [""])[-1][:200]


def try_out(
    copy: Copy, mutant: Mutant | None, tests: Sequence[Sequence[str]], schedules: int, timeout_s: float
) -> tuple[Fate, str]:
    """What becomes of one change; None: of the tree as it is, which must survive."""
    with copy.changed(mutant):
        for stage in _stages(tests, schedules):
            code, words = copy.run(stage, timeout_s)
            if code is None:
                return Fate.HUNG, f"not over after {timeout_s:g} s"
            if code != 0:
                return Fate.KILLED, _noticed_by(words)
    return Fate.SURVIVED, ""


@dataclass(frozen=True)
class Job:
    mutant: Mutant
    tests: Sequence[Sequence[str]]
    schedules: int


def job_of(mutant: Mutant, target: Target, schedules: int) -> Job:
    return Job(mutant, target.tests, schedules if target.schedules else 0)


def run_all(
    jobs: Sequence[Job],
    *,
    workers: int,
    seconds: float,
    timeout_s: float = STAGE_TIMEOUT_S,
    root: Path = ROOT,
    tell: Callable[[Outcome], None] = lambda outcome: None,
) -> list[Outcome]:
    """All jobs on ``workers`` cores, until ``seconds`` have passed; one copy of the tree each."""
    deadline, local, lock = time.monotonic() + seconds, threading.local(), threading.Lock()
    with tempfile.TemporaryDirectory(prefix="mutants-") as name, ThreadPoolExecutor(workers) as pool:

        def copy() -> Copy:
            if not hasattr(local, "copy"):
                local.copy = Copy(root, Path(tempfile.mkdtemp(dir=name)))
            found: Copy = local.copy
            return found

        def work(job: Job) -> Outcome:
            began = time.monotonic()
            if began > deadline:
                return Outcome(job.mutant, Fate.NOT_RUN)
            fate, by = try_out(copy(), job.mutant, job.tests, job.schedules, timeout_s)
            outcome = Outcome(job.mutant, fate, by, time.monotonic() - began)
            with lock:
                tell(outcome)
            return outcome

        return list(pool.map(work, jobs))


def unchanged_passes(targets: Sequence[Target], *, timeout_s: float = STAGE_TIMEOUT_S, root: Path = ROOT) -> str:
    """What fails although nothing was changed; then no change can be said to have been noticed."""
    with tempfile.TemporaryDirectory(prefix="mutants-") as name:
        copy = Copy(root, Path(name))
        for target in targets:
            fate, by = try_out(copy, None, target.tests[:1], 0, timeout_s)
            if fate is not Fate.SURVIVED:
                return f"{target.name}: {by}"
    return ""
