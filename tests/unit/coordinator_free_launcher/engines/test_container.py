"""What a container's process does around the node: take files over, hand views over."""

from __future__ import annotations

import json
from pathlib import Path

from coordinator_free_launcher.engines.container import hand_over, take_over
from coordinator_free_launcher.identity.bundle import make_born
from network_dp import view


def test_files_taken_over_are_readable_by_the_user_alone(tmp_path: Path) -> None:
    (tmp_path / "mount/..data").mkdir(parents=True)
    (tmp_path / "bundle").mkdir()
    (tmp_path / "mount/key.pem").write_text("key")
    (tmp_path / "mount/key.pem").chmod(0o440)
    take_over(tmp_path / "mount", tmp_path / "bundle")
    take_over(tmp_path / "mount", tmp_path / "bundle")  # after a restart
    assert [path.name for path in (tmp_path / "bundle").iterdir()] == ["key.pem"]
    assert (tmp_path / "bundle/key.pem").stat().st_mode & 0o777 == 0o600


def make_view(bundle: Path) -> None:
    (bundle / "state").mkdir(parents=True)
    header = {"schema": view.SCHEMA, "run": "r", "plan": "p", "user": "u", "values": True, "insecure": False}
    visit = {"epoch": [0, 0], "step": 1, "visit": 1, "cause": "start", "from": None, "received": [4711]}
    lines = [view.encode("header", **header), view.encode("visit", **visit)]
    (bundle / "state/view.jsonl").write_text("".join(line + "\n" for line in lines))
    (bundle / "state/result.json").write_text('{"value": [0.5], "own": {"clipped": 4712}}')


def test_no_value_is_handed_over_unless_asked_for(tmp_path: Path) -> None:
    make_view(tmp_path / "bundle")
    for folder, with_values in (("shown", False), ("whole", True)):
        (tmp_path / folder).mkdir()
        hand_over(tmp_path / "bundle", tmp_path / folder, with_values=with_values)
        assert ("4711" in (tmp_path / folder / "view.jsonl").read_text()) is with_values
        assert json.loads((tmp_path / folder / "result.json").read_text()) == {"value": [0.5]}


def test_a_life_begins_once(tmp_path: Path) -> None:
    make_born(tmp_path, "anna")
    (tmp_path / "born").write_text("anna long ago\n")
    make_born(tmp_path, "anna")
    assert (tmp_path / "born").read_text() == "anna long ago\n"
