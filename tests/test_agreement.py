"""Agreement of people, against textbook examples and other definitions; and accuracies of people."""

from __future__ import annotations

from itertools import combinations, permutations
from math import isnan

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from ocelad.evaluation.agreement import (
    alpha_interval,
    cohen_kappa,
    kappa_interval,
    krippendorff_alpha,
    percent_agreement,
    percent_interval,
)
from ocelad.evaluation.answer_accuracy import (
    PersonAccuracy,
    Question,
    answer_weights,
    estimate_accuracies,
)

# Krippendorff (2011), C: four observers, twelve units, five categories, missing data; alpha = 0.743.
_ = 0
FOUR_OBSERVERS = (
    np.array(
        [
            [1, 2, 3, 3, 2, 1, 4, 1, 2, _, _, _],
            [1, 2, 3, 3, 2, 2, 4, 1, 2, 5, _, 3],
            [_, 3, 3, 3, 2, 3, 4, 2, 2, 5, 1, _],
            [1, 2, 3, 3, 2, 4, 4, 1, 2, 5, 1, _],
        ]
    ).T
    - 1
)
# Krippendorff (2011), A: two observers, ten units, two categories; alpha = 0.095.
TWO_OBSERVERS = np.array([[0, 1, 0, 0, 0, 0, 0, 0, 1, 0], [1, 1, 1, 0, 0, 1, 0, 0, 0, 0]]).T

ratings = st.integers(2, 4).flatmap(
    lambda n: st.lists(st.lists(st.integers(-1, 2), min_size=n, max_size=n), min_size=1, max_size=20)
)


def test_alpha_of_textbook_examples():
    assert krippendorff_alpha(FOUR_OBSERVERS) == pytest.approx(0.743, abs=5e-4)
    assert krippendorff_alpha(TWO_OBSERVERS) == pytest.approx(0.095, abs=5e-4)


def test_kappa_of_a_textbook_example():
    """Fleiss, Cohen and Everitt (1969), Psychological Bulletin 72: kappa = 0.429."""
    table = np.array([[53, 5, 2], [11, 14, 5], [1, 6, 3]])
    first, second = np.repeat(np.indices((3, 3)).reshape(2, 9), table.ravel(), axis=1)
    assert cohen_kappa(first, second) == pytest.approx(0.429, abs=5e-4)


def alpha_by_definition(rows):
    """One minus the mean disagreement of pairs within units, over that of all pairs of pairable values."""
    units = [[each for each in row if each >= 0] for row in rows]
    units = [unit for unit in units if len(unit) >= 2]
    values = [each for unit in units for each in unit]
    if len(set(values)) < 2:
        return None
    observed = sum(sum(a != b for a, b in permutations(unit, 2)) / (len(unit) - 1) for unit in units) / len(values)
    pairs = list(permutations(values, 2))
    return 1 - observed / (sum(a != b for a, b in pairs) / len(pairs))


@given(rows=ratings)
def test_alpha_agrees_with_its_definition(rows):
    expected = alpha_by_definition(rows)
    found = krippendorff_alpha(rows)
    assert isnan(found) if expected is None else found == pytest.approx(expected)


@given(rows=ratings, seed=st.integers(0, 10))
def test_the_order_of_units_raters_and_categories_does_not_matter(rows, seed):
    rng, array = np.random.default_rng(seed), np.array(rows)
    shuffled = rng.permutation(rng.permutation(array, axis=0), axis=1)
    renamed = np.concatenate([rng.permutation(3), [-1]])[shuffled]
    for statistic in (krippendorff_alpha, percent_agreement):
        np.testing.assert_allclose(statistic(renamed), statistic(array))


@given(rows=ratings)
def test_percent_agreement_counts_pairs_of_ratings(rows):
    pairs = [pair for row in rows for pair in combinations([each for each in row if each >= 0], 2)]
    found = percent_agreement(rows)
    assert isnan(found) if not pairs else found == pytest.approx(sum(a == b for a, b in pairs) / len(pairs))


@given(data=st.lists(st.tuples(st.integers(0, 1), st.integers(0, 1)), min_size=1, max_size=30))
def test_kappa_is_symmetric_and_one_if_all_agree(data):
    first, second = np.array(data).T
    np.testing.assert_allclose(cohen_kappa(first, second), cohen_kappa(second, first))
    if len(set(first.tolist())) == 2:
        assert cohen_kappa(first, first) == 1.0
        assert krippendorff_alpha(np.column_stack([first, first])) == 1.0
    with_gaps = np.concatenate([first, [-1, 1]]), np.concatenate([second, [1, -1]])
    np.testing.assert_allclose(cohen_kappa(*with_gaps), cohen_kappa(first, second))


def test_kappa_and_alpha_converge_for_many_units():
    rng = np.random.default_rng(0)
    truth = rng.random(4000) < 0.3
    first, second = (np.where(rng.random(4000) < 0.9, truth, ~truth).astype(int) for _ in range(2))
    assert krippendorff_alpha(np.column_stack([first, second])) == pytest.approx(cohen_kappa(first, second), abs=1e-3)


@pytest.mark.parametrize("n", [60, 600])
def test_intervals_cover_the_truth(n):
    """Two raters, each right with probability 0.9, half of the units each category: kappa is 0.64."""
    covered = np.zeros(3)
    for seed in range(100):
        rng = np.random.default_rng(seed)
        truth = rng.random(n) < 0.5
        first, second = (np.where(rng.random(n) < 0.9, truth, ~truth).astype(int) for _ in range(2))
        rows = np.column_stack([first, second])
        intervals = alpha_interval(rows), kappa_interval(first, second), percent_interval(rows)
        covered += [low <= value <= high for (low, high), value in zip(intervals, (0.64, 0.64, 0.82), strict=True)]
    assert (covered >= 88).all(), covered  # of 100, expected 95


@given(rows=ratings)
def test_an_interval_contains_the_estimate_and_is_repeatable(rows):
    alpha = krippendorff_alpha(rows)
    assume(not isnan(alpha))
    low, high = alpha_interval(rows)
    assert low - 1e-9 <= alpha <= high + 1e-9 or high - low < 2.0
    assert alpha_interval(rows) == (low, high)


def test_without_two_ratings_there_is_no_agreement():
    for rows in ([[0, -1], [-1, 1]], [[-1, -1]], np.zeros((0, 2))):
        assert isnan(krippendorff_alpha(rows))
        assert isnan(percent_agreement(rows))
        assert isnan(alpha_interval(rows).low)
    assert isnan(cohen_kappa([0, -1], [-1, 1]))
    assert isnan(kappa_interval([0, -1], [-1, 1]).high)
    assert isnan(krippendorff_alpha([[1, 1], [1, 1]]))  # nothing to agree about
    assert isnan(cohen_kappa([1, 1], [1, 1]))


# Accuracies.


def draw_questions(accuracies, n, seed=0, share=1.0, settled=0.0):
    rng = np.random.default_rng(seed)
    questions = []
    for _ in range(n):
        truth = bool(rng.random() < 0.4)
        answers = {name: truth == (rng.random() < each) for name, each in accuracies.items() if rng.random() < share}
        questions.append(Question(answers, truth if rng.random() < settled else None))
    return questions


@pytest.mark.parametrize("share", [1.0, 0.7])
def test_accuracies_are_found_from_three_people(share):
    true = {"anna": 0.95, "ben": 0.9, "eve": 0.7}
    found = estimate_accuracies(draw_questions(true, 1500, share=share))
    for name, accuracy in true.items():
        assert found[name].accuracy == pytest.approx(accuracy, abs=0.035)
    weights = answer_weights(found)
    assert weights["anna"] == 1.0
    assert weights["eve"] < weights["ben"] <= 1.0


def test_two_people_who_disagree_are_equally_good_unless_questions_are_settled():
    rows = [(True, True), (False, False)] * 10 + [(True, False), (False, True)] * 4
    equal = estimate_accuracies([Question({"anna": first, "eve": second}) for first, second in rows])
    assert equal["anna"].accuracy == pytest.approx(equal["eve"].accuracy)
    assert set(answer_weights(equal).values()) == {1.0}
    settled = estimate_accuracies([Question({"anna": first, "eve": second}, first) for first, second in rows])
    assert settled["anna"].accuracy > settled["eve"].accuracy + 0.15


def test_a_single_answer_says_nothing():
    assert estimate_accuracies([Question({"anna": True}), Question({}, True)]) == {}
    assert answer_weights({}) == {}
    assert estimate_accuracies([Question({"anna": True}, False)])["anna"].n_questions == 1


@given(
    accuracies=st.dictionaries(
        st.text(max_size=3), st.builds(PersonAccuracy, st.floats(0, 1), st.integers(0, 1000)), max_size=5
    )
)
def test_weights_are_between_0_and_1_and_few_questions_change_little(accuracies):
    weights = answer_weights(accuracies)
    assert weights.keys() == accuracies.keys()
    for name, weight in weights.items():
        assert 0.0 <= weight <= 1.0
        assert weight >= 10 / (10 + accuracies[name].n_questions) - 1e-3
