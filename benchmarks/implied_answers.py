"""Measure what implied answers and chosen pairs give: errors on held-out items after a number of answers.

    python benchmarks/implied_answers.py rows [--seeds 20] [--wrong 0.1]
    python benchmarks/implied_answers.py line
    python benchmarks/implied_answers.py switch

rows: six rows of the few-answers suite. The same learner, a curved tracker that knows the items, learns from pairs that
the ``PairChooser`` chooses, with implied answers ("chosen") and without ("not implied"), and from random pairs, by id
with implied answers ("random") and as points ("curved-items"). Errors are compared for each seed. With --wrong, a share
of the answers is wrong, and the table says how many items were joined wrongly and have left again.

line: "same" means nearer than a radius on a line, which is not transitive. Random and chosen pairs, with and without
implied answers.

switch: after 300 answers the question changes from the digit to its parity. How the error falls after it, with and
without implied answers, for random and for chosen pairs.

The seeds begin at 3000; all choices were made on seeds below 1000. Reviews are needed for three of the rows.
"""

from __future__ import annotations

from functools import partial
from typing import Any, NamedTuple

import click
import numpy as np
from results import save, show
from rich.console import Console
from rich.progress import Progress
from scipy.stats import rankdata

from ocelad import MetricTracker
from ocelad._typing import Floats
from ocelad.choice import NoPairsLeft, PairChooser, TrackerView
from ocelad.lab.compare.few_answers import BENCHMARKS, METHODS
from ocelad.lab.compare.few_answers.checkpoint_trial import run_checkpoints
from ocelad.lab.compare.suites import FIRST_TEST_SEED
from ocelad.lab.statistics import estimate_mean
from ocelad.lab.trials import map_trials

ROWS = ("digits-pca", "digits-parity", "breast-cancer", "reviews-300-type", "reviews-300-sentiment", "reviews-300-four")
CHECKPOINTS = (10, 20, 30, 50, 100, 150, 300)
MEASURES = {"k-NN": "knn_error", "ranking": "ranking_error"}
EUCLIDEAN, NOT_IMPLIED, RANDOM, POINTS = "euclidean", "not implied", "random", "curved-items"
CHOSEN = "chosen"


def methods(wrong: float) -> dict[str, Any]:
    """Return the methods by the names of the tables; only those that ask can be given wrong answers."""
    chosen, random = METHODS["chosen"], METHODS["random-ids"]
    found = {
        EUCLIDEAN: METHODS["euclidean"],
        CHOSEN: chosen.with_settings(wrong=wrong),
        NOT_IMPLIED: chosen.with_settings(wrong=wrong, transitive=False),
        RANDOM: random.with_settings(wrong=wrong),
    }
    return found if wrong else {**found, POINTS: METHODS["curved-items"]}


def row_errors(trial: tuple[str, int], wrong: float) -> list[list[list[float]]]:
    """Return the errors in percent of one row and seed, by method, measure and checkpoint."""
    row, seed = trial
    records = run_checkpoints(BENCHMARKS[f"{row}/natural"], list(methods(wrong).values()), seed, CHECKPOINTS)
    return [[(100 * record.values(measure)).tolist() for measure in MEASURES.values()] for record in records]


def difference_table(results: Floats, names: list[str], rows: list[str]) -> list[dict[str, Any]]:
    """Return a line per row and checkpoint: the errors relative to Euclidean distance, and chosen against random.

    ``results`` has the shape (n_rows, n_seeds, n_methods, n_measures, n_checkpoints).
    """
    table: list[dict[str, Any]] = []
    for r, row in enumerate((*rows, "mean")):
        of_row = results.mean(axis=0) if row == "mean" else results[r]
        for c, answers in enumerate(CHECKPOINTS):
            line: dict[str, Any] = {"row": row, "answers": answers}
            for m, measure in enumerate(MEASURES):
                by_method = dict(zip(names, of_row[:, :, m, c].T, strict=True))
                for name in names[1:]:
                    line[f"{measure} {name}"] = float((by_method[name] - by_method[EUCLIDEAN]).mean())
                estimate = estimate_mean(by_method[CHOSEN] - by_method[RANDOM])
                star = "*" if estimate.significant_sign else " "
                line[f"{measure} gain"] = f"{estimate.mean:+.2f} +- {estimate.standard_error:.2f}{star}"
            table.append(line)
    return table


def half_table(results: Floats, names: list[str], rows: list[str]) -> list[dict[str, Any]]:
    """Return a line per row: 150 chosen answers against 300 random ones."""
    half, full = CHECKPOINTS.index(150), CHECKPOINTS.index(300)
    table = []
    for r, row in enumerate(rows):
        line: dict[str, Any] = {"row": row}
        for m, measure in enumerate(MEASURES):
            chosen, random = (results[r, :, names.index(name), m] for name in (CHOSEN, RANDOM))
            estimate = estimate_mean(chosen[:, half] - random[:, full])
            line[f"{measure} 150 chosen - 300 random"] = f"{estimate.mean:+.2f} +- {estimate.standard_error:.2f}"
        table.append(line)
    return table


class Joined(NamedTuple):
    """Items that were in a group with a majority of another class at some time, and those that are at the end."""

    ever: int
    at_end: int
    n_items: int


def joined_wrongly(trial: tuple[str, int], wrong: float) -> Joined:
    """Return how many items wrong answers have joined with a wrong group in one run of 300 chosen answers."""
    row, seed = trial
    from ocelad.lab.compare.few_answers.asking_learner import AskingLearner
    from ocelad.lab.compare.few_answers.held_out_split import draw_split

    split = draw_split(BENCHMARKS[f"{row}/natural"].load(seed), CHECKPOINTS[-1], seed)
    _, classes = np.unique(split.training.labels, return_inverse=True)
    learner, ever, now = AskingLearner(split.training, seed, wrong=wrong), set[int](), set[int]()
    for t in range(CHECKPOINTS[-1]):
        learner.update(split.answers[t : t + 1])
        now = set()
        for group in learner.tracker.groups_:
            majority = np.bincount(classes[group]).argmax()
            now.update(entry for entry in group if classes[entry] != majority)
        ever |= now
    return Joined(len(ever), len(now), sum(map(len, learner.tracker.groups_)))


# A relation that is not transitive, and a question that changes.


class Course(NamedTuple):
    """A stream of answers whose truth is a function: items, the answer of each round, and held-out pairs."""

    items: Floats
    classes: np.ndarray  # of shape (n_phases, n_items); or the place of each item on a line
    radius: float | None
    phases: tuple[int, ...]  # the first answer of each phase


def same(course: Course, t: int, left: Any, right: Any) -> Any:
    """Return the true answers about items at answer t."""
    phase = sum(t >= first for first in course.phases) - 1
    if course.radius is not None:
        return np.abs(course.classes[phase][left] - course.classes[phase][right]) < course.radius
    return course.classes[phase][left] == course.classes[phase][right]


def line_course(seed: int) -> Course:
    """Items at random places of a line, with noise features; "same" is nearer than a radius, for 1 in 5 pairs."""
    rng = np.random.default_rng([seed, 11])
    places = rng.random(800)
    items = np.column_stack([4.0 * places, rng.normal(size=(800, 9))])
    return Course(items, places[None], 0.106, (0,))


def switch_course(seed: int) -> Course:
    """Digits by digit, then by parity."""
    points = BENCHMARKS["digits-pca/natural"].load(seed)
    parity = BENCHMARKS["digits-parity/natural"].load(seed)
    rng = np.random.default_rng([seed, 12])
    chosen = rng.permutation(len(points))[:1200]
    X = points.prepare(points.X, np.arange(len(points)))[chosen]
    return Course(X, np.stack([points.classes[chosen], parity.classes[chosen]]), None, (0, 300))


COURSES = {"line": line_course, "switch": switch_course}
VARIANTS = [(choose, transitive) for choose in (False, True) for transitive in (False, True)]


def course_errors(trial: tuple[str, int, bool, bool], checkpoints: tuple[int, ...]) -> list[float]:
    """Return the ranking error in percent on pairs of items without answers, at each number of answers."""
    name, seed, choose, transitive = trial
    course = COURSES[name](seed)
    n_training = len(course.items) // 2
    items, rng = course.items[:n_training], np.random.default_rng([seed, 13])
    tracker = MetricTracker(preprocessor=items, curved=True, transitive=transitive).start(items.shape[1])
    chooser = PairChooser(n_training, seed=seed, transitive=transitive) if choose else None
    held_out = n_training + rng.integers(len(course.items) - n_training, size=(4000, 2))
    errors = []
    for t in range(checkpoints[-1]):
        left = int(rng.integers(n_training))
        right = int((left + rng.integers(1, n_training)) % n_training)
        if chooser is not None:
            try:
                choice = chooser.next(TrackerView(tracker, items))
                left, right = choice.left, choice.right
            except NoPairsLeft:  # answers imply all others: a random pair
                pass
        answer = bool(same(course, t, left, right))
        if chooser is not None:
            chooser.record(left, right, "same" if answer else "different")
        tracker.learn_one(left, right, answer)
        if t + 1 in checkpoints:
            truth = same(course, t, held_out[:, 0], held_out[:, 1])
            ranks = rankdata(tracker.log_odds(course.items[held_out]))
            n_same = int(truth.sum())
            area = (ranks[truth].sum() - n_same * (n_same + 1) / 2) / (n_same * (len(truth) - n_same))
            errors.append(100.0 * (1.0 - float(area)))
    return errors


def course_table(results: Floats, checkpoints: tuple[int, ...]) -> list[dict[str, Any]]:
    """Return a line per number of answers; ``results`` has the shape (n_variants, n_seeds, n_checkpoints)."""
    table = []
    for c, answers in enumerate(checkpoints):
        line: dict[str, Any] = {"answers": answers}
        for first, pairs in ((0, "random"), (2, "chosen")):
            without, implied = results[first, :, c], results[first + 1, :, c]
            estimate = estimate_mean(implied - without)
            line[f"{pairs}, not implied"] = float(without.mean())
            line[f"{pairs}, implied"] = float(implied.mean())
            line[f"{pairs}: difference"] = f"{estimate.mean:+.2f} +- {estimate.standard_error:.2f}"
        table.append(line)
    return table


@click.command()
@click.argument("part", type=click.Choice(["rows", "line", "switch"]))
@click.option("--seeds", default=20, show_default=True, type=click.IntRange(2), help="The number of seeds.")
@click.option("--first", default=FIRST_TEST_SEED, show_default=True, type=click.IntRange(0), help="The first seed.")
@click.option("--wrong", default=0.0, show_default=True, type=click.FloatRange(0, 0.5), help="The share of errors.")
@click.option("--row", "rows", multiple=True, type=click.Choice(ROWS), help="Rows to run; by default all.")
def main(part: str, seeds: int, first: int, wrong: float, rows: tuple[str, ...]) -> None:
    """Run a part, print its tables and save them."""
    console = Console(width=200)
    all_seeds = range(first, first + seeds)
    with Progress(console=console) as bar:

        def run(trial: Any, tasks: list[Any], title: str) -> list[Any]:
            job = bar.add_task(title, total=len(tasks))
            done = partial(bar.update, job)
            return map_trials(trial, tasks, backend="processes", progress=lambda count: done(completed=count))

        if part == "rows":
            names, chosen_rows = list(methods(wrong)), list(rows or ROWS)
            tasks = [(row, seed) for row in chosen_rows for seed in all_seeds]
            errors = np.array(run(partial(row_errors, wrong=wrong), tasks, "errors"))
            results = errors.reshape(len(chosen_rows), seeds, *errors.shape[1:])
            joined = run(partial(joined_wrongly, wrong=wrong), tasks, "groups") if wrong else []
            table = difference_table(results, names, chosen_rows)
            half = half_table(results, names, chosen_rows)
        else:
            checkpoints = (30, 100, 300, 1000) if part == "line" else (100, 300, 350, 400, 500, 600, 800)
            tasks = [(part, seed, *variant) for variant in VARIANTS for seed in all_seeds]
            errors = np.array(run(partial(course_errors, checkpoints=checkpoints), tasks, "errors"))
            table = course_table(errors.reshape(len(VARIANTS), seeds, -1), checkpoints)
    name = f"implied-{part}" + ("-wrong" if wrong else "")
    if part == "rows":
        show(console, "Errors in % minus those of Euclidean distance, and chosen - random (* significant)", table)
        show(console, "150 chosen answers minus 300 random ones", half)
        if wrong:
            counts = np.array(joined).reshape(len(chosen_rows), seeds, 3).sum(axis=1)
            show(
                console,
                "Items in groups: those that were in a wrong group at some time, and those that have left it again",
                [
                    {
                        "row": row,
                        "in groups": int(n),
                        "ever wrong": int(ever),
                        "wrong at the end": int(end),
                        "left again": f"{100 * (1 - end / max(ever, 1)):.0f} %",
                    }
                    for row, (ever, end, n) in zip(chosen_rows, counts.tolist(), strict=True)
                ],
            )
    else:
        show(console, "Ranking error in % on held-out pairs", table)
    console.print(f"Written to {save(name, {'seeds': [first, first + seeds - 1], 'wrong': wrong}, table)}")


if __name__ == "__main__":
    main()
