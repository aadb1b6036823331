"""The route that imports answers from a file."""

from __future__ import annotations

import hashlib
from typing import Annotated, Any

from fastapi import APIRouter, Query, Request
from fastapi.responses import Response

from ocelad.service.answer_import import ImportOutcome, store_import
from ocelad.service.api_error import ApiError
from ocelad.service.labelled_pairs import KINDS, PairFormat, PairsError, UnknownItems, as_text, plan_import
from ocelad.service.log_setup import get_logger
from ocelad.service.responses import json_response
from ocelad.service.routes.access import ERROR_RESPONSES, Access, Admin
from ocelad.service.slow_work import SlowWork
from ocelad.service.wire import ImportFormat, ImportResult, UnknownInFile

log = get_logger("ocelad.service")
router = APIRouter(tags=["answers"], responses=ERROR_RESPONSES)
_MEDIA_TYPES = ("text/csv", "application/json", "application/x-ndjson", "application/vnd.apache.parquet")
_FILE_BODY: dict[str, Any] = {
    "requestBody": {
        "required": True,
        "content": {type: {"schema": {"type": "string", "format": "binary"}} for type in _MEDIA_TYPES},
    }
}
_NOTHING = ImportOutcome(0, 0, None, None, [])


@router.post("/projects/{project}/import", response_model=ImportResult, openapi_extra=_FILE_BODY)
async def import_answers(
    access: Admin,
    request: Request,
    format: Annotated[ImportFormat | None, Query(description="By default found from the content")] = None,
    id_column: Annotated[
        str | None, Query(min_length=1, max_length=200, description="The column of ids in records of dedupe and Zingg")
    ] = None,
    skip_unknown: Annotated[
        bool, Query(description="Leave out answers about unknown items, or refuse the file")
    ] = False,
    dry_run: Annotated[bool, Query(description="Check the file and store nothing")] = False,
) -> Response:
    """Import answers from a file, which is the body, completely or not at all if a row is invalid.

    The file is a table of id_a, id_b and same (CSV, TSV, JSON lines, Parquet), a training file of dedupe, or labelled
    pairs of Splink or Zingg. A person in the file is stored as who answered; otherwise the caller is. The same file is
    imported once: a request may be repeated, for example after a lost connection.
    """
    imports: SlowWork = request.app.state.imports
    with imports.admit() as admission:
        data = await request.body()
        kind = None if format is None else KINDS[format]

        def run() -> ImportResult:
            return _import(access, data, kind, id_column, skip_unknown=skip_unknown, dry_run=dry_run)

        result = await admission.run(run)
    if result.n_imported:
        detail: dict[str, Any] = {"digest": result.digest, "format": result.format, "n_imported": result.n_imported}
        await access.audit("answers.import", **detail)
        log.info("answers imported", project=access.project.id, **detail)
    return json_response(result)


def _import(
    access: Access, data: bytes, format: PairFormat | None, id_column: str | None, *, skip_unknown: bool, dry_run: bool
) -> ImportResult:
    try:
        plan = plan_import(
            as_text(data),
            access.project.items,
            access.who,
            format=format,
            id_column=id_column,
            skip_unknown=skip_unknown,
            digest=hashlib.sha256(data).hexdigest(),
        )
    except UnknownItems as error:
        raise ApiError(422, str(error), code="unknown_items", where="body") from None
    except PairsError as error:
        raise ApiError(422, str(error), code="bad_pairs", where="body") from None
    project = access.project
    project.check_current()
    outcome = (
        _NOTHING
        if dry_run
        else store_import(access.service.store, project.id, plan, progress=lambda count: project.check_current())
    )
    return ImportResult(
        format=plan.format,
        dry_run=dry_run,
        digest=plan.digest,
        n_answers=plan.n_answers,
        n_imported=outcome.n_imported,
        n_repeated=outcome.n_repeated,
        n_left_out=plan.n_left_out,
        n_unknown=plan.n_unknown,
        unknown=[UnknownInFile(item=each.item, where=each.where) for each in plan.unknown],
        first=outcome.first,
        last=outcome.last,
        notes=[*plan.notes, *outcome.notes],
    )
