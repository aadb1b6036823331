"""Logging: one JSON object or one readable line per event; headers, bodies and secrets are never logged."""

from __future__ import annotations

import logging
import sys
from typing import Any, Literal

import structlog

LogFormat = Literal["json", "console"]


def configure_logging(format: LogFormat, level: str = "info") -> None:
    """Write all logs of the process, also those of libraries, to standard error in one format."""
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
    renderers: list[Any] = (
        [structlog.processors.format_exc_info, structlog.processors.JSONRenderer()]
        if format == "json"
        else [
            # The default also prints the values of variables, which is slow and may leak data.
            structlog.dev.ConsoleRenderer(colors=sys.stderr.isatty(), exception_formatter=structlog.dev.plain_traceback)
        ]
    )
    formatter = structlog.stdlib.ProcessorFormatter(
        foreign_pre_chain=shared,
        processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, *renderers],
    )
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(formatter)
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level.upper())
    # The service logs requests itself; the lines of uvicorn contain URLs with their queries.
    for name, min_level in (("uvicorn.access", logging.CRITICAL), ("uvicorn.error", logging.WARNING)):
        logging.getLogger(name).handlers.clear()
        logging.getLogger(name).setLevel(min_level)
    for name in ("alembic", "numba", "PIL"):
        logging.getLogger(name).setLevel(logging.WARNING)


def get_logger(name: str) -> Any:
    """Return the logger of a part of the service."""
    return structlog.stdlib.get_logger(name)
