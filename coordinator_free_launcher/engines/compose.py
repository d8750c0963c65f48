"""A Compose file for a plan: one container per user, one disk each, on a network without a way out.

The file is a text template, meant to be read: what a container may and may not do stands once, under ``x-user``.
Works with Compose v2 and with 1.29.2 (which knows neither ``name:`` nor secrets from the environment).
"""

from __future__ import annotations

import sys
from collections.abc import Iterable
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import Final, NamedTuple

from network_dp.plan import Plan, PlanError
from network_dp.plan_reader import load

PORT: Final = 7000
_SHARED: Final = "walk"  # the network of all, where all can connect to all
MOST_NETWORKS: Final = 24  # an engine has about 30 to give by itself
OWNER: Final = 65532  # the image's user, see docker/Dockerfile
RESERVED: Final = frozenset({"provision", "analyze", "vault", "public"})

_HEAD: Final = """\
# {users} users in {users} containers: {what}.
#
#   {command}
#
# provision makes keys and bundles once and ends; each user's node walks and ends; analyze prints the result, writes the
# report to ./out and ends with the verdict's exit code. `down` keeps the users' disks, `up` goes on
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
  entrypoint: [python, -m, coordinator_free_launcher.engines.container]
  # {shown}
  command: [{command_line}]
  networks: [walk]
  mem_limit: {memory}
  healthcheck: {{interval: {health_s}s}}
  stop_grace_period: 20s
  restart: "on-failure:5"
  depends_on:
    provision: {{condition: service_completed_successfully}}
{page_anchor}
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
    entrypoint: [python, -m, coordinator_free_launcher.engines.container_report]
    command: [/public, /views, /out]
    volumes:
      - {out}:/out
      - public:/public:ro
{analyze_volumes}
    depends_on:
{analyze_depends}

networks:
{networks}
{page_network}
volumes:
  vault:
  public:
{volumes}
"""

_NODE: Final = """\
  "{name}":
    <<: *user
{networks}    volumes: ["{name}:/bundle", "{name}-handover:/handover"{ledger}]
"""

#: The page of one user, from its disk alone: no key of it leaves, and it is on no network with a peer.
_PAGE_ANCHOR: Final = """
x-page: &page
  <<: *confined
  pull_policy: never
  networks: [pages]
  healthcheck: {disable: true}
  mem_limit: 256m
  depends_on:
    provision: {condition: service_completed_successfully}
"""

_PAGE: Final = """
  "{name}-page":
    <<: *page
    command: [watch, /bundle, --host, 0.0.0.0, --port, "{port}"]
    ports: ["127.0.0.1:{port}:{port}"]
    volumes: ["{name}:/bundle:ro"]
"""

_GENERATED: Final = """
#
# Written from plan.toml by: python -m coordinator_free_launcher.engines.compose docker"""

_BUILD: Final = """\
    build:
      context: ..
      dockerfile: docker/Dockerfile
"""


def container_plan(plan: Plan) -> Plan:
    """The plan with every user at its container: reached by its service name, listening everywhere inside."""
    taken = RESERVED.union(f"{name}-{other}" for name in plan.names for other in ("handover", "ledger", "page"))
    for name in plan.names:
        if name in taken:
            raise PlanError(f'users: "{name}" is the name of another container or disk of this file; rename the user')
    users = (replace(user, address=f"{user.name}:{PORT}", bind=f"0.0.0.0:{PORT}") for user in plan.users)
    return replace(plan, users=tuple(users))


class _Source(NamedTuple):
    """What of the file depends on where the users' data come from."""

    shown: str
    handover: str
    option: str
    volume: str = ""
    ledger: str = ""  # what a user has spent outlives the run, on a disk of its own: made-up data have nothing to spend
    ledger_volume: str = ""


_MADE_UP: Final = _Source(
    shown="Made-up data: whole views are handed over, so that the analyzer can recompute every step.",
    handover="/bundle, --handover, /handover, --with-values",
    option="--demo-data",
)


def _from_folder(data: str, allow_clipping: bool) -> _Source:
    return _Source(
        shown="Handed over to the analyzer: steps, neighbours and tags, no values.",
        handover="/bundle, --handover, /handover",
        option="--data, /data" + ", --allow-clipping" * allow_clipping + ", --ledgers, /ledger",
        volume=f"      - {data}:/data:ro\n",
        ledger=', "{name}-ledger:/ledger"',
        ledger_volume='\n  "{name}-ledger":',
    )


def compose_file(
    plan: Plan,
    *,
    build: bool = False,
    data: str | None = None,
    memory: str = "256m",
    allow_clipping: bool = False,
    pages_from: int | None = None,
) -> str:
    """Text of compose.yaml, to lie beside plan.toml.

    ``build``: the image is built from the repository one folder up. ``data``: folder with one data file per user;
    without it the provisioner makes data up. The report goes to ./out, or to ${OUT}. ``pages_from``: serve each user's
    page on this machine, at this port and those that follow.
    """
    source = _MADE_UP if data is None else _from_folder(data, allow_clipping)
    names, joined = plan.names, _networks(plan)
    nodes = [
        _NODE.format(name=name, ledger=source.ledger.format(name=name), networks=_joined(networks))
        for name, networks in zip(names, joined, strict=True)
    ]
    pages = [] if pages_from is None else [_PAGE.format(name=n, port=p) for p, n in enumerate(names, start=pages_from)]
    return _HEAD.format(
        users=plan.n,
        what=f"{plan.task.kind}, {plan.topology.length} on {plan.topology.title}",
        command="docker compose -f docker/compose.yaml up" if build else "docker compose up",
        generated=_GENERATED if build else "",
        shown=source.shown,
        command_line=source.handover,
        memory=memory,
        # One check costs half a second of a core: all of them together may cost a quarter of one.
        health_s=max(10, 2 * plan.n),
        build=_BUILD if build else "    pull_policy: never\n",
        data=source.option,
        data_volume=source.volume,
        owner=OWNER,
        provision_volumes=_lines(f'      - "{name}:/deliver/users/{name}"' for name in names),
        page_anchor=_PAGE_ANCHOR if pages else "",
        page_network="  pages:\n" if pages else "",
        networks=_lines(f"  {network}:\n    internal: true" for network in dict.fromkeys(chain.from_iterable(joined))),
        nodes=_lines([*nodes, *pages]).rstrip(),
        out=f"${{OUT:-{'../out' if build else './out'}}}",
        analyze_volumes=_lines(f'      - "{name}-handover:/views/{name}:ro"' for name in names),
        analyze_depends=_lines(f'      "{name}": {{condition: service_completed_successfully}}' for name in names),
        volumes=_lines(f'  "{name}":\n  "{name}-handover":{source.ledger_volume.format(name=name)}' for name in names),
    )


def _networks(plan: Plan) -> list[list[str]]:
    """Per user: the networks of its container. Where peers relay, one per edge: nobody else can even be reached."""
    edges = sum(len(user.peers or ()) for user in plan.users) // 2
    if plan.walk.control != "relay" or edges > MOST_NETWORKS:
        return [[_SHARED]] * plan.n
    pairs = [[sorted((plan.index(user.name), plan.index(peer))) for peer in user.peers or ()] for user in plan.users]
    return [[f"edge-{a}-{b}" for a, b in mine] for mine in pairs]


def _joined(networks: list[str]) -> str:
    return "" if networks == [_SHARED] else f"    networks: [{', '.join(networks)}]\n"


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
