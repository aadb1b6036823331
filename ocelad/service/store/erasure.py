"""Erase the answers of a person: the content is gone, the numbering and the chain of the log stay."""

from __future__ import annotations

from sqlalchemy import Connection, bindparam, delete, select, update

from ocelad.service.entries import Entry
from ocelad.service.store.bulk_insert import bulk_insert
from ocelad.service.store.entry_log import SELECT_ENTRY, entry_values
from ocelad.service.store.errors import InvalidRequest
from ocelad.service.store.log_chain import entry_digest, new_salt, next_chain
from ocelad.service.store.project_table import ProjectRecord
from ocelad.service.store.tables import entries as table
from ocelad.service.store.tables import keys, people


def erase_person(connection: Connection, project: ProjectRecord, person: str, by: str, at: int) -> int:
    """Erase all entries of a person, add an entry that records it, and return the number of erased entries.

    Answers, skips and names become entries of the kind "erased". An undo remains effective. If the undone entry is of
    another person, the undo still names its items, because those are the other person's; it loses its author.
    """
    query = SELECT_ENTRY.where(table.c.project == project.number).order_by(table.c.seq)
    own = [Entry(*row) for row in connection.execute(query.where(table.c.who == person, table.c.erased.is_(None)))]
    if not own:
        raise InvalidRequest(f"{person!r} has no entries in {project.id!r}; accepted: a person who has answered")
    salts = {
        row.who: bytes(row.salt) for row in connection.execute(select(people).where(people.c.project == project.number))
    }
    answers = {entry.seq for entry in own if entry.kind not in ("undo", "erase")}
    undone = table.c.undoes.is_not(None)
    others = [
        entry
        for row in connection.execute(query.where(undone, table.c.who != person, table.c.erased.is_(None)))
        if (entry := Entry(*row)).undoes in answers
    ]
    changes = []
    for entry in [*own, *others]:
        gone = entry.seq in answers
        of_other = entry.kind == "undo" and entry.undoes not in answers  # then the items are another person's
        changes.append(
            {
                "of_seq": entry.seq,
                "kind": "erased" if gone else entry.kind,
                "left_item": entry.left if of_other else 0,
                "right_item": entry.right if of_other else 0,
                "asked": entry.source if of_other else "given",
                "who": "" if entry.person == person else entry.person,
                "at": 0 if entry.person == person else entry.at,
                "name": None,
                "bundle": None if gone else entry.bundle,
                "erased": entry_digest(entry, salts[entry.person]),
            }
        )
    of_entry = table.c.project == project.number, table.c.seq == bindparam("of_seq")
    columns = [name for name in changes[0] if name != "of_seq"]
    statement = update(table).where(*of_entry).values({name: bindparam(name) for name in columns})
    connection.execute(statement, changes)
    if person != by:
        of_person = people.c.project == project.number, people.c.who == person
        connection.execute(delete(people).where(*of_person))
    connection.execute(delete(keys).where(keys.c.project == project.number, keys.c.who == person))
    _record(connection, project, salts.get(by) if by != person else None, by, at)
    return len(own)


def _record(connection: Connection, project: ProjectRecord, salt: bytes | None, by: str, at: int) -> None:
    """Append the entry that records an erasure; a person who has no salt, or whose salt must change, gets a new one."""
    if salt is None:
        salt = new_salt()
        connection.execute(delete(people).where(people.c.project == project.number, people.c.who == by))
        bulk_insert(connection, people, [(project.number, by, salt)])
    entry = Entry(project.seq + 1, at, "erase", 0, 0, "given", by)
    chain = next_chain(project.chain, entry_digest(entry, salt))
    row = (*entry_values(entry)[:-2], chain, None)
    bulk_insert(connection, table, [(project.number, *row)])
