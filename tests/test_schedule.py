"""The schedules, against a list of explicit intervals."""

from __future__ import annotations

from itertools import pairwise

import pytest

from ocelad.ensemble.schedule import MAX_INTERVAL, MAX_SCALES, FixedExperts, Schedule, active_scales


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
def test_starting_and_active_scales_match_the_explicit_intervals(shortest):
    schedule = Schedule(shortest)
    intervals = explicit_intervals(shortest, levels=11, rounds=700)
    for t in range(1, 700):
        starting = [level for level, parts in intervals.items() if any(part.start == t for part in parts)]
        active = [level for level, parts in intervals.items() if any(t in part for part in parts)]
        assert starting == list(range(schedule.n_starting(t)))
        assert active == list(range(schedule.n_active(t)))


def test_intervals_are_consecutive():
    for parts in explicit_intervals(3, levels=6, rounds=400).values():
        assert all(one.stop == other.start for one, other in pairwise(parts))


def test_n_scales_limits_the_number_of_scales():
    schedule = Schedule(1, n_scales=3)
    assert {schedule.n_active(t) for t in range(4, 200)} == {3}
    assert max(schedule.n_starting(t) for t in range(1, 200)) == 3


def test_the_number_of_scales_grows_logarithmically():
    assert [Schedule(1).n_active(10**k) for k in (0, 3, 6, 12)] == [1, 10, 20, 40]


@pytest.mark.parametrize("shortest", [0, -1, 1.5, "1", True, None])
def test_shortest_interval_must_be_a_positive_whole_number(shortest):
    with pytest.raises((ValueError, TypeError), match="shortest_interval must be a whole number"):
        Schedule(shortest)


@pytest.mark.parametrize("n_scales", [0, -2, 2.0, "all"])
def test_number_of_scales_must_be_a_positive_whole_number(n_scales):
    with pytest.raises((ValueError, TypeError), match="n_scales must be"):
        Schedule(1, n_scales)


def test_the_longest_shortest_interval():
    assert Schedule(MAX_INTERVAL).scale(0).length == MAX_INTERVAL
    with pytest.raises(ValueError, match="shortest_interval must be a whole number"):
        Schedule(MAX_INTERVAL + 1)


@pytest.mark.parametrize("n_experts", [1, 2, 7, MAX_SCALES])
def test_fixed_experts_start_once_and_stay_active(n_experts):
    schedule = FixedExperts([0.5**j for j in range(n_experts)])
    assert [schedule.n_starting(t) for t in (1, 2, 3, 4, 1024)] == [n_experts, 0, 0, 0, 0]
    assert {schedule.n_active(t) for t in (1, 2, 3, 1000)} == {n_experts}
    assert [schedule.scale(j).rate for j in range(n_experts)] == [0.5**j for j in range(n_experts)]
    assert {schedule.scale(j).weight_rate for j in range(n_experts)} == {0.5}
    assert str(schedule.scale(0)) == "expert 0 (rate 1)"
    # Kernels compute the number of active experts from these arguments.
    assert {active_scales(*schedule.kernel_schedule(t)) for t in (1, 2, 1000)} == {n_experts}


@pytest.mark.parametrize(
    ("rates", "message"),
    [
        ([], "rates must be 1 to 62 numbers; got 0"),
        ([1.0] * (MAX_SCALES + 1), "rates must be 1 to 62 numbers; got 63"),
        ([0.1, 0.0], r"rates\[1\] must be a finite number above 0"),
        ("12", "rates must be numbers above 0, one per learner; got '12'"),
        (0.1, "rates must be numbers above 0, one per learner; got 0.1"),
    ],
)
def test_invalid_rates_are_rejected(rates, message):
    with pytest.raises((ValueError, TypeError), match=message):
        FixedExperts(rates)


def test_the_weight_rate_is_at_most_one_half():
    rates = [Schedule(1).scale(j).weight_rate for j in range(5)]
    assert rates == [0.5, 0.5, 0.5, pytest.approx(8**-0.5), 0.25]
