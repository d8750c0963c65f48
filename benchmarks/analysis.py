"""How fast the analyzer reads a large run, and how much memory it needs: measured in a process of its own.

Seconds are of the processor: reading logs that were just written waits for nothing else.
"""

from __future__ import annotations

import json
import resource
import subprocess
import sys
import time
from pathlib import Path

from benchmarks.bench import Bench
from benchmarks.generated_logs import plan_text, write_run
from benchmarks.rows import Row, Target, growth

STEPS_PER_USER = 100
PATIENCE_S = 300.0


def analyzer(bench: Bench) -> list[Row]:
    """Runs of T = 100 n steps, logs with all values."""
    sizes = bench.pick((200, 600, 2000), (10, 20, 40))
    times, memory, status = [], 0.0, ""
    for n in sizes:
        steps = STEPS_PER_USER * n
        bench.say(f"analyzer: writing the logs of {n} users and {steps} steps")
        folder = bench.folder / f"analyzer-{n}"
        write_run(folder, plan_text("complete", n, steps), seed=n)
        bench.say(f"analyzer: reading {n} users and {steps} steps")
        command = [sys.executable, "-m", "benchmarks.analysis", str(folder)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_S, check=True)
        found = json.loads(done.stdout)
        times.append(found["seconds"])
        memory, status = found["gib"], found["status"]
    name = f"analyzer, {sizes[-1]} users, {STEPS_PER_USER * sizes[-1]} steps"
    return [
        Row("analyzer", name, times[-1], "CPU s", target=Target(30.0, "low", "value"), better="low", note=status),
        Row("analyzer", f"{name}: memory", memory, "GiB", target=Target(2.0, "low", "value"), better="low"),
        growth("analyzer", "analyzer, T = 100 n", sizes, times),
    ]


def _main(folder: Path) -> None:
    from analyzer.analysis import analyze_runs

    started = time.process_time()
    analyses = analyze_runs([folder], is_user=False)
    taken = time.process_time() - started
    most_kib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    print(json.dumps({"seconds": taken, "gib": most_kib / 1024**2, "status": analyses.status.name}))


if __name__ == "__main__":
    _main(Path(sys.argv[1]))
