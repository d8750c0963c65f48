"""Bring each bundle to the disk of its own user, once, and forget it here.

In containers every user has a volume of its own, and no container sees another's. The provisioner alone mounts them
all, moves each bundle to its volume and keeps no private key, not the signer's either. A bundle is delivered once in
its life: a volume that was emptied later is a lost disk, and filling it again would make a user forget its promises.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from coordinator_free_launcher.identity.bundle import ProvisionError, user_folder
from network_dp.plan_reader import load

LAST = "node.toml"  # written last: a bundle that has it is complete


def deliver(root: Path, target: Path, owner: int | None = None) -> None:
    """Move ROOT/users/NAME to the existing folder TARGET/users/NAME; copy the public files to TARGET/public.

    ``owner``: user id the files shall belong to (only root can give files away).
    """
    names = load(root / "plan.toml").names
    for name in names:
        source, disk = user_folder(root, name), user_folder(target, name)
        if not disk.is_dir():
            raise ProvisionError(f"{disk}: no such folder; the disk of {name} must be mounted there")
        if source.is_dir():
            _empty(disk)
            _copy(source, disk)
            _own(disk, owner)
            shutil.rmtree(source)
        elif not (disk / LAST).exists():
            raise ProvisionError(
                f"{disk}: the bundle of {name} was delivered before and is gone: a lost disk. A user cannot begin a "
                "second life in the same run; remove all volumes (compose down -v) to start anew"
            )
    (root / "ca" / "ca.key").unlink(missing_ok=True)
    for file in ("plan.toml", "certificates.pem", "truth.json"):
        if (root / file).exists():
            shutil.copy(root / file, target / "public" / file)


def _empty(folder: Path) -> None:
    for entry in folder.iterdir():
        if entry.is_dir():
            shutil.rmtree(entry)
        else:
            entry.unlink()


def _copy(source: Path, disk: Path) -> None:
    shutil.copytree(source, disk, dirs_exist_ok=True, ignore=shutil.ignore_patterns(LAST))
    shutil.copy(source / LAST, disk / LAST)
    disk.chmod(0o700)


def _own(folder: Path, owner: int | None) -> None:
    if owner is not None:
        for path in (folder, *folder.rglob("*")):
            os.chown(path, owner, owner)
