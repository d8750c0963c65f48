"""The last container: what came out, and whether it was private.

``python -m coordinator_free_launcher.container_report PUBLIC VIEWS OUT`` reads the plan (and the truth, in a demo) from
PUBLIC, the exported views and results the users handed over from VIEWS/NAME, prints the result and the verdict, and
writes OUT/result.json and OUT/report.html. Ends with the verdict's code: 0 PASS, 1 FAIL, 2 UNKNOWN.
"""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path
from typing import Any

import typer

from coordinator_free_launcher.cli_analyze import analyze


def show_result(result: dict[str, Any], truth: dict[str, Any] | None) -> str:
    """One line: the estimate, and beside it the truth where a demo knows it."""
    known = None if truth is None else truth.get(result["task"])
    line = f"{result['task']}: {_short(result['value'])}"
    return line if known is None else f"{line} (truth: {_short(known)})"


def _short(values: Any) -> str:
    numbers = values if isinstance(values, list) else [values]
    text = ", ".join(f"{number:.4g}" for number in numbers[:12])
    return text + (f", ... ({len(numbers)} numbers)" if len(numbers) > 12 else "")


def main(public: Path, views: Path, out: Path) -> int:
    results = {path: json.loads(path.read_text()) for path in sorted(views.glob("*/result.json"))}
    known = [path for path, result in results.items() if result.get("value") is not None]
    if known:
        shutil.copyfile(known[0], out / "result.json")
        truth = public / "truth.json"
        sys.stdout.write(
            show_result(results[known[0]], json.loads(truth.read_text()) if truth.exists() else None) + "\n"
        )
    else:
        sys.stdout.write("no user handed over a result\n")
    try:
        analyze([views], plan=public / "plan.toml", html=out / "report.html")
    except typer.Exit as verdict:
        return int(verdict.exit_code)
    return 0


if __name__ == "__main__":
    sys.exit(main(*(Path(argument) for argument in sys.argv[1:4])))
