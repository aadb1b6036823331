"""What an import stores: the answers of a file about the items of a project."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

from ocelad.service.entries import NewEntry
from ocelad.service.itemset import ItemSet
from ocelad.service.labelled_pairs.item_lookup import ItemLookup
from ocelad.service.labelled_pairs.pair_files import PairFormat, read_pairs
from ocelad.service.labelled_pairs.pairs_error import PairsError, UnknownItems

#: The largest number of pairs in one file.
MAX_PAIRS = 1_000_000
#: The number of pairs of a file that are stored at once.
BATCH_SIZE = 5_000
#: The number of unknown items that are listed.
MAX_LISTED = 10


@dataclass(frozen=True, slots=True)
class UnknownPair:
    """A pair of which the project does not have an item.

    Attributes
    ----------
    item : str
        The item as the file names it.
    where : str
        The place in the file.
    """

    item: str
    where: str


@dataclass(frozen=True)
class ImportPlan:
    """The checked answers of a file.

    Attributes
    ----------
    digest : str
        Identifies the file.
    format : {"pairs", "dedupe", "splink", "zingg"}
    batches : dict of int to list of NewEntry
        The answers in order, by the number of their batch. A batch has the pairs of a part of the file, whether their
        items are known or not, so that a file has the same batches when it is imported again.
    n_left_out : int
        The number of rows without an answer.
    n_unknown : int
        The number of answers about unknown items, which are left out.
    unknown : list of UnknownPair
        The first of them.
    notes : list of str
    """

    digest: str
    format: PairFormat
    batches: dict[int, list[NewEntry]]
    n_left_out: int
    n_unknown: int
    unknown: list[UnknownPair]
    notes: list[str]

    @property
    def entries(self) -> list[NewEntry]:
        """All answers in order."""
        return [entry for batch in self.batches.values() for entry in batch]

    @property
    def n_answers(self) -> int:
        """The number of answers."""
        return sum(map(len, self.batches.values()))


def plan_import(
    data: bytes,
    items: ItemSet,
    person: str,
    *,
    format: PairFormat | None = None,
    id_column: str | None = None,
    skip_unknown: bool = False,
    digest: str | None = None,
) -> ImportPlan:
    """Read all answers of a file and find their items; nothing is stored.

    Parameters
    ----------
    data : bytes
        The content of the file.
    items : ItemSet
    person : str
        Who answered, where the file does not say it.
    format : {"pairs", "dedupe", "splink", "zingg"} or None
        None: found from the content.
    id_column : str or None
        The column of ids in records of dedupe and Zingg; None: one of the usual names.
    skip_unknown : bool
        Whether answers about unknown items are left out; otherwise they raise UnknownItems.
    digest : str or None
        Identifies the file; None: the digest of its content.
    """
    file, lookup = read_pairs(data, format, items.ids), ItemLookup(items, id_column)
    batches: dict[int, list[NewEntry]] = {}
    unknown: list[UnknownPair] = []
    n_answers = n_unknown = 0
    for number, pair in enumerate(file.pairs):
        left, right = lookup.find(pair.left), lookup.find(pair.right)
        if left is None or right is None:
            n_unknown += 1
            if len(unknown) < MAX_LISTED:
                unknown.append(UnknownPair((pair.left if left is None else pair.right).label, pair.where))
        elif left == right:
            if not pair.may_be_one_item:
                raise PairsError(f"{pair.where} compares {pair.left.label} with itself; accepted: two different items")
            file.left_out.add("pairs of an item with itself")
        else:
            batch = batches.setdefault(number // BATCH_SIZE, [])
            batch.append(NewEntry(left, right, pair.answer, "import", pair.person or person))
            n_answers += 1
        if number == MAX_PAIRS:
            raise PairsError(f"the file has more than {MAX_PAIRS:,} pairs; split it")
    if n_unknown and not skip_unknown:
        raise UnknownItems(_describe_unknown(unknown, n_unknown, n_unknown + n_answers))
    return ImportPlan(
        digest=digest or hashlib.sha256(data).hexdigest(),
        format=file.format,
        batches=batches,
        n_left_out=file.left_out.total,
        n_unknown=n_unknown,
        unknown=unknown,
        notes=[*file.notes, *file.left_out.notes()],
    )


def _describe_unknown(unknown: list[UnknownPair], n_unknown: int, total: int) -> str:
    listed = ", ".join(f"{each.item} ({each.where})" for each in unknown)
    more = f" and {n_unknown - len(unknown):,} more" if n_unknown > len(unknown) else ""
    return (
        f"{n_unknown:,} of {total:,} answers are about items that the project does not have: {listed}{more}; "
        "add these items, or leave the answers out with --skip-unknown (skip_unknown=true)"
    )
