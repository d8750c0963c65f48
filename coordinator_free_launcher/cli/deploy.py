"""Commands for other people's engines: ``compose`` (one machine), ``stack`` (Swarm, Kubernetes), ``health``."""

from __future__ import annotations

import re
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from coordinator_free_launcher.cli.provision import AllowClipping, read_plan, warn
from coordinator_free_launcher.cli.say import say
from network_dp.plan import Plan, PlanError

Data = Annotated[Path | None, typer.Option(help="Folder with NAME.csv, .npy or .jsonl (default: made up).")]


class Engine(StrEnum):
    SWARM = "swarm"
    KUBERNETES = "kubernetes"


def _memory(text: str) -> str:
    if re.fullmatch(r"[1-9]\d*[kmg]", text) is None:
        raise typer.BadParameter(f'"{text}": must be a whole number of k, m or g, like 256m')
    return text


def _image(text: str) -> str:
    if re.fullmatch(r"\w[\w./@-]*(?::\d+/[\w./@-]+)?(?::[\w.-]+)?", text) is None:
        raise typer.BadParameter(f'"{text}": must be the name of an image, like network-dp:latest')
    return text


def compose_command(
    plan_file: Annotated[Path, typer.Argument(metavar="PLAN", help="The plan; addresses in it are replaced.")],
    out: Annotated[Path, typer.Option(help="New folder for compose.yaml and plan.toml.")],
    data: Data = None,
    allow_clipping: AllowClipping = False,
    memory: Annotated[
        str, typer.Option(callback=_memory, help="Most memory of one user's container: 256m, 1g.")
    ] = "256m",
    pages: Annotated[
        int | None,
        typer.Option(
            min=1024,
            max=65000,
            help="Also serve every user's own page on this machine, from this port on.",
        ),
    ] = None,
) -> None:
    """Write a Compose file for this plan: one container per user, each with only its own key, data and state."""
    from coordinator_free_launcher.engines.compose import compose_file, container_plan
    from coordinator_free_launcher.identity.bundle import data_folder
    from coordinator_free_launcher.identity.finalise import finalise
    from coordinator_free_launcher.identity.look import look
    from network_dp.plan_reader import dump

    plan = container_plan(read_plan(plan_file))
    if out.exists() and any(out.iterdir()):
        raise PlanError(f"{out} exists and is not empty; give a new folder")
    if data is not None:
        for said in look(finalise(plan), data_folder(plan, data), allow_clipping=allow_clipping):
            warn(said)
    folder = None if data is None else str(data.absolute())
    text = compose_file(plan, data=folder, memory=memory, allow_clipping=allow_clipping, pages_from=pages)
    out.mkdir(parents=True, exist_ok=True)
    (out / "plan.toml").write_text(dump(plan))
    (out / "compose.yaml").write_text(text)
    typer.echo(
        f"{plan.n} containers in {out / 'compose.yaml'}; start them with: docker compose -f {out}/compose.yaml up"
    )
    if pages is not None:
        say(f"Each page's address is in its log: docker compose -f {out}/compose.yaml logs | grep Watch")


def stack_command(
    plan_file: Annotated[Path, typer.Argument(metavar="PLAN", help="The plan; addresses in it are replaced.")],
    out: Annotated[Path, typer.Option(help="New folder for the bundles and the engine's file.")],
    engine: Annotated[Engine, typer.Option(metavar="ENGINE", help="swarm or kubernetes.")] = Engine.SWARM,
    image: Annotated[
        str, typer.Option(callback=_image, help="The image, as the machines of the engine reach it.")
    ] = "network-dp:latest",
    data: Data = None,
    allow_clipping: AllowClipping = False,
) -> None:
    """Provision, and write the file that a Docker Swarm or a Kubernetes cluster runs the users from."""
    name = write_stack(read_plan(plan_file), out, engine, image, data, allow_clipping=allow_clipping)
    start, stack = (
        ("kubectl apply -f", "") if engine is Engine.KUBERNETES else ("docker stack deploy -c", " network-dp")
    )
    say(f"{out / name} written; start it with: {start} {out / name}{stack}")


def write_stack(
    plan: Plan, out: Path, engine: Engine, image: str, data: Path | None, *, allow_clipping: bool = False
) -> str:
    """Bundles and the engine's file in OUT; returns the file's name."""
    from coordinator_free_launcher.engines.compose import container_plan
    from coordinator_free_launcher.engines.kubernetes import kubernetes_file, kubernetes_plan
    from coordinator_free_launcher.engines.stack import stack_file
    from coordinator_free_launcher.identity.bundle import data_folder
    from coordinator_free_launcher.identity.provision import provision
    from coordinator_free_launcher.local.demo_data import provision_demo

    placed = kubernetes_plan(plan) if engine is Engine.KUBERNETES else container_plan(plan)
    if data is None:
        provision_demo(placed, out)
    else:
        provision(placed, out, data_folder(placed, data), allow_clipping=allow_clipping, say=warn)
    render, name = {Engine.SWARM: (stack_file, "stack.yaml"), Engine.KUBERNETES: (kubernetes_file, "kubernetes.yaml")}[
        engine
    ]
    text = render(placed, out, image)
    (out / name).touch(mode=0o600)
    (out / name).write_text(text)
    return name


def health_command(bundle: Annotated[Path, typer.Argument(metavar="BUNDLE", help="Folder of one user.")]) -> None:
    """Is the user of this bundle serving? Ends with 0 (yes) or 1, for scripts and container engines."""
    from coordinator_free_launcher.health import check

    answer = check(bundle)
    typer.echo(answer)
    raise typer.Exit(0 if answer == "SERVING" else 1)
