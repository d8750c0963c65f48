"""The verdict as plain values (docs/ANALYZER.md holds the schema)."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import Any, Final

import numpy as np

from analyzer.analysis import Analyses
from analyzer.checks import integrity
from analyzer.checks.limits import path_sentence
from analyzer.checks.privacy import Collusion
from analyzer.run import Analysis
from analyzer.verdict import SCHEMA, Status, check_as_dict, plain
from network_dp.graphs.promise import pairs_in_words
from network_dp.printed import theorem_of

_WORST_PAIRS: Final = 20


def as_text(analyses: Analyses) -> str:
    """One run: its verdict. Several: the overall status, what they show together, and each verdict."""
    if len(analyses.runs) == 1:
        return json.dumps(as_dict(analyses.runs[0]), indent=1, allow_nan=False)
    body = {
        "schema": SCHEMA,
        "status": analyses.status.value,
        "together": [check_as_dict(check) for check in analyses.together],
        "runs": [as_dict(run) for run in analyses.runs],
    }
    return json.dumps(body, indent=1, allow_nan=False)


def as_dict(analysis: Analysis) -> dict[str, Any]:
    run, plan = analysis.run, analysis.run.plan
    body: dict[str, Any] = {
        "schema": SCHEMA,
        "status": analysis.status.value,
        "run": {
            "id": run.logs.run,
            "plan": plan.hash,
            "name": plan.name,
            "topology": plan.walk.topology,
            "task": plan.task.kind,
            "mechanism": plan.noise.mechanism,
            "users": plan.n,
            "steps": plan.total_steps,
            "release": plan.walk.release,
            "delta": plan.noise.delta,
            "insecure": run.logs.insecure,
            "logs": len(run.logs.files),
            "abandoned": integrity.abandoned(run),
        },
        "notes": list(run.logs.notes),
        "left_out": [check.id for check in analysis.checks if check.status is Status.PARTIAL],
        "checks": [check_as_dict(check) for check in analysis.checks],
        "privacy": _privacy(analysis),
        "utility": asdict(analysis.utility),
        "alone": None if analysis.alone is None else asdict(analysis.alone),
        "users": [asdict(card) for card in analysis.cards()] if analysis.shows_path else [],
    }
    return dict(plain(body))


def _privacy(analysis: Analysis) -> dict[str, Any]:
    numbers, name, plan = analysis.privacy, analysis.run.logs.name, analysis.run.plan
    printed = theorem_of(plan)
    body: dict[str, Any] = {
        "unknown": numbers.unknown or None,
        "upper_bound": numbers.upper_bound,
        "forks": numbers.forks,
        "worst_epsilon": numbers.worst_epsilon,
        "mean_epsilon": numbers.mean_epsilon,
        "least_epsilon": numbers.least_epsilon,
        "words": numbers.words or None,
        "exposure_limit": numbers.limit,
        "epsilon_limit": numbers.limit_epsilon,
        "promised_epsilon": numbers.promised,
        "path_limit": numbers.path_limit,
        "promise_note": path_sentence(numbers.promised, numbers.path_limit) or None,
        "promised_pairs": pairs_in_words(plan) or None,
        "local_epsilon": numbers.local,
        "printed_epsilon": None if printed is None else printed.epsilon(plan.mechanism.size),
        "collusions": [_collusion(analysis, item) for item in numbers.collusions],
        "worst_pairs": [],
    }
    if numbers.epsilon is not None and numbers.exposure is not None:
        order = np.argsort(-numbers.epsilon, axis=None, kind="stable")[:_WORST_PAIRS]
        pairs = zip(*np.unravel_index(order, numbers.epsilon.shape), strict=True)
        body["worst_pairs"] = [
            {
                "of": name(int(u)),
                "to": name(int(v)),
                "exposure": float(numbers.exposure[u, v]),
                "epsilon": float(numbers.epsilon[u, v]),
            }
            for u, v in pairs
            if u != v
        ]
    return body


def _collusion(analysis: Analysis, item: Collusion) -> dict[str, Any]:
    name = analysis.run.logs.name
    return {
        "members": [name(v) for v in item.members],
        "about": name(item.user),
        "exposure": item.exposure,
        "epsilon": item.epsilon,
        "limit": item.limit,
        "promised": item.promised,
        "exact": item.exact,
    }
