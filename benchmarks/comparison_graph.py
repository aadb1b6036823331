"""Measure the ComparisonGraph: the time per answer, its memory, and the times to undo an answer and to load a state.

    python benchmarks/comparison_graph.py
    python benchmarks/comparison_graph.py --answers 100000

In every stream a tenth of the answers is wrong:

- linking: every answer compares a new item with the representative of its group, or of another one;
- random pairs: half as many items as answers, in groups of ten; half of the pairs are from one group;
- few items: random pairs of 1000 items in ten groups, so that most answers are implied or contradict others;
- one group: all items are compared with one representative, once "same" and once "different".

Times are CPU times. The memory is the growth of the resident set of a new process, without the ids.
"""

from __future__ import annotations

import argparse
import multiprocessing
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from resource import getpagesize
from typing import Any

import numpy as np
from results import save, show
from rich.console import Console

from ocelad import ComparisonGraph

WRONG = 0.1
Answers = list[tuple[int, int, bool]]


def linking(n: int, rng: np.random.Generator) -> Answers:
    n_groups = max(n // 100, 2)
    true, same = rng.integers(n_groups, size=n), rng.random(n) < 0.5
    other = (true + rng.integers(1, n_groups, size=n)) % n_groups
    representatives = np.where(same, true, other)
    return _as_answers(n_groups + np.arange(n), representatives, same, rng)


def random_pairs(n: int, rng: np.random.Generator, n_items: int | None = None, group_size: int = 10) -> Answers:
    n_items = n_items or max(n // 2, 2 * group_size)
    left, right = rng.integers(n_items, size=(2, n))
    near = left // group_size * group_size + rng.integers(group_size, size=n)
    right = np.where(rng.random(n) < 0.5, np.minimum(near, n_items - 1), right)
    right = np.where(left == right, (right + 1) % n_items, right)
    return _as_answers(left, right, left // group_size == right // group_size, rng)


def few_items(n: int, rng: np.random.Generator) -> Answers:
    return random_pairs(n, rng, n_items=1000, group_size=100)


def one_group(n: int, rng: np.random.Generator) -> Answers:
    items = 1 + np.arange(n) % (n // 2)
    return _as_answers(np.zeros(n, dtype=np.int64), items, np.arange(n) < n // 2, rng)


def _as_answers(left: Any, right: Any, same: Any, rng: np.random.Generator) -> Answers:
    answers = same ^ (rng.random(len(same)) < WRONG)
    return list(zip(left.tolist(), right.tolist(), answers.tolist(), strict=True))


def resident_bytes() -> int:
    """Return the size of the resident set; 0 where the system does not tell it."""
    path = Path("/proc/self/statm")
    return int(path.read_text().split()[1]) * getpagesize() if path.exists() else 0


def seconds(call: Callable[[], object]) -> float:
    start = time.process_time()
    call()
    return time.process_time() - start


def measure(name: str, make: Callable[[int, np.random.Generator], Answers], n: int) -> dict[str, Any]:
    answers, graph = make(n, np.random.default_rng(0)), ComparisonGraph()
    before, total, worst = resident_bytes(), 0.0, 0.0
    for start in range(0, n, 1000):
        taken = seconds(lambda start=start: [graph.add(*answer) for answer in answers[start : start + 1000]])
        total, worst = total + taken, max(worst, taken)
    memory = resident_bytes() - before
    row = {
        "stream": name,
        "items": graph.n_items,
        "groups": graph.n_groups,
        "µs per answer": 1e6 * total / n,
        "worst 1000": 1e3 * worst,
        "MB": memory / 1e6,
        "undo, s": seconds(lambda: graph.undo(n // 2)),
        "n_implied, s": seconds(lambda: graph.n_implied),
        "draw 1000, s": seconds(lambda: graph.draw_implied(1000, np.random.default_rng(0))),
    }
    state = graph.state()
    return row | {"from_state, s": seconds(lambda: ComparisonGraph.from_state(*state))}


STREAMS = {"linking": linking, "random pairs": random_pairs, "few items": few_items, "one group": one_group}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--answers", type=int, default=1_000_000, help="answers per stream (default: 1,000,000)")
    n = max(parser.parse_args().answers, 10)
    rows = []
    for name, make in STREAMS.items():  # a new process each, for its memory
        with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as pool:
            rows.append(pool.submit(measure, name, make, n).result())
    console = Console(width=140)
    show(console, f"{n:,} answers; the time of the worst 1000 answers is in ms", rows)
    console.print(f"Saved {save('comparison_graph', {'answers': n, 'wrong': WRONG}, rows)}")


if __name__ == "__main__":
    main()
