"""Microseconds per pair of the compiled engine, beside naive NumPy: an eigendecomposition per learner and step.

    python benchmarks/engines.py

Both see the same pairs, in one process on one thread, in turns; the median of several, and their ratio. The naive
program is the straightforward one: dense matrices, NumPy, no step left out. Ranks and the number of active
learners are those of the stream, so they are shown: a pair costs what they make of it.
"""

from __future__ import annotations

import time
from statistics import median

import numpy as np
from results import save
from rich.console import Console
from rich.progress import track
from rich.table import Table
from threadpoolctl import threadpool_limits

from ocelad import track_metric
from ocelad.checks import Floats
from ocelad.online.dyadic import Schedule
from ocelad.online.losses import LOSSES
from ocelad.pairs import Events
from ocelad.streams import DriftingClusters

REPEATS = 3


def naive(events: Events, n_scales: int, step_size: float, rho: float, scale: float, loss: str) -> Floats:
    """RICE-OCELAD as one would write it down; what it plays at the end."""
    n, schedule, value, slope = events.U.shape[1], Schedule(1, n_scales), LOSSES[loss].value, LOSSES[loss].slope
    rates = np.array([schedule.scale(j).weight_rate for j in range(n_scales)])
    steps = [step_size * schedule.scale(j).rate for j in range(n_scales)]
    M, mu, weights = [scale * np.eye(n)] * n_scales, [1.0] * n_scales, rates.copy()
    for t, (u, y) in enumerate(events, start=1):
        active = schedule.active(t)
        margins = [y * (mu[j] - u @ M[j] @ u) for j in range(active)]
        losses = np.array([value(m) for m in margins])
        regrets = weights[:active] @ losses / weights[:active].sum() - losses
        largest = np.abs(regrets).max()
        if largest > 1e-12 * max(1.0, losses.max()):
            weights[:active] *= 1 + rates[:active] * regrets / largest
        for j in range(active):
            g = slope(margins[j])
            eigenvalues, V = np.linalg.eigh(M[j] - steps[j] * g * y * np.outer(u, u))
            M[j] = (V * np.maximum(eigenvalues - steps[j] * rho, 0.0)) @ V.T
            mu[j] = max(1.0, mu[j] + steps[j] * g * y)
        for j in range(schedule.starting(t + 1) - 1, 0, -1):
            M[j], mu[j] = M[j - 1], mu[j - 1]
        weights[: schedule.starting(t + 1)] = rates[: schedule.starting(t + 1)]
    active = schedule.active(len(events) + 1)
    shares = weights[:active] / weights[:active].sum()
    return np.asarray(sum(p * m for p, m in zip(shares, M, strict=False)))


def blobs(n: int, rounds: int) -> Events:
    """Three clusters in three dimensions that overlap a little; the others are noise of one size in all.

    With the settings below 3 to 4 learners are active on a pair, and ranks settle at 5 to 7, whatever n is.
    """
    rng = np.random.default_rng(0)
    labels = rng.integers(0, 3, size=(rounds, 2))
    points = rng.normal(size=(rounds, 2, n)) * np.sqrt(6.0 / n)
    points[:, :, :3] = 0.6 * rng.normal(size=(rounds, 2, 3)) + 2 * np.eye(3)[labels]
    return Events(points[:, 0] - points[:, 1], np.where(labels[:, 0] == labels[:, 1], 1.0, -1.0))


def scenario() -> Events:
    """The paper's drifting stream."""
    events = [moment.event() for moment in DriftingClusters(seed=0)]
    return Events(np.array([event.u for event in events]), np.array([event.y for event in events]))


def measure(name: str, events: Events, naive_rounds: int, n_scales: int, **settings: float | str) -> dict:
    n = events.U.shape[1]
    few = Events(events.U[:naive_rounds], events.y[:naive_rounds])
    start, step_size, rho, loss = (settings[key] for key in ("scale", "step_size", "rho", "loss"))

    def tracker():
        return track_metric(
            n,
            engine="lowrank",
            n_scales=n_scales,
            initial_scale=start,
            step_size=step_size,
            shrinkage=rho,
            loss=loss,
        )

    fast_times, naive_times = [], []
    for _ in range(REPEATS):
        fast = tracker()
        fast_times.append(_microseconds(lambda: fast.replay(events), len(events)))  # noqa: B023
        naive_times.append(_microseconds(lambda: naive(few, n_scales, step_size, rho, start, loss), len(few)))
    same = tracker()
    same.replay(few)
    M, N = same.play().matrix, naive(few, n_scales, step_size, rho, start, loss)
    watched, active = tracker(), 0
    for event in few:
        active += int((watched.step(event).losses > 0).sum())
    return {
        "stream": name,
        "n": n,
        "rank": float(np.mean([rank for rank in fast.bank.ranks if rank])),
        "active": active / len(few),
        "us per pair": median(fast_times),
        "naive us": median(naive_times),
        "ratio": median(naive_times) / median(fast_times),
        "relative error": float(np.linalg.norm(M - N) / np.linalg.norm(N)),
    }


def _microseconds(call, rounds: int) -> float:
    start = time.process_time()
    call()
    return 1e6 * (time.process_time() - start) / rounds


def main() -> None:
    nuclear = {"step_size": 0.1, "rho": 0.5, "scale": 0.0, "loss": "hinge"}
    cases = [
        (f"blobs, nuclear, n={n}", blobs(n, rounds), few, 12, nuclear)
        for n, rounds, few in (
            (10, 5000, 1500),
            (25, 5000, 1000),
            (50, 5000, 500),
            (100, 5000, 200),
            (300, 3000, 40),
            (784, 1500, 4),
        )
    ]
    plain = {"rho": 0.0, "scale": 1 / 25}
    cases += [
        ("drifting, hinge, rho=0", scenario(), 1500, 13, {**plain, "step_size": 3e-3, "loss": "hinge"}),
        ("drifting, logistic, rho=0", scenario(), 1500, 13, {**plain, "step_size": 1e-2, "loss": "logistic"}),
    ]
    console = Console()
    with threadpool_limits(1):
        rows = [
            measure(name, events, few, n_scales, **settings)
            for name, events, few, n_scales, settings in track(cases, "engines", console=console)
        ]
    table = Table(title="Compiled engine and naive NumPy, CPU time, one thread", box=None, padding=(0, 1, 0, 0))
    for column in rows[0]:
        table.add_column(column, justify="left" if column == "stream" else "right", no_wrap=True)
    for row in rows:
        table.add_row(*(_shown(value) for value in row.values()))
    console.print(table)
    console.print(f"Written to {save('engines', {'repeats': REPEATS}, rows)}")


def _shown(value: float | str) -> str:
    if isinstance(value, str):
        return value
    return f"{value:.1e}" if 0 < value < 1e-3 else f"{value:,.1f}" if value < 1000 else f"{value:,.0f}"


if __name__ == "__main__":
    main()
