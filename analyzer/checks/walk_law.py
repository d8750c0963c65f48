"""Was the next holder drawn as the plan says? (THEORY.md#exposure; among peers ``graph_law``, THEORY.md#graphs)

A holder draws among the users that it does not hold to be down, itself included. Its own log says whom it found down
(and up again) before which line, so each of its draws is judged by what it knew: with m users held to be down, nobody
is drawn with more than 1/(n - m), whoever is not held to be down with at least 1/n. "Held to be down" lasts here until
the log says "up" or the user starts again: a little longer than in the node, where it may also expire in silence.
A draw of somebody that does not answer leaves a "down" line instead of a sent one, and is counted as the draw it was.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
from scipy.stats import binom

from analyzer.checks import graph_law
from analyzer.checks.graph_law import Draws
from analyzer.checks.integrity import Run
from analyzer.checks.randomness import Question, check, pearson, two_sided
from analyzer.read.tables import NOBODY, Floats, Ints, Logs
from analyzer.verdict import FALSE_ALARM, Check, Status


def _first_sends(logs: Logs) -> Ints:
    """Row of the first send of every visit: the draws that nobody had refused before."""
    sents = logs.sents
    rows = np.flatnonzero(sents["to"] >= 0)
    key = np.stack([sents["user"][rows].astype(np.int64), sents["visit"][rows]], axis=1)
    _, first = np.unique(key, axis=0, return_index=True)
    return np.asarray(rows[np.sort(first)], dtype=np.int64)


def _draws(run: Run) -> Draws:
    logs, n = run.logs, run.plan.n
    rows = _first_sends(logs)
    sender, receiver = (logs.sents[name][rows].astype(np.int64) for name in ("user", "to"))
    n_down, was_down = np.zeros(len(rows), dtype=np.int64), np.zeros(len(rows), dtype=np.bool_)
    missed = np.zeros(n, dtype=np.int64)
    who_down = [frozenset[int]()] * len(rows)
    lost: list[tuple[int, int, int, int]] = []
    for user in np.unique(logs.peers["user"][logs.peers["down"]]).tolist():
        mine = np.flatnonzero(sender == user)
        for place, drawn, down in _follow(logs, user, rows[mine]):
            missed[list(down)] += 1
            if place == NOBODY:
                lost.append((user, drawn, len(down), drawn in down))
                who_down.append(frozenset(down))
            else:
                who_down[mine[place]] = frozenset(down)
                n_down[mine[place]], was_down[mine[place]] = len(down), drawn in down
    more = np.array(lost, dtype=np.int64).reshape(-1, 4)
    return Draws(
        np.concatenate([sender, more[:, 0]]),
        np.concatenate([receiver, more[:, 1]]),
        np.concatenate([rows, np.full(len(more), NOBODY)]),
        np.concatenate([n_down, more[:, 2]]),
        np.concatenate([was_down, more[:, 3].astype(np.bool_)]),
        missed,
        np.concatenate([logs.sents["step"][rows], np.full(len(more), NOBODY)]),
        who_down,
    )


_VISITED, _PEER, _SENT = range(3)


def _follow(logs: Logs, user: int, rows: Ints) -> Iterator[tuple[int, int, set[int]]]:
    """One log from top to bottom: every draw as (place in ``rows`` or NOBODY, who was drawn, who was down)."""
    receivers = logs.sents["to"][rows].tolist()
    peers = logs.peers[logs.peers["user"] == user]
    events = [(line, _VISITED, 0) for line in logs.visits["line"][logs.visits["user"] == user].tolist()]
    events += [(line, _PEER, i) for i, line in enumerate(peers["line"].tolist())]
    events += [(line, _SENT, i) for i, line in enumerate(logs.sents["line"][rows].tolist())]
    down: set[int] = set()
    drawing = warm = False  # in the first visit after a start, "down" may be the outcome of a roll-call, not of a draw
    for _, what, i in sorted(events):
        if what == _VISITED:
            drawing, warm = warm, True
        elif what == _SENT:
            drawing = False
            yield i, receivers[i], down
        elif (peer := int(peers["peer"][i])) == NOBODY:
            down, drawing, warm = set(), False, False
        elif not peers["down"][i]:
            down.discard(peer)
        else:
            if drawing:
                yield NOBODY, peer, down
            down.add(peer)


def uniform_walk(run: Run) -> Check | None:
    """The next holder is uniform over the users, the sender included; among peers it follows their weights."""
    if not run.plan.topology.drawn:
        return None
    draws = _draws(run)
    if not run.plan.topology.uniform:
        return graph_law.weighted_walk(run, draws)
    found = check(
        run,
        "uniform",
        "The next holder was drawn uniformly",
        list(_questions(run, draws)) if len(draws) else [],
        "Visits, edges and self-hops by exact binomial tails, users and offsets by chi-square; Bonferroni. Whom the "
        "sender itself held to be down is left out of its draws.",
        "THEORY.md#exposure, #blind-routing",
        len(draws),
        seen=Status.UNKNOWN if run.logs.absent or run.logs.rejoined else Status.PASS,
    )
    return _without_peer_lines(run, found, draws) if run.logs.withheld and found.status is Status.FAIL else found


def _without_peer_lines(run: Run, found: Check, draws: Draws) -> Check:
    """Exported logs do not say who was down. At least ``min_live`` users were up, or nobody sends: what even that does
    not explain is a biased walk; what it explains stays open."""
    down = np.full(len(draws), run.plan.n - min(run.plan.n, run.plan.walk.min_live))
    nobody_known = replace(draws, n_down=down, missed=np.full(run.plan.n, len(draws)))
    worst = min(_questions(run, nobody_known), key=lambda question: question.p)
    if worst.p <= FALSE_ALARM:
        return found
    text = found.observed + " (exported logs do not say who was down)"
    status = Status.PARTIAL if run.kept_back else Status.UNKNOWN
    return replace(found, status=status, observed=text, evidence=(), evidence_count=0)


def _tails(low: Ints, low_of: Ints, high: Ints, high_of: Ints, least: float, most: Floats) -> Floats:
    """Two-sided p-values where a draw has at least probability ``least`` and at most ``most`` (its mean, Hoeffding)."""
    return two_sided(binom.cdf(low, low_of, least), binom.sf(high - 1, high_of, most))


def _questions(run: Run, draws: Draws) -> Iterator[Question]:
    n, count = run.plan.n, len(draws)
    most = 1 / (n - np.minimum(draws.n_down, n - 1))
    visits = np.bincount(draws.receiver, minlength=n)
    surely = np.bincount(draws.receiver[~draws.was_down], minlength=n)
    p = _tails(surely, count - draws.missed, visits, np.full(n, count), 1 / n, np.full(n, most.mean())) * n * 5
    for user in np.flatnonzero(p <= FALSE_ALARM):
        text = f"{run.logs.name(int(user))} was drawn {visits[user]} times of {count}"
        yield Question(float(p[user]), text, int(user))
    yield Question(min(1.0, float(p.min())), "visits per user")
    yield from _shapes(n, draws)
    own = np.array([np.count_nonzero(draws.receiver == draws.sender)])
    p = _tails(own, np.array([count]), own, np.array([count]), 1 / n, np.array([most.mean()]))
    yield Question(min(1.0, float(p[0]) * 5), f"{own[0]} self-hops in {count} draws")
    yield from _edges(run, draws, most)


def _shapes(n: int, draws: Draws) -> Iterator[Question]:
    """Draws of who held nobody to be down."""
    calm = draws.n_down == 0
    sender, receiver = draws.sender[calm], draws.receiver[calm]
    yield Question(pearson(np.bincount(receiver, minlength=n), 5), "users are not drawn equally often")
    offset = np.bincount((receiver - sender) % n, minlength=n)
    yield Question(pearson(offset, 5), "the next holder depends on the sender's place")


def _edges(run: Run, draws: Draws, most: Floats) -> Iterator[Question]:
    """Does anybody prefer anybody? A preferred user that is said to be down is preferred all the same."""
    n, name = run.plan.n, run.logs.name
    of_sender = np.bincount(draws.sender, minlength=n)
    share = np.bincount(draws.sender, most, minlength=n) / np.maximum(of_sender, 1)
    sent = np.flatnonzero(draws.row >= 0)
    edge, first, count = np.unique(draws.sender[sent] * n + draws.receiver[sent], return_index=True, return_counts=True)
    by = edge // n
    p = binom.sf(count - 1, of_sender[by], share[by]) * n * n * 5
    for i in np.flatnonzero(p <= FALSE_ALARM):
        u, v = divmod(int(edge[i]), n)
        text = f"{name(u)} sent {count[i]} of its {of_sender[u]} tokens to {name(v)}"
        yield Question(float(p[i]), text, u, int(draws.row[sent[first[i]]]))
    yield Question(min(1.0, float(p.min(initial=1.0))), "tokens per edge")


def checks(run: Run) -> list[Check]:
    found = (graph_law.peer_order(run), uniform_walk(run))
    return [check for check in found if check is not None]
