"""The schedule against a list of explicit intervals."""

from __future__ import annotations

from itertools import pairwise

import pytest

from ocelad.ensemble.schedule import Schedule


def explicit_intervals(shortest: int, levels: int, rounds: int) -> dict[int, list[range]]:
    intervals = {}
    for level in range(levels):
        length = shortest * 2**level
        starts = list(range(length, rounds + 1, length))
        intervals[level] = [range(start, start + length) for start in starts]
    if shortest > 1:
        intervals[0].insert(0, range(1, shortest))
    return intervals


@pytest.mark.parametrize("shortest", [1, 2, 3, 5, 64])
def test_starts_and_active_scales_are_those_of_the_explicit_intervals(shortest):
    schedule = Schedule(shortest)
    intervals = explicit_intervals(shortest, levels=11, rounds=700)
    for t in range(1, 700):
        starting = [level for level, parts in intervals.items() if any(part.start == t for part in parts)]
        active = [level for level, parts in intervals.items() if any(t in part for part in parts)]
        assert starting == list(range(schedule.n_starting(t)))
        assert active == list(range(schedule.n_active(t)))


def test_every_interval_follows_the_last_without_a_gap():
    for parts in explicit_intervals(3, levels=6, rounds=400).values():
        assert all(one.stop == other.start for one, other in pairwise(parts))


def test_scales_are_capped():
    schedule = Schedule(1, n_scales=3)
    assert {schedule.n_active(t) for t in range(4, 200)} == {3}
    assert max(schedule.n_starting(t) for t in range(1, 200)) == 3


def test_number_of_scales_grows_with_the_logarithm_of_time():
    assert [Schedule(1).n_active(10**k) for k in (0, 3, 6, 12)] == [1, 10, 20, 40]


@pytest.mark.parametrize("shortest", [0, -1, 1.5, "1", True, None])
def test_shortest_interval_must_be_a_positive_whole_number(shortest):
    with pytest.raises((ValueError, TypeError), match="shortest_interval must be a whole number"):
        Schedule(shortest)


@pytest.mark.parametrize("n_scales", [0, -2, 2.0, "all"])
def test_number_of_scales_must_be_a_positive_whole_number(n_scales):
    with pytest.raises((ValueError, TypeError), match="n_scales must be"):
        Schedule(1, n_scales)
