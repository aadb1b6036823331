"""Client: the connection to a service and its projects."""

from __future__ import annotations

from collections.abc import Sequence
from os import PathLike
from pathlib import Path
from types import TracebackType
from typing import Any, Literal, Self

from ocelad.client.connection import Connection
from ocelad.client.project import Project
from ocelad.service.wire import Health, ProjectInfo, ProjectList, UploadFormat

_FORMATS: dict[str, UploadFormat] = {
    ".csv": "csv",
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".parquet": "parquet",
    ".arrow": "arrow",
    ".feather": "arrow",
    ".npy": "npy",
    ".npz": "npz",
}


class Client:
    """A client of a service that ``ocelad serve`` runs.

    A request is retried if the service is busy or the connection is lost. Answers have an idempotency key, so that none
    is stored twice. A client is thread-safe.

    Parameters
    ----------
    url : str
        The address of the service.
    token : str or None
        A token printed by ``ocelad token create``, if the service requires one.
    person : str or None
        The name of the person who answers, stored with each answer.
    timeout : float
        Seconds without data after which a connection counts as lost.
    retries : int
        The number of retries, with growing pauses, before a ServiceError is raised.
    """

    def __init__(
        self,
        url: str = "http://127.0.0.1:8765",
        token: str | None = None,
        person: str | None = None,
        timeout: float = 30.0,
        retries: int = 6,
    ) -> None:
        self._connection = Connection(url, token, person, timeout, retries)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close all connections."""
        self._connection.close()

    def health(self) -> Health:
        """Return the status and the version of the service."""
        return self._connection.get(Health, "/v1/health")

    def projects(self) -> list[ProjectInfo]:
        """Return the projects that the caller may read."""
        return self._connection.get(ProjectList, "/v1/projects").projects

    def project(self, id: str) -> Project:
        """Return a project by its name, without a request; its first request fails if it does not exist."""
        return Project(self._connection, id)

    def create_project(
        self,
        id: str,
        items: str | PathLike[str] | bytes,
        *,
        format: UploadFormat | None = None,
        title: str | None = None,
        item_id: str | None = None,
        text: str | None = None,
        features: str | None = None,
        fields: Sequence[str] = (),
        exclude: Sequence[str] = (),
        missing: Literal["stop", "median"] = "stop",
        curved: bool = True,
        transitive: bool = True,
    ) -> Project:
        """Create a project from a file of items.

        Parameters
        ----------
        id : str
            The name of the project: lowercase letters, digits, - and _.
        items : path, or bytes
            A file of items, or its content.
        format : {"csv", "jsonl", "parquet", "arrow", "npy", "npz"} or None
            None: from the suffix of the path.
        title : str or None
            The title on the page.
        item_id, text : str or None
            The columns of ids and of displayed texts.
        features : str or None
            The columns of features: names or patterns, comma-separated.
        fields : sequence of str
            Columns that are displayed but not learned from.
        exclude : sequence of str
            Columns that are not features, as names or patterns.
        missing : {"stop", "median"}
            Whether a missing number of an item is refused, or replaced by the median of its feature.
        curved : bool
            Whether to learn a curved distance; False: a linear one.
        transitive : bool
            Whether answers imply others, and make groups of items.
        """
        if not isinstance(items, bytes):
            format = format or _FORMATS.get(Path(items).suffix.lower())
            items = Path(items).read_bytes()
        if format is None:
            raise ValueError(
                f"format is required for these items; accepted: {', '.join(dict.fromkeys(_FORMATS.values()))}"
            )
        columns = {"item_id": item_id, "text": text, "features": features, "fields": list(fields)}
        # Services of earlier versions do not know these parameters.
        given = {"curved": curved, "transitive": transitive}
        kind: dict[str, Any] = {name: "false" for name, value in given.items() if not value}
        kind |= {"exclude": list(exclude)} if exclude else {}
        kind |= {"missing": missing} if missing != "stop" else {}
        path = "/v1/projects"
        self._connection.upload(ProjectInfo, path, items, id=id, format=format, title=title, **columns, **kind)
        return self.project(id)
