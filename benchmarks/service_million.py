"""Measure the service with a million items of 384 float32 numbers: neighbours, the map and the next pair.

    python benchmarks/service_million.py [--items 1000000] [--answers 50]

The items are of 50 classes. A project of them is created in a temporary folder, and the service is closed and opened
again, so that the vectors are mapped into memory. Then answers are given to the pairs that the service chooses. After
each answer, once it has been learned from, the next pair, the neighbours of an item and the map are asked for. No HTTP
is involved. "first" is the first request after the start, which computes what later ones use.

The memory is what the process has after all answers, less what it had before it opened the project: *private* memory,
and all of it with the mapped vectors, which the system may drop and read again. Both are relative to the size of the
vectors.
"""

from __future__ import annotations

import gc
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter
from typing import Any

import click
import numpy as np
from results import save, show
from rich.console import Console

from ocelad.service.entries import NewEntry
from ocelad.service.items import fit_scaling
from ocelad.service.itemset import ItemSet
from ocelad.service.serialize import item_map
from ocelad.service.served_project import ServedProject
from ocelad.service.service import Service
from ocelad.service.settings import Settings

N_FEATURES, N_CLASSES = 384, 50
BLOCK_ROWS = 10_000


def make_items(n_items: int) -> tuple[ItemSet, np.ndarray]:
    """Return items of some classes, and the class of each."""
    rng = np.random.default_rng(0)
    classes = rng.integers(N_CLASSES, size=n_items)
    centers = rng.normal(size=(N_CLASSES, N_FEATURES)).astype(np.float32)
    vectors = np.empty((n_items, N_FEATURES), dtype=np.float32)
    for first in range(0, n_items, BLOCK_ROWS):
        rows = slice(first, min(first + BLOCK_ROWS, n_items))
        noise = rng.standard_normal((rows.stop - first, N_FEATURES), dtype=np.float32)
        vectors[rows] = centers[classes[rows]] + 2.0 * noise
    ids, names = tuple(map(str, range(n_items))), tuple(f"x{i}" for i in range(N_FEATURES))
    return ItemSet(ids, vectors, names, fit_scaling(vectors, "all")), classes


def memory_of_process() -> dict[str, int]:
    """Return the bytes of memory by kind, as Linux reports them: ``RssAnon`` is private, ``VmRSS`` is all."""
    lines = (line.split() for line in Path("/proc/self/status").read_text().splitlines())
    return {words[0].rstrip(":"): 1024 * int(words[1]) for words in lines if len(words) == 3 and words[2] == "kB"}


def elapsed(call: Callable[[], Any]) -> tuple[float, Any]:
    """Return the milliseconds that a call takes, and its result."""
    start = perf_counter()
    result = call()
    return 1e3 * (perf_counter() - start), result


def create(settings: Settings, n_items: int) -> tuple[float, np.ndarray]:
    """Create the project; return the seconds that it takes, and the class of each item."""
    items, classes = make_items(n_items)
    service = Service.open(settings)
    creation, _ = elapsed(lambda: service.create("million", "Million", items))
    service.close()
    return creation / 1e3, classes


def answer(service: Service, project: ServedProject, classes: np.ndarray) -> dict[str, float]:
    """Let the service choose a pair, answer it, and return the times of all requests after the answer."""
    times: dict[str, float] = {}
    times["next pair"], choice = elapsed(lambda: project.chooser.next(project.view))
    same = "same" if classes[choice.left] == classes[choice.right] else "different"
    start = perf_counter()
    service.store.append(project.id, [NewEntry(choice.left, choice.right, same, choice.source)]).result()
    times["store the answer"] = 1e3 * (perf_counter() - start)
    project.learner.wait(project.seq, 60)
    times["answer until learned"] = 1e3 * (perf_counter() - start)
    view = project.view
    times["neighbours"], _ = elapsed(lambda: view.neighbors(choice.left, 10))
    times["neighbours, same view"], _ = elapsed(lambda: view.neighbors(choice.right, 10))
    times["map"], _ = elapsed(lambda: item_map(view, None))
    times["clusters"], _ = elapsed(lambda: view.clusters(10))
    return times


@click.command()
@click.option("--items", default=1_000_000, show_default=True, type=click.IntRange(100), help="The number of items.")
@click.option("--answers", default=50, show_default=True, type=click.IntRange(2), help="The number of answers.")
def main(items: int, answers: int) -> None:
    """Measure all requests and print the tables."""
    console = Console(width=120)
    with TemporaryDirectory() as folder:
        settings = Settings(folder=Path(folder))
        creation, classes = create(settings, items)
        gc.collect()  # the mapped vectors of the closed service
        on_disk = sum(file.stat().st_size for file in Path(folder).rglob("*") if file.is_file())
        before = memory_of_process()
        loading, service = elapsed(lambda: Service.open(settings))
        project = service.project("million")
        rounds = [answer(service, project, classes) for _ in range(answers)]
        memory = memory_of_process()
        service.close()
    n_bytes = 4 * items * N_FEATURES
    facts = {
        "create, s": creation,
        "load, s": loading / 1e3,
        "disk / vectors": on_disk / n_bytes,
        "private memory / vectors": (memory["RssAnon"] - before["RssAnon"]) / n_bytes,
        "all memory / vectors": (memory["VmRSS"] - before["VmRSS"]) / n_bytes,
    }
    rows = [
        {
            "ms": name,
            "first": rounds[0][name],
            "median": float(np.median([times[name] for times in rounds[1:]])),
            "max": max(times[name] for times in rounds[1:]),
        }
        for name in rounds[0]
    ]
    show(console, f"A project of {items:,} items with {N_FEATURES} features", [facts])
    show(console, f"Requests after each of {answers} answers", rows)
    path = save("service_million", {"items": items, "answers": answers, **facts}, rows)
    console.print(f"Written to {path}")


if __name__ == "__main__":
    main()
