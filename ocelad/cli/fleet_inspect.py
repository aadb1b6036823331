"""ocelad fleet inspect: show a fleet and its keys, or what one key has learned."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ocelad.cli.fleet_report import describe_fleet, find_changed, find_key, fleet_argument, fleet_rows, memory_option
from ocelad.cli.inspect import describe_features, describe_metric, make_tables
from ocelad.cli.options import json_option
from ocelad.cli.output import make_table, print_json, print_tables

if TYPE_CHECKING:
    from ocelad.fleet import Fleet
    from ocelad.fleet.key_sizes import KeySize
    from ocelad.fleet.keyed_pairs import Key


@click.command("inspect", short_help="Show a fleet and its most active keys, or one key.")
@fleet_argument
@click.option("--key", help="Show what the tracker of this key has learned.")
@click.option("--keys", default=10, show_default=True, type=click.IntRange(0), help="The number of keys to list.")
@click.option(
    "--changed", is_flag=True, help="List the keys with detected changes only, the ones with most answers first."
)
@click.option(
    "--features", default=10, show_default=True, type=click.IntRange(1), help="With --key: the features to list."
)
@memory_option
@json_option
def inspect(fleet: Path, key: str | None, keys: int, changed: bool, features: int, memory: str, as_json: bool) -> None:
    """Show the fleet in the file FLEET: its keys and answers, the form and size of its trackers, and the shared prior;
    and the most active keys, each with its answers, the drift (the current relative change of its metric per 1000
    answers) and the detected changes of its question.

    With --key, show one tracker as `ocelad inspect` does: rank and eigenvalues of the metric, the features that the
    distance looks at most, and each change with its evidence. Answers of a key are numbered from 1. If a fleet that
    learned in Python has both the text "17" and the number 17 as keys, --key 17 is the text.

    \b
    Examples:
      ocelad fleet inspect answers.fleet
      ocelad fleet inspect answers.fleet --keys 50 --json
      ocelad fleet inspect answers.fleet --changed
      ocelad fleet inspect answers.fleet --key anna
    """
    from ocelad.fleet import Fleet

    with Fleet.open(fleet, memory=memory) as opened:
        if key is not None:
            found = find_key(opened, key)
            if found is None:
                raise click.ClickException(_describe_unknown(opened, fleet, key))
            content = _describe_key(opened, found, features)
        else:
            sizes = opened.key_sizes()
            with_changes = find_changed(opened, sizes, is_shown=not as_json)
            content = {"kind": "fleet", **describe_fleet(opened, sizes, with_changes)}
            listed = {name: size for name, size in sizes.items() if not changed or name in with_changes}
            content["most_active"] = _describe_keys(opened, listed, keys)
    content["file_bytes"] = fleet.stat().st_size
    if as_json:
        print_json(content)
    elif key is not None:
        print_tables(*make_tables(content, title=f"Key {key}"))
    else:
        print_tables(make_table("Fleet", ["", ""], fleet_rows(content)), _make_key_table(content, changed))


def _describe_unknown(fleet: Fleet, path: Path, key: str) -> str:
    known = [repr(str(name)) for name in fleet.keys()[:3]]
    such = f"; accepted: one of its {len(fleet):,} keys, such as {', '.join(known)}" if known else ", and no other key"
    return f"{path} has no key {key!r}{such}"


def _describe_key(fleet: Fleet, key: Key, n_features: int) -> dict[str, Any]:
    from ocelad.estimators.feature_weights import rank_features, stream_mean_squares

    summary, metric = fleet.summary(key), fleet.metric(key)
    squares = stream_mean_squares(fleet.tracker(key))
    described = {name: value for name, value in describe_metric(metric).items() if name != "rounds"}
    return {
        "kind": "tracker of a fleet",
        "key": key,
        "answers": summary.n_answers,
        **described,
        "prior_answers": None if fleet.settings.has_fixed_prior else _prior_answers(summary.prior),
        **describe_features(rank_features(metric, fleet.settings.feature_names, n_features, mean_squares=squares)),
        "drift": 1000 * summary.drift,
        "changes": [change._asdict() for change in summary.changes],
    }


def _prior_answers(prior: int) -> int | None:
    """Return the number of answers that a learned prior of a key had learned from; None if it began without one."""
    from ocelad.fleet.shared_learner import FIRST_RENEWAL

    return FIRST_RENEWAL << prior if prior >= 0 else None


def _describe_keys(fleet: Fleet, sizes: dict[Key, KeySize], count: int) -> list[dict[str, Any]]:
    """Describe those of the keys that have the most answers."""
    described = []
    for key in sorted(sizes, key=lambda each: -sizes[each].n_answers)[:count]:
        summary = fleet.summary(key)
        changes = [change._asdict() for change in summary.changes]
        described.append({"key": key, "answers": summary.n_answers, "drift": 1000 * summary.drift, "changes": changes})
    return described


def _make_key_table(content: dict[str, Any], changed: bool) -> Any:
    rows = [
        [
            str(row["key"]),
            f"{row['answers']:,}",
            f"{row['drift']:.3f}",
            f"{len(row['changes']):,}",
            f"{row['changes'][-1]['round']:,}" if row["changes"] else "",
        ]
        for row in content["most_active"]
    ]
    title = "Keys with changes" if changed else "Most active keys"
    columns = ["key", "answers", "drift per 1000", "changes", "last change from answer"]
    return make_table(title, columns, rows or [["none", "", "", "", ""]])
