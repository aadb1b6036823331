"""ocelad compare: run methods on the same stream under one protocol."""

from __future__ import annotations

from collections.abc import Sequence
from math import inf
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import click
from click.core import ParameterSource

from ocelad.cli.compare_report import JOURNAL, NEEDS_NOTE, make_notes, make_tables, score_lines
from ocelad.cli.compare_suite import SUITES, compare_suite, load_suite
from ocelad.cli.completion_words import GROUPS, METHODS, STREAMS, Words
from ocelad.cli.exit_codes import ROWS_SKIPPED
from ocelad.cli.one_answer import note_one_answer
from ocelad.cli.options import json_option, theme_option, usage_errors
from ocelad.cli.output import PICTURES, find_plotting_error, make_table, print_json, print_tables, to_json
from ocelad.cli.pair_files import bad_row_options, open_item_table, open_pairs, pair_file_options, report_skipped
from ocelad.cli.progress import exit_interrupted, show_trials

if TYPE_CHECKING:
    from ocelad.io import KnownFeatures
    from ocelad.lab.compare import Comparison, Method, Stream

# Euclidean distance of features as they are, and of features divided by the standard deviations of the points so far.
EUCLIDEAN, STANDARDIZED = "euclidean", "standardized"
RESULT, SCORES, PICTURE = "comparison.json", "scores.csv", "comparison"
# A file of pairs has at least this number of evaluations, and a note names batch methods with fewer fits than that.
N_EVALUATIONS, MIN_FITS = 5, 2
# Options that describe a file of pairs.
FILE_OPTIONS = (
    "items",
    "class_",
    "features",
    "exclude",
    "missing",
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


@click.command(short_help="Compare methods on the same streams.")
@click.argument("methods", nargs=-1, type=Words((*METHODS, *GROUPS)))
@click.option(
    "--stream",
    type=Words(STREAMS, files=True),
    default="paper",
    show_default=True,
    metavar="NAME|FILE",
    help="A built-in stream (--list shows them), or a file of pairs.",
)
@click.option(
    "--suite",
    type=click.Choice(SUITES),
    help="Run a fixed set of benchmarks with targets instead of one stream; METHODS take part besides its own.",
)
@click.option(
    "--benchmarks",
    metavar="NAMES",
    help="With --suite: only these benchmarks, separated by commas; all by default. Of few-answers, a data set such "
    "as wine stands for wine/natural and wine/balanced.",
)
@click.option(
    "--answers",
    metavar="N",
    type=click.IntRange(10, 12_000),
    help="With --suite few-answers: the largest number of answers, by default 1000.",
)
@click.option(
    "--no-rivals",
    is_flag=True,
    help="With --suite few-answers: only METHODS, ours and the fixed distances that targets refer to; much faster.",
)
@click.option(
    "--seeds",
    type=click.IntRange(1, 100_000),
    help="The number of streams: by default 10, with --suite 20 per benchmark. A file is one stream.",
)
@click.option(
    "--first-seed",
    type=click.IntRange(0),
    help="The seed of the first stream: by default 1000, with --suite 3000.",
)
@click.option(
    "--tune",
    default=0,
    show_default=True,
    metavar="N",
    type=click.IntRange(0, 10_000),
    help="First try N settings of each method on other streams (of a file: on its first quarter).",
)
@click.option(
    "--tune-seeds",
    default=3,
    show_default=True,
    type=click.IntRange(1),
    help="The number of streams for --tune; their seeds are 0, 1, ...",
)
@click.option(
    "--every",
    default=100,
    show_default=True,
    type=click.IntRange(1),
    help="Rounds between evaluations; by default fewer for a file of less than 500 pairs, with --tune 800.",
)
@click.option(
    "--reference",
    type=Words(METHODS),
    metavar="METHOD",
    help="The method that the others are compared with; by default the first.",
)
@click.option(
    "--class", "class_", metavar="COLUMN", help="With --items: the column of their classes, for the k-NN error."
)
@click.option(
    "-o",
    "--output",
    default="ocelad-compare",
    show_default=True,
    type=click.Path(file_okay=False, path_type=Path),
    help="The folder of the results. Trials that are finished there are not run again.",
)
@click.option(
    "--picture",
    default="png",
    show_default=True,
    type=click.Choice([kind[1:] for kind in PICTURES]),
    help="The format of the picture.",
)
@click.option("--restart", is_flag=True, help="Delete the finished trials of the folder first.")
@click.option(
    "--jobs", default=-1, show_default=True, type=int, help="The number of processes; -1 uses all processors."
)
@click.option("--list", "list_", is_flag=True, help="List the methods and the built-in streams, and exit.")
@pair_file_options
@bad_row_options
@theme_option
@json_option
def compare(methods: tuple[str, ...], list_: bool, as_json: bool, **options: Any) -> None:
    """Compare METHODS on one stream: the same pairs, rounds and evaluations, paired by seed.

    A METHOD is a name, optionally with settings: comid:step_size=1e-3,loss=hinge. The groups "all", "online",
    "ensembles", "batch" and "fixed" stand for every method of that kind that can run on the stream. The default is
    the methods of the paper's figure 3 and Euclidean distance of standardized features; for a file, those of them that
    can run on it, and adaptive.

    Every method is evaluated every 100 rounds (--every; on a file of less than 500 pairs five times), before it learns
    from the next pairs. On a file, standardized is compared wherever euclidean is. The scores are: the
    5-NN error and whether k-means finds the clusters, on points with known classes; and how many couples of one
    similar and one dissimilar pair, among the pairs until the next evaluation, are ranked in the wrong order.

    A suite runs one setting of each method on many benchmarks and reports which targets are met: "adaptivity" on
    streams that change, "few-answers" after 10 to 12,000 answers about items of many kinds.

    Finished trials survive Ctrl-C and kill: to continue, run the same command again.

    \b
    Examples:
      ocelad compare --list
      ocelad compare rice comid saol --seeds 50
      ocelad compare all --tune 20 --output all-methods
      ocelad compare rice comid:step_size=1e-3 comid:step_size=1e-2 --stream switching
      ocelad compare rice itml-online euclidean --stream pairs.csv --tune 10
      ocelad compare --suite adaptivity --benchmarks S1,wine
      ocelad compare lego --suite few-answers --benchmarks digits,wine --answers 300
    """
    from ocelad.lab.compare import compare as run
    from ocelad.lab.compare.run_comparison import FIRST_SEED, plan_comparison

    if list_:
        _print_list(as_json)
        return
    if options["suite"]:
        _check_suite_usage(options["suite"])
        compare_suite(methods, options, as_json)
        return
    if options["benchmarks"]:
        raise click.UsageError("--benchmarks names benchmarks of a suite: give --suite, too")
    for option in ("answers", "no_rivals"):
        if options[option]:
            raise click.UsageError(f"{_option_name(option)} belongs to --suite few-answers: give that, too")
    stream, n_skipped = _open_stream(options, as_json)
    every = _cap_every(options["every"], stream, tunes=options["tune"] > 0)
    with usage_errors():
        chosen = _choose_methods(methods or _default_methods(stream), stream)
    if not stream.seeded:
        chosen = _with_standardized(chosen, stream)
    if note := _note_refits(chosen, stream):
        click.echo(note, err=True)
    settings = {
        "seeds": options["seeds"] or 10,
        "first_seed": FIRST_SEED if options["first_seed"] is None else options["first_seed"],
        "every": every,
        "tune": options["tune"],
        "tune_seeds": options["tune_seeds"],
        "reference": options["reference"],
    }
    with usage_errors():
        plan_comparison(chosen, stream, **settings)
    output: Path = options["output"]
    journal = output / JOURNAL
    with show_trials() as progress:
        try:
            result = run(
                chosen,
                stream,
                **settings,
                n_jobs=options["jobs"],
                journal=journal,
                restart=options["restart"],
                progress=progress,
            )
        except KeyboardInterrupt:
            exit_interrupted(journal, options["restart"])
    _write_results(result, output, f"{PICTURE}.{options['picture']}", as_json)
    if n_skipped:
        click.get_current_context().exit(ROWS_SKIPPED)


def _cap_every(every: int, stream: Stream, tunes: bool) -> int:
    """Return the rounds between evaluations, by default fewer than usual on a file of few pairs, with a note."""
    # Two evaluations of the first quarter, on which settings are tuned.
    largest = max(1, stream.rounds // 4 // 2) if tunes else _fraction(stream)
    if stream.seeded or _is_given("every") or every <= largest:
        return every
    click.echo(
        f"Note: {stream.name} has {stream.rounds:,} pairs: methods are evaluated every {largest} pairs.", err=True
    )
    return largest


def _fraction(stream: Stream) -> int:
    return max(1, stream.rounds // N_EVALUATIONS)


def _with_standardized(methods: list[Method], stream: Stream) -> list[Method]:
    """Return the methods, and ``STANDARDIZED`` if only ``EUCLIDEAN`` is among them: features may have different units.

    On a short stream it is refitted more often than the other batch methods, because it is Euclidean distance until its
    first fit.
    """
    from ocelad.lab.compare import METHODS

    names = [method.name for method in methods]
    standardized = METHODS[STANDARDIZED]
    if EUCLIDEAN not in names or STANDARDIZED in names or standardized.incompatibility(stream) is not None:
        return methods
    if _n_fits(standardized, stream) < MIN_FITS:
        standardized = standardized.with_settings(every=_fraction(stream))
    return [*methods, standardized]


def _note_refits(methods: Sequence[Method], stream: Stream) -> str:
    """Return a note about the batch methods that are fitted rarely on a file of few pairs; empty if there are none."""
    settings = {method.label: method.settings for method in methods if method.group == "batch"}
    late = [
        method.label
        for method in methods
        if method.group == "batch" and _n_fits(method, stream) < (1 if "every" in method.overrides else MIN_FITS)
    ]
    if not late:
        return ""
    return (
        f"Note: {stream.name} has {stream.rounds:,} pairs, few for {', '.join(late)}: a batch method is Euclidean "
        f"distance until it is fitted, which is every {settings[late[0]]['every']} pairs by default; set it, as in "
        f"{late[0].partition(':')[0]}:every=20."
    )


def _n_fits(method: Method, stream: Stream) -> float:
    """Return how often a batch method is fitted before the last pair; infinity for one that is fitted at the start."""
    return (stream.rounds - 1) // method.settings["every"] if "every" in method.settings else inf


def _check_suite_usage(suite: str) -> None:
    """Raise ``UsageError`` for options that a suite sets itself, or that belong to another suite."""
    for option in ("answers", "no_rivals"):
        if suite != "few-answers" and _is_given(option):
            raise click.UsageError(f"{_option_name(option)} belongs to --suite few-answers; omit it for {suite}")
    for option in ("stream", "tune", "tune_seeds", "every", "reference", *FILE_OPTIONS):
        if _is_given(option):
            raise click.UsageError(f"{_option_name(option)} cannot be used with --suite")


def _is_given(option: str) -> bool:
    return click.get_current_context().get_parameter_source(option) != ParameterSource.DEFAULT


def _option_name(parameter: str) -> str:
    return f"--{parameter.strip('_').replace('_', '-')}"


def _open_stream(options: dict[str, Any], as_json: bool) -> tuple[Stream, int]:
    """Return the stream that --stream names, and the number of rows of its file that were skipped."""
    from ocelad.lab.compare import STREAMS, PairStream

    name: str = options["stream"]
    if name in STREAMS:
        for option in FILE_OPTIONS:
            if _is_given(option):
                raise click.UsageError(
                    f"{_option_name(option)} describes a file of pairs; {name!r} is a built-in stream"
                )
        return STREAMS[name], 0
    if name != "-" and not Path(name).exists():
        raise click.UsageError(f"{name!r} is neither a file nor a built-in stream; accepted: {', '.join(STREAMS)}")
    if options["seeds"]:
        raise click.UsageError("a file of pairs is one stream: omit --seeds")
    if options["class_"] and not options["items"]:
        raise click.UsageError("--class names a column of the items: give --items FILE, too")
    import numpy as np

    from ocelad.io import KnownFeatures

    with open_pairs(name, options) as rows:
        chunks = list(rows)
        known = KnownFeatures(rows.feature_names, None if rows.items is None else rows.items.column)
    report_skipped(rows)
    if not chunks:
        raise ValueError(f"{name} has no pairs to compare on")
    pairs, y = np.concatenate([chunk.pairs for chunk in chunks]), np.concatenate([chunk.y for chunk in chunks])
    if note := note_one_answer(int((y > 0).sum()), int((y < 0).sum()), name):
        if not options["class_"]:
            _exit_without_ranking(note, as_json)
        click.echo(f"{note} No pairs can be ranked; methods are compared by the items.", err=True)
    eval_set = _read_eval_set(options, known) if options["class_"] else None
    return PairStream(pairs[:, 0], pairs[:, 1], y, eval_set=eval_set, name=Path(name).name), rows.n_skipped


def _exit_without_ranking(note: str, as_json: bool) -> NoReturn:
    """Say that pairs with one answer rank no distance, and exit."""
    reason = "No pairs can be ranked, so that nothing is compared; --items and --class compare by the items."
    click.echo(f"{note} {reason}", err=True)
    if as_json:
        print_json({"methods": [], "note": f"{note} {reason}"})
    click.get_current_context().exit()


def _read_eval_set(options: dict[str, Any], known: KnownFeatures) -> tuple[Any, Any]:
    """Return the points and classes of the items, or of a random sample of ``N_EVAL_POINTS`` of them."""
    import numpy as np

    from ocelad.lab.compare.block_streams import N_EVAL_POINTS

    points, labels = [], []
    with open_item_table(options["items"], {**options, "quiet": True}, known, label=options["class_"]) as items:
        for chunk in items:
            points.append(chunk.X)
            labels += [str(label) for label in chunk.labels or []]
    X, classes = np.concatenate(points), np.array(labels)
    if len(X) > N_EVAL_POINTS:
        sample = np.sort(np.random.default_rng(0).choice(len(X), N_EVAL_POINTS, replace=False))
        click.echo(f"Metrics are evaluated on a random sample of {N_EVAL_POINTS} of the {len(X):,} items.", err=True)
        X, classes = X[sample], classes[sample]
    if len(np.unique(classes)) < 2:
        raise ValueError(f"all items have the {options['class_']} {classes[0]!r}; at least two classes are needed")
    return X, classes


def _default_methods(stream: Stream) -> list[str]:
    """Return the methods of the paper's figure that can run on the stream; on given pairs our default method first."""
    from ocelad.lab.compare import FIGURE, METHODS

    if not stream.seeded:  # ``_with_standardized`` adds that one
        return ["adaptive", *(name for name in FIGURE if METHODS[name].incompatibility(stream) is None)]
    return [name for name in (*FIGURE, STANDARDIZED) if METHODS[name].incompatibility(stream) is None]


def _choose_methods(names: Sequence[str], stream: Stream) -> list[Method]:
    """Return the named methods; a group stands for those of its methods that can run on the stream."""
    from ocelad.lab.compare import GROUPS, METHODS
    from ocelad.lab.compare.methods import check_known, parse_method

    chosen: dict[str, Method] = {}
    check_known([name for name in names if name not in (*GROUPS, "all")], METHODS)
    for name in names:
        if name in GROUPS or name == "all":
            group = [method for method in METHODS.values() if name in ("all", method.group)]
            chosen |= {method.label: method for method in group if method.incompatibility(stream) is None}
            omitted = [method.name for method in group if method.incompatibility(stream) is not None]
            if omitted:
                click.echo(f"Omitted, cannot run on the stream {stream.name!r}: {', '.join(omitted)}.", err=True)
        else:
            method = parse_method(name, METHODS)
            chosen[method.label] = method
    return list(chosen.values())


def _write_results(result: Comparison, output: Path, picture: str, as_json: bool) -> None:
    """Write the result to the folder as JSON, CSV and a picture, and print it."""
    from ocelad.io.atomic import write_atomically
    from ocelad.lab.compare.comparison_plot import draw_comparison

    content = to_json(result.to_json())
    write_atomically(output / RESULT, f"{content}\n".encode())
    write_atomically(output / SCORES, "".join(score_lines(result)).encode())
    plotting_error = find_plotting_error()
    if plotting_error is None:
        draw_comparison(result, output / picture)
    if as_json:
        click.echo(content)
        return
    print_tables(*make_tables(result), width=120)
    click.echo("\n".join(make_notes(result)))
    click.echo(f"Result: {output / RESULT}; all scores: {output / SCORES}")
    click.echo(f"Picture: {output / picture}" if plotting_error is None else f"No picture: {plotting_error}")


def _print_list(as_json: bool) -> None:
    """Print the methods, streams and benchmarks that can be named."""
    from ocelad.lab.compare import GROUPS, METHODS, STREAMS

    suites = {name: list(load_suite(name).benchmarks) for name in SUITES}
    if as_json:
        methods = {
            method.name: {
                "description": method.description,
                "group": method.group,
                "settings": method.settings,
                "tuned": list(method.search_space),
                "requires": sorted(method.requires),
                "sparse": method.sparse,
            }
            for method in METHODS.values()
        }
        streams = {
            name: {"description": stream.description, "rounds": stream.rounds, "phases": stream.phases}
            for name, stream in STREAMS.items()
        }
        print_json({"methods": methods, "streams": streams, "suites": suites})
        return
    groups = []
    for group in GROUPS:
        rows = [
            [f"{method.name} *" if method.requires else method.name, method.description, _format_settings(method)]
            for method in METHODS.values()
            if method.group == group
        ]
        groups.append(make_table(group, ["method", "", ""], rows))
    stream_rows = [[name, f"{stream.description}; {stream.rounds} rounds"] for name, stream in STREAMS.items()]
    print_tables(*groups, make_table("streams", ["stream", ""], stream_rows))
    click.echo(NEEDS_NOTE)
    for name, benchmarks in suites.items():
        click.echo(f"Benchmarks of --suite {name}: {', '.join(benchmarks)}.")


def _format_settings(method: Method) -> str:
    return ", ".join(f"{key}={value}" for key, value in method.settings.items())
