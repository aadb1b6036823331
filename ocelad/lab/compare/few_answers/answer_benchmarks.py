"""The benchmarks of the few-answers suite: a data set, a question, and a way of drawing pairs."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial

from ocelad._validation import check_choice
from ocelad.lab.compare.few_answers.labelled_points import (
    LabelledPoints,
    digits,
    isotropic,
    rare,
    reviews,
    river,
    same_for_each_seed,
    scikit_learn,
)

#: The numbers of answers after which methods are evaluated.
CHECKPOINTS = (10, 20, 50, 100, 300, 1000, 3000, 12_000)
#: Small data sets are split this often for each seed.
N_SPLITS_SMALL = 10


@dataclass(frozen=True)
class AnswerBenchmark:
    """A benchmark of the few-answers suite.

    Attributes
    ----------
    data_set : str
        The name of the data set and question.
    balanced : bool
        Whether half of the pairs are similar. Otherwise both points are random ("natural" pairs).
    load : callable (seed) -> LabelledPoints
        Raises ``ImportError`` or ``FileNotFoundError`` if the data are missing.
    n_splits : int
        The number of splits into training and held-out points for each seed, whose scores are averaged.
    cosine_target : bool
        Whether curved distances must not be worse than cosine distance, either: points are embeddings whose lengths
        differ.
    """

    data_set: str
    balanced: bool
    load: Callable[[int], LabelledPoints]
    n_splits: int = 1
    cosine_target: bool = False

    @property
    def name(self) -> str:
        """The name of the data set with the way of drawing pairs."""
        return f"{self.data_set}/{'balanced' if self.balanced else 'natural'}"


_REVIEW_QUESTIONS = (("type", "type"), ("sentiment", "sentiment"), ("four", "both"))
_DATA_SETS: dict[str, Callable[[int], LabelledPoints]] = {
    "digits-pca": same_for_each_seed(digits, as_components=True),
    "digits-parity": same_for_each_seed(digits, question="parity"),
    "digits-loop": same_for_each_seed(digits, question="loop"),
    "digits": same_for_each_seed(digits),
    "digits-rotated": same_for_each_seed(digits, n_dimensions=200),
    "breast-cancer": same_for_each_seed(scikit_learn, "breast_cancer"),
    "wine": same_for_each_seed(scikit_learn, "wine"),
    "iris": same_for_each_seed(scikit_learn, "iris"),
    "image-segments": same_for_each_seed(river, "ImageSegments"),
    "phishing": same_for_each_seed(river, "Phishing"),
    **{
        f"reviews-{n}-{name}": same_for_each_seed(reviews, n, question)
        for n in (300, 768)
        for name, question in _REVIEW_QUESTIONS
    },
    **{
        f"lsa-300-{name}": same_for_each_seed(reviews, 300, question, unit_length=False)
        for name, question in _REVIEW_QUESTIONS
    },
    **{f"rare-{density:g}%": partial(rare, density / 100) for density in (5.0, 0.2, 0.05)},
    "isotropic": isotropic,
}
_SMALL = frozenset({"wine", "iris"})

#: The benchmarks of the suite by name: each data set with natural and with balanced pairs.
ANSWER_BENCHMARKS: dict[str, AnswerBenchmark] = {
    benchmark.name: benchmark
    for data_set, load in _DATA_SETS.items()
    for balanced in (False, True)
    for benchmark in [
        AnswerBenchmark(
            data_set,
            balanced,
            load,
            n_splits=N_SPLITS_SMALL if data_set in _SMALL else 1,
            cosine_target=data_set.startswith("lsa"),
        )
    ]
}


def choose_benchmarks(names: Iterable[str], known: dict[str, AnswerBenchmark]) -> list[AnswerBenchmark]:
    """Return the named benchmarks, each once; the name of a data set stands for its benchmarks.

    >>> [benchmark.name for benchmark in choose_benchmarks(["wine", "iris/balanced"], ANSWER_BENCHMARKS)]
    ['wine/natural', 'wine/balanced', 'iris/balanced']
    """
    accepted = accepted_names(known)
    chosen: dict[str, AnswerBenchmark] = {}
    for name in names:
        check_choice(name, "a benchmark of the suite", accepted)
        chosen |= {key: benchmark for key, benchmark in known.items() if name in (key, benchmark.data_set)}
    return list(chosen.values())


def accepted_names(known: dict[str, AnswerBenchmark]) -> tuple[str, ...]:
    """Return the names of the data sets and of the benchmarks."""
    return (*dict.fromkeys(benchmark.data_set for benchmark in known.values()), *known)
