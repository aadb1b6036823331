"""The JSON models of several people who answer: their figures, agreement, disagreements, weights and erasure."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from ocelad.service.entries import Answer, PairSource
from ocelad.service.wire.items import Item
from ocelad.service.wire.models import Id, RequestModel, ResponseModel


class Estimate(ResponseModel):
    """A number with its interval of 95 %; None where there is nothing to compute it from."""

    value: float | None
    low: float | None
    high: float | None


class Agreement(ResponseModel):
    """The agreement of people about pairs that two or more of them have answered."""

    n_people: int
    n_pairs: int
    n_answers: int
    percent: Estimate  # the share of equal answers among all couples of answers about one pair, from 0 to 1
    alpha: Estimate  # Krippendorff's alpha: 1 if all agree, 0 if no better than chance


class CoupleAgreement(ResponseModel):
    """The agreement of two people about the pairs that both have answered."""

    people: tuple[str, str]
    n_pairs: int
    n_equal: int
    kappa: Estimate  # Cohen's


class AgreementReport(ResponseModel):
    seq: int  # the last entry that was counted
    all: Agreement  # all pairs that several people have answered
    repeated: Agreement  # those that were asked again on purpose, which were drawn at random
    couples: list[CoupleAgreement]  # at most 200; without the permission "review" only those of the caller


class Counted(ResponseModel):
    n: int
    n_equal: int


class Person(ResponseModel):
    """What a person has answered, without what the person has undone."""

    person: str
    n_answers: int  # "same" or "different"
    n_same: int
    n_different: int
    n_skipped: int
    with_others: Counted  # answers of others about the same pairs, and equal ones
    with_settled: Counted  # answers about pairs that a reviewer has settled, and equal ones
    with_checks: Counted  # answers about pairs whose answer others imply, and equal ones
    median_seconds: float | None  # between two answers without a break
    first_at: int  # milliseconds since 1970, UTC
    last_at: int
    weight: float  # of the person's answers in what is learned
    accuracy: float | None  # the estimated share of right answers; None if nothing is known
    is_caller: bool


class PeoplePage(ResponseModel):
    seq: int
    n_people: int
    n_answers: int
    n_same: int
    n_different: int
    n_skipped: int
    n_disagreements: int
    weights: Literal["equal", "set", "learned"]
    people: list[Person]  # without the permission "review" only the caller
    next: str | None  # the value of after= for the next page; None: this is the last page


class PersonAnswer(ResponseModel):
    seq: int
    at: int
    person: str
    answer: Answer
    source: PairSource


class Disagreement(ResponseModel):
    """A pair about which people's answers are not the same."""

    seq: int  # the number of the first answer about it
    left: Item
    right: Item
    answers: list[PersonAnswer]  # the latest of each person


class DisagreementPage(ResponseModel):
    seq: int
    n_disagreements: int  # in all pages
    disagreements: list[Disagreement]
    next: int | None  # the value of after= for the next page; None: this is the last page


class Settlement(RequestModel):
    left: Id
    right: Id
    answer: Answer  # that is right; "skip": the pair cannot be answered


class Settled(ResponseModel):
    first: int  # the number of the first entry: the undos of other answers, then the reviewer's answer
    last: int
    n_undone: int
    repeated: bool


class Erasure(RequestModel):
    person: Annotated[str, Field(max_length=200)]  # as the answers are stored
    confirm: Annotated[str, Field(max_length=200)]  # the same name again


class Erased(ResponseModel):
    n_erased: int  # entries whose content is gone


class LearnedWeights(ResponseModel):
    seq: int  # the last entry that they were learned from
    n_questions: int  # pairs that several people have answered, or that are settled
    people: dict[str, float]  # weights from 0 to 1
    accuracies: dict[str, float]  # the estimated share of right answers


class NoContent(RequestModel):
    """A request without values: an empty JSON object, or no body."""
