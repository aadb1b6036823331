"""Records of entities: sizes, errors, points."""

from __future__ import annotations

import numpy as np
import pytest

from ocelad.evaluation.streams import EntityRecords
from ocelad.evaluation.streams.entity_records import BRANCH_SHARE, COLUMNS, ERROR_RATES, MAX_RECORDS

TABLE = EntityRecords(n_entities=400, seed=5)
CLEAN = EntityRecords(n_entities=400, error_rate=0.0, seed=5)


def _distinct_by_entity(table: EntityRecords, column: str) -> list[set]:
    """Return the values of a column of each entity, without missing ones."""
    values: list[set] = [set() for _ in range(table.n_entities)]
    for entity, value in zip(table.entities.tolist(), table.records[column], strict=True):
        if value is not None:
            values[entity].add(value)
    return values


def test_the_same_seed_gives_the_same_records():
    again, other = EntityRecords(n_entities=400, seed=5), EntityRecords(n_entities=400, seed=6)
    assert again.records == TABLE.records
    np.testing.assert_allclose(again.points, TABLE.points, rtol=1e-9, atol=1e-12)  # up to rounding of the SVD
    assert (again.entities == TABLE.entities).all()
    assert other.records != TABLE.records


def test_every_entity_has_one_to_six_records_and_many_have_one():
    sizes = np.bincount(TABLE.entities, minlength=400)
    assert len(sizes) == 400
    assert sizes.min() == 1
    assert sizes.max() == MAX_RECORDS
    counts = np.bincount(sizes)[1:]
    expected = 400 / np.arange(1, MAX_RECORDS + 1) / np.sum(1.0 / np.arange(1, MAX_RECORDS + 1))
    assert (abs(counts - expected) < 4 * np.sqrt(expected)).all()


def test_columns_and_points_have_one_row_per_record():
    assert len(TABLE) == len(TABLE.entities) == len(TABLE.points)
    assert tuple(TABLE.records) == COLUMNS
    assert all(len(values) == len(TABLE) for values in TABLE.records.values())
    assert TABLE.points.shape[1] == len(TABLE.feature_names) == len(set(TABLE.feature_names))
    assert np.isfinite(TABLE.points).all()
    assert None not in TABLE.records["name"]


def test_without_errors_the_records_of_an_entity_are_equal():
    for column in COLUMNS:
        assert {len(values) for values in _distinct_by_entity(CLEAN, column)} == {1}
        assert None not in CLEAN.records[column]
    order = np.argsort(CLEAN.entities, kind="stable")
    same = np.flatnonzero(np.diff(CLEAN.entities[order]) == 0)
    assert np.allclose(CLEAN.points[order][same], CLEAN.points[order][same + 1])


def test_branches_share_a_name_in_another_city():
    names = [next(iter(values)) for values in _distinct_by_entity(CLEAN, "name")]
    cities = [next(iter(values)) for values in _distinct_by_entity(CLEAN, "city")]
    places = list(zip(names, cities, strict=True))
    n_originals = 400 - int(BRANCH_SHARE * 400)
    assert set(names[n_originals:]) <= set(names[:n_originals])
    assert set(places[n_originals:]).isdisjoint(places[:n_originals])


@pytest.mark.parametrize("column", ["city", "year", "price", "phone"])
def test_missing_values_are_as_frequent_as_stated(column):
    values = TABLE.records[column]
    share, rate = sum(value is None for value in values) / len(values), ERROR_RATES["missing"]
    assert abs(share - rate) < 4 * np.sqrt(rate * (1 - rate) / len(values))
    feature = TABLE.feature_names.index(f"no {column}")
    assert np.array_equal(TABLE.points[:, feature] > 0, [value is None for value in values])


def test_errors_are_as_frequent_as_stated():
    rates = {}
    vocabulary = {word for name in CLEAN.records["name"] for word in name.split()}
    for factor in (0.5, 1.0):
        table = EntityRecords(n_entities=400, error_rate=factor, seed=5)
        unknown = [any(word not in vocabulary for word in name.split()) for name in table.records["name"]]
        rates[factor] = float(np.mean(unknown))
        rounded = [year % 5 == 0 for year in table.records["year"] if year is not None]
        expected = 0.2 + 0.8 * factor * ERROR_RATES["rounded"]
        assert abs(np.mean(rounded) - expected) < 4 * np.sqrt(expected / len(rounded)) + 0.03
    stated = ERROR_RATES["typo"] + ERROR_RATES["swapped"]
    assert rates[0.5] < rates[1.0] <= stated + 0.05
    assert rates[1.0] > 0.75 * ERROR_RATES["typo"]


def test_names_and_cities_are_swapped_at_times():
    cities, names = set(CLEAN.records["city"]), set(CLEAN.records["name"])
    swapped = [name in cities for name in TABLE.records["name"]]
    assert 0 < np.mean(swapped) < 0.08
    assert any(city in names for city in TABLE.records["city"])


def test_records_of_one_entity_are_nearer_than_others():
    distances = np.linalg.norm(TABLE.points[:, None] - TABLE.points[None], axis=2)
    same = TABLE.entities[:, None] == TABLE.entities[None]
    assert np.median(distances[same & (distances > 0)]) < 0.6 * np.median(distances[~same])


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"n_entities": 39}, "n_entities"),
        ({"n_entities": 50.5}, "n_entities"),
        ({"error_rate": -0.1}, "error_rate"),
        ({"error_rate": 2.1}, "error_rate"),
        ({"seed": -1}, "seed"),
    ],
)
def test_wrong_parameters_are_refused(arguments, message):
    with pytest.raises((TypeError, ValueError), match=message):
        EntityRecords(**arguments)
