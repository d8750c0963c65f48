"""A Docker Swarm stack for a plan: users spread over many machines by an engine that is already there.

The bundles are made where the stack is written; the engine then carries each user's key as a secret, encrypted, to
the one container it belongs to. Every user is a service of its own with a disk of its own. Service names are resolved
to the container itself (dnsrr): a virtual address would put a balancer between two peers.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

from coordinator_free_launcher.engines.compose import OWNER
from coordinator_free_launcher.engines.yaml_text import to_yaml
from coordinator_free_launcher.identity.bundle import DATA_SUFFIXES, PUBLIC, user_folder
from network_dp.plan import Plan, PlanError

#: What an engine carries in one secret (Swarm: 500 KB; Kubernetes: 1 MiB for all of them together).
SECRET_BYTES: Final = 500_000


def private_files(bundle: Path) -> list[str]:
    """The files of a bundle that belong to one user alone; data too large for a secret is refused by name."""
    data = [f"data{suffix}" for suffix in DATA_SUFFIXES if (bundle / f"data{suffix}").exists()]
    for file in data:
        if (bundle / file).stat().st_size > SECRET_BYTES:
            raise PlanError(
                f"{bundle / file}: larger than {SECRET_BYTES:,} bytes, the most an engine carries as a secret; "
                "put the data on a disk of the machine and give its path in the plan (users[].data)"
            )
    rounds = ["round.pem"] if (bundle / "round.pem").exists() else []
    return ["key.pem", "cert.pem", *rounds, "node.toml", *data]


def _secret(name: str, file: str) -> dict[str, Any]:
    owner = str(OWNER)
    return {
        "source": f"{name}-{file.replace('.', '-')}",
        "target": f"/bundle/{file}",
        "uid": owner,
        "gid": owner,
        "mode": 0o400,
    }


def _service(root: Path, name: str, image: str) -> dict[str, Any]:
    return {
        "image": image,
        "init": True,
        "read_only": True,
        "cap_drop": ["ALL"],
        "entrypoint": ["python", "-m", "coordinator_free_launcher.engines.container"],
        "command": ["/bundle", "--first-life"],
        "networks": ["walk"],
        "volumes": [f"{name}:/bundle/state", {"type": "tmpfs", "target": "/tmp"}],  # noqa: S108 (inside the container)
        "configs": [{"source": file.replace(".", "-"), "target": f"/bundle/{file}"} for file in PUBLIC],
        "secrets": [_secret(name, file) for file in private_files(user_folder(root, name))],
        "stop_grace_period": "20s",
        "deploy": {
            "replicas": 1,
            "endpoint_mode": "dnsrr",
            "placement": {"preferences": [{"spread": "node.id"}]},
            "restart_policy": {"condition": "on-failure", "delay": "2s", "max_attempts": 5},
            "resources": {"limits": {"memory": "256M", "pids": 64}},
        },
    }


def stack_file(plan: Plan, root: Path, image: str = "network-dp:latest") -> str:
    """Text of stack.yaml, to lie in the provisioned folder ROOT (it names the files there)."""
    names = plan.names
    secrets = {
        f"{name}-{file.replace('.', '-')}": {"file": f"./users/{name}/{file}"}
        for name in names
        for file in private_files(user_folder(root, name))
    }
    places = {file: f"./ca/{file}" if file == "ca.pem" else f"./{file}" for file in PUBLIC}
    body = {
        "version": "3.9",
        "services": {name: _service(root, name, image) for name in names},
        "networks": {"walk": {"driver": "overlay", "internal": True}},
        "volumes": {name: {} for name in names},
        "configs": {file.replace(".", "-"): {"file": place} for file, place in places.items()},
        "secrets": secrets,
    }
    comment = f"{plan.n} users as services of a Docker Swarm.\n\n  docker stack deploy -c stack.yaml {plan.name}\n"
    return to_yaml(body, comment)
