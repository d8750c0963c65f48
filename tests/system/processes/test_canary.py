"""No value of data, noise or token leaves a user's own view log, journal and result (THEORY.md#no-side-channel)."""

from __future__ import annotations

import json
import os
import re
import signal
from pathlib import Path

import pytest

from coordinator_free_launcher.local.launch import Launch
from tests.system.harness import bundles, make_plan
from tests.system.processes.watch import call
from tests.system.walked import Ran

pytestmark = pytest.mark.process

#: Unusual, on no grid, inside and outside the public bounds, and one that is no number at all.
DATA = {"user-0": 0.7310585786300049, "user-1": 0.2689414213699951, "user-2": 987654.321987}
OWN_FILES = {"view.jsonl", "journal", "data.csv", "result.json"}


def _numbers(text: str) -> set[str]:
    return set(re.findall(r"\d+(?:\.\d+)?", text))


def test_values_appear_in_no_log_output_status_or_error(tmp_path: Path) -> None:
    plan = make_plan(
        3,
        topology="complete",
        steps=400,
        min_live=2,
        task={"kind": "mean"},
        noise={"sigma": 0.5, "grid": 2.0**-34},
        timing={"preset": "local", "lease_s": 20.0, "start_timeout_s": 90.0},
    )
    run = bundles(plan, tmp_path, {name: [[value]] for name, value in DATA.items()})
    said = [_disturbed_run(run, plan.names)]
    for words in (["launch", run], ["launch", run, "--json"], ["status", run], ["status", run, "--json"]):
        done = call(*words)
        assert done.returncode == 0, done.stderr
        said.append(done.stdout + done.stderr)
    (run / "users" / "user-1" / "data.csv").write_text("0.25,77331155\nx77331155\n")
    said.append(call("node", run / "users" / "user-1").stderr)
    files = [path for path in run.rglob("*") if path.is_file() and path.name not in OWN_FILES]
    assert {"node.log", "launcher.log", "plan.toml"} <= {path.name for path in files}
    public = "\n".join([*said, *(path.read_text() for path in files)])
    assert "INSECURE" in public and "no answer" in public  # the search looks at the right things
    secrets = _secrets(run)
    assert len(secrets) > 1000
    assert not secrets & _numbers(public)
    assert "77331155" not in public


def _disturbed_run(run: Path, names: tuple[str, ...]) -> str:
    """A run with a crash in it, so that error paths speak too; returns what went over the launcher's pipe."""
    attempt = Launch(run, detach=False)
    heard = []
    try:
        attempt.start_all(lambda progress: None)
        while attempt.step < 50:
            attempt.listen(1.0)
        os.kill(attempt.pool.pids["user-2"], signal.SIGKILL)
        while attempt.outcome.codes.get("user-2") is None:
            heard += attempt.listen(1.0)
        reached = attempt.step
        while attempt.step < reached + 5 and "user-0" not in attempt.outcome.codes:
            heard += attempt.listen(1.0)
        attempt.start("user-2")
        assert attempt.wait(lambda progress: None).ok
    finally:
        attempt.pool.close()
    return str(heard)


def _secrets(run: Path) -> set[str]:
    """Every long number of every payload in the view logs but the released one, and the data itself."""
    ran = Ran(run, None)  # type: ignore[arg-type]
    released = {str(abs(value)) for value in ran.final.tolist()}
    grid = ran.plan.noise.grid
    assert grid is not None
    found = set()
    for records in ran.views.values():
        for record in records:
            for name in ("received", "contribution", "noise", "sent"):
                for value in record.fields.get(name) or []:
                    found |= {str(abs(value)), str(abs(value * grid))}
    data = {str(value) for value in DATA.values()}
    clipped = {str(value) for value in (1.0, 0.0)}
    final = {str(abs(value * grid)) for value in ran.final.tolist()}
    return (
        {text for text in found | data if len(text.replace(".", "")) >= 7}
        - released
        - final
        - clipped
        - {json.dumps(int(1 / grid))}
    )
