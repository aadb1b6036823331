"""Link two tables with dedupe, in its own environment; ``benchmarks/records.py`` runs this file.

It reads one JSON object on standard input: ``subject``, ``left`` and ``right`` (columns by name), ``links`` (pairs of
rows), ``seed``, ``checkpoints`` (numbers of answers) and ``candidates`` (pairs of rows); and writes one JSON object per
checkpoint: its one-to-one links with scores above 0.01, among the pairs of its own blocking rules (``links``) and among
the candidates (``links_of_candidates``); and the seconds that it took.

dedupe's own settings are used throughout: the variable types that its documentation recommends for such columns, its
active learning, its blocking rules learned from the answers (recall 1.0), its classifier, its one-to-one join.
"""

from __future__ import annotations

import io
import json
import random
import sys
import time
from typing import Any

import dedupe
import numpy as np
from datetimetype import DateTime
from dedupe import variables

VARIABLES = {
    "persons": lambda: [
        variables.String("name", has_missing=True),
        variables.String("street", has_missing=True),
        variables.ShortString("city", has_missing=True),
        DateTime("born", fuzzy=False, has_missing=True),
        variables.String("phone", has_missing=True),
    ],
    "companies": lambda: [
        variables.String("name", has_missing=True),
        variables.String("street", has_missing=True),
        variables.ShortString("city", has_missing=True),
        variables.Price("founded", has_missing=True),
        variables.Price("employees", has_missing=True),
        variables.String("phone", has_missing=True),
    ],
}


def clean(column: str, value: Any) -> Any:
    """Return a value as dedupe's documentation prepares it: digits of a telephone number; None if missing."""
    if value is None:
        return None
    if column == "phone":
        return "".join(filter(str.isdigit, value)) or None
    return float(value) if isinstance(value, int) else value


def to_records(table: dict[str, list[Any]]) -> dict[int, dict[str, Any]]:
    columns = [column for column in table if column != "id"]
    return {k: {c: clean(c, table[c][k]) for c in columns} | {"row": k} for k in range(len(table["id"]))}


def main() -> None:
    task = json.load(sys.stdin)
    random.seed(task["seed"])
    np.random.seed(task["seed"])  # noqa: NPY002  (dedupe draws from the global generators)
    left, right = to_records(task["left"]), to_records(task["right"])
    links = {tuple(link) for link in task["links"]}
    start = time.perf_counter()
    asking = dedupe.RecordLink(VARIABLES[task["subject"]](), num_cores=0, in_memory=True)
    asking.prepare_training(left, right)
    n_answers = 0
    for checkpoint in task["checkpoints"]:
        while n_answers < checkpoint:
            one, other = asking.uncertain_pairs()[0]
            same = (one["row"], other["row"]) in links
            asking.mark_pairs({"match": [(one, other)] if same else [], "distinct": [] if same else [(one, other)]})
            n_answers += 1
        # dedupe cannot go on asking after it has linked: another object links from the answers so far.
        answers = io.StringIO()
        asking.write_training(answers)
        answers.seek(0)
        linker = dedupe.RecordLink(VARIABLES[task["subject"]](), num_cores=0, in_memory=True)
        linker.prepare_training(left, right, training_file=answers)
        linker.train(recall=1.0)
        own = one_to_one(linker, linker.pairs(left, right))
        seconds = time.perf_counter() - start
        candidates = (((i, left[i]), (j, right[j])) for i, j in task["candidates"])
        of_candidates = one_to_one(linker, candidates)
        result = {"answers": checkpoint, "links": own, "links_of_candidates": of_candidates, "seconds": seconds}
        print(json.dumps(result), flush=True)


def one_to_one(linker: Any, pairs: Any) -> list[tuple[int, int, float]]:
    """Return the one-to-one links among pairs of records, with their scores."""
    return [(int(i), int(j), float(score)) for (i, j), score in linker.one_to_one(linker.score(pairs), 0.01)]


if __name__ == "__main__":
    main()
