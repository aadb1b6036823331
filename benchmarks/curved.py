"""Measure curved distances: time per pair and size of the state, and what renewing the map gains when points move.

    python benchmarks/curved.py [--seeds 10]

Times are CPU times on one thread, of the linear and of the curved tracker in turns in one process, as medians over the
turns. In the moving stream the question is whether two points have the same sign of ``sin``, so that only a curved
distance answers it. After half of the stream the points move away from the first landmarks. The table shows the share
of wrong predictions in the 500 pairs before the move, in the first 500 after it and in the last 500: with a map that is
renewed and carries over what was learned, with one that is renewed and begins anew, and with one that stays.
"""

from __future__ import annotations

import argparse
import time
from copy import copy
from statistics import median
from typing import Any

import numpy as np
from results import save, show
from rich.console import Console
from threadpoolctl import threadpool_limits

from ocelad._typing import Floats
from ocelad.adaptive import curved_tracker
from ocelad.adaptive.curved_tracker import CurvedTracker
from ocelad.adaptive.track_adaptive import track_adaptive
from ocelad.feature_maps import LandmarkMap
from ocelad.lab.statistics import estimate_mean
from ocelad.pairs import PointPairs

WARM_UP, TURNS, ROUNDS = 1024, 7, 1024
FEATURES, LANDMARKS = (3, 10, 25, 100, 384, 1536), (25, 50, 100, 200)
#: The largest CPU time in microseconds and state in KB at 25 features and 100 landmarks.
TARGETS = {"us curved": 120, "KB": 250}
FIRST_SEED, STREAM_ROUNDS, WINDOW = 6000, 6000, 500
#: Two periods of the question, so that it stays the same.
SHIFT = 4.0 * np.pi


def _pairs(n: int, rounds: int) -> PointPairs:
    rng = np.random.default_rng(0)
    X, Z = rng.normal(size=(2, rounds, n))
    inside = [np.square(points[:, :2]).sum(axis=1) < 1.4 for points in (X, Z)]
    return PointPairs(X, Z, inside[0] == inside[1])


def measure(n: int, n_landmarks: int) -> dict[str, Any]:
    """Return the times per pair and the size of the state for a number of features and landmarks."""
    curved_tracker.N_LANDMARKS = n_landmarks
    pairs = _pairs(n, WARM_UP + TURNS * ROUNDS)
    linear, curved = track_adaptive(n), CurvedTracker(n)
    linear.replay(pairs[:WARM_UP].events())
    curved.replay(pairs[:WARM_UP])
    times: dict[str, list[float]] = {"linear": [], "curved": []}
    for turn in range(TURNS):
        part = pairs[WARM_UP + turn * ROUNDS : WARM_UP + (turn + 1) * ROUNDS]
        for name, tracker, events in (("linear", linear, part.events()), ("curved", curved, part)):
            start = time.process_time()
            tracker.replay(events)  # type: ignore[arg-type]
            times[name].append(1e6 * (time.process_time() - start) / ROUNDS)
    size = sum(array.nbytes for array in curved.state()[0].values())
    return {
        "n": n,
        "landmarks": n_landmarks,
        "us linear": median(times["linear"]),
        "us curved": median(times["curved"]),
        "KB": size / 1e3,
    }


class _Restarting(CurvedTracker):
    """Renews its map, but forgets what was learned in the features before."""

    def _carry_over(self, pairs: PointPairs, weights: Floats, before: LandmarkMap) -> None:
        assert self._map is not None
        nothing = np.zeros((before.n_outputs, self._map.n_outputs))
        self._tracker.renew_curved(self._extended(pairs[-1:], 1), 0.0 * weights[-1:], nothing)


class _Staying(CurvedTracker):
    """Never renews its map when points move."""

    def _renew_map(self) -> None:
        if self.n_rounds <= self._recent.capacity:
            super()._renew_map()


def moving_errors(kind: type[CurvedTracker], seed: int) -> list[float]:
    """Return the errors before the move, after it and at the end."""
    rng = np.random.default_rng(seed)
    half, tracker = STREAM_ROUNDS // 2, kind(2)
    X, Z = rng.uniform(-3.0, 3.0, size=(2, STREAM_ROUNDS, 2))
    X[half:, 0] += SHIFT
    Z[half:, 0] += SHIFT
    same = np.sign(np.sin(X[:, 0])) == np.sign(np.sin(Z[:, 0]))
    wrong = tracker.replay(PointPairs(X, Z, same)) <= 0.0
    parts = (slice(half - WINDOW, half), slice(half, half + WINDOW), slice(-WINDOW, None))
    return [100.0 * float(wrong[part].mean()) for part in parts]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=10)
    seeds = range(FIRST_SEED, FIRST_SEED + parser.parse_args().seeds)
    default = copy(curved_tracker.N_LANDMARKS)
    with threadpool_limits(1):
        by_features = [measure(n, default) for n in FEATURES]
        by_landmarks = [measure(25, n_landmarks) for n_landmarks in LANDMARKS]
    curved_tracker.N_LANDMARKS = default
    console = Console()
    show(console, "Curved distances: CPU time on one thread, size of the state", by_features)
    show(console, "By the number of landmarks", by_landmarks)
    reference = next(row for row in by_features if row["n"] == 25)
    for name, limit in TARGETS.items():
        outcome = "met" if reference[name] <= limit else "missed"
        console.print(f"25 features, {default} landmarks: {name} {reference[name]:.0f}, at most {limit}: {outcome}")
    moving = []
    for name, kind in (("renewed, carried over", CurvedTracker), ("renewed, anew", _Restarting), ("fixed", _Staying)):
        errors = np.array([moving_errors(kind, seed) for seed in seeds])
        columns = zip(("before", "after", "end"), map(estimate_mean, errors.T), strict=True)
        moving.append({"map": name, **{key: f"{each.mean:.1f} +- {each.standard_error:.1f}" for key, each in columns}})
    show(console, f"Points that move: wrong predictions in %, means over {len(seeds)} seeds", moving)
    rows = [*by_features, *by_landmarks, *moving]
    print(f"Written to {save('curved', {'seeds': [seeds[0], seeds[-1]]}, rows)}")


if __name__ == "__main__":
    main()
