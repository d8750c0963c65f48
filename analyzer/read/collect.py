"""One record after the other into tables: the only place that knows both the view schema and the tables."""

from __future__ import annotations

import math
from array import array
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np

from analyzer.read.tables import (
    CAUSES,
    NOBODY,
    PEER,
    REISSUE,
    SENT,
    VISIT,
    Columns,
    Event,
    Finding,
    Floats,
    Logs,
    ResultRow,
    ValueReport,
    short_path,
)
from analyzer.reconstruct.draws import NoiseCounter
from analyzer.reconstruct.values import (
    Payload,
    StepRule,
    ValueFormatError,
    digest,
    out_of_bounds,
    read_payload,
    text_digest,
    value_unit,
)
from network_dp.plan import Plan
from network_dp.view import Epoch, Record

_OPEN_VISITS: Final = 8  # visits of one user whose token is still remembered for the step that follows
_MODELS: Final = 200  # models kept along the walk, to draw how they learned
_KEPT_VALUES: Final = 1 << 24  # numbers kept for charts and utility; beyond that only sums are


class Collector:
    """Fills the tables from the records of one log after another."""

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self._indices = {name: index for index, name in enumerate(plan.names)}
        self._rule = StepRule(plan)
        self._unit = value_unit(plan)
        self._lone = self._rule.exact and plan.task.dimension == 1  # the common case, without further questions
        self._noise = NoiseCounter(plan)
        self._epochs: dict[Epoch, int] = {}
        self._visits, self._sents = Columns(VISIT), Columns(SENT)
        self._bases: dict[int, tuple[int, int]] = {}
        self._results: list[ResultRow] = []
        self._result_fields: Mapping[str, Any] = {}
        self._events: list[Event] = []
        self._down: set[int] = set()
        self._clipped: dict[int, int] = {}
        self._peers = Columns(PEER)
        self._values = ValueReport()
        self._files: dict[int, Path] = {}
        self._with_values: set[int] = set()
        self._rejoined: dict[int, int] = {}
        self._kept: tuple[array[float], array[float]] | None = (array("d"), array("d"))
        self._stride = 0 if plan.task.additive else max(1, plan.total_steps // _MODELS)
        self._models: dict[int, Payload] = {}
        self._user = NOBODY
        self._rows: dict[tuple[int, int], int] = {}
        self._open: OrderedDict[int, tuple[int, Payload]] = OrderedDict()
        self._starts = 0

    def open(self, user: int, path: Path, with_values: bool) -> None:
        """The records that follow are ``user``'s."""
        self._user = user
        self._files[user] = path
        if with_values:
            self._with_values.add(user)
        self._noise.open(user)
        self._rows, self._open = {}, OrderedDict()
        self._starts = 0

    def add(self, line: int, record: Record, time_s: float) -> None:
        fields = record.fields
        match record.kind:
            case "visit":
                self._visit(line, fields, time_s)
            case "sent" | "finish":
                self._sent(line, fields, time_s)
            case "result":
                self._result(line, fields)
            case "peer":
                peer = self._who(fields["peer"])
                down = fields["state"] == "down"
                self._peers.append(self._user, peer, down, line)
                if down:
                    self._down.add(peer)
                text = f"found {self._plan.users[peer].name} {fields['state']}"
                self._events.append(Event(self._user, "peer", text, time_s, line))
            case "abandoned":
                text = f"gave up epoch {fields['epoch'][0]} at step {fields['step']}"
                self._events.append(Event(self._user, "abandoned", text, time_s, line))
            case "start":
                self._started(line, time_s)
            case "rejoined":
                self._rejoined[self._user] = line
                self._events.append(Event(self._user, "rejoined", "came back without its whole disk", time_s, line))
            case "clipped":
                self._clipped[self._user] = int(fields["count"])
            case "header" if line > 1:
                raise ValueFormatError("a second header: two logs in one file")

    def _started(self, line: int, time_s: float) -> None:
        """The first start of a log is no event; every further one is a restart."""
        self._peers.append(self._user, NOBODY, False, line)
        if self._starts:
            self._events.append(Event(self._user, "restart", "was started again", time_s, line))
        self._starts += 1

    def _who(self, value: object) -> int:
        """A user named by name or by index."""
        if isinstance(value, str) and value in self._indices:
            return self._indices[value]
        if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < self._plan.n:
            return value
        raise ValueFormatError(f"{value!r} is not a user of the plan")

    def _epoch(self, value: Sequence[int]) -> int:
        return self._epochs.setdefault((value[0], value[1]), len(self._epochs))

    def _step(self, fields: Mapping[str, Any]) -> int:
        step = int(fields["step"])
        if step > self._plan.total_steps + 1:
            raise ValueFormatError(f"step {step} is impossible: the plan ends at step {self._plan.total_steps}")
        return step

    def _payload(self, fields: Mapping[str, Any], name: str) -> Payload | None:
        value: Any = fields.get(name)
        if value is None or (self._lone and type(value) is list and len(value) == 1 and type(value[0]) is int):
            return value
        return read_payload(value, self._plan, self._rule.exact)

    def _visit(self, line: int, fields: Mapping[str, Any], time_s: float) -> None:
        if fields["cause"] not in CAUSES:
            raise ValueFormatError(f"cause {fields['cause']!r}: must be one of {', '.join(CAUSES)}")
        cause = CAUSES.index(fields["cause"])
        sender = NOBODY if fields["from"] is None else self._who(fields["from"])
        epoch, step, received = self._epoch(fields["epoch"]), self._step(fields), self._payload(fields, "received")
        tag = text_digest(fields.get("tag"))
        row = self._visits.append(
            self._user, epoch, step, fields["visit"], cause, sender, tag, digest(received), line, time_s
        )
        self._rows[epoch, fields["visit"]] = row
        if received is not None:
            self._open[row] = (step, received)
            if len(self._open) > _OPEN_VISITS:
                self._open.popitem(last=False)
        if cause == REISSUE and fields.get("base") is not None:
            counter, issuer, base_step = fields["base"]
            self._bases[row] = (self._epoch((counter, issuer)), int(base_step))

    def _sent(self, line: int, fields: Mapping[str, Any], time_s: float) -> None:
        epoch, step, visit = self._epoch(fields["epoch"]), self._step(fields), int(fields["visit"])
        row = self._rows.get((epoch, visit), NOBODY)
        values = {name: self._payload(fields, name) for name in ("sent", "noise", "contribution", "cover")}
        cover = sum(values["cover"] or [0])
        if not 0 <= cover < 2**31:
            raise ValueFormatError("more cover elements than a run can hold")
        contribution, noise = values["contribution"], values["noise"]
        real, units = bool(fields["real"]), int(fields["units"])
        self._look_at(line, row, values, real)
        if self._user in self._with_values:
            self._noise.add(len(self._sents), visit, noise, contribution, units, real)
            if values["cover"] is not None:
                self._noise.add_elements(visit, values["cover"])
        self._keep(contribution if real else None, noise)
        kept = self._stride and (step % self._stride == 0 or "to" not in fields)  # the final model, whatever its step
        if kept and values["sent"] is not None:
            self._models[len(self._sents)] = values["sent"]
        size = math.nan if contribution is None else math.hypot(*contribution) * self._unit
        self._sents.append(
            self._user,
            epoch,
            step,
            visit,
            row,
            self._who(fields["to"]) if "to" in fields else NOBODY,
            text_digest(fields.get("tag")),
            digest(values["sent"]),
            digest(noise),
            digest(contribution),
            real,
            units,
            cover,
            line,
            time_s,
            size,
        )

    def _look_at(self, line: int, row: int, values: Mapping[str, Payload | None], real: bool) -> None:
        """Conservation and bounds of one step, while its values are at hand."""
        if values["sent"] is None:
            return
        report = self._values
        contribution = values["contribution"]
        if contribution is not None and real and (why := out_of_bounds(self._plan, contribution)):
            report.bounds.add(self._finding(line, why))
        if row not in self._open:
            report.unchecked_steps += 1
            return
        step, received = self._open[row]
        report.checked_steps += 1
        off = self._rule.mismatch(received, step, values, real)
        if off == 0.0:
            return
        if self._rule.is_close(off):
            report.inexact_steps += 1
            return
        text = "what it sent is not what it received plus its contribution, noise and cover elements"
        report.conservation.add(self._finding(line, f"{text} (step {step}, off by {off:.6g})"))

    def _finding(self, line: int, text: str) -> Finding:
        return Finding(self._plan.users[self._user].name, short_path(self._files[self._user]), line, text)

    def _keep(self, contribution: Payload | None, noise: Payload | None) -> None:
        if self._kept is None:
            return
        width = self._plan.task.dimension
        if (len(self._sents) + 1) * width > _KEPT_VALUES:
            self._kept = None
            return
        for column, part in zip(self._kept, (contribution, noise), strict=True):
            column.extend([0.0] * width if part is None else [value * self._unit for value in part])

    def _result(self, line: int, fields: Mapping[str, Any]) -> None:
        value = self._payload(fields, "value")
        count = fields.get("contributions")
        self._results.append(ResultRow(self._user, self._epoch(fields["epoch"]), digest(value), count, line))
        if not self._result_fields or (value is not None and self._result_fields.get("value") is None):
            self._result_fields = {**fields, "value": value}

    def finish(self, run: str, insecure: bool, notes: Sequence[str]) -> Logs:
        kept: list[Floats | None] = [None, None]
        if self._kept is not None and self._with_values:
            width = self._plan.task.dimension
            kept = [np.frombuffer(column, dtype=np.float64).reshape(-1, width).copy() for column in self._kept]
        value = self._result_fields.get("value")
        return Logs(
            plan=self._plan,
            run=run,
            files=self._files,
            with_values=frozenset(self._with_values),
            ended=frozenset(row.user for row in self._results),
            rejoined=self._rejoined,
            insecure=insecure,
            epochs=list(self._epochs),
            visits=self._visits.freeze(),
            sents=self._sents.freeze(),
            bases=self._bases,
            results=self._results,
            events=self._events,
            ever_down=frozenset(self._down),
            peers=self._peers.freeze(),
            values=self._values,
            noise=self._noise.tally(),
            result_value=None if value is None else [item * self._unit for item in value],
            result_contributions=self._result_fields.get("contributions"),
            contributions=kept[0],
            noises=kept[1],
            models=self._models,
            notes=list(notes),
            clipped=self._clipped,
        )
