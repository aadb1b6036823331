"""Which columns are what, found by their names or as the caller says."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Any

from ocelad.io.tabular.errors import FileError, listed, shown

# How the columns of the two sides are called when nobody says; the first that fits is taken.
_CONVENTIONS = (("x_*", "z_*"), ("x.*", "z.*"), ("*_x", "*_z"), ("x[0-9]*", "z[0-9]*"))
_WILD = "*?["
LABELS = ("similar", "same", "label", "y")
TIMES = ("timestamp", "time")

Chosen = str | Sequence[str] | None


def find(
    name: str,
    columns: Iterable[str],
    asked: Any,
    usual: Sequence[str],
    option: str,
    *,
    needed: bool,
    taken: Iterable[str] = (),
) -> str | None:
    """The one column that ``asked`` names, or the first of the usual ones that is not taken; False asks for none.

    >>> find("f.csv", ["y", "a"], None, ["label", "y"], "label", needed=True)
    'y'
    """
    there = list(columns)
    if asked is False:
        return None
    if asked is not None:
        if asked not in there:
            raise FileError(f"{name} has no column {shown(asked)}, which {option}= names; it has {listed(there)}")
        return str(asked)
    for column in usual:
        if column in there and column not in taken:
            return column
    if needed:
        raise FileError(
            f"{name} has no column {' or '.join(map(repr, usual))}; it has {listed(there)}; "
            f"say which with {option}=, or {option}=False for none"
        )
    return None


def named(*chosen: Chosen) -> set[str]:
    """The columns that are named outright; they are nothing else.

    >>> sorted(named("y", ["a", "b"], None))
    ['a', 'b', 'y']
    """
    return {name for side in chosen if side is not None for name in ([side] if isinstance(side, str) else side)}


def find_sides(
    name: str, kinds: Mapping[str, str], x: Chosen, z: Chosen, taken: Iterable[str]
) -> tuple[tuple[str, ...], tuple[str, ...], tuple[str, ...]]:
    """The columns of x, those of z in the same order, and the names of the features.

    >>> find_sides("f.csv", dict.fromkeys(["x_a", "x_b", "z_b", "z_a"], "cell"), None, None, [])
    (('x_a', 'x_b'), ('z_a', 'z_b'), ('a', 'b'))
    """
    there = [column for column in kinds if column not in set(taken)]
    if (x is None) != (z is None):
        given, other = ("x", "z") if z is None else ("z", "x")
        raise FileError(f"{name}: {given}= is given without {other}=; accepted: both, or none")
    if x is not None and z is not None:
        return _given(name, list(kinds), there, x, z)
    if {"x", "z"} <= set(there) and {kinds["x"], kinds["z"]} & {"list", "object"}:
        return ("x",), ("z",), ("0",)
    for patterns in _CONVENTIONS:
        x_found, z_found = (_matching(pattern, there) for pattern in patterns)
        if x_found and z_found:
            return _paired(name, x_found, z_found, *patterns)
    if {"x", "z"} <= set(there):
        return ("x",), ("z",), ("0",)
    raise FileError(
        f"{name} has no columns for the two sides of a comparison, such as 'x_a' and 'z_a'; it has {listed(kinds)}; "
        "say which with x= and z=, or give the items with items="
    )


def find_features(name: str, columns: Iterable[str], features: Chosen, taken: Iterable[str]) -> tuple[str, ...]:
    """The columns that ``features`` names, or matches unless they are taken, in the order of the names."""
    there = list(columns)
    chosen = [features] if isinstance(features, str) else list(features or ())
    found: dict[str, None] = {}
    for entry in chosen:
        if entry in there:
            found[entry] = None
            continue
        matches = _matching(entry, [column for column in there if column not in taken])
        if not matches:
            raise FileError(f"{name} has no column {shown(entry)}, which features= names; it has {listed(there)}")
        found.update(dict.fromkeys(matches.values()))
    return tuple(found)


def _given(
    name: str, every: list[str], there: list[str], x: str | Sequence[str], z: str | Sequence[str]
) -> tuple[tuple[str, ...], tuple[str, ...], tuple[str, ...]]:
    if isinstance(x, str) and isinstance(z, str) and _is_pattern(x, there) and _is_pattern(z, there):
        one, other = _matching(x, there), _matching(z, there)
        if not one or not other:
            raise FileError(f"{name} has no column like {shown(x if not one else z)}; it has {listed(there)}")
        return _paired(name, one, other, x, z)
    sides = []
    for option, side in (("x", x), ("z", z)):
        columns = [side] if isinstance(side, str) else list(side)
        for column in columns:
            find(name, every, column, (), option, needed=True)
            if columns.count(column) > 1:
                raise FileError(f"{name}: {option}= names the column {shown(column)} twice")
        sides.append(tuple(columns))
    if len(sides[0]) != len(sides[1]) or not sides[0]:
        raise FileError(
            f"{name}: x= names {len(sides[0])} columns and z= {len(sides[1])}; accepted: as many, at least 1"
        )
    return sides[0], sides[1], _features(*sides)


def _features(x: tuple[str, ...], z: tuple[str, ...]) -> tuple[str, ...]:
    """What the names of the columns have in common, where they follow a convention; else the names of x."""
    for patterns in _CONVENTIONS:
        matches = [_matching(pattern, side) for pattern, side in zip(patterns, (x, z), strict=True)]
        if len(matches[0]) == len(x) and list(matches[0]) == list(matches[1]):
            return tuple(matches[0])
    return x


def _paired(
    name: str, x: dict[str, str], z: dict[str, str], x_pattern: str, z_pattern: str
) -> tuple[tuple[str, ...], tuple[str, ...], tuple[str, ...]]:
    for one, other, pattern in ((x, z, z_pattern), (z, x, x_pattern)):
        alone = [feature for feature in one if feature not in other]
        if alone:
            feature = alone[0]
            partner = _start(pattern) + feature + _end(pattern)
            raise FileError(
                f"{name} has the column {shown(one[feature])} and no {shown(partner)}; a feature needs both"
            )
    both = set(x.values()) & set(z.values())
    if both:
        raise FileError(f"{name}: the column {shown(min(both))} matches both x={x_pattern!r} and z={z_pattern!r}")
    return tuple(x.values()), tuple(z[feature] for feature in x), tuple(x)


def _matching(pattern: str, columns: Iterable[str]) -> dict[str, str]:
    """The columns that match, by what is left of their names without the pattern's fixed start and end."""
    start, end = _start(pattern), _end(pattern)
    found = [column for column in columns if fnmatchcase(column, pattern) and len(column) >= len(start) + len(end)]
    return {column[len(start) : len(column) - len(end)]: column for column in found}


def _is_pattern(entry: str, columns: list[str]) -> bool:
    return entry not in columns and any(sign in entry for sign in _WILD)


def _start(pattern: str) -> str:
    return pattern[: min((pattern.index(sign) for sign in _WILD if sign in pattern), default=len(pattern))]


def _end(pattern: str) -> str:
    wild = max(pattern.rfind(sign) for sign in "*?]")
    return pattern[wild + 1 :] if wild >= 0 else ""
