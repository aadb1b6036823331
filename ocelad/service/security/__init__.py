"""Access control: authentication, permissions, and limits on the size, rate and duration of requests."""

from ocelad.service.security.addresses import is_loopback, requires_token
from ocelad.service.security.authentication import Authentication, current_caller
from ocelad.service.security.authenticator import LOGIN_PATH, Authenticator, Token
from ocelad.service.security.callers import ALL, LOCAL_ADMIN, Caller
from ocelad.service.security.guard import Guard
from ocelad.service.security.http_protocol import LimitedHttpProtocol
from ocelad.service.security.logins import CALLBACK_PATH, Logins
from ocelad.service.security.openid_login import OpenIdLogin
from ocelad.service.security.request_limits import RequestLimits

__all__ = [
    "ALL",
    "CALLBACK_PATH",
    "LOCAL_ADMIN",
    "LOGIN_PATH",
    "Authentication",
    "Authenticator",
    "Caller",
    "Guard",
    "LimitedHttpProtocol",
    "Logins",
    "OpenIdLogin",
    "RequestLimits",
    "Token",
    "current_caller",
    "is_loopback",
    "requires_token",
]
