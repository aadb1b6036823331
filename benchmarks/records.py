"""Compare record linkage by ``RecordLinker`` and by dedupe 3.0.3, and measure large tables.

    python benchmarks/records.py [--seeds 10] [--rows 500] [--skip-dedupe] [--large]

The tables are those of ``LinkedTables``: two tables of 500 persons or companies, of which 300 are in both. Questions
are answered by the known links. Both programs choose their questions, and find candidate pairs by rules of their own;
links are one-to-one. The table shows the F1 of the links in %, the mean of the seeds and its standard error: with the
default settings, and with the best threshold in hindsight. The settings of ``RecordLinker`` were chosen on seeds 0 to
5 with 500 to 4000 rows.

- "ocelad, model" are the links by the learned probabilities only, as if nobody had answered about any of them. This is
  comparable with dedupe, which does not credit answers either.
- "ocelad" are the links that ``RecordLinker.links`` returns: answered pairs have the probability 1 or 0.
- "dedupe, pairs of ocelad" are the links of dedupe's classifier among the candidate pairs of ``RecordLinker``, so that
  the rules make no difference.

A second table counts, over all seeds, the links and the candidate pairs without an answer; how many of them are decided
with a promised error of 5 %; how many links have a probability of at least 0.7; and how many of these are wrong.

dedupe is installed into a virtual environment in the cache folder (``OCELAD_CACHE``, or ``~/.cache/ocelad``), and
``records_dedupe.py`` runs there: a variable type for each column as its documentation recommends, its active learning,
its blocking rules learned from the answers, its default threshold 0.5. Its results are stored in that folder, too, and
are not computed again.

``--large`` links two tables of 50,000 rows after 100 answers and shows times, memory, and the recall of blocking.
"""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
import time
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import click
import numpy as np
from results import save, show
from rich.console import Console
from rich.progress import Progress

from ocelad.evaluation.streams import LinkedTables
from ocelad.evaluation.streams.reviews.download import cache_folder
from ocelad.lab.statistics import estimate_mean
from ocelad.records import Links, RecordComparison, RecordLinker, candidate_pairs, read_table
from ocelad.records.blocking import default_rules
from ocelad.records.record_linker import choose_links

SUBJECTS = ("persons", "companies")
FIRST_SEED = 3000
CHECKPOINTS = {"ocelad": (25, 50, 100, 200, 300), "dedupe": (50, 100)}
#: The promised error of decisions, and the probability of links that are called probable.
ERROR, PROBABLE = 0.05, 0.7
#: The least probability of the links among which the best threshold is searched.
LEAST = 0.01
LARGE_ROWS, N_ANSWERS = 50_000, 100
#: What the second table counts.
COUNTS = (
    "links",
    "decided",
    "decided, wrong",
    "probable",
    "probable, wrong",
    "pairs",
    "decided pairs",
    "decided pairs, wrong",
)
#: Versions with which dedupe runs; it does not run with the current BTrees.
REQUIREMENTS = ("dedupe==3.0.3", "dedupe-variable-datetime==2.0.0", "BTrees==6.1")


def f1_scores(tables: LinkedTables, pairs: list[tuple[int, int, float]], threshold: float) -> dict[str, float]:
    """Return precision, recall and F1 at a threshold, and the F1 at the best one, in %."""
    links = set(map(tuple, tables.links.tolist()))
    pairs = sorted(pairs, key=lambda pair: -pair[2])
    right = np.cumsum([(left, other) in links for left, other, _ in pairs])
    best = max((200.0 * r / (k + len(links)) for k, r in enumerate(right.tolist(), start=1)), default=0.0)
    chosen = sum(score >= threshold for _, _, score in pairs)
    n_right = int(right[chosen - 1]) if chosen else 0
    return {
        "precision": 100.0 * n_right / max(chosen, 1),
        "recall": 100.0 * n_right / len(links),
        "F1": 200.0 * n_right / (chosen + len(links)),
        "best F1": best,
    }


def run_ocelad(subject: str, n_rows: int, seed: int) -> dict[str, list[dict[str, float]]]:
    """Return the scores at each checkpoint: of the model, and with the answers."""
    tables = LinkedTables(subject, n_rows=n_rows, seed=seed)
    links = set(map(tuple, tables.links.tolist()))
    start = time.perf_counter()
    linker = RecordLinker(tables.left, tables.right, seed=seed)
    found: dict[str, list[dict[str, float]]] = {"ocelad, model": [], "ocelad": []}
    for checkpoint in CHECKPOINTS["ocelad"]:
        while len(linker.answers) < checkpoint:
            question = linker.propose()
            linker.learn(question.left, question.right, (question.left, question.right) in links)
        seconds = {"seconds": time.perf_counter() - start}
        probability = linker.probabilities()
        _, threshold = choose_links(linker.pairs, probability, True, None)
        chosen, _ = choose_links(linker.pairs, probability, True, LEAST)
        scored = zip(*linker.pairs[chosen].T.tolist(), probability[chosen].tolist(), strict=True)
        found["ocelad, model"].append({**f1_scores(tables, list(scored), threshold), **seconds})
        best = linker.links(one_to_one=True, error=ERROR)
        every = linker.links(one_to_one=True, threshold=LEAST)
        scored = zip(every.left.tolist(), every.right.tolist(), every.probability.tolist(), strict=True)
        counts = {**count_links(linker, best, links), **count_pairs(linker, links)}
        found["ocelad"].append({**f1_scores(tables, list(scored), best.threshold), **seconds, **counts})
    return found


def count_links(linker: RecordLinker, found: Links, links: set[tuple[int, int]]) -> dict[str, int]:
    """Count the links without an answer: all, the decided and the probable ones, and how many of these are wrong."""
    new = ~found.answered
    is_link = np.array([pair in links for pair in zip(found.left.tolist(), found.right.tolist(), strict=True)])
    counts = {"links": int(new.sum())}
    for name, chosen in (("decided", found.decision == 1), ("probable", found.probability >= PROBABLE)):
        counts[name] = int((chosen & new).sum())
        counts[f"{name}, wrong"] = int((chosen & new & ~is_link).sum())
    return counts


def count_pairs(linker: RecordLinker, links: set[tuple[int, int]]) -> dict[str, int]:
    """Count the candidate pairs without an answer, the decided ones, and how many of these are wrong."""
    found = linker.links(threshold=0.0, error=ERROR)  # all pairs but those answered with "different"
    new, decided = ~found.answered, (found.decision != 0) & ~found.answered
    is_link = np.array([pair in links for pair in zip(found.left.tolist(), found.right.tolist(), strict=True)])
    wrong = decided & (is_link != (found.decision == 1))
    return {"pairs": int(new.sum()), "decided pairs": int(decided.sum()), "decided pairs, wrong": int(wrong.sum())}


def run_dedupe(python: Path, folder: Path, subject: str, n_rows: int, seed: int) -> dict[str, list[dict[str, float]]]:
    """Return the scores at each checkpoint, by blocking rules; from the cache if this was computed before."""
    tables = LinkedTables(subject, n_rows=n_rows, seed=seed)
    path = folder / f"dedupe-{subject}-{n_rows}-{seed}.json"
    if not path.exists():
        task = {
            "subject": subject,
            "left": tables.left,
            "right": tables.right,
            "links": tables.links.tolist(),
            "candidates": RecordLinker(tables.left, tables.right).pairs.tolist(),
            "seed": seed,
            "checkpoints": CHECKPOINTS["dedupe"],
        }
        script = Path(__file__).with_name("records_dedupe.py")
        environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
        done = subprocess.run(
            [python, script], input=json.dumps(task), capture_output=True, text=True, env=environment, check=False
        )
        if done.returncode:
            raise RuntimeError(f"dedupe failed on {subject}, seed {seed}: {done.stderr[-2000:]}")
        path.write_text(done.stdout)
    results = [json.loads(line) for line in path.read_text().splitlines()]
    return {
        program: [{**f1_scores(tables, each[links], 0.5), "seconds": each["seconds"]} for each in results]
        for program, links in (("dedupe", "links"), ("dedupe, pairs of ocelad", "links_of_candidates"))
    }


def install_dedupe(folder: Path) -> Path:
    """Return the Python of an environment with dedupe, which is created if there is none."""
    python = folder / "venv" / "bin" / "python"
    if not python.exists():
        subprocess.run([sys.executable, "-m", "venv", folder / "venv"], check=True)
    installed = subprocess.run([python, "-c", "import dedupe"], check=False, capture_output=True).returncode == 0
    if not installed:
        subprocess.run([python, "-m", "pip", "install", "--quiet", *REQUIREMENTS], check=True)
    return python


def summarize(program: str, subject: str, answers: int, scores: list[dict[str, float]]) -> dict[str, Any]:
    row: dict[str, Any] = {"subject": subject, "program": program, "answers": answers}
    for name in ("F1", "best F1"):
        mean = estimate_mean(np.array([score[name] for score in scores]))
        row |= {name: mean.mean, f"± ({name})": mean.standard_error}
    for name in ("precision", "recall", "seconds"):
        row[name] = float(np.mean([score[name] for score in scores]))
    return row


def measure_large(subject: str, n_rows: int) -> dict[str, Any]:
    """Return the seconds and the memory of linking two large tables, and the recall of blocking."""
    tables = LinkedTables(subject, n_rows=n_rows, seed=FIRST_SEED)
    links = set(map(tuple, tables.links.tolist()))
    clock = Clock()
    left, right = read_table(tables.left, "left"), read_table(tables.right, "right")
    comparison = RecordComparison(left, right)
    seconds = {"preparing": clock.lap()}
    pairs = candidate_pairs(left, right, default_rules(comparison.kinds)).pairs
    seconds["blocking"] = clock.lap()
    comparison.compare(pairs)
    seconds["comparing"] = clock.lap()
    n_pairs = len(pairs)
    del left, right, comparison, pairs
    clock.lap()
    linker = RecordLinker(tables.left, tables.right)
    seconds["all three"] = clock.lap()
    while len(linker.answers) < N_ANSWERS:
        question = linker.propose()
        linker.learn(question.left, question.right, (question.left, question.right) in links)
    seconds[f"{N_ANSWERS} answers"] = clock.lap()
    found = linker.links(one_to_one=True)
    seconds["linking"] = clock.lap()
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / (1024 if sys.platform == "linux" else 1024**2)
    n_found = len(links & set(map(tuple, linker.pairs.tolist())))
    scored = list(zip(found.left.tolist(), found.right.tolist(), found.probability.tolist(), strict=True))
    return {
        "subject": subject,
        "rows": n_rows,
        "pairs": n_pairs,
        "recall of blocking": 100.0 * n_found / len(links),
        **seconds,
        "peak MB": memory,
        "F1": f1_scores(tables, scored, 0.0)["F1"],
    }


class Clock:
    """Measures laps."""

    def __init__(self) -> None:
        self._last = time.perf_counter()

    def lap(self) -> float:
        last, self._last = self._last, time.perf_counter()
        return self._last - last


@click.command()
@click.option("--seeds", default=10, show_default=True, help="The number of seeds, from 3000 on.")
@click.option("--rows", default=500, show_default=True, help="The rows of each table.")
@click.option("--skip-dedupe", is_flag=True, help="Do not install and run dedupe.")
@click.option("--large", is_flag=True, help="Measure tables of 50,000 rows instead.")
def main(seeds: int, rows: int, skip_dedupe: bool, large: bool) -> None:
    """Compare ``RecordLinker`` with dedupe."""
    console = Console(width=None if sys.stdout.isatty() else 160)
    if large:
        results = []
        for subject in SUBJECTS:  # each in a process of its own, because the peak of the memory never falls
            with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as executor:
                results.append(executor.submit(measure_large, subject, LARGE_ROWS).result())
        show(console, f"Two tables of {LARGE_ROWS} rows; seconds", results)
        save("records-large", {"seed": FIRST_SEED}, results)
        return
    folder = cache_folder() / "records-benchmark"
    folder.mkdir(parents=True, exist_ok=True)
    python = None if skip_dedupe else install_dedupe(folder)
    all_rows, sure_rows = [], []
    numbers = range(FIRST_SEED, FIRST_SEED + seeds)
    with Progress(console=Console(stderr=True)) as bar:
        task = bar.add_task("runs", total=len(SUBJECTS) * seeds)
        for subject in SUBJECTS:
            scores: dict[str, list[list[dict[str, float]]]] = {}
            for seed in numbers:
                found = run_ocelad(subject, rows, seed)
                if python is not None:
                    found |= run_dedupe(python, folder, subject, rows, seed)
                for program, run in found.items():
                    scores.setdefault(program, []).append(run)
                bar.advance(task)
            for program, runs in scores.items():
                for k, answers in enumerate(CHECKPOINTS[program.partition(",")[0]]):
                    all_rows.append(summarize(program, subject, answers, [run[k] for run in runs]))
                    if program == "ocelad":
                        counts = {name: sum(int(run[k][name]) for run in runs) for name in COUNTS}
                        sure_rows.append({"subject": subject, "answers": answers, **counts})
    show(console, f"F1 of links, {seeds} seeds, {rows} rows", all_rows)
    show(
        console,
        f"Links and pairs without an answer, decided (error {ERROR}) or probable ({PROBABLE}), over {seeds} seeds",
        sure_rows,
    )
    save("records", {"seeds": list(numbers), "rows": rows}, [*all_rows, *sure_rows])


if __name__ == "__main__":
    main()
