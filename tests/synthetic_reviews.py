"""Synthetic reviews in both file formats of the real reviews."""

from __future__ import annotations

import gzip
from pathlib import Path

import numpy as np

WORDS = (
    *(f"{kind}{k}" for kind in ("plot", "volt", "good", "bad", "any") for k in range(8)),
    "<num>",
    "very_good",
)
DOMAINS, SENTIMENTS = ("books", "electronics"), ("positive", "negative")


def draw_counts(seed: int = 0, n_of_each: int = 40) -> dict[tuple[str, str], np.ndarray]:
    """Draw counts for each domain and sentiment: 2 words of each, mostly the right ones, and 8 other words."""
    rng = np.random.default_rng(seed)
    counts = {}
    for d, domain in enumerate(DOMAINS):
        for s, sentiment in enumerate(SENTIMENTS):
            rows = np.zeros((n_of_each, len(WORDS)), dtype=int)
            for row in rows:
                for first, label in ((0, d), (16, s)):
                    kind = np.where(rng.random(2) < 0.85, label, 1 - label)
                    np.add.at(row, first + 8 * kind + rng.integers(8, size=2), 1)
                np.add.at(row, rng.integers(32, 42, size=8), 1)
            rows[n_of_each // 2] = rows[0]  # a duplicate
            counts[domain, sentiment] = rows
    return counts


def svmlight_line(label: int, row: np.ndarray) -> str:
    return " ".join([str(label), *(f"{k}:{row[k]}" for k in np.flatnonzero(row))])


def original_line(label: str, row: np.ndarray) -> str:
    return " ".join([*(f"{WORDS[k]}:{row[k]}" for k in np.flatnonzero(row)), f"#label#:{label}"])


def write(path: Path, lines: list[str], zipped: bool = False) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    content = "".join(f"{line}\n" for line in lines).encode()
    if zipped:
        path.with_name(f"{path.name}.gz").write_bytes(gzip.compress(content))
    else:
        path.write_bytes(content)


def write_top5000(folder: Path, seed: int = 0, n_of_each: int = 40) -> Path:
    """Write positive and negative reviews alternately, half of them to the training file. One review has no word."""
    counts = draw_counts(seed, n_of_each)
    write(folder / "vocabulary.txt", list(WORDS))
    for domain in DOMAINS:
        lines = [
            svmlight_line(1 if sentiment == "positive" else -1, counts[domain, sentiment][i])
            for i in range(n_of_each)
            for sentiment in SENTIMENTS
        ]
        write(folder / f"{domain}_train.svmlight", lines[:n_of_each], zipped=domain == "books")
        write(folder / f"{domain}_test.svmlight", [*lines[n_of_each:], *["-1"] * (domain == "electronics")])
    return folder


def write_original(folder: Path, seed: int = 0) -> Path:
    """Write ``processed_acl``: the first 30 reviews of each kind to a separate file, the others to "unlabeled"."""
    for (domain, sentiment), rows in draw_counts(seed).items():
        lines = [original_line(sentiment, row) for row in rows]
        write(folder / domain / f"{sentiment}.review", lines[:30], zipped=sentiment == "positive")
        unlabeled = folder / domain / "unlabeled.review"
        before = unlabeled.read_text().splitlines() if unlabeled.exists() else []
        write(unlabeled, [*before, *lines[30:]])
    return folder


def write_stars(folder: Path, seed: int = 0) -> Path:
    """Write ``processed_stars``: 5 and 4 stars are positive, 1 and 2 negative; the last of each domain has three."""
    counts = draw_counts(seed)
    for domain in DOMAINS:
        lines = [original_line(f"{4 + i % 2}.0", row) for i, row in enumerate(counts[domain, "positive"])]
        lines += [original_line(f"{1 + i % 2}.0", row) for i, row in enumerate(counts[domain, "negative"])]
        write(folder / domain / "train", [*lines, original_line("3.0", counts[domain, "positive"][1])], zipped=True)
    return folder
