"""Read a file of labelled pairs, whose format follows from its content."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

from ocelad.service.labelled_pairs.answered_pairs import is_answered_pairs, read_answered_pairs
from ocelad.service.labelled_pairs.dedupe_training import is_dedupe_training, read_dedupe_training
from ocelad.service.labelled_pairs.labelled_pair import LabelledPair
from ocelad.service.labelled_pairs.left_out import LeftOut
from ocelad.service.labelled_pairs.pairs_error import PairsError
from ocelad.service.labelled_pairs.record_table import RecordTable, decode_text, parse_json, read_table
from ocelad.service.labelled_pairs.splink_labels import is_splink_labels, read_splink_labels
from ocelad.service.labelled_pairs.zingg_labels import is_zingg_labels, read_zingg_labels

#: "pairs": a table of id_a, id_b and same.
PairFormat: TypeAlias = Literal["pairs", "dedupe", "splink", "zingg"]
#: The formats of a file by the name that users know them by; tables of pairs are recognized by their content.
KINDS: dict[str, PairFormat] = {
    "csv": "pairs",
    "jsonl": "pairs",
    "parquet": "pairs",
    "dedupe": "dedupe",
    "splink": "splink",
    "zingg": "zingg",
}
_ACCEPTED = (
    "accepted: a table of id_a, id_b and same, a training file of dedupe, or labelled pairs of Splink or of Zingg"
)


@dataclass
class PairFile:
    """A file of labelled pairs that is being read.

    Attributes
    ----------
    format : {"pairs", "dedupe", "splink", "zingg"}
    pairs : iterator of LabelledPair
        Raises PairsError at the first row that is not accepted.
    left_out : LeftOut
        The rows without an answer, once all pairs are read.
    notes : list of str
        Sentences about the file for people, once all pairs are read.
    """

    format: PairFormat
    pairs: Iterator[LabelledPair]
    left_out: LeftOut
    notes: list[str]


def read_pairs(data: bytes, format: PairFormat | None = None, known_ids: Sequence[str] = ()) -> PairFile:
    """Open a file of labelled pairs.

    Parameters
    ----------
    data : bytes
        The content of the file.
    format : {"pairs", "dedupe", "splink", "zingg"} or None
        None: found from the content.
    known_ids : sequence of str
        The ids of items, which are searched for in a table without a header.

    Examples
    --------
    >>> file = read_pairs(b"id_a;id_b;same\\na;b;yes\\n")
    >>> file.format, [(pair.left.id, pair.right.id, pair.answer) for pair in file.pairs]
    ('pairs', [('a', 'b', 'same')])
    """
    left_out = LeftOut()
    if format in (None, "dedupe"):
        content, notes = _parse_object(data)
        if format == "dedupe" or is_dedupe_training(content):
            return PairFile("dedupe", read_dedupe_training(content), left_out, notes)
    table = read_table(data)
    format = format or _detect(table)
    pairs = {
        "pairs": lambda: read_answered_pairs(table, left_out),
        "splink": lambda: read_splink_labels(table, left_out),
        "zingg": lambda: read_zingg_labels(table, left_out, known_ids),
    }[format]()
    return PairFile(format, pairs, left_out, table.notes)


def _parse_object(data: bytes) -> tuple[object, list[str]]:
    """Return the content of a file that is one JSON object; None if it is not."""
    if data[:4096].lstrip(b"\xef\xbb\xbf \t\r\n")[:1] != b"{":
        return None, []
    text, notes = decode_text(data)
    try:
        return parse_json(text), notes
    except PairsError:
        if text.lstrip()[1:].lstrip()[:9].startswith(('"distinct', '"match')):
            raise
        return None, notes  # JSON lines


def _detect(table: RecordTable) -> PairFormat:
    """Return the format of a table; raise PairsError if it has the columns of none."""
    if is_zingg_labels(table):
        return "zingg"
    if is_splink_labels(table):
        return "splink"
    if is_answered_pairs(table):
        return "pairs"
    raise PairsError(f"the columns are {', '.join(table.columns)[:200]}; {_ACCEPTED}")
