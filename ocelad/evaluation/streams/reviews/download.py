"""Download of the original reviews, on request only."""

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

#: The name of the folder of the data set.
DATASET_NAME = "multi-domain-sentiment"
ARCHIVE_URL = "https://www.cs.jhu.edu/~mdredze/datasets/sentiment/processed_acl.tar.gz"
# SHA-256 digests of the unpacked members of the archive. No digest of the archive itself is published. These are the
# digests of copies of the labelled reviews, 1000 positive and 1000 negative per product type, that others share.
MEMBER_DIGESTS: Mapping[str, str] = MappingProxyType(
    {
        "books/negative.review": "42e4d7e63f429e396de0db87b814f8c6a4b4948d34c94524725b0fe2944a0ff4",
        "books/positive.review": "d27a35a59e99b2c2d56731cad8d63870f8a3b9063a70bf8c18862e0a107cdd02",
        "electronics/negative.review": "497d95c1ce079d2db672f9d2efa9cc02ba4ebd2a525f7b2495233305def11616",
        "electronics/positive.review": "38d0ee5fd4147cfaff427b7f8c1ea9aacbb1fd383d51676288b7af5947fe039f",
    }
)
_ARCHIVE_FOLDER = "processed_acl"
# The archive has 19 MB. A much larger file is not the archive.
MAX_BYTES = 1 << 30
_BLOCK_BYTES = 1 << 18
_TIMEOUT_SECONDS = 60


def cache_folder() -> Path:
    """Return the folder of downloads: OCELAD_CACHE, or ``ocelad`` in the user's cache folder."""
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
    """Download the original reviews (19 MB) from Johns Hopkins University, unless they are in the cache.

    Nothing is downloaded unless this is called. Each file is verified before the download replaces the cached folder.

    Parameters
    ----------
    cache : path or None
        The cache folder; None: OCELAD_CACHE, or ``~/.cache/ocelad``.
    progress : callable or None
        Called with the number of downloaded bytes, and the total number or None.
    url, digests
        The address of the archive, and the SHA-256 digests of its unpacked members.

    Returns
    -------
    Path
        The folder, for ``load_reviews``.
    """
    folder = Path(cache_folder() if cache is None else cache).expanduser() / DATASET_NAME
    reviews = folder / _ARCHIVE_FOLDER
    if reviews.is_dir() and _find_mismatch(reviews, digests) is None:
        return folder
    folder.mkdir(parents=True, exist_ok=True)
    with TemporaryDirectory(dir=folder, prefix=".download-") as temporary:
        archive, unpacked = Path(temporary) / "archive", Path(temporary) / _ARCHIVE_FOLDER
        _fetch(url, archive, progress)
        _unpack(archive, unpacked, url)
        if mismatch := _find_mismatch(unpacked, digests):
            raise ValueError(f"{url} has changed: {mismatch}; the download was discarded")
        if reviews.exists():
            reviews.rename(Path(temporary) / "damaged")
        unpacked.rename(reviews)
    return folder


def _find_mismatch(folder: Path, digests: Mapping[str, str]) -> str | None:
    """Return a description of the first file that is missing or has a wrong digest, or None."""
    for name, expected in digests.items():
        path = folder / name
        if not path.is_file():
            return f"{name} is missing"
        if (got := sha256(path.read_bytes()).hexdigest()) != expected:
            return f"{name} has the SHA-256 digest {got}, not {expected}"
    return None


def _fetch(url: str, target: Path, progress: Callable[[int, int | None], object] | None) -> None:
    try:
        with urlopen(url, timeout=_TIMEOUT_SECONDS) as response, target.open("wb") as file:
            length = response.headers.get("Content-Length") or ""
            total = int(length) if length.isdigit() else None
            done = 0
            while block := response.read(_BLOCK_BYTES):
                file.write(block)
                done += len(block)
                if done > MAX_BYTES:
                    raise ValueError(f"{url} is larger than {MAX_BYTES:,} bytes, so it is not the archive")
                if progress is not None:
                    progress(done, total)
    except HTTPError as error:
        error.close()
        raise ConnectionError(f"{url} cannot be downloaded: HTTP {error.code} {error.reason}") from None
    except (URLError, HTTPException, TimeoutError, ConnectionError) as error:
        raise ConnectionError(f"{url} cannot be downloaded: {getattr(error, 'reason', None) or error}") from None
    if total is not None and done != total:
        raise ConnectionError(f"the download of {url} is incomplete: {done:,} of {total:,} bytes; try again")


def _unpack(archive: Path, target: Path, url: str) -> None:
    """Unpack the members ``processed_acl/DOMAIN/NAME.review``, and no others, to paths that are constructed here."""
    try:
        with tarfile.open(archive, "r:gz") as members:
            for member in members:
                path = PurePosixPath(member.name)
                if path.is_absolute() or ".." in path.parts or "\\" in member.name:
                    raise ValueError(f"{url} has the unsafe member {member.name!r}; the download was discarded")
                if (
                    member.isreg()
                    and len(path.parts) == 3
                    and path.parts[0] == _ARCHIVE_FOLDER
                    and path.suffix == ".review"
                ):
                    _extract(members, member, target / path.parts[1] / path.parts[2])
    except (tarfile.TarError, EOFError, zlib.error, OSError) as error:
        raise ValueError(f"{url} is not a complete tar.gz archive: {error}") from None


def _extract(members: tarfile.TarFile, member: tarfile.TarInfo, target: Path) -> None:
    content: Any = members.extractfile(member)
    if member.size > MAX_BYTES:
        raise ValueError(f"{member.name} has {member.size:,} bytes, so it is not a file of reviews")
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_bytes(content.read())
