"""Whether weights of people's answers help: three people answer about digits, and one of them is careless.

    python benchmarks/answer_weights.py [--seeds 20] [--answers 400]

Two people are wrong about 3 % of the pairs, the third one about 30 %. They answer in turn the pairs that the service
would choose; one pair in five is one that another person has answered. The weights are learned from those pairs
(``ocelad.evaluation.answer_accuracy``), and the log is learned again with them, as in a project with the default
settings. The error is that of 5 nearest neighbours on held-out digits; "wrong pairs" are wrong predictions of "same"
or "different" on balanced held-out pairs. All numbers are means over seeds; differences are to equal weights.
"""

from __future__ import annotations

from itertools import cycle
from typing import NamedTuple

import click
import numpy as np
from results import save, show
from rich.console import Console
from rich.progress import track
from sklearn.datasets import load_digits

from ocelad import MetricTracker
from ocelad._typing import Floats
from ocelad.choice import PairChooser
from ocelad.choice.tracker_view import TrackerView
from ocelad.evaluation.answer_accuracy import (
    PersonAccuracy,
    Question,
    answer_weights,
    estimate_accuracies,
)
from ocelad.evaluation.scores import knn_error
from ocelad.service.entries import Entry
from ocelad.service.items import fit_scaling
from ocelad.service.learning import default_settings, with_known_items
from ocelad.service.learning.learning_state import Answers, LearningState

WRONG = {"anna": 0.03, "ben": 0.03, "eve": 0.3}
REPEAT_SHARE = 0.2
N_NEIGHBORS, N_TEST_PAIRS = 5, 4000


class Digits(NamedTuple):
    """Digits with their classes, and held-out ones."""

    points: Floats
    classes: np.ndarray
    held_out: Floats
    held_out_classes: np.ndarray

    @classmethod
    def split(cls, seed: int) -> Digits:
        """Draw the halves."""
        digits = load_digits()
        points = digits.data * fit_scaling(digits.data, "all").factors
        first, second = np.array_split(np.random.default_rng([seed, 1]).permutation(len(points)), 2)
        return cls(points[first], digits.target[first], points[second], digits.target[second])


def collect(digits: Digits, n_answers: int, seed: int) -> list[Entry]:
    """Return a log of answers about the pairs that a project would ask."""
    rng = np.random.default_rng([seed, 2])
    tracker = MetricTracker(preprocessor=digits.points, curved=True)
    tracker = tracker.start(digits.points.shape[1], items=digits.points)
    chooser = PairChooser(len(digits.points), seed=seed)
    log: list[Entry] = []
    for person in cycle(WRONG):
        others = {(each.left, each.right) for each in log if each.person != person}
        open_pairs = sorted(others - {(each.left, each.right) for each in log if each.person == person})
        if open_pairs and rng.random() < REPEAT_SHARE:
            left, right = open_pairs[rng.integers(len(open_pairs))]
        else:
            choice = chooser.next(TrackerView(tracker, digits.points))
            left, right = choice.left, choice.right
        same = bool(digits.classes[left] == digits.classes[right]) != (rng.random() < WRONG[person])
        chooser.record(left, right, "same" if same else "different")
        tracker = tracker.partial_fit([[left, right]], [same])
        log.append(Entry(len(log) + 1, 0, "same" if same else "different", left, right, "given", person))
        if len(log) == n_answers:
            return log
    return log


def questions(log: list[Entry]) -> list[Question]:
    """Return the answers by pair."""
    answers: dict[tuple[int, int], dict[str, bool]] = {}
    for entry in log:
        pair = min(entry.left, entry.right), max(entry.left, entry.right)
        answers.setdefault(pair, {})[entry.person] = entry.kind == "same"
    return [Question(each) for each in answers.values()]


def excess(accuracies: dict[str, PersonAccuracy]) -> dict[str, float]:
    """Return another rule, for comparison: how much more often than by chance a person is right."""
    best = max(2 * each.accuracy - 1 for each in accuracies.values())
    return {
        name: (each.n_questions * max(2 * each.accuracy - 1, 0.0) / best + 10) / (each.n_questions + 10)
        for name, each in accuracies.items()
    }


def errors(digits: Digits, log: list[Entry], weights: dict[str, float], seed: int) -> tuple[float, float]:
    """Learn from a log with weights; return the errors of neighbours and of pairs, in percent."""
    settings = with_known_items(default_settings(), len(digits.points))
    state = LearningState(digits.points.shape[1], settings, digits.points)
    metric = state.learn(Answers.from_entries(log, (), weights), digits.points).tracker.play()
    train, test = metric.embed(digits.points), metric.embed(digits.held_out)
    neighbors = knn_error(train, digits.classes, N_NEIGHBORS, test_points=test, test_labels=digits.held_out_classes)
    rng, classes = np.random.default_rng([seed, 3]), digits.held_out_classes
    left, right = rng.integers(len(classes), size=(2, 30 * N_TEST_PAIRS))
    same = classes[left] == classes[right]
    chosen = np.concatenate(
        [np.flatnonzero(same & (left != right))[:N_TEST_PAIRS], np.flatnonzero(~same)[:N_TEST_PAIRS]]
    )
    squares = metric.squared_distance(digits.held_out[left[chosen]], digits.held_out[right[chosen]])
    wrong = (squares <= metric.threshold) != same[chosen]
    return 100 * neighbors, 100 * float(wrong.mean())


@click.command()
@click.option("--seeds", default=20)
@click.option("--answers", default=400)
def main(seeds: int, answers: int) -> None:
    """Compare weights and print a table."""
    found: dict[str, list[tuple[float, float]]] = {}
    learned: list[dict[str, float]] = []
    for seed in track(range(seeds)):
        digits = Digits.split(seed)
        log = collect(digits, answers, seed)
        accuracies = estimate_accuracies(questions(log))
        learned.append(answer_weights(accuracies))
        true = {name: PersonAccuracy(1 - wrong, 10**6) for name, wrong in WRONG.items()}
        rules = {
            "equal": {},
            "learned": learned[-1],
            "learned, by excess": excess(accuracies),
            "from the true shares": answer_weights(true),
            "without the careless one": {"eve": 0.0},
        }
        for name, weights in rules.items():
            found.setdefault(name, []).append(errors(digits, log, weights, seed))
    equal = np.array(found["equal"])
    rows = []
    for name, values in found.items():
        difference = np.array(values) - equal
        error = difference.std(axis=0, ddof=1) / np.sqrt(seeds) if seeds > 1 else np.zeros(2)
        rows.append(
            {
                "weights": name,
                "error of neighbours, %": float(np.mean(values, axis=0)[0]),
                "difference": float(difference.mean(axis=0)[0]),
                "standard error": float(error[0]),
                "wrong pairs, %": float(np.mean(values, axis=0)[1]),
                "difference of pairs": float(difference.mean(axis=0)[1]),
                "its standard error": float(error[1]),
            }
        )
    console = Console(width=160)
    show(console, f"{answers} answers, one careless person of three, {seeds} seeds", rows)
    means = {name: float(np.mean([each.get(name, 1.0) for each in learned])) for name in WRONG}
    console.print("mean learned weights:", means)
    settings = {"seeds": seeds, "answers": answers, "wrong": WRONG, "repeat_share": REPEAT_SHARE, "weights": means}
    save("answer_weights", settings, rows)


if __name__ == "__main__":
    main()
