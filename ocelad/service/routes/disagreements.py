"""Routes for disagreements: pairs about which people's answers differ, and a reviewer's decision."""

from __future__ import annotations

import asyncio
from typing import Annotated

from fastapi import APIRouter, Query, Request
from fastapi.responses import Response
from starlette.concurrency import run_in_threadpool

from ocelad.service import serialize
from ocelad.service.api_error import ApiError
from ocelad.service.entries import NewEntry, NewUndo
from ocelad.service.responses import json_response
from ocelad.service.routes.access import ERROR_RESPONSES, Key, Reviewer
from ocelad.service.routes.people import admitted_figures
from ocelad.service.served_project import ServedProject
from ocelad.service.store import AlreadyUndone, AppendResult
from ocelad.service.wire import Disagreement, DisagreementPage, PersonAnswer, Seq, Settled, Settlement

router = APIRouter(tags=["people"], responses=ERROR_RESPONSES)
# A person may undo an answer while it is being overruled; then the decision is prepared again.
_MAX_ATTEMPTS = 4


@router.get("/projects/{project}/disagreements", response_model=DisagreementPage)
async def disagreements(
    access: Reviewer,
    request: Request,
    after: Annotated[Seq, Query(description="List the disagreements after this number")] = 0,
    limit: Annotated[int, Query(ge=1, le=200)] = 50,
) -> Response:
    """List the pairs about which people's answers differ and that nobody has settled, in pages."""
    return await admitted_figures(request, _disagreement_page, access.project, after, limit)


def _disagreement_page(project: ServedProject, after: int, limit: int) -> DisagreementPage:
    with project.answers as index:
        found = index.disagreements(after, limit + 1)
        seq, n_disagreements = index.seq, index.n_disagreements
        listed = [
            Disagreement(
                seq=each.seq,
                left=serialize.item(project, each.pair[0]),
                right=serialize.item(project, each.pair[1]),
                answers=[
                    PersonAnswer(
                        seq=given.seq, at=given.at, person=given.person, answer=given.answer, source=given.source
                    )
                    for given in each.answers
                ],
            )
            for each in found[:limit]
        ]
    following = listed[-1].seq if len(found) > limit else None
    return DisagreementPage(seq=seq, n_disagreements=n_disagreements, disagreements=listed, next=following)


@router.post("/projects/{project}/disagreements/settle", status_code=201, response_model=Settled)
async def settle(access: Reviewer, decision: Settlement, key: Key = None) -> Response:
    """Settle a pair: the reviewer's answer is stored, and other answers about the pair are undone, in one step.

    ``undo`` takes the reviewer's answer back; the answers that it has undone stay undone.
    """
    project, store, person = access.project, access.service.store, access.who
    left = project.position(decision.left, "body.left")
    right = project.position(decision.right, "body.right")
    if left == right:
        message = f"{decision.left!r} is compared with itself; accepted: two different items"
        raise ApiError(422, message, where="body.right")
    pair = min(left, right), max(left, right)
    origin = ["settle", *pair, decision.answer]

    def prepare() -> list[NewEntry | NewUndo]:
        with project.answers as index:
            if not index.has_answers(pair):
                message = (
                    f"nobody has answered about {decision.left!r} and {decision.right!r}; there is nothing to settle"
                )
                raise ApiError(409, message, code="nothing_to_settle")
            settled = index.settled(pair)
            if settled is not None and settled.answer == decision.answer and not index.losing(pair, decision.answer):
                message = f"{decision.left!r} and {decision.right!r} are settled already: {settled.answer}"
                raise ApiError(409, message, code="already_settled")
            undos = [NewUndo(seq, "review") for seq in index.losing(pair, decision.answer)]
        return [*undos, NewEntry(left, right, decision.answer, "review")]

    async def store_decision() -> AppendResult:
        if key is not None:
            # Before the entries are determined: they differ when the pair is settled.
            repeated = await run_in_threadpool(store.find_repeated, project.id, person, key, origin)
            if repeated is not None:
                return repeated
        entries = await run_in_threadpool(prepare)
        project.check_current()
        return await asyncio.wrap_future(store.append(project.id, entries, person, key, origin))

    for attempt in range(1, _MAX_ATTEMPTS + 1):
        try:
            result = await store_decision()
            break
        except AlreadyUndone:
            if attempt == _MAX_ATTEMPTS:
                raise
    first, last = result.entries[0].seq, result.entries[-1].seq
    if not result.repeated:
        await access.audit("disagreement.settle", first=first, last=last)
    settled = Settled(first=first, last=last, n_undone=len(result.entries) - 1, repeated=result.repeated)
    return json_response(settled, 200 if result.repeated else 201)
