"""The few-answers suite: is a learned distance ever worse than one that learns nothing, after 10 to 12,000 answers?

>>> from ocelad.lab.compare.few_answers import BENCHMARKS
>>> BENCHMARKS["wine/balanced"].n_splits
10
"""

from __future__ import annotations

from ocelad.lab.compare.few_answers.answer_benchmarks import ANSWER_BENCHMARKS as BENCHMARKS
from ocelad.lab.compare.few_answers.answer_benchmarks import CHECKPOINTS as CHECKPOINTS
from ocelad.lab.compare.few_answers.answer_benchmarks import AnswerBenchmark as AnswerBenchmark
from ocelad.lab.compare.few_answers.answer_benchmarks import accepted_names as accepted_names
from ocelad.lab.compare.few_answers.answer_methods import METHODS as METHODS
from ocelad.lab.compare.few_answers.answer_methods import RIVALS as RIVALS
from ocelad.lab.compare.few_answers.few_answers_results import AnswerResult as AnswerResult
from ocelad.lab.compare.few_answers.few_answers_results import FewAnswersResult as FewAnswersResult
from ocelad.lab.compare.few_answers.few_answers_runner import run_few_answers as run_few_answers

__all__ = [
    "BENCHMARKS",
    "CHECKPOINTS",
    "METHODS",
    "RIVALS",
    "AnswerBenchmark",
    "AnswerResult",
    "FewAnswersResult",
    "accepted_names",
    "run_few_answers",
]
