"""Bundles: complete, private, cheap, never overwritten."""

from __future__ import annotations

import json
import os
import tomllib
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509
from typer.testing import CliRunner

from coordinator_free_launcher.cli.app import app
from coordinator_free_launcher.identity import provision as provision_module
from coordinator_free_launcher.identity.bundle import ProvisionError
from coordinator_free_launcher.identity.certificates import certificate_key, read_key, user_name
from coordinator_free_launcher.identity.deliver import deliver
from coordinator_free_launcher.identity.finalise import finalise
from coordinator_free_launcher.identity.provision import already_provisioned, provision, unpinned
from network_dp.plan_reader import dump, parse
from node.pins import pin


def files_for(plan: Any, folder: Path) -> dict[str, Path]:
    files = {name: folder / f"{name}.csv" for name in plan.names}
    for path in files.values():
        path.write_text("0.5\n")
    return files


def test_a_bundle_holds_what_its_user_needs(make_plan: Any, tmp_path: Path) -> None:
    plan = make_plan()
    out = provision(plan, tmp_path / "run", files_for(plan, tmp_path))
    bundle = out / "users" / "user-1"
    assert {path.name for path in bundle.iterdir()} == {
        "plan.toml",
        "certificates.pem",
        "ca.pem",
        "key.pem",
        "cert.pem",
        "node.toml",
        "data.csv",
        "state",
    }
    assert tomllib.loads((bundle / "node.toml").read_text()) == {"name": "user-1", "data": "data.csv"}
    assert (bundle / "state" / "born").read_text().startswith("user-1 ")


def test_what_is_private_is_readable_by_its_owner_only(make_plan: Any, tmp_path: Path) -> None:
    plan = make_plan()
    out = provision(plan, tmp_path / "run", files_for(plan, tmp_path))
    bundle = out / "users" / "user-0"
    modes = {path: path.stat().st_mode & 0o777 for path in (out / "ca" / "ca.key", *bundle.rglob("*"))}
    assert modes[out / "ca" / "ca.key"] == modes[bundle / "key.pem"] == modes[bundle / "data.csv"] == 0o600
    assert modes[bundle / "state"] == 0o700


def test_the_public_plan_pins_every_key_and_hides_data_paths(make_plan: Any, tmp_path: Path) -> None:
    users = [{"name": f"u{i}", "address": f"127.0.0.1:{21000 + i}", "data": f"secret/{i}.csv"} for i in range(3)]
    plan = make_plan(users=users)
    out = provision(plan, tmp_path / "run")
    public = parse((out / "plan.toml").read_text())
    assert "secret" not in (out / "plan.toml").read_text()
    assert unpinned(public).hash == unpinned(finalise(plan)).hash
    certificates = x509.load_pem_x509_certificates((out / "certificates.pem").read_bytes())
    assert [user_name(certificate) for certificate in certificates] == list(public.names)
    for user, certificate in zip(public.users, certificates, strict=True):
        bundle = out / "users" / user.name
        assert user.key == pin(certificate_key(certificate)) == pin(read_key(bundle / "key.pem").public_key())
        assert x509.load_pem_x509_certificate((bundle / "cert.pem").read_bytes()) == certificate
        certificate.verify_directly_issued_by(x509.load_pem_x509_certificate((bundle / "ca.pem").read_bytes()))
    assert len({user.key for user in public.users}) == 3
    assert tomllib.loads((out / "users/u1/node.toml").read_text())["data"] == str(Path("secret/1.csv").absolute())


def test_public_files_are_one_copy_however_many_users(make_plan: Any, tmp_path: Path) -> None:
    out = provision(make_plan(5), tmp_path / "run")
    for name in ("plan.toml", "certificates.pem"):
        assert {(out / "users" / f"user-{i}" / name).stat().st_ino for i in range(5)} == {(out / name).stat().st_ino}


def test_where_links_fail_files_are_copied(make_plan: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise PermissionError(1, "no links on this file system")

    monkeypatch.setattr(os, "link", refuse)
    out = provision(make_plan(), tmp_path / "run")
    assert (out / "users/user-2/plan.toml").read_text() == (out / "plan.toml").read_text()


def test_keys_and_state_are_never_overwritten(make_plan: Any, tmp_path: Path) -> None:
    out = provision(make_plan(), tmp_path / "run")
    key = (out / "users/user-0/key.pem").read_bytes()
    with pytest.raises(ProvisionError, match="never overwritten"):
        provision(make_plan(), tmp_path / "run")
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "letter").write_text("dear")
    with pytest.raises(ProvisionError, match="not empty"):
        provision(make_plan(), tmp_path / "mine")
    assert (out / "users/user-0/key.pem").read_bytes() == key


def test_an_interrupted_provision_leaves_nothing_and_can_be_repeated(
    make_plan: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(provision_module, "_share_public", interrupt)
        with pytest.raises(KeyboardInterrupt):
            provision(make_plan(), tmp_path / "run")
    assert list(tmp_path.iterdir()) == []
    (tmp_path / ".run.unfinished" / "users" / "user-0").mkdir(parents=True)  # as after a power cut
    provision(make_plan(), tmp_path / "run")
    assert [path.name for path in tmp_path.iterdir()] == ["run"]


def test_missing_data_is_named_before_anything_is_written(make_plan: Any, tmp_path: Path) -> None:
    plan = make_plan()
    files = files_for(plan, tmp_path)
    with pytest.raises(ProvisionError, match="no data for user-1"):
        provision(plan, tmp_path / "run", {"user-0": files["user-0"], "user-2": files["user-2"]})
    with pytest.raises(ProvisionError, match=r"\.csv, \.npy, \.jsonl"):
        provision(plan, tmp_path / "run", files | {"user-1": tmp_path / "x.xls"})
    assert not (tmp_path / "run").exists()


def test_if_needed_knows_its_own_plan(make_plan: Any, tmp_path: Path) -> None:
    (tmp_path / "plan.toml").write_text(dump(make_plan()))
    arguments = ["provision", str(tmp_path / "plan.toml"), "--out", str(tmp_path / "run"), "--demo-data", "--if-needed"]
    first = CliRunner().invoke(app, arguments)
    assert first.exit_code == 0, first.output
    key = (tmp_path / "run/users/user-0/key.pem").read_bytes()
    second = CliRunner().invoke(app, arguments)
    assert (second.exit_code, "nothing done" in second.output) == (0, True)
    assert (tmp_path / "run/users/user-0/key.pem").read_bytes() == key
    (tmp_path / "plan.toml").write_text(dump(make_plan(noise={"sigma": 2.0})))
    third = CliRunner().invoke(app, arguments)
    assert (third.exit_code, "never overwritten" in third.output) == (2, True)
    assert not already_provisioned(make_plan(host="127.0.0.2"), tmp_path / "run")


def test_the_truth_of_a_demo_lies_outside_every_bundle(make_plan: Any, tmp_path: Path) -> None:
    (tmp_path / "plan.toml").write_text(dump(make_plan()))
    arguments = ["provision", str(tmp_path / "plan.toml"), "--out", str(tmp_path / "run"), "--demo-data"]
    assert CliRunner().invoke(app, arguments).exit_code == 0
    truth = json.loads((tmp_path / "run/truth.json").read_text())
    values = [float((tmp_path / f"run/users/user-{i}/data.csv").read_text()) for i in range(3)]
    assert truth["mean"] == [pytest.approx(sum(values) / 3)]
    assert list((tmp_path / "run/users").rglob("truth.json")) == []


def test_a_bad_plan_ends_with_code_2_and_a_reason(tmp_path: Path) -> None:
    (tmp_path / "plan.toml").write_text("[walk]\n")
    result = CliRunner().invoke(app, ["provision", str(tmp_path / "plan.toml"), "--out", str(tmp_path / "run")])
    assert (result.exit_code, "users is missing" in result.output) == (2, True)


def test_two_hundred_users_take_little_disk(make_plan: Any, tmp_path: Path) -> None:
    users = [{"name": f"u{i}", "address": f"127.0.0.1:{20000 + i}"} for i in range(200)]
    out = provision(make_plan(users=users), tmp_path / "run")
    seen: dict[int, int] = {}
    for path in out.rglob("*"):
        seen[path.stat().st_ino] = path.stat().st_blocks * 512
    assert sum(seen.values()) < 200 * 40_000


def test_after_delivery_no_private_key_is_left_behind(make_plan: Any, tmp_path: Path) -> None:
    plan = make_plan()
    out = provision(plan, tmp_path / "vault", files_for(plan, tmp_path))
    (tmp_path / "disks/public").mkdir(parents=True)
    for name in plan.names:
        (tmp_path / "disks/users" / name).mkdir(parents=True)
    for _ in range(2):  # a second delivery finds everything done
        deliver(out, tmp_path / "disks")
        keys = [path for path in out.rglob("*") if path.is_file() and b"PRIVATE KEY" in path.read_bytes()]
        assert keys == []
    assert (tmp_path / "disks/users/user-1/key.pem").is_file()
