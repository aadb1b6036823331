"""Client: a service, its projects, and how to make one."""

from __future__ import annotations

from collections.abc import Sequence
from os import PathLike
from pathlib import Path
from types import TracebackType
from typing import Self

from ocelad.client.connection import Connection
from ocelad.client.project import Project
from ocelad.service.wire import Health, ProjectInfo, ProjectList, UploadFormat

_FORMATS: dict[str, UploadFormat] = {".csv": "csv", ".jsonl": "jsonl", ".ndjson": "jsonl", ".parquet": "parquet"}


class Client:
    """A service that ``ocelad serve`` runs.

    A request that the service is too busy for, or whose connection is lost, is sent again. Answers have a key that the
    service knows them by, so that none is kept twice. A client may be used by several threads.

    Parameters
    ----------
    url : str
        Such as "http://127.0.0.1:8765".
    token : str or None
        As ``ocelad token create`` printed it, where the service asks for one.
    person : str or None
        Who answers; kept with each answer.
    timeout : float
        Seconds without any byte after which a connection is taken for lost.
    retries : int
        How often a request is sent again, after longer and longer pauses, before a ServiceError tells why.
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
        """Close its connections."""
        self._connection.close()

    def health(self) -> Health:
        """That the service is there, and its version."""
        return self._connection.get(Health, "/v1/health")

    def projects(self) -> list[ProjectInfo]:
        """The projects that may be read."""
        return self._connection.get(ProjectList, "/v1/projects").projects

    def project(self, id: str) -> Project:
        """A project, by its name; whether there is one shows when it is asked for something."""
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
    ) -> Project:
        """Make a project of a file of items.

        Parameters
        ----------
        id : str
            Its name: small letters, digits, - and _.
        items : path, or bytes
            A file of items, or what is in one.
        format : {"csv", "jsonl", "parquet"} or None
            None: by the path's ending.
        title : str or None
            What the page calls it.
        item_id, text : str or None
            The columns of ids and of texts to show.
        features : str or None
            The columns to learn on: names or patterns, with commas between.
        fields : sequence of str
            Columns that are shown, and not learned on.
        """
        if not isinstance(items, bytes):
            format = format or _FORMATS.get(Path(items).suffix.lower())
            items = Path(items).read_bytes()
        if format is None:
            raise ValueError(f"the format of the items is not known; accepted: format= {', '.join(_FORMATS.values())}")
        columns = {"item_id": item_id, "text": text, "features": features, "fields": list(fields)}
        self._connection.upload(ProjectInfo, "/v1/projects", items, id=id, format=format, title=title, **columns)
        return self.project(id)
