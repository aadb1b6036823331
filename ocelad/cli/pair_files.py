"""Read the comparisons of a file as the command line's options describe them."""

from __future__ import annotations

import csv
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ocelad.cli.completion_words import FilePath
from ocelad.cli.file_kind import ITEMS, PAIRS, command_name, expect_table
from ocelad.cli.options import Command, add_options, exclude_option, format_option, missing_option, name_options

if TYPE_CHECKING:
    from ocelad.io import ComparisonStream, ItemStream, KnownFeatures
    from ocelad.io.tabular.file_stream import FileStream


def pair_file_options(command: Command) -> Command:
    """Add the options that describe a file of comparisons."""
    return add_options(
        command,
        click.option(
            "--items",
            type=FilePath(),
            metavar="FILE",
            help="A table of items with an id column, or a .npy file of vectors; the comparisons then refer to ids "
            "(id_a, id_b), which are row numbers from 0 if there is no id column.",
        ),
        click.option(
            "--features",
            metavar="COLUMNS",
            help="The items' features: names or patterns, separated by commas, or one column of vectors; by default "
            "the column of vectors, or all columns of numbers but the id. The tracker remembers them.",
        ),
        exclude_option,
        missing_option,
        click.option("--x", metavar="COLUMNS", help="The columns of the first point, such as 'left_*'."),
        click.option("--z", metavar="COLUMNS", help="The columns of the second point, such as 'right_*'."),
        click.option("--label", metavar="COLUMN", help="The column with the labels (same or different)."),
        click.option("--id", "id_", default="id", show_default=True, help="The id column of the items."),
        click.option("--id-a", default="id_a", show_default=True, help="The id column of the first point."),
        click.option("--id-b", default="id_b", show_default=True, help="The id column of the second point."),
        click.option("--time", metavar="COLUMN", help="The column of timestamps; by default detected."),
        format_option,
    )


def bad_row_options(command: Command) -> Command:
    """Add the options that say what happens to rows that cannot be read."""
    return add_options(
        command,
        click.option(
            "--on-error",
            type=click.Choice(["stop", "skip"]),
            default="stop",
            show_default=True,
            help="At a bad row: stop, or write it to the file of skipped rows and continue.",
        ),
        click.option(
            "--skipped",
            type=click.Path(dir_okay=False, path_type=Path),
            help="The file of skipped rows; by default FILE.skipped.jsonl or FILE.COMMAND.skipped.jsonl.",
        ),
    )


# Names of columns of numbers that are more often the class of an item than a feature.
_CLASS_NAMES = {"target", "class", "label", "species"}


def item_table_options(command: Command) -> Command:
    """Add the options that say how a table of items with the features of a tracker is read."""
    return add_options(
        command,
        click.option("--id", "id_", help="The id column; by default 'id' if it exists, else the row number."),
        click.option(
            "--features", metavar="COLUMNS", help="The items' features, if they are not those of the training."
        ),
        exclude_option,
        missing_option,
        format_option,
        bad_row_options,
    )


def skipped_rows_path(file: str, options: dict[str, Any]) -> Path | None:
    """Return the file of skipped rows: one for each command, so that no command overwrites another's.

    None lets the reader choose its default.
    """
    command = command_name()
    if options["skipped"] or file == "-" or command == "track":
        path: Path | None = options["skipped"]
        return path
    return Path(f"{file}.{command.replace(' ', '-')}.skipped.jsonl")


def open_pairs(
    file: str, options: dict[str, Any], features: KnownFeatures | None = None, **arguments: Any
) -> ComparisonStream:
    """Open a file of comparisons.

    Parameters
    ----------
    file : str
        Its name, or ``-`` for standard input.
    options : dict
        The values of ``pair_file_options`` and ``bad_row_options``.
    features : KnownFeatures or None
        The items' features where ``--features`` does not name them.
    **arguments
        Further arguments of ``open_comparisons``.
    """
    from ocelad.io import FileError, open_comparisons

    names = ("label", "id_a", "id_b", "time", "weight", "key", "on_error")
    arguments = {
        **{name: options.get(name) for name in names},
        "format": options["format_"],
        "x": split_columns(options["x"]),
        "z": split_columns(options["z"]),
        "skipped": skipped_rows_path(file, options),
        **arguments,
    }
    if not options["items"]:
        with expect_table(file, PAIRS, options["format_"]):
            stream = open_comparisons(file, **arguments)
        _print_notes(stream.number_notes, options)
        return stream
    if file != "-" and not Path(file).exists():  # before the items, which may be many
        raise FileError(f"the file {file} does not exist")
    # open_comparisons reads all items into memory, so that their file can be closed afterwards.
    with (
        open_item_table(options["items"], options, features, label=options.get("class_")) as items,
        expect_table(file, PAIRS, options["format_"]),
    ):
        stream = open_comparisons(file, items=items, **arguments)
    _print_notes((*filter(None, [items.numbering]), *stream.number_notes), options)
    return stream


def open_item_table(
    file: str, options: dict[str, Any], features: KnownFeatures | None = None, **arguments: Any
) -> ItemStream:
    """Open a table of items, and print notes about it on standard error.

    Parameters
    ----------
    file : str
    options : dict
        The values of ``--id``, ``--features``, ``--exclude``, ``--missing`` and ``--quiet``, as far as a command has
        them.
    features : KnownFeatures or None
        The features where ``--features`` does not name them.
    **arguments
        Further arguments of ``open_items``.
    """
    from ocelad.io import FileError, open_items

    chosen = split_columns(options.get("features")) or features
    reading: dict[str, Any] = {
        "exclude": list(options.get("exclude") or ()),
        "missing": options.get("missing") or "stop",
    }
    with expect_table(file, ITEMS, arguments.get("format")):
        try:
            stream = open_items(file, id=options.get("id_") or "id", features=chosen, **reading, **arguments)
        except FileError as error:
            if options.get("class_") is None:
                raise
            raise FileError(str(error).replace("(label=)", "(--class)")) from None  # its column is read as the label
    if chosen is not features:
        _check_chosen_features(stream, features)
    _print_notes((*stream.column_notes, *stream.number_notes), options)
    if chosen is None and "exclude" in options:
        classes = [column for column in stream.feature_names or () if column.lower() in _CLASS_NAMES]
        _print_notes(
            (
                f"the column {column!r} is a feature; if it holds classes, leave it out with --exclude {column}"
                for column in classes
            ),
            options,
        )
    return stream


def _print_notes(notes: Iterable[str], options: dict[str, Any]) -> None:
    """Print notes about a file on standard error, unless --quiet is given."""
    if not options.get("quiet"):
        for note in notes:
            click.echo(f"Note: {name_options(note)}.", err=True)


def _check_chosen_features(stream: ItemStream, features: KnownFeatures | None) -> None:
    """Refuse ``--features`` without a column that the tracker was trained on, although the table has it."""
    known = features.names if features is not None else None
    if (
        stream.vector_column is not None
        or known is None
        or set(known) <= set(stream.feature_names)
        or not set(known) & set(stream.feature_names)
    ):
        return
    missing = ", ".join(repr(name) for name in known if name not in stream.feature_names)
    stream.close()
    raise click.UsageError(f"--features leaves out {missing}, which the tracker was trained on; omit --features")


def report_skipped(stream: FileStream[Any]) -> None:
    """Print on standard error how many rows were skipped, if any, and where they are; and notes on the encoding."""
    for note in stream.encoding_notes:
        click.echo(f"Note: {note}.", err=True)
    if stream.n_skipped:
        rows, they = (
            ("1 row was", "it is") if stream.n_skipped == 1 else (f"{stream.n_skipped:,} rows were", "they are")
        )
        where = "" if stream.skipped is None else f"; {they} in {stream.skipped}"
        click.echo(f"{rows} skipped{where}.", err=True)


def split_columns(columns: str | None) -> list[str] | str | None:
    """Split names at commas, except inside double quotes; text without a comma is a name or a pattern.

    >>> split_columns('a,"b, c"'), split_columns("x_*")
    (['a', 'b, c'], 'x_*')
    """
    if columns is None or "," not in columns:
        return columns
    return [name.strip() for name in next(csv.reader([columns]))]
