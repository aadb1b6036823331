"""PairTransformer: a scaler before a tracker, for all kinds of pairs, and the conventions of scikit-learn."""

from __future__ import annotations

import pickle

import numpy as np
import pandas as pd
import polars as pl
import pytest
from scipy.sparse import csr_array
from sklearn.base import clone
from sklearn.decomposition import PCA
from sklearn.exceptions import NotFittedError
from sklearn.impute import SimpleImputer
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MaxAbsScaler, StandardScaler
from sklearn.utils.estimator_checks import check_estimator

from ocelad import MetricTracker, PairTransformer, QuadrupletTracker, TripletTracker

RICE = MetricTracker(method="rice")


def some_pairs(count=300, seed=0):
    """Return pairs whose first feature is large and means nothing; "same" depends on the second one."""
    pairs = np.random.default_rng(seed).normal(size=(count, 2, 3)) * [1000.0, 1.0, 1.0] + [0.0, 5.0, 0.0]
    return pairs, np.where(abs(pairs[:, 0, 1] - pairs[:, 1, 1]) < 1, 1, -1)


def test_the_scaler_sees_all_points_of_the_pairs():
    pairs, y = some_pairs()
    transformer = PairTransformer(StandardScaler()).fit(pairs, y)
    points = pairs.reshape(-1, 3)
    np.testing.assert_allclose(transformer.transformer_.mean_, points.mean(axis=0))
    expected = StandardScaler().fit(points).transform(points).reshape(pairs.shape)
    np.testing.assert_allclose(transformer.transform(pairs), expected)
    np.testing.assert_array_equal(transformer.fit_transform(pairs, y), transformer.transform(pairs))
    np.testing.assert_array_equal(transformer.transform(pairs.tolist()), transformer.transform(pairs))
    assert transformer.transform(pairs.astype(np.float32)).dtype == np.float32
    np.testing.assert_allclose(transformer.transform(np.round(pairs).astype(int)), transformer.transform(pairs.round()))


def test_a_pipeline_with_a_scaler_learns_where_the_tracker_alone_does_not():
    pairs, y = some_pairs(600)
    pipeline = make_pipeline(PairTransformer(StandardScaler()), RICE)
    assert cross_val_score(pipeline, pairs, y).mean() > 0.9
    assert cross_val_score(RICE, pairs, y).mean() < 0.7
    scaled = PairTransformer(StandardScaler()).fit_transform(pairs)
    alone = clone(RICE).fit(scaled, y)
    assert pipeline.fit(pairs, y)[-1].metric_ == alone.metric_
    np.testing.assert_array_equal(pipeline.predict(pairs), alone.predict(scaled))
    np.testing.assert_array_equal(pipeline.predict_proba(pairs), alone.predict_proba(scaled))
    np.testing.assert_allclose(pipeline.transform(pairs[:, 1]), alone.transform(scaled[:, 1]))  # points


def test_a_grid_search_reaches_the_scaler():
    pairs, y = some_pairs(200)
    grid = {"pairtransformer__transformer__with_std": [False, True], "pairtransformer__transformer__with_mean": [True]}
    search = GridSearchCV(make_pipeline(PairTransformer(StandardScaler()), RICE), grid, cv=2).fit(pairs, y)
    assert search.best_params_["pairtransformer__transformer__with_std"] is True
    assert "PairTransformer(transformer=StandardScaler())" in repr(search.best_estimator_)


@pytest.mark.parametrize(("size", "tracker"), [(3, TripletTracker), (4, QuadrupletTracker)])
def test_triplets_and_quadruplets(size, tracker):
    tuples = np.random.default_rng(0).normal(size=(60, size, 3)) * [100.0, 1.0, 1.0]
    pipeline = make_pipeline(PairTransformer(StandardScaler()), tracker()).fit(tuples)
    scaled = StandardScaler().fit_transform(tuples.reshape(-1, 3)).reshape(tuples.shape)
    np.testing.assert_allclose(pipeline[-1].metric_.matrix, tracker().fit(scaled).metric_.matrix)
    assert pipeline.score(tuples) == tracker().fit(scaled).score(scaled)


def test_sparse_pairs_stay_sparse():
    pairs, _ = some_pairs(50)
    pairs[np.abs(pairs) < 0.7] = 0.0
    X, Z = csr_array(pairs[:, 0]), csr_array(pairs[:, 1])
    transformer = PairTransformer(MaxAbsScaler()).fit((X, Z))
    left, right = transformer.transform((X, Z))
    assert left.format == "csr"
    largest = np.abs(pairs).max(axis=(0, 1))
    np.testing.assert_allclose(right.toarray(), pairs[:, 1] / largest)
    np.testing.assert_allclose(transformer.transform(Z).toarray(), pairs[:, 1] / largest)  # points
    tracker = make_pipeline(transformer, MetricTracker()).fit((X, Z), np.tile([1, -1], 25))[-1]
    assert tracker.n_features_in_ == 3


@pytest.mark.parametrize("library", [pd, pl], ids=["pandas", "polars"])
def test_tables_and_set_output(library):
    pairs, y = some_pairs(60)
    X, Z = (library.DataFrame(dict(zip("abc", pairs[:, k].T, strict=True))) for k in range(2))
    pipeline = make_pipeline(PairTransformer(StandardScaler()), MetricTracker())
    expected = clone(pipeline).fit(pairs, y)
    pipeline.set_output(transform=library.__name__).fit((X, Z), y)
    assert pipeline[0].feature_names_in_.tolist() == ["a", "b", "c"]
    assert pipeline[-1].feature_names_in_.tolist() == ["a", "b", "c"]
    assert pipeline[0].get_feature_names_out().tolist() == ["a", "b", "c"]
    left, _ = pipeline[0].transform((X, Z))
    assert isinstance(left, library.DataFrame)
    np.testing.assert_allclose(pipeline[-1].metric_.matrix, expected[-1].metric_.matrix)
    assert list(pipeline.transform(X).columns) == ["metrictracker0", "metrictracker1", "metrictracker2"]
    with pytest.raises(ValueError, match="feature names"):
        pipeline.predict((X.rename(columns={"a": "d"}), Z) if library is pd else (X.rename({"a": "d"}), Z))


@pytest.mark.parametrize("kind", ["positions", "ids"])
def test_pairs_by_id_or_by_index(kind):
    items = np.random.default_rng(0).normal(size=(20, 3)) * 50
    indices = np.random.default_rng(1).integers(0, 20, size=(40, 2))
    if kind == "ids":
        table = pd.DataFrame(items, columns=list("abc"), index=[f"item {i}" for i in range(20)])
        transformer = PairTransformer(StandardScaler(), preprocessor=table)
        found = transformer.fit_transform(np.array([[f"item {i}" for i in row] for row in indices]))
        assert transformer.feature_names_in_.tolist() == ["a", "b", "c"]
    else:
        transformer = PairTransformer(StandardScaler(), preprocessor=items)
        found = transformer.fit_transform(indices)
        assert repr(transformer) == (
            "PairTransformer(preprocessor=<array of shape (20, 3)>,\n                transformer=StandardScaler())"
        )
    np.testing.assert_allclose(found, PairTransformer(StandardScaler()).fit_transform(items[indices]))


@pytest.mark.parametrize("library", [pd, pl], ids=["pandas", "polars"])
def test_a_table_of_points_is_not_read_as_ids(library):
    columns = dict(zip("abc", np.random.default_rng(0).integers(0, 20, size=(3, 20)), strict=True))
    table, indices = library.DataFrame(columns), np.random.default_rng(1).integers(0, 20, size=(40, 2))
    pipeline = make_pipeline(PairTransformer(StandardScaler(), preprocessor=table), RICE)
    pipeline.fit(indices, np.tile([1, -1], 20))
    scaled = pipeline[0].transformer_.transform(table)
    np.testing.assert_array_equal(pipeline[0].transform(table), scaled)
    np.testing.assert_array_equal(pipeline.transform(table), pipeline[-1].transform(scaled))
    pairs = library.DataFrame({"left": indices[:, 0], "right": indices[:, 1]})
    np.testing.assert_array_equal(pipeline.predict(pairs), pipeline.predict(indices))


def test_points_without_names_need_the_inner_transformer_beside_a_preprocessor():
    items = np.random.default_rng(0).normal(size=(20, 3))
    transformer = PairTransformer(StandardScaler(), preprocessor=items).fit([[0, 1], [2, 3]])
    for points in (items, pd.DataFrame(items)):
        with pytest.raises(TypeError, match="with a preprocessor, transform points by transformer_"):
            transformer.transform(points)


def test_partial_fit_needs_a_transformer_that_has_it():
    pairs, _ = some_pairs()
    parts = PairTransformer(StandardScaler()).partial_fit(pairs[:100]).partial_fit(pairs[100:])
    np.testing.assert_allclose(parts.transformer_.mean_, pairs.reshape(-1, 3).mean(axis=0))
    assert not hasattr(PairTransformer(PCA()), "partial_fit")
    fitted = PairTransformer(StandardScaler()).fit(pairs)
    assert fitted.fit(pairs[:10]).transformer_.n_samples_seen_ == 20  # fit begins again


def test_other_numbers_of_features():
    pairs, y = some_pairs()
    pipeline = make_pipeline(PairTransformer(PCA(2)), MetricTracker()).fit(pairs, y)
    assert pipeline[-1].n_features_in_ == 2
    assert pipeline[:-1].get_feature_names_out().tolist() == ["pca0", "pca1"]


def test_clones_and_pickles():
    pairs, _ = some_pairs()
    transformer = PairTransformer(StandardScaler()).fit(pairs)
    copied = pickle.loads(pickle.dumps(transformer))
    np.testing.assert_array_equal(copied.transform(pairs), transformer.transform(pairs))
    assert not hasattr(clone(transformer), "transformer_")
    assert not hasattr(transformer.transformer, "mean_")  # the parameter itself is not fitted


@pytest.mark.parametrize(
    ("tuples", "sentence"),
    [
        (np.zeros((4, 5, 3)), r"has shape \(4, 5, 3\); accepted: pairs, triplets or quadruplets"),
        (np.zeros(4), "Reshape your data"),
        (np.full((4, 2, 3), np.inf), "contains infinity"),
        (np.zeros((4, 2, 2)), "has 2 features, but StandardScaler is expecting 3"),
        ((csr_array(np.eye(3)), csr_array(np.eye(3)[:2])), "the tables have 3 and 2 rows; accepted: equally many"),
    ],
)
def test_refuses(tuples, sentence):
    with pytest.raises(ValueError, match=sentence):
        PairTransformer(StandardScaler()).fit(some_pairs()[0]).transform(tuples)
    with pytest.raises(NotFittedError):
        PairTransformer(StandardScaler()).transform(tuples)


def test_points_are_refused_with_what_to_do_where_pairs_are_ids():
    items = np.random.default_rng(0).normal(size=(8, 5))
    scaler = PairTransformer(StandardScaler(), preprocessor=items).fit([[0, 1], [2, 7]])
    with pytest.raises(
        ValueError, match=r"\(8, 5\); .* or ids, .*; with a preprocessor, transform points by transformer_"
    ):
        scaler.transform(items)
    np.testing.assert_array_equal(scaler.transform([[3, 4]])[0], scaler.transformer_.transform(items[3:5]))


def test_a_preprocessor_of_the_tracker_after_it_is_refused_with_what_to_do():
    """Without a preprocessor of its own, it takes indices for points."""
    items = np.random.default_rng(0).normal(size=(8, 4))
    pairs, y = np.array([[0, 1], [1, 2], [2, 7]]), [1, -1, 1]
    named = {f"item {i}": point for i, point in enumerate(items)}
    for keys, given in ((pairs, items), (pairs, dict(enumerate(items))), (np.array(list(named))[pairs], named)):
        pipeline = make_pipeline(PairTransformer(StandardScaler()), MetricTracker(preprocessor=given))
        with pytest.raises((TypeError, ValueError), match=r"PairTransformer\(\.\.\., preprocessor=\.\.\.\)"):
            pipeline.fit(keys, y)
        pipeline = make_pipeline(PairTransformer(StandardScaler(), preprocessor=given), MetricTracker())
        assert pipeline.fit(keys, y).predict(keys).shape == (3,)


def test_an_imputer_may_precede_the_tracker():
    pairs, y = some_pairs()
    pairs[::7, 0, 2] = np.nan
    pipeline = make_pipeline(PairTransformer(make_pipeline(SimpleImputer(), StandardScaler())), MetricTracker())
    assert pipeline.fit(pairs, y).score(pairs, y) > 0.9
    with pytest.raises(ValueError, match="pairs holds nan"):
        MetricTracker().fit(pairs, y)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.SkipTestWarning")
@pytest.mark.parametrize("transformer", [StandardScaler(), SimpleImputer(), PCA(1)], ids=["scaler", "imputer", "pca"])
def test_is_a_scikit_learn_transformer(transformer):
    """The checks of scikit-learn call it with points."""
    outcomes = check_estimator(PairTransformer(transformer), on_fail=None)
    failed = {outcome["check_name"]: outcome["exception"] for outcome in outcomes if outcome["status"] == "failed"}
    assert not failed
    assert len(outcomes) > 30
