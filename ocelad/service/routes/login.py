"""Routes for logins by OpenID Connect and for the caller's own session."""

from __future__ import annotations

import re
from html import escape
from urllib.parse import urlencode

from fastapi import APIRouter, Request
from fastapi.responses import HTMLResponse, RedirectResponse, Response

from ocelad.service.api_error import ApiError
from ocelad.service.log_setup import get_logger
from ocelad.service.responses import error_response, json_response
from ocelad.service.routes.access import ERROR_RESPONSES, get_service
from ocelad.service.security import LOGIN_PATH, Authenticator, Logins, OpenIdLogin, current_caller
from ocelad.service.security.addresses import remote_network
from ocelad.service.security.logins import CALLBACK_PATH
from ocelad.service.security.openid_login import LOGIN_SECONDS, safe_next
from ocelad.service.security.rate_limiter import RateLimiter, rate_limit_error
from ocelad.service.store import StoreError
from ocelad.service.wire import CallerInfo, LoggedOut

log = get_logger("ocelad.login")
router = APIRouter(tags=["login"], responses=ERROR_RESPONSES)
pages = APIRouter()
# Logins per second, and the burst: of one address, and of all. Behind a proxy all have one address.
_PER_ADDRESS, _OF_ALL = (1.0, 20.0), (20.0, 200.0)
# Refused logins in the audit log: the rate per second, and the burst.
_REFUSALS = (0.2, 50.0)
# Errors that a provider may report (OAuth 2.0 and OpenID Connect); any other text is not shown.
_ERROR = re.compile(r"[a-z_]{1,40}")


class LoginLimits:
    """Limits on logins, and on refused logins in the audit log."""

    def __init__(self) -> None:
        self._addresses, self._all = RateLimiter(*_PER_ADDRESS), RateLimiter(*_OF_ALL)
        self._refusals = RateLimiter(*_REFUSALS)

    def check(self, request: Request) -> None:
        """Raise ApiError if an address, or all together, log in too often."""
        address = remote_network(request.scope)
        wait = 0.0 if address is None else self._addresses.take(address)
        if wait := wait or self._all.take(None):
            raise rate_limit_error("too many logins", wait)

    def may_record_refusal(self) -> bool:
        """Return whether a further refused login is recorded: anybody can cause one."""
        return not self._refusals.take(None)


@pages.get(LOGIN_PATH, include_in_schema=False)
async def login(request: Request) -> Response:
    """Send the browser to the provider; ``next`` is where it goes after the login."""
    logins: Logins = request.app.state.logins
    try:
        openid = _require_openid(logins)
        request.app.state.login_limits.check(request)
        begun = await openid.run(openid.begin, request.query_params.get("next", "/"))
    except (ApiError, StoreError) as error:
        return _failure(request, error)
    response = RedirectResponse(begun.url, 303)
    logins.cookies.set(response, logins.cookies.login, begun.binding, LOGIN_SECONDS)
    return response


@pages.get(CALLBACK_PATH, include_in_schema=False)
async def callback(request: Request) -> Response:
    """Finish the login when the provider has sent the browser back, and start a session."""
    logins: Logins = request.app.state.logins
    authenticate: Authenticator = request.app.state.authenticate
    audit, limits = get_service(request).audit, request.app.state.login_limits
    try:
        openid = _require_openid(logins)
        limits.check(request)
        state, code, issuer = (_only(request, name) for name in ("state", "code", "iss"))
        binding = logins.cookies.get(request, logins.cookies.login)
        if (reported := _only(request, "error")) is not None or code is None:
            shown = f" ({reported})" if reported and _ERROR.fullmatch(reported) else ""
            raise ApiError(401, f"the login provider did not log you in{shown}; log in again", code="login_refused")
        finished = await openid.run(openid.finish, state or "", binding, code, issuer)
    except (ApiError, StoreError) as error:
        if isinstance(error, ApiError) and error.status in (401, 403) and limits.may_record_refusal():
            await audit.write("", "login.refused", detail={"reason": error.message[:200]})
        response = _failure(request, error)
        logins.cookies.delete(response, logins.cookies.login)
        return response
    if (earlier := authenticate.session_hash(request)) is not None:  # one browser has one session
        await openid.run(openid.end_session, earlier)
        authenticate.forget_session(earlier)
    await audit.write(finished.caller.name, "login", detail={"permissions": dict(finished.caller.permissions)})
    response = RedirectResponse(finished.next, 303)
    logins.cookies.delete(response, logins.cookies.login)
    logins.cookies.set(response, logins.cookies.session, finished.secret, openid.session_seconds)
    return response


@router.get("/me", response_model=CallerInfo)
async def me(request: Request) -> Response:
    """Return the caller: its name, its permissions by project ("*": all), and whether it can log out."""
    caller = current_caller(request)
    session = request.app.state.authenticate.session_hash(request)
    by_session = caller.personal and session is not None and "authorization" not in request.headers
    return json_response(
        CallerInfo(name=caller.name, permissions=dict(caller.permissions), personal=caller.personal, session=by_session)
    )


@router.post("/logout", response_model=LoggedOut)
async def logout(request: Request) -> Response:
    """End the session of the browser that sends its cookie; tokens and logins by a proxy have no session here."""
    logins: Logins = request.app.state.logins
    authenticate: Authenticator = request.app.state.authenticate
    caller, hash = current_caller(request), authenticate.session_hash(request)
    ends = logins.openid is not None and hash is not None and "authorization" not in request.headers
    response = json_response(LoggedOut(ended=ends))
    if ends:
        assert logins.openid is not None
        assert hash is not None
        await logins.openid.run(logins.openid.end_session, hash)
        authenticate.forget_session(hash)
        await get_service(request).audit.write(caller.name, "logout")
        logins.cookies.delete(response, logins.cookies.session)
    return response


def _require_openid(logins: Logins) -> OpenIdLogin:
    if logins.openid is None:
        raise ApiError(404, "this service has no login; see --oidc-issuer")
    return logins.openid


def _only(request: Request, name: str) -> str | None:
    """Return a query parameter; None if it is missing."""
    values = request.query_params.getlist(name)
    if len(values) > 1:
        raise ApiError(400, f"the parameter {name!r} is given {len(values)} times; accepted: once", where="query")
    return values[0] if values else None


def _failure(request: Request, error: ApiError | StoreError) -> Response:
    """Return the response of a failed login: a page for a browser, else JSON."""
    if not isinstance(error, ApiError):
        log.error("a login failed", reason=str(error)[:300])
        error = ApiError(503, "the service cannot read or write now; try again", headers={"Retry-After": "1"})
    if "text/html" not in request.headers.get("accept", ""):
        return error_response(error)
    again = ""
    if error.status != 404:
        next = safe_next(request.query_params.get("next", "/"))
        link = LOGIN_PATH if next == "/" else f"{LOGIN_PATH}?{urlencode({'next': next})}"
        again = f'<p><a href="{escape(link)}">Log in again</a></p>\n'
    sentence = escape(error.message[:1].upper() + error.message[1:])
    style = f"/static/{request.app.state.page_files.digest}/notice.css"
    page = _PAGE.format(sentence=sentence, again=again, style=style)
    return HTMLResponse(page, error.status, dict(error.headers or {}))


_PAGE = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>ocelad: the login failed</title>
<link rel="stylesheet" href="{style}">
</head>
<body>
<main>
<h1>The login failed</h1>
<p>{sentence}.</p>
{again}<p><a href="/">To the page</a></p>
</main>
</body>
</html>
"""
