"""StateReader: every entry is checked before it is returned, and none is left over."""

from __future__ import annotations

import numpy as np
import pytest

from ocelad.ensemble.state_reader import StateReader, add_prefix


def reader(**entries):
    arrays = {name: value for name, value in entries.items() if isinstance(value, np.ndarray)}
    return StateReader(arrays, {name: value for name, value in entries.items() if name not in arrays})


def test_arrays_are_copies_in_c_order():
    array = np.asfortranarray(np.arange(6.0).reshape(2, 3))
    read = reader(a=array).floats("a", (2, None))
    assert read.flags.c_contiguous
    assert read.flags.writeable
    read[0, 0] = 7.0
    assert array[0, 0] == 0.0


@pytest.mark.parametrize(("at_least", "at_most"), [(1.0, 3.0), (-np.inf, 3.0), (1.0, np.inf), (-np.inf, np.inf)])
def test_limits_are_inclusive(at_least, at_most):
    array = np.array([1.0, 2.0, 3.0])
    assert reader(a=array).floats("a", (3,), at_least, at_most).tolist() == [1.0, 2.0, 3.0]
    assert reader(a=array.astype(np.int64)).integers("a", (3,), 1, 3).tolist() == [1, 2, 3]
    assert reader(n=1).integer("n", 1, 3) == 1
    assert reader(n=3).integer("n", 1, 3) == 3
    assert reader(a=np.empty(0)).floats("a", (None,), 5.0, 6.0).size == 0


@pytest.mark.parametrize(
    ("read", "message"),
    [
        (
            lambda saved: saved.floats("a", (3,), at_least=1.5),
            "saved array 'a' holds 1.0; expected numbers of at least 1.5",
        ),
        (
            lambda saved: saved.floats("a", (3,), at_most=2.5),
            "saved array 'a' holds 3.0; expected numbers of at most 2.5",
        ),
        (lambda saved: saved.floats("a", (3,), 0.0, 2.5), "holds 3.0; expected numbers of at least 0 and at most 2.5"),
        (lambda saved: saved.floats("a", (2,)), r"saved array 'a' has shape \(3,\); expected \(2\)"),
        (lambda saved: saved.floats("a", (3, None)), r"saved array 'a' has shape \(3,\); expected \(3, any\)"),
        (lambda saved: saved.floats("b", (3,)), "saved array 'b' is missing"),
        (lambda saved: saved.integers("a", (3,), 0, 9), "saved array 'a' has type float64; expected int64"),
        (lambda saved: saved.floats("i", (3,)), "saved array 'i' has type int64; expected float64"),
        (
            lambda saved: saved.integers("i", (3,), 0, 1),
            "saved array 'i' holds 2; expected numbers of at least 0 and at most 1",
        ),
        (
            lambda saved: saved.integers("i", (3,), 1, 2),
            "saved array 'i' holds 0; expected numbers of at least 1 and at most 2",
        ),
        (lambda saved: saved.floats("nan", (2,)), "saved array 'nan' holds nan; expected finite numbers"),
        (lambda saved: saved.distinct_integers("i", 2), "saved array 'i' holds duplicates; expected distinct numbers"),
        (lambda saved: saved.permutation("j", 4), "saved array 'j' has 3 numbers; expected 4"),
        (
            lambda saved: saved.permutation("j", 2),
            "saved array 'j' holds 2; expected numbers of at least 0 and at most 1",
        ),
        (lambda saved: saved.integer("n", 0, 4), "saved value 'n' must be a whole number"),
        (lambda saved: saved.integer("n", 6, 9), "saved value 'n' must be a whole number"),
        (lambda saved: saved.integer("text", 0, 9), "saved value 'text' must be a whole number"),
        (lambda saved: saved.integer("m", 0, 9), "saved value 'm' is missing"),
        (lambda saved: saved.value("a"), "saved value 'a' is missing"),
        (lambda saved: saved.expect("n", 6), "saved value 'n' is 5; expected 6"),
    ],
)
def test_invalid_entries_are_rejected(read, message):
    saved = reader(
        a=np.array([1.0, 2.0, 3.0]),
        i=np.array([0, 2, 2]),
        j=np.array([2, 0, 1]),
        nan=np.array([0.0, np.nan]),
        n=5,
        text="5",
    )
    with pytest.raises(ValueError, match=message):
        read(saved)


def test_permutations_and_distinct_integers():
    assert reader(p=np.array([2, 0, 1])).permutation("p", 3).tolist() == [2, 0, 1]
    assert reader(p=np.array([4, 1])).distinct_integers("p", 4).tolist() == [4, 1]


@pytest.mark.parametrize("like", [np.zeros((2, 1)), np.zeros(2, dtype=np.int64)])
def test_array_like_has_the_type_and_shape_of_its_example(like):
    assert reader(a=like + 1).array_like("a", like, 0.0, 1.0).dtype == like.dtype
    for wrong in (like[:1], like + 2, like.astype(np.float64 if like.dtype == np.int64 else np.int64)):
        with pytest.raises(ValueError, match="saved array 'a'"):
            reader(a=wrong).array_like("a", like, 0.0, 1.0)


def test_every_entry_must_be_read():
    saved = reader(a=np.ones(1), n=5)
    assert saved.size("a") == 1
    assert saved.size("b") == 0
    assert saved.has_value("n")
    assert not saved.has_value("a")
    with pytest.raises(ValueError, match="saved state holds 'a', which is unknown"):
        saved.expect_end()
    saved.floats("a", (1,))
    with pytest.raises(ValueError, match="saved array 'a' is missing"):
        saved.floats("a", (1,))
    with pytest.raises(ValueError, match="saved state holds 'n', which is unknown"):
        saved.expect_end()
    saved.expect("n", 5)
    saved.expect_end()


def test_sections():
    arrays = {"own": np.ones(1), **add_prefix("part", {"a": np.zeros(2), "b.c": np.ones(3)})}
    assert sorted(arrays) == ["own", "part.a", "part.b.c"]
    saved = StateReader(arrays, {"part": {"n": 1}, "other": 2})
    section = saved.section("part")
    assert section.floats("a", (2,)).tolist() == [0.0, 0.0]
    assert section.value("n") == 1
    saved.floats("own", (1,))
    saved.value("other")
    with pytest.raises(ValueError, match=r"saved state holds 'b\.c', which is unknown"):
        saved.expect_end()
    copies = section.remaining_arrays()
    assert list(copies) == ["b.c"]
    copies["b.c"][0] = 9.0
    assert arrays["part.b.c"][0] == 1.0
    saved.expect_end()
    assert saved.section("missing").remaining_arrays() == {}


@pytest.mark.parametrize(("arrays", "metadata"), [(None, {}), ({}, None), ([], {}), ({}, 5)])
def test_state_must_be_two_mappings(arrays, metadata):
    with pytest.raises(ValueError, match="saved state must be a dict of arrays and a dict of values; got"):
        StateReader(arrays, metadata)
