"""Let a fleet learn from a file of comparisons with keys, and remember its position in the file."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from ocelad.fleet.fleet import Fleet

if TYPE_CHECKING:
    from ocelad.io import ComparisonChunk


def learn_chunk(fleet: Fleet, chunk: ComparisonChunk, names: tuple[str, ...]) -> None:
    """Let a fleet learn from a chunk; its note is then the position after it.

    Parameters
    ----------
    fleet : Fleet
    chunk : ComparisonChunk
        With keys and labels.
    names : tuple of str
        The features of the stream.

    Examples
    --------
    >>> from tempfile import TemporaryDirectory
    >>> from ocelad.io import open_comparisons
    >>> fleet = Fleet()
    >>> with TemporaryDirectory() as folder:
    ...     with open(f"{folder}/answers.csv", "w") as file:
    ...         _ = file.write("user,x_a,z_a,same\\nanna,1.5,2.5,yes\\nben,7,0.5,no\\n")
    ...     with open_comparisons(f"{folder}/answers.csv", key="user") as stream:
    ...         for chunk in stream:
    ...             learn_chunk(fleet, chunk, stream.feature_names)
    >>> fleet.keys(), find_position(fleet)["rows"]
    (['anna', 'ben'], 2)
    """
    if chunk.y is None or chunk.keys is None:
        raise ValueError("the stream was opened without labels or without keys; learning requires both")
    pairs: Any = chunk.pairs
    if names != tuple(map(str, range(len(names)))):  # those of vectors are numbers
        pairs = _table(pairs[:, 0], names), _table(pairs[:, 1], names)
    fleet.learn(chunk.keys, pairs, chunk.y, note=json.dumps({"position": chunk.position}))


def find_position(fleet: Fleet) -> dict[str, Any] | None:
    """Return the position in a file after the last answers; None if they did not come from a file."""
    try:
        position = json.loads(fleet.note)["position"]
    except (ValueError, TypeError, KeyError):
        return None
    return position if isinstance(position, dict) else None


def _table(points: Any, names: tuple[str, ...]) -> Any:
    from pyarrow import table

    return table(list(points.T), names=list(names))
