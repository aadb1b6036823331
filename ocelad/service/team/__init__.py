"""Several people who answer: pairs that are asked again, agreement, disagreements, and figures per person."""

from ocelad.service.team.answer_index import AnswerIndex, Disagreement, GivenAnswer
from ocelad.service.team.figures import AgreementFigures, PersonFigures, TeamFigures
from ocelad.service.team.repeats import RepeatedPairs

__all__ = [
    "AgreementFigures",
    "AnswerIndex",
    "Disagreement",
    "GivenAnswer",
    "PersonFigures",
    "RepeatedPairs",
    "TeamFigures",
]
