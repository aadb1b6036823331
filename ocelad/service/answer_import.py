"""Store the answers of a file in batches, each once."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from ocelad.service.labelled_pairs import ImportPlan
from ocelad.service.store import KeyConflict, Store
from ocelad.service.store.entry_log import IMPORTER

_IMPORTED_BEFORE = (
    "Parts of this file were imported before in the name of another person, or when other items were known; they were "
    "not imported again."
)


@dataclass(frozen=True)
class ImportOutcome:
    """What an import has stored.

    Attributes
    ----------
    n_imported : int
        The number of new entries.
    n_repeated : int
        The number of answers that an earlier import of the same file had stored.
    first, last : int or None
        The numbers of the first and the last new entry; None if there are none. Other entries may be between them.
    notes : list of str
        Sentences for people.
    """

    n_imported: int
    n_repeated: int
    first: int | None
    last: int | None
    notes: list[str]


def store_import(
    store: Store, project_id: str, plan: ImportPlan, progress: Callable[[int], None] = lambda count: None
) -> ImportOutcome:
    """Append the answers of a plan to a log, batch by batch; each batch is durable before the next.

    A batch is stored once, whoever imports the file and whenever: an interrupted import is resumed by a repetition.

    Parameters
    ----------
    store : Store
    project_id : str
    plan : ImportPlan
    progress : callable
        Called with the number of answers after each batch.
    """
    n_imported = n_repeated = 0
    seqs: list[int] = []
    notes: list[str] = []
    for number, batch in plan.batches.items():
        key = f"{plan.digest}-{plan.format}-{number}"
        try:
            result = store.append(project_id, batch, IMPORTER, key).result()
        except KeyConflict:
            n_repeated += len(batch)
            notes = [_IMPORTED_BEFORE]
        else:
            n_imported += 0 if result.repeated else len(batch)
            n_repeated += len(batch) if result.repeated else 0
            seqs += [] if result.repeated else [result.entries[0].seq, result.entries[-1].seq]
        progress(len(batch))
    first, last = (seqs[0], seqs[-1]) if seqs else (None, None)
    return ImportOutcome(n_imported, n_repeated, first, last, notes)
