"""The paper's figures: published numbers are met, audited curves stand in the order the theory says."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from coordinator_free_launcher.cli.app import app
from simulator.figures import fig1a, fig1b, fig2, fig3
from simulator.figures.base import Figure, Settings

QUICK = Settings(quick=True)

#: n: (network mean, least, greatest, local mean), eps0 = 0.1, T = 100 n, 10 walks (THEORY.md#printed-figures)
PUBLISHED = {
    5: (2.392, 1.679, 3.151, 6.716),
    20: (0.776, 0.504, 1.609, 6.720),
    100: (0.254, 0.194, 0.852, 6.722),
    200: (0.166, 0.126, 0.652, 6.722),
}


@pytest.mark.parametrize("n", PUBLISHED)
def test_published_values_are_met_within_monte_carlo_error(n: int) -> None:
    mean, least, greatest, local = PUBLISHED[n]
    seen = fig1b.measure("published", n, 0.1, 10, Settings())
    assert seen.network.mean == pytest.approx(mean, rel=0.02)
    assert seen.local.mean == pytest.approx(local, rel=0.002)
    # extremes of 10 walks vary more: the most extreme of thousands of pairs
    assert seen.network.low == pytest.approx(least, rel=0.1)
    assert seen.network.high == pytest.approx(greatest, rel=0.25)


def test_audited_losses_lie_between_the_hidden_bound_and_local_dp() -> None:
    seen = fig1b.measure("audited", 50, 0.1, 3, Settings())
    assert fig1b.hidden_bound(50, 0.1) < seen.network.mean < seen.network.high < seen.local.low


def test_audited_bounds_before_a_run_are_in_order() -> None:
    local, known, hidden = fig1a.audited_point(30)
    assert hidden < known < local


def test_the_bound_before_a_run_covers_the_pairs_of_a_run() -> None:
    """Given the path nearly all pairs must lie below the bound at the same delta; the mean surely does."""
    _, known, _ = fig1a.audited_point(20)
    seen = fig1b.measure("audited", 20, 0.1, 3, Settings())
    assert seen.network.mean < known


def column(figure: Figure, curve: str, epsilon_0: float) -> list[float]:
    return [float(row[3]) for row in figure.rows if row[0] == curve and row[1] == epsilon_0]


@pytest.mark.slow
def test_audited_histograms_lose_less_than_local_ones() -> None:
    figure = fig3.make("audited", QUICK)
    for e in fig3.EPSILONS_0:
        network, local = column(figure, "network", e), column(figure, "local", e)
        assert all(a < b for a, b in zip(network, local, strict=True))
        assert network[-1] < network[0]


@pytest.mark.slow
def test_training_at_equal_budgets_orders_the_noise() -> None:
    """Non-private < centralized <= hidden < known < local, at both budgets."""
    figure = fig2.make("audited", QUICK)
    for epsilon in fig2.EPSILONS:
        sigmas = {str(row[1]): float(row[2]) for row in figure.rows if row[0] == epsilon}
        assert sigmas["non-private"] == 0
        assert sigmas["centralized"] <= sigmas["network, path hidden"] * 1.001
        assert sigmas["network, path hidden"] < sigmas["network, path known"] < sigmas["local"]


def test_reproduce_writes_picture_numbers_and_text(tmp_path: Path) -> None:
    arguments = ["reproduce", "fig1b", "--flavour", "published", "--quick", "--jobs", "1", "--json", "--out"]
    result = CliRunner().invoke(app, [*arguments, str(tmp_path)])
    assert result.exit_code == 0, result.output
    report = json.loads(result.stdout)["fig1b"]
    names = {Path(file).name for file in report["files"]}
    assert names == {f"fig1b-published.{kind}" for kind in ("png", "svg", "csv", "txt")}
    with (tmp_path / "fig1b-published.csv").open() as stream:
        assert len(list(csv.reader(stream))) == len(report["rows"]) + 1
    assert "Seen:" in (tmp_path / "fig1b-published.txt").read_text()


def test_the_same_seed_gives_the_same_files(tmp_path: Path) -> None:
    for folder in ("a", "b"):
        fig1b.make("published", QUICK).save(tmp_path / folder)
    for kind in ("svg", "csv", "txt"):
        assert (tmp_path / "a" / f"fig1b-published.{kind}").read_bytes() == (
            tmp_path / "b" / f"fig1b-published.{kind}"
        ).read_bytes()


def test_a_data_file_that_cannot_be_used_is_refused_with_a_reason(tmp_path: Path) -> None:
    missing = tmp_path / "no.csv"
    result = CliRunner().invoke(app, ["reproduce", "fig2", "--quick", "--houses", str(missing)])
    assert result.exit_code == 2
    assert "no.csv" in result.output


def test_data_houses_works_offline(tmp_path: Path) -> None:
    out = tmp_path / "houses.csv"
    result = CliRunner().invoke(app, ["data", "houses", "--out", str(out)])
    assert result.exit_code == 0, result.output
    assert "generated" in result.output and out.exists()


def test_csv_and_download_exclude_each_other(tmp_path: Path) -> None:
    result = CliRunner().invoke(app, ["data", "houses", "--csv", str(tmp_path / "x.csv"), "--download"])
    assert result.exit_code == 2


@pytest.mark.parametrize("name", ["walks", "gossip"])
def test_figures_of_graphs_show_the_printed_formula_beside_what_holds(name: str, tmp_path: Path) -> None:
    arguments = ["reproduce", name, "--quick", "--jobs", "1", "--json", "--out", str(tmp_path)]
    result = CliRunner().invoke(app, arguments)
    assert result.exit_code == 0, result.output
    made = json.loads(result.output)[name]
    rows = [dict(zip(made["columns"], row, strict=True)) for row in made["rows"]]
    assert {row["kind"] for row in rows} >= {"hypercube", "erdos-renyi", "grid"}
    held = "valid" if name == "walks" else "joint"
    assert all(row["printed"] >= 0 and row[held] > 0 for row in rows)
    assert all(Path(file).stat().st_size > 0 for file in made["files"])
