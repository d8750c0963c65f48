"""Files that somebody else wrote: whatever stands in them, a command ends with one sentence and code 2."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from coordinator_free_launcher.cli.app import app
from coordinator_free_launcher.identity.enrol import Card, keygen, sign
from coordinator_free_launcher.identity.provision import provision
from network_dp import view
from network_dp.plan import Plan
from network_dp.plan_reader import dump, from_dict, is_address, load
from network_dp.untrusted import DEPTH_MAX, FormatError, json_value, read_text, toml

TOML = {
    "nested lists": "x = " + "[" * 100_000 + "]" * 100_000,
    "nested tables": "x = " + "{a=" * 100_000 + "1" + "}" * 100_000,
    "dotted key": ".".join("a" * 50_000) + " = 1",
    "dotted table": "[" + ".".join("a" * 50_000) + "]",
    "dotted inline key": "x = {" + ".".join("a" * 50_000) + " = 1}",
    "quoted dotted key": ".".join(['"\\"" '] * 20_000) + " = 1",
    "long number": "x = " + "9" * 5000,
    "almost too long a number": "schema = " + "9" * 4000,
    "long key": "x" * 1_000_000 + " = 1",
    "not text": "\udcff\udcfe",
    "nothing": "",
}
JSON = {
    "nested lists": "[" * 100_000 + "]" * 100_000,
    "nested tables": '{"mean":' * 100_000 + "1" + "}" * 100_000,
    "long number": '{"mean": [' + "9" * 5000 + "]}",
    "almost too long a number": '{"mean": [' + "9" * 4000 + "]}",
    "cut off": '{"mean": [',
    "not text": "\udcff\udcfe",
}


@pytest.fixture
def plan() -> Plan:
    users = [{"name": f"user-{i}", "address": f"127.0.0.1:{20000 + i}"} for i in range(3)]
    walk = {"topology": "ring", "rounds": 2}
    return from_dict({"walk": walk, "task": {"kind": "mean"}, "noise": {"sigma": 1.0}, "users": users})


def write(path: Path, text: str) -> Path:
    path.unlink(missing_ok=True)
    path.write_bytes(os.fsencode(text))
    return path


def run(*arguments: str | Path) -> Result:
    start = time.process_time()
    result = CliRunner().invoke(app, [str(argument) for argument in arguments])
    assert time.process_time() - start < 20, "a small file must not cost a minute"
    return result


def refused(result: Result, *names: str) -> None:
    assert result.exit_code == 2, (result.exit_code, result.output, result.exception)
    assert isinstance(result.exception, SystemExit)
    (line,) = result.stderr.splitlines()
    assert len(line) < 600
    for name in names:
        assert name in line, line


@pytest.mark.parametrize("what", TOML)
def test_as_a_plan(what: str, plan: Plan, tmp_path: Path) -> None:
    path = write(tmp_path / "bad.toml", TOML[what])
    refused(run("plan", "check", path))
    refused(run("provision", path, "--out", tmp_path / "out"))
    refused(run("run", path, "--out", tmp_path / "out"))
    refused(run("analyze", _log(tmp_path), "--plan", path), "bad.toml")
    refused(run("launch", write(tmp_path / "plan.toml", TOML[what]).parent))
    assert not (tmp_path / "out").exists()


def _log(folder: Path) -> Path:
    fields = {"schema": view.SCHEMA, "run": "r", "plan": "p", "user": "u", "values": True, "insecure": False}
    return write(folder / "view.jsonl", view.encode("header", **fields) + "\n")


def test_as_a_card_or_a_signed_plan(plan: Plan, tmp_path: Path) -> None:
    cards = [Card.read(keygen(name, f"10.9.0.1:{7000 + i}", tmp_path)) for i, name in enumerate(plan.names)]
    public = sign(plan, cards, tmp_path / "signed")
    plan_file = write(tmp_path / "plan.toml", dump(plan))
    for text in TOML.values():
        refused(run("sign", plan_file, write(tmp_path / "bad.card", text), "--out", tmp_path / "again"), "bad.card")
        for file in ("plan.toml", "certificates.pem", "ca.pem"):
            good = (public / file).read_text()
            write(public / file, text)
            refused(run("accept", public, "--dir", tmp_path))
            write(public / file, good)


@pytest.mark.parametrize(
    "file", ["node.toml", "addresses.toml", "plan.toml", "certificates.pem", "key.pem", "cert.pem"]
)
def test_in_a_bundle(file: str, plan: Plan, tmp_path: Path) -> None:
    data = {name: write(tmp_path / f"{name}.csv", "0.5\n") for name in plan.names}
    bundle = provision(plan, tmp_path / "run", data) / "users" / "user-1"
    for what, text in TOML.items():
        if file == "addresses.toml" and not text:
            continue  # no address changed
        write(bundle / file, text).chmod(0o600)
        result = run("node", bundle)
        assert result.exit_code == 2 and isinstance(result.exception, SystemExit), what
        last = result.output.splitlines()[-1]
        assert "level=ERROR" in last and len(last) < 600


@pytest.mark.parametrize("what", JSON)
def test_as_a_truth_or_a_result(what: str, plan: Plan, tmp_path: Path) -> None:
    data = {name: write(tmp_path / f"{name}.csv", "0.5\n") for name in plan.names}
    folder = provision(plan, tmp_path / "run", data)
    log = folder / "users/user-0/state/view.jsonl"
    fields = {"schema": view.SCHEMA, "run": "r", "user": "user-0", "values": True, "insecure": False}
    write(log, view.encode("header", plan=load(folder / "plan.toml").hash, **fields) + "\n")
    refused(run("analyze", log, "--truth", write(tmp_path / "truth.json", JSON[what])), "truth.json")
    if what != "almost too long a number":  # a sound table, of nothing that is needed
        for name in plan.names:
            write(folder / f"users/{name}/state/result.json", JSON[what])
        refused(run("launch", folder), "result.json")


@pytest.mark.parametrize("what", [*JSON])
def test_as_a_line_of_a_view_log(what: str, plan: Plan, tmp_path: Path) -> None:
    log = _log(tmp_path)
    plan_file = write(tmp_path / "plan.toml", dump(plan).replace("sigma = 1.0", "sigma = 1.0\ngrid = 0.0001220703125"))
    fields = {"schema": view.SCHEMA, "run": "r", "user": "user-0", "values": True, "insecure": False}
    header = view.encode("header", plan=load(plan_file).hash, **fields)
    log.write_bytes(os.fsencode(f"{header}\n{JSON[what]}\n"))
    refused(run("analyze", log, "--plan", plan_file), "view.jsonl:2")
    refused(run("export", log, "--out", tmp_path / "shown.jsonl"), "view.jsonl:2")


@pytest.mark.parametrize(
    "address",
    [
        "h h:1",
        "h:1:2",
        "h:1\n",
        "h\n:1",
        "h:\uff11",
        "h:\u0661",
        "h:0",
        "h:65536",
        "h",
        ":1",
        "h:",
        "h/x:1",
        "[::1:5",
        "::1:5",
    ],
)
def test_keygen_refuses_an_address_that_sign_would_refuse(address: str, tmp_path: Path) -> None:
    assert not is_address(address)
    for option in ("--address", "--bind"):
        other = {"--address": "--bind", "--bind": "--address"}[option]
        result = run("keygen", "anna", option, address, other, "h:1", "--dir", tmp_path)
        assert result.exit_code == 2 and "HOST:PORT" in result.output
    assert not list(tmp_path.iterdir())


def test_depth_and_size_have_bounds_that_hold_exactly(tmp_path: Path) -> None:
    deepest = DEPTH_MAX - 1
    assert json_value("[" * deepest + "1" + "]" * deepest)
    with pytest.raises(FormatError, match="nested deeper"):
        json_value("[" * (deepest + 1) + "1" + "]" * (deepest + 1))
    with pytest.raises(FormatError, match="parts"):
        toml(".".join("a" * (DEPTH_MAX + 1)) + " = 1")
    assert read_text(write(tmp_path / "ten", "0123456789"), 10) == "0123456789"
    with pytest.raises(FormatError, match="longer than the 10 bytes"):
        read_text(write(tmp_path / "eleven", "0123456789a"), 10)
