"""Letting no one in: who may ask, from where, how much, how often and how slowly."""

from ocelad.service.security.addresses import is_loopback, needs_token
from ocelad.service.security.authentication import Authentication, known_caller
from ocelad.service.security.authenticator import Authenticator, Token
from ocelad.service.security.callers import EVERYONE, Caller
from ocelad.service.security.connections import SlowHeaders
from ocelad.service.security.guard import Guard
from ocelad.service.security.rate_limits import Limits

__all__ = [
    "EVERYONE",
    "Authentication",
    "Authenticator",
    "Caller",
    "Guard",
    "Limits",
    "SlowHeaders",
    "Token",
    "is_loopback",
    "known_caller",
    "needs_token",
]
