"""ocelad figure: compute and draw a figure of the paper."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, Any

import click

from ocelad.cli.completion_words import FIGURES, Words
from ocelad.cli.options import Command, add_options, json_option, theme_option, usage_errors
from ocelad.cli.output import PICTURES, find_plotting_error, make_table, print_json, print_tables
from ocelad.cli.progress import exit_interrupted, format_duration, show_trials

if TYPE_CHECKING:
    from ocelad.lab.figures import Figure, FigureData
    from ocelad.lab.figures.figure_folder import FigureFolder


def run_options(command: Command) -> Command:
    """Add the options that say where trials run and where results are stored."""
    return add_options(
        command,
        click.option(
            "-o",
            "--output",
            default="ocelad-figures",
            show_default=True,
            type=click.Path(file_okay=False, path_type=Path),
            help="The folder of the results. Trials that are finished there are not run again.",
        ),
        click.option(
            "--data",
            type=click.Path(file_okay=False, path_type=Path),
            help="The folder of the reviews (figures 4 to 6); by default the environment variable OCELAD_DATA.",
        ),
        click.option("--download", is_flag=True, help="Download the reviews (19 MB) if they are not in the cache."),
        click.option(
            "--backend",
            default="processes",
            show_default=True,
            type=click.Choice(["processes", "threads", "dask"]),
            help="Where trials run; dask uses the cluster at --address.",
        ),
        click.option("--address", metavar="URL", help="The Dask scheduler, such as tcp://127.0.0.1:8786."),
        click.option(
            "--jobs", default=-1, show_default=True, type=int, help="The number of parallel trials; -1: all processors."
        ),
        click.option(
            "--format",
            "format_",
            default="csv",
            show_default=True,
            type=click.Choice(["csv", "parquet"]),
            help="The format of the data files.",
        ),
        click.option("--restart", is_flag=True, help="Delete the finished trials of the folder first."),
    )


@click.command(short_help="Compute and draw a figure of the paper.")
@click.argument("name", required=False, metavar="N", type=Words(FIGURES))
@click.option("--quick", is_flag=True, help="Use a small size that takes seconds.")
@click.option("--trials", type=click.IntRange(1), help="The number of trials (for figures that have trials).")
@click.option(
    "--set", "changes", multiple=True, metavar="KEY=VALUE", help="Change a setting; --list shows them. Repeatable."
)
@click.option(
    "--domains",
    metavar="A,B",
    help="Figures 4 to 6: two other product types than the paper's; their results have a folder of their own.",
)
@click.option("--redraw", is_flag=True, help="Draw the saved data again without computing anything.")
@click.option(
    "--picture",
    default="png",
    show_default=True,
    type=click.Choice([kind[1:] for kind in PICTURES]),
    help="The format of the picture.",
)
@click.option("--list", "list_", is_flag=True, help="List the figures and their settings, and exit.")
@run_options
@theme_option
@json_option
def figure(name: str | None, list_: bool, as_json: bool, **options: Any) -> None:
    """Compute figure N of the paper, save its data, and draw it.

    The data are saved with settings, seeds and versions, so that --redraw needs no computation. They are the same on
    every backend and in any order of the trials. Finished trials survive Ctrl-C and kill: to continue, run the same
    command again. The first run after an installation compiles kernels; "ocelad warm" compiles them in advance.

    \b
    Examples:
      ocelad figure --list
      ocelad figure 3 --quick
      ocelad figure 3 --trials 300
      ocelad figure 3 --backend dask --address tcp://127.0.0.1:8786
      ocelad figure 5 --data ~/multi-domain-sentiment --set features=raw
      ocelad figure 6 --data ~/multi-domain-sentiment --domains dvd,kitchen
      ocelad figure 3 --redraw --picture svg
    """
    from ocelad.lab.figures import FIGURES
    from ocelad.lab.figures.figure_folder import FigureFolder

    if list_:
        _print_list(as_json)
        return
    if name is None:
        raise click.UsageError(f"name a figure: {', '.join(FIGURES)} (--list describes them)")
    if name not in FIGURES:
        raise click.UsageError(f"there is no figure {name!r}; accepted: {', '.join(FIGURES)}")
    chosen = FIGURES[name]
    if options["domains"] is not None and not chosen.needs_reviews:
        raise click.UsageError(f"figure {name} has no product types; --domains is for figures 4, 5 and 6")
    settings = None if options["redraw"] else _parse_settings(chosen, options)
    folder = FigureFolder(options["output"], chosen, _name_variant(chosen, settings, options["domains"]))
    plotting_error = find_plotting_error()
    if settings is None:
        data, seconds = _load_data(folder, options, plotting_error), None
    else:
        data, seconds = compute_figure(folder, settings, options)
    picture = folder.draw(data, options["picture"]) if plotting_error is None else None
    if as_json:
        claims = [claim._asdict() for claim in chosen.claims(data)]
        print_json({**data.metadata, "title": chosen.title, "claims": claims, "picture": picture and str(picture)})
        return
    print_tables(*_make_tables(chosen, data), width=140)
    if chosen.departures:
        click.echo(chosen.departures)
    if seconds is not None:
        click.echo(f"Computed in {format_duration(seconds)}.")
    click.echo(f"Data: {folder.path}")
    click.echo(f"Picture: {picture}" if picture else f"No picture: {plotting_error}")


def _name_variant(figure: Figure, settings: Mapping[str, Any] | None, domains: str | None) -> str:
    """Return the end of the name of the folder: the product types of the reviews, if they are not the paper's."""
    if not figure.needs_reviews:
        return ""
    from ocelad.lab.experiments.review_domains import PAPER_SETTING

    chosen = _parse_domains(domains) if settings is None else str(settings.get("domains", PAPER_SETTING))
    return "" if chosen == PAPER_SETTING else chosen.replace(" ", "-")


def _parse_domains(domains: str | None) -> str:
    """Return the setting for --domains; None stands for those of the paper."""
    from ocelad.lab.experiments.review_domains import PAPER_SETTING, parse_domains

    try:
        return PAPER_SETTING if domains is None else " ".join(parse_domains(domains))
    except ValueError:
        raise click.BadParameter(
            f"{domains!r} is not two different product types, such as books,electronics", param_hint="--domains"
        ) from None


def compute_figure(
    folder: FigureFolder, settings: Mapping[str, Any], options: dict[str, Any]
) -> tuple[FigureData, float]:
    """Compute the data of a figure as the values of ``run_options`` say; return them and the seconds it took."""
    _check_run_options(options)
    reviews = _download_reviews() if options["download"] and folder.figure.needs_reviews else options["data"]
    _warn_if_replaced(folder, settings)
    if "domains" in settings:  # before a folder is made for them
        from ocelad.lab.experiments.review_domains import check_domains

        check_domains(settings["domains"].split(), reviews)
    start = monotonic()
    with show_trials() as progress:
        try:
            data = folder.compute(
                settings,
                reviews_folder=reviews,
                backend=options["backend"],
                n_jobs=options["jobs"],
                address=options["address"],
                progress=progress,
                restart=options["restart"],
                format=options["format_"],
            )
        except KeyboardInterrupt:
            exit_interrupted(folder.path, options["restart"])
    return data, monotonic() - start


def _warn_if_replaced(folder: FigureFolder, settings: Mapping[str, Any]) -> None:
    """Warn if data of other settings are about to be replaced."""
    try:
        saved = folder.load().metadata["settings"]
    except (OSError, ValueError, KeyError):
        return
    saved = {**folder.figure.settings, **saved}  # settings that are newer than the data had their default
    changed = [f"{name} was {saved.get(name)}" for name, value in settings.items() if saved.get(name) != value]
    if changed:
        click.echo(
            f"The data in {folder.path} have other settings and will be replaced: {'; '.join(changed)}.", err=True
        )


def _check_run_options(options: dict[str, Any]) -> None:
    """Raise a usage error for options with which the computation would fail."""
    if options["backend"] == "dask" and not options["address"]:
        raise click.UsageError("--backend dask needs the scheduler's --address, such as tcp://127.0.0.1:8786")
    if options["backend"] != "dask" and options["address"]:
        raise click.UsageError("--address needs --backend dask")
    if options["jobs"] != -1 and options["jobs"] < 1:
        raise click.BadParameter(f"{options['jobs']} is neither -1 nor at least 1", param_hint="--jobs")
    try:
        options["output"].mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise click.BadParameter(
            f"cannot create the folder {str(options['output'])!r} ({error.strerror})", param_hint="--output"
        ) from None
    if options["download"] and options["data"]:
        raise click.UsageError("--download and --data exclude each other")


def _make_tables(figure: Figure, data: FigureData) -> list[Any]:
    """Build the table of the main numbers, if the figure has one, and that of the paper's claims."""
    claims = make_claims_table(figure, data)
    if figure.summarize is None:
        return [claims]
    summary = figure.summarize(data)
    return [make_table(f"Figure {figure.name}: {figure.title}", summary.columns, summary.rows), claims]


def make_claims_table(figure: Figure, data: FigureData) -> Any:
    """Build the table that puts the paper's claims next to the computed results."""
    rows = [[each.what, each.paper, each.ours, each.verdict, each.remark] for each in figure.claims(data)]
    columns = ["", "paper", "computed", "agrees", "remark"]
    return make_table(f"Figure {figure.name}: the paper's claims", columns, rows, numbers=False)


def _load_data(folder: FigureFolder, options: dict[str, Any], plotting_error: str | None) -> FigureData:
    if plotting_error is not None:
        raise ImportError(plotting_error)
    if options["trials"] or options["changes"] or options["quick"] or options["restart"]:
        raise click.UsageError("--redraw uses the saved data: omit --quick, --trials, --set and --restart")
    return folder.load()


def _parse_settings(figure: Figure, options: dict[str, Any]) -> dict[str, Any]:
    """Return the figure's settings with --quick, --trials and --set applied."""
    changed: dict[str, Any] = {}
    for change in options["changes"]:
        key, equals, value = change.partition("=")
        if not equals or key not in figure.settings:
            accepted = ", ".join(figure.settings) or f"none, figure {figure.name} has no settings"
            raise click.BadParameter(
                f"{change!r} is not KEY=VALUE of figure {figure.name}; keys: {accepted}", param_hint="--set"
            )
        changed[key] = _parse_value(key, value, figure.settings[key])
    if options["trials"]:
        if "trials" not in figure.settings:
            raise click.UsageError(f"figure {figure.name} has no trials; its settings: {', '.join(figure.settings)}")
        changed["trials"] = options["trials"]
    if options["domains"] is not None:
        if "domains" in changed:
            raise click.UsageError("--domains and --set domains=... are the same setting; give one of them")
        changed["domains"] = options["domains"]
    if "domains" in changed:
        changed["domains"] = _parse_domains(changed["domains"])
    with usage_errors():
        return figure.resolve_settings(quick=options["quick"], **changed)


def _parse_value(key: str, value: str, default: Any) -> Any:
    try:
        return type(default)(value)
    except ValueError:
        kind = {"int": "a whole number", "float": "a number"}[type(default).__name__]
        raise click.BadParameter(
            f"{key} must be {kind}, such as {default}; got {value!r}", param_hint="--set"
        ) from None


def _download_reviews() -> Path:
    """Return the folder of the reviews; download them if they are not in the cache."""
    from ocelad.evaluation.streams.reviews import download_reviews

    printed: set[int] = set()

    def show(done: int, total: int | None) -> None:
        tenth = 10 * done // total if total else 0
        if tenth not in printed:
            printed.add(tenth)
            click.echo(f"reviews: {done / 1e6:.0f} MB{f' of {total / 1e6:.0f}' if total else ''}", err=True)

    return download_reviews(progress=show)


def _print_list(as_json: bool) -> None:
    from ocelad.lab.figures import FIGURES

    if as_json:
        print_json({name: {"title": each.title, "settings": dict(each.settings)} for name, each in FIGURES.items()})
        return
    rows = [
        [name, each.title, _format_settings(each.settings), _format_settings(each.quick)]
        for name, each in FIGURES.items()
    ]
    columns = ["", "title", "settings", "changed by --quick"]
    print_tables(make_table("Figures", columns, rows, numbers=False), width=120)


def _format_settings(settings: Mapping[str, Any]) -> str:
    return "\n".join(f"{key}={value}" for key, value in settings.items())
