"""The files of the page, read once and served under a digest of their content."""

from __future__ import annotations

from hashlib import sha256
from pathlib import Path

from fastapi import FastAPI, Request
from starlette.exceptions import HTTPException
from starlette.responses import Response

PAGE = Path(__file__).parent / "page"
_MEDIA_TYPES = {".css": "text/css", ".html": "text/html", ".js": "text/javascript", ".svg": "image/svg+xml"}
# Hexadecimal digits of the digest.
_DIGITS = 16
# How the pages refer to their files and to each other's names; both are filled in when the files are read.
_STATIC, _PAGES = b'"static/', b'data-pages=""'
# The file of a digest never changes.
_FOREVER = "public, max-age=31536000, immutable"


class PageFiles:
    """All files of a folder, in memory: an upgrade of the package under a running service does not mix versions.

    Each ``NAME.html`` is a page at ``/NAME``, and index.html is the page at ``/``. Pages refer to the other files as
    ``static/...``; the service inserts the digest, so that a browser never combines files of two versions.

    Parameters
    ----------
    folder : Path

    Attributes
    ----------
    digest : str
        Of all files with their names.
    """

    def __init__(self, folder: Path = PAGE) -> None:
        files = {
            path.relative_to(folder).as_posix(): path.read_bytes()
            for path in sorted(folder.rglob("*"))
            if path.suffix in _MEDIA_TYPES
        }
        digest = sha256()
        for name, content in files.items():
            digest.update(f"{name}\0{len(content)}\0".encode() + content)
        self.digest = digest.hexdigest()[:_DIGITS]
        names = [name.removesuffix(".html") for name in files if name.endswith(".html") and "/" not in name]
        static, pages = f'"static/{self.digest}/'.encode(), f'data-pages="{" ".join(names)}"'.encode()
        self._pages = {
            name: files.pop(f"{name}.html").replace(_STATIC, static).replace(_PAGES, pages) for name in names
        }
        self._files = files

    @property
    def paths(self) -> frozenset[str]:
        """The paths of the pages: "/" and "/NAME"."""
        return frozenset(_path(name) for name in self._pages)

    def install(self, app: FastAPI) -> None:
        """Add the routes of the pages and of their files."""

        async def page(request: Request) -> Response:
            name = request.url.path.strip("/") or "index"
            etag = f'"{self.digest}"'
            headers = {"Cache-Control": "no-cache", "ETag": etag}
            if etag in request.headers.get("if-none-match", ""):
                return Response(status_code=304, headers=headers)
            return Response(self._pages[name], media_type="text/html", headers=headers)

        async def static(path: str) -> Response:
            digest, _, name = path.partition("/")
            content = self._files.get(name) if digest == self.digest else None
            if content is None:
                raise HTTPException(404)
            media_type = _MEDIA_TYPES[Path(name).suffix]
            return Response(content, media_type=media_type, headers={"Cache-Control": _FOREVER})

        for path in sorted(self.paths):
            app.add_api_route(path, page, methods=["GET", "HEAD"], include_in_schema=False)
        app.add_api_route("/static/{path:path}", static, methods=["GET", "HEAD"], include_in_schema=False)


def _path(name: str) -> str:
    return "/" if name == "index" else f"/{name}"
