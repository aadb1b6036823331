"""Time the whole job with vectors, one command each: from files to neighbours by the learned distance.

    python benchmarks/vector_job.py [--items 100000] [--features 768] [--answers 1000]

The items are vectors like embeddings (32 directions with falling variances, and noise), as float32 in a .npy file. The
answers are about random pairs. Each command runs as a user would run it; times are those of the whole process, with the
start of Python.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import click
import numpy as np
from moving_index import embedded
from results import save, show
from rich.console import Console


def write_files(folder: Path, n_items: int, n_features: int, n_answers: int) -> float:
    """Write the vectors, some queries and the answers; return the size of the vectors in bytes."""
    course = embedded(n_items, n_features)
    np.save(folder / "vectors.npy", course.items)
    np.save(folder / "queries.npy", course.items[:100] + np.float32(0.01))
    pairs = np.random.default_rng(1).integers(n_items, size=(n_answers, 2))
    same = course.classes[0][pairs[:, 0]] == course.classes[0][pairs[:, 1]]
    rows = [f"{i},{j},{1 if y else -1}" for (i, j), y in zip(pairs.tolist(), same.tolist(), strict=True)]
    (folder / "answers.csv").write_text("\n".join(["id_a,id_b,same", *rows]))
    return float(course.items.nbytes)


COMMANDS = {
    "learn": "track answers.csv --items vectors.npy --linear --restart -o a.tracker",
    "learn, not transitive": "track answers.csv --items vectors.npy --linear --no-transitive -o n.tracker",
    "learn, curved": "track answers.csv --items vectors.npy -o c.tracker",
    "100 queries, 10 neighbours": "neighbors a.tracker vectors.npy --queries queries.npy -o found.csv",
    "100 queries, curved": "neighbors c.tracker vectors.npy --queries queries.npy -o found.csv",
    "the matrix": "export a.tracker vectors.npy --to matrix --dimensions 64 -o matrix.npy",
    "an index of faiss": "export a.tracker vectors.npy --to faiss --kind ivf --dimensions 64 -o items.faiss",
    "a graph of usearch": "export a.tracker vectors.npy --to usearch --dimensions 64 -o items.usearch",
    "a table of lancedb": "export a.tracker vectors.npy --to lancedb --dimensions 64 -o items.lancedb",
    "all points": "embed a.tracker vectors.npy --dimensions 64 -o points.parquet",
}


def run(command: str, folder: Path) -> float:
    """Run a command; return its seconds."""
    start = time.perf_counter()
    process = subprocess.run(
        [sys.executable, "-m", "ocelad", *command.split()], cwd=folder, capture_output=True, text=True, check=False
    )
    if process.returncode:
        raise SystemExit(f"ocelad {command}\n{process.stderr}")
    return time.perf_counter() - start


@click.command()
@click.option("--items", default=100_000, show_default=True, type=click.IntRange(1000))
@click.option("--features", default=768, show_default=True, type=click.IntRange(64))
@click.option("--answers", default=1000, show_default=True, type=click.IntRange(100))
def main(items: int, features: int, answers: int) -> None:
    """Run the commands, print their times and save them."""
    console = Console(width=160)
    table: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        n_bytes = write_files(folder, items, features, answers)
        run("track answers.csv --items vectors.npy --linear -o a.tracker", folder)  # compiles, and fills the file cache
        for title, command in COMMANDS.items():
            table.append({"step": title, "command": command, "s": run(command, folder)})
    title = f"{items:,} x {features} float32 vectors ({n_bytes / 1e6:,.0f} MB), {answers} answers"
    show(console, title, table)
    settings = {"items": items, "features": features, "answers": answers}
    console.print(f"Written to {save('vector-job', settings, table)}")


if __name__ == "__main__":
    main()
