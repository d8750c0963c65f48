"""Strict reading and writing of plans (TOML text in, checked values out).

Every refusal names the key, the value found and what is allowed, so that a user can fix it without reading code.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping, Sized
from dataclasses import fields, replace
from ipaddress import IPv4Address
from pathlib import Path
from typing import Any, Literal

from network_dp.mechanism import MECHANISMS
from network_dp.plan import (
    LEASE_USERS,
    PRESETS,
    SCHEMA,
    Caps,
    CustomTask,
    HistogramTask,
    ModelTask,
    Noise,
    Plan,
    PlanError,
    Rounds,
    SgdTask,
    SumTask,
    TaskSpec,
    Timing,
    User,
    Walk,
    as_dict,
)
from network_dp.plan_graph import check_graph, check_peers, least_alive_on
from network_dp.plan_rounds import ATTEMPTS, check_rounds, least_alive
from network_dp.plan_table import PlanTable, Record
from network_dp.task_spec import usual_step
from network_dp.topology import TOPOLOGIES, TopologyKind
from network_dp.untrusted import FormatError, read_text, toml

NAME = re.compile(r"[a-z0-9][a-z0-9-]{0,62}")
ADDRESS = re.compile(r"[^\s:\[\]/]+:[0-9]{1,5}|\[[0-9a-fA-F:.]+\]:[0-9]{1,5}")
ADDRESS_ALLOWED = 'must be "HOST:PORT" with a port from 1 to 65535'
HEX_32 = re.compile(r"[0-9a-f]{64}")
FACTORY = re.compile(r"[A-Za-z_][\w.]*:[A-Za-z_]\w*")
ROWS = ("average", "per_visit")
MAX_USERS = 100_000
MAX_REISSUES = 1000
MAX_WAIT_S = 86400.0
MAX_DIMENSION = 1 << 23  # 64 MiB of 8-byte numbers
MAX_NAMED = 100_000  # columns, categories and ranges that a plan may name
HANDOVER_LEAST_S = 0.2  # four times as long as users take, at most, to tell that a token was taken


def _keys(kind: type) -> str:
    return ", ".join(f.name for f in fields(kind))


def is_address(text: str) -> bool:
    """HOST:PORT, an IPv6 address in brackets; a host of digits and dots alone must be an IPv4 address."""
    if not ADDRESS.fullmatch(text):
        return False
    host, port = text.rsplit(":", 1)
    digits = host.replace(".", "").isdigit()
    return 1 <= int(port) <= 65535 and (not digits or _is_ipv4(host))


def _is_ipv4(host: str) -> bool:
    try:
        return bool(IPv4Address(host))
    except ValueError:
        return False


def _address(table: PlanTable, key: str, default: Any = ...) -> Any:
    value = table.text(key, None, ADDRESS_ALLOWED, default)
    if value is not default and not is_address(value):
        raise table.fail(key, value, ADDRESS_ALLOWED)
    return value


def _place(address: str) -> tuple[str, int]:
    """The same for all spellings of one address."""
    host, port = address.rsplit(":", 1)
    return host.lower(), int(port)


def _users(top: PlanTable) -> tuple[User, ...]:
    users, seen_names, seen_addresses = [], set[str](), dict[tuple[str, int], str]()
    seen_keys = set[str | None]()
    for table in top.tables("users"):
        user = User(
            name=table.text("name", NAME, "must be lower-case letters, digits and dashes, at most 63"),
            address=_address(table, "address"),
            bind=_address(table, "bind", None),
            data=table.text("data", None, "must be a path", None),
            key=table.text("key", HEX_32, "must be 64 hex digits (SHA-256)", None),
            round_key=table.text("round_key", HEX_32, "must be 64 hex digits (X25519)", None),
            peers=table.texts("peers", 1, MAX_USERS),
        )
        table.close(_keys(User))
        for name, key in (("key", user.key), ("round_key", user.round_key)):
            if key is not None and key in seen_keys:
                raise table.fail(name, key, "is also the key of another user: keys must differ")
            seen_keys.add(key)
        if user.name in seen_names:
            raise table.fail("name", user.name, "is taken by another user: names must differ")
        place = _place(user.address)
        if place in seen_addresses:
            raise table.fail(
                "address", user.address, f"is also the address of {seen_addresses[place]}: addresses must differ"
            )
        seen_names.add(user.name)
        seen_addresses[place] = user.name
        users.append(user)
    if not 2 <= len(users) <= MAX_USERS:
        raise PlanError(f"users: {len(users)} given; a run needs from 2 to {MAX_USERS:,} users")
    return tuple(users)


def _walk(table: PlanTable, users: tuple[User, ...]) -> Walk:
    topology: TopologyKind = table.choice("topology", tuple(TOPOLOGIES))
    kind, n = TOPOLOGIES[topology], len(users)
    if n < kind.least_users:
        raise PlanError(
            f'walk.topology = "{topology}": {kind.title} needs at least {kind.least_users} users, the plan has {n}'
        )
    ring = kind.length_key == "rounds"
    other = "steps" if ring else "rounds"
    if table.has(other):
        raise PlanError(f'walk.{other}: a walk with topology "{topology}" takes {kind.length_key} instead')
    check_peers(kind, users)
    if not kind.listed and (table.has("weights") or table.has("control")):
        raise PlanError('walk.weights, walk.control: only a walk with topology "graph" has them')
    protocol: Literal["walk", "masked_sum"] = table.choice("protocol", ("walk", "masked_sum"), "walk")
    one_round = protocol == "masked_sum"
    names = [user.name for user in users]
    starter = table.text("starter", None, "must be the name of a user", names[0])
    if starter not in names:
        raise table.fail("starter", starter, "must be the name of a user of this plan")
    walk = Walk(
        topology=topology,
        rounds=table.whole("rounds", 1, kind.longest) if ring else None,
        steps=None if ring else table.whole("steps", 1, kind.longest, 1 if one_round else ...),
        starter=starter,
        release=table.choice("release", ("all", "holder"), "all"),
        min_live=table.whole("min_live", kind.least_users, n, 0),  # 0: see ``_with_least_alive``
        durability=table.choice("durability", ("machine", "process"), "machine"),
        log_values=table.flag("log_values", True),
        path=table.choice("path", ("known", "hidden"), "known"),
        protocol=protocol,
        weights=table.choice("weights", ("metropolis", "simple"), "metropolis") if kind.listed else None,
        control=table.choice("control", ("direct", "relay"), "relay") if kind.listed else None,
    )
    table.close(_keys(Walk))
    return walk


def _with_least_alive(walk: Walk, noise: Noise, rounds: Rounds | None, n: int) -> Walk:
    """The default of ``min_live``: where users hide each other the noise is sized for nine in ten of them; a ring's
    full noises hide as well among three."""
    if walk.min_live:
        return walk
    if rounds is not None:
        return replace(walk, min_live=least_alive(n, rounds))
    topology = TOPOLOGIES[walk.topology]
    if topology.listed:
        return replace(walk, min_live=least_alive_on(n))
    alike = not topology.drawn and MECHANISMS[noise.mechanism].additive
    least = topology.least_users
    return replace(walk, min_live=least if alike else max(least, n - max(1, n // 10)))


def _rounds(top: PlanTable, walk: Walk) -> Rounds | None:
    """The table of anonymous rounds, where the plan has them."""
    if not walk.anonymous:
        if top.has("rounds"):
            raise PlanError('rounds: only a plan with walk.path = "hidden" or a masked sum has anonymous rounds')
        return None
    table = top.table("rounds")
    rounds = Rounds(
        colluders=table.whole("colluders", 1, MAX_USERS, 1),
        beat_ms=table.real("beat_ms", 20.0, above=0.0, most=60_000.0),
        known_steps=table.whole("known_steps", 0, 1_000_000, 0),
        attempts=table.whole("attempts", 1, 1000, ATTEMPTS),
    )
    table.close(_keys(Rounds))
    return rounds


def _task(table: PlanTable, walk: Walk, n: int) -> TaskSpec:
    kind = table.choice("kind", ("sum", "mean", "histogram", "sgd", "model", "custom"))
    task: TaskSpec
    match kind:
        case "sum" | "mean":
            columns = table.texts("columns", 1, MAX_NAMED)
            task = SumTask(
                kind=kind,
                columns=columns,
                dimension=_count(table, "dimension", 1, columns, "task.columns", 1),
                lower=table.real("lower", 0.0),
                upper=table.real("upper", 1.0),
                norm=table.real("norm", None, above=0.0),
                rows=table.choice("rows", ROWS, "average"),
            )
            if task.lower >= task.upper:
                raise table.fail("lower", task.lower, f"must be below upper = {task.upper:g}")
        case "histogram":
            task = _histogram(table)
        case "sgd":
            steps = walk.steps or (walk.rounds or 1) * n
            task = _sgd(table, steps, contracts=walk.path == "known")
        case "model":
            task = ModelTask(
                kind="model",
                factory=table.text("factory", FACTORY, 'must be "module:callable"'),
                dimension=table.whole("dimension", 1, MAX_DIMENSION),
                clip=table.real("clip", above=0.0),
                step_size=table.real("step_size", above=0.0),
                options=table.scalars("options"),
            )
        case _:
            task = CustomTask(
                kind="custom",
                factory=table.text("factory", FACTORY, 'must be "module:callable"'),
                dimension=table.whole("dimension", 1, MAX_DIMENSION, 1),
                sensitivity=table.real("sensitivity", above=0.0),
                options=table.scalars("options"),
            )
    table.close(_keys(type(task)))
    return task


def _count(table: PlanTable, key: str, least: int, named: Sized | None, by: str, default: Any = ...) -> int:
    """A number that must be the length of the list ``by`` where the plan has that list, and then need not be given."""
    count: int = table.whole(key, least, MAX_DIMENSION, default if named is None else len(named))
    if named is not None and count != len(named):
        raise table.fail(key, count, f"{by} names {len(named)}: leave {key} out, or make them agree")
    return count


def _histogram(table: PlanTable) -> HistogramTask:
    categories, edges = table.texts("categories", 2, MAX_NAMED), table.rising("edges", 3, MAX_NAMED)
    if categories is not None and edges is not None:
        raise PlanError("task.edges: a histogram has categories or edges, not both")
    by = "task.categories" if edges is None else "task.edges"
    return HistogramTask(
        kind="histogram",
        buckets=_count(table, "buckets", 2, categories if edges is None else edges[1:], by),
        rows=table.choice("rows", ROWS, "average"),
        columns=table.texts("columns", 1, 1),
        categories=categories,
        edges=edges,
    )


def _sgd(table: PlanTable, steps: int, *, contracts: bool) -> SgdTask:
    columns = table.texts("columns", 1, MAX_NAMED)
    task = SgdTask(
        kind="sgd",
        columns=columns,
        label=table.text("label", None, "must be the name of a column", None),
        labels=table.texts("labels", 2, 2),
        loss=table.choice("loss", ("logistic", "ridge", "smoothed_hinge"), "logistic"),
        features=_count(table, "features", 1, columns, "task.columns"),
        intercept=table.flag("intercept", True),
        step_size=table.real("step_size", 0.0, above=0.0),
        schedule=table.choice("schedule", ("constant", "inverse_sqrt"), "constant"),
        radius=table.real("radius", None, above=0.0),
        label_bound=table.real("label_bound", 1.0, above=0.0),
        smoothing=table.real("smoothing", 0.5, above=0.0),
    )
    task = replace(task, ranges=table.ranges("ranges", task.features))
    if task.step_size == 0.0:
        task = replace(task, step_size=usual_step(task.smoothness, steps))
    if (task.columns is None) != (task.label is None):
        raise PlanError("task.columns and task.label: name both the features and the label, or neither")
    if task.label is not None and task.label in (task.columns or ()):
        raise table.fail("label", task.label, "is also a feature in task.columns: name another column")
    if task.loss == "ridge" and task.labels is not None:
        raise PlanError("task.labels: the ridge loss predicts a number; take labels out")
    if task.loss == "ridge" and task.radius is None:
        raise PlanError("task.radius is missing: the ridge loss is Lipschitz only on a ball, give its radius")
    limit = 2.0 / task.smoothness
    if contracts and task.step_size > limit:
        raise table.fail(
            "step_size", task.step_size, f"must be at most 2/beta = {limit:g} for the {task.loss} loss (contraction)"
        )
    return task


def _noise(table: PlanTable, walk: Walk, task: TaskSpec, n_users: int) -> Noise:
    drawn = TOPOLOGIES[walk.topology].drawn
    mechanisms = task.mechanisms(drawn)
    if walk.anonymous or TOPOLOGIES[walk.topology].listed:  # there Gaussian noise is the usual
        mechanisms = tuple(sorted(mechanisms, key=lambda kind: not MECHANISMS[kind].by_exposure))
    mechanism = table.choice("mechanism", mechanisms, mechanisms[0])
    size_key = MECHANISMS[mechanism].size_key
    for key in (other.size_key for other in MECHANISMS.values()):
        if key != size_key and table.has(key):
            raise PlanError(f'noise.{key}: mechanism "{mechanism}" takes {size_key} instead')
    noise = Noise(
        mechanism=mechanism,
        sigma=table.real("sigma", None, above=0.0),
        scale=table.real("scale", None, above=0.0),
        gamma=table.real("gamma", None, above=0.0, most=1.0 - 2.0**-20),
        epsilon=table.real("epsilon", None, above=0.0, most=1000.0),
        delta=table.real("delta", 1e-6, above=0.0, most=0.1),
        against=table.choice("against", ("network", "local"), "network"),
        spread=table.flag("spread", False),
        grid=table.real("grid", None, above=0.0),
        reissues=table.whole("reissues", 0, MAX_REISSUES, -1),
        distance=_distance(table, walk, n_users),
    )
    noise = replace(noise, reissues=_reissues(table, walk, noise))
    if noise.spread and (drawn or not MECHANISMS[mechanism].by_exposure or not task.additive):
        raise PlanError("noise.spread = true: only Gaussian sums on a ring spread their noise over the users")
    if not noise.calibrated and noise.epsilon is None:
        raise PlanError(f"noise.{size_key} is missing: give it, or give noise.epsilon and noise.delta as a target")
    if noise.grid is not None and math.frexp(noise.grid)[0] != 0.5:
        raise table.fail("grid", noise.grid, "must be a power of two")
    table.close(_keys(Noise))
    return noise


def _distance(table: PlanTable, walk: Walk, n_users: int) -> int | None:
    if TOPOLOGIES[walk.topology].listed:
        return int(table.whole("distance", 1, n_users - 1, 1))
    if table.has("distance"):
        raise PlanError('noise.distance: only a walk with topology "graph" tells near users from far ones')
    return None


def _reissues(table: PlanTable, walk: Walk, noise: Noise) -> int:
    """On a ring a token taken up again costs at most one contribution more, and one is reserved. Where other users'
    answers or steps amplify privacy it would cost all of that: nothing is reserved (docs/adr/0019)."""
    drawn, additive = TOPOLOGIES[walk.topology].drawn, MECHANISMS[noise.mechanism].additive
    amplified = drawn or (not additive and noise.against == "network")
    if drawn and noise.reissues > 0:
        raise table.fail(
            "reissues",
            noise.reissues,
            "must be 0 on the complete graph and among peers: their promise is without re-issues",
        )
    return (0 if amplified else 1) if noise.reissues < 0 else noise.reissues


def _caps(table: PlanTable) -> Caps:
    caps = Caps(
        contributions=table.whole("contributions", 1, 10**9, None),
        edge=table.whole("edge", 1, 10**9, None),
        past=table.choice("past", ("noise", "forward"), "noise"),
    )
    table.close(_keys(Caps))
    return caps


def _timing(table: PlanTable, n_users: int) -> Timing:
    base = PRESETS[table.choice("preset", tuple(PRESETS), "local")]
    base = replace(base, lease_s=min(base.lease_s * max(1.0, n_users / LEASE_USERS), MAX_WAIT_S))
    timing = Timing(
        **{f.name: table.real(f.name, getattr(base, f.name), above=0.0, most=MAX_WAIT_S) for f in fields(Timing)}
    )
    if timing.retry_base_s > timing.retry_max_s:
        raise table.fail("retry_base_s", timing.retry_base_s, f"must be at most retry_max_s = {timing.retry_max_s:g}")
    for name in ("handoff_timeout_s", "grant_ttl_s"):
        if getattr(timing, name) < HANDOVER_LEAST_S:
            text = f"must be at least {HANDOVER_LEAST_S:g}: that a token was taken may be told a moment later"
            raise table.fail(name, getattr(timing, name), text)
    table.close("preset, " + _keys(Timing))
    return timing


def _check_together(plan: Plan) -> None:
    """Combinations that are each fine alone."""
    check_rounds(plan)
    check_graph(plan)
    ring = not plan.topology.drawn
    if plan.caps.past == "forward" and (plan.noise.against == "network" or ring):
        raise PlanError(
            'caps.past = "forward": others rely on the noise of capped users (docs/THEORY.md#cover-for-others); '
            'use "noise", or noise.against = "local" on the complete graph'
        )
    if plan.mechanism.pure and plan.task.dimension > 1:
        raise PlanError(f"task.dimension = {plan.task.dimension}: Laplace noise is for single numbers; use Gaussian")
    if plan.caps.edge is not None and ring:
        raise PlanError("caps.edge: on a ring the next user is fixed; use caps.contributions")
    if ring and not plan.task.additive and plan.noise.against == "network" and plan.noise.epsilon is not None:
        raise PlanError('noise.against = "network": SGD on a ring has no amplification; use "local"')


def parse(text: str) -> Plan:
    """A checked plan from TOML text, or ``PlanError``."""
    try:
        values = toml(text)
    except FormatError as error:
        raise PlanError(str(error)) from None
    return from_dict(values)


def load(path: Path) -> Plan:
    """The plan in a file, or ``PlanError``; ``OSError`` as `open` raises it."""
    try:
        values = toml(read_text(path))
    except FormatError as error:
        raise PlanError(f"{path}: {error}") from None
    return from_dict(values)


def from_dict(values: Mapping[str, Any], record: Record | None = None) -> Plan:
    """A checked plan from plain values (the same keys as in the file); ``record`` is told of every key asked for."""
    top = PlanTable(values, "", record)
    top.whole("schema", SCHEMA, SCHEMA, SCHEMA)
    users = _users(top)
    walk = _walk(top.table("walk", required=True), users)
    rounds = _rounds(top, walk)
    task = _task(top.table("task", required=True), walk, len(users))
    noise = _noise(top.table("noise", required=True), walk, task, len(users))
    plan = Plan(
        name=top.text("name", NAME, "must be lower-case letters, digits and dashes, at most 63", "run"),
        run_number=top.whole("run_number", 0, 10**9, 1),
        walk=_with_least_alive(walk, noise, rounds, len(users)),
        task=task,
        noise=noise,
        caps=_caps(top.table("caps")),
        timing=_timing(top.table("timing"), len(users)),
        users=users,
        insecure_seed=top.whole("insecure_seed", 0, 2**63 - 1, None),
        rounds=rounds,
    )
    top.close("schema, " + _keys(Plan))
    _check_together(plan)
    return plan


def _value(value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        return repr(value)
    if isinstance(value, dict):
        return "{ " + ", ".join(f"{_value(key)} = {_value(item)}" for key, item in value.items()) + " }"
    # A JSON string is a TOML string, but for surrogate pairs (so: no escapes beyond ASCII) and DEL.
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")


def dump(plan: Plan) -> str:
    """TOML text that ``parse`` reads back to an equal plan."""
    values = as_dict(plan)
    users = values.pop("users")
    lines = [f"{key} = {_value(value)}" for key, value in values.items() if not isinstance(value, dict)]
    for name, table in values.items():
        if isinstance(table, dict):
            lines += ["", f"[{name}]"] + [f"{key} = {_value(item)}" for key, item in table.items()]
    for user in users:
        lines += ["", "[[users]]"] + [f"{key} = {_value(item)}" for key, item in user.items()]
    return "\n".join(lines) + "\n"
