"""A Compose file for a plan: one container a user, one disk each, on a network without a way out.

The file is a text template, meant to be read: what a container may and may not do stands once, under ``x-user``.
Works with Compose v2 and with 1.29.2 (which knows neither ``name:`` nor secrets from the environment).
"""

from __future__ import annotations

import sys
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Final

from network_dp.plan import Plan, PlanError
from network_dp.plan_reader import load

PORT: Final = 7000
OWNER: Final = 65532  # the image's user, see docker/Dockerfile
RESERVED: Final = frozenset({"provision", "analyze", "vault", "public"})

_HEAD: Final = """\
# {users} users in {users} containers: {what}.
#
#   {command}
#
# provision makes keys and bundles once and ends; each user's node walks and ends; analyze prints the result, writes the
# report to {report} and ends with the verdict's exit code. `down` keeps the users' disks, `up` goes on
# where they stopped, `down -v` forgets everything.{generated}

x-confined: &confined
  image: ${{NETWORK_DP_IMAGE:-network-dp:latest}}
  init: true
  read_only: true
  tmpfs: [/tmp]
  cap_drop: [ALL]
  security_opt: ["no-new-privileges:true"]
  pids_limit: 64

x-user: &user
  <<: *confined
  pull_policy: never
  entrypoint: [python, -m, coordinator_free_launcher.container]
  # {shown}
  command: [{command_line}]
  networks: [walk]
  mem_limit: {memory}
  healthcheck: {{interval: {health_s}s}}
  stop_grace_period: 20s
  restart: "on-failure:5"
  depends_on:
    provision: {{condition: service_completed_successfully}}

services:
  provision:
    <<: *confined
{build}    # Root, to hand each disk to its user; without a network, and gone before the walk begins.
    user: "0:0"
    cap_add: [CHOWN, DAC_OVERRIDE, FOWNER]
    network_mode: none
    healthcheck: {{disable: true}}
    command: [provision, /plan.toml, --out, /vault/run, --if-needed, {data}, --deliver, /deliver, --owner, "{owner}"]
    volumes:
      - ./plan.toml:/plan.toml:ro
{data_volume}      - vault:/vault
      - public:/deliver/public
{provision_volumes}

{nodes}

  analyze:
    <<: *confined
    pull_policy: never
    # Root, to write to a folder of yours; sees what the users handed over, and nothing else of them.
    user: "0:0"
    cap_add: [DAC_OVERRIDE]
    network_mode: none
    healthcheck: {{disable: true}}
    mem_limit: 1g
    entrypoint: [python, -m, coordinator_free_launcher.container_report]
    command: [/public, /views, /out]
    volumes:
      - {out}:/out
      - public:/public:ro
{analyze_volumes}
    depends_on:
{analyze_depends}

networks:
  walk:
    internal: true

volumes:
  vault:
  public:
{volumes}
"""

_NODE: Final = """\
  "{name}":
    <<: *user
    volumes: ["{name}:/bundle", "{name}-handover:/handover"]
"""

_BUILD: Final = """\
    build:
      context: ..
      dockerfile: docker/Dockerfile
"""


def container_plan(plan: Plan) -> Plan:
    """The plan with every user at its container: reached by its service name, listening everywhere inside."""
    taken = RESERVED.union(f"{name}-handover" for name in plan.names)
    for name in plan.names:
        if name in taken:
            raise PlanError(f'users: "{name}" is the name of another container or disk of this file; rename the user')
    users = (replace(user, address=f"{user.name}:{PORT}", bind=f"0.0.0.0:{PORT}") for user in plan.users)
    return replace(plan, users=tuple(users))


def compose_file(
    plan: Plan, *, build: bool = False, data: str | None = None, memory: str = "256m", allow_clipping: bool = False
) -> str:
    """Text of compose.yaml, to lie beside plan.toml.

    ``build``: the image is built from the repository one folder up. ``data``: folder with one data file per user;
    without it the provisioner makes data up. The report goes to ./out, or to ${OUT}.
    """
    out = "../out" if build else "./out"
    walk = f"{plan.topology.length} on {plan.topology.title}"
    names = plan.names
    where = "docker compose -f docker/compose.yaml up" if build else "docker compose up"
    return _HEAD.format(
        users=plan.n,
        what=f"{plan.task.kind}, {walk}",
        command=where,
        generated=""
        if not build
        else "\n#\n# Written from plan.toml by: python -m coordinator_free_launcher.compose docker",
        shown=(
            "Made-up data: whole views are handed over, so that the analyzer can recompute every step."
            if data is None
            else "Handed over to the analyzer: steps, neighbours and tags, no values."
        ),
        command_line="/bundle, --handover, /handover" + (", --with-values" if data is None else ""),
        memory=memory,
        # One check costs half a second of a core: all of them together may cost a quarter of one.
        health_s=max(10, 2 * plan.n),
        build=_BUILD if build else "    pull_policy: never\n",
        data="--demo-data" if data is None else "--data, /data" + ", --allow-clipping" * allow_clipping,
        data_volume="" if data is None else f"      - {data}:/data:ro\n",
        owner=OWNER,
        provision_volumes=_lines(f'      - "{name}:/deliver/users/{name}"' for name in names),
        nodes="\n".join(_NODE.format(name=name) for name in names).rstrip(),
        out=f"${{OUT:-{out}}}",
        report="./out",
        analyze_volumes=_lines(f'      - "{name}-handover:/views/{name}:ro"' for name in names),
        analyze_depends=_lines(f'      "{name}": {{condition: service_completed_successfully}}' for name in names),
        volumes=_lines(f'  "{name}":\n  "{name}-handover":' for name in names),
    )


def _lines(lines: Iterable[str]) -> str:
    return "\n".join(lines)


def main(folder: Path) -> None:
    """Write FOLDER/compose.yaml, which builds its own image, from FOLDER/plan.toml: the demo of this repository."""
    plan = load(folder / "plan.toml")
    if container_plan(plan) != plan:
        raise PlanError(f'{folder / "plan.toml"}: addresses must be "NAME:{PORT}", bind "0.0.0.0:{PORT}"')
    (folder / "compose.yaml").write_text(compose_file(plan, build=True))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
