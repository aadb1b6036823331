"""State files: named arrays and metadata in one safetensors file with a checksum, written atomically.

>>> from tempfile import TemporaryDirectory
>>> with TemporaryDirectory() as folder:
...     write(f"{folder}/file", "ocelad.metric/1", {"matrix": np.eye(2)}, {"threshold": 1.0})
...     arrays, metadata = read(f"{folder}/file", "ocelad.metric/1")
>>> arrays["matrix"].shape, metadata
((2, 2), {'threshold': 1.0})
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np

from ocelad._typing import Arrays, Metadata
from ocelad.io.atomic import check_folder_of, write_atomically

# Kind and version of the content. The version increases when a name within the file changes its meaning.
METRIC = "ocelad.metric/1"
CURVED_METRIC = "ocelad.curved-metric/1"
TRACKER = "ocelad.tracker/1"
LINKER = "ocelad.linker/1"
# The key of the safetensors metadata under which everything that is not an array is stored, as JSON.
_KEY = "ocelad"
_FORMAT = re.compile(r"ocelad\.([a-z-]+)/([0-9]{1,9})")


def write(path: str | os.PathLike[str], format: str, arrays: Arrays, metadata: Metadata) -> None:
    """Write a state file, or replace it atomically. The same content gives the same bytes.

    Parameters
    ----------
    path : path
        A symbolic link is followed, and a file that is replaced keeps its permissions.
    format : str
        Kind and version of the content, such as "ocelad.metric/1". ``read`` requires the same kind.
    arrays : dict of arrays
    metadata : dict
        Values that JSON can represent. The keys "format" and "checksum" are reserved.
    """
    if reserved := metadata.keys() & {"format", "checksum"}:
        raise ValueError(f"metadata holds the reserved keys {sorted(reserved)}")
    path = Path(os.path.realpath(path))
    if path.is_dir():
        raise IsADirectoryError(f"{str(path)!r} is a folder; accepted: the path of a file")
    if path.exists() and not path.is_file():
        raise ValueError(f"{str(path)!r} is not a plain file; accepted: the path of a file")
    check_folder_of(path)
    write_atomically(path, _serialize(format, arrays, metadata))


def read(path: str | os.PathLike[str], format: str, *, needs_checksum: bool = True) -> tuple[Arrays, Metadata]:
    """Read a state file and return the arrays and the metadata that were given to ``write``.

    Raises ValueError if the file is damaged, or has another format. ``needs_checksum=False`` also accepts files
    without a checksum, which early versions wrote.
    """
    if Path(path).is_dir():
        raise IsADirectoryError(f"{str(path)!r} is a folder; accepted: a file of the format {format}")
    if not Path(path).is_file():
        raise FileNotFoundError(f"no file at {str(path)!r}; accepted: a file of the format {format}")
    data = Path(path).read_bytes()
    with content_errors(path, format):
        arrays, metadata = _parse(data)
        written = str(metadata.pop("format"))
    if _kind(written) not in ("", _kind(format)):
        raise ValueError(f"{str(path)!r} holds a {_kind(written)}, not a {_kind(format)}; accepted: {format}")
    if _version(written) > _version(format):
        raise ValueError(
            f"{str(path)!r} has the format {written} of a newer version of ocelad; this version reads {format}"
        )
    with content_errors(path, format):
        if written != format:
            raise ValueError(f"its format is {written!r}")
        checksum = metadata.pop("checksum", None)
        if (checksum is not None or needs_checksum) and checksum != _checksum(format, arrays, metadata):
            raise ValueError("its content does not match its checksum")
    return arrays, metadata


def read_kind(path: str | os.PathLike[str]) -> str:
    """Return the kind of content that a state file declares: "metric" or "tracker".

    Returns an empty string for other files and if no file exists; ``read`` raises the exception with the reason.
    """
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(path, framework="numpy") as file:
            return _kind(str(json.loads((file.metadata() or {})[_KEY])["format"]))
    except (OSError, SafetensorError, KeyError, TypeError, ValueError):
        return ""


@contextmanager
def content_errors(path: str | os.PathLike[str], format: str) -> Iterator[None]:
    """Turn exceptions about the content of a file into a ValueError that names the file.

    >>> with content_errors("some.file", METRIC):
    ...     {}["matrix"]
    Traceback (most recent call last):
        ...
    ValueError: 'some.file' is not a valid metric file (no 'matrix'); accepted: ocelad.metric/1
    """
    try:
        yield
    except (IndexError, KeyError, TypeError, ValueError, RecursionError) as error:
        reason = f"no {error}" if isinstance(error, KeyError) else str(error)
        raise ValueError(f"{str(path)!r} is not a valid {_kind(format)} file ({reason}); accepted: {format}") from error


def _kind(format: str) -> str:
    """Return the kind of content of a format; empty if it is not a format of this package."""
    return match[1] if (match := _FORMAT.fullmatch(format)) else ""


def _version(format: str) -> int:
    return int(match[2]) if (match := _FORMAT.fullmatch(format)) else 0


def _serialize(format: str, arrays: Mapping[str, Any], metadata: Metadata) -> bytes:
    from safetensors.numpy import save

    # safetensors writes the memory of an array unchanged, and expects C order and native byte order.
    plain = {name: np.asarray(array, array.dtype.newbyteorder("="), order="C") for name, array in arrays.items()}
    checksum = _checksum(format, plain, metadata)
    content: bytes = save(plain, metadata={_KEY: _json({**metadata, "format": format, "checksum": checksum})})
    return content


def _parse(data: bytes) -> tuple[Arrays, Metadata]:
    from safetensors import SafetensorError
    from safetensors.numpy import load

    try:
        arrays = load(data)
    except (SafetensorError, OverflowError) as error:
        raise ValueError(f"it is truncated or damaged: {error}") from error
    header = json.loads(data[8 : 8 + int.from_bytes(data[:8], "little")])
    metadata = json.loads(header.get("__metadata__", {})[_KEY])
    if not isinstance(metadata, dict):
        raise ValueError(f"its metadata {_KEY!r} is {metadata!r}, not an object")
    return arrays, metadata


def _checksum(format: str, arrays: Mapping[str, Any], metadata: Metadata) -> str:
    """Return the SHA-256 digest of the format, the metadata, and the name, type, shape and bytes of each array."""
    headers = [(name, array.dtype.str, array.shape) for name, array in sorted(arrays.items())]
    digest = sha256(_json([format, metadata, headers]).encode())
    for name, _, _ in headers:
        digest.update(arrays[name].data if arrays[name].size else b"")
    return digest.hexdigest()


def _json(value: Any) -> str:
    return json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False, default=np.generic.item)
