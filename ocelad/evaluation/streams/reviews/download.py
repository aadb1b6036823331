"""Fetches the original reviews, only when it is asked to."""

from __future__ import annotations

import os
import tarfile
import zlib
from collections.abc import Callable, Mapping
from hashlib import sha256
from http.client import HTTPException
from pathlib import Path, PurePosixPath
from tempfile import TemporaryDirectory
from types import MappingProxyType
from typing import Any
from urllib.error import HTTPError, URLError
from urllib.request import urlopen

#: What the set is called where it is kept.
SET = "multi-domain-sentiment"
ARCHIVE_URL = "https://www.cs.jhu.edu/~mdredze/datasets/sentiment/processed_acl.tar.gz"
# sha256 of members of the archive, unzipped. No digest of the archive itself is published; these are of copies of the
# labelled reviews, 1000 positive and 1000 negative of each product type, as others share them.
MEMBER_DIGESTS: Mapping[str, str] = MappingProxyType(
    {
        "books/negative.review": "42e4d7e63f429e396de0db87b814f8c6a4b4948d34c94524725b0fe2944a0ff4",
        "books/positive.review": "d27a35a59e99b2c2d56731cad8d63870f8a3b9063a70bf8c18862e0a107cdd02",
        "electronics/negative.review": "497d95c1ce079d2db672f9d2efa9cc02ba4ebd2a525f7b2495233305def11616",
        "electronics/positive.review": "38d0ee5fd4147cfaff427b7f8c1ea9aacbb1fd383d51676288b7af5947fe039f",
    }
)
_ARCHIVED = "processed_acl"
# The archive has 19 MB; what is many times larger is something else.
MOST_BYTES = 1 << 30
_BLOCK = 1 << 18
_SECONDS = 60


def cache_folder() -> Path:
    """Where downloads are kept: what OCELAD_CACHE names, or ``ocelad`` in the user's folder for caches."""
    if named := os.environ.get("OCELAD_CACHE"):
        return Path(named)
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "ocelad"


def download_reviews(
    cache: str | os.PathLike[str] | None = None,
    progress: Callable[[int, int | None], object] | None = None,
    *,
    url: str = ARCHIVE_URL,
    digests: Mapping[str, str] = MEMBER_DIGESTS,
) -> Path:
    """Fetch the original reviews (19 MB) from Johns Hopkins University, unless they are here already.

    Nothing is fetched unless this is called. What comes is checked, member by member, before it takes its place.

    Parameters
    ----------
    cache : path or None
        Where it is kept; None: the folder that OCELAD_CACHE names, or ``~/.cache/ocelad``.
    progress : callable or None
        Called with the number of bytes that have come, and how many there are, if that is known.
    url, digests
        Of the archive, and of its members as they are unzipped.

    Returns
    -------
    Path
        The folder, for ``load_reviews``.
    """
    home = Path(cache_folder() if cache is None else cache).expanduser() / SET
    reviews = home / _ARCHIVED
    if reviews.is_dir() and _first_wrong(reviews, digests) is None:
        return home
    home.mkdir(parents=True, exist_ok=True)
    with TemporaryDirectory(dir=home, prefix=".download-") as temporary:
        archive, unpacked = Path(temporary) / "archive", Path(temporary) / _ARCHIVED
        _fetch(url, archive, progress)
        _unpack(archive, unpacked, url)
        if wrong := _first_wrong(unpacked, digests):
            raise ValueError(f"{url} is not what it was: {wrong}; nothing was kept of it")
        if reviews.exists():
            reviews.rename(Path(temporary) / "damaged")
        unpacked.rename(reviews)
    return home


def _first_wrong(folder: Path, digests: Mapping[str, str]) -> str | None:
    """What is wrong with the first file that is not as it should be, if one is."""
    for name, expected in digests.items():
        path = folder / name
        if not path.is_file():
            return f"{name} is missing"
        if (got := sha256(path.read_bytes()).hexdigest()) != expected:
            return f"{name} has the sha256 {got}, not {expected}"
    return None


def _fetch(url: str, to: Path, progress: Callable[[int, int | None], object] | None) -> None:
    try:
        with urlopen(url, timeout=_SECONDS) as answer, to.open("wb") as file:
            length = answer.headers.get("Content-Length") or ""
            total = int(length) if length.isdigit() else None
            done = 0
            while block := answer.read(_BLOCK):
                file.write(block)
                done += len(block)
                if done > MOST_BYTES:
                    raise ValueError(f"{url} is larger than {MOST_BYTES:,} bytes, which the reviews are not")
                if progress is not None:
                    progress(done, total)
    except HTTPError as error:
        error.close()
        raise ConnectionError(f"{url} cannot be fetched: the server says {error.code} {error.reason}") from None
    except (URLError, HTTPException, TimeoutError, ConnectionError) as error:
        raise ConnectionError(f"{url} cannot be fetched: {getattr(error, 'reason', None) or error}") from None
    if total is not None and done != total:
        raise ConnectionError(f"{url} came only in part: {done:,} of {total:,} bytes; try again")


def _unpack(archive: Path, to: Path, url: str) -> None:
    """The members ``processed_acl/DOMAIN/NAME.review``, and no others, each to a path that is made here."""
    try:
        with tarfile.open(archive, "r:gz") as members:
            for member in members:
                path = PurePosixPath(member.name)
                if path.is_absolute() or ".." in path.parts or "\\" in member.name:
                    raise ValueError(f"{url} has the member {member.name!r}, which points outside; nothing was kept")
                if member.isreg() and len(path.parts) == 3 and path.parts[0] == _ARCHIVED and path.suffix == ".review":
                    _write(members, member, to / path.parts[1] / path.parts[2])
    except (tarfile.TarError, EOFError, zlib.error, OSError) as error:
        raise ValueError(f"{url} is no whole tar.gz archive: {error}") from None


def _write(members: tarfile.TarFile, member: tarfile.TarInfo, to: Path) -> None:
    content: Any = members.extractfile(member)
    if member.size > MOST_BYTES:
        raise ValueError(f"{member.name} has {member.size:,} bytes, more than the reviews can have")
    to.parent.mkdir(parents=True, exist_ok=True)
    to.write_bytes(content.read())
