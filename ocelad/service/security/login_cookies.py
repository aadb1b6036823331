"""The cookies of a login: who may read them, and where browsers send them."""

from __future__ import annotations

from starlette.requests import HTTPConnection
from starlette.responses import Response


class LoginCookies:
    """Cookies that no script can read, that browsers send to this service only, and not with requests of other sites.

    Over https, the prefix ``__Host-`` makes browsers refuse such a cookie from any other host or over http.

    >>> LoginCookies(secure=True).session, LoginCookies(secure=False).session
    ('__Host-ocelad-session', 'ocelad-session')
    """

    def __init__(self, secure: bool) -> None:
        prefix = "__Host-" if secure else ""
        self.secure, self.session, self.login = secure, f"{prefix}ocelad-session", f"{prefix}ocelad-login"

    def get(self, request: HTTPConnection, name: str) -> str:
        """Return the value of a cookie; empty if it is missing or occurs twice: another site may have set one."""
        found = [
            value.strip()
            for header in request.headers.getlist("cookie")
            for key, _, value in (part.partition("=") for part in header.split(";"))
            if key.strip() == name
        ]
        return found[0] if len(found) == 1 else ""

    def set(self, response: Response, name: str, value: str, seconds: float) -> None:
        """Set a cookie."""
        response.set_cookie(
            name, value, max_age=int(seconds), path="/", secure=self.secure, httponly=True, samesite="lax"
        )

    def delete(self, response: Response, name: str) -> None:
        """Delete a cookie."""
        response.delete_cookie(name, path="/", secure=self.secure, httponly=True, samesite="lax")
