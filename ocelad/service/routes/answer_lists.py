"""Routes for lists of answers: filter, search, change and write them as CSV."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Annotated, Literal, cast

from fastapi import APIRouter, Depends, Path, Query, Request
from fastapi.responses import Response
from starlette.concurrency import run_in_threadpool

from ocelad.service import serialize
from ocelad.service.api_error import ApiError
from ocelad.service.entries import Answer, Entry, NewEntry, NewUndo, PairSource
from ocelad.service.item_search import FoundItems, ItemSearches
from ocelad.service.labelled_pairs.csv_lines import csv_line
from ocelad.service.responses import json_response
from ocelad.service.routes.access import ERROR_RESPONSES, Access, Answerer, Key, Reader
from ocelad.service.slow_work import SlowStream, SlowWork
from ocelad.service.store import AnswerFilter
from ocelad.service.wire import AnswerChange, AnswerChanged, AnswerPage, ListedAnswer, Seq

router = APIRouter(tags=["answers"], responses=ERROR_RESPONSES)
# Seconds for the search of items, for the search of their answers, and for counting.
SEARCH_SECONDS = 1.5
# The number of answers that are written to CSV at once.
_CSV_PAGE = 2_000
_CSV_COLUMNS = ("id_a", "id_b", "similar", "time", "person", "source", "seq", "undone")
_ANSWERS = ("same", "different", "skip")
Order = Literal["newest", "oldest"]


@dataclass(frozen=True)
class AnswerList:
    """Which answers a caller wants to see, as query parameters."""

    person: Annotated[str | None, Query(max_length=200, description="Who answered, as it is stored")] = None
    answer: Annotated[Answer | None, Query()] = None
    source: Annotated[PairSource | None, Query(description="How the pair was chosen")] = None
    item: Annotated[str | None, Query(min_length=1, max_length=200, description="The id of one of the two items")] = (
        None
    )
    search: Annotated[
        str | None, Query(max_length=200, description="Words in the id, the text or a field of one of the two items")
    ] = None
    undone: Annotated[bool | None, Query(description="Only undone answers, or only others")] = None

    def filter(self, access: Access, searches: ItemSearches) -> tuple[AnswerFilter, FoundItems | None]:
        """Return the filter of the store, and the items that were found."""
        project = access.project
        items = []
        if self.item is not None:
            items.append(frozenset([project.position(self.item, "query.item")]))
        found = None
        if self.search is not None and self.search.strip():
            found = searches.find(project.items, self.search, SEARCH_SECONDS)
            items.append(found.positions)
        return AnswerFilter(self.person, self.answer, self.source, self.undone, tuple(items)), found


@router.get(
    "/projects/{project}/answers",
    response_model=AnswerPage,
    responses={200: {"content": {"text/csv": {"schema": {"type": "string"}}}}},
)
async def answers(
    access: Reader,
    request: Request,
    which: Annotated[AnswerList, Depends()],
    order: Annotated[Order, Query()] = "newest",
    after: Annotated[Seq | None, Query(description="Continue the list after this entry")] = None,
    limit: Annotated[int, Query(ge=1, le=200)] = 50,
    format: Annotated[Literal["json", "csv"], Query(description="csv: all pages as a file")] = "json",
) -> Response:
    """List the answers of a project with their items, in pages, or all of them as CSV.

    A search takes a few seconds at most. If it is cut off, a page may have fewer answers than ``limit``, or none,
    although there is a next one.
    """
    listing = _Listing(access, which, request.app.state.searches, newest_first=order == "newest")
    work: SlowWork = request.app.state.list_files if format == "csv" else request.app.state.lists
    admission = work.admit()
    try:
        if format == "json":
            response = json_response(await admission.run(lambda: listing.page(after, limit)))
            admission.leave()
            return response
        chunks = listing.csv_chunks(after)
        first = await admission.run(lambda: next(chunks, b""))
        await access.audit("export", content="answers", format="csv")
    except BaseException:
        admission.leave()
        raise
    headers = {"Content-Disposition": f'attachment; filename="{access.project.id}-answers.csv"'}
    return SlowStream(admission, first, chunks, media_type="text/csv", headers=headers)


class _Listing:
    """A list of answers for a caller."""

    def __init__(self, access: Access, which: AnswerList, searches: ItemSearches, *, newest_first: bool) -> None:
        self._access, self._which, self._searches = access, which, searches
        self._newest_first = newest_first

    def page(self, after: int | None, limit: int) -> AnswerPage:
        filter, found = self._which.filter(self._access, self._searches)
        store, project = self._access.service.store, self._access.project
        rows = store.answers(project.id, filter, after, limit, newest_first=self._newest_first, seconds=SEARCH_SECONDS)
        return AnswerPage(
            answers=[self._listed(entry, undone_by) for entry, undone_by in rows.answers],
            next=rows.next,
            n_answers=store.count_answers(project.id, filter, seconds=SEARCH_SECONDS),
            n_items_searched=None if found is None else found.n_searched,
        )

    def _listed(self, entry: Entry, undone_by: int | None) -> ListedAnswer:
        access = self._access
        return ListedAnswer(
            seq=entry.seq,
            at=entry.at,
            answer=cast("Answer", entry.kind),  # the filter selects answers only
            left=serialize.item(access.project, entry.left),
            right=serialize.item(access.project, entry.right),
            source=entry.source,
            person=entry.person,
            undone_by=undone_by,
            bundle=entry.bundle,
            may_change=undone_by is None and _may_change(access, entry),
        )

    def csv_chunks(self, after: int | None) -> Iterator[bytes]:
        filter, _ = self._which.filter(self._access, self._searches)
        store, project = self._access.service.store, self._access.project
        yield csv_line(_CSV_COLUMNS)
        position, ids = after, project.items.ids
        while True:
            rows = store.answers(
                project.id, filter, position, _CSV_PAGE, newest_first=self._newest_first, seconds=SEARCH_SECONDS
            )
            lines = []
            for entry, undone_by in rows.answers:
                at = datetime.fromtimestamp(entry.at / 1000, UTC).isoformat(timespec="milliseconds")
                pair = ids[entry.left], ids[entry.right], entry.kind, at
                lines.append(
                    csv_line([*pair, entry.person, entry.source, entry.seq, str(undone_by is not None).lower()])
                )
            yield b"".join(lines)
            if rows.next is None:
                return
            position = rows.next


@router.post("/projects/{project}/answers/{seq}/change", status_code=201, response_model=AnswerChanged)
async def change(
    access: Answerer, seq: Annotated[int, Path(ge=1, le=2**53)], new: AnswerChange, key: Key = None
) -> Response:
    """Replace an answer: it is undone, and the new one is stored in the name of the caller, both in one step.

    Answers that were given with another token require the permission 'admin'.
    """
    project, store = access.project, access.service.store
    entry = await run_in_threadpool(store.entry, project.id, seq)
    project.check_current()
    if entry.kind not in _ANSWERS:
        raise ApiError(409, f"entry {seq} is not an answer", code="not_an_answer", where="path.seq")
    if not _may_change(access, entry):
        raise ApiError(403, f"entry {seq} is of another token; changing it requires the permission 'admin'")
    if entry.kind == new.answer:
        message = f"entry {seq} is the answer {new.answer!r} already; accepted: another answer"
        raise ApiError(409, message, code="same_answer", where="body.answer")
    entries: list[NewEntry | NewUndo] = [NewUndo(seq), NewEntry(entry.left, entry.right, new.answer)]
    stored = store.append(project.id, entries, access.who, key, origin=["change", seq, new.answer])
    result = await asyncio.wrap_future(stored)
    undo, answer = result.entries
    changed = AnswerChanged(seq=answer.seq, undo=undo.seq, repeated=result.repeated)
    return json_response(changed, 200 if result.repeated else 201)


def _may_change(access: Access, entry: Entry) -> bool:
    if access.permission == "admin":
        return True
    return access.caller.may("answer", access.project.id) and access.caller.has_stored(entry.person)
