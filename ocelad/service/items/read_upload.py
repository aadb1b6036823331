"""Items from a file, a folder, or what was uploaded."""

from __future__ import annotations

import io
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Unpack, get_args

from ocelad._validation import check_choice
from ocelad.io.tabular.sources import Source
from ocelad.service.items.picture_files import read_folder
from ocelad.service.items.roles import Columns
from ocelad.service.items.table import read_table
from ocelad.service.items.upload_limits import UPLOAD_LIMITS, Limits
from ocelad.service.itemset import ItemSet
from ocelad.service.wire import UploadFormat


def read_items(
    source: str | Path,
    *,
    format: str | None = None,
    id: str | None = None,
    text: str | None = None,
    features: str | Sequence[str] | None = None,
    fields: Sequence[str] = (),
    limits: Limits | None = None,
    progress: Callable[[int, int], None] | None = None,
    skip: Callable[[str], None] | None = None,
) -> ItemSet:
    """Read items from a table in a file, or from a folder of pictures.

    Parameters
    ----------
    source : path
        CSV, TSV, JSON lines (each may be gzipped), Parquet or Arrow IPC; or a folder of PNG, JPEG, GIF, WebP and BMP
        files, in which the folders become a field.
    format : {"csv", "tsv", "jsonl", "parquet", "arrow"}, optional
        Default: by the suffix, or by the first bytes.
    id : str, optional
        The column of ids. Default: ``id``; without one, items are numbered from 0.
    text : str, optional
        The column of texts that are shown. Default: the one with the longest, where they have 30 characters on
        average, or where there are no numbers.
    features : str or sequence of str, optional
        The columns of the features, as names or patterns (in one text: with commas between them); or one column of
        lists of numbers; or one of texts, whose words become the features. Default: a column of lists; without one, all
        numbers that are not called label, class, target or (without an x) y; without those, the words of the text.
    fields : sequence of str
        Columns that are only told of and coloured by. All that is nothing else is one, too.
    limits : Limits, optional
    progress : callable, optional
        Called with how many pictures are read, and how many there are.
    skip : callable, optional
        Called with one sentence for each picture that cannot be read, which is left out then. Default: it is an error.

    Examples
    --------
    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp(), "items.csv")
    >>> _ = path.write_text("id,height,kind\\na,1,cat\\nb,3,dog\\nc,2,cat\\n")
    >>> items = read_items(path)
    >>> items.ids, items.feature_names, items.fields
    (('a', 'b', 'c'), ('height',), {'kind': ['cat', 'dog', 'cat']})
    """
    limits = limits or Limits()
    if Path(source).is_dir():
        return read_folder(Path(source), limits, progress=progress, skip=skip)
    opened = Source(source, max_bytes=limits.unzipped_bytes)
    return read_table(opened, format, limits, id=id, text=text, features=features, fields=fields)


def parse_upload(
    data: bytes, format: UploadFormat, *, limits: Limits = UPLOAD_LIMITS, **columns: Unpack[Columns]
) -> ItemSet:
    """What ``read_upload`` does in a process of its own.

    >>> parse_upload(b"height,width\\n1,2\\n3,5\\n", "csv").ids
    ('0', '1')
    """
    check_choice(format, "format", get_args(UploadFormat))
    source = Source(io.BytesIO(data), max_bytes=limits.unzipped_bytes)
    return read_table(source, format, limits, **columns)
