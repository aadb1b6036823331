"""Measure searches by a metric that moves: are they right, and how fast are they?

    python benchmarks/moving_index.py stream [--answers 5000]
    python benchmarks/moving_index.py threads
    python benchmarks/moving_index.py backends [--items 200000]
    python benchmarks/moving_index.py million [--items 1000000]

stream: one answer, one search, and so on; the question changes half way. Each result of the exact backend is compared
with measuring all items. Beside it: embedding all items by the new metric and scanning them, as one does without an
index that can follow, in double precision (``metric.embed``) and, faster, in single precision; and 100 searches at one
metric. Items are reviews (LSA-300), digits, and isotropic vectors, which no bound can prune.

threads: two threads search without a pause while a third learns: the median and the 99 % quantile of their times.

backends: indexes of other libraries: recall@10 at sampled moments, renewals, searches a second.

million: a million vectors of 384 numbers, the exact backend and faiss (IVF) while the metric moves, beside brute force
and building anew at every metric; memory beside the vectors.
"""

from __future__ import annotations

import os
import resource
import time
from collections.abc import Callable, Iterator
from threading import Event, Thread
from typing import Any, NamedTuple

import click
import numpy as np
from results import save, show
from rich.console import Console
from rich.progress import track

from ocelad import MetricTracker
from ocelad.lab.compare.few_answers import BENCHMARKS
from ocelad.neighbors import MovingIndex

K = 10


class Course(NamedTuple):
    """Items, and the classes by which questions are answered, before and after a change."""

    items: np.ndarray
    classes: tuple[np.ndarray, np.ndarray]


def labelled(*names: str) -> Course:
    """Return the items of a benchmark, as single precision, and the classes of two."""
    sets = [BENCHMARKS[f"{name}/natural"].load(0) for name in names]
    points = sets[0].prepare(sets[0].X, np.arange(len(sets[0])))
    first, second = (np.unique(one.classes, return_inverse=True)[1] for one in (sets[0], sets[-1]))
    return Course(points.astype(np.float32), (first, second))


def isotropic(n_items: int, n_features: int = 384) -> Course:
    """Return items without any structure; the question is the sign of a feature."""
    items = np.random.default_rng(0).standard_normal((n_items, n_features), dtype=np.float32)
    return Course(items, (items[:, 0] > 0, items[:, 1] > 0))


def embedded(n_items: int, n_features: int = 384) -> Course:
    """Return items like embeddings: 32 directions with falling variances, and noise in all."""
    rng = np.random.default_rng(0)
    latent = rng.standard_normal((n_items, 32), dtype=np.float32) / np.sqrt(np.arange(1, 33, dtype=np.float32))
    items = latent @ rng.standard_normal((32, n_features), dtype=np.float32)
    for first in range(0, n_items, 65_536):
        block = items[first : first + 65_536]
        block += 0.3 * rng.standard_normal(block.shape, dtype=np.float32)
    return Course(items, (latent[:, 0] > 0, latent[:, 1] > 0))


COURSES: dict[str, Callable[[], Course]] = {
    "reviews, LSA-300": lambda: labelled("reviews-300-sentiment", "reviews-300-type"),
    "digits": lambda: labelled("digits-loop", "digits-parity"),
    "isotropic, 384": lambda: isotropic(10_000),
}


def learn(tracker: MetricTracker, course: Course, n_answers: int) -> Iterator[int]:
    """Let a tracker learn from answers about random pairs, which mean something else in the second half."""
    rng = np.random.default_rng(1)
    for t in range(n_answers):
        classes = course.classes[0 if t < n_answers // 2 else 1]
        i, j = rng.integers(len(course.items), size=2).tolist()
        tracker.learn_one(course.items[i], course.items[j], bool(classes[i] == classes[j]))
        yield t


def timed(run: Callable[..., Any], *arguments: Any) -> tuple[Any, float]:
    """Return what a function returns, and its time in milliseconds."""
    start = time.perf_counter()
    result = run(*arguments)
    return result, 1e3 * (time.perf_counter() - start)


def scan(metric: Any, items: np.ndarray, query: np.ndarray, kind: Any) -> np.ndarray:
    """Embed all items by a metric and measure them all."""
    if kind == np.float64:
        points, point = metric.embed(items), metric.embed(query)
    else:
        components = metric.components.astype(np.float32)
        points, point = items @ components.T, components @ query.astype(np.float32)
    squares = np.square(points - point).sum(axis=1)
    return np.argpartition(squares, K)[:K]


def stream(n_answers: int, console: Console) -> list[dict[str, Any]]:
    table = []
    for name, make in COURSES.items():
        course = make()
        items = course.items.astype(np.float64)
        tracker = MetricTracker().start(items.shape[1])
        index = MovingIndex(course.items, tracker)
        queries = np.random.default_rng(2)
        times: dict[str, list[float]] = {"search": [], "embed": [], "single": [], "hundred": []}
        wrong = 0
        for t in track(learn(tracker, course, n_answers), name, n_answers, console=console):
            query = items[queries.integers(len(items))] + 1e-3 * queries.normal(size=items.shape[1])
            metric = tracker.metric_
            found, elapsed = timed(index.search, query, K)
            times["search"].append(elapsed)
            truth = np.sort(metric.distance(items, query))[:K]
            wrong += not np.allclose(found.distances, truth, rtol=1e-9, atol=1e-12)
            if t % (n_answers // 50) == 0:
                times["embed"].append(timed(scan, metric, items, query, np.float64)[1])
                times["single"].append(timed(scan, metric, course.items, query, np.float32)[1])
                some = items[queries.integers(len(items), size=100)]
                times["hundred"].append(timed(index.search, some, K)[1])
        medians = {key: float(np.median(values)) for key, values in times.items()}
        table.append(
            {
                "items": f"{name}: {len(items):,} x {items.shape[1]}",
                "answers": n_answers,
                "wrong results": wrong,
                "search ms": medians["search"],
                "99 % ms": float(np.quantile(times["search"], 0.99)),
                "embed and scan ms": medians["embed"],
                "in float32 ms": medians["single"],
                "ratio": medians["embed"] / medians["search"],
                "ratio float32": medians["single"] / medians["search"],
                "100 more searches ms": medians["hundred"],
                "memory": index.n_bytes / course.items.nbytes,
            }
        )
    return table


def threads(console: Console) -> list[dict[str, Any]]:
    table = []
    for name, make in COURSES.items():
        course = make()
        tracker = MetricTracker().start(course.items.shape[1])
        index, done = MovingIndex(course.items, tracker), Event()
        times: list[float] = []

        def search(
            seed: int, index: Any = index, items: Any = course.items, done: Any = done, out: Any = times
        ) -> None:
            rng = np.random.default_rng(seed)
            while not done.is_set():
                out.append(timed(index.search, items[rng.integers(len(items))], K)[1])

        workers = [Thread(target=search, args=(seed,)) for seed in (1, 2)]
        for worker in workers:
            worker.start()
        start = time.perf_counter()
        for _ in track(learn(tracker, course, 500), name, 500, console=console):
            time.sleep(0.01)
        done.set()
        for worker in workers:
            worker.join()
        seconds = time.perf_counter() - start
        table.append(
            {
                "items": name,
                "answers a second": 500 / seconds,
                "searches a second": len(times) / seconds,
                "median ms": float(np.median(times)),
                "99 % ms": float(np.quantile(times, 0.99)),
            }
        )
    return table


def backends(n_items: int, n_answers: int, console: Console) -> list[dict[str, Any]]:
    table = []
    course = embedded(n_items)
    for name, options in [("faiss", {"kind": "ivf"}), ("faiss", {"kind": "hnsw"}), ("usearch", {}), ("lancedb", {})]:
        tracker = MetricTracker().start(course.items.shape[1])
        exact = MovingIndex(course.items, tracker)
        index, build = timed(_built, course.items, tracker, name, options)
        rng = np.random.default_rng(2)
        times, recalls = [], []
        title = f"{name} {options.get('kind', '')}".strip()
        for t in track(learn(tracker, course, n_answers), title, n_answers, console=console):
            query = course.items[rng.integers(n_items)] + rng.normal(scale=0.1, size=course.items.shape[1])
            found, elapsed = timed(index.search, query, K)
            times.append(elapsed)
            if t % 20 == 19:
                recalls.append(np.isin(exact.search(query, K).ids, found.ids).mean())
        table.append(
            {
                "backend": title,
                "items": n_items,
                "answers": n_answers,
                "build s": build / 1e3,
                "recall@10": float(np.mean(recalls)),
                "renewals": index.n_renewals,
                "median ms": float(np.median(times)),
                "99 % ms": float(np.quantile(times, 0.99)),
                "searches a second": 1e3 / float(np.mean(times)),
            }
        )
        index.check_recall()  # waits for the background
    return table


def _built(items: np.ndarray, tracker: MetricTracker, name: str, options: dict[str, Any]) -> MovingIndex:
    index = MovingIndex(items, tracker, backend=name, options=options)
    index.search(items[0], K)
    return index


def million(n_items: int, n_answers: int, console: Console) -> list[dict[str, Any]]:
    table = []
    course = embedded(n_items)
    tasks = [("exact", False), ("exact", True), ("faiss", False)]
    for name, curved in tasks:
        tracker = MetricTracker(curved=curved).start(course.items.shape[1], items=course.items[:5000])
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        index, build = timed(_built, course.items, tracker, name, {})
        rng = np.random.default_rng(2)
        times, many = [], []
        title = f"{name}{', curved' if curved else ''}"
        for t in track(learn(tracker, course, n_answers), title, n_answers, console=console):
            query = course.items[rng.integers(n_items)] + rng.normal(scale=0.1, size=course.items.shape[1])
            times.append(timed(index.search, query, K)[1])
            if t % 50 == 49:
                some = course.items[rng.integers(n_items, size=64)]
                many.append(timed(index.search, some, K)[1] / 64)
        metric, query64 = tracker.metric_, course.items[0].astype(np.float64)
        brute = [timed(_brute, metric, course.items, query64)[1] for _ in range(3)]
        table.append(
            {
                "backend": title,
                "items": n_items,
                "answers": n_answers,
                "build s": build / 1e3,
                "search ms": float(np.median(times)),
                "99 % ms": float(np.quantile(times, 0.99)),
                "searches a second": 1e3 / float(np.mean(times)),
                "64 at one metric, ms each": float(np.median(many)),
                "brute force ms": float(np.median(brute)),
                "build anew ms": build,
                "memory": 1.0 + index.n_bytes / course.items.nbytes,
                "peak": (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) * 1024 / course.items.nbytes,
                "renewals": index.n_renewals,
            }
        )
        index.check_recall()
    return table


def _brute(metric: Any, items: np.ndarray, query: np.ndarray) -> np.ndarray:
    """Measure all items by the metric, in blocks."""
    blocks = (items[first : first + 8192].astype(np.float64) for first in range(0, len(items), 8192))
    squares = np.concatenate([metric.squared_distance(block, query) for block in blocks])
    return np.argpartition(squares, K)[:K]


@click.command()
@click.argument("part", type=click.Choice(["stream", "threads", "backends", "million"]))
@click.option("--answers", type=click.IntRange(50), help="The number of answers.  [default: 5000, 600 or 200]")
@click.option("--items", type=click.IntRange(1000), help="The number of items.  [default: 200000 or 1000000]")
def main(part: str, answers: int | None, items: int | None) -> None:
    """Run a part, print its table and save it."""
    console = Console(width=200)
    tables: dict[str, Callable[[], list[dict[str, Any]]]] = {
        "stream": lambda: stream(answers or 5000, console),
        "threads": lambda: threads(console),
        "backends": lambda: backends(items or 200_000, answers or 600, console),
        "million": lambda: million(items or 1_000_000, answers or 200, console),
    }
    table = tables[part]()
    show(console, f"Neighbours by a metric that moves: {part} ({os.cpu_count()} cores)", table)
    console.print(f"Written to {save(f'moving-index-{part}', {}, table)}")


if __name__ == "__main__":
    main()
