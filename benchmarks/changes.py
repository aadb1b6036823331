"""Compare the change detection of the adaptive tracker with River's detectors on the tracker's own log loss.

    python benchmarks/changes.py [--seeds 20] [--static-pairs 20000]

All detectors see the same streams, with seeds that were never used for tuning:

- wine: from pair 600 on, "same" means "both or neither in class 2" instead of class 0; found within 200 pairs;
- S1 and S5, drifting streams of the adaptivity suite whose switches are known; found within 150 rounds;
- static pairs of several data sets, where every detection is a false alarm; with OCELAD_DATA set also product reviews
  as sparse counts of 2369 words, compared by sentiment and by type.

Page-Hinkley and ADWIN have River's default settings. Detections within 100 rounds are one.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Iterator
from typing import Any

import numpy as np
from results import save, show
from rich.console import Console
from river.drift import ADWIN, PageHinkley
from sklearn import datasets
from sklearn.preprocessing import StandardScaler

from ocelad import track_adaptive
from ocelad.evaluation.streams.pair_sampling import draw_pairs
from ocelad.evaluation.streams.reviews.load import find_review_folder, load_reviews
from ocelad.lab.compare.datasets import PAPER_N_WORDS
from ocelad.lab.compare.few_answers.answer_benchmarks import ANSWER_BENCHMARKS
from ocelad.lab.compare.suite import BENCHMARKS, FIRST_TEST_SEED
from ocelad.lab.trials import map_trials
from ocelad.pairs import Events

SWITCH, N_AFTER, WITHIN_WINE, WITHIN_STREAM, GAP = 600, 600, 200, 150, 100
STREAMS = ("S1", "S5")
STATIC = ("wine", "iris", "breast-cancer", "digits-pca", "image-segments", "phishing", "rare-0.2%", "isotropic")
REVIEWS = ("reviews, sentiment", "reviews, type")


class Detections:
    """The rounds at which each detector reports a change of one stream."""

    def __init__(self, n_features: int, *, sparse: bool = False) -> None:
        self._tracker = track_adaptive(n_features, sparse=sparse)
        self._rivals = {"Page-Hinkley": PageHinkley(), "ADWIN": ADWIN()}
        self.rounds: dict[str, list[int]] = {"ours": [], **{name: [] for name in self._rivals}}

    def learn(self, events: Events) -> None:
        """Let the tracker learn, and the other detectors see its log losses."""
        first = self._tracker.n_rounds
        losses = np.logaddexp(0.0, -self._tracker.replay(events))
        self.rounds["ours"] = [change.detected for change in self._tracker.changes]
        for i, loss in enumerate(losses.tolist()):
            for name, detector in self._rivals.items():
                detector.update(loss)
                found = self.rounds[name]
                if detector.drift_detected and (not found or first + i + 1 - found[-1] > GAP):
                    found.append(first + i + 1)


def wine(seed: int) -> tuple[dict[str, list[int]], list[int]]:
    """Return the detections, and the switches."""
    X, classes = datasets.load_wine(return_X_y=True)
    X = StandardScaler().fit_transform(X)
    detections = Detections(X.shape[1])
    for part, (label, n_pairs) in enumerate(((0, SWITCH), (2, N_AFTER))):
        left, right, y = draw_pairs((classes == label).astype(int), n_pairs, 2 * seed + part)
        detections.learn(Events(X[left] - X[right], y))
    return detections.rounds, [SWITCH]


def stream(task: tuple[str, int]) -> tuple[dict[str, list[int]], list[int]]:
    """Return the detections on a stream of the suite, and its switches."""
    name, seed = task
    source = BENCHMARKS[name].stream
    detections, switches = Detections(source.n_features), []
    for block in source.blocks(seed, 100):
        switches += [block.round + at for at in block.changes]
        detections.learn(block.events)
    return detections.rounds, switches


def static(task: tuple[str, int, int]) -> dict[str, list[int]]:
    """Return the detections on pairs of a data set; all are false alarms."""
    name, seed, n_pairs = task
    if name in REVIEWS:
        reviews = load_reviews(find_review_folder(), n_words=PAPER_N_WORDS)
        X, classes, balanced = reviews.points(), reviews.labels(name.removeprefix("reviews, ")), False
    else:
        points, balanced = ANSWER_BENCHMARKS[name].load(seed), ANSWER_BENCHMARKS[name].balanced
        X, classes = points.prepare(points.X, np.arange(len(points))), points.classes
    left, right, y = draw_pairs(classes, n_pairs, seed, balanced=balanced)
    detections = Detections(X.shape[1], sparse=name in REVIEWS)
    for part in _blocks(n_pairs):
        detections.learn(Events(X[left[part]] - X[right[part]], y[part]))
    return detections.rounds


def _blocks(n_pairs: int, size: int = 2000) -> Iterator[slice]:
    return (slice(first, min(first + size, n_pairs)) for first in range(0, n_pairs, size))


def summarize(name: str, results: list[Any], within: int) -> list[dict[str, Any]]:
    """Return one row per detector for streams with switches."""
    rows = []
    for detector in results[0][0]:
        delays, n_switches, n_false = [], 0, 0
        for found, switches in results:
            left = list(found[detector])
            for switch in switches:
                n_switches += 1
                hits = [at for at in left if 0 < at - switch <= within]
                delays += [hits[0] - switch] if hits else []
                left = [at for at in left if at not in hits]
            n_false += len(left)
        delay = float(np.median(delays)) if delays else float("nan")
        rows.append(
            {
                "stream": name,
                "detector": detector,
                "switches": n_switches,
                "found": len(delays),
                "median delay": delay,
                "false alarms": n_false,
            }
        )
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--static-pairs", type=int, default=20_000)
    arguments = parser.parse_args()
    seeds = range(FIRST_TEST_SEED, FIRST_TEST_SEED + arguments.seeds)
    console = Console(width=140)
    rows = summarize("wine", map_trials(wine, list(seeds)), WITHIN_WINE)
    for name in STREAMS:
        rows += summarize(name, map_trials(stream, [(name, seed) for seed in seeds]), WITHIN_STREAM)
    show(console, "Streams with switches", rows)
    names = [f"{name}/{kind}" for name in STATIC for kind in ("natural", "balanced")]
    names += REVIEWS if os.environ.get("OCELAD_DATA") else ()
    alarms = map_trials(static, [(name, FIRST_TEST_SEED, arguments.static_pairs) for name in names])
    quiet = [
        {"pairs": name, **{detector: len(found) for detector, found in each.items()}}
        for name, each in zip(names, alarms, strict=True)
    ]
    show(console, f"False alarms in {arguments.static_pairs} static pairs", quiet)
    settings = {"seeds": [seeds[0], seeds[-1]], "static pairs": arguments.static_pairs, "static": quiet}
    console.print(f"Written to {save('changes', settings, rows)}")


if __name__ == "__main__":
    main()
