"""ocelad fleet embed: map items to points in the space of their keys."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ocelad.cli.completion_words import FilePath
from ocelad.cli.distance import check_table_output, exit_if_skipped, report_table, table_output_option
from ocelad.cli.fleet_report import find_key, fleet_argument, memory_option
from ocelad.cli.output import count_of
from ocelad.cli.pair_files import item_table_options, open_item_table, skipped_rows_path
from ocelad.cli.progress import show_bytes

if TYPE_CHECKING:
    from ocelad._typing import Floats
    from ocelad.fleet import Fleet
    from ocelad.fleet.keyed_pairs import Key
    from ocelad.io import ItemStream
    from ocelad.io.table_output import ColumnKind


@click.command("embed", short_help="Map items to points in the space of their key.")
@fleet_argument
@click.argument("items", type=FilePath())
@click.option("--key", metavar="COLUMN", required=True, help="The column of keys of ITEMS.")
@click.option("--label", metavar="COLUMN", help="A column that is copied to the output.")
@item_table_options
@table_output_option
@memory_option
def embed(
    fleet: Path, items: str, key: str, label: str | None, output: Path | None, memory: str, **options: Any
) -> None:
    """Map ITEMS to points whose Euclidean distance is the distance that FLEET has learned for their key.

    FLEET is a file that `ocelad fleet track` wrote. ITEMS is a table with the features that the fleet was trained on,
    and a column of keys: CSV, TSV, JSON lines, Parquet, Arrow or .npz. It is read in chunks and can have any size. The
    output has the id, the key and as many dimensions as there are features, sorted by eigenvalue, largest first. Each
    key has a space of its own: compare points of the same key only. An item of a key that the fleet does not know is
    mapped by the shared prior if that is likely to suit it, and otherwise by the Euclidean distance. If a fleet that
    learned in Python has both the text "17" and the number 17 as keys, 17 in ITEMS is the text.

    \b
    Examples:
      ocelad fleet embed answers.fleet items.csv --key user > points.csv
      ocelad fleet embed tenants.fleet items.parquet --key tenant -o points.parquet
    """
    from ocelad.fleet import Fleet
    from ocelad.io import open_output

    check_table_output(output, fleet, items)
    with Fleet.open(fleet, memory=memory) as opened:
        if opened.n_features is None:
            raise click.ClickException(f"{fleet} has learned nothing yet")
        names = [f"dimension_{j}" for j in range(opened.n_features)]
        for option, column in (("--key", key), ("--label", label)):
            if column in names:
                raise click.UsageError(f"{option} {column} has the name of a column of the output; rename it")
        embedding = _Embedding(opened)
        with _open_items(opened, items, key, label, options) as rows:
            copied = dict.fromkeys(("id", key) if label is None else ("id", key, label))
            kinds: dict[str, ColumnKind] = {**dict.fromkeys(copied, "value"), **dict.fromkeys(names, "float")}
            n_rows = 0
            with (
                open_output(output, kinds) as out,
                show_bytes(rows, "Embedding", is_shown=output is not None) as chunks,
            ):
                for chunk in chunks:
                    assert chunk.keys is not None
                    points = embedding.points(chunk.keys, chunk.X)
                    n_rows += len(points)
                    # The ids may be the keys.
                    columns = {"id": chunk.ids, key: chunk.keys} | ({} if label is None else {label: chunk.labels})
                    out.write(columns | dict(zip(names, points.T, strict=True)))
        has_prior = opened.prior is not None and opened.prior.is_likely
    if output is not None:
        report_table(output, n_rows, len(kinds))
    if embedding.unknown:
        by = "the shared prior" if has_prior else "the Euclidean distance, as no shared prior is likely to suit it"
        rows_of = f"{count_of(embedding.n_unknown, 'row')} of {count_of(len(embedding.unknown), 'unknown key')}"
        click.echo(f"Note: {rows_of}, such as {next(iter(embedding.unknown))!r}, mapped by {by}.", err=True)
    exit_if_skipped(rows)


def _open_items(fleet: Fleet, items: str, key: str, label: str | None, options: dict[str, Any]) -> ItemStream:
    """Open the items, and check their features."""
    from ocelad.io import KnownFeatures, dataframes

    names = fleet.settings.feature_names
    reading = {"format": options["format_"], "on_error": options["on_error"]}
    reading |= {"skipped": skipped_rows_path(items, options), "label": label, "key": key}
    rows = open_item_table(items, options, KnownFeatures(names), **reading)
    try:
        if names is None and len(rows.feature_names) != fleet.n_features:
            raise ValueError(f"{items} has {len(rows.feature_names)} features; the fleet has {fleet.n_features}")
        dataframes.check_feature_names(rows.feature_names, names, items)
    except BaseException:
        rows.close()
        raise
    return rows


class _Embedding:
    """Maps rows by their keys, and counts those whose key the fleet does not know."""

    def __init__(self, fleet: Fleet) -> None:
        self._fleet = fleet
        self._found: dict[str, Key] = {}
        self.n_unknown, self.unknown = 0, dict[str, None]()

    def points(self, keys: list[str], X: Floats) -> Floats:
        """Return the points of rows."""
        for key in dict.fromkeys(keys):
            if key not in self._found:
                found = find_key(self._fleet, key)
                self._found[key] = key if found is None else found
                if found is None:
                    self.unknown[key] = None
        self.n_unknown += sum(key in self.unknown for key in keys)
        return self._fleet.embed([self._found[key] for key in keys], X)
