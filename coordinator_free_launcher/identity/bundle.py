"""The folder of one user, and of one machine's share of a run: where everything lies.

::

    DIR/plan.toml, certificates.pem      public: the finished plan, all certificates in plan order
    DIR/ca/ca.pem, ca.key                the signer (only where the certificates were signed)
    DIR/users/NAME/                      one user's bundle: all its process needs, and nothing of another user
        plan.toml certificates.pem ca.pem    the same public files (hard links where the file system has them)
        key.pem (0600) cert.pem              who it is
        round.pem (0600)                     its key for anonymous rounds, where the plan has them
        node.toml                            name, data, bind, ledger
        charge.json                          what the run costs at most, where the user keeps a ledger
        data.csv | data.npy | data.jsonl     its private data, unless node.toml points elsewhere
        state/ (0700)                        journal, view log, result; ``born`` marks the disk its life began on
"""

from __future__ import annotations

import errno
import json
import os
import shutil
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from network_dp.errors import UserError
from network_dp.plan import Plan, PlanError
from network_dp.untrusted import read_text, toml

PUBLIC: Final = ("plan.toml", "certificates.pem", "ca.pem")
DATA_SUFFIXES: Final = (".csv", ".npy", ".jsonl")


class ProvisionError(UserError, RuntimeError):
    """Bundles cannot be written there, or not from this; the message says why and what to do."""


def user_folder(root: Path, name: str) -> Path:
    return root / "users" / name


def write_node_file(bundle: Path, name: str, data: str | None, bind: str | None, ledger: Path | None = None) -> None:
    """node.toml: what concerns this user's process alone."""
    values = {"name": name, "data": data, "bind": bind, "ledger": None if ledger is None else str(ledger)}
    # A JSON string is a TOML basic string.
    lines = [f"{key} = {json.dumps(value)}\n" for key, value in values.items() if value is not None]
    (bundle / "node.toml").write_text("".join(lines))


def make_state(bundle: Path, name: str) -> None:
    """An empty life."""
    state = bundle / "state"
    state.mkdir(mode=0o700)
    make_born(state, name)


def make_born(state: Path, name: str) -> None:
    """Mark a disk as the one this user's life began on, unless it is; a node refuses to start without the mark."""
    if not (state / "born").exists():
        (state / "born").write_text(f"{name} {datetime.now(UTC).isoformat(timespec='seconds')}\n")


def share(source: Path, target: Path) -> Path:
    """Link ``target`` to ``source``, or copy where links end; returns the file to link the next one to."""
    try:
        os.link(source, target)
    except OSError as error:
        if error.errno not in (errno.EMLINK, errno.EPERM, errno.EXDEV, errno.ENOTSUP, errno.ENOSYS):
            raise
        shutil.copyfile(source, target)
        shutil.copymode(source, target)
        return target
    return source


@dataclass(frozen=True, slots=True)
class NodeFile:
    """node.toml, read back."""

    name: str
    data: str | None
    bind: str | None
    ledger: str | None = None


def read_node_file(bundle: Path) -> NodeFile:
    values = toml(read_text(bundle / "node.toml"))
    return NodeFile(values["name"], values.get("data"), values.get("bind"), values.get("ledger"))


def data_folder(plan: Plan, folder: Path) -> dict[str, Path]:
    """One file per user of the plan: NAME and a known suffix."""
    files = {}
    for name in plan.names:
        found = [folder / f"{name}{suffix}" for suffix in DATA_SUFFIXES if (folder / f"{name}{suffix}").is_file()]
        if len(found) != 1:
            raise PlanError(f"{folder}: {len(found)} data files for {name}, not one (NAME.csv, NAME.npy or NAME.jsonl)")
        files[name] = found[0]
    return files
