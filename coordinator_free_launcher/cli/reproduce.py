"""``network-dp reproduce``: figures of the paper and of later ones; ``network-dp data``: the data of its experiment."""

from __future__ import annotations

import json
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from network_dp.errors import UserError

if TYPE_CHECKING:
    from simulator.datasets import Dataset
    from simulator.figures.base import Figure, Settings


class FigureName(StrEnum):
    fig1a = "fig1a"
    fig1b = "fig1b"
    fig2 = "fig2"
    fig3 = "fig3"
    walks = "walks"
    gossip = "gossip"
    all = "all"


class FlavourName(StrEnum):
    published = "published"
    audited = "audited"


Which = Annotated[FigureName, typer.Argument(help="fig1a, fig1b, fig2, fig3, walks, gossip, or all.")]
FlavourOption = Annotated[
    FlavourName,
    typer.Option(
        metavar="FLAVOUR",
        help="published: the authors' formulas, to recognise the picture; audited: what holds, equal delta.",
    ),
]
Out = Annotated[Path, typer.Option(help="Folder for PNG, SVG, CSV and a text of what is seen.")]
Quick = Annotated[bool, typer.Option("--quick", help="A small version in seconds: fewer users, steps and runs.")]
Jobs = Annotated[
    int, typer.Option(min=-1, max=1024, help="Worker processes; -1: one per core. The numbers do not depend on it.")
]
Seed = Annotated[int, typer.Option(min=0, help="Seed of all simulated walks and noise.")]
HousesFile = Annotated[
    Path | None,
    typer.Option("--houses", help="fig2: the Houses CSV, raw or made by `data houses` (default: generated data)."),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print the files and the numbers as JSON.")]

data = typer.Typer(
    name="data",
    help="Prepare data sets for experiments. Nothing is shipped with the package.",
    no_args_is_help=True,
)


def reproduce(
    figure: Which,
    flavour: FlavourOption = FlavourName.audited,
    out: Out = Path("figures"),
    quick: Quick = False,
    jobs: Jobs = -1,
    seed: Seed = 1,
    houses: HousesFile = None,
    as_json: AsJson = False,
) -> None:
    """Make the figures of the paper, and of two later ones on graphs, from simulation.

    * fig1a: bounds of the real sum before any run, against the number of users
    * fig1b: what all pairs of users really lost on simulated walks of the sum
    * fig2: SGD on Houses: objective and test accuracy for epsilon = 10 and 1
    * fig3: what all pairs lost on simulated walks of a histogram
    * walks: SGD walks on graphs (ICML 2024): printed bound, valid bound, what walks cost
    * gossip: noisy gossip (Muffliato, NeurIPS 2022): printed exposure against the joint view

    Examples:

    * network-dp reproduce fig1b --quick
    * network-dp reproduce all --flavour audited --out figures --houses houses.csv

    docs/FIGURES.md says what is to be seen, and how much of the paper's gain holds.
    """
    from simulator.figures.base import Settings

    names = [name for name in FigureName if name is not FigureName.all] if figure is FigureName.all else [figure]
    if houses is not None and not houses.is_file():
        raise UserError(f"{houses}: no such file; give the CSV of `network-dp data houses`, or leave --houses out")
    out.mkdir(parents=True, exist_ok=True)  # now, not after the computation
    settings = Settings(quick=quick, jobs=jobs, seed=seed, progress=not as_json, houses=houses)
    report: dict[str, dict[str, object]] = {}
    for name in names:
        made = _make(name, flavour, settings)
        files = made.save(out)
        report[name.value] = _facts(made, files)
        if not as_json:
            typer.echo(f"{made.notes.strip()}\n{', '.join(str(file) for file in files)}\n")
    if as_json:
        typer.echo(json.dumps(report, indent=1))


def _make(name: FigureName, flavour: FlavourName, settings: Settings) -> Figure:
    from simulator.figures import fig1a, fig1b, fig2, fig3, gossip, walks

    modules = {module.__name__.rpartition(".")[2]: module for module in (fig1a, fig1b, fig2, fig3, walks, gossip)}
    made: Figure = modules[name.value].make("published" if flavour is FlavourName.published else "audited", settings)
    return made


def _facts(made: Figure, files: list[Path]) -> dict[str, object]:
    return {
        "flavour": made.flavour,
        "files": [str(file) for file in files],
        "notes": made.notes.strip(),
        "columns": list(made.header),
        "rows": [list(row) for row in made.rows],
    }


@data.command("houses")
def prepare_houses(
    csv_file: Annotated[Path | None, typer.Option("--csv", help="California housing as CSV (or .csv.gz).")] = None,
    fetch: Annotated[bool, typer.Option("--download", help="Fetch OpenML's set 823 (needs scikit-learn).")] = False,
    out: Annotated[Path, typer.Option(help="The prepared file: standardised features and a label -1 or 1.")] = Path(
        "houses.csv"
    ),
    users: Annotated[int, typer.Option(min=1, help="How many users the training rows are dealt to.")] = 2000,
    users_dir: Annotated[
        Path | None, typer.Option(help="Also write one file per user, for a real run, and test.csv for everybody.")
    ] = None,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the split into training and test rows.")] = 1,
) -> None:
    """Prepare the Houses data (OpenML 823) of the paper's SGD experiment.

    Without --csv or --download a made-up set of the same shape is written: everything can be tried offline.

    Examples:

    * network-dp data houses --csv houses.csv.gz --out prepared.csv
    * network-dp data houses --download --users-dir houses-users
    """
    from simulator import datasets

    if csv_file is not None and fetch:
        raise typer.BadParameter("give --csv or --download, not both")
    if out.exists():
        raise UserError(f"{out} exists: give another file with --out, nothing was overwritten")
    dataset = _load(csv_file, fetch)
    if users_dir is not None:
        datasets.deal(dataset, users, seed)  # refuses too many users before anything is written
    datasets.write(dataset, out)
    typer.echo(f"{len(dataset.labels)} rows of {dataset.name} data written to {out}")
    if users_dir is not None:
        files = datasets.write_users(dataset, users_dir, users, seed)
        typer.echo(f"{files} files of users and test.csv written to {users_dir}")


def _load(csv_file: Path | None, fetch: bool) -> Dataset:
    from simulator import datasets

    if fetch:
        return datasets.download()
    return datasets.generated() if csv_file is None else datasets.houses(csv_file)
