"""Who handed what to whom: every token sent is a node of a tree, and the result hangs on one branch of it.

A sent token's parent is the token its visit received (same tag), or, for a re-issue, the old token taken up again.
The **accepted branch** leads from the start to the finish that the published result names by its epoch. All other
sent tokens are abandoned or refused: not part of the result, but seen, so they count for privacy.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from analyzer.read.tables import HANDOFF, NOBODY, REISSUE, SENT, START, Bools, Findings, Ints, Logs, Rows
from analyzer.reconstruct import extent
from analyzer.reconstruct.extent import Extent, since_rejoining

ROOT: Final = -1  # the public initial token
LOST: Final = -2  # the parent is in a log that is not here


@dataclass(frozen=True, slots=True)
class Lineage:
    """The tree of sent tokens of one run.

    ``sents`` are the logged ones followed by ``n_ghosts`` rows inferred for users whose log is missing: their
    neighbours' logs say when such a user held the token, not what it did (taken as an honest contribution).
    """

    sents: Rows
    n_ghosts: int
    parent: Ints  # row of the parent token, ROOT or LOST
    received: Ints  # per sent row: the row of its visit, NOBODY for ghosts
    accepted: Ints  # rows of the accepted branch, from the start to the finish; empty when it is not known
    complete: bool  # the accepted branch is known without a gap from start to finish
    links: Findings  # received is not what was sent
    checked_links: int
    missing: int  # lines that logs refer to and that logs which are here, but not whole, do not show
    extent: Extent

    @property
    def on_branch(self) -> Bools:
        mask = np.zeros(len(self.sents), dtype=np.bool_)
        mask[self.accepted] = True
        return mask

    @property
    def off_branch(self) -> Bools:
        """Tokens that left the accepted branch; where that is not known, none is said to have."""
        return np.asarray(~self.on_branch & self.complete, dtype=np.bool_)


def _match(keys: NDArray[np.uint64], wanted: NDArray[np.uint64]) -> Ints:
    """For each wanted key the first row that has it, else NOBODY."""
    if len(keys) == 0:
        return np.full(len(wanted), NOBODY, dtype=np.int64)
    order = np.argsort(keys, kind="stable")
    place = np.minimum(np.searchsorted(keys, wanted, sorter=order), len(keys) - 1)
    rows = order[place]
    return np.where(keys[rows] == wanted, rows, NOBODY).astype(np.int64)


def _links(logs: Logs, covered: Extent) -> tuple[Ints, Findings, int, int]:
    """For each visit the sent row it received, what contradicts it, how many hand-overs were compared, and of how
    many the sender's line may have been cut off."""
    visits, sents, findings = logs.visits, logs.sents, Findings()
    handed = np.flatnonzero(visits["cause"] == HANDOFF)
    link = np.full(len(visits), ROOT, dtype=np.int64)
    link[visits["cause"] != START] = LOST
    link[handed] = np.where((found := _match(sents["tag"], visits["tag"][handed])) == NOBODY, LOST, found)
    hits = np.flatnonzero(found != NOBODY)
    same = np.zeros(len(handed), dtype=np.bool_)
    same[hits] = _agree(sents[found[hits]], visits[handed[hits]])
    got = visits[handed]
    # Who said what a hidden walk's user opened is known from the speaker's line alone: it may be one that is missing.
    unknown = got["sender"] == NOBODY
    owed = np.where(unknown, logs.sealed, covered.covers(got["sender"], got["epoch"], got["step"]))
    wrong = ~same & (owed | (found != NOBODY))
    for visit in handed[wrong]:
        link[visit] = _explain(logs, int(visit), int(link[visit]), findings)
    present = unknown | np.isin(got["sender"], np.fromiter(logs.files, dtype=np.int64))
    return link, findings, int(np.count_nonzero(same | wrong)), int(np.count_nonzero(present & ~same & ~wrong))


def _agree(sents: Rows, visits: Rows) -> Bools:
    """Do both ends of each hand-over say the same?"""
    same = ~((sents["sent"] != 0) & (visits["received"] != 0) & (sents["sent"] != visits["received"]))
    for field, other in (("epoch", "epoch"), ("step", "step"), ("user", "sender"), ("to", "user")):
        same &= sents[field] == visits[other]
    return np.asarray(same, dtype=np.bool_)


def _explain(logs: Logs, visit: int, tagged: int, findings: Findings) -> int:
    """Say why a hand-over does not match its sender's log; the row to go on with, if one stands to reason."""
    row, sents = logs.visits[visit], logs.sents
    sender, receiver = logs.name(int(row["sender"])), logs.name(int(row["user"]))
    alike = np.flatnonzero(
        (sents["user"] == row["sender"]) & (sents["epoch"] == row["epoch"]) & (sents["step"] == row["step"])
    )
    if tagged >= 0:
        goes_on = tagged
        same_hop = sents["epoch"][tagged] == row["epoch"] and sents["step"][tagged] == row["step"]
        same_ends = sents["user"][tagged] == row["sender"] and sents["to"][tagged] == row["user"]
        if same_hop and same_ends:
            line = sents["line"][tagged]
            text = f"received other bytes than {sender} sent (step {row['step']}, {sender}'s line {line})"
        else:
            text = f"its tag of step {row['step']} belongs to another hop ({logs.name(int(sents['user'][tagged]))})"
    elif len(alike):
        goes_on = int(alike[-1])
        text = f"received step {row['step']} from {sender} with another tag than {sender} logged for {receiver}"
    else:
        goes_on = LOST
        text = f"received step {row['step']} from {sender}, whose log shows no such hand-over"
    findings.add(logs.finding(int(row["user"]), row["line"], text))
    return goes_on


def _bases(logs: Logs, link: Ints) -> None:
    """A re-issue's parent: the token its user had sent at the base hop, or had received there when its task never ran.

    In the order of the log: a user may take up again what it had itself taken up."""
    for visit, (epoch, step) in sorted(logs.bases.items()):
        user = logs.visits["user"][visit]
        sent, got = (
            np.flatnonzero((table["user"] == user) & (table["epoch"] == epoch) & (table["step"] == step))
            for table in (logs.sents, logs.visits)
        )
        if len(sent):
            link[visit] = sent[-1]
        elif len(got):
            link[visit] = link[got[-1]]
        elif step == 0:
            link[visit] = ROOT


def _given(logs: Logs) -> dict[tuple[int, int], tuple[Ints, Ints]]:
    """(epoch, user without a log) -> the steps and rows at which somebody handed it the token, by step."""
    sents = logs.sents
    rows = np.flatnonzero(np.isin(sents["to"], np.array(logs.absent, dtype=np.int64)))
    grouped: dict[tuple[int, int], list[int]] = {}
    for row in rows[np.argsort(sents["step"][rows], kind="stable")]:
        grouped.setdefault((int(sents["epoch"][row]), int(sents["to"][row])), []).append(int(row))
    return {key: (sents["step"][held].astype(np.int64), np.array(held)) for key, held in grouped.items()}


def _ghosts(logs: Logs, link: Ints) -> tuple[Rows, Ints]:
    """Inferred sent rows of users without a log, and each one's parent (LOST when two such users follow in a row)."""
    visits, given = logs.visits, _given(logs)
    absent = np.isin(visits["sender"], np.array(logs.absent, dtype=np.int64))
    orphans = np.flatnonzero((link == LOST) & (visits["cause"] == HANDOFF) & absent)
    rows = np.zeros(len(orphans), dtype=SENT)
    seen = visits[orphans]
    for field, source in (("user", "sender"), ("epoch", "epoch"), ("step", "step"), ("to", "user"), ("tag", "tag")):
        rows[field] = seen[source]
    rows["visit"], rows["row"] = -1 - np.arange(len(orphans)), NOBODY
    rows["real"], rows["units"], rows["sent"] = True, 1, seen["received"]
    rows["time"] = rows["size"] = np.nan
    parents = np.full(len(orphans), LOST, dtype=np.int64)
    skips = logs.plan.topology.most_skipped
    for i, row in enumerate(rows):
        steps, held = given.get((int(row["epoch"]), int(row["user"])), (None, None))
        if steps is None or held is None:
            continue
        place = int(np.searchsorted(steps, row["step"])) - 1
        if place >= 0 and 1 <= row["step"] - steps[place] <= 1 + skips:
            parents[i] = held[place]
    link[orphans] = len(logs.sents) + np.arange(len(orphans))
    return rows, parents


def _finish_of_result(logs: Logs, sents: Rows, finishes: Ints) -> int:
    """The finish behind the published result: same epoch; or, when a later epoch re-published it, same value. Another
    one only where no line can be missing; NOBODY: it is not there."""
    if logs.results:
        newest = max(logs.results, key=lambda row: logs.epochs[row.epoch])
        value = next((row.digest for row in logs.results if row.epoch == newest.epoch and row.digest), 0)
        older = [i for i in finishes if logs.epochs[int(sents["epoch"][i])] <= logs.epochs[newest.epoch]]
        for matching in (
            finishes[sents["epoch"][finishes] == newest.epoch],
            finishes[(sents["sent"][finishes] == value) & (value != 0)],
            np.array(older if logs.sealed else [], dtype=np.int64),
            finishes if logs.sealed else finishes[:0],
        ):
            if len(matching):
                finishes = matching
                break
        else:
            return NOBODY
    return int(max(finishes, key=lambda i: logs.epochs[int(sents["epoch"][i])]))


def _accepted(logs: Logs, sents: Rows, parent: Ints) -> tuple[Ints, bool]:
    """Back from the finish of the result's epoch; (rows in walking order, reached the start?)."""
    finishes = np.flatnonzero((sents["to"] == NOBODY) & (sents["visit"] >= 0))
    row = _finish_of_result(logs, sents, finishes) if len(finishes) else NOBODY
    if row == NOBODY:
        return np.zeros(0, dtype=np.int64), False
    parents: list[int] = parent.tolist()
    chain: list[int] = []
    while row >= 0 and len(chain) <= len(sents):
        chain.append(row)
        row = parents[row]
    return np.array(chain[::-1], dtype=np.int64), row == ROOT


def build(logs: Logs) -> Lineage:
    """The tree of all sent tokens, and the branch that led to the result."""
    covered = extent.build(logs)
    link, findings, checked, missing = _links(logs, covered)
    ghosts, ghost_parents = _ghosts(logs, link)
    _bases(logs, link)
    sents = np.concatenate([logs.sents, ghosts])
    visit_rows = logs.sents["row"].astype(np.int64)
    parent = np.where(visit_rows >= 0, link[visit_rows] if len(link) else LOST, LOST)
    parent = np.concatenate([parent, ghost_parents]).astype(np.int64)
    accepted, reached = _accepted(logs, sents, parent)
    return Lineage(
        sents=sents,
        n_ghosts=len(ghosts),
        parent=parent,
        received=np.concatenate([visit_rows, np.full(len(ghosts), NOBODY, dtype=np.int64)]),
        accepted=accepted,
        complete=reached,
        links=findings,
        checked_links=checked,
        missing=missing + int(np.count_nonzero(unvisited(logs) & ~since_rejoining(logs, logs.sents))),
        extent=covered,
    )


def unvisited(logs: Logs) -> Bools:
    """Per sent row: is the visit that led to it not in the log?"""
    return np.asarray(logs.sents["row"] == NOBODY, dtype=np.bool_)


def is_reissue(logs: Logs, lineage: Lineage) -> Bools:
    """Per sent row: was its visit a re-issue?"""
    rows = lineage.received
    mask = np.zeros(len(rows), dtype=np.bool_)
    known = rows >= 0
    mask[known] = logs.visits["cause"][rows[known]] == REISSUE
    return mask


def held_at(logs: Logs, lineage: Lineage, rows: Ints) -> Ints:
    """The step at which the sender of each row held the token; without its log, the one before the receiver's."""
    visits, before = lineage.received[rows], lineage.sents["step"][rows] - 1
    if not len(logs.visits):
        return np.asarray(before, dtype=np.int64)
    return np.where(visits >= 0, logs.visits["step"][visits], before).astype(np.int64)


def contributions_per_user(sents: Rows, n_users: int) -> Ints:
    """Real contributions that left each user, on all branches; a visit that left several times gave one."""
    real = sents[sents["real"]]
    once = np.unique(np.stack([real["user"].astype(np.int64), real["visit"]], axis=1), axis=0)
    return np.bincount(once[:, 0], minlength=n_users).astype(np.int64)
