"""Many rows by one statement: what each database is quickest at."""

from __future__ import annotations

from functools import cache
from typing import Any

from sqlalchemy import Connection, Table, TextClause, text
from sqlalchemy.dialects import postgresql


def insert_rows(connection: Connection, table: Table, rows: list[tuple[Any, ...]]) -> None:
    """Insert rows, each with a value for every column of the table, in their order."""
    if not rows:
        return
    if connection.dialect.name == "postgresql":
        columns = zip(table.columns.keys(), zip(*rows, strict=True), strict=True)
        connection.execute(_by_columns(table), {name: list(column) for name, column in columns})
    else:
        connection.exec_driver_sql(_by_rows(table), rows)


@cache
def _by_rows(table: Table) -> str:
    names = table.columns.keys()
    return f"INSERT INTO {table.name} ({', '.join(names)}) VALUES ({', '.join('?' for _ in names)})"


@cache
def _by_columns(table: Table) -> TextClause:
    """One array per column: one message for any number of rows, where PostgreSQL's driver would send one for each."""
    dialect = postgresql.dialect()  # type: ignore[no-untyped-call]
    arrays = ", ".join(f"CAST(:{column.name} AS {column.type.compile(dialect)}[])" for column in table.columns)
    return text(f"INSERT INTO {table.name} ({', '.join(table.columns.keys())}) SELECT * FROM unnest({arrays})")
