"""The files for container engines say what they must; no engine needed."""

from __future__ import annotations

import shutil
import subprocess
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml
from kubernetes_validate import validate  # type: ignore[import-untyped]

from coordinator_free_launcher.cli.deploy import Engine, write_stack
from coordinator_free_launcher.engines.compose import compose_file, container_plan
from coordinator_free_launcher.engines.yaml_text import to_yaml
from coordinator_free_launcher.identity.bundle import ProvisionError
from coordinator_free_launcher.identity.deliver import deliver
from coordinator_free_launcher.local.demo_data import provision_demo
from network_dp.plan import PlanError, User
from network_dp.plan_reader import parse

ROOT = Path(__file__).resolve().parents[3]
AWKWARD = ["no", "0x1f", "1e5", "null", "y"]  # names that YAML takes for something else


def with_names(plan: Any, names: list[str]) -> Any:
    users = tuple(User(name, f"{name}:7000") for name in names)
    return replace(plan, users=users, walk=replace(plan.walk, starter=names[0]))


def test_the_demo_is_what_its_plan_says() -> None:
    """To write it anew: python -m coordinator_free_launcher.engines.compose docker"""
    plan = parse((ROOT / "docker/plan.toml").read_text())
    assert (ROOT / "docker/compose.yaml").read_text() == compose_file(plan, build=True)


@pytest.mark.parametrize("binary", [("docker", "compose"), ("docker-compose",)])
def test_both_dialects_of_compose_read_the_demo(binary: tuple[str, ...]) -> None:
    command = [*binary, "-f", str(ROOT / "docker/compose.yaml"), "config", "-q"]
    if shutil.which(binary[0]) is None or subprocess.run([*binary, "version"], capture_output=True).returncode:
        pytest.skip(f"no {' '.join(binary)} here")
    assert subprocess.run(command, capture_output=True, text=True, timeout=60).stderr == ""


def test_every_user_has_its_own_disk_and_is_confined(make_plan: Any) -> None:
    plan = with_names(make_plan(), [*AWKWARD, "anna"])
    body = yaml.safe_load(compose_file(container_plan(plan)))
    for name in plan.names:
        service = body["services"][name]
        assert service["volumes"] == [f"{name}:/bundle", f"{name}-handover:/handover"]
        assert service["cap_drop"] == ["ALL"]
        assert service["security_opt"] == ["no-new-privileges:true"]
        assert service["read_only"] is True
        assert service["networks"] == ["walk"]
        assert {"mem_limit", "pids_limit"} <= service.keys()
    assert body["networks"] == {"walk": {"internal": True}}
    shown = [volume.split(":")[0] for volume in body["services"]["analyze"]["volumes"] if "OUT" not in volume]
    assert not set(shown) & set(plan.names), "the analyzer sees what was handed over, never a user's disk"


def test_a_page_sees_one_disk_and_no_peer_and_is_for_this_machine_only(make_plan: Any) -> None:
    plan = container_plan(make_plan())
    assert not [name for name in yaml.safe_load(compose_file(plan))["services"] if name.endswith("-page")]
    body = yaml.safe_load(compose_file(plan, pages_from=8400))
    for port, name in enumerate(plan.names, start=8400):
        service = body["services"][f"{name}-page"]
        assert service["volumes"] == [f"{name}:/bundle:ro"] and service["networks"] == ["pages"]
        assert service["ports"] == [f"127.0.0.1:{port}:{port}"]
        assert service["command"] == ["watch", "/bundle", "--host", "0.0.0.0", "--port", str(port)]
        assert service["read_only"] is True and service["cap_drop"] == ["ALL"]
    assert body["services"][plan.names[0]]["networks"] == ["walk"] and body["networks"]["walk"] == {"internal": True}


def test_values_are_handed_over_for_made_up_data_only(make_plan: Any) -> None:
    plan = container_plan(make_plan())
    made_up, real = (yaml.safe_load(compose_file(plan, data=data)) for data in (None, "/data"))
    assert "--with-values" in made_up["services"]["user-0"]["command"]
    assert "--with-values" not in real["services"]["user-0"]["command"]
    assert "--demo-data" not in real["services"]["provision"]["command"]


@pytest.mark.parametrize(
    "names", [["provision", "a", "b"], ["a", "a-handover", "b"], ["a", "public", "b"], ["a", "a-page", "b"]]
)
def test_a_user_cannot_take_the_name_of_another_part(make_plan: Any, names: list[str]) -> None:
    with pytest.raises(PlanError, match="rename the user"):
        container_plan(with_names(make_plan(), names))


def test_yaml_text_survives_a_real_reader() -> None:
    value = {
        "a b": [1, 2.5, True, None, "no", "x: y", "#", ""],
        "nested": [{"k": {}, "l": []}, [{"m": "1"}]],
        "pem": "-----BEGIN\nline\n-----END\n",
        "08": "0o17",
    }
    assert yaml.safe_load(to_yaml(value, "a comment\n\nmore")) == value


def test_kubernetes_manifests_are_valid_and_admit_peers_only(make_plan: Any, tmp_path: Path) -> None:
    write_stack(make_plan(3), tmp_path / "run", Engine.KUBERNETES, "registry.lab/network-dp:1", None)
    assert (tmp_path / "run/kubernetes.yaml").stat().st_mode & 0o777 == 0o600
    documents = list(yaml.safe_load_all((tmp_path / "run/kubernetes.yaml").read_text()))
    for document in documents:
        validate(document, "1.29", strict=True)
    kinds = [document["kind"] for document in documents]
    assert kinds.count("Secret") == kinds.count("StatefulSet") == kinds.count("Service") == 3
    policy = next(document for document in documents if document["kind"] == "NetworkPolicy")["spec"]
    assert policy["ingress"][0]["from"] == [{"podSelector": policy["podSelector"]}]
    plan = parse((tmp_path / "run/plan.toml").read_text())
    services = {document["metadata"]["name"] for document in documents if document["kind"] == "Service"}
    assert {user.address.split(":")[0] for user in plan.users} == services


def test_a_swarm_service_gets_its_own_secrets_only(make_plan: Any, tmp_path: Path) -> None:
    write_stack(make_plan(3), tmp_path / "run", Engine.SWARM, "network-dp:1", None)
    body = yaml.safe_load((tmp_path / "run/stack.yaml").read_text())
    for name, service in body["services"].items():
        assert {secret["source"].rsplit("-", 2)[0] for secret in service["secrets"]} == {name}
        assert service["deploy"]["endpoint_mode"] == "dnsrr"
    for secret in body["secrets"].values():
        assert (tmp_path / "run" / secret["file"]).is_file()


def test_data_too_large_for_a_secret_is_refused_by_name(make_plan: Any, tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    for i in range(3):
        (tmp_path / f"data/user-{i}.csv").write_text("0.5\n" * (200_000 if i == 1 else 1))
    with pytest.raises(PlanError, match=r"user-1/data\.csv: larger than"):
        write_stack(make_plan(3), tmp_path / "run", Engine.SWARM, "network-dp:1", tmp_path / "data")


def mounted(tmp_path: Path, names: tuple[str, ...]) -> Path:
    for name in names:
        (tmp_path / "disks/users" / name).mkdir(parents=True)
    (tmp_path / "disks/public").mkdir()
    return tmp_path / "disks"


def test_delivery_moves_keys_and_keeps_none(make_plan: Any, tmp_path: Path) -> None:
    plan = make_plan(3)
    run = provision_demo(plan, tmp_path / "run")
    key = (run / "users/user-1/key.pem").read_bytes()
    disks = mounted(tmp_path, plan.names)
    deliver(run, disks)
    assert (disks / "users/user-1/key.pem").read_bytes() == key
    assert (disks / "users/user-1/key.pem").stat().st_mode & 0o777 == 0o600
    assert (disks / "users/user-1/state/born").exists()
    assert list((run / "users").iterdir()) == []
    assert sorted(path.name for path in (disks / "public").iterdir()) == ["certificates.pem", "plan.toml", "truth.json"]


def test_a_delivered_bundle_is_left_alone_and_a_lost_disk_is_named(make_plan: Any, tmp_path: Path) -> None:
    plan = make_plan(3)
    run = provision_demo(plan, tmp_path / "run")
    disks = mounted(tmp_path, plan.names)
    deliver(run, disks)
    (disks / "users/user-1/state/journal").write_text("promised")
    deliver(run, disks)
    assert (disks / "users/user-1/state/journal").read_text() == "promised"
    shutil.rmtree(disks / "users/user-2")
    (disks / "users/user-2").mkdir()
    with pytest.raises(ProvisionError, match=r"user-2.*lost disk"):
        deliver(run, disks)


def test_an_interrupted_delivery_is_finished_by_the_next(make_plan: Any, tmp_path: Path) -> None:
    plan = make_plan(3)
    run = provision_demo(plan, tmp_path / "run")
    disks = mounted(tmp_path, plan.names)
    (disks / "users/user-0/state").mkdir()
    (disks / "users/user-0/key.pem").write_text("half a ke")
    deliver(run, disks)
    assert "PRIVATE KEY" in (disks / "users/user-0/key.pem").read_text()
