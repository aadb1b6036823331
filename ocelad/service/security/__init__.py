"""Letting no one in: who may ask, from where, how much, how often and how slowly."""

from ocelad.service.security.addresses import is_loopback, needs_token
from ocelad.service.security.callers import EVERYONE, Authenticator, Caller, Token
from ocelad.service.security.connections import SlowHeaders
from ocelad.service.security.guard import Guard
from ocelad.service.security.limits import Limits

__all__ = [
    "EVERYONE",
    "Authenticator",
    "Caller",
    "Guard",
    "Limits",
    "SlowHeaders",
    "Token",
    "is_loopback",
    "needs_token",
]
