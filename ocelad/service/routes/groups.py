"""Routes for groups: items that the answers imply to be the same. People can merge, split and name them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Annotated, Any, TypeAlias

from fastapi import APIRouter, Query
from fastapi.responses import Response
from starlette.concurrency import run_in_threadpool

from ocelad.service import serialize
from ocelad.service.api_error import ApiError
from ocelad.service.entries import NewEntry
from ocelad.service.learning import Groups, View
from ocelad.service.routes.access import ERROR_RESPONSES, Access, Answerer, Key, Reader, json_response_in_thread
from ocelad.service.served_project import ServedProject
from ocelad.service.submission import acknowledge
from ocelad.service.wire import (
    Acknowledgement,
    Contradiction,
    ContradictionPage,
    GroupItems,
    GroupName,
    GroupPage,
    Merge,
    NextPair,
    Split,
)

router = APIRouter(tags=["groups"], responses=ERROR_RESPONSES)
# Seconds that a merge or a split waits until all earlier answers are in the groups.
MAX_WAIT = 10.0
# The number of items that represent a group in a list.
_N_EXAMPLES = 6
_ON_REQUEST = "Asked on request."
_IN_ONE_GROUP = "Answers contradict each other: most say that these two are different, but others put them in one pile."
_IN_TWO_GROUPS = (
    "Answers contradict each other: most say that these two are the same, but others keep their piles apart."
)
#: Answers about positions of items: left, right, and whether they are the same.
Answers: TypeAlias = list[tuple[int, int, bool]]
After = Annotated[int, Query(ge=0, le=2**53, description="The number of those that were listed before")]
ItemId = Annotated[str, Query(min_length=1, max_length=200)]


def require_groups(project: ServedProject) -> tuple[View, Groups]:
    """Return the groups of a project and the view that they are of; raise ApiError if it has none."""
    view = project.view
    if view.groups is None:
        raise ApiError(
            409,
            f"{project.id!r} has no groups, because it was created with transitive=false or by an earlier version",
            code="no_groups",
        )
    return view, view.groups


@router.get("/projects/{project}/groups", response_model=GroupPage)
async def groups(access: Reader, after: After = 0, limit: Annotated[int, Query(ge=1, le=200)] = 50) -> Response:
    """List the groups of items with answers, the largest first, in pages; each with its first items."""
    return await json_response_in_thread(_group_page, access.project, after, limit)


def _group_page(project: ServedProject, after: int, limit: int) -> GroupPage:
    view, groups = require_groups(project)
    end = after + limit
    return GroupPage(
        seq=view.seq,
        n_answers=view.n_answers,
        n_implied=groups.n_implied,
        n_groups=len(groups.all),
        n_contradictions=len(groups.contradictions),
        groups=[serialize.group(project, group, _N_EXAMPLES) for group in groups.all[after:end]],
        next=end if end < len(groups.all) else None,
    )


@router.get("/projects/{project}/groups/items", response_model=GroupItems)
async def group_items(
    access: Reader, item: ItemId, after: After = 0, limit: Annotated[int, Query(ge=1, le=200)] = 100
) -> Response:
    """List the items of an item's group, in pages."""
    return await json_response_in_thread(_group_items, access.project, item, after, limit)


def _group_items(project: ServedProject, id: str, after: int, limit: int) -> GroupItems:
    view, groups = require_groups(project)
    group, end = groups.of_item(project.position(id, "query.item")), after + limit
    return GroupItems(
        seq=view.seq,
        group=serialize.group(project, group),
        items=[serialize.item(project, position) for position in group.items[after:end]],
        next=end if end < len(group.items) else None,
    )


@router.get("/projects/{project}/contradictions", response_model=ContradictionPage)
async def contradictions(access: Reader, after: After = 0, limit: Annotated[int, Query(ge=1, le=200)] = 50) -> Response:
    """List the pairs whose answers contradict the groups, in pages; an answer about such a pair settles it."""
    return await json_response_in_thread(_contradiction_page, access.project, after, limit)


def _contradiction_page(project: ServedProject, after: int, limit: int) -> ContradictionPage:
    view, groups = require_groups(project)
    end, found = after + limit, groups.contradictions
    return ContradictionPage(
        seq=view.seq,
        contradictions=[
            Contradiction(left=serialize.item(project, left), right=serialize.item(project, right), votes=votes)
            for left, right, votes in found[after:end]
        ],
        next=end if end < len(found) else None,
    )


@router.get("/projects/{project}/pair", response_model=NextPair)
async def pair(access: Answerer, left: ItemId, right: ItemId) -> Response:
    """Return a given pair, such as a contradiction, in the form of the next pair, to ask about it."""
    return await json_response_in_thread(_given_pair, access.project, left, right)


def _given_pair(project: ServedProject, left_id: str, right_id: str) -> NextPair:
    view, left, right = project.view, project.position(left_id, "query.left"), project.position(right_id, "query.right")
    if left == right:
        raise ApiError(422, f"{left_id!r} is compared with itself; accepted: two different items", where="query.right")
    if max(left, right) >= len(view.items):
        raise ApiError(503, "an item has just been added; try again", headers={"Retry-After": "1"})
    found = () if view.groups is None else view.groups.contradictions
    votes = next((each.votes for each in found if {each.left, each.right} == {left, right}), 0.0)
    distance = float(view.distances(view.points[[left]], view.points[[right]])[0])
    return NextPair(
        seq=view.seq,
        left=serialize.item(project, left),
        right=serialize.item(project, right),
        source="given",
        ticket=None,
        reason=_IN_ONE_GROUP if votes < 0 else _IN_TWO_GROUPS if votes > 0 else _ON_REQUEST,
        distance=distance,
        threshold=view.metric.distance_threshold,
        probability=float(view.probabilities(distance)),
        differences=serialize.differences(project.items, left, right),
    )


@router.post("/projects/{project}/groups/merge", status_code=201, response_model=Acknowledgement)
async def merge(access: Answerer, pair: Merge, key: Key = None) -> Response:
    """Join the groups of two items by answers "same", which are stored in one step and undone together."""
    project = access.project
    left, right = project.position(pair.left, "body.left"), project.position(pair.right, "body.right")
    if left == right:
        raise ApiError(422, f"{pair.left!r} is merged with itself; accepted: two different items", where="body.right")

    def answers(groups: Groups) -> Answers:
        found = groups.answers_to_merge(left, right)
        if not found:
            raise ApiError(409, f"{pair.left!r} and {pair.right!r} are in one group already", code="same_group")
        return found

    return await _edit(access, answers, ["merge", left, right], key)


@router.post("/projects/{project}/groups/split", status_code=201, response_model=Acknowledgement)
async def split(access: Answerer, part: Split, key: Key = None) -> Response:
    """Make items of a group a group of their own by answers, which are stored in one step and undone together."""
    project = access.project
    items = {project.position(id, f"body.items.{i}"): id for i, id in enumerate(part.items)}

    def answers(groups: Groups) -> Answers:
        named = {groups.of_item(item).items[0]: id for item, id in items.items()}
        if len(named) > 1:
            first, second, *_ = named.values()
            message = f"{first!r} and {second!r} are in different groups; accepted: items of one group"
            raise ApiError(409, message, code="different_groups", where="body.items")
        if len(items) == len(groups.of_item(next(iter(items))).items):
            message = "these items are a whole group; accepted: items that leave others of their group behind"
            raise ApiError(409, message, code="whole_group", where="body.items")
        return groups.answers_to_split(items)

    return await _edit(access, answers, ["split", *sorted(items)], key)


@router.post("/projects/{project}/groups/name", status_code=201, response_model=Acknowledgement)
async def name(access: Answerer, new: GroupName, key: Key = None) -> Response:
    """Name the group of an item. The name belongs to the item: a group has the last name given to one of its items."""
    project = access.project
    item = project.position(new.item, "body.item")
    require_groups(project)
    person = access.caller.stored_name(access.person)
    named = access.service.store.name_group(project.id, item, new.name, person, key)
    return acknowledge(await asyncio.wrap_future(named))


async def _edit(access: Access, answers: Callable[[Groups], Answers], origin: list[Any], key: str | None) -> Response:
    """Store the answers that edit the latest groups as one bundle."""
    project, store = access.project, access.service.store
    person = access.caller.stored_name(access.person)
    require_groups(project)

    def prepare() -> list[NewEntry]:
        if not project.learner.wait(project.seq, MAX_WAIT):
            raise ApiError(503, "earlier answers are not in the groups yet; try again", headers={"Retry-After": "1"})
        _, groups = require_groups(project)
        return [NewEntry(left, right, "same" if same else "different") for left, right, same in answers(groups)]

    if key is not None:
        # Before the answers are determined: they differ when the groups have changed since the first request.
        repeated = await run_in_threadpool(store.find_repeated, project.id, person, key, origin)
        if repeated is not None:
            return acknowledge(repeated)
    entries = await run_in_threadpool(prepare)
    project.check_current()
    return acknowledge(await asyncio.wrap_future(store.append(project.id, entries, person, key, origin)))
