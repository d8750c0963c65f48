"""The composition root: one user, from reading its bundle to the exit code, put together from the plan."""

from __future__ import annotations

import asyncio
import logging
import signal
import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from network_dp import view
from network_dp.noise_rule import cover_elements
from network_dp.plan import PlanError
from network_dp.plan_reader import is_address
from network_dp.untrusted import FormatError, read_text, shortened, toml
from node import logs, process
from node.config import Bundle, Public, context, read_bundle, rounds_context
from node.crash import CrashAt
from node.dice import sources
from node.errors import BundleError, DiskFullError, NodeError
from node.fence import fenced
from node.many.memory import keep_long_blocks
from node.noise_pool import NoisePool
from node.protocols import exits
from node.protocols.effects import Finished, Stop
from node.protocols.rounds import effects as rounds_effects
from node.protocols.rounds import state as rounds
from node.protocols.walk.messages import Result
from node.protocols.walk.state import Context, Durable
from node.protocols.walk.values import Token
from node.rounds import Rounds
from node.runtime import Runtime
from node.storage import in_step, result_file, rounds_records
from node.storage.journal import LONG_BYTES, Journal
from node.storage.records import RecordCodec
from node.storage.rounds_records import ROUNDS
from node.storage.store import Store
from node.storage.view_log import ViewLog
from node.storage.walk_records import WALK
from node.tasks import DataError, LocalData, Task, TaskError, load_table, make_task
from node.tasks.rows import told
from node.transport.client import BYTES_PER_SECOND_FLOOR, Client
from node.transport.codec import Frame
from node.transport.interface import Outbound
from node.transport.paced import Paced
from node.transport.relay import Relay
from node.transport.rounds_client import RoundsClient
from node.transport.rounds_codec import RoundsCodec, Sizes
from node.transport.rounds_server import RoundService
from node.transport.server import PeerService
from node.transport.service import HealthService, Service, start_server
from node.walk import Walk
from node.worker import BoundTask

uvloop: Any
try:
    import uvloop  # here, not where it is used: forked users share what their parent has loaded
except ImportError:
    uvloop = None

log = logging.getLogger("node")

GRACE_S = 0.3
WARM_CHANNELS = 16  # connections kept open to peers met before
AHEAD, AHEAD_RING = 2, 3  # noises: one visit of a ring may need several (ADR 13)
SLOW_NOISE_BYTES = 1 << 22  # from here on a token's noise takes longer to draw than peers should wait for an answer
CROWD = 200  # among more users a peer is seldom met again, and every open connection costs both ends memory


@dataclass(frozen=True, slots=True)
class Options:
    """How to start, beside the bundle."""

    rejoin: bool = False
    crash_at: str | None = None
    pause_s: float = 0.0  # before each hand-over, for an audience
    warm_channels: int | None = None  # None: as many as the size of the run is worth
    on_ready: Callable[[], None] = lambda: None
    on_progress: Callable[[int], None] = lambda step: None


def run(folder: Path, options: Options | None = None, public: Public | None = None, task: Task | None = None) -> int:
    """One user from start to exit code; errors are one plain sentence in the log.

    ``public`` and ``task`` (made of the plan alone) may come from a parent that many users share."""
    options = options or Options()
    sparing = logs.set_up(folder.name)
    process.name_process(folder)
    process.begins(folder / "state")
    code = exits.INTERNAL
    try:
        code = _run(folder, options, public, task)
    except (DataError, TaskError, PlanError, BundleError) as error:
        log.error("%s", error)
        code = exits.BAD_INPUT
    except NodeError as error:
        log.error("%s", error)
        code = error.exit_code
    except Exception as error:
        log.error("a bug: %s", logs.described(error))
    for text in sparing.rest():
        log.warning(text)
    if code != exits.LOCKED:  # another process is this user: how it ends is its own to tell
        process.ends(folder / "state", code)
    return code


def _run(folder: Path, options: Options, public: Public | None, task: Task | None) -> int:
    bundle = read_bundle(folder, public, rejoin=options.rejoin)
    task = task or fenced(make_task, PlanError, TaskError)(bundle.public.plan)
    data = fenced(task.prepare, DataError, TaskError)(load_table(bundle.data, bundle.public.plan.task.reading))
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


@dataclass(frozen=True, slots=True)
class Parts:
    """One user put together: what drives its protocol, and both sides of its transport."""

    runtime: Runtime[Any]
    client: Outbound
    service: Service
    again: bool  # has this user run before?


async def _serve(bundle: Bundle, task: Task, data: LocalData, options: Options, crash: CrashAt | None) -> int:
    asyncio.get_running_loop().set_exception_handler(logs.on_loop)
    with ExitStack() as closing:
        compose = _rounds if bundle.public.plan.walk.anonymous else _walk
        return await _take_part(bundle, compose(bundle, task, data, options, crash, closing), options)


def _walk(
    bundle: Bundle, task: Task, data: LocalData, options: Options, crash: CrashAt | None, closing: ExitStack
) -> Parts:
    """A user of a walk."""
    plan = bundle.public.plan
    # As many cover elements as hide a short window of randomised responses (THEORY.md#cover-elements).
    refresh_cover = max(1, cover_elements(plan.noise.gamma or 0.0, plan.n))
    share = plan.topology.share(bundle.me)
    worker = BoundTask(task, data, plan.unit_count, refresh_cover, share)
    ctx = context(plan, bundle.me, worker, noise_every_visit=task.noise_every_visit)
    journal = _journal(bundle, WALK, Durable(promised=(0, ctx.start)), options, closing)
    incarnation = _count_incarnation(bundle.state / "lives")
    source, dice = sources(plan.insecure_seed, f"{bundle.name} {plan.run_number}", incarnation)
    frame = Frame(plan.run_id, plan.hash)
    ledger = ctx.rule.blank_ledger(ctx.n)
    token_bytes = len(Token(task.initial(source), 0, 0, 0, ledger).encode())
    if token_bytes > LONG_BYTES:
        keep_long_blocks()
    journal.make_room(token_bytes)
    view_log = _view_log(bundle, ctx.log_values, closing)
    in_step.begin(journal, view_log, rejoin=options.rejoin, wall_time=time.time())
    view_log.append(view.encode("start", life=incarnation, time=time.time()))
    if journal.fresh and data.clipped:
        view_log.append(view.encode("clipped", count=data.clipped))

    def finished(effect: Finished[Result]) -> None:
        values = result_file.describe(plan, task, data, effect, len(ledger))
        result_file.write(bundle.state / "result.json", values)

    pool = NoisePool(
        lambda: worker.supplies(source),
        least=AHEAD_RING if ctx.rule.by_ledger else AHEAD,
        aside=source.secure and token_bytes > SLOW_NOISE_BYTES,
    )
    closing.callback(pool.close)
    direct = Client(bundle, frame, moved(bundle), token_bytes, options.warm_channels or warm_channels(ctx))
    relay = Relay(bundle, frame, direct, token_bytes) if plan.walk.control == "relay" else None
    client: Outbound = relay or direct
    if options.pause_s > 0:
        client = Paced(client, options.pause_s)
    store = Store(journal, view_log, in_step.write)
    runtime = Runtime(Walk(ctx, dice, pool), store, client, finished, options.on_progress, crash)
    timeout_s = plan.timing.handoff_timeout_s + token_bytes / BYTES_PER_SECOND_FLOOR
    service = PeerService(bundle, frame, runtime, token_bytes, timeout_s)
    if relay is not None:
        service.relay, relay.behind = relay, runtime
    return Parts(runtime, client, service, again=incarnation > 1)


def _rounds(
    bundle: Bundle, task: Task, data: LocalData, options: Options, crash: CrashAt | None, closing: ExitStack
) -> Parts:
    """A user of anonymous rounds."""
    plan = bundle.public.plan
    worker = BoundTask(task, data, plan.unit_count, 1)
    journal = _journal(bundle, ROUNDS, rounds.Durable(), options, closing)
    incarnation = _count_incarnation(bundle.state / "lives")
    source, dice = sources(plan.insecure_seed, f"{bundle.name} {plan.run_number}", incarnation)
    ctx = rounds_context(bundle, worker, incarnation)
    view_log = _view_log(bundle, ctx.log_values, closing)
    rounds_records.begin(journal, view_log, rejoin=options.rejoin, wall_time=time.time())
    view_log.append(view.encode("start", life=incarnation, time=time.time()))
    if journal.fresh and data.clipped:
        view_log.append(view.encode("clipped", count=data.clipped))

    def finished(effect: Finished[rounds_effects.Result]) -> None:
        payload, contributions = ctx.payload(effect.token), effect.result.contributions
        values = result_file.describe_rounds(plan, task, data, payload, contributions)
        result_file.write(bundle.state / "result.json", values)

    frame = Frame(plan.run_id, plan.hash)
    sizes = Sizes(ctx.n, ctx.block_bytes)
    codec = RoundsCodec(frame, sizes)
    timeouts_s = ctx.answer_s, plan.timing.locate_timeout_s
    client = RoundsClient(bundle, codec, moved(bundle), sizes.message_bytes_max, timeouts_s)
    store = Store(journal, view_log, rounds_records.write)
    runtime = Runtime(Rounds(ctx, dice, source, worker), store, client, finished, options.on_progress, crash)
    client.myself = runtime.ask
    service = RoundService(bundle, frame, runtime, codec, sizes.message_bytes_max)
    return Parts(runtime, client, service, again=incarnation > 1)


def _journal(bundle: Bundle, codec: RecordCodec, start: Any, options: Options, closing: ExitStack) -> Journal:
    syncs = bundle.public.plan.walk.durability == "machine"
    journal = Journal(bundle.state, codec, start, sync=syncs, rejoin=options.rejoin)
    closing.callback(journal.close)
    if journal.repaired_bytes:
        log.warning("cut %d bytes of an unfinished record off the journal", journal.repaired_bytes)
    if journal.damaged:
        log.warning("the journal was damaged; it is kept as journal.damaged, and this user starts over")
    return journal


def _view_log(bundle: Bundle, log_values: bool, closing: ExitStack) -> ViewLog:
    plan = bundle.public.plan
    header = view.encode(
        "header",
        schema=view.SCHEMA,
        run=plan.run_id,
        plan=plan.hash,
        user=bundle.name,
        values=log_values,
        insecure=plan.insecure_seed is not None,
    )
    view_log = ViewLog(bundle.state / "view.jsonl", header)
    closing.callback(view_log.close)
    return view_log


async def _take_part(bundle: Bundle, parts: Parts, options: Options) -> int:
    runtime, health = parts.runtime, HealthService(parts.service)
    try:
        server = await start_server(bundle, parts.service, health)
    except RuntimeError:
        text = f"cannot listen on {bundle.bind}: the port is taken, or the address is not this machine's"
        raise BundleError(text) from None
    _warn_if_insecure(bundle)
    asked: asyncio.Future[Any] = asyncio.ensure_future(_signal())
    health.serving = True
    options.on_ready()
    log.info("serving on %s", bundle.bind)
    runtime.begin(again=parts.again)
    try:
        waited: set[asyncio.Future[Any]] = {runtime.stopped, asked}
        await asyncio.wait(waited, return_when=asyncio.FIRST_COMPLETED)
        health.serving = False
        if runtime.stopped.done():
            return _ended(runtime, runtime.stopped.result())
        runtime.stop()
        log.info("asked to stop: the token, if it is here, is in the journal")
        return exits.DONE if runtime.status[1] else exits.STOPPED
    finally:
        asked.cancel()
        await runtime.close()
        await parts.client.close()
        await server.stop(GRACE_S)


def _ended(runtime: Runtime[Any], stop: Stop) -> int:
    """The exit code of a user that stopped by itself."""
    log.log(logging.INFO if stop.code == exits.DONE else logging.ERROR, "%s", stop.text)
    if runtime.unwritten:
        log.error("result.json is not written yet: free some space and start this user again")
        return exits.STOPPED
    if runtime.failed is not None:
        raise runtime.failed
    return stop.code


async def _signal() -> None:
    """Returns when the operator asks this process to end."""
    asked = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, asked.set)
    await asked.wait()


def warm_channels(ctx: Context) -> int:
    return 1 if ctx.n > CROWD else WARM_CHANNELS


def _count_incarnation(path: Path) -> int:
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
