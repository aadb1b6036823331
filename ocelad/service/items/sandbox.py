"""Uploads are read in a process of their own: what a file does to its reader, it does not do to the service."""

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

from ocelad.service.items.roles import Columns
from ocelad.service.items.upload_limits import UPLOAD_LIMITS, ItemsError, Limits
from ocelad.service.itemset import ItemSet, Scaling
from ocelad.service.wire import UploadFormat

MOST_SECONDS = 120
#: What the process may use of memory, beyond its programs.
MOST_MEMORY = 3 << 30
# Nothing else of the service's environment is handed on: it may hold secrets.
_ENVIRONMENT = ("PATH", "LD_LIBRARY_PATH", "LANG", "SYSTEMROOT")
_SIZE = 8
# Several at once could use all memory there is, though each keeps to its part.
_turn = Lock()


def read_upload(
    data: bytes, format: UploadFormat, *, limits: Limits = UPLOAD_LIMITS, **columns: Unpack[Columns]
) -> ItemSet:
    """Read items from the bytes of a file, as ``read_items`` does; no path is ever looked at.

    It takes about a second more than to read the file: a process is started, which has so much memory and time and no
    more. A file that makes its reader crash or grow is refused as any other that is wrong. One is read at a time, and
    others wait.
    """
    asked = json.dumps([{"format": format, **columns}, astuple(limits)]).encode()
    environment = {name: os.environ[name] for name in _ENVIRONMENT if name in os.environ}
    environment |= {"PYTHONPATH": str(Path(__file__).parents[3]), "OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}
    try:
        with _turn:
            done = subprocess.run(
                [sys.executable, "-P", "-c", f"from {__name__} import main; main()"],
                input=_packed(asked) + data,
                capture_output=True,
                env=environment,
                timeout=MOST_SECONDS,
                check=False,
            )
    except subprocess.TimeoutExpired:
        raise ItemsError(f"the upload took more than {MOST_SECONDS} seconds to read, which is the most") from None
    if done.returncode:
        reason = signal.Signals(-done.returncode).name if done.returncode < 0 else f"status {done.returncode}"
        raise ItemsError(f"the upload cannot be read: its reader stopped with {reason}; is the file damaged?")
    answer, numbers = _unpacked(done.stdout)
    if "error" in answer:
        raise ItemsError(answer["error"])
    return _received(answer, numbers)


def main() -> None:
    """What the process does: standard input holds what was asked and the file, and standard output gets the items."""
    from ocelad.service.items.read_upload import parse_upload

    _limit_memory()
    _go_first()
    asked, data = _unpacked(sys.stdin.buffer.read())
    options, limits = asked
    numbers = b""
    try:
        items = parse_upload(data, limits=Limits(*limits), **options)
        answer: Any = {**items.metadata(), "ids": items.ids, "text": items.text, "fields": items.fields}
        numbers = np.ascontiguousarray(items.features, dtype=np.float64).tobytes()
    except MemoryError:
        answer = {"error": f"the upload needs more than {MOST_MEMORY >> 30} GiB of memory, which is the most"}
    except (ValueError, TypeError) as error:
        answer = {"error": str(error)}
    sys.stdout.buffer.write(_packed(json.dumps(answer, ensure_ascii=False).encode("utf-8", "surrogatepass")) + numbers)


def _limit_memory() -> None:
    try:
        import resource
    except ImportError:  # not there on Windows
        return
    _, most = resource.getrlimit(resource.RLIMIT_DATA)
    wanted = MOST_MEMORY if most == resource.RLIM_INFINITY else min(MOST_MEMORY, most)
    resource.setrlimit(resource.RLIMIT_DATA, (wanted, most))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def _go_first() -> None:
    """Where memory runs out, let the system end this process and not the service."""
    with suppress(OSError):  # only Linux has this
        Path("/proc/self/oom_score_adj").write_text("1000")


def _packed(text: bytes) -> bytes:
    return len(text).to_bytes(_SIZE, "little") + text


def _unpacked(data: bytes) -> tuple[Any, bytes]:
    end = _SIZE + int.from_bytes(data[:_SIZE], "little")
    return json.loads(data[_SIZE:end]), data[end:]


def _received(answer: Any, numbers: bytes) -> ItemSet:
    names = tuple(answer["feature_names"])
    scaling = answer["scaling"]
    return ItemSet(
        ids=tuple(answer["ids"]),
        features=np.frombuffer(numbers, dtype=np.float64).reshape(-1, len(names)),
        feature_names=names,
        scaling=Scaling(scaling["kind"], np.array(scaling["factors"])),
        shown=answer["shown"],
        text=answer["text"],
        fields=answer["fields"],
    )
