"""Strict reading and writing of plans (TOML text in, checked values out).

Every refusal names the key, the value found and what is allowed, so that a user can fix it without reading code.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from dataclasses import fields, replace
from pathlib import Path
from typing import Any, Literal, TypeVar

from network_dp.plan import (
    PRESETS,
    SCHEMA,
    Caps,
    CustomTask,
    HistogramTask,
    Noise,
    Plan,
    PlanError,
    SgdTask,
    SumTask,
    TaskSpec,
    Timing,
    User,
    Walk,
    as_dict,
)
from network_dp.untrusted import FormatError, read_text, shortened, toml

NAME = re.compile(r"[a-z0-9][a-z0-9-]{0,62}")
ADDRESS = re.compile(r"[^\s:\[\]/]+:[0-9]{1,5}|\[[0-9a-fA-F:.]+\]:[0-9]{1,5}")
ADDRESS_ALLOWED = 'must be "HOST:PORT" with a port from 1 to 65535'
FACTORY = re.compile(r"[A-Za-z_][\w.]*:[A-Za-z_]\w*")
ROWS = ("average", "per_visit")
MAX_USERS = 100_000
MAX_REISSUES = 1000
MAX_DIMENSION = 1 << 23  # 64 MiB of 8-byte numbers
HANDOVER_LEAST_S = 0.2  # four times as long as users take, at most, to tell that a token was taken

T = TypeVar("T")


class _Table:
    """One table of the file: typed reads that consume keys, then a complaint about what is left."""

    def __init__(self, values: Mapping[str, Any], where: str) -> None:
        self._left = dict(values)
        self._where = where

    def path(self, key: str) -> str:
        return f"{self._where}.{key}" if self._where else key

    def fail(self, key: str, value: object, allowed: str) -> PlanError:
        return PlanError(f"{self.path(key)} = {shortened(json.dumps(value, default=str))}: {allowed}")

    def has(self, key: str) -> bool:
        return key in self._left

    def _take(self, key: str, kinds: tuple[type, ...], allowed: str, default: object) -> Any:
        if key not in self._left:
            if default is ...:
                raise PlanError(f"{self.path(key)} is missing: {allowed}")
            return default
        value = self._left.pop(key)
        if not isinstance(value, kinds) or (isinstance(value, bool) and bool not in kinds):
            raise self.fail(key, value, allowed)
        return value

    def whole(self, key: str, low: int, high: int, default: Any = ...) -> Any:
        allowed = f"must be a whole number from {low:,} to {high:,}"
        value = self._take(key, (int,), allowed, default)
        if value is not default and not low <= value <= high:
            raise self.fail(key, value, allowed)
        return value

    def real(self, key: str, default: Any = ..., *, above: float | None = None, most: float | None = None) -> Any:
        limits = [f"above {above:g}" if above is not None else "", f"at most {most:g}" if most is not None else ""]
        allowed = "must be a finite number " + " and ".join(part for part in limits if part)
        value = self._take(key, (int, float), allowed.strip(), default)
        if value is default:
            return value
        try:
            number = float(value)
        except OverflowError:
            number = math.inf
        too_low = above is not None and number <= above
        if not math.isfinite(number) or too_low or (most is not None and number > most):
            raise self.fail(key, value, allowed.strip())
        return number

    def flag(self, key: str, default: bool) -> bool:
        return bool(self._take(key, (bool,), "must be true or false", default))

    def text(self, key: str, pattern: re.Pattern[str] | None, allowed: str, default: Any = ...) -> Any:
        value = self._take(key, (str,), allowed, default)
        if value is not default and pattern is not None and not pattern.fullmatch(value):
            raise self.fail(key, value, allowed)
        return value

    def choice(self, key: str, options: tuple[str, ...], default: Any = ...) -> Any:
        allowed = "must be one of " + ", ".join(f'"{option}"' for option in options)
        value = self._take(key, (str,), allowed, default)
        if value not in options:
            raise self.fail(key, value, allowed)
        return value

    def table(self, key: str, *, required: bool = False) -> _Table:
        value = self._take(key, (dict,), f"must be a table [{key}]", ... if required else {})
        return _Table(value, self.path(key))

    def tables(self, key: str) -> list[_Table]:
        value = self._take(key, (list,), f"must be a list of tables [[{key}]]", ...)
        if not all(isinstance(item, dict) for item in value):
            raise self.fail(key, "...", f"must be a list of tables [[{key}]]")
        return [_Table(item, f"{self.path(key)}[{i}]") for i, item in enumerate(value)]

    def scalars(self, key: str) -> dict[str, str | int | float | bool]:
        value = self._take(key, (dict,), "must be a table of plain values", {})
        for name, item in value.items():
            if not isinstance(item, str | int | float | bool):
                raise self.fail(f"{key}.{name}", item, "must be a text, number, true or false")
            if isinstance(item, float) and not math.isfinite(item):
                raise self.fail(f"{key}.{name}", item, "must be finite")
        return dict(value)

    def close(self, known: str) -> None:
        if self._left:
            key = sorted(self._left)[0]
            raise PlanError(f"{self.path(shortened(key))} is not a key of a plan: allowed here are {known}")


def _keys(kind: type) -> str:
    return ", ".join(f.name for f in fields(kind))


def is_address(text: str) -> bool:
    """HOST:PORT, an IPv6 address in brackets."""
    return bool(ADDRESS.fullmatch(text)) and 1 <= int(text.rsplit(":", 1)[1]) <= 65535


def _address(table: _Table, key: str, default: Any = ...) -> Any:
    value = table.text(key, None, ADDRESS_ALLOWED, default)
    if value is not default and not is_address(value):
        raise table.fail(key, value, ADDRESS_ALLOWED)
    return value


def _place(address: str) -> tuple[str, int]:
    """The same for all spellings of one address."""
    host, port = address.rsplit(":", 1)
    return host.lower(), int(port)


def _users(top: _Table) -> tuple[User, ...]:
    users, seen_names, seen_addresses = [], set[str](), dict[tuple[str, int], str]()
    seen_keys = set[str | None]()
    for table in top.tables("users"):
        user = User(
            name=table.text("name", NAME, "must be lower-case letters, digits and dashes, at most 63"),
            address=_address(table, "address"),
            bind=_address(table, "bind", None),
            data=table.text("data", None, "must be a path", None),
            key=table.text("key", re.compile(r"[0-9a-f]{64}"), "must be 64 hex digits (SHA-256)", None),
        )
        table.close(_keys(User))
        if user.key is not None and user.key in seen_keys:
            raise table.fail("key", user.key, "is also the key of another user: keys must differ")
        seen_keys.add(user.key)
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


def _walk(table: _Table, users: tuple[User, ...]) -> Walk:
    topology: Literal["ring", "complete"] = table.choice("topology", ("ring", "complete"))
    n = len(users)
    ring = topology == "ring"
    if ring and n < 3:
        raise PlanError(f'walk.topology = "ring": a ring needs at least 3 users, the plan has {n}')
    other = "steps" if ring else "rounds"
    if table.has(other):
        right = "rounds" if ring else "steps"
        raise PlanError(f'walk.{other}: a walk with topology "{topology}" takes {right} instead')
    names = [user.name for user in users]
    starter = table.text("starter", None, "must be the name of a user", names[0])
    if starter not in names:
        raise table.fail("starter", starter, "must be the name of a user of this plan")
    walk = Walk(
        topology=topology,
        rounds=table.whole("rounds", 1, 1_000_000) if ring else None,
        steps=None if ring else table.whole("steps", 1, 1_000_000_000),
        starter=starter,
        release=table.choice("release", ("all", "holder"), "all"),
        min_live=table.whole("min_live", 3 if ring else 2, n, 0),  # 0: see ``_with_least_alive``
        durability=table.choice("durability", ("machine", "process"), "machine"),
        log_values=table.flag("log_values", True),
    )
    table.close(_keys(Walk))
    return walk


def _with_least_alive(walk: Walk, noise: Noise, n: int) -> Walk:
    """The default of ``min_live``: where users hide each other the noise is sized for nine in ten of them; a ring's
    full noises hide as well among three."""
    if walk.min_live:
        return walk
    alike = walk.topology == "ring" and noise.mechanism != "rr"
    return replace(walk, min_live=3 if alike else max(3 if walk.topology == "ring" else 2, n - max(1, n // 10)))


def _task(table: _Table) -> TaskSpec:
    kind = table.choice("kind", ("sum", "mean", "histogram", "sgd", "custom"))
    task: TaskSpec
    match kind:
        case "sum" | "mean":
            task = SumTask(
                kind=kind,
                dimension=table.whole("dimension", 1, MAX_DIMENSION, 1),
                lower=table.real("lower", 0.0),
                upper=table.real("upper", 1.0),
                norm=table.real("norm", None, above=0.0),
                rows=table.choice("rows", ROWS, "average"),
            )
            if task.lower >= task.upper:
                raise table.fail("lower", task.lower, f"must be below upper = {task.upper:g}")
        case "histogram":
            buckets = table.whole("buckets", 2, MAX_DIMENSION)
            task = HistogramTask(kind=kind, buckets=buckets, rows=table.choice("rows", ROWS, "average"))
        case "sgd":
            task = _sgd(table)
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


def _sgd(table: _Table) -> SgdTask:
    task = SgdTask(
        kind="sgd",
        loss=table.choice("loss", ("logistic", "ridge", "smoothed_hinge"), "logistic"),
        features=table.whole("features", 1, MAX_DIMENSION - 1),
        intercept=table.flag("intercept", True),
        step_size=table.real("step_size", above=0.0),
        schedule=table.choice("schedule", ("constant", "inverse_sqrt"), "constant"),
        radius=table.real("radius", None, above=0.0),
        label_bound=table.real("label_bound", 1.0, above=0.0),
        smoothing=table.real("smoothing", 0.5, above=0.0),
    )
    if task.loss == "ridge" and task.radius is None:
        raise PlanError("task.radius is missing: the ridge loss is Lipschitz only on a ball, give its radius")
    limit = 2.0 / task.smoothness
    if task.step_size > limit:
        raise table.fail(
            "step_size", task.step_size, f"must be at most 2/beta = {limit:g} for the {task.loss} loss (contraction)"
        )
    return task


def _noise(table: _Table, walk: Walk, task: TaskSpec) -> Noise:
    if isinstance(task, HistogramTask):
        mechanisms: tuple[str, ...] = ("rr", "gaussian")
    elif walk.topology == "ring" and isinstance(task, SumTask):
        mechanisms = ("gaussian", "laplace")
    else:
        mechanisms = ("gaussian",)
    mechanism = table.choice("mechanism", mechanisms, mechanisms[0])
    size_key = {"gaussian": "sigma", "laplace": "scale", "rr": "gamma"}[mechanism]
    for key in ("sigma", "scale", "gamma"):
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
    )
    noise = replace(noise, reissues=_reissues(table, walk, noise))
    if noise.spread and (walk.topology != "ring" or mechanism != "gaussian" or isinstance(task, SgdTask)):
        raise PlanError("noise.spread = true: only Gaussian sums on a ring spread their noise over the users")
    if not noise.calibrated and noise.epsilon is None:
        raise PlanError(f"noise.{size_key} is missing: give it, or give noise.epsilon and noise.delta as a target")
    if noise.grid is not None and math.frexp(noise.grid)[0] != 0.5:
        raise table.fail("grid", noise.grid, "must be a power of two")
    table.close(_keys(Noise))
    return noise


def _reissues(table: _Table, walk: Walk, noise: Noise) -> int:
    """On a ring a token taken up again costs at most one contribution more, and one is reserved. Where other users'
    answers or steps amplify privacy it would cost all of that: nothing is reserved (docs/adr/0019)."""
    amplified = walk.topology == "complete" or (noise.mechanism == "rr" and noise.against == "network")
    if walk.topology == "complete" and noise.reissues > 0:
        raise table.fail(
            "reissues", noise.reissues, "must be 0 on the complete graph: its promise is without re-issues"
        )
    return (0 if amplified else 1) if noise.reissues < 0 else noise.reissues


def _caps(table: _Table) -> Caps:
    caps = Caps(
        contributions=table.whole("contributions", 1, 10**9, None),
        edge=table.whole("edge", 1, 10**9, None),
        past=table.choice("past", ("noise", "forward"), "noise"),
    )
    table.close(_keys(Caps))
    return caps


def _timing(table: _Table) -> Timing:
    base = PRESETS[table.choice("preset", tuple(PRESETS), "local")]
    timing = Timing(
        **{f.name: table.real(f.name, getattr(base, f.name), above=0.0, most=86400.0) for f in fields(Timing)}
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
    if plan.caps.past == "forward" and (plan.noise.against == "network" or plan.walk.topology == "ring"):
        raise PlanError(
            'caps.past = "forward": others rely on the noise of capped users (docs/THEORY.md#cover-for-others); '
            'use "noise", or noise.against = "local" on the complete graph'
        )
    if plan.noise.mechanism == "laplace" and isinstance(plan.task, SumTask) and plan.task.dimension > 1:
        raise PlanError(f"task.dimension = {plan.task.dimension}: Laplace noise is for single numbers; use Gaussian")
    if plan.caps.edge is not None and plan.walk.topology == "ring":
        raise PlanError("caps.edge: on a ring the next user is fixed; use caps.contributions")
    ring_sgd = plan.walk.topology == "ring" and isinstance(plan.task, SgdTask)
    if ring_sgd and plan.noise.against == "network" and plan.noise.epsilon is not None:
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
        return parse(read_text(path))
    except FormatError as error:
        raise PlanError(f"{path}: {error}") from None


def from_dict(values: Mapping[str, Any]) -> Plan:
    """A checked plan from plain values (the same keys as in the file)."""
    top = _Table(values, "")
    top.whole("schema", SCHEMA, SCHEMA, SCHEMA)
    users = _users(top)
    walk = _walk(top.table("walk", required=True), users)
    task = _task(top.table("task", required=True))
    noise = _noise(top.table("noise", required=True), walk, task)
    plan = Plan(
        name=top.text("name", NAME, "must be lower-case letters, digits and dashes, at most 63", "run"),
        run_number=top.whole("run_number", 0, 10**9, 1),
        walk=_with_least_alive(walk, noise, len(users)),
        task=task,
        noise=noise,
        caps=_caps(top.table("caps")),
        timing=_timing(top.table("timing")),
        users=users,
        insecure_seed=top.whole("insecure_seed", 0, 2**63 - 1, None),
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
