"""The accountant's long work, with a bar: what a plan's promise rests on, computed once and kept (`law_cache`)."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from network_dp.plan import Plan


def prepare(plan: Plan, colluders: int = 1) -> None:
    """Compute the laws behind a plan's promises, so that asking for them later takes no time."""
    from rich.console import Console
    from rich.progress import Progress

    from network_dp.accounting.profile import exposure_law
    from network_dp.promise import walk_law

    console = Console(stderr=True)
    with Progress(console=console, transient=True, disable=not console.is_terminal) as bar:
        for size in sorted({1, colluders}):
            law = walk_law(plan, size)
            if law is not None:
                task = bar.add_task("least noise that is enough", total=1.0)
                exposure_law(law, lambda share, task=task: bar.update(task, completed=share))  # type: ignore[misc]
                bar.update(task, completed=1.0)


@contextmanager
def working() -> Iterator[None]:
    """A bar that only moves, for work of unknown length."""
    from rich.console import Console
    from rich.progress import Progress

    console = Console(stderr=True)
    with Progress(console=console, transient=True, disable=not console.is_terminal) as bar:
        bar.add_task("least noise that is enough", total=None)
        yield
