"""Logs: one line of JSON per event, or a readable line on a terminal. Headers, bodies and secrets never go in."""

from __future__ import annotations

import logging
import sys
from typing import Any, Literal

import structlog

LogFormat = Literal["json", "console"]


def set_up(form: LogFormat, level: str = "info") -> None:
    """Have all of the process's logs, the libraries' too, written to standard error in one format."""
    shared: list[Any] = [
        structlog.contextvars.merge_contextvars,
        structlog.stdlib.add_log_level,
        structlog.stdlib.add_logger_name,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
        structlog.processors.StackInfoRenderer(),
    ]
    structlog.configure(
        processors=[structlog.stdlib.filter_by_level, *shared, structlog.stdlib.ProcessorFormatter.wrap_for_formatter],
        logger_factory=structlog.stdlib.LoggerFactory(),
        wrapper_class=structlog.stdlib.BoundLogger,
        cache_logger_on_first_use=False,
    )
    ending: list[Any] = (
        [structlog.processors.format_exc_info, structlog.processors.JSONRenderer()]
        if form == "json"
        else [
            # The usual one prints the values of variables, too: slow, and not for a log.
            structlog.dev.ConsoleRenderer(colors=sys.stderr.isatty(), exception_formatter=structlog.dev.plain_traceback)
        ]
    )
    formatter = structlog.stdlib.ProcessorFormatter(
        foreign_pre_chain=shared,
        processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, *ending],
    )
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(formatter)
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level.upper())
    # Requests are logged by the service itself; uvicorn's own lines would hold addresses with their queries.
    for name, least in (("uvicorn.access", logging.CRITICAL), ("uvicorn.error", logging.WARNING)):
        logging.getLogger(name).handlers.clear()
        logging.getLogger(name).setLevel(least)
    for name in ("alembic", "numba", "PIL"):
        logging.getLogger(name).setLevel(logging.WARNING)


def logger(name: str) -> Any:
    """The logger of a part of the service."""
    return structlog.stdlib.get_logger(name)
