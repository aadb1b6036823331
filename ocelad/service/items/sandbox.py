"""Reading uploads in a separate process, so that a malicious file cannot harm the service."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from contextlib import suppress
from dataclasses import astuple
from pathlib import Path
from threading import Lock
from typing import Any, Unpack

import numpy as np

from ocelad.service.items.column_roles import ColumnOptions
from ocelad.service.items.upload_limits import HTTP_UPLOAD_LIMITS, ItemsError, UploadLimits
from ocelad.service.itemset import ItemSet, Scaling
from ocelad.service.wire import UploadFormat

MAX_SECONDS = 120
#: The largest data segment of the process, in bytes.
MAX_MEMORY = 3 << 30
# Other environment variables are not passed on: they may contain secrets.
_ENVIRONMENT = ("PATH", "LD_LIBRARY_PATH", "LANG", "SYSTEMROOT")
# The number of bytes of the length of a message.
_LENGTH_BYTES = 8
# One process at a time: several could exhaust the memory, although each respects its limit.
_one_at_a_time = Lock()


def read_upload(
    data: bytes,
    format: UploadFormat,
    *,
    missing: str = "stop",
    limits: UploadLimits = HTTP_UPLOAD_LIMITS,
    **columns: Unpack[ColumnOptions],
) -> ItemSet:
    """Read items from the bytes of a file, as ``load_items`` does; no path is accessed.

    Starting the process, which has limited memory and time, takes about half a second. A file that crashes the process
    or exceeds its limits raises ItemsError, like any other invalid file. One file is read at a time; others wait.
    """
    request = json.dumps([{"format": format, "missing": missing, **columns}, astuple(limits)]).encode()
    environment = {name: os.environ[name] for name in _ENVIRONMENT if name in os.environ}
    environment |= {"PYTHONPATH": str(Path(__file__).parents[3]), "OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}
    try:
        with _one_at_a_time:
            done = subprocess.run(
                [sys.executable, "-P", "-c", f"from {__name__} import main; main()"],
                input=_pack(request) + data,
                capture_output=True,
                env=environment,
                timeout=MAX_SECONDS,
                check=False,
            )
    except subprocess.TimeoutExpired:
        raise ItemsError(f"reading the upload took more than {MAX_SECONDS} seconds") from None
    if done.returncode:
        reason = signal.Signals(-done.returncode).name if done.returncode < 0 else f"status {done.returncode}"
        raise ItemsError(f"the upload cannot be read: its process ended with {reason}; the file may be damaged")
    response, values = _unpack(done.stdout)
    if "error" in response:
        raise ItemsError(response["error"])
    return _item_set(response, values)


def main() -> None:
    """Run the process: read the request and the file from standard input, and write the items to standard output."""
    from ocelad.service.items.load_items import parse_upload

    _limit_memory()
    _prefer_for_oom_kill()
    request, data = _unpack(sys.stdin.buffer.read())
    options, limits = request
    values = b""
    try:
        items = parse_upload(data, limits=UploadLimits(*limits), **options)
        response: Any = {**items.metadata(), "ids": items.ids, "text": items.text, "fields": items.fields}
        response["notes"] = items.notes
        values = np.ascontiguousarray(items.features).tobytes()
        if items.pictures is not None:
            full_pictures = items.full_pictures or [b""] * len(items)
            response["picture_lengths"] = [list(map(len, each)) for each in (items.pictures, full_pictures)]
            values = b"".join([values, *items.pictures, *full_pictures])
    except MemoryError:
        response = {"error": f"reading the upload needs more than {MAX_MEMORY >> 30} GiB of memory"}
    except (ValueError, TypeError) as error:
        response = {"error": str(error)}
    sys.stdout.buffer.write(_pack(json.dumps(response, ensure_ascii=False).encode("utf-8", "surrogatepass")) + values)


def _limit_memory() -> None:
    try:
        import resource
    except ImportError:  # Windows does not have it
        return
    _, hard_limit = resource.getrlimit(resource.RLIMIT_DATA)
    limit = MAX_MEMORY if hard_limit == resource.RLIM_INFINITY else min(MAX_MEMORY, hard_limit)
    resource.setrlimit(resource.RLIMIT_DATA, (limit, hard_limit))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def _prefer_for_oom_kill() -> None:
    """Let the system kill this process, not the service, when memory runs out."""
    with suppress(OSError):  # only Linux has this file
        Path("/proc/self/oom_score_adj").write_text("1000")


def _pack(text: bytes) -> bytes:
    return len(text).to_bytes(_LENGTH_BYTES, "little") + text


def _unpack(data: bytes) -> tuple[Any, bytes]:
    end = _LENGTH_BYTES + int.from_bytes(data[:_LENGTH_BYTES], "little")
    return json.loads(data[_LENGTH_BYTES:end]), data[end:]


def _item_set(response: Any, values: bytes) -> ItemSet:
    names, ids = tuple(response["feature_names"]), tuple(response["ids"])
    scaling, kind = response["scaling"], np.dtype(response.get("dtype", "float64"))
    n_values = len(ids) * len(names)
    position = n_values * kind.itemsize
    pictures: list[list[bytes]] = []
    for lengths in response.get("picture_lengths", ()):
        ends = position + np.cumsum(lengths)
        pictures.append([values[end - length : end] for end, length in zip(ends.tolist(), lengths, strict=True)])
        position = int(ends[-1])
    return ItemSet(
        ids=ids,
        features=np.frombuffer(values, dtype=kind, count=n_values).reshape(-1, len(names)),
        feature_names=names,
        scaling=Scaling(scaling["kind"], np.array(scaling["factors"])),
        display=response["shown"],
        text=response["text"],
        pictures=pictures[0] if pictures else None,
        full_pictures=pictures[1] if pictures else None,
        fields=response["fields"],
        source_columns=response.get("columns", {}),
        has_picture=ItemSet.unpack_has_picture(response, len(ids)),
        notes=tuple(response["notes"]),
    )
