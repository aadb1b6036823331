"""Routes for several people who answer: figures, agreement, weights, and the erasure of a person's answers."""

from __future__ import annotations

from collections.abc import Callable
from math import isfinite
from typing import Annotated, Any

from fastapi import APIRouter, Query, Request
from fastapi.responses import Response
from pydantic import BaseModel
from starlette.concurrency import run_in_threadpool

from ocelad.evaluation.agreement import Interval
from ocelad.evaluation.answer_accuracy import PersonAccuracy, answer_weights, estimate_accuracies
from ocelad.service.api_error import ApiError
from ocelad.service.project_options import AnswerWeights, ProjectOptions
from ocelad.service.responses import json_response
from ocelad.service.routes.access import (
    ERROR_RESPONSES,
    Access,
    Admin,
    Answerer,
    Reader,
)
from ocelad.service.served_project import ServedProject
from ocelad.service.slow_work import SlowWork
from ocelad.service.team import AgreementFigures, PersonFigures, TeamFigures
from ocelad.service.team.figures import CoupleFigures, Share
from ocelad.service.wire import (
    Agreement,
    AgreementReport,
    Counted,
    CoupleAgreement,
    Erased,
    Erasure,
    Estimate,
    LearnedWeights,
    NoContent,
    PeoplePage,
    Person,
)

router = APIRouter(tags=["people"], responses=ERROR_RESPONSES)


def may_see(access: Access) -> Callable[[str], bool]:
    """Return a function that decides whether the caller may see the figures of a person by name."""
    if access.caller.may("review", access.project.id):
        return lambda person: True
    return lambda person: access.permission != "read" and person == access.who


async def admitted_figures(request: Request, make: Callable[..., BaseModel], *arguments: Any) -> Response:
    """Return the response of a model that takes seconds in large projects, a few at a time in threads of their own."""
    figures: SlowWork = request.app.state.figures
    with figures.admit() as admission:
        return await admission.run(lambda: json_response(make(*arguments)))


@router.get("/projects/{project}/people", response_model=PeoplePage)
async def people(
    access: Reader,
    request: Request,
    after: Annotated[str | None, Query(max_length=200, description="List the people after this name")] = None,
    limit: Annotated[int, Query(ge=1, le=1000)] = 200,
) -> Response:
    """List the people who have answered, by name, with their figures, and totals.

    The figures of others require the permission "review"; without it, only the totals and the caller are listed.
    """
    return await admitted_figures(request, _people_page, access, after, limit)


def _people_page(access: Access, after: str | None, limit: int) -> PeoplePage:
    project, sees = access.project, may_see(access)
    graph = None if project.view.groups is None else project.view.groups.graph
    with project.answers as index:
        figures = TeamFigures(index)
        everybody, accuracies = figures.people(graph), estimate_accuracies(figures.questions())
        seq, n_disagreements = index.seq, index.n_disagreements
    weights = project.options.weights
    shown = [each for each in everybody if sees(each.person) and (after is None or each.person > after)]
    listed = [_person(each, weights, accuracies.get(each.person), access.who) for each in shown[:limit]]
    n_same, n_different, n_skipped = (
        sum(getattr(each, name) for each in everybody) for name in ("n_same", "n_different", "n_skipped")
    )
    return PeoplePage(
        seq=seq,
        n_people=len(everybody),
        n_answers=n_same + n_different,
        n_same=n_same,
        n_different=n_different,
        n_skipped=n_skipped,
        n_disagreements=n_disagreements,
        weights=weights.mode,
        people=listed,
        next=listed[-1].person if len(shown) > limit else None,
    )


def _person(figures: PersonFigures, weights: AnswerWeights, accuracy: PersonAccuracy | None, caller: str) -> Person:
    return Person(
        person=figures.person,
        n_answers=figures.n_same + figures.n_different,
        n_same=figures.n_same,
        n_different=figures.n_different,
        n_skipped=figures.n_skipped,
        with_others=_counted(figures.with_others),
        with_settled=_counted(figures.with_settled),
        with_checks=_counted(figures.with_checks),
        median_seconds=figures.median_seconds,
        first_at=figures.first_at,
        last_at=figures.last_at,
        weight=weights.effective.get(figures.person, 1.0),
        accuracy=None if accuracy is None else accuracy.accuracy,
        is_caller=figures.person == caller,
    )


def _counted(share: Share) -> Counted:
    return Counted(n=share.n, n_equal=share.n_equal)


@router.get("/projects/{project}/agreement", response_model=AgreementReport)
async def agreement(access: Reader, request: Request) -> Response:
    """Return how far people agree: the share of equal answers and Krippendorff's alpha, and Cohen's kappa of couples.

    Answers count as they were given: also those that a reviewer has overruled, but not those that their author has
    undone, nor those without a name.
    """
    return await admitted_figures(request, _agreement_report, access)


def _agreement_report(access: Access) -> AgreementReport:
    sees = may_see(access)
    with access.project.answers as index:
        figures, seq = TeamFigures(index), index.seq
        everything, repeated = figures.agreement("all"), figures.agreement("repeated")
        couples = [each for each in figures.couples() if any(map(sees, each.people))]
    return AgreementReport(
        seq=seq, all=_agreement(everything), repeated=_agreement(repeated), couples=list(map(_couple, couples))
    )


def _agreement(figures: AgreementFigures) -> Agreement:
    return Agreement(
        n_people=figures.n_people,
        n_pairs=figures.n_pairs,
        n_answers=figures.n_answers,
        percent=_estimate(figures.percent, figures.percent_interval),
        alpha=_estimate(figures.alpha, figures.alpha_interval),
    )


def _couple(figures: CoupleFigures) -> CoupleAgreement:
    return CoupleAgreement(
        people=figures.people,
        n_pairs=figures.agreed.n,
        n_equal=figures.agreed.n_equal,
        kappa=_estimate(figures.kappa, figures.interval),
    )


def _estimate(value: float, interval: Interval) -> Estimate:
    value_, low, high = (each if isfinite(each) else None for each in (value, *interval))
    return Estimate(value=value_, low=low, high=high)


@router.post("/projects/{project}/people/weights/learn", response_model=LearnedWeights)
async def learn_weights(access: Admin, request: Request, new: NoContent | None = None) -> Response:
    """Estimate how often each person is right, and let answers weigh accordingly from the first answer on.

    The numbers are stored and stay until they are learned again, set, or made equal by a change of the project.
    """
    figures: SlowWork = request.app.state.figures
    with figures.admit() as admission:
        learned = await admission.run(lambda: _learn_weights(access))
    await access.audit("people.weights", n_people=len(learned.people))
    return json_response(learned)


def _learn_weights(access: Access) -> LearnedWeights:
    project = access.project
    require_weights(project)
    with project.answers as index:
        questions, seq = TeamFigures(index).questions(), index.seq
    accuracies = estimate_accuracies(questions)
    if not accuracies:
        message = "no pair was answered by two people, and none is settled; set repeat_share, or settle disagreements"
        raise ApiError(409, message, code="nothing_to_learn")
    weights = AnswerWeights(mode="learned", people=answer_weights(accuracies), learned_seq=seq)
    access.service.change(project, lambda options: options.changed(weights=weights))
    return LearnedWeights(
        seq=seq,
        n_questions=len(questions),
        people=weights.people,
        accuracies={name: each.accuracy for name, each in accuracies.items()},
    )


def require_weights(project: ServedProject) -> None:
    """Raise ApiError if the project's method cannot weigh answers."""
    if project.view.method == "rice":
        message = "the method rice learns from all answers alike; weights require the method adaptive"
        raise ApiError(409, message, code="no_weights")


@router.post("/projects/{project}/people/erase", response_model=Erased)
async def erase(access: Answerer, which: Erasure) -> Response:
    """Erase all answers and names that a person has given, for good. Numbers of entries stay.

    Requires the permission "admin", or that the person is the caller. The distance is learned again without them.
    """
    own = which.person == access.who
    if not own and access.permission != "admin":
        raise ApiError(403, "these are the answers of another person; erasing them requires the permission 'admin'")
    if which.confirm != which.person:
        message = f"confirm is {which.confirm!r}; accepted: the name of the person again, {which.person!r}"
        raise ApiError(422, message, code="not_confirmed", where="body.confirm")
    project, service = access.project, access.service

    def erase_all() -> Erased:
        if which.person in project.options.weights.people:
            service.change(project, without_weight)
        # The record of an erasure has no name of the person.
        return Erased(n_erased=service.store.erase_person(project.id, which.person, "" if own else access.who))

    def without_weight(options: ProjectOptions) -> ProjectOptions:
        return options.changed(weights=options.weights.without(which.person))

    erased = await run_in_threadpool(erase_all)
    await service.audit.write("" if own else access.who, "person.erase", project.id, {"n_erased": erased.n_erased})
    return json_response(erased)
