"""What can be wrong with the analyzer's input, as opposed to what can be wrong with a run (that is a verdict)."""

from __future__ import annotations

from pathlib import Path

from network_dp.errors import UserError


class InputError(UserError, ValueError):
    """The logs or the plan cannot be read as one run. The message is one sentence naming file and line."""

    def __init__(self, path: Path | str, line: int | None, what: str) -> None:
        where = f"{path}:{line}" if line is not None else str(path)
        super().__init__(f"{where}: {what}")
        self.path = str(path)
        self.line = line
