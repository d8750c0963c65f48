"""Changes that once went unnoticed, or whose going unnoticed would be worst: each names the tests that must see it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from tests.mutants.operators import Mutant


@dataclass(frozen=True)
class Named:
    """A change of one place in a file, and who sees it."""

    name: str
    file: str
    was: str
    becomes: str
    seen_by: str

    def mutant(self, root: Path) -> Mutant:
        source = (root / self.file).read_text()
        assert source.count(self.was) == 1, f"{self.name}: {self.file} has {self.was!r} {source.count(self.was)} times"
        before = source[: source.index(self.was)]
        column = len(before[before.rfind("\n") + 1 :].encode())
        return Mutant(self.file, before.count("\n") + 1, column, "named", self.was, self.becomes, self.name)


MEMORY, RESULTS = "node/protocols/walk/memory.py", "node/protocols/walk/results.py"
ONE_RESULT, POWER, LIES = (
    "tests/unit/node/protocols/walk/test_one_result.py",
    "tests/unit/node/storage/test_power_cut.py",
    "tests/unit/analyzer/checks/test_single_lies.py",
)
IN_STEP, CHECKS = "tests/unit/node/storage/test_in_step.py", "analyzer/checks/integrity.py"

MUST_DIE: tuple[Named, ...] = (
    Named(
        "the oldest reported result is published",
        "node/protocols/walk/claims.py",
        "key=lambda result: result.epoch, reverse=True",
        "key=lambda result: result.epoch",
        ONE_RESULT,
    ),
    Named(
        "final with one acknowledgement too few",
        RESULTS,
        "ctx.n - len(state.unpublished) >= ctx.majority",
        "ctx.n - len(state.unpublished) >= ctx.majority - 1",
        ONE_RESULT,
    ),
    Named(
        "the same hop taken elsewhere is not noticed",
        MEMORY,
        "or elsewhere or passed",
        "or passed",
        ONE_RESULT,
    ),
    Named(
        "an end that a peer was told and this user forgot is not noticed",
        MEMORY,
        "answer.taken > max(at_boot.sent, at_boot.end)",
        "False",
        ONE_RESULT,
    ),
    Named(
        "the end of a walk is not noted as taken",
        RESULTS,
        "taken={**state.durable.taken, peer: end}",
        "taken=state.durable.taken",
        ONE_RESULT,
    ),
    Named(
        "who journaled a result is not noted",
        RESULTS,
        "given={**state.durable.given, peer: ctx.end_hop(result.epoch)}",
        "given=state.durable.given",
        ONE_RESULT,
    ),
    Named(
        "a compaction is not synced",
        "node/storage/journal.py",
        "os.fsync(file.fileno())",
        "pass",
        POWER,
    ),
    Named(
        "a token is named before it is synced",
        "node/storage/blob_store.py",
        "            os.fdatasync(file)\n        return",
        "            pass\n        return",
        POWER,
    ),
    Named(
        "a record is not synced",
        "node/storage/journal.py",
        "        if self.syncs:\n            os.fdatasync(self._file)",
        "        pass",
        POWER,
    ),
    Named(
        "a new folder entry is not synced",
        "node/storage/blob_store.py",
        "        os.fsync(folder)",
        "        pass",
        POWER,
    ),
    Named(
        "the view log is not synced before a compaction",
        "node/storage/in_step.py",
        "        log.sync()\n        if journal.compact",
        "        if journal.compact",
        IN_STEP,
    ),
    Named(
        "the line of refused bytes is not synced before another takes its place",
        "node/storage/in_step.py",
        "_drops_a_line(before, after):\n        log.sync()",
        "_drops_a_line(before, after):\n        pass",
        IN_STEP,
    ),
    Named(
        "the view log is not flushed before the journal",
        "node/storage/in_step.py",
        "    log.flush()\n    if journal.syncs",
        "    if journal.syncs",
        IN_STEP,
    ),
    Named("the order of the ring is not looked at", CHECKS, "wrong = sent &", "wrong = False & sent &", LIES),
    Named("a cap is one too high", CHECKS, "AtMost(cap)", "AtMost(cap and cap + 1)", LIES),
    Named("an edge's cap is one too high", CHECKS, "AtMost(edge)", "AtMost(edge and edge + 1)", LIES),
    Named(
        "any initial token will do",
        CHECKS,
        'if int(visits["received"][row]) not in right:',
        "if False:",
        LIES,
    ),
    Named("a wrong count in the result will do", CHECKS, "row.contributions not in (None, made)", "False", LIES),
    Named(
        "the same hop with other bytes will do",
        CHECKS,
        "other_bytes = same_hop & shown &",
        "other_bytes = False & same_hop & shown &",
        LIES,
    ),
    Named("a gap in the walk will do", CHECKS, "if step != last + 1 and", "if False and", LIES),
    Named("a walk may end early", CHECKS, "lineage.complete and last < total", "False and last < total", LIES),
    Named("a visit need not send the token on", CHECKS, "np.asarray(silent &", "np.asarray(False & silent &", LIES),
    Named(
        "a user may be in its own colluding set",
        "network_dp/exposure/walked.py",
        "if u not in candidate and column[u] > best[u]:",
        "if column[u] > best[u]:",
        "tests/paper/test_colluders.py",
    ),
)
