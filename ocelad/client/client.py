"""Client: the connection to a service and its projects."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from os import PathLike
from pathlib import Path
from types import TracebackType
from typing import Any, Literal, Self

from ocelad.client.connection import Connection
from ocelad.client.project import Project
from ocelad.service.wire import Health, MethodName, ProjectInfo, ProjectList, UploadFormat

# Longer guidelines are sent with a second request.
_MAX_GUIDELINES_IN_URL = 1000
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
        page = self._connection.get(ProjectList, "/v1/projects")
        found = list(page.projects)
        while page.next is not None:
            page = self._connection.get(ProjectList, "/v1/projects", after=page.next)
            found += page.projects
        return found

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
        question: str | None = None,
        guidelines: str | None = None,
        item_id: str | None = None,
        item_title: str | None = None,
        text: str | None = None,
        link: str | None = None,
        picture: str | None = None,
        show: Sequence[str] = (),
        features: str | None = None,
        fields: Sequence[str] = (),
        exclude: Sequence[str] = (),
        missing: Literal["stop", "median"] = "stop",
        method: MethodName = "adaptive",
        settings: Mapping[str, Any] | None = None,
        curved: bool | None = None,
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
        question, guidelines : str or None
            What people are asked, and guidelines for them in plain text.
        item_id, item_title, text, link, picture : str or None
            The columns of ids, of what names an item, and of displayed texts, links and pictures.
        show : sequence of str
            Further columns on the cards of items, in this order.
        features : str or None
            The columns of features: names or patterns, comma-separated.
        fields : sequence of str
            Columns that are displayed but not learned from.
        exclude : sequence of str
            Columns that are not features, as names or patterns.
        missing : {"stop", "median"}
            Whether a missing number of an item is refused, or replaced by the median of its feature.
        method : {"adaptive", "rice"}
        settings : mapping or None
            Settings of the method "rice", such as ``{"step_size": 0.1}``.
        curved : bool or None
            Whether to learn a curved distance; False: a linear one. None: with the method "adaptive".
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
        columns: dict[str, Any] = {"item_id": item_id, "text": text, "features": features, "fields": list(fields)}
        # Services of earlier versions do not know the other parameters.
        more: dict[str, Any] = {"item_title": item_title, "link": link, "picture": picture, "question": question}
        more |= {} if curved is None else {"curved": str(curved).lower()}
        more |= {} if transitive else {"transitive": "false"}
        more |= {"exclude": list(exclude)} if exclude else {}
        more |= {"show": list(show)} if show else {}
        more |= {"missing": missing} if missing != "stop" else {}
        more |= {"method": method} if method != "adaptive" else {}
        more |= {"settings": json.dumps(dict(settings))} if settings else {}
        fits = guidelines is None or len(guidelines) <= _MAX_GUIDELINES_IN_URL
        more |= {"guidelines": guidelines} if guidelines and fits else {}
        path = "/v1/projects"
        self._connection.upload(ProjectInfo, path, items, id=id, format=format, title=title, **columns, **more)
        project = self.project(id)
        if not fits:
            project.change(guidelines=guidelines)
        return project
