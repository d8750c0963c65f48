"""View logs of schedules of the fault simulator, as the launcher leaves those of a run."""

from __future__ import annotations

from pathlib import Path

from benchmarks.generated_logs import save_logs
from network_dp import view
from network_dp.plan_reader import dump
from simulator.faults.schedule import draw
from simulator.faults.world import World


def write_disaster(folder: Path, seed: int) -> None:
    """One schedule, every line as its user wrote it, once."""
    world = World(draw(seed))
    world.run()
    plan = world.cast.scenario.plan
    head = {"schema": view.SCHEMA, "run": plan.run_id, "plan": plan.hash, "values": True, "insecure": False}
    logs = {
        name: list(dict.fromkeys([view.encode("header", user=name, **head), *process.log]))
        for name, process in zip(plan.names, world.users, strict=True)
    }
    save_logs(folder, dump(plan), logs)
