"""Reading items from a file, a folder of pictures, or the bytes of an upload."""

from __future__ import annotations

import io
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Literal, Unpack, get_args

from ocelad._validation import check_choice
from ocelad.io.tabular.sources import Source
from ocelad.service.items.column_roles import ColumnOptions
from ocelad.service.items.picture_folder import read_picture_folder
from ocelad.service.items.table_file import read_table
from ocelad.service.items.upload_limits import HTTP_UPLOAD_LIMITS, UploadLimits
from ocelad.service.itemset import ItemSet
from ocelad.service.wire import UploadFormat


def load_items(
    source: str | Path,
    *,
    format: str | None = None,
    id: str | None = None,
    title: str | None = None,
    text: str | None = None,
    picture: str | None = None,
    features: str | Sequence[str] | None = None,
    fields: Sequence[str] = (),
    exclude: str | Sequence[str] = (),
    missing: Literal["stop", "median"] = "stop",
    limits: UploadLimits | None = None,
    progress: Callable[[int, int], None] | None = None,
    skip: Callable[[str], None] | None = None,
) -> ItemSet:
    """Read items from a table in a file, or from a folder of pictures.

    Parameters
    ----------
    source : path
        A file in CSV, TSV or JSON lines (also compressed with gzip), Parquet, Arrow IPC, .npy or .npz; or a folder of
        PNG, JPEG, GIF, WebP and BMP files, whose subfolders become a field.
    format : {"csv", "tsv", "jsonl", "parquet", "arrow", "npy", "npz"}, optional
        Default: from the suffix or the first bytes.
    id : str, optional
        The column of ids. Default: ``id``; without such a column, items are numbered from 0.
    title : str, optional
        The column that names an item, whose texts are not displayed a second time. Default: ``title``, ``name`` or
        similar.
    text : str, optional
        The column of displayed texts. Default: the column with the longest texts, if their mean length is at least 30
        characters or no column has numbers.
    picture : str, optional
        The column of pictures: the bytes of picture files, base64 of them, or paths of files relative to the table and
        in its folder. Default: a column of bytes, or one with a name such as ``picture`` or ``image``.
    features : str or sequence of str, optional
        The columns of the features, as names or patterns (in one string: comma-separated); or one column of lists of
        numbers; or one column of texts, whose words become the features. Default: the column of lists; otherwise all
        columns of numbers except label, class, target and, if there is no x, y; otherwise the brightness of the
        pictures; otherwise the words of the text.
    fields : sequence of str
        Columns that are displayed and can colour the map, but are not learned from. Columns without another role are
        included automatically.
    exclude : str or sequence of str
        Columns that are not features, as names or patterns; they are fields.
    missing : {"stop", "median"}
        Whether a missing number is refused, or replaced by the median of its feature.
    limits : UploadLimits, optional
    progress : callable, optional
        Called with the number of pictures that were read and their total number.
    skip : callable, optional
        Called with one sentence for each unreadable picture, which is then skipped. Default: raise ItemsError.

    Examples
    --------
    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp(), "items.csv")
    >>> _ = path.write_text("id,height,kind\\na,1,cat\\nb,3,dog\\nc,2,cat\\n")
    >>> items = load_items(path)
    >>> items.ids, items.feature_names, items.fields
    (('a', 'b', 'c'), ('height',), {'kind': ['cat', 'dog', 'cat']})
    """
    limits = limits or UploadLimits()
    if Path(source).is_dir():
        return read_picture_folder(Path(source), limits, progress=progress, skip=skip)
    file = Source(source, max_bytes=limits.max_unzipped_bytes)
    columns: ColumnOptions = {
        "id": id,
        "title": title,
        "text": text,
        "picture": picture,
        "features": features,
        "fields": fields,
        "exclude": exclude,
    }
    return read_table(file, format, limits, missing, **columns)


def parse_upload(
    data: bytes,
    format: UploadFormat,
    *,
    missing: str = "stop",
    limits: UploadLimits = HTTP_UPLOAD_LIMITS,
    **columns: Unpack[ColumnOptions],
) -> ItemSet:
    """Parse an upload in this process; ``read_upload`` does so in a separate one.

    >>> parse_upload(b"height,width\\n1,2\\n3,5\\n", "csv").ids
    ('0', '1')
    """
    check_choice(format, "format", get_args(UploadFormat))
    source = Source(io.BytesIO(data), max_bytes=limits.max_unzipped_bytes)
    return read_table(source, format, limits, missing, **columns)
