"""Exposure from the logs, against dumb oracles that look at the raw lines only."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest

from analyzer.analysis import analyze_runs
from analyzer.reconstruct.exposures import Measure
from analyzer.reconstruct.observations import Observations
from analyzer.reconstruct.responses import Responses
from analyzer.verdict import Status
from benchmarks.generated_logs import Faults, plan_text, write_run
from network_dp import exposure, plan_reader, promise
from network_dp.accounting import bounds, gaussian, shuffle
from network_dp.exposure import Observation, general
from tests.unit.analyzer import tamper
from tests.unit.analyzer.conftest import GRID, HISTOGRAM, SGD


def analysis_of(run, **options):
    (analysis,) = analyze_runs([run], **options).runs
    return analysis


def raw_lines(run, plan):
    """All lines of all users with their owner."""
    return [(user, line) for user, name in enumerate(plan.names) for line in tamper.read(run, name)]


def traced(run, observers=None):
    """(plan, observer -> every token it was sent, each as all (user, line) it is made of, its own left out)."""
    plan = plan_reader.parse((run / "plan.toml").read_text())
    names = {name: index for index, name in enumerate(plan.names)}
    lines = raw_lines(run, plan)
    visits = {(u, x["visit"]): x for u, x in lines if x["kind"] == "visit"}
    sents = [(u, x) for u, x in lines if x["kind"] in ("sent", "finish")]
    by_tag = {x["tag"]: (u, x) for u, x in sents if "tag" in x}
    received = {(u, (*x["epoch"], x["step"])): x.get("tag") for (u, _), x in visits.items()}

    def parent(u, x):
        visit = visits[u, x["visit"]]
        if visit["cause"] == "handoff":
            return by_tag[visit["tag"]]
        if visit["cause"] == "reissue":
            *epoch, step = visit["base"]
            mine = [(w, y) for w, y in sents if w == u and y["epoch"] == epoch and y["step"] == step]
            return mine[0] if mine else by_tag[received[u, (*epoch, step)]]
        return None

    def parts(u, x, observer):
        found, here = [], (u, x)
        while here is not None:
            if here[0] not in observer:
                found.append(here)
            here = parent(*here)
        return found

    tokens = {}
    for v in range(plan.n):
        observer = (observers or {}).get(v, {v})
        tokens[v] = [
            parts(u, x, observer)
            for u, x in sents
            if (x["kind"] == "finish" and plan.walk.release == "all") or names.get(x.get("to")) in observer
        ]
    return plan, tokens


def oracle(run, observers=None):
    """c' Sigma^+ c over ALL that each observer was sent, straight from the lines: every token traced to the start."""
    plan, tokens = traced(run, observers)

    def observation(parts):
        contributions, noises = {}, {}
        for w, y in parts:
            if y["real"]:
                contributions[w] = contributions.get(w, 0) + 1
            for unit in range(y["units"]):
                noises[w, y["visit"], unit] = 1 / math.sqrt(plan.unit_count)
        return Observation(contributions, noises)

    seen = np.zeros((plan.n, plan.n))
    for v, shown in tokens.items():
        for u, value in general([observation(parts) for parts in shown]).items():
            seen[u, v] = value
    return seen


@pytest.mark.parametrize(
    ("text", "faults"),
    [
        (plan_text(n=4, length=25), None),
        (plan_text(n=4, length=25, release="holder"), None),
        (plan_text(n=4, length=25, caps="contributions = 3\nedge = 1"), None),
        (plan_text(n=4, length=25), Faults(lose_at=12, lose_after=3)),
        (plan_text(n=4, length=25), Faults(lose_at=12)),
        (plan_text(n=4, length=25), Faults(unrun_at=12)),
        (plan_text(n=4, length=25), Faults(refuse_at=9)),
        (plan_text("ring", 4, 3), None),
        (plan_text("ring", 5, 3), Faults(dead=frozenset({3}))),
        (plan_text("ring", 5, 3), Faults(lose_at=8, lose_after=2)),
        (plan_text("ring", 5, 3), Faults(lose_at=8, stale_reissue=True)),
        (plan_text("ring", 5, 3, noise=f"sigma = 2.0\n{GRID}\nspread = true"), Faults(dead=frozenset({2}))),
        (plan_text("ring", 5, 3, noise=f"sigma = 2.0\n{GRID}\nspread = true"), Faults(lose_at=8, lose_after=2)),
    ],
)
@pytest.mark.parametrize("seed", [1, 2])
def test_exposure_is_that_of_all_sights_traced_by_hand(tmp_path, text, faults, seed):
    write_run(tmp_path, text, seed, faults)
    found = analysis_of(tmp_path).privacy.exposure
    np.testing.assert_allclose(found, oracle(tmp_path), rtol=1e-8, atol=1e-10)


RESPONSES = {"task": HISTOGRAM, "noise": "gamma = 0.3"}


@pytest.mark.parametrize(
    ("text", "faults"),
    [
        (plan_text(n=4, length=25, **RESPONSES), None),
        (plan_text(n=4, length=25, caps="contributions = 2", **RESPONSES), Faults(lose_at=12, lose_after=3)),
        (plan_text(n=4, length=25, release="holder", **RESPONSES), Faults(lose_at=12, lose_after=3)),
        (plan_text(n=4, length=25, **RESPONSES), Faults(refuse_at=9)),
        (plan_text("ring", 5, 3, **RESPONSES), Faults(dead=frozenset({3}))),
        (plan_text("ring", 5, 3, **RESPONSES), Faults(lose_at=8, lose_after=2)),
    ],
)
def test_answers_that_were_seen_are_counted_once_and_never_cost_more_than_local_dp(tmp_path, text, faults):
    """Forks included: an answer given twice costs twice, one seen twice costs once, one nobody saw costs nothing."""
    write_run(tmp_path, text, 1, faults)
    plan, tokens = traced(tmp_path)
    analysis = analysis_of(tmp_path)
    tool = Responses(plan, Observations(analysis.run))
    for v, shown in tokens.items():
        answers = {(w, y["visit"]) for parts in shown for w, y in parts if y["real"]}
        counts = np.bincount([w for w, _ in answers], minlength=plan.n)
        np.testing.assert_array_equal(tool.windows([v]).answers(plan.n), counts)
        most = [promise.local_epsilon(plan, int(count)) for count in counts]
        assert (analysis.privacy.epsilon[:, v] <= np.array(most) * (1 + 1e-9)).all()
    forked_ring = faults is not None and faults.lose_at is not None and plan.walk.topology == "ring"
    expected = Status.OVERSPENT if forked_ring else Status.PASS
    assert {c.id: c.status for c in analysis.checks}["exposure"] is expected


def view_law(shown, about, gamma, value):
    """The exact law of all that an observer was sent, by how many answers "yes" are in each token; two buckets, others
    all say "yes"."""
    held = {}
    for index, parts in enumerate(shown):
        for w, y in parts:
            if y["real"]:
                yes = 1 - gamma / 2 if w != about or value else gamma / 2
                held.setdefault((w, y["visit"], 0), (yes, set()))[1].add(index)
            for element in range(sum(y["cover"] or [0])):
                held.setdefault((w, y["visit"], 1 + element), (0.5, set()))[1].add(index)
    law = {(0,) * len(shown): 1.0}
    for yes, where in held.values():
        more = {}
        for counts, p in law.items():
            up = tuple(count + (i in where) for i, count in enumerate(counts))
            more[counts] = more.get(counts, 0.0) + p * (1 - yes)
            more[up] = more.get(up, 0.0) + p * yes
        law = more
    return law


def exact_delta(shown, about, gamma, epsilon):
    one, other = (view_law(shown, about, gamma, value) for value in (True, False))
    pairs = ((one, other), (other, one))
    return max(sum(max(0.0, p - math.exp(epsilon) * b.get(key, 0.0)) for key, p in a.items()) for a, b in pairs)


@pytest.mark.parametrize(
    "faults",
    [
        Faults(),
        Faults(refused=frozenset({6, 10})),
        Faults(lose_at=7, lose_after=2),
        Faults(lose_at=7, lose_after=3),
        Faults(lose_at=6),
        Faults(dead=frozenset({2})),
    ],
    ids=str,
)
def test_responses_cost_no_less_than_the_exact_law_of_a_view(tmp_path, faults):
    """Every pair, by enumeration of all that the observer could have been sent."""
    gamma, delta, binary = 0.6, 0.05, 'kind = "histogram"\nbuckets = 2'
    text = plan_text("ring", 4, 3, binary, f'mechanism = "rr"\ngamma = {gamma}\ndelta = {delta}')
    write_run(tmp_path, text, 1, faults)
    _, tokens = traced(tmp_path)
    epsilon = analysis_of(tmp_path).privacy.epsilon
    spent = {
        (u, v): exact_delta(shown, u, gamma, epsilon[u, v]) for v, shown in tokens.items() for u in range(4) if u != v
    }
    assert max(spent.values()) <= delta
    assert max(exact_delta(tokens[v], u, gamma, epsilon[u, v] / 2) for u, v in spent) > delta, "the oracle sees nothing"


def test_a_ring_of_responses_costs_what_its_plan_promises(tmp_path):
    """Without faults the worst pair meets exactly the windows of THEORY.md#histograms."""
    write_run(tmp_path, plan_text("ring", 6, 4, **RESPONSES), 1)
    assert analysis_of(tmp_path).privacy.worst_epsilon == pytest.approx(shuffle.ring_epsilon(6, 4, 4, 0.3, 1e-6))


def test_a_ring_with_too_few_answers_is_neither_right_nor_wrong(tmp_path):
    """The plan counts on 40 users; two alone answer, so a window is one answer without cover elements."""
    text = plan_text("ring", 40, 4, task=HISTOGRAM, noise="gamma = 0.9")
    write_run(tmp_path, text, 1, Faults(dead=frozenset(range(2, 40))))
    analysis = analysis_of(tmp_path)
    (check,) = (check for check in analysis.checks if check.id == "exposure")
    assert analysis.privacy.worst_epsilon > promise.local_epsilon(analysis.run.plan, 3)
    assert check.status is Status.UNKNOWN and "2 users answered in every round" in check.observed


def test_colluders_are_one_observer(tmp_path):
    write_run(tmp_path, plan_text(n=5, length=30), 3, Faults(lose_at=12, lose_after=3))
    measure = Measure(analysis_of(tmp_path).run)
    np.testing.assert_allclose(measure.column([1, 3]), oracle(tmp_path, {1: {1, 3}})[:, 1], rtol=1e-8, atol=1e-10)


def test_two_colluders_around_a_ring_user_see_its_raw_value(tmp_path):
    write_run(tmp_path, plan_text("ring", 5, 3), 1)
    analysis = analysis_of(tmp_path, colluders=["user-1", "user-3"])
    assert math.isinf(Measure(analysis.run).column([1, 3])[2])
    (seen,) = analysis.privacy.collusions
    assert math.isinf(seen.epsilon) and seen.promised is None


def test_the_worst_pair_of_colluders_is_the_worst_of_all(tmp_path):
    write_run(tmp_path, plan_text(n=5, length=40), 1)
    analysis = analysis_of(tmp_path, max_colluders=2)
    measure = Measure(analysis.run)
    worst = max(measure.column([a, b]).max() for a in range(5) for b in range(a))
    (found,) = analysis.privacy.collusions
    assert found.exact and found.exposure == pytest.approx(worst, rel=1e-12)


def test_a_straight_walk_agrees_with_the_accountant(tmp_path):
    walk = write_run(tmp_path, plan_text(n=6, length=120), 5)
    holders = sorted(
        (line["step"], user)
        for user, line in raw_lines(tmp_path, walk.plan)
        if line["kind"] == "visit" and line["cause"] == "handoff"
    )
    expected = exposure.matrix([user for _, user in holders], 6, "sum", released=True)
    np.testing.assert_allclose(analysis_of(tmp_path).privacy.exposure, expected, rtol=1e-12)


def test_a_straight_ring_agrees_with_theorem_1(tmp_path):
    write_run(tmp_path, plan_text("ring", 5, 4, release="holder"), 1)
    np.testing.assert_allclose(analysis_of(tmp_path).privacy.exposure, exposure.ring(4, 5))


def test_a_forked_sgd_run_costs_at_most_one_more_per_fork_than_its_pieces(tmp_path):
    """Upper bounds: a fork never lowers what the straight walk alone would have shown."""
    text = plan_text(n=5, length=40, task=SGD, noise="sigma = 3.0")
    write_run(tmp_path, text, 4, Faults(lose_at=20))
    analysis = analysis_of(tmp_path)
    rows = analysis.run.lineage.sents[analysis.run.lineage.accepted]
    straight = exposure.matrix(
        rows["user"][1:], 5, "sgd", released=True, contributing=rows["real"][1:], noisy=rows["units"][1:] > 0
    )
    found = analysis.privacy.exposure
    assert np.all(found >= straight - 1e-12)
    assert np.all(found <= straight + 1 + 1e-12), "one fork, whose token was given away for free, adds at most 1"


def test_epsilon_of_the_worst_pair_is_the_gaussian_profile_of_its_exposure(tmp_path):
    write_run(tmp_path, plan_text(), 1)
    numbers = analysis_of(tmp_path).privacy
    mu = math.sqrt(numbers.exposure.max()) / 2.0  # sensitivity 1, sigma 2
    assert numbers.worst_epsilon == pytest.approx(gaussian.epsilon(mu, 1e-6), rel=1e-4)


def test_the_ring_promises_sqrt_k_and_a_reissue(tmp_path):
    write_run(tmp_path, plan_text("ring", 5, 4), 1)
    assert analysis_of(tmp_path).privacy.promised == pytest.approx(bounds.ring_epsilon(4, 2.0, 1.0, 1e-6, 1), rel=1e-4)


def test_the_worst_pair_is_told_in_words(tmp_path):
    write_run(tmp_path, plan_text("ring", 5, 4), 1)
    assert analysis_of(tmp_path).privacy.words == "user-0's 1st contribution went straight to user-1."


def test_a_missing_log_leaves_exposure_unknown_but_measured(tmp_path):
    """Its neighbours' logs still show when an absent user held the token."""
    write_run(tmp_path, plan_text(n=6, length=60), 2)
    whole = analysis_of(tmp_path).privacy.exposure
    before = [line for line in tamper.read(tmp_path, "user-3") if line["kind"] == "sent" and line["to"] == "user-3"]
    tamper.log_of(tmp_path, "user-3").unlink()
    analysis = analysis_of(tmp_path)
    check = {check.id: check for check in analysis.checks}["exposure"]
    assert check.status.value == "UNKNOWN"
    if before:  # a self-hop of the absent user is in nobody's log: the walk has a gap
        assert analysis.privacy.exposure is None
    else:
        np.testing.assert_allclose(analysis.privacy.exposure, whole)


def test_json_numbers_survive(tmp_path):
    """The dumb oracle of a golden run: worst pair and its epsilon recomputed from the lines."""
    from analyzer.report.as_json import as_text

    write_run(tmp_path, plan_text(n=4, length=25), 9)
    body = json.loads(as_text(analyze_runs([tmp_path])))
    seen = oracle(tmp_path)
    assert body["privacy"]["worst_pairs"][0]["exposure"] == pytest.approx(seen.max())
    assert body["privacy"]["worst_epsilon"] == pytest.approx(
        gaussian.epsilon(math.sqrt(seen.max()) / 2, 1e-6), rel=1e-4
    )


def test_two_sgd_colluders_are_searched_exactly(tmp_path):
    write_run(tmp_path, plan_text(n=5, length=40, task=SGD, noise="sigma = 3.0"), 1)
    analysis = analysis_of(tmp_path, max_colluders=2)
    measure = Measure(analysis.run)
    worst = max(measure.column([a, b]).max() for a in range(5) for b in range(a))
    (found,) = analysis.privacy.collusions
    assert found.exact and found.exposure == pytest.approx(worst, rel=1e-12)


def test_a_refused_token_earns_a_ring_no_allowance(tmp_path):
    """All that is in it is in the branch too: it cuts a window in two, and S <= K as before. A fork is allowed for."""
    text = plan_text("ring", 5, 3)
    write_run(tmp_path / "refused", text, 1, Faults(refuse_at=8))
    write_run(tmp_path / "forked", text, 1, Faults(lose_at=8, lose_after=2))
    refused, forked = (analyze_runs([tmp_path / name]).runs[0].privacy for name in ("refused", "forked"))
    assert (refused.limit, forked.limit) == (3.0, 4.0)


def test_a_model_on_a_known_path_is_seen_by_everybody_as_often_as_it_contributed(tmp_path):
    """Clipping is no contraction: what came after a contribution hides nothing of it."""
    task = 'kind = "model"\nfactory = "nowhere:Model"\ndimension = 4\nclip = 1.0\nstep_size = 0.1'
    text = plan_text(task=task, noise='sigma = 3.0\nagainst = "local"', caps="contributions = 9")
    write_run(tmp_path, text, 1)
    (analysis,) = analyze_runs([tmp_path]).runs
    assert analysis.status is Status.PASS
    counts = np.array(analysis.privacy.contributions)
    assert np.array_equal(analysis.privacy.exposure, counts[:, None] * (1.0 - np.eye(len(counts))))
