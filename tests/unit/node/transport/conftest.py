"""One set of bundles serves all tests of a module."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.unit.node.transport.stage import provisioned


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return provisioned(tmp_path_factory.mktemp("transport"), 4)
