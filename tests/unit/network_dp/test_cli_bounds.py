"""The commands bounds, calibrate and audit, as a user calls them."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from coordinator_free_launcher.cli import bounds_kinds
from coordinator_free_launcher.cli.app import app
from network_dp.accounting import bounds, shuffle


@pytest.fixture
def call():
    return lambda *arguments: CliRunner().invoke(app, [str(argument) for argument in arguments])


SGD = ("bounds", "--task", "sgd", "--users", 50, "--steps", 400, "--sigma", 3, "--lipschitz", 1)


def test_bounds_print_every_row_of_the_comparison(call):
    result = call(*SGD)
    assert result.exit_code == 0
    for label in ("network epsilon", "path were hidden", "local epsilon", "as printed (Thm 4)", "expected error"):
        assert label in result.output


def test_json_holds_the_valid_bound(call):
    result = call(*SGD, "--released", "--colluders", 2, "--json")
    found = json.loads(result.output)["network_epsilon"]["value"]
    assert found == pytest.approx(bounds.network_epsilon("sgd", 50, 400, 3.0, 2.0, 1e-6, released=True, colluders=2))


@pytest.mark.slow
@pytest.mark.parametrize(("users", "steps", "sigma"), [(50, 1500, 7.47), (200, 4000, 3.50)])
def test_the_noise_that_a_hidden_path_needs_for_an_epsilon_of_one(call, users, steps, sigma):
    """Of 2000 users, which takes longer: tests/paper/test_hidden_table.py."""
    question = ("--task", "sgd", "--lipschitz", 1, "--users", users, "--steps", steps, "--sigma", sigma)
    assert json.loads(call("bounds", *question, "--json").output)["hidden_epsilon"]["value"] == pytest.approx(1, 5e-3)


def test_a_ring_has_no_local_guarantee_and_resists_no_collusion(call):
    ring = ("bounds", "--topology", "ring", "--users", 10, "--rounds", 4, "--sigma", 5)
    table = json.loads(call(*ring, "--json").output)
    assert table["network_epsilon"]["value"] == pytest.approx(bounds.ring_epsilon(4, 5.0, 1.0, 1e-6, reissues=1))
    undisturbed = json.loads(call(*ring, "--reissues", 0, "--json").output)["network_epsilon"]["value"]
    assert undisturbed == pytest.approx(bounds.ring_epsilon(4, 5.0, 1.0, 1e-6))
    assert table["local_epsilon"]["value"] == "infinity"
    together = json.loads(call(*ring, "--colluders", 2, "--json").output)["network_epsilon"]
    assert together["value"] == "infinity" and "resists no collusion" in together["note"]


def test_a_histogram_by_randomised_response_uses_the_shuffle_accountant(call):
    arguments = ("bounds", "--task", "histogram", "--topology", "ring", "--users", 60, "--rounds", 2)
    table = json.loads(call(*arguments, "--gamma", 0.5, "--buckets", 4, "--json").output)
    assert table["network_epsilon"]["value"] == pytest.approx(shuffle.ring_epsilon(60, 2, 4, 0.5, 1e-6))
    assert table["printed_epsilon"]["label"] == "as printed (Thm 2)"


@pytest.mark.parametrize(
    "arguments,word",
    [
        (("bounds", "--users", 10, "--sigma", 1), "--steps"),
        (("bounds", "--topology", "ring", "--users", 10, "--sigma", 1), "--rounds"),
        (("bounds", "--users", 10, "--steps", 5), "--sigma"),
        (("bounds", "--task", "sgd", "--users", 10, "--steps", 5, "--sigma", 1), "--lipschitz"),
        (("bounds", "--task", "median", "--steps", 5, "--sigma", 1), "--task"),
        (("bounds", "--steps", 5, "--sigma", 1, "--delta", 2), "delta"),
        (("calibrate", "--epsilon", -1, "--steps", 5), "epsilon"),
        (("calibrate", "--epsilon", 1, "--topology", "ring", "--rounds", 5, "--colluders", 2), "collusion"),
        (("bounds", "--topology", "ring", "--users", 9, "--rounds", 5, "--steps", 5, "--sigma", 1), "--steps"),
        (("bounds", "--steps", 5, "--rounds", 5, "--sigma", 1), "--rounds"),
        (("bounds", "--steps", 5, "--sigma", 1, "--gamma", 0.5), "--gamma"),
        (("bounds", "--topology", "ring", "--rounds", 5, "--sigma", 1, "--cap", 3), "--cap"),
        (("bounds", "--steps", 5, "--sigma", 1, "--colluders", 100), "colluders"),
        (("bounds", "--steps", 5, "--sigma", 1, "--plot", "/nowhere/at/all.png"), "plot"),
        (("bounds", "--steps", 5, "--sigma", 1, "--plot", "/nowhere/at/all.xyz"), "xyz"),
        (("bounds", "--steps", 5, "--sigma", 1, "--reissues", 1), "--reissues"),
        (("audit", "nothing"), "algorithm"),
    ],
)
def test_nonsense_ends_with_exit_code_2_and_one_sentence(call, arguments, word):
    result = call(*arguments)
    assert result.exit_code == 2
    assert word in result.output
    assert "Traceback" not in result.output
    assert len(result.output.strip().splitlines()) == 1


def test_calibrate_gives_a_sigma_that_bounds_confirm(call):
    walk = ("--users", 50, "--steps", 400, "--cap", 12)
    found = json.loads(call("calibrate", "--epsilon", 2, *walk, "--json").output)
    back = json.loads(call("bounds", "--sigma", found["network_sigma"]["value"], *walk, "--json").output)
    assert back["network_epsilon"]["value"] == pytest.approx(2.0, rel=2e-3)
    assert found["local_sigma"]["value"] > found["network_sigma"]["value"]


@pytest.mark.parametrize(
    "question,theorem",
    [
        (("--users", 50, "--steps", 400), "Thm 3"),
        (("--task", "sgd", "--lipschitz", 1, "--users", 50, "--steps", 400), "Thm 4"),
        (("--topology", "ring", "--users", 50, "--rounds", 4), "Thm 1"),
    ],
)
def test_calibrate_compares_like_bounds(call, question, theorem):
    found = json.loads(call("calibrate", "--epsilon", 2, *question, "--json").output)
    assert found["printed_sigma"]["label"] == f"as printed ({theorem})"
    for key, back in (
        ("network_sigma", "network_epsilon"),
        ("printed_sigma", "printed_epsilon"),
        ("hidden_sigma", "hidden_epsilon"),
    ):
        sigma = found[key]["value"]
        if key == "hidden_sigma" and theorem == "Thm 1":
            assert sigma is None
            continue
        epsilon = json.loads(call("bounds", "--sigma", sigma, *question, "--json").output)[back]["value"]
        assert epsilon == pytest.approx(2.0, rel=1e-3), key


def test_calibrate_gamma(call):
    arguments = ("--task", "histogram", "--topology", "ring", "--users", 60, "--rounds", 2, "--buckets", 4)
    found = json.loads(call("calibrate", "--epsilon", 2, *arguments, "--json").output)
    assert found["network_epsilon"]["value"] <= 2
    assert 0 < found["network_gamma"]["value"] < 1


@pytest.mark.parametrize(
    "noise,task",
    [("--sigma", ("--task", "sgd", "--lipschitz", 1)), ("--sigma", ()), ("--gamma", ("--task", "histogram"))],
)
@pytest.mark.parametrize("size", [0, 1e-9])
def test_hardly_any_noise_gives_a_table_and_no_traceback(call, noise, task, size):
    buckets = ("--buckets", 3) if noise == "--gamma" else ()
    result = call("bounds", *task, "--users", 9, "--steps", 20, noise, size, *buckets, "--json")
    assert result.exit_code == 0
    value = json.loads(result.output)["network_epsilon"]["value"]
    assert value == "infinity" if size == 0 else value > 10


@pytest.mark.parametrize("axis", ["n", "T", "sigma", "users", "rounds"])
def test_plot_writes_a_picture(call, tmp_path, axis):
    picture = tmp_path / "out.png"
    ring = ("bounds", "--topology", "ring", "--users", 10, "--rounds", 4, "--sigma", 5)
    assert call(*ring, "--plot", picture, "--against", axis).exit_code == 0
    assert picture.read_bytes().startswith(b"\x89PNG")
    assert call(*ring, "--plot", picture, "--against", "weather").exit_code == 2


def test_audit_passes_a_correct_run_and_fails_a_broken_one(call):
    settings = ("audit", "ring_sum", "--users", 6, "--sigma", 2, "--runs", 20_000)
    assert call(*settings).exit_code == 0
    broken = call(*settings, "--bug", "half_noise", "--json")
    assert broken.exit_code == 1
    assert json.loads(broken.output)["verdict"] == "FAIL"


def test_help_and_a_node_need_no_scipy():
    check = (
        "import sys, coordinator_free_launcher.cli.bounds, network_dp.plan, network_dp.view, network_dp.utility;"
        "sys.exit(any(m in sys.modules for m in ('scipy', 'dp_accounting', 'matplotlib')))"
    )
    assert subprocess.run([sys.executable, "-c", check], check=False).returncode == 0


def test_the_tables_ask_no_kind_which_it_is():
    folder = Path(bounds_kinds.__file__).parent
    for name in ("bounds.py", "bounds_tables.py"):
        text = (folder / name).read_text()
        assert '"ring"' not in text and '"complete"' not in text.replace('TopologyOption = "complete"', "")
