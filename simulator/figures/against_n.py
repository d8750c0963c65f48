"""The panel of Figs. 1b and 3: what pairs of users lost on simulated walks, and users under local DP, against n."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from matplotlib.figure import Figure as Canvas

from simulator.figures.base import HIDDEN, KNOWN, LOCAL, Flavour, Row, bound_line, canvas, error_bars
from simulator.pairs import Spread, merge

EPSILONS_0 = (0.1, 0.4)
VISITS, WALKS = 100, 10
DELTA = 1e-5
HEADER = ("curve", "epsilon_0", "n", "mean", "least", "greatest", "count", "sampled")

Bound = Callable[[int, float], float]  # of (n, epsilon_0): before a run, if the path were hidden


@dataclass(frozen=True)
class Losses:
    """Of all pairs, and of all users under local DP."""

    network: Spread
    local: Spread


def together(parts: list[Losses]) -> Losses:
    """All walks of one point."""
    return Losses(merge([part.network for part in parts]), merge([part.local for part in parts]))


def panel(
    flavour: Flavour, title: str, ns: list[int], results: dict[float, list[Losses]], bound: Bound
) -> tuple[Canvas, list[Row]]:
    """The panel and its rows under ``HEADER``; ``results``: by epsilon_0, what was lost at each n."""
    drawn, (ax,) = canvas()
    rows: list[Row] = []
    for e, points in results.items():
        dashed = e == EPSILONS_0[1]
        error_bars(ax, ns, [p.local for p in points], f"local DP, ε₀ = {e}", LOCAL, dashed)
        error_bars(ax, ns, [p.network for p in points], f"network DP, ε₀ = {e}", KNOWN, dashed)
        for n, p in zip(ns, points, strict=True):
            for name, s in (("network", p.network), ("local", p.local)):
                rows.append((name, e, n, s.mean, s.low, s.high, s.count, str(s.sampled)))
        if flavour == "audited":
            hidden = [bound(n, e) for n in ns]
            rows += [("hidden_bound", e, n, x, x, x, 1, "False") for n, x in zip(ns, hidden, strict=True)]
            bound_line(ax, ns, hidden, f"hidden path, bound, ε₀ = {e}", HIDDEN, dashed)
    ax.set(xscale="log", yscale="log", xlabel="number of users n")
    ax.set_ylabel("privacy loss ε" if flavour == "published" else f"privacy loss ε at δ = {DELTA:g}")
    ax.set_title(title)
    drawn.legend(loc="outside lower center", fontsize=8, ncols=3)
    return drawn, rows


def sentence(n: int, losses: Losses) -> str:
    """What is to be seen at ``n``, for the smaller epsilon_0."""
    network, local = losses.network, losses.local
    return (
        f"Seen: at n = {n}, eps0 = {EPSILONS_0[0]}, the mean pair loses {network.mean:.3g} ({network.low:.3g} to "
        f"{network.high:.3g}), a user under local DP {local.mean:.3g}:\n{local.mean / network.mean:.1f} times more on "
        f"average, {local.mean / network.high:.1f} times more than the worst pair."
    )
