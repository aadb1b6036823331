"""ocelad compare: any methods on any stream, under one protocol."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from ocelad.cli.comparison_report import JOURNAL, notes, print_list, score_lines, tables
from ocelad.cli.progress import tell_of_interrupt, trial_progress
from ocelad.cli.shared import (
    PICTURES,
    ROWS_SKIPPED,
    as_json,
    json_line,
    opened_pairs,
    print_tables,
    reading_pairs,
    skipping,
    tell_of_skipped,
    why_no_picture,
)
from ocelad.cli.suite import compare_suite

if TYPE_CHECKING:
    from ocelad.lab.compare import Comparison, Method, Stream

RESULT, SCORES, PICTURE = "comparison.json", "scores.csv", "comparison"
# Options that say how a file is read.
OF_FILES = (
    "items",
    "class_",
    "features",
    "x",
    "z",
    "label",
    "id_",
    "id_a",
    "id_b",
    "time",
    "format_",
    "on_error",
    "skipped",
)


@click.command(short_help="Any methods on any stream, under one protocol.")
@click.argument("methods", nargs=-1)
@click.option(
    "--stream",
    default="paper",
    show_default=True,
    metavar="NAME|FILE",
    help="A built-in stream (--list names them), or a file of pairs.",
)
@click.option(
    "--suite",
    type=click.Choice(["adaptivity"]),
    help="Not one stream but a set of them with what is aimed at on each; methods and settings are the suite's own.",
)
@click.option("--rows", metavar="NAMES", help="With --suite: which of its rows, with commas between; all by default.")
@click.option(
    "--seeds",
    type=click.IntRange(1, 100_000),
    help="How many streams; 10 by default, of a suite 20 a row. A file is one.",
)
@click.option("--first-seed", type=click.IntRange(0), help="The first stream's seed; 1000 by default, of a suite 2000.")
@click.option(
    "--tune",
    default=0,
    show_default=True,
    metavar="N",
    type=click.IntRange(0, 10_000),
    help="Try N settings of each method on other streams first (of a file: its first quarter).",
)
@click.option(
    "--tune-seeds", default=3, show_default=True, type=click.IntRange(1), help="On how many streams, of seeds 0, 1, ..."
)
@click.option("--every", default=100, show_default=True, type=click.IntRange(1), help="Rounds between evaluations.")
@click.option("--reference", metavar="METHOD", help="What the others are held against; the first by default.")
@click.option("--class", "class_", metavar="COLUMN", help="With --items: their classes, to judge by k-NN error.")
@click.option(
    "--output",
    default="ocelad-compare",
    show_default=True,
    type=click.Path(file_okay=False, path_type=Path),
    help="The folder of the results; what is finished in it is not computed again.",
)
@click.option("--picture", default="png", show_default=True, type=click.Choice([kind[1:] for kind in PICTURES]))
@click.option("--restart", is_flag=True, help="Forget what is finished in the folder.")
@click.option("--jobs", default=-1, show_default=True, type=int, help="How many processes; -1: all processors.")
@click.option("--list", "list_", is_flag=True, help="Name the methods and the built-in streams, and stop.")
@reading_pairs
@skipping
@as_json
def compare(methods: tuple[str, ...], list_: bool, as_json: bool, **options: Any) -> None:
    """Compare METHODS on one stream: the same pairs, the same rounds, the same evaluation, paired by seed.

    A METHOD is a name, or a name with settings: comid:step_size=1e-3,loss=hinge. "all", "online", "ensembles", "batch"
    and "plain" stand for all of that kind which can take the stream. Without any, those of the paper's figure.

    Every so many rounds (--every) each method is judged by what it says before it learns from the pairs that come: the
    5-NN error and how often k-means finds the clusters, among points with known classes; and how many couples of a
    similar and a dissimilar pair, of those to come before it is judged again, it ranks wrongly. Ctrl-C or a kill loses
    nothing that is finished: run the same command again, and it goes on.

    \b
    Examples:
      ocelad compare --list
      ocelad compare rice comid saol --seeds 50
      ocelad compare all --tune 20 --output everyone
      ocelad compare rice comid:step_size=1e-3 comid:step_size=1e-2 --stream switching
      ocelad compare rice itml-online euclidean --stream pairs.csv --tune 10
      ocelad compare --suite adaptivity --rows S1,wine
    """
    from ocelad.lab.compare import FIGURE
    from ocelad.lab.compare import compare as run
    from ocelad.lab.compare.run_comparison import FIRST_SEED

    if list_:
        print_list(as_json)
        return
    if options["suite"]:
        _refuse_with_suite(methods)
        compare_suite(options, as_json)
        return
    if options["rows"]:
        raise click.UsageError("--rows names rows of a suite: give --suite, too")
    stream, n_skipped = _stream(options)
    chosen = _chosen(methods or FIGURE, stream)
    output: Path = options["output"]
    journal = output / JOURNAL
    with trial_progress() as progress:
        try:
            result = run(
                chosen,
                stream,
                seeds=options["seeds"] or 10,
                first_seed=FIRST_SEED if options["first_seed"] is None else options["first_seed"],
                every=options["every"],
                tune=options["tune"],
                tune_seeds=options["tune_seeds"],
                reference=options["reference"],
                n_jobs=options["jobs"],
                journal=journal,
                restart=options["restart"],
                progress=progress,
            )
        except KeyboardInterrupt:
            tell_of_interrupt(journal, options["restart"])
    _write(result, output, f"{PICTURE}.{options['picture']}", as_json)
    if n_skipped:
        click.get_current_context().exit(ROWS_SKIPPED)


def _refuse_with_suite(methods: Sequence[str]) -> None:
    """Refuse what a suite decides by itself."""
    if methods:
        raise click.UsageError(f"a suite has its own methods; leave {' '.join(methods)} away, or --suite")
    for option in ("stream", "tune", "tune_seeds", "every", "reference", *OF_FILES):
        if click.get_current_context().get_parameter_source(option) != ParameterSource.DEFAULT:
            raise click.UsageError(f"{_shown(option)} is not for a suite, which decides that by itself")


def _shown(option: str) -> str:
    return f"--{option.strip('_').replace('_', '-')}"


def _stream(options: dict[str, Any]) -> tuple[Stream, int]:
    """The stream that is meant, and how many rows of its file were skipped."""
    from ocelad.lab.compare import STREAMS, PairStream

    name: str = options["stream"]
    if name in STREAMS:
        for option in OF_FILES:
            if click.get_current_context().get_parameter_source(option) != ParameterSource.DEFAULT:
                raise click.UsageError(f"{_shown(option)} is for a file of pairs; {name!r} is a built-in stream")
        return STREAMS[name], 0
    if options["seeds"]:
        raise click.UsageError("a file of pairs is one stream, whatever the seed: leave --seeds away")
    if options["class_"] and not options["items"]:
        raise click.UsageError("--class names a column of items: give --items FILE, too")
    if name != "-" and not Path(name).exists():
        raise click.UsageError(f"there is no file {name!r}, and no stream of that name: {', '.join(STREAMS)}")
    import numpy as np

    with opened_pairs(name, options) as rows:
        chunks = list(rows)
        features = rows.feature_names
    tell_of_skipped(rows)
    if not chunks:
        raise ValueError(f"{name} has no pairs to compare on")
    pairs, y = np.concatenate([chunk.pairs for chunk in chunks]), np.concatenate([chunk.y for chunk in chunks])
    scene = _scene(options, features) if options["class_"] else None
    return PairStream(pairs[:, 0], pairs[:, 1], y, scene=scene, name=Path(name).name), rows.n_skipped


def _scene(options: dict[str, Any], features: Sequence[str]) -> tuple[Any, Any]:
    """Items with their classes, at most so many, by which metrics are judged."""
    import numpy as np

    from ocelad.io import open_items
    from ocelad.lab.compare.comparison_streams import SCENE_POINTS

    points, labels = [], []
    with open_items(options["items"], label=options["class_"], id=options["id_"], features=features) as items:
        for chunk in items:
            points.append(chunk.X)
            labels += [str(label) for label in chunk.labels or []]
    X, classes = np.concatenate(points), np.array(labels)
    if len(X) > SCENE_POINTS:
        some = np.sort(np.random.default_rng(0).choice(len(X), SCENE_POINTS, replace=False))
        click.echo(f"{SCENE_POINTS} of {len(X):,} items, drawn at random, are what metrics are judged by.", err=True)
        X, classes = X[some], classes[some]
    if len(np.unique(classes)) < 2:
        raise ValueError(f"all items have the {options['class_']} {classes[0]!r}; at least two classes are needed")
    return X, classes


def _chosen(names: Sequence[str], stream: Stream) -> list[Method]:
    """The methods that are meant; a group's are those that can take the stream."""
    from ocelad.lab.compare import GROUPS, METHODS
    from ocelad.lab.compare.methods import parsed

    chosen: dict[str, Method] = {}
    for name in names:
        if name in GROUPS or name == "all":
            groups = [method for method in METHODS.values() if name in ("all", method.group)]
            chosen |= {method.label: method for method in groups if method.why_not(stream) is None}
            left = [method.name for method in groups if method.why_not(stream) is not None]
            if left:
                click.echo(f"Cannot take the stream {stream.name!r}, left out: {', '.join(left)}.", err=True)
        else:
            method = parsed(name, METHODS)
            chosen[method.label] = method
    return list(chosen.values())


def _write(result: Comparison, output: Path, picture: str, as_json: bool) -> None:
    """The result as JSON and as a picture in the folder, and on the terminal."""
    from ocelad.io.state_files import replace_whole
    from ocelad.lab.compare.plot import draw

    content = json_line(result.to_json())
    replace_whole(output / RESULT, f"{content}\n".encode())
    replace_whole(output / SCORES, "".join(score_lines(result)).encode())
    no_picture = why_no_picture()
    if no_picture is None:
        draw(result, output / picture)
    if as_json:
        click.echo(content)
        return
    print_tables(*tables(result), width=120)
    click.echo("\n".join(notes(result)))
    click.echo(f"Result: {output / RESULT}; every score: {output / SCORES}")
    click.echo(f"Picture: {output / picture}" if no_picture is None else f"No picture: {no_picture}")
