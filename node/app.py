"""Start one user: read the bundle, check the data, open the journal, take part, and end with a clear exit code."""

from __future__ import annotations

import asyncio
import logging
import signal
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from network_dp import __version__, view
from network_dp.noise_rule import cover_elements
from network_dp.plan import PlanError
from network_dp.plan_reader import is_address
from network_dp.untrusted import FormatError, read_text, shortened, toml
from node import in_step, logs, result_file
from node.config import Bundle, Public, context, read_bundle
from node.crash import CrashAt
from node.dice import sources
from node.errors import BundleError, DiskFullError, NodeError
from node.fence import fenced
from node.journal import Journal
from node.memory import keep_long_blocks
from node.protocol import exits
from node.protocol.effects import Finished, Stop
from node.protocol.state import Context, Durable
from node.protocol.values import Token
from node.runtime import Runtime
from node.stock import Stock
from node.tasks import DataError, LocalData, Task, TaskError, load_table, make_task
from node.tasks.rows import told
from node.transport.client import BYTES_PER_SECOND_FLOOR, Client
from node.transport.codec import Frame
from node.transport.identity import Directory
from node.transport.server import HealthService, PeerService, start_server
from node.view_log import ViewLog
from node.worker import BoundTask

uvloop: Any
try:
    import uvloop  # here, not where it is used: forked users share what their parent has loaded
except ImportError:
    uvloop = None

log = logging.getLogger("node")

GRACE_S = 0.3
WARM_CHANNELS = 16  # connections kept open to peers met before
LONG_TOKEN_BYTES = 1 << 16
AHEAD, AHEAD_RING = 2, 3  # noises: one visit of a ring may need several (ADR 13)
SLOW_NOISE_BYTES = 1 << 22  # from here on a token's noise takes longer to draw than peers should wait for an answer
CROWD = 200  # among more users a peer is seldom met again, and every open connection costs both ends memory


@dataclass(frozen=True, slots=True)
class Options:
    """How to start, beside the bundle."""

    rejoin: bool = False
    crash_at: str | None = None
    warm_channels: int | None = None  # None: as many as the size of the run is worth
    on_ready: Callable[[], None] = lambda: None
    on_progress: Callable[[int], None] = lambda step: None


def run(folder: Path, options: Options | None = None, public: Public | None = None, task: Task | None = None) -> int:
    """One user from start to exit code; errors are one plain sentence in the log.

    ``public`` and ``task`` (made of the plan alone) may come from a parent that many users share."""
    options = options or Options()
    sparing = logs.set_up(folder.name)
    try:
        return _run(folder, options, public, task)
    except (DataError, TaskError, PlanError, BundleError) as error:
        log.error("%s", error)
        return exits.BAD_INPUT
    except NodeError as error:
        log.error("%s", error)
        return error.exit_code
    except Exception as error:
        log.error("a bug: %s", logs.described(error))
        return exits.INTERNAL
    finally:
        for text in sparing.rest():
            log.warning(text)


def _run(folder: Path, options: Options, public: Public | None, task: Task | None) -> int:
    bundle = read_bundle(folder, public, rejoin=options.rejoin)
    task = task or fenced(make_task, PlanError, TaskError)(bundle.public.plan)
    data = fenced(task.prepare, DataError, TaskError)(load_table(bundle.data))
    for text in told(bundle.public.plan, data):
        log.warning("your data: %s", text)
    crash = CrashAt.parse(options.crash_at, bundle.public.plan) if options.crash_at else None
    runner = asyncio.Runner(loop_factory=_loop_factory())
    with runner:
        return runner.run(_serve(bundle, task, data, options, crash))


def _loop_factory() -> Callable[[], asyncio.AbstractEventLoop] | None:
    """uvloop where it is installed: a fifth more hops per second."""
    if uvloop is None:
        return None
    factory: Callable[[], asyncio.AbstractEventLoop] = uvloop.new_event_loop
    return factory


async def _serve(bundle: Bundle, task: Task, data: LocalData, options: Options, crash: CrashAt | None) -> int:
    asyncio.get_running_loop().set_exception_handler(logs.on_loop)
    plan = bundle.public.plan
    # As many random elements as cover a short window of randomised responses (THEORY.md#cover-elements).
    refresh_dummies = max(1, cover_elements(plan.noise.gamma or 0.0, plan.n))
    worker = BoundTask(task, data, plan.unit_count, refresh_dummies)
    ctx = context(plan, bundle.me, worker, noise_every_visit=task.noise_every_visit)
    start, syncs = Durable(promised=(0, ctx.start)), plan.walk.durability == "machine"
    journal = Journal(bundle.state, start, sync=syncs, rejoin=options.rejoin)
    try:
        return await _with_journal(bundle, task, worker, ctx, journal, options, crash, data)
    finally:
        journal.close()


async def _with_journal(
    bundle: Bundle,
    task: Task,
    worker: BoundTask,
    ctx: Context,
    journal: Journal,
    options: Options,
    crash: CrashAt | None,
    data: LocalData,
) -> int:
    plan = bundle.public.plan
    if journal.repaired_bytes:
        log.warning("cut %d bytes of an unfinished record off the journal", journal.repaired_bytes)
    if journal.damaged:
        log.warning("the journal was damaged; it is kept as journal.damaged, and this user starts over")
    life = _count_life(bundle.state / "lives")
    source, dice = sources(plan.insecure_seed, f"{bundle.name} {plan.run_number}", life)
    frame = Frame(plan.run_id, plan.hash)
    ledger = ctx.rule.blank_ledger(ctx.n)
    token_bytes = len(Token(task.initial(source), 0, 0, 0, ledger).encode())
    if token_bytes > LONG_TOKEN_BYTES:
        keep_long_blocks()
    journal.make_room(token_bytes)
    client = Client(bundle, frame, moved(bundle), token_bytes, options.warm_channels or warm_channels(ctx))
    header = view.encode(
        "header",
        schema=view.SCHEMA,
        run=plan.run_id,
        plan=plan.hash,
        user=bundle.name,
        values=ctx.log_values,
        insecure=plan.insecure_seed is not None,
    )
    view_log = ViewLog(bundle.state / "view.jsonl", header)
    in_step.begin(journal, view_log, rejoin=options.rejoin, wall_time=time.time())
    view_log.append(view.encode("start", life=life, time=time.time()))
    if journal.fresh and data.clipped:
        view_log.append(view.encode("clipped", count=data.clipped))

    def finished(effect: Finished) -> None:
        values = result_file.describe(plan, task, data, effect, len(ledger))
        result_file.write(bundle.state / "result.json", values)

    stock = Stock(
        lambda: worker.supplies(source),
        least=AHEAD_RING if ctx.rule.by_ledger else AHEAD,
        aside=source.secure and token_bytes > SLOW_NOISE_BYTES,
    )
    runtime = Runtime(ctx, journal, view_log, client, dice, stock, finished, options.on_progress, crash)
    service = PeerService(
        Directory(bundle.public),
        frame,
        bundle.me,
        plan.names,
        token_bytes,
        runtime.ask,
        lambda: runtime.phase,
        __version__,
        runtime.granted,
        plan.timing.handoff_timeout_s + token_bytes / BYTES_PER_SECOND_FLOOR,
    )
    try:
        return await _take_part(bundle, service, runtime, client, options, again=life > 1)
    finally:
        view_log.close()


async def _take_part(
    bundle: Bundle, service: PeerService, runtime: Runtime, client: Client, options: Options, *, again: bool
) -> int:
    health = HealthService(service)
    try:
        server = await start_server(bundle, service, health)
    except RuntimeError:
        text = f"cannot listen on {bundle.bind}: the port is taken, or the address is not this machine's"
        raise BundleError(text) from None
    _warn_if_insecure(bundle)
    asked: asyncio.Future[Any] = asyncio.ensure_future(_signal())
    health.serving = True
    options.on_ready()
    log.info("serving on %s", bundle.bind)
    runtime.begin(again=again)
    try:
        waited: set[asyncio.Future[Any]] = {runtime.stopped, asked}
        await asyncio.wait(waited, return_when=asyncio.FIRST_COMPLETED)
        health.serving = False
        if runtime.stopped.done():
            stop: Stop = runtime.stopped.result()
            log.log(logging.INFO if stop.code == exits.DONE else logging.ERROR, "%s", stop.text)
            if runtime.unwritten:
                log.error("result.json is not written yet: free some space and start this user again")
                return exits.STOPPED
            if runtime.failed is not None:
                raise runtime.failed
            return stop.code
        runtime.stop()
        log.info("asked to stop: the token, if it is here, is in the journal")
        return exits.DONE if runtime.phase[1] else exits.STOPPED
    finally:
        asked.cancel()
        await runtime.close()
        await client.close()
        await server.stop(GRACE_S)


async def _signal() -> None:
    """Returns when the operator asks this process to end."""
    asked = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, asked.set)
    await asked.wait()


def warm_channels(ctx: Context) -> int:
    return 1 if ctx.n > CROWD else WARM_CHANNELS


def _count_life(path: Path) -> int:
    """How often this user was started: a seeded (insecure) user must not repeat its draws after a restart."""
    try:
        with path.open("a+b", buffering=0) as file:
            file.write(b".")
            return file.tell()
    except OSError as error:
        raise DiskFullError(f"{path}: {error.strerror}") from None


def _warn_if_insecure(bundle: Bundle) -> None:
    if bundle.public.plan.insecure_seed is not None:
        log.warning("INSECURE: noise and routing are seeded by the plan; for tests only")


def moved(bundle: Bundle) -> dict[int, str]:
    """Users that are elsewhere than the plan says: a local addresses.toml (name = "HOST:PORT") where one is there."""
    path = bundle.folder / "addresses.toml"
    if not path.exists():
        return {}
    try:
        changes = toml(read_text(path))
    except FormatError as error:
        raise BundleError(f"{path}: {error}") from None
    plan = bundle.public.plan
    for name, address in changes.items():
        if name not in plan.names or not isinstance(address, str) or not is_address(address):
            text = shortened(f'{name} = "{address}"')
            raise BundleError(f'{path}: {text}: must be a user of the plan = "HOST:PORT"')
    return {plan.index(name): address for name, address in changes.items()}
