"""The last container: what came out, and whether it was private.

``python -m coordinator_free_launcher.container_report PUBLIC VIEWS OUT`` reads the plan (and the truth, in a demo) from
PUBLIC, the exported views and results the users handed over from VIEWS/NAME, prints the result and the verdict, and
writes OUT/result.json, OUT/analysis.json and OUT/report.html. Ends with the verdict's code: 0 PASS, 1 FAIL, 2 UNKNOWN.
"""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path
from typing import Any

from rich.console import Console

from analyzer.analysis import analyze_runs
from analyzer.as_json import as_text
from analyzer.report.page import write
from analyzer.terminal import show


def show_result(result: dict[str, Any], truth: dict[str, Any] | None) -> str:
    """One line: the estimate, and beside it the truth where a demo knows it."""
    keys = {"mean": "mean", "sum": "sum", "histogram": "histogram"}
    known = None if truth is None else truth.get(keys.get(result["task"], ""))
    line = f"{result['task']}: {_short(result['value'])}"
    return line if known is None else f"{line} (truth: {_short(known)})"


def _short(values: Any) -> str:
    numbers = values if isinstance(values, list) else [values]
    text = ", ".join(f"{number:.4g}" for number in numbers[:12])
    return text + (f", ... ({len(numbers)} numbers)" if len(numbers) > 12 else "")


def main(public: Path, views: Path, out: Path) -> int:
    results = sorted(views.glob("*/result.json"))
    if results:
        shutil.copyfile(results[0], out / "result.json")
        truth = public / "truth.json"
        known = json.loads(truth.read_text()) if truth.exists() else None
        sys.stdout.write(show_result(json.loads(results[0].read_text()), known) + "\n")
    else:
        sys.stdout.write("no user handed over a result\n")
    analyses = analyze_runs([views], public / "plan.toml", [], 1, None)
    for analysis in analyses.runs:
        show(analysis, Console(width=120))
    (out / "analysis.json").write_text(as_text(analyses) + "\n")
    write(analyses, out / "report.html")
    return int(analyses.status.exit_code)


if __name__ == "__main__":
    sys.exit(main(*(Path(argument) for argument in sys.argv[1:4])))
