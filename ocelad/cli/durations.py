"""Durations and moments on the command line: 30d, 12h, 2027-01-31."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from time import time
from typing import Any

import click

_UNITS = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days", "w": "weeks"}


class Duration(click.ParamType):  # type: ignore[type-arg]
    """A number with a unit, such as 90s, 30m, 12h, 30d or 2w; in milliseconds. 0 needs no unit.

    >>> Duration().convert("2w", None, None), Duration().convert("0", None, None)
    (1209600000, 0)
    """

    name = "duration"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        if isinstance(value, int):
            return value
        milliseconds = _parse_duration(value)
        if milliseconds is None:
            self.fail(f"{value!r} is not a duration; accepted: such as 90s, 30m, 12h, 30d or 2w", param, ctx)
        return milliseconds


class Moment(click.ParamType):  # type: ignore[type-arg]
    """A time in the future: a duration from now on, or a date or time in UTC; in milliseconds since 1970.

    A date is its beginning: 2027-01-31 is 2027-01-31 00:00 UTC.

    >>> Moment().convert("2127-01-31", None, None), Moment().convert("2127-01-31T12:00+02:00", None, None)
    (4957027200000, 4957063200000)
    """

    name = "time"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        if isinstance(value, int):
            return value
        now = int(time() * 1000)
        duration = _parse_duration(value)
        moment = _parse_moment(value) if duration is None else now + duration
        if moment is None:
            self.fail(
                f"{value!r} is not a time; accepted: such as 30d, 12h, 2027-01-31 or 2027-01-31T18:00", param, ctx
            )
        if moment <= now:
            self.fail(f"{value!r} is not in the future", param, ctx)
        return moment


def _parse_duration(text: str) -> int | None:
    match = re.fullmatch(r"([0-9]{1,6})([smhdw])", text.strip())
    if match is None:
        return 0 if text.strip() == "0" else None
    try:
        return int(timedelta(**{_UNITS[match[2]]: int(match[1])}).total_seconds() * 1000)
    except OverflowError:
        return None


def _parse_moment(text: str) -> int | None:
    try:
        moment = datetime.fromisoformat(text.strip())
        return int((moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp() * 1000)
    except (ValueError, OverflowError):
        return None
