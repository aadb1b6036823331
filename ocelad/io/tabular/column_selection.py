"""Selection of columns by name, pattern or naming convention."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Any

from ocelad.io.tabular.file_errors import FileError, quote, quote_all

# Naming conventions for the columns of x and z, in order of precedence.
_CONVENTIONS = (("x_*", "z_*"), ("x.*", "z.*"), ("*_x", "*_z"), ("x[0-9]*", "z[0-9]*"))
_WILDCARDS = "*?["
LABEL_COLUMNS = ("similar", "same", "label", "y")
TIME_COLUMNS = ("timestamp", "time")

Chosen = str | Sequence[str] | None


def find_column(
    name: str,
    columns: Iterable[str],
    requested: Any,
    defaults: Sequence[str],
    option: str,
    *,
    required: bool,
    used: Iterable[str] = (),
) -> str | None:
    """Return the column ``requested``, or the first default that exists and is not used; False requests no column.

    >>> find_column("f.csv", ["y", "a"], None, ["label", "y"], "label", required=True)
    'y'
    """
    available = list(columns)
    if requested is False:
        return None
    if requested is not None:
        if requested not in available:
            raise FileError(f"{name} has no column {quote(requested)} ({option}=); it has {quote_all(available)}")
        return str(requested)
    for column in defaults:
        if column in available and column not in used:
            return column
    if required:
        raise FileError(
            f"{name} has no column {' or '.join(map(repr, defaults))}; it has {quote_all(available)}; "
            f"name the column with {option}=, or pass {option}=False"
        )
    return None


def explicit_names(*chosen: Chosen) -> set[str]:
    """Return the set of all given names; these columns have no other role.

    >>> sorted(explicit_names("y", ["a", "b"], None))
    ['a', 'b', 'y']
    """
    return {name for side in chosen if side is not None for name in ([side] if isinstance(side, str) else side)}


def find_pair_columns(
    name: str, kinds: Mapping[str, str], x: Chosen, z: Chosen, used: Iterable[str]
) -> tuple[tuple[str, ...], tuple[str, ...], tuple[str, ...]]:
    """Return the columns of x, the matching columns of z, and the feature names.

    >>> find_pair_columns("f.csv", dict.fromkeys(["x_a", "x_b", "z_b", "z_a"], "cell"), None, None, [])
    (('x_a', 'x_b'), ('z_a', 'z_b'), ('a', 'b'))
    """
    available = [column for column in kinds if column not in set(used)]
    if (x is None) != (z is None):
        given, other = ("x", "z") if z is None else ("z", "x")
        raise FileError(f"{name}: {given}= is given without {other}=; accepted: both or neither")
    if x is not None and z is not None:
        return _match_requested(name, list(kinds), available, x, z)
    if {"x", "z"} <= set(available) and {kinds["x"], kinds["z"]} & {"list", "object"}:
        return ("x",), ("z",), ("0",)
    for patterns in _CONVENTIONS:
        x_found, z_found = (_match_pattern(pattern, available) for pattern in patterns)
        if x_found and z_found:
            return _match_features(name, x_found, z_found, *patterns)
    if {"x", "z"} <= set(available):
        return ("x",), ("z",), ("0",)
    raise FileError(
        f"{name} has no columns for the two points of a comparison, such as 'x_a' and 'z_a'; it has "
        f"{quote_all(kinds)}; name them with x= and z=, or pass the items with items="
    )


def find_feature_columns(name: str, columns: Iterable[str], features: Chosen, used: Iterable[str]) -> tuple[str, ...]:
    """Return the columns in ``features``, and for its patterns the matching columns that are not used."""
    available = list(columns)
    chosen = [features] if isinstance(features, str) else list(features or ())
    found: dict[str, None] = {}
    for entry in chosen:
        if entry in available:
            found[entry] = None
            continue
        matches = _match_pattern(entry, [column for column in available if column not in used])
        if not matches:
            raise FileError(f"{name} has no column {quote(entry)} (features=); it has {quote_all(available)}")
        found.update(dict.fromkeys(matches.values()))
    return tuple(found)


def _match_requested(
    name: str, all_columns: list[str], available: list[str], x: str | Sequence[str], z: str | Sequence[str]
) -> tuple[tuple[str, ...], tuple[str, ...], tuple[str, ...]]:
    if isinstance(x, str) and isinstance(z, str) and _is_pattern(x, available) and _is_pattern(z, available):
        one, other = _match_pattern(x, available), _match_pattern(z, available)
        if not one or not other:
            raise FileError(f"{name} has no column like {quote(x if not one else z)}; it has {quote_all(available)}")
        return _match_features(name, one, other, x, z)
    sides = []
    for option, side in (("x", x), ("z", z)):
        columns = [side] if isinstance(side, str) else list(side)
        for column in columns:
            find_column(name, all_columns, column, (), option, required=True)
            if columns.count(column) > 1:
                raise FileError(f"{name}: {option}= names the column {quote(column)} twice")
        sides.append(tuple(columns))
    if len(sides[0]) != len(sides[1]) or not sides[0]:
        raise FileError(
            f"{name}: x= names {len(sides[0])} columns and z= {len(sides[1])}; accepted: equally many, at least 1"
        )
    return sides[0], sides[1], _feature_names(*sides)


def _feature_names(x: tuple[str, ...], z: tuple[str, ...]) -> tuple[str, ...]:
    """Return the common parts of the names if the columns follow a convention, otherwise the names of x."""
    for patterns in _CONVENTIONS:
        one, other = (_match_pattern(pattern, side) for pattern, side in zip(patterns, (x, z), strict=True))
        if len(one) == len(x) and list(one) == list(other):
            return tuple(one)
    return x


def _match_features(
    name: str, x: dict[str, str], z: dict[str, str], x_pattern: str, z_pattern: str
) -> tuple[tuple[str, ...], tuple[str, ...], tuple[str, ...]]:
    for one, other, pattern in ((x, z, z_pattern), (z, x, x_pattern)):
        unmatched = [feature for feature in one if feature not in other]
        if unmatched:
            feature = unmatched[0]
            partner = _start(pattern) + feature + _end(pattern)
            raise FileError(
                f"{name} has the column {quote(one[feature])} but no column {quote(partner)}; a feature needs both"
            )
    both = set(x.values()) & set(z.values())
    if both:
        raise FileError(f"{name}: the column {quote(min(both))} matches both x={x_pattern!r} and z={z_pattern!r}")
    return tuple(x.values()), tuple(z[feature] for feature in x), tuple(x)


def _match_pattern(pattern: str, columns: Iterable[str]) -> dict[str, str]:
    """Return the matching columns, keyed by their names without the fixed start and end of the pattern."""
    start, end = _start(pattern), _end(pattern)
    found = [column for column in columns if fnmatchcase(column, pattern) and len(column) >= len(start) + len(end)]
    return {column[len(start) : len(column) - len(end)]: column for column in found}


def _is_pattern(entry: str, columns: list[str]) -> bool:
    return entry not in columns and any(wildcard in entry for wildcard in _WILDCARDS)


def _start(pattern: str) -> str:
    return pattern[: min((pattern.index(mark) for mark in _WILDCARDS if mark in pattern), default=len(pattern))]


def _end(pattern: str) -> str:
    last = max(pattern.rfind(mark) for mark in "*?]")
    return pattern[last + 1 :] if last >= 0 else ""
