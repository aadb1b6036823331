"""Measure how long ``PairChooser.next`` takes with many items, before and after some answers.

    python benchmarks/choice_time.py [--items 100000]

The items have 10 classes, or so many that no group is probable: then all ways to choose are tried in turn. The distance
is curved, as in new projects of the service. The CPU time of 100 choices is measured, each followed by its answer. One
in ten answers is wrong, so that there are contradictions to settle.
"""

from __future__ import annotations

from collections import Counter
from time import process_time

import click
import numpy as np
from results import save, show
from rich.console import Console

from ocelad import MetricTracker, PairChooser
from ocelad.choice import TrackerView

N_CHOICES = 100
# The first answers are about chosen pairs, and the tracker learns from them; the others are recorded only.
N_LEARNED = 30


def measure(n_items: int, n_features: int, n_classes: int, n_answers: int) -> dict[str, float | str]:
    """Return the times of choices after a number of answers."""
    rng = np.random.default_rng(0)
    classes = rng.integers(n_classes, size=n_items)
    items = 2.0 * rng.normal(size=(n_classes, n_features))[classes] + rng.normal(size=(n_items, n_features))
    tracker = MetricTracker(curved=True, preprocessor=items).start(n_features, items=items[:5000])
    chooser, view = PairChooser(n_items, seed=0), TrackerView(tracker, items)

    def answer(left: int, right: int) -> bool:
        same = bool(classes[left] == classes[right]) != (rng.random() < 0.1)
        chooser.record(left, right, "same" if same else "different")
        return same

    for _ in range(min(n_answers, N_LEARNED)):
        choice = chooser.next(view)
        tracker.partial_fit([[choice.left, choice.right]], [answer(choice.left, choice.right)])
        view = TrackerView(tracker, items)
    for item in range(n_answers - N_LEARNED):
        answer(item, int(rng.integers(item + 1, item + 50)))
    chooser.next(view)  # adds the recorded answers to the graph
    times, sources = [], Counter[str]()
    for _ in range(N_CHOICES):
        start = process_time()
        choice = chooser.next(view)
        times.append(1e3 * (process_time() - start))
        sources[choice.source] += 1
        answer(choice.left, choice.right)
    return {
        "features": n_features,
        "classes": n_classes,
        "answers": n_answers,
        "median ms": float(np.median(times)),
        "99 % ms": float(np.quantile(times, 0.99)),
        "max ms": max(times),
        "sources": ", ".join(f"{count} {source}" for source, count in sources.most_common()),
    }


@click.command()
@click.option("--items", default=100_000, show_default=True, type=click.IntRange(100), help="The number of items.")
def main(items: int) -> None:
    """Measure all cases and print the table."""
    console = Console(width=140)
    rows = [
        measure(items, n_features, n_classes, n_answers)
        for n_features in (25, 300)
        for n_classes in (10, items // 5)
        for n_answers in (0, 100, 2000)
    ]
    show(console, f"Choice of a pair of {items} items", rows)
    console.print(f"Written to {save('choice_time', {'items': items}, rows)}")


if __name__ == "__main__":
    main()
