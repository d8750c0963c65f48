"""The same users as services of a real Docker Swarm of one machine."""

from __future__ import annotations

import json
import secrets
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from coordinator_free_launcher.cli.deploy import Engine, write_stack

pytestmark = [pytest.mark.containers, pytest.mark.slow, pytest.mark.timeout(900)]


def docker(*arguments: str, check: bool = True) -> str:
    done = subprocess.run(["docker", *arguments], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0 or not check, f"docker {arguments}: {done.stderr}"
    return done.stdout.strip()


@pytest.fixture
def swarm(image: str) -> Iterator[None]:
    """This engine as a swarm of one, unless it is part of a swarm already: that one is not ours to use."""
    if docker("info", "-f", "{{.Swarm.LocalNodeState}}") != "inactive":
        pytest.skip("this engine is part of a swarm already")
    docker("swarm", "init", "--advertise-addr", "127.0.0.1")
    yield
    docker("swarm", "leave", "--force")


@pytest.fixture
def stack_name(swarm: None, until: Any) -> Iterator[str]:
    name = f"ndp-test-{secrets.token_hex(4)}"
    yield name
    docker("stack", "rm", name, check=False)
    of_stack = ("-q", "--filter", f"label=com.docker.stack.namespace={name}")
    until("containers are gone", lambda: docker("ps", "-a", *of_stack) == "", 120.0)
    volumes = docker("volume", "ls", "-q", "--filter", f"label=com.docker.stack.namespace={name}").split()
    if volumes:
        docker("volume", "rm", *volumes)


def test_a_stack_walks_to_the_result(stack_name: str, image: str, make_plan: Any, tmp_path: Path, until: Any) -> None:
    plan = make_plan(4, walk={"topology": "ring", "rounds": 20}, timing={"preset": "lan"})
    file = tmp_path / "run" / write_stack(plan, tmp_path / "run", Engine.SWARM, image, None)
    docker("stack", "deploy", "--resolve-image", "never", "-c", str(file), stack_name)

    def states() -> list[str]:
        listed = docker("stack", "ps", stack_name, "--format", "{{.Name}} {{.CurrentState}}", "--no-trunc")
        return [line.split()[1] for line in listed.splitlines()]

    until("every user's task is complete", lambda: states().count("Complete") == 4, 240.0, 1.0)
    script = "print(open('/bundle/state/result.json').read())"
    look = ("run", "--rm", "--network", "none", "-v")
    read = ("--entrypoint", "python", image, "-c", script)
    results = [json.loads(docker(*look, f"{stack_name}_{name}:/bundle/state:ro", *read)) for name in plan.names]
    assert all(result == results[0] for result in results)
    # A user that is up late is passed over until it serves: an engine starts services in its own time.
    assert 3 * 20 <= results[0]["contributions"] <= plan.total_steps
