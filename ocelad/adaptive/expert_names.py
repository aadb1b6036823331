"""Words for experts: what the technical name of an expert means, and the few groups that a picture shows.

The names are those of ``AdaptiveTracker.expert_names`` and, with the method "rice", the interval lengths of its scales.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

import numpy as np

from ocelad._typing import Floats

#: The name of the group of all experts that count little.
OTHERS = "others"
#: The name of the group of the distances that do not learn from answers.
PLAIN = "plain distance"

_WORDS = {
    "Euclidean": "Euclidean distance",
    "standardized": "standardized features",
    "whitened": "whitened features",
    "curved Euclidean": "all curved features",
    "groups": "groups of items",
    "curved groups": "groups of items, curved",
    "all learned": "mean of learned distances",
}
# Patterns of other names, and their words.
_PATTERNS = (
    (r"window (\d+)", r"window of \1 similar pairs"),
    (r"standardized window (\d+)", r"window of \1 similar pairs, standardized"),
    (r"COMID (\S+)", r"gradient steps of size \1"),
    (r"curved COMID (\S+)", r"curved gradient steps of size \1"),
    (r"memory (\d+)", r"earlier distance \1"),
    (r"all learned 1:(\S+) prior", r"mean of learned distances, 1:\1 with the prior"),
    (r"(\d+)", r"intervals of \1 pairs"),
)
_WINDOW_GROUPS = (
    (64, "windows of 16–64 pairs"),
    (256, "windows of 128–256 pairs"),
    (1024, "windows of 512–1024 pairs"),
)
_SCALE_GROUPS = (
    (4, "intervals of 1–4 pairs"),
    (32, "intervals of 8–32 pairs"),
    (256, "intervals of 64–256 pairs"),
    (2048, "intervals of 512–2048 pairs"),
)
_LONGEST_SCALES = "intervals of 4096 pairs or more"
_GRADIENT, _MEAN = "gradient steps (COMID)", "mean of learned distances"
_CURVED, _ITEMS, _MEMORIES = "curved features", "groups of items", "earlier distances"
# The order in which pictures stack the groups; experts of the user's own come after them.
_ORDER = (
    PLAIN,
    *(group for _, group in _SCALE_GROUPS),
    _LONGEST_SCALES,
    *(group for _, group in _WINDOW_GROUPS),
    _GRADIENT,
    _CURVED,
    _ITEMS,
    _MEAN,
    _MEMORIES,
)


def describe_expert(name: str) -> str:
    """Return what the name of an expert means, in words; the name itself for an expert of the user's own.

    >>> describe_expert("standardized window 128")
    'window of 128 similar pairs, standardized'
    >>> describe_expert("all learned 1:3 prior")
    'mean of learned distances, 1:3 with the prior'
    >>> describe_expert("64")  # a scale of the method "rice"
    'intervals of 64 pairs'
    """
    if name in _WORDS:
        return _WORDS[name]
    for pattern, words in _PATTERNS:
        if match := re.fullmatch(pattern, name):
            return match.expand(words)
    return name


def expert_group(name: str) -> str:
    """Return the group of an expert, in words; the name itself for an expert of the user's own.

    >>> expert_group("standardized window 32"), expert_group("whitened"), expert_group("16")
    ('windows of 16–64 pairs', 'plain distance', 'intervals of 8–32 pairs')
    """
    if name in ("Euclidean", "standardized", "whitened"):
        return PLAIN
    if match := re.fullmatch(r"(?:standardized )?window (\d+)", name):
        return _of_length(int(match[1]), _WINDOW_GROUPS, _WINDOW_GROUPS[-1][1])
    if re.fullmatch(r"COMID \S+", name):
        return _GRADIENT
    if name in ("groups", "curved groups"):
        return _ITEMS
    if re.fullmatch(r"curved (Euclidean|COMID \S+)", name):
        return _CURVED
    if re.fullmatch(r"all learned( 1:\S+ prior)?", name):
        return _MEAN
    if re.fullmatch(r"memory \d+", name):
        return _MEMORIES
    if re.fullmatch(r"\d+", name):
        return _of_length(int(name), _SCALE_GROUPS, _LONGEST_SCALES)
    return name


def _of_length(length: int, groups: Sequence[tuple[int, str]], longest: str) -> str:
    return next((group for limit, group in groups if length <= limit), longest)


def group_weights(names: Sequence[str], weights: Floats, smallest: float = 0.02) -> tuple[tuple[str, ...], Floats]:
    """Add the weights of the experts of each group, and the groups that count little to "others".

    Parameters
    ----------
    names : sequence of str
        The names of the experts.
    weights : array of shape (n_rows, n_experts)
        The weights of the experts over time; each row sums to 1.
    smallest : float
        A group whose mean weight is smaller, and whose weight in no row reaches ten times this, is one of the others.

    Returns
    -------
    groups : tuple of str
    weights : array of shape (n_rows, n_groups)

    Examples
    --------
    >>> groups, weights = group_weights(["Euclidean", "window 16", "window 64"], np.array([[0.5, 0.2, 0.3]]))
    >>> groups, weights
    (('plain distance', 'windows of 16–64 pairs'), array([[0.5, 0.5]]))
    """
    sums: dict[str, Floats] = {}
    for name, column in zip(names, np.asarray(weights).T, strict=True):
        group = expert_group(name)
        sums[group] = sums.get(group, 0.0) + column
    order = {group: k for k, group in enumerate(_ORDER)}
    groups = sorted(sums, key=lambda group: order.get(group, len(_ORDER)))
    large = [group for group in groups if sums[group].mean() >= smallest or sums[group].max() >= 10 * smallest]
    columns = [sums[group] for group in large]
    if small := [sums[group] for group in groups if group not in large]:
        large, columns = [*large, OTHERS], [*columns, np.sum(small, axis=0)]
    return tuple(large), np.stack(columns, axis=1)
