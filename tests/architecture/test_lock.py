"""The lock: every dependency by version and hash, nothing of where it was fetched, all that pyproject.toml asks for."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
FILES = ("run.txt", "build.txt", "dev.txt")


def locked(file: str) -> dict[str, tuple[Version, list[str]]]:
    """Name -> version and hashes."""
    found = {}
    for entry in re.split(r"\n(?=\S)", (ROOT / "requirements" / file).read_text().strip()):
        requirement = Requirement(entry.split("\\")[0].strip())
        (pin,) = requirement.specifier
        assert pin.operator == "=="
        assert canonicalize_name(requirement.name) not in found, "one version for all Pythons and systems"
        hashes = re.findall(r"--hash=sha256:([0-9a-f]{64})", entry)
        found[canonicalize_name(requirement.name)] = (Version(pin.version), hashes)
    return found


@pytest.mark.parametrize("file", FILES)
def test_every_entry_has_one_version_and_hashes_and_no_place(file: str) -> None:
    text = (ROOT / "requirements" / file).read_text()
    assert "://" not in text and "index-url" not in text and "find-links" not in text
    assert all(hashes for _, hashes in locked(file).values())


def wanted(file: str) -> list[Requirement]:
    extras = PROJECT["project"]["optional-dependencies"]
    run, build = PROJECT["project"]["dependencies"], PROJECT["build-system"]["requires"]
    texts = {
        "run.txt": [*run, *extras["page"]],
        "build.txt": build,
        "dev.txt": [*run, *build, *(one for all in extras.values() for one in all)],
    }
    return [requirement for text in texts[file] if (requirement := Requirement(text)).name != "network-dp"]


@pytest.mark.parametrize("file", FILES)
def test_what_the_project_asks_for_is_locked(file: str) -> None:
    versions = locked(file)
    for requirement in wanted(file):
        version, _ = versions[canonicalize_name(requirement.name)]
        assert version in requirement.specifier, f"{requirement}: {version} is locked; run `make lock`"


def test_the_image_and_the_workplace_run_the_same_versions() -> None:
    everything = locked("dev.txt")
    for file in ("run.txt", "build.txt"):
        assert {name: everything[name] for name in locked(file)} == locked(file)
