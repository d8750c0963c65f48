"""A user can ask itself whether it serves; nobody who is not the user it claims gets an answer."""

from __future__ import annotations

import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from coordinator_free_launcher.health import check, own_target
from coordinator_free_launcher.local.demo_data import provision_demo

pytestmark = pytest.mark.process


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@pytest.fixture
def run(make_plan: Any, tmp_path: Path) -> Path:
    users = [{"name": f"user-{i}", "address": f"127.0.0.1:{free_port()}", "bind": None} for i in range(3)]
    for user in users:
        user["bind"] = str(user["address"]).replace("127.0.0.1", "0.0.0.0")
    return provision_demo(make_plan(users=users), tmp_path / "run")


@pytest.fixture
def serving(run: Path) -> Iterator[Path]:
    """user-1, alone: it serves and waits for the others."""
    bundle = run / "users/user-1"
    command = [sys.executable, "-m", "node", str(bundle)]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        try:
            assert process.stderr is not None
            assert any("serving on" in line for line in process.stderr)
            yield bundle
        finally:
            process.kill()


def test_a_serving_user_says_so(serving: Path) -> None:
    assert check(serving) == "SERVING"
    asked = subprocess.run([sys.executable, "-m", "coordinator_free_launcher.health", str(serving)], timeout=60)
    assert asked.returncode == 0


def test_a_user_that_is_not_up_is_unavailable(run: Path) -> None:
    begin = time.monotonic()
    assert check(run / "users/user-0", timeout_s=2.0).startswith("UNAVAILABLE")
    assert time.monotonic() - begin < 10.0


def test_another_key_at_the_port_is_not_taken_for_the_user(serving: Path, run: Path) -> None:
    """user-2 asks at the port where user-1 serves: its own certificate is the only one it takes for itself."""
    other = run / "users/user-2"
    shutil.copyfile(other / "node.toml", other / "node.toml.old")
    bind = own_target(serving)[1]
    (other / "node.toml").write_text(f'name = "user-2"\nbind = "{bind}"\n')
    assert check(other, timeout_s=3.0).startswith("UNAVAILABLE")


def test_a_folder_that_is_no_bundle_is_named(tmp_path: Path) -> None:
    assert check(tmp_path).endswith("node.toml and plan.toml")


def test_a_server_that_listens_everywhere_is_asked_on_loopback(run: Path) -> None:
    name, target = own_target(run / "users/user-1")
    assert (name, target.split(":")[0]) == ("user-1", "127.0.0.1")
