"""Is the user of this bundle serving? Asked over mutual TLS, with the user's own key: nobody else may ask so.

``python -m coordinator_free_launcher.health BUNDLE`` ends with 0 (serving) or 1, as a container engine wants it. It
imports as little as it can: an engine runs it every few seconds for every container.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Final

import grpc
from grpc_health.v1 import health_pb2, health_pb2_grpc

from coordinator_free_launcher.identity.bundle import read_node_file
from network_dp.plan_reader import load
from node.pins import DNS_SUFFIX

ANSWER_S: Final = 5.0
#: Where a server that listens everywhere is reached from its own machine.
HERE: Final = {"0.0.0.0": "127.0.0.1", "[::]": "[::1]"}  # noqa: S104


def own_target(bundle: Path) -> tuple[str, str]:
    """(name of the user, address at which its server listens on this machine)."""
    node = read_node_file(bundle)
    plan = load(bundle / "plan.toml")
    user = plan.users[plan.index(node.name)]
    host, port = (node.bind or user.bind or user.address).rsplit(":", 1)
    return node.name, f"{HERE.get(host, host)}:{port}"


def own_channel(bundle: Path) -> grpc.Channel:
    """A channel from the user to itself: own key, own certificate as caller and as the only root."""
    name, target = own_target(bundle)
    certificate = (bundle / "cert.pem").read_bytes()
    credentials = grpc.ssl_channel_credentials(certificate, (bundle / "key.pem").read_bytes(), certificate)
    options = [
        ("grpc.ssl_target_name_override", name + DNS_SUFFIX),
        ("grpc.enable_http_proxy", 0),
        ("grpc.enable_retries", 0),
    ]
    return grpc.secure_channel(target, credentials, options)


def check(bundle: Path, timeout_s: float = ANSWER_S) -> str:
    """ "SERVING", or in one line why not."""
    try:
        with own_channel(bundle) as channel:
            stub = health_pb2_grpc.HealthStub(channel)
            answer = stub.Check(health_pb2.HealthCheckRequest(), timeout=timeout_s)
    except grpc.RpcError as error:
        return f"{error.code().name}: {error.details()}"
    except (OSError, ValueError, KeyError):
        return f"{bundle}: not a usable bundle; give the folder of one user, with its node.toml and plan.toml"
    return str(health_pb2.HealthCheckResponse.ServingStatus.Name(answer.status))


def main() -> int:
    if len(sys.argv) != 2:
        sys.stderr.write("usage: python -m coordinator_free_launcher.health BUNDLE\n")
        return 2
    answer = check(Path(sys.argv[1]))
    sys.stdout.write(answer + "\n")
    return 0 if answer == "SERVING" else 1


if __name__ == "__main__":
    sys.exit(main())
