"""Kubernetes manifests for a plan: per user a Secret, a headless Service and a StatefulSet with a disk of its own.

A NetworkPolicy admits the users of this plan to each other and nobody else, in either direction (and the cluster's
name service). Pods have no service account token, no privileges and a read-only root.
"""

from __future__ import annotations

import base64
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from coordinator_free_launcher.engines.compose import OWNER, PORT
from coordinator_free_launcher.engines.stack import private_files
from coordinator_free_launcher.engines.yaml_text import to_yaml_documents
from coordinator_free_launcher.identity.bundle import PUBLIC, user_folder
from network_dp.plan import Plan, PlanError

STATE_SIZE: Final = "1Gi"
LABEL: Final = "network-dp/plan"
USER: Final = "network-dp/user"


def pod_name(name: str) -> str:
    """Service and StatefulSet of a user; Kubernetes wants a letter first and 52 characters at most here."""
    if len(name) > 48:
        raise PlanError(f'users: "{name}" is too long for Kubernetes, 48 characters are the most')
    return f"dp-{name}"


def kubernetes_plan(plan: Plan) -> Plan:
    """The plan with every user reached by the name of its Service."""
    users = (replace(user, address=f"{pod_name(user.name)}:{PORT}", bind=f"0.0.0.0:{PORT}") for user in plan.users)
    return replace(plan, users=tuple(users))


def _meta(plan: Plan, name: str, user: str | None = None) -> dict[str, Any]:
    labels = {LABEL: plan.name} | ({} if user is None else {USER: user})
    return {"name": name, "labels": labels}


def _secret(plan: Plan, root: Path, user: str) -> dict[str, Any]:
    bundle = user_folder(root, user)
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": _meta(plan, pod_name(user), user),
        "type": "Opaque",
        "data": {file: base64.b64encode((bundle / file).read_bytes()).decode() for file in private_files(bundle)},
    }


def _service(plan: Plan, user: str) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": _meta(plan, pod_name(user), user),
        "spec": {
            "clusterIP": "None",
            # Peers must find a user that is up but not ready yet: readiness itself needs peers to answer.
            "publishNotReadyAddresses": True,
            "selector": {LABEL: plan.name, USER: user},
            "ports": [{"name": "grpc", "port": PORT, "targetPort": PORT}],
        },
    }


def _container(image: str) -> dict[str, Any]:
    check = {
        "exec": {"command": ["python", "-m", "coordinator_free_launcher.health", "/bundle"]},
        "periodSeconds": 10,
        "timeoutSeconds": 8,
    }
    return {
        "name": "node",
        "image": image,
        "command": ["python", "-m", "coordinator_free_launcher.engines.container"],
        # A mounted secret is readable by its group; the node takes its key from a file of its own only.
        "args": [
            "/bundle",
            "--from",
            "/public",
            "--from",
            "/private",
            "--first-life",
            "--stay",
            "--handover",
            "/handover",
        ],
        "ports": [{"name": "grpc", "containerPort": PORT}],
        "readinessProbe": check,
        "resources": {"limits": {"memory": "256Mi", "cpu": "1"}, "requests": {"memory": "96Mi", "cpu": "50m"}},
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        },
        "volumeMounts": [
            {"name": "public", "mountPath": "/public", "readOnly": True},
            {"name": "private", "mountPath": "/private", "readOnly": True},
            {"name": "bundle", "mountPath": "/bundle"},
            {"name": "state", "mountPath": "/bundle/state"},
            {"name": "handover", "mountPath": "/handover"},
            {"name": "tmp", "mountPath": "/tmp"},  # noqa: S108 (inside the container)
        ],
    }


def _stateful_set(plan: Plan, user: str, image: str) -> dict[str, Any]:
    labels = {LABEL: plan.name, USER: user}
    spread = {
        "maxSkew": 1,
        "topologyKey": "kubernetes.io/hostname",
        "whenUnsatisfiable": "ScheduleAnyway",
        "labelSelector": {"matchLabels": {LABEL: plan.name}},
    }
    pod = {
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
        "terminationGracePeriodSeconds": 20,
        "securityContext": {
            "runAsNonRoot": True,
            "runAsUser": OWNER,
            "runAsGroup": OWNER,
            "fsGroup": OWNER,
            "seccompProfile": {"type": "RuntimeDefault"},
        },
        "topologySpreadConstraints": [spread],
        "containers": [_container(image)],
        "volumes": [
            {"name": "public", "configMap": {"name": f"{plan.name}-public"}},
            {"name": "private", "secret": {"secretName": pod_name(user), "defaultMode": 0o440}},
            {"name": "bundle", "emptyDir": {"medium": "Memory"}},
            {"name": "handover", "emptyDir": {}},
            {"name": "tmp", "emptyDir": {}},
        ],
    }
    claim = {
        "metadata": {"name": "state"},
        "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": STATE_SIZE}}},
    }
    return {
        "apiVersion": "apps/v1",
        "kind": "StatefulSet",
        "metadata": _meta(plan, pod_name(user), user),
        "spec": {
            "serviceName": pod_name(user),
            "replicas": 1,
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": pod},
            "volumeClaimTemplates": [claim],
        },
    }


def _policy(plan: Plan) -> dict[str, Any]:
    peers = {"podSelector": {"matchLabels": {LABEL: plan.name}}}
    names = [{"port": 53, "protocol": "UDP"}, {"port": 53, "protocol": "TCP"}]
    return {
        "apiVersion": "networking.k8s.io/v1",
        "kind": "NetworkPolicy",
        "metadata": _meta(plan, f"{plan.name}-peers-only"),
        "spec": {
            "podSelector": {"matchLabels": {LABEL: plan.name}},
            "policyTypes": ["Ingress", "Egress"],
            "ingress": [{"from": [peers], "ports": [{"port": PORT, "protocol": "TCP"}]}],
            "egress": [
                {"to": [peers], "ports": [{"port": PORT, "protocol": "TCP"}]},
                {
                    "to": [{"namespaceSelector": {}, "podSelector": {"matchLabels": {"k8s-app": "kube-dns"}}}],
                    "ports": names,
                },
            ],
        },
    }


def _documents(plan: Plan, root: Path, image: str) -> Iterator[dict[str, Any]]:
    places = {file: root / "ca" / file if file == "ca.pem" else root / file for file in PUBLIC}
    yield {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": _meta(plan, f"{plan.name}-public"),
        "data": {file: path.read_text() for file, path in places.items()},
    }
    yield _policy(plan)
    for user in plan.names:
        yield _secret(plan, root, user)
        yield _service(plan, user)
        yield _stateful_set(plan, user, image)


def kubernetes_file(plan: Plan, root: Path, image: str = "network-dp:latest") -> str:
    """Text of kubernetes.yaml for the provisioned folder ROOT. It holds the users' keys: treat it as a secret."""
    comment = f"{plan.n} users on Kubernetes; holds private keys.\n\n  kubectl apply -f kubernetes.yaml\n"
    return to_yaml_documents(list(_documents(plan, root, image)), comment)
