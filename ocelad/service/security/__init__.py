"""Access control: authentication, permissions, and limits on the size, rate and duration of requests."""

from ocelad.service.security.addresses import is_loopback, requires_token
from ocelad.service.security.authentication import Authentication, current_caller
from ocelad.service.security.authenticator import Authenticator, Token
from ocelad.service.security.callers import LOCAL_ADMIN, Caller
from ocelad.service.security.guard import Guard
from ocelad.service.security.http_protocol import LimitedHttpProtocol
from ocelad.service.security.request_limits import RequestLimits

__all__ = [
    "LOCAL_ADMIN",
    "Authentication",
    "Authenticator",
    "Caller",
    "Guard",
    "LimitedHttpProtocol",
    "RequestLimits",
    "Token",
    "current_caller",
    "is_loopback",
    "requires_token",
]
