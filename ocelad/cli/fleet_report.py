"""What the commands for fleets say about a fleet, and the options that they share."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ocelad.cli.completion_words import Words
from ocelad.cli.file_kind import check_fleet
from ocelad.cli.output import count_of
from ocelad.cli.progress import show_steps

if TYPE_CHECKING:
    from ocelad.fleet import Fleet
    from ocelad.fleet.key_sizes import KeySize
    from ocelad.fleet.keyed_pairs import Key


# An integer as Python shows it.
_INTEGER = re.compile("0|-?[1-9][0-9]{0,18}")


def _check_memory(context: click.Context, parameter: click.Parameter, memory: str) -> str:
    from ocelad.fleet.memory_size import parse_memory

    try:
        parse_memory(memory)
    except ValueError as error:
        raise click.BadParameter(str(error)) from None
    return memory


def _check_fleet(context: click.Context, parameter: click.Parameter, path: Path) -> Path:
    with context.scope(cleanup=False):
        return check_fleet(path)


fleet_argument = click.argument("fleet", type=click.Path(path_type=Path), callback=_check_fleet)
memory_option = click.option(
    "--memory",
    metavar="SIZE",
    type=Words(("500 MB", "1 GB", "4 GB")),
    default="1 GB",
    show_default=True,
    callback=_check_memory,
    help="The memory for trackers, such as '500 MB'; the least recently used ones are on the disk only.",
)


def describe_fleet(fleet: Fleet, sizes: dict[Key, KeySize], changed: set[Key]) -> dict[str, Any]:
    """Describe a fleet with these sizes of its keys, and these keys with changes."""
    import numpy as np

    counts = np.array([size.n_answers for size in sizes.values()] or [0])
    return {
        "keys": len(sizes),
        "answers": fleet.n_answers,
        "features": fleet.n_features,
        "median_answers": float(np.median(counts)),
        "most_answers": int(counts.max()),
        "keys_with_changes": len(changed),
        "form": fleet.form,
        "prior": _describe_prior(fleet),
        "bytes_per_key": round(sum(size.n_bytes for size in sizes.values()) / max(1, len(sizes))),
    }


def find_key(fleet: Fleet, text: str) -> Key | None:
    """Return the key of a fleet that a text names: the text, or the integer that it shows; None if there is none.

    Keys from files are texts, those of a fleet that learned in Python may be integers. If both are keys, the text is
    meant.
    """
    if text in fleet:
        return text
    number = int(text) if _INTEGER.fullmatch(text) else None
    return number if number is not None and number in fleet else None


def find_changed(fleet: Fleet, sizes: dict[Key, KeySize], *, is_shown: bool) -> set[Key]:
    """Return the keys with detected changes; with ``is_shown``, a bar shows how many keys have been looked at."""
    from ocelad.adaptive.changes import MIN_ROUND

    # Before this answer, no change can have been detected.
    asked = [key for key, size in sizes.items() if size.n_answers >= MIN_ROUND]
    found: set[Key] = set()
    with show_steps(len(asked), "Looking for changes", is_shown=is_shown) as advance:
        for key in asked:
            if fleet.changes(key):
                found.add(key)
            advance(1)
    return found


def _describe_prior(fleet: Fleet) -> dict[str, Any]:
    """Describe the metric with which new keys begin."""
    from scipy.special import expit

    from ocelad.fleet.shared_learner import last_renewal

    if fleet.settings.shared == "none":
        return {"kind": "none"}
    if (prior := fleet.prior) is None:
        return {"kind": "learned", "answers": 0}
    if fleet.settings.has_fixed_prior:
        return {"kind": "fixed", "weight": float(expit(prior.log_weight))}
    n_answers = last_renewal(fleet.n_answers)
    return {"kind": "learned", "answers": n_answers, "weight": float(expit(prior.log_weight))}


def fleet_rows(content: dict[str, Any]) -> list[list[str]]:
    """Return the rows of a table that shows what ``describe_fleet`` returned."""
    return [
        ["keys", f"{content['keys']:,}"],
        ["answers", f"{content['answers']:,}"],
        ["answers per key", f"median {content['median_answers']:,g}, most {content['most_answers']:,}"],
        ["keys with changes", f"{content['keys_with_changes']:,}"],
        ["features", "unknown" if content["features"] is None else f"{content['features']:,}"],
        ["form", content["form"]],
        ["shared prior", _prior_words(content["prior"])],
        ["trackers", f"{format_bytes(content['bytes_per_key'])} per key"],
        ["file", format_bytes(content["file_bytes"])],
    ]


def _prior_words(prior: dict[str, Any]) -> str:
    if prior["kind"] == "none":
        return "none"
    if prior["kind"] == "fixed":
        return f"fixed, weight {prior['weight']:.0%} in a new key"
    if not prior["answers"]:
        return "none yet"
    return f"learned from {count_of(prior['answers'], 'answer')}, weight {prior['weight']:.0%} in a new key"


def format_bytes(count: float) -> str:
    """Return a number of bytes with a unit.

    >>> format_bytes(640), format_bytes(52_310), format_bytes(1.5e9)
    ('640 bytes', '52 KB', '1.5 GB')
    """
    if count < 1000:
        return f"{count:.0f} bytes"
    for unit in ("KB", "MB", "GB"):
        count /= 1000.0
        if count < 999.5 or unit == "GB":
            break
    return f"{count:.1f} {unit}" if count < 9.95 else f"{count:,.0f} {unit}"
