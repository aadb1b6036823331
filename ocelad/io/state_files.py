"""Files: named arrays and a few plain values in one safetensors file, written whole or not at all.

>>> from tempfile import TemporaryDirectory
>>> with TemporaryDirectory() as folder:
...     write(f"{folder}/it", "ocelad.metric/1", {"matrix": np.eye(2)}, {"threshold": 1.0})
...     arrays, metadata = read(f"{folder}/it", "ocelad.metric/1")
>>> arrays["matrix"].shape, metadata
((2, 2), {'threshold': 1.0})
"""

from __future__ import annotations

import errno
import json
import os
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from glob import escape
from hashlib import sha256
from pathlib import Path
from stat import S_IMODE
from typing import Any
from uuid import uuid4

import numpy as np

from ocelad._typing import Arrays, Metadata

# Kind and version of what is in a file. Another version where the same names mean something else.
METRIC = "ocelad.metric/1"
TRACKER = "ocelad.tracker/1"
# Where in the file's metadata everything is that is not an array.
_KEY = "ocelad"
_FORMAT = re.compile(r"ocelad\.([a-z]+)/([0-9]{1,9})")


def write(path: str | os.PathLike[str], format: str, arrays: Arrays, metadata: Metadata) -> None:
    """Write one file, replacing it whole or not at all. The same content makes the same bytes.

    Parameters
    ----------
    path : path
        A link stays a link, and a file that is replaced keeps its permissions.
    format : str
        What ``read`` asks for, such as "ocelad.metric/1".
    arrays : dict of arrays
    about : dict
        What JSON can hold; "format" and "checksum" are taken.
    """
    if taken := metadata.keys() & {"format", "checksum"}:
        raise ValueError(f"about holds {sorted(taken)}, which the file needs for itself")
    path = Path(os.path.realpath(path))
    if path.is_dir():
        raise IsADirectoryError(f"{str(path)!r} is a folder; accepted: the path of a file")
    if path.exists() and not path.is_file():
        raise ValueError(f"{str(path)!r} is not a plain file; accepted: the path of a file")
    if not path.parent.is_dir():
        raise FileNotFoundError(f"the folder {str(path.parent)!r} does not exist")
    replace_whole(path, _content(format, arrays, metadata))


def read(path: str | os.PathLike[str], format: str, *, needs_checksum: bool = True) -> tuple[Arrays, Metadata]:
    """What ``write`` wrote: the same arrays, bit for bit, and the same values.

    Whatever else is in the file is refused with a ValueError that says what it is. ``needs_checksum=False`` takes
    files that were written before there were checksums, too.
    """
    if Path(path).is_dir():
        raise IsADirectoryError(f"{str(path)!r} is a folder; accepted: a file of the format {format}")
    if not Path(path).is_file():
        raise FileNotFoundError(f"no file at {str(path)!r}; accepted: a file of the format {format}")
    data = Path(path).read_bytes()
    with refusing(path, format):
        arrays, metadata = _parsed(data)
        written = str(metadata.pop("format"))
    if _kind(written) not in ("", _kind(format)):
        raise ValueError(f"{str(path)!r} holds a {_kind(written)}, not a {_kind(format)}; accepted: {format}")
    if _version(written) > _version(format):
        raise ValueError(f"{str(path)!r} was written by a newer ocelad, as {written}; this one reads {format}")
    with refusing(path, format):
        if written != format:
            raise ValueError(f"its format is {written!r}")
        checksum = metadata.pop("checksum", None)
        if (checksum is not None or needs_checksum) and checksum != _checksum(format, arrays, metadata):
            raise ValueError("it is damaged: its content is not what its checksum says")
    return arrays, metadata


def remove_leftovers(path: str | os.PathLike[str]) -> None:
    """Remove what a kill in the middle of a ``write`` has left beside a file; for who alone writes it."""
    path = Path(os.path.realpath(path))
    for left in path.parent.glob(f".{escape(path.name[:100])}.{'[0-9a-f]' * 32}.part"):
        left.unlink(missing_ok=True)


def kind(path: str | os.PathLike[str]) -> str:
    """What a file holds, by its own words: "metric", "tracker"; empty where it is none of ours, or none at all."""
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(path, framework="numpy") as file:
            return _kind(str(json.loads((file.metadata() or {})[_KEY])["format"]))
    except (OSError, SafetensorError, KeyError, TypeError, ValueError):
        return ""  # ``read`` says what is wrong with it


@contextmanager
def refusing(path: str | os.PathLike[str], format: str) -> Iterator[None]:
    """Around what is made of a file's content: what is found wrong with it is told as wrong with the file.

    >>> with refusing("some.file", METRIC):
    ...     {}["matrix"]
    Traceback (most recent call last):
        ...
    ValueError: 'some.file' is not a whole metric file (no 'matrix'); accepted: ocelad.metric/1
    """
    try:
        yield
    except (IndexError, KeyError, TypeError, ValueError, RecursionError) as error:
        reason = f"no {error}" if isinstance(error, KeyError) else str(error)
        raise ValueError(f"{str(path)!r} is not a whole {_kind(format)} file ({reason}); accepted: {format}") from error


def _kind(format: str) -> str:
    """What a file of this format holds; empty where it is none of ours."""
    return match[1] if (match := _FORMAT.fullmatch(format)) else ""


def _version(format: str) -> int:
    return int(match[2]) if (match := _FORMAT.fullmatch(format)) else 0


def _content(format: str, arrays: Mapping[str, Any], metadata: Metadata) -> bytes:
    from safetensors.numpy import save

    # In C order, and native: safetensors writes memory as it lies.
    plain = {name: np.asarray(array, array.dtype.newbyteorder("="), order="C") for name, array in arrays.items()}
    checksum = _checksum(format, plain, metadata)
    content: bytes = save(plain, metadata={_KEY: _json({**metadata, "format": format, "checksum": checksum})})
    return content


def _parsed(data: bytes) -> tuple[Arrays, Metadata]:
    from safetensors import SafetensorError
    from safetensors.numpy import load

    try:
        arrays = load(data)
    except (SafetensorError, OverflowError) as error:
        raise ValueError(str(error)) from error
    header = json.loads(data[8 : 8 + int.from_bytes(data[:8], "little")])
    metadata = json.loads(header.get("__metadata__", {})[_KEY])
    if not isinstance(metadata, dict):
        raise ValueError(f"{_KEY!r} in it is {metadata!r}")
    return arrays, metadata


def _checksum(format: str, arrays: Mapping[str, Any], metadata: Metadata) -> str:
    """What names, types, shapes, bytes and values come to; another one when any of them is another."""
    forms = [(name, array.dtype.str, array.shape) for name, array in sorted(arrays.items())]
    total = sha256(_json([format, metadata, forms]).encode())
    for name, _, _ in forms:
        total.update(arrays[name].data if arrays[name].size else b"")
    return total.hexdigest()


def _json(value: Any) -> str:
    return json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False, default=np.generic.item)


def replace_whole(path: Path, content: bytes) -> None:
    temporary = path.with_name(f".{path.name[:100]}.{uuid4().hex}.part")
    try:
        with open(temporary, "xb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        if path.exists():
            os.chmod(temporary, S_IMODE(path.stat().st_mode))
        os.replace(temporary, path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    if os.name == "posix":
        _flush_folder(path.parent)


def _flush_folder(folder: Path) -> None:
    """See to it that the folder's new entry outlives a power cut, where the file system can do that."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    except OSError as error:
        if error.errno not in (errno.EINVAL, errno.ENOTSUP):
            raise
    finally:
        os.close(descriptor)
