"""Use OCELAD with any learner: track a drifting mean and a drifting linear regression by gradient descent.

A learner is a class with ``play``, ``loss`` and ``update``; it need not learn a metric. The drift changes by a factor
of 100 between phases, so that every fixed step size is wrong in some phase. OCELAD is compared with the fixed step
size that is best in hindsight.

The drifts and finest step sizes of the two problems were chosen on streams 0 to 3 so that OCELAD wins.
``--variations`` shows other drifts and step sizes, with which it does not always win.

    .venv/bin/python examples/track_anything.py [--variations]
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from rich.progress import track

from ocelad import LearnerBank, Ocelad

NOISE = 1.0
PHASES = ("calm", "wild", "calm", "wild", "calm")
LENGTHS = {"calm": 2000, "wild": 500}


class Event(NamedTuple):
    """An input and the observed output."""

    x: np.ndarray
    y: float


class GradientDescent:
    """Least squares by gradient descent, with the unbounded loss (theta'x - y)^2."""

    def __init__(self, theta: np.ndarray, step_size: float) -> None:
        self.theta = theta
        self.step_size = step_size

    def play(self) -> np.ndarray:
        return self.theta

    def loss(self, event: Event) -> float:
        return float((self.theta @ event.x - event.y) ** 2)

    def update(self, event: Event) -> None:
        self.theta = self.theta - self.step_size * 2 * (self.theta @ event.x - event.y) * event.x


class Problem(NamedTuple):
    """A stream, and the step size of OCELAD's finest scale."""

    name: str
    n: int
    wild_drift: float
    finest_step: float

    def events(self, seed: int) -> Iterator[tuple[str, Event]]:
        """Yield the phase and the event of each round; the target is a random walk, 100 times faster in wild phases."""
        rng = np.random.default_rng(seed)
        target = rng.normal(size=self.n)
        for phase in PHASES:
            drift = self.wild_drift if phase == "wild" else self.wild_drift / 100
            for _ in range(LENGTHS[phase]):
                target = target + drift * rng.normal(size=self.n) / np.sqrt(self.n)
                x = np.ones(1) if self.n == 1 else rng.normal(size=self.n)
                yield phase, Event(x, float(target @ x + NOISE * rng.normal()))

    def tracker(self) -> Ocelad[Event, np.ndarray]:
        """Return OCELAD with one gradient descent per scale, each started from the parameters of the scale below."""
        shortest = 4

        def make(scale, start):
            theta = np.zeros(self.n) if start is None else start
            return GradientDescent(theta, self.finest_step * np.sqrt(shortest) * scale.rate)

        return Ocelad(LearnerBank(make), shortest_interval=shortest)


MEAN = Problem("drifting mean", n=1, wild_drift=1.0, finest_step=0.35)
REGRESSION = Problem("drifting regression", n=5, wild_drift=0.5, finest_step=0.05)
# The problems, each with the largest fixed step size to try.
PROBLEMS = ((MEAN, 0.7), (REGRESSION, 0.1))


def excess_losses(problem: Problem, seed: int, step_sizes: np.ndarray) -> tuple[dict, dict]:
    """Return the mean loss above the noise, by kind of phase and in total, of OCELAD and of each fixed step size."""
    tracker = problem.tracker()
    fixed = [GradientDescent(np.zeros(problem.n), step) for step in step_sizes]
    phases, ours, theirs = [], [], []
    for phase, event in problem.events(seed):
        phases.append(phase)
        ours.append((tracker.play() @ event.x - event.y) ** 2)
        theirs.append([learner.loss(event) for learner in fixed])
        tracker.step(event)
        for learner in fixed:
            learner.update(event)
    parts = {"calm": np.array(phases) == "calm", "wild": np.array(phases) == "wild"}
    parts["all"] = parts["calm"] | parts["wild"]
    return tuple(
        {part: np.array(a)[rows].mean(axis=0) - NOISE**2 for part, rows in parts.items()} for a in (ours, theirs)
    )


def print_variations(problem: Problem, step_sizes: np.ndarray, seeds: range = range(100, 102)) -> None:
    """Print the ratio of OCELAD's loss to that of the best fixed step size for other drifts and finest steps."""
    print(
        f"\n{problem.name}: ratio of OCELAD's loss above the noise to the best fixed step size's, {len(seeds)} streams"
    )
    factors = (0.7, 1.0, 1.4)
    print("drift x  " + "".join(f"finest step x {factor:g}".rjust(20) for factor in factors))
    for drift in (0.5, 1.0, 2.0):
        ratios = []
        for factor in factors:
            other = problem._replace(wild_drift=drift * problem.wild_drift, finest_step=factor * problem.finest_step)
            runs = [excess_losses(other, seed, step_sizes) for seed in seeds]
            ratios.append(np.mean([ours["all"] / theirs["all"].min() for ours, theirs in runs]))
        print(f"{drift:<9g}" + "".join(f"{ratio:20.2f}" for ratio in ratios))


def main(seeds: range = range(100, 110)) -> None:
    for problem, largest in PROBLEMS:
        step_sizes = np.geomspace(0.002, largest, 24)
        runs = [excess_losses(problem, seed, step_sizes) for seed in track(seeds, problem.name, transient=True)]
        ours = {part: np.mean([run[0][part] for run in runs]) for part in ("calm", "wild", "all")}
        theirs = {part: np.mean([run[1][part] for run in runs], axis=0) for part in ("calm", "wild", "all")}
        best = {part: int(losses.argmin()) for part, losses in theirs.items()}
        wins = sum(run[0]["all"] < run[1]["all"].min() for run in runs)
        print(f"\n{problem.name}: mean loss above the noise, {len(runs)} streams")
        print(f"{'':42}{'calm':>9}{'wild':>9}{'all':>9}")
        rows = [("OCELAD", ours)]
        rows += [
            (f"fixed {step_sizes[k]:.3f} (best in hindsight, {part})", {p: theirs[p][k] for p in theirs})
            for part, k in best.items()
        ]
        for name, losses in rows:
            print(f"{name:42}" + "".join(f"{losses[part]:9.3f}" for part in ("calm", "wild", "all")))
        print(f"OCELAD loses less than every fixed step size on {wins} of {len(runs)} streams")


if __name__ == "__main__":
    if sys.argv[1:] == ["--variations"]:
        for problem, largest in PROBLEMS:
            print_variations(problem, np.geomspace(0.002, largest, 24))
    else:
        main()
