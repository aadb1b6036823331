"""Record linkage: comparison vectors, blocking, matching, groups, and the learner of links."""

from __future__ import annotations

import itertools
from datetime import date

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rapidfuzz.distance import OSA
from scipy.optimize import linear_sum_assignment
from scipy.special import expit

from ocelad import MetricTracker
from ocelad.evaluation.streams import LinkedTables
from ocelad.io import FileError, RowError
from ocelad.io.record_files import read_records
from ocelad.records import NoQuestionsLeft, RecordComparison, RecordLinker, candidate_pairs, parse_rules, read_table
from ocelad.records.blocking import default_rules
from ocelad.records.calibration import fit_shift
from ocelad.records.column_kinds import KINDS, clean_code, clean_text, guess_kind, to_days
from ocelad.records.comparators import COMPARATORS, Characters, Days, Difference, Digits, Exact, Letters, Words
from ocelad.records.grouping import group_records
from ocelad.records.one_to_one import match_one_to_one
from ocelad.records.question_choice import choose_at_start
from ocelad.records.record_linker import best_threshold, choose_links

TEXTS = st.text(alphabet="abcdeä -.1", max_size=12)
VALUES = {
    "text": TEXTS,
    "word": TEXTS,
    "code": TEXTS,
    "exact": TEXTS,
    "number": st.floats(-1e6, 1e6) | st.none(),
    "date": st.dates(date(1900, 1, 1), date(2100, 1, 1)) | st.none(),
}


def compare(comparator, left, right):
    """Return the dissimilarities of all pairs of two columns as a matrix."""
    pairs = np.array(list(itertools.product(range(len(left)), range(len(right)))))
    return comparator(left, right).compare(pairs[:, 0], pairs[:, 1]).reshape(len(left), len(right))


@pytest.mark.parametrize("kind", KINDS)
@given(data=st.data())
@settings(max_examples=25, deadline=None)
def test_dissimilarities_are_from_0_to_1_symmetric_and_0_for_equal_values(kind, data):
    left, right = (data.draw(st.lists(VALUES[kind], min_size=1, max_size=5)) for _ in range(2))
    for comparator in COMPARATORS[kind]:
        found = compare(comparator, left, right)
        known = ~np.isnan(found)
        assert ((found[known] >= 0) & (found[known] <= 1)).all()
        # The differences of random pairs are drawn anew for exchanged columns.
        tolerance = 0.05 if issubclass(comparator, Difference) else 0.0
        np.testing.assert_allclose(found, compare(comparator, right, left).T, atol=tolerance)
        own = compare(comparator, left, left).diagonal()
        assert (own[~np.isnan(own)] == 0).all()
        missing = np.isnan(own)
        assert np.isnan(found[missing]).all()


def jaro_winkler(a, b):
    """Return the Jaro-Winkler similarity by its definition."""
    if a == b:
        return 1.0
    window = max(max(len(a), len(b)) // 2 - 1, 0)
    taken, in_a = set(), []
    for i, letter in enumerate(a):
        at = next(
            (j for j in range(max(0, i - window), min(len(b), i + window + 1)) if j not in taken and b[j] == letter),
            None,
        )
        if at is not None:
            taken.add(at)
            in_a.append(letter)
    m = len(in_a)
    if not m:
        return 0.0
    swapped = sum(x != b[j] for x, j in zip(in_a, sorted(taken), strict=True)) // 2
    jaro = (m / len(a) + m / len(b) + (m - swapped) / m) / 3
    prefix = next((k for k in range(min(4, len(a), len(b))) if a[k] != b[k]), min(4, len(a), len(b)))
    return jaro + 0.1 * prefix * (1 - jaro) if jaro > 0.7 else jaro


@given(left=st.text("abcd", min_size=1, max_size=8), right=st.text("abcd", min_size=1, max_size=8))
@settings(max_examples=100, deadline=None)
def test_letters_are_the_jaro_winkler_distance(left, right):
    assert compare(Letters, [left], [right])[0, 0] == pytest.approx(1 - jaro_winkler(left, right), abs=1e-9)


def edit_distance(a, b, costs):
    """Return the weighted edit distance (insertion and deletion cost 1) by its recursion."""
    table = np.zeros((len(a) + 1, len(b) + 1))
    table[:, 0], table[0] = np.arange(len(a) + 1), np.arange(len(b) + 1)
    for i, j in itertools.product(range(1, len(a) + 1), range(1, len(b) + 1)):
        options = [
            table[i - 1, j] + 1,
            table[i, j - 1] + 1,
            table[i - 1, j - 1] + costs["replace"] * (a[i - 1] != b[j - 1]),
        ]
        if min(i, j) > 1 and a[i - 1] == b[j - 2] and a[i - 2] == b[j - 1]:
            options.append(table[i - 2, j - 2] + costs["exchange"])
        table[i, j] = min(options)
    return table[-1, -1]


@given(left=st.text("ab1", min_size=1, max_size=7), right=st.text("ab1", min_size=1, max_size=7))
@settings(max_examples=100, deadline=None)
def test_characters_are_an_edit_distance(left, right):
    plain = edit_distance(left, right, {"replace": 1, "exchange": 1})
    assert compare(Characters, [left], [right])[0, 0] == pytest.approx(plain / max(len(left), len(right)))


def overlap_distance(left, right):
    """Return the smallest edit distance, over the summed lengths, of shared words, and of these and other words."""
    shared = " ".join(sorted(left & right))
    first, second = (" ".join([*([shared] if shared else []), *sorted(own)]) for own in (left - right, right - left))
    pairs = [(first, second), *([(shared, first), (shared, second)] if shared else [])]
    return min(edit_distance(a, b, {"replace": 2, "exchange": 2}) / (len(a) + len(b)) for a, b in pairs)


WORDS = st.sets(st.text("ab1", min_size=1, max_size=4), min_size=1, max_size=4)


@given(left=WORDS, right=WORDS, data=st.data())
@settings(max_examples=100, deadline=None)
def test_words_are_compared_by_their_overlap(left, right, data):
    texts = [" ".join(data.draw(st.permutations(sorted(words)))) for words in (left, right)]
    assert compare(Words, texts[:1], texts[1:])[0, 0] == pytest.approx(overlap_distance(left, right))
    # Further words of one text do not count.
    assert compare(Words, texts[:1], [" ".join(texts)])[0, 0] == 0


def test_differences_are_shares_of_closer_random_pairs():
    rng = np.random.default_rng(0)
    left, right = (np.exp(rng.normal(size=400)).round(1).clip(0.1).tolist() for _ in range(2))  # with equal values
    found = compare(Difference, left, right)
    values = np.sort([*left, *right])
    ranks = [np.array([(values < v).sum() + (values <= v).sum() for v in side]) / 2 for side in (left, right)]
    differences = np.abs(ranks[0][:, None] - ranks[1])
    shares = np.searchsorted(np.sort(differences.ravel()), differences) / differences.size
    np.testing.assert_allclose(found, shares, atol=0.02)  # 20,000 random pairs
    # Neither the unit nor a monotone function matters.
    np.testing.assert_array_equal(compare(Difference, np.log(left).tolist(), np.log(right).tolist()), found)


def test_dates_are_compared_by_days_and_by_digits():
    dates = [date(1980, 3, 4), date(1980, 4, 3), date(1980, 3, 5), None]
    assert compare(Digits, dates, dates)[0, 1] == OSA.normalized_distance("19800304", "19800403")
    days = compare(Days, dates, dates)
    assert days[0, 2] < days[0, 1]
    assert np.isnan(days[3]).all()
    np.testing.assert_array_equal(compare(Digits, ["4.3.1980"], ["1980-03-04"]), [[0.0]])
    np.testing.assert_array_equal(
        to_days(["1980-03-04T10:00", pd.Timestamp("1980-03-04"), "30.2.1980"])[:2], [3715.0] * 2
    )


@pytest.mark.parametrize(
    ("values", "days"),
    [
        (["12/25/2020", "03/04/2020", None], ["2020-12-25", "2020-03-04", "NaT"]),
        (["25/12/2020", "03/04/2020", "x"], ["2020-12-25", "2020-04-03", "NaT"]),
        (["03/04/2020"], ["2020-04-03"]),
        (
            ["12/25/2020", "25/12/2020", "26/12/2020", "3/4/2020"],
            ["2020-12-25", "2020-12-25", "2020-12-26", "2020-04-03"],
        ),
    ],
)
def test_dates_of_a_column_have_one_order(values, days):
    np.testing.assert_array_equal(to_days(values).astype("datetime64[D]"), np.array(days, dtype="datetime64[D]"))


def test_values_that_cannot_be_read_as_their_kind_are_noted():
    left = read_table({"born": ["soon", "2.3.1980", None], "age": ["old", "young", "12"]}, "left")
    right = read_table({"born": ["1980-03-02"], "age": ["12"]}, "right")
    notes = RecordComparison(left, right, {"born": "date", "age": "number"}).notes
    assert notes == (
        "unreadable as date, compared as missing: 1 of 3 values (33.3 %) of born, such as 'soon'",
        "unreadable as number, compared as missing: 2 of 4 values (50 %) of age, such as 'old'",
    )
    assert RecordComparison(left, left, {"born": "date", "age": "text"}).notes[0].startswith("unreadable as date, comp")
    assert RecordComparison(left, left, {"born": "text", "age": "text"}).notes == ()


def test_exact_compares_without_case_accents_and_punctuation():
    np.testing.assert_array_equal(compare(Exact, ["Å-B", "x", None], ["a b", "y"]), [[0, 1], [1, 1], [np.nan, np.nan]])


@pytest.mark.parametrize(
    ("values", "kind"),
    [
        (["a b", "c d"], "text"),
        (["rome", "oslo", None], "word"),
        (["AB-1234", "CD-9876"], "code"),
        (["01234", "56789"], "code"),
        (["123456", "654321"], "code"),
        ([1, 2.5, None], "number"),
        (["1e3", "-2"], "number"),
        (["31/12/1999", "1999-12-31"], "date"),
        ([date(2000, 1, 1)], "date"),
        ([True, False], "exact"),
        ([None, None], None),
    ],
)
def test_kinds_are_guessed_from_values(values, kind):
    assert guess_kind(values) == kind


@pytest.mark.parametrize("values", [["12345", "54321"], [12345, 54321]])
@pytest.mark.parametrize(
    ("name", "kind"), [("zip", "code"), ("Post_Code", "code"), ("home phone", "code"), ("zipper", "number")]
)
def test_numbers_named_like_a_code_are_codes(values, name, kind):
    assert guess_kind(values, name) == kind


@pytest.mark.parametrize("first", [True, False])
def test_the_missing_kind_of_answer_is_asked_for_early(first):
    # The closest pairs are the same, and the others are different, wherever the limit is.
    distances, n_same = np.linspace(0, 1, 1000), 800 if first else 3
    answers, asked = [], np.zeros(1000, dtype=bool)
    while min(answers.count(True), answers.count(False)) < 2:
        position, source = choose_at_start(distances, asked, answers)
        assert source == "start"
        assert not asked[position]
        asked[position] = True
        answers.append(position < n_same)
        assert len(answers) <= 8
    assert answers.count(first) > 2


def test_both_kinds_are_asked_for_after_skipped_pairs():
    asked = np.zeros(1000, dtype=bool)
    found = []
    for n_skipped in range(5, 9):
        found.append(choose_at_start(np.arange(1000.0), asked, [None] * n_skipped)[0])
        asked[found[-1]] = True
    assert found == [0, 899, 1, 999]


def test_texts_are_cleaned():
    assert clean_text("  Straße  Nr. 5 ") == "strasse nr 5"
    assert clean_text("Ångström_Λόγος") == "angstrom λογοσ"
    assert clean_code("+44 (0)20-79") == "4402079"


def test_missing_values_are_neutral_and_vectors_are_roots():
    left = read_table({"name": ["anna lee", None], "age": [30, 40]}, "left")
    right = read_table({"name": ["ana lee", "x y"], "age": [30, None]}, "right")
    comparison = RecordComparison(left, right)
    pairs = np.array([[0, 0], [1, 0], [0, 1]])
    plain, vectors = comparison.dissimilarities(pairs), comparison.compare(pairs)
    assert comparison.feature_names == ("name letters", "name words", "age difference")
    np.testing.assert_array_equal(np.isnan(plain), [[False, False, False], [True, True, False], [False, False, True]])
    np.testing.assert_allclose(vectors, np.where(np.isnan(plain), 0.5, np.sqrt(plain)), rtol=1e-6)


@pytest.mark.parametrize("library", [pd.DataFrame, pl.DataFrame, pa.table])
def test_tables_of_all_libraries_give_the_same_records(library):
    columns = {"id": ["a", "b"], "name": ["Ann", None], "age": [3.5, None]}
    table = read_table(library(columns), "left")
    assert (table.ids, table.columns) == (["a", "b"], {"name": ["Ann", None], "age": [3.5, None]})
    assert table.digest() == read_table(columns, "left").digest()


def test_nullable_columns_of_pandas_have_missing_values():
    columns = {"id": ["a", "b"], "name": ["Ann", None], "age": [3, None], "member": [True, None]}
    table = read_table(pd.DataFrame(columns).convert_dtypes(), "left")
    assert (table.ids, table.columns) == (["a", "b"], {name: columns[name] for name in ("name", "age", "member")})
    assert read_table({"name": ["x", pd.NA]}, "left").columns == {"name": ["x", None]}


@pytest.mark.parametrize("unit", ["D", "s", "us", "ns"])
def test_times_of_numpy_are_dates(unit):
    table = read_table({"born": np.array(["1980-03-04", "NaT"], dtype=f"datetime64[{unit}]")}, "left")
    assert guess_kind(table.columns["born"]) == "date"
    np.testing.assert_array_equal(to_days(table.columns["born"]), [3715.0, np.nan])


RECORDS = st.lists(
    st.tuples(st.text("ab ", max_size=7) | st.none(), st.sampled_from(["rom", "oslo", None])), min_size=1, max_size=8
)


@given(
    left=RECORDS,
    right=RECORDS | st.none(),
    rules=st.lists(
        st.sampled_from(["name:word", "name:2", "name:-1", "city", "name:first+city"]), min_size=1, max_size=3
    ),
)
@settings(max_examples=60, deadline=None)
def test_blocking_finds_exactly_the_pairs_that_share_a_key(left, right, rules):
    tables = [
        read_table(dict(zip(("name", "city"), map(list, zip(*rows, strict=True)), strict=True)), "a table")
        for rows in (left, right)
        if rows
    ]
    one, other = tables[0], tables[-1]

    def keys(table, row, key):
        column, _, part = key.partition(":")
        text = clean_text(table.columns[column][row])
        if part == "word":
            return {word for word in text.split() if len(word) >= 3}
        if part == "first":
            return set(text.split()[:1])
        text = text.replace(" ", "") if part else text
        return {text[: int(part)] if int(part or 1) > 0 else text[int(part) :]} - {""} if part else {text} - {""}

    def share(i, j):
        return any(all(keys(one, i, key) & keys(other, j, key) for key in rule.split("+")) for rule in rules)

    expected = [
        [i, j] for i in range(len(one)) for j in range(len(other)) if (one is not other or i < j) and share(i, j)
    ]
    found = candidate_pairs(one, other, parse_rules(rules, one.columns), max_block=10**6)
    assert found.pairs.tolist() == expected
    assert found.notes == ()


def test_frequent_keys_are_skipped_with_a_note():
    table = read_table({"name": [f"mill {k // 2}{k // 2}{k // 2}" for k in range(20)]}, "left")
    found = candidate_pairs(table, table, parse_rules("name:word", table.columns), max_block=30)
    assert found.pairs.tolist() == [[k, k + 1] for k in range(0, 20, 2)]
    assert found.notes == ("keys in more than 30 pairs are skipped: 1 of name:word ('mill')",)


def test_default_rules_find_dates_however_they_are_written():
    left = read_table({"born": ["4.3.1980", "1990-01-01"]}, "left")
    right = read_table({"born": ["1980-03-04"]}, "right")
    assert candidate_pairs(left, right, default_rules({"born": "date"})).pairs.tolist() == [[0, 0]]
    assert candidate_pairs(left, right, parse_rules("born:year", left.columns)).pairs.tolist() == [[0, 0]]


@given(gains=st.lists(st.lists(st.floats(-1, 5), min_size=4, max_size=4), min_size=1, max_size=4))
@settings(max_examples=60, deadline=None)
def test_one_to_one_links_have_the_largest_sum(gains):
    matrix = np.array(gains)
    pairs = np.argwhere(np.isfinite(matrix))
    chosen = match_one_to_one(pairs, matrix.ravel())
    assert all(len(set(pairs[chosen, side].tolist())) == len(chosen) for side in (0, 1))
    positive = np.maximum(matrix, 0.0)
    best = positive[linear_sum_assignment(positive, maximize=True)].sum()
    assert matrix.ravel()[chosen].sum() == pytest.approx(best)


def test_no_guess_takes_the_place_of_an_answered_link():
    pairs = np.array([[0, 0], [0, 1], [1, 0], [2, 2], [2, 3]])
    probabilities, answered = np.array([1.0, 0.7, 0.6, 1.0, 1.0]), np.arange(5) % 3 == 0
    chosen, _ = choose_links(pairs, probabilities, True, 0.5, answered)
    assert sorted(chosen.tolist()) == [0, 3]
    assert sorted(choose_links(pairs[:3], probabilities[:3], True, 0.5)[0].tolist()) == [1, 2]  # of guesses, the most


def test_answered_links_are_kept_one_to_one():
    linker = RecordLinker(
        {"name": ["anna lee", "anna leigh"]}, {"name": ["anna leigh", "anna lee"]}, block="name:word", max_block=9
    )
    linker.learn(0, 0, True)  # the other pair of each record is alike to the letter
    found = linker.links(one_to_one=True, threshold=0.0)
    assert (found.left[found.answered].tolist(), found.right[found.answered].tolist()) == ([0], [0])


def test_groups_are_not_joined_by_one_doubtful_link():
    # Two triples of sure links, and one link between them.
    triples = [[0, 1], [0, 2], [1, 2], [3, 4], [3, 5], [4, 5]]
    groups = group_records(7, np.array([*triples, [2, 3]]), np.array([0.95] * 6 + [0.6]), 0.5)
    assert groups.tolist() == [0, 0, 0, 1, 1, 1, 2]
    # A link at the threshold joins.
    assert group_records(2, np.array([[0, 1]]), np.array([0.3]), 0.3).tolist() == [0, 0]
    assert group_records(3, np.empty((0, 2), dtype=int), np.empty(0), 0.5).tolist() == [0, 1, 2]


@given(st.lists(st.floats(0.02, 1), min_size=1, max_size=30))
@settings(deadline=None)
def test_threshold_has_the_largest_expected_f1(probabilities):
    p = np.sort(probabilities)[::-1]

    def expected_f1(threshold):
        chosen = p >= threshold
        return 2 * p[chosen].sum() / (chosen.sum() + p.sum()) if chosen.any() else 0.0

    assert expected_f1(best_threshold(p)) >= max(map(expected_f1, p)) - 1e-9


@given(st.lists(st.tuples(st.floats(-30, 30), st.booleans()), min_size=1, max_size=30))
@settings(deadline=None)
def test_shift_has_the_largest_posterior(answers):
    log_odds, same = (np.array(part) for part in zip(*answers, strict=True))
    shift = fit_shift(log_odds, same)

    def loss(shift):
        signs = np.where(same, 1.0, -1.0)
        return np.logaddexp(0.0, -signs * (log_odds + shift)).sum() + 50.0 / len(same) * shift**2

    assert loss(shift) <= min(loss(shift - 1e-3), loss(shift + 1e-3), loss(0.0)) + 1e-9
    # Exchanged answers shift to the other side.
    assert fit_shift(-log_odds, ~same) == pytest.approx(-shift, abs=1e-9)


def test_shift_is_found_from_answers_about_uncertain_pairs():
    rng = np.random.default_rng(0)
    assert fit_shift(np.empty(0), np.empty(0, dtype=bool)) == 0.0
    log_odds = rng.uniform(-1, 1, 2000)
    same = rng.random(2000) < expit(log_odds + 1.5)
    assert fit_shift(log_odds, same) == pytest.approx(1.5, abs=0.15)


def make_linker(subject="persons", n_rows=120, seed=1, **options):
    tables = LinkedTables(subject, n_rows=n_rows, seed=seed)
    return RecordLinker(tables.left, tables.right, **options), set(map(tuple, tables.links.tolist()))


def answer(linker, links, n_answers):
    for _ in range(n_answers):
        question = linker.propose()
        linker.learn(question.left, question.right, (question.left, question.right) in links)


@pytest.mark.parametrize("subject", ["persons", "companies"])
def test_links_are_found_after_few_answers(subject):
    linker, links = make_linker(subject, 300, seed=3)
    answer(linker, links, 40)
    asked = [(each.left, each.right) for each in linker.answers]
    assert len(set(asked)) == 40
    found = linker.links(one_to_one=True)
    pairs = set(zip(found.left.tolist(), found.right.tolist(), strict=True))
    assert len({left for left, _ in pairs}) == len({right for _, right in pairs}) == len(pairs)
    assert 2 * len(pairs & links) / (len(pairs) + len(links)) > 0.9
    assert linker.links().threshold == 0.5
    assert (np.diff(found.probability) <= 0).all()
    # What a person said decides.
    assert {pair for pair in asked if pair in links} <= pairs
    assert not pairs & {pair for pair in asked if pair not in links}


def test_probabilities_fit_the_answers_and_decisions_do_not_change():
    linker, links = make_linker()
    answer(linker, links, 3)
    comparisons = np.stack([linker.vectors, np.zeros_like(linker.vectors)], axis=1).astype(np.float64)
    np.testing.assert_allclose(linker.probabilities(), expit(linker.tracker.log_odds(comparisons)))  # these are guesses
    answer(linker, links, 120)
    asked = [(left, right) for left, right, _ in linker.answers]
    at = [linker.pairs.tolist().index(list(pair)) for pair in asked]
    same = np.array([pair in links for pair in asked])
    log_odds = linker.tracker.log_odds(comparisons)
    shift = fit_shift(log_odds[at], same)
    assert abs(shift) > 0.05
    np.testing.assert_allclose(linker.probabilities(), expit(log_odds + shift))
    found = linker.links(threshold=0.0, error=0.45)
    new = ~found.answered
    position = {tuple(pair): k for k, pair in enumerate(linker.pairs.tolist())}
    of_links = [position[pair] for pair in zip(found.left[new].tolist(), found.right[new].tolist(), strict=True)]
    np.testing.assert_array_equal(found.probability[new], linker.probabilities()[of_links])
    decisions = linker.tracker.decide_log_odds(log_odds[of_links], 0.45)
    assert (decisions != 0).any()
    np.testing.assert_array_equal(found.decision[new], decisions)


@pytest.mark.slow
@pytest.mark.parametrize("subject", ["persons", "companies"])
def test_more_answers_about_large_tables_do_not_make_links_worse(subject):
    scores = {100: [], 300: [], 500: []}
    for seed in (100, 101):
        linker, links = make_linker(subject, 4000, seed=seed)
        for n_answers, found in scores.items():
            answer(linker, links, n_answers - len(linker.answers))
            best = linker.links(one_to_one=True)
            pairs = set(zip(best.left.tolist(), best.right.tolist(), strict=True))
            found.append(2 * len(pairs & links) / (len(pairs) + len(links)))
    means = {n_answers: np.mean(found) for n_answers, found in scores.items()}
    assert min(means.values()) > 0.945
    assert min(means[300], means[500]) > means[100] - 0.01


def test_state_continues_to_the_same_bits(tmp_path):
    linker, links = make_linker()
    answer(linker, links, 12)
    linker.learn(*linker.propose()[:2], None)
    linker.save(tmp_path / "state")
    again = RecordLinker.load(tmp_path / "state", *linker.tables)
    for _ in range(6):
        answer(linker, links, 1)
        answer(again, links, 1)
    assert linker.answers == again.answers
    np.testing.assert_array_equal(linker.probabilities(), again.probabilities())
    linker.save(tmp_path / "one")
    again.save(tmp_path / "other")
    assert (tmp_path / "one").read_bytes() == (tmp_path / "other").read_bytes()


def test_undo_restores_the_state_before_the_answer(tmp_path):
    linker, links = make_linker()
    answer(linker, links, 9)
    question, before = linker.propose(), linker.probabilities()
    linker.learn(question.left, question.right, True)
    assert linker.propose() != question
    assert linker.undo().same is True
    assert linker.propose() == question
    np.testing.assert_array_equal(linker.probabilities(), before)


def test_answers_are_found_again_by_ids_when_tables_or_settings_change(tmp_path):
    tables = LinkedTables("persons", n_rows=120, seed=1)
    linker = RecordLinker(tables.left, tables.right)
    answer(linker, set(map(tuple, tables.links.tolist())), 10)
    linker.save(tmp_path / "state")
    order = np.random.default_rng(0).permutation(120)[:-1]
    changed = {name: [values[k] for k in order.tolist()] for name, values in tables.left.items()}
    again = RecordLinker.load(tmp_path / "state", changed, tables.right)

    def by_id(each):
        return {(each.tables[0].ids[left], each.tables[1].ids[right], same) for left, right, same in each.answers}

    gone = tables.left["id"][int(np.setdiff1d(np.arange(120), order)[0])]
    assert by_id(again) == {entry for entry in by_id(linker) if entry[0] != gone}
    other = RecordLinker.load(tmp_path / "state", tables.left, tables.right, compare={"city": "text"}, block="born")
    assert other.answers == linker.answers
    assert other.comparison.kinds["city"] == "text"
    without = {name: values for name, values in changed.items() if name != "id"}
    with pytest.raises(ValueError, match=r"has changed since and has no ids"):
        RecordLinker.load(tmp_path / "state", without, tables.right)


@pytest.mark.parametrize("is_one_table", [False, True])
def test_answers_about_missing_records_return_with_them(tmp_path, is_one_table):
    tables = LinkedTables("persons", n_rows=60, seed=1)
    right = None if is_one_table else tables.right
    linker = RecordLinker(tables.left, right)
    answer(linker, set(map(tuple, tables.links.tolist())), 8)
    linker.save(tmp_path / "state")
    gone = {each.left for each in linker.answers[:3]}
    fewer = {name: [v for k, v in enumerate(values) if k not in gone] for name, values in tables.left.items()}
    for _ in range(2):  # also when it is saved without them, and loaded for the same tables
        less = RecordLinker.load(tmp_path / "state", fewer, right)
        n_missing = sum(bool({each.left, *([each.right] if is_one_table else [])} & gone) for each in linker.answers)
        assert n_missing >= 3
        assert len(less.answers) == 8 - n_missing
        assert less.notes[-1] == f"not used, because their records are missing: {n_missing} of 8 answers"
        less.save(tmp_path / "state")
    again = RecordLinker.load(tmp_path / "state", tables.left, right)
    assert set(again.answers) == set(linker.answers)
    assert not any("missing" in note for note in again.notes)
    np.testing.assert_array_equal(
        again.links().left[again.links().answered], linker.links().left[linker.links().answered]
    )


def test_a_lost_column_is_no_longer_compared_and_a_new_or_named_one_is(tmp_path):
    tables = LinkedTables("persons", n_rows=60, seed=1)
    empty = {**tables.right, "city": [None] * 60}
    linker = RecordLinker({**tables.left, "city": [None] * 60}, empty, exclude=["street", "born"])
    linker.save(tmp_path / "state")
    lost = {name: values for name, values in tables.right.items() if name not in ("phone", "born")}
    again = RecordLinker.load(tmp_path / "state", tables.left, lost)
    assert again.comparison.kinds == {"name": "text", "city": "word"}  # and a column that has values now
    assert "compared before, and now not in both tables: phone" in again.notes
    again.save(tmp_path / "again")
    assert not any("before" in note for note in RecordLinker.load(tmp_path / "again", tables.left, lost).notes)
    named = RecordLinker.load(tmp_path / "state", tables.left, tables.right, compare={"born": "date"})
    assert named.comparison.kinds == {"name": "text", "city": "word", "born": "date", "phone": "code"}


def test_duplicates_of_one_table_are_grouped():
    tables = LinkedTables("persons", n_rows=150, seed=2)
    both = {name: [*tables.left[name], *tables.right[name]] for name in tables.left}
    links = {(left, 150 + right) for left, right in tables.links.tolist()}
    linker = RecordLinker(both)
    assert linker.is_one_table
    assert (linker.pairs[:, 0] < linker.pairs[:, 1]).all()
    answer(linker, links, 40)
    groups = linker.groups(linker.links())
    found = {(i, j) for i, j in itertools.combinations(range(300), 2) if groups[i] == groups[j]}
    assert 2 * len(found & links) / (len(found) + len(links)) > 0.85
    linker.learn(5, 3, True)  # no candidate pair, in the other order
    assert (3, 5) in set(zip(linker.links().left.tolist(), linker.links().right.tolist(), strict=True))
    with pytest.raises(ValueError, match=r"one_to_one needs two tables"):
        linker.links(one_to_one=True)


def test_every_pair_is_asked_once():
    columns = {"id": list("abcd"), "name": ["anna lee", "ana lee", "bob lee", "bob ley"]}
    linker = RecordLinker(columns, block="name:word")
    asked = []
    for same in itertools.cycle((True, False, None)):
        try:
            question = linker.propose()
        except NoQuestionsLeft:
            break
        asked.append(question[:2])
        linker.learn(*question[:2], same)
    assert sorted(asked) == [tuple(pair) for pair in linker.pairs.tolist()]


@pytest.mark.parametrize("tracker", [MetricTracker(curved=True), MetricTracker(method="rice")])
def test_other_trackers_learn_links(tracker, tmp_path):
    linker, links = make_linker(tracker=tracker)
    answer(linker, links, 20)
    assert len(linker.links(one_to_one=True)) > 0
    linker.save(tmp_path / "state")
    again = RecordLinker.load(tmp_path / "state", *linker.tables)
    linker.undo()
    again.undo()
    assert type(again.tracker.metric_) is type(linker.tracker.metric_)
    np.testing.assert_array_equal(again.probabilities(), linker.probabilities())
    plain = RecordLinker.load(tmp_path / "state", *linker.tables, tracker=MetricTracker())
    assert (plain.tracker.method_, plain.tracker.curved) == ("adaptive", False)


def test_many_candidates_are_sampled_by_left_record(monkeypatch):
    monkeypatch.setattr("ocelad.records.record_linker._POOL", 200)
    linker, links = make_linker()
    records, counts = np.unique(linker.pairs[:, 0], return_counts=True)
    chosen, in_pool = np.unique(linker.pairs[linker._pool, 0], return_counts=True)
    np.testing.assert_array_equal(in_pool, counts[np.isin(records, chosen)])
    assert 200 <= len(linker._pool) < len(linker.pairs)
    answer(linker, links, 10)


@pytest.mark.parametrize(
    ("left", "right", "options", "message"),
    [
        (3, None, {}, "the left table has the type int; accepted: a dataframe"),
        ({"a": [1], "b": []}, None, {}, "columns of different lengths"),
        ({"a": []}, None, {}, "has no rows"),
        ({"id": ["x", "x"], "a": ["b", "c"]}, None, {}, "has the id 'x' twice, in row 0 and row 1; accepted"),
        ({"id": [None], "a": ["b"]}, None, {}, "has no id in row 0"),
        ({"a": ["b"]}, {"c": ["d"]}, {}, "have no column in common to compare: one has 'a', the other 'c'; accepted"),
        ({"a": ["b"]}, {"c": ["d"]}, {"exclude": ["c"]}, "have no column in common to compare: one has 'a'"),
        ({"a": ["b"]}, {"a": ["d"]}, {"exclude": ["a"]}, "all 1 columns are excluded or without values"),
        ({"a": ["b b"]}, {"a": ["c c"]}, {}, "no two records share a key"),
        ({"a": ["b"]}, {"a": ["b"]}, {"compare": {"a": "name"}}, "the kind of column 'a' must be one of"),
        ({"a": ["b"]}, {"a": ["b"]}, {"compare": {"c": "text"}}, "no column 'c' is in both tables"),
        ({"a": ["b"]}, {"a": ["b"]}, {"block": "a:x"}, "the blocking rule 'a:x' names no column"),
        ({"a": ["b"]}, {"a": ["b"]}, {"id": "nr"}, "has no column 'nr' of ids"),
        ({"id": ["b"]}, {"id": ["b"]}, {}, "has no column beside its ids"),
    ],
)
def test_wrong_input_is_refused_in_one_sentence(left, right, options, message):
    with pytest.raises((TypeError, ValueError), match=message):
        RecordLinker(left, right, **options)


def test_wrong_rows_and_files_are_refused(tmp_path):
    linker, _ = make_linker()
    with pytest.raises(ValueError, match="left must be a whole number of at most 119"):
        linker.learn(120, 0, True)
    with pytest.raises(ValueError, match="no answer to undo"):
        linker.undo()
    with pytest.raises(ValueError, match="groups are those of one table"):
        linker.groups(linker.links())
    MetricTracker().start(2).save(tmp_path / "tracker")
    with pytest.raises(ValueError, match="holds a tracker, not a linker"):
        RecordLinker.load(tmp_path / "tracker", *linker.tables)


@pytest.mark.parametrize("subject", ["persons", "companies"])
def test_linked_tables_have_their_links_and_errors(subject):
    tables, again = (LinkedTables(subject, n_rows=400, seed=5) for _ in range(2))
    assert (tables.left, tables.right) == (again.left, again.right)
    assert tables.left != LinkedTables(subject, n_rows=400, seed=6).left
    left, right = tables.links.T
    assert len(left) == len(set(left.tolist())) == len(set(right.tolist())) == 240
    exact = LinkedTables(subject, n_rows=400, seed=5, error_rate=0)
    for name in set(exact.left) - {"id"}:
        assert [exact.left[name][i] for i in exact.links[:, 0]] == [exact.right[name][j] for j in exact.links[:, 1]]
    shares = [np.mean([value is None for value in table["phone"]]) for table in (tables.left, tables.right)]
    assert shares[0] < 0.07 < shares[1] < 0.15


def test_records_are_read_from_all_formats(tmp_path):
    columns = {"id": ["a", "b"], "name": ["Ann", None], "born": [date(1980, 1, 2), None], "age": [3, 4]}
    pq.write_table(pa.table(columns), tmp_path / "t.parquet")
    assert read_records(tmp_path / "t.parquet") == columns | {"born": ["1980-01-02", None]}
    (tmp_path / "t.csv").write_text('id;name\na;"A; B"\nb; \n', encoding="utf-8")
    assert read_records(tmp_path / "t.csv") == {"id": ["a", "b"], "name": ["A; B", None]}
    (tmp_path / "t.jsonl").write_text('{"id": 1, "name": "x"}\n{"id": 2}\n')
    assert read_records(tmp_path / "t.jsonl") == {"id": [1, 2], "name": ["x", None]}
    (tmp_path / "bad.csv").write_text("id,name\na,b\nc,d,e\n")
    with pytest.raises(RowError, match=r"bad.csv, line 3"):
        read_records(tmp_path / "bad.csv")
    (tmp_path / "head.csv").write_text("id,name\n")
    with pytest.raises(FileError, match="has no rows; accepted: a table with at least one row"):
        read_records(tmp_path / "head.csv")
