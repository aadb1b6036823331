"""Distances, probabilities and embeddings of tables of Dask are those of the trackers, row by row."""

from __future__ import annotations

import subprocess
import sys
from threading import Thread

import dask
import dask.dataframe as dd
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from fleet_streams import keyed_stream

from ocelad import Metric
from ocelad.adaptive.shared_prior import SharedPrior
from ocelad.dask import distance, embed, probability
from ocelad.fleet import Fleet
from ocelad.fleet.packed_trackers import PackedTrackers
from ocelad.spark.answer_rows import answer_type
from ocelad.spark.key_learner import KeyAnswers, KeyLearner

# Dask's own use of pandas.
pytestmark = pytest.mark.filterwarnings("ignore:The inplace keyword")

N = 4
NAMES = [f"x{at}" for at in range(N)], [f"z{at}" for at in range(N)]
METRIC = Metric(np.diag([2.0, 1.0, 0.5, 0.0]) + 0.1, threshold=1.5)
MEASURES = {
    "distance": (distance, lambda metric, u: np.sqrt(metric.squared_length(u))),
    "probability": (probability, lambda metric, u: 1.0 / (1.0 + np.exp(metric.squared_length(u) - metric.threshold))),
}


@pytest.fixture(scope="module")
def fleet():
    """Return a fleet with keys of each kind of state: few answers, and a record; integers and texts."""
    with Fleet() as fleet:
        yield fleet.learn(*keyed_stream(600, 8, N))


@pytest.fixture(scope="module")
def table(fleet):
    """Return points of known keys, of an unknown one, and without a key, with an index that is not sorted."""
    rng = np.random.default_rng(1)
    columns = dict(zip(NAMES[0] + NAMES[1], rng.normal(size=(2 * N, 60)), strict=True))
    keys = [key for key in fleet.keys() if isinstance(key, str)][:3]  # noqa: SIM118
    keys += ["unknown", None]
    return pd.DataFrame({"user": [keys[at % 5] for at in range(60)], **columns}, index=rng.permutation(60))


def points(table):
    return table[NAMES[0]].to_numpy(), table[NAMES[1]].to_numpy()


def as_dask(table, n_partitions=4):
    return dd.from_pandas(table, npartitions=n_partitions, sort=False)


def states_of(fleet):
    return {key: fleet.state(key) for key in fleet.keys()}  # noqa: SIM118  a Fleet is no dict


@pytest.mark.parametrize("name", MEASURES)
def test_one_metric_for_all_rows(table, name):
    function, expected = MEASURES[name]
    found = function(as_dask(table), *NAMES, metric=METRIC)
    assert list(found.columns) == [*table.columns, name]
    rows = found.compute()
    np.testing.assert_allclose(rows[name].to_numpy(), expected(METRIC, np.subtract(*points(table))), rtol=1e-12)
    pd.testing.assert_frame_equal(rows[list(table.columns)], as_dask(table).compute())
    assert rows.index.tolist() == table.index.tolist()
    assert rows.dtypes.to_dict() == found.dtypes.to_dict()


def test_embeddings(table):
    found = embed(as_dask(table), NAMES[0], metric=METRIC)
    rows = found.compute()
    np.testing.assert_allclose(np.stack(rows["embedding"]), METRIC.embed(points(table)[0]), rtol=1e-12)
    assert rows.dtypes.to_dict() == found.dtypes.to_dict()
    short = embed(as_dask(table), NAMES[0], metric=METRIC, n_components=2, output="short").compute()["short"]
    np.testing.assert_allclose(np.stack(short), METRIC.embed(points(table)[0], 2), rtol=1e-12)


def test_nothing_is_computed_before_the_result_is(table):
    def fail(part):
        raise AssertionError("a partition was computed")

    df = as_dask(table)
    broken = df.map_partitions(fail, meta=df._meta)
    lazy = [distance(broken, *NAMES, metric=METRIC), embed(broken, NAMES[0], metric=METRIC)]
    for one in lazy:
        with pytest.raises(AssertionError, match="a partition was computed"):
            one.compute()


@pytest.mark.parametrize("name", MEASURES)
@pytest.mark.parametrize("kind", ["fleet", "mapping", "pandas", "dask"])
def test_the_tracker_of_each_row(fleet, table, name, kind):
    """The states of one fleet in each form that is accepted; an unknown key is measured as a new one."""
    states = states_of(fleet)
    texts = {key: state for key, state in states.items() if isinstance(key, str)}
    frame = pd.DataFrame({"user": list(texts), "state": list(texts.values())})
    settings = {"n_features": N, "prior": fleet.priors}
    if kind == "fleet":
        states, settings = fleet, {}
    elif kind == "pandas":
        states = frame
    elif kind == "dask":
        with dask.config.set({"dataframe.convert-string": False}):
            states = dd.from_pandas(frame, npartitions=2)
    function, expected = MEASURES[name]
    found = function(as_dask(table), *NAMES, states=states, key="user", **settings).compute()
    new = PackedTrackers(N, priors=fleet.priors).metric_of_new_key()
    u = np.subtract(*points(table))
    of_rows = [fleet.metric(key) if key in fleet else new for key in table["user"]]
    wanted = [expected(metric, u[at : at + 1])[0] for at, metric in enumerate(of_rows)]
    np.testing.assert_allclose(found[name].to_numpy(), wanted, rtol=1e-12)
    assert len({metric.threshold for metric in of_rows}) == 4
    embedded = embed(as_dask(table), NAMES[0], states=states, key="user", **settings).compute()["embedding"]
    for row, value, metric in zip(points(table)[0], embedded, of_rows, strict=True):
        np.testing.assert_allclose(value, metric.embed(row), rtol=1e-9, atol=1e-12)


def test_another_thread_may_learn_meanwhile(table, monkeypatch):
    """The states are of one moment: a new key must not begin with a prior that the list of priors lacks."""
    stream, keys, threads = keyed_stream(600, 8, N), Fleet.keys, []
    rest = stream.part(50)
    rest.keys[400:] = ["new"] * 150

    def keys_after_learning(fleet):
        if not threads:
            threads.append(Thread(target=fleet.learn, args=(rest.keys, rest.pairs, rest.y)))
            threads[0].start()
            threads[0].join(0.5)
        return keys(fleet)

    with Fleet() as fleet:
        fleet.learn(*stream.part(0, 50))
        monkeypatch.setattr(Fleet, "keys", keys_after_learning)
        distance(as_dask(table), *NAMES, states=fleet, key="user").compute()
        threads[0].join()
        assert fleet.n_answers == 600


def test_integer_keys_and_several_key_columns(fleet, table):
    whole = next(key for key in fleet.keys() if isinstance(key, int))  # noqa: SIM118
    # A column of integers with a null has floats in pandas.
    numbered = table.assign(user=[whole, None, -1] * 20)
    u = np.subtract(*points(table))
    found = distance(as_dask(numbered), *NAMES, states=fleet, key="user").compute()["distance"].to_numpy()
    wanted = [np.sqrt(fleet.metric(whole if at % 3 == 0 else -1).squared_length(u[at : at + 1])[0]) for at in range(60)]
    np.testing.assert_allclose(found, wanted, rtol=1e-12)
    state = fleet.state(whole)
    double = table.assign(site=["a", "b", None] * 20, user=["u", "u", "u", "v"] * 15)
    settings = {"key": ["site", "user"], "prior": fleet.priors}
    found = distance(as_dask(double), *NAMES, states={("b", "v"): state}, **settings).compute()["distance"].to_numpy()
    is_known = ((double["site"] == "b") & (double["user"] == "v")).to_numpy()
    wanted = [np.sqrt(fleet.metric(whole if known else -1).squared_length(u)[at]) for at, known in enumerate(is_known)]
    np.testing.assert_allclose(found, wanted, rtol=1e-12)
    assert is_known.any()


def test_the_compact_form_and_a_prior_are_those_of_the_fleet(table):
    prior = SharedPrior(METRIC, log_weight=1.0)
    with Fleet(form="compact", shared=prior) as fleet:
        fleet.learn(*keyed_stream(600, 3, N))
        found = distance(as_dask(table), *NAMES, states=fleet, key="user").compute()["distance"].to_numpy()
        settings = {"states": states_of(fleet), "key": "user", "form": "compact", "prior": prior}
        again = distance(as_dask(table), *NAMES, **settings).compute()["distance"].to_numpy()
        wanted = fleet.distance(table["user"].fillna("none"), np.stack(points(table), axis=1))
    assert found.tolist() == again.tolist()
    np.testing.assert_allclose(found, wanted, rtol=1e-12)


POINTS = {
    "full": ([1.0, 2.0, 3.0, 4.0], 1),
    "null": (None, None),
    "short": ([1.0, 2.0], None),
    "holds null": ([None, 2.0, 3.0, 4.0], None),
    "NaN": ([float("nan"), 2.0, 3.0, 4.0], "NaN"),
    "infinite": ([float("inf"), 2.0, 3.0, 4.0], "NaN"),
}


def arrays_of(source, tmp_path):
    """Return the points in a column of arrays, as Dask has it from several sources."""
    column = [point for point, _ in POINTS.values()]
    table = pa.table({"user": ["a"] * len(POINTS), "x": pa.array(column, pa.list_(pa.float64()))})
    if source == "parquet":
        pq.write_table(table, tmp_path / "points.parquet")
        return dd.read_parquet(tmp_path / "points.parquet")
    if source == "lists":
        with dask.config.set({"dataframe.convert-string": False}):
            return dd.from_pandas(pd.DataFrame({"user": "a", "x": column}), npartitions=2)
    return dd.from_pandas(table.to_pandas(types_mapper=pd.ArrowDtype), npartitions=2)


@pytest.mark.parametrize("source", ["parquet", "lists", "arrow"])
def test_nulls_and_nan_in_arrays(source, tmp_path):
    df = arrays_of(source, tmp_path)
    # NumPy's arrays in pandas have no nulls: reading Parquet into them turns a null within an array into NaN.
    expected = ["NaN" if name == "holds null" and source == "parquet" else kind for name, (_, kind) in POINTS.items()]
    for settings in ({"metric": METRIC}, {"states": {}, "key": "user", "n_features": N}):
        for function, sides in ((distance, ("x", "x")), (probability, ("x", "x")), (embed, ("x",))):
            rows = function(df, *sides, output="found", **settings).compute()["found"]
            found = pa.array(rows.array._pa_array.combine_chunks()).to_pylist()
            for value, kind in zip(found, expected, strict=True):
                if kind is None or kind == "NaN":
                    assert (value is None) == (kind is None)
                    assert value is None or np.isnan(value).all()
                else:
                    assert np.isfinite(value).all()
            if function is embed:
                assert len(found[0]) == len(found[4])


def test_nulls_in_numeric_columns():
    table = pd.DataFrame({"a": [1.0, np.nan, 1.0], "b": pd.array([1, 2, None], "Int64"), "c": [1, 2, 3]})
    found = distance(as_dask(table, 1), ["a", "b"], ["c", "c"], metric=Metric(np.eye(2))).compute()["distance"]
    values = pa.array(found.array._pa_array.combine_chunks()).to_pylist()
    assert (values[0], np.isnan(values[1]), values[2]) == (0.0, True, None)


def test_columns_without_texts_as_names_and_other_numbers(table):
    table = pd.DataFrame(table[NAMES[0] + NAMES[1]].to_numpy(np.float32))
    table[8] = pd.array([1] * len(table), pd.ArrowDtype(pa.decimal128(5, 2)))
    found = distance(as_dask(table), [0, 1], [2, 8], metric=Metric(np.eye(2))).compute()["distance"]
    u = table[[0, 1]].to_numpy(float) - np.column_stack([table[2], np.ones(60)])
    np.testing.assert_allclose(found.to_numpy(), np.linalg.norm(u, axis=1), rtol=1e-12)


def test_empty_partitions(table, fleet):
    df = as_dask(table)
    empty = df[df["x0"] > 1e9]
    assert len(distance(empty, *NAMES, metric=METRIC).compute()) == 0
    assert len(embed(empty, NAMES[0], states=fleet, key="user").compute()) == 0


def test_in_processes(table, fleet):
    """Everything that a partition needs travels to other processes."""
    df = as_dask(table, 2)
    found = embed(distance(df, *NAMES, states=fleet, key="user"), NAMES[0], metric=METRIC)
    with dask.config.set(scheduler="synchronous"):
        here = found.compute()
    with dask.config.set(scheduler="processes", num_workers=1):
        there = found.compute()
    pd.testing.assert_frame_equal(here, there)
    frame = pd.DataFrame(list(states_of(fleet).items()), columns=["user", "state"])
    with dask.config.set({"dataframe.convert-string": False}):
        states = dd.from_pandas(frame, npartitions=2)
    lazy = distance(df, *NAMES, states=states, key="user", prior=fleet.priors)
    with dask.config.set(scheduler="processes", num_workers=1):
        there = lazy.compute()
    np.testing.assert_allclose(there["distance"].to_numpy(), here["distance"].to_numpy(), rtol=1e-12)


def test_states_of_the_state_store_of_spark(table, fleet):
    """Also as large binary values, and only with the priors that they were learned with."""
    learner = KeyLearner(N, priors=fleet.priors)
    texts = [key for key in fleet.keys() if isinstance(key, str)]  # noqa: SIM118
    states = [learner.adopt(fleet.state(key)) for key in texts]
    column = pd.array(states, pd.ArrowDtype(pa.large_binary()))
    settings = {"states": pd.DataFrame({"user": texts, "state": column}), "key": "user", "n_features": N}
    found = distance(as_dask(table), *NAMES, **settings, prior=fleet.priors).compute()
    wanted = distance(as_dask(table), *NAMES, states=fleet, key="user").compute()
    assert found["distance"].tolist() == wanted["distance"].tolist()
    other = KeyLearner(N, priors=[SharedPrior(METRIC, log_weight=2.0)])
    stored = other.learn([None], [KeyAnswers(np.zeros(1, answer_type(N)))])[0].stored
    with pytest.raises(ValueError, match="the state began with another prior than prior 1 of those given; accepted"):
        distance(as_dask(table), *NAMES, states={"a": stored}, key="user", prior=SharedPrior(METRIC, log_weight=1.0))


# Wrong arguments.

WRONG = {
    "a pandas DataFrame": (lambda df: df.compute(), {}, TypeError, "df is a DataFrame; accepted: a DataFrame of dask"),
    "nothing to measure by": (None, {"metric": None}, ValueError, "give either metric, one for all rows, or states"),
    "both": (None, {"states": {}, "key": "user"}, ValueError, "give either metric, one for all rows, or states and"),
    "no Metric": (None, {"metric": np.eye(N)}, TypeError, "metric is a ndarray; accepted: a Metric"),
    "states without key": (None, {"metric": None, "states": {}}, ValueError, "states and key belong together"),
    "no column": (None, {"left": ["x0", "y"]}, ValueError, "left is 'y', which is no column; the columns are 'user'"),
    "no key column": (
        None,
        {"metric": None, "states": {}, "key": "tenant"},
        ValueError,
        "key is 'tenant', which is no column of df; the columns are 'user'",
    ),
    "texts": (None, {"right": ["user"] * N}, TypeError, "right has the column 'user' of type str.*; accepted: numbers"),
    "text as an array": (None, {"left": "user"}, TypeError, "left is the column 'user' of type str.*arrays of numbers"),
    "another number of columns": (None, {"left": ["x0"]}, ValueError, r"features differ .*left: 1, right: 4, n_fea"),
    "another metric": (None, {"metric": Metric(np.eye(3))}, ValueError, "left: 4, right: 4, n_features: 3"),
    "output exists": (None, {"output": "user"}, ValueError, "df has a column 'user' already; choose another name"),
    "no bytes": (
        None,
        {"metric": None, "states": {"a": "state"}, "key": "user"},
        TypeError,
        "the state of the key 'a' is a str; accepted: bytes",
    ),
    "no states": (
        None,
        {"metric": None, "states": [b""], "key": "user"},
        TypeError,
        "states is a list; accepted: a Fleet, a mapping",
    ),
    "a table without states": (
        None,
        {"metric": None, "states": pd.DataFrame({"user": ["a"]}), "key": "user"},
        ValueError,
        "states has no column 'state'",
    ),
    "a prior of another size": (
        None,
        {"metric": None, "states": {}, "key": "user", "prior": SharedPrior(Metric(np.eye(3)), 0.0)},
        ValueError,
        "the prior has 3 features; 4 are expected",
    ),
}


@pytest.mark.parametrize("name", WRONG)
def test_wrong_arguments(table, name):
    change, settings, error, message = WRONG[name]
    df = as_dask(table)
    given = {"left": NAMES[0], "right": NAMES[1], "metric": METRIC, **settings}
    with pytest.raises(error, match=message):
        distance(df if change is None else change(df), **given)


def test_wrong_states(table, fleet):
    df, settings = as_dask(table), {"key": "user", "n_features": N, "prior": fleet.priors}
    state = fleet.state("key 1")
    twice = pd.DataFrame({"user": ["a", "a"], "state": [state] * 2})
    with pytest.raises(ValueError, match="states has two states for the key 'a'; accepted: one"):
        distance(df, *NAMES, states=twice, **settings)
    with dask.config.set({"dataframe.convert-string": False}):
        parts = dd.from_pandas(twice, npartitions=2)
    lazy = distance(df, *NAMES, states=parts, **settings)
    with pytest.raises(ValueError, match="states has two states for the key 'a'; accepted: one"):
        lazy.compute()
    texts = dd.from_pandas(twice.assign(state="text"), npartitions=1)
    with pytest.raises(TypeError, match=r"states has the column 'state' of type str.*; accepted: bytes"):
        distance(df, *NAMES, states=texts, **settings)
    with pytest.raises(TypeError, match="'user' has texts, and all keys of states are numbers; accepted: the same"):
        distance(df, *NAMES, states={1: state}, **settings)
    with pytest.raises(TypeError, match="'user' has numbers, and all keys of states are texts; accepted: the same"):
        distance(as_dask(table.assign(user=1)), *NAMES, states={"1": state}, **settings)
    numbered = as_dask(table.assign(user=1, site="a"))
    for states in ({("a", "1"): state}, pd.DataFrame({"site": ["a"], "user": ["1"], "state": [state]})):
        with pytest.raises(TypeError, match="'user' has numbers, and all keys of states are texts; accepted: the same"):
            distance(numbered, *NAMES, states=states, **settings | {"key": ["site", "user"]})
    frame = pd.DataFrame({"user": ["1"], "state": [state]})
    with dask.config.set({"dataframe.convert-string": False}):
        unknown = dd.from_pandas(frame.astype({"user": object}), npartitions=1)
        known = dd.from_pandas(frame.astype({"user": "string"}), npartitions=1)
    with pytest.raises(TypeError, match="'user' has numbers, and all keys of states are texts; accepted: the same"):
        distance(numbered, *NAMES, states=known, **settings)
    lazy = distance(numbered, *NAMES, states=unknown, **settings)
    with pytest.raises(TypeError, match="'user' has numbers, and all keys of states are texts; accepted: the same"):
        lazy.compute()
    with pytest.raises(ValueError, match="states is a fleet, which brings its prior and form"):
        distance(df, *NAMES, states=fleet, key="user", form="compact")
    with pytest.raises(ValueError, match="a fleet has one key, and key names 2 columns"):
        distance(df, *NAMES, states=fleet, key=["user", "x0"])
    with pytest.raises(ValueError, match="the trackers have 4 features; got n_features=3"):
        distance(df, *NAMES, states=fleet, key="user", n_features=3)


def test_a_column_without_arrays():
    with dask.config.set({"dataframe.convert-string": False}):
        df = dd.from_pandas(pd.DataFrame({"x": [[1.0], "text"], "n": [1.0, "text"]}, dtype=object), npartitions=1)
    for side, accepted in (("x", "arrays of numbers"), (["n"], "numbers")):
        with pytest.raises(TypeError, match=f"the column '[xn]' does not hold {accepted}: "):
            embed(df, side, metric=Metric([[1.0]])).compute()
    turned = dd.from_pandas(pd.DataFrame({"x": [[1.0], [2.0]]}), npartitions=1)
    with pytest.raises(TypeError, match=r"of type str.*; accepted: arrays of numbers.*turns lists of a pandas Data"):
        embed(turned, "x", metric=Metric([[1.0]]))


def test_without_dask():
    code = "import sys; sys.modules['dask'] = None; import ocelad.dask"
    answer = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    last = answer.stderr.strip().splitlines()[-1]
    assert last.startswith("ImportError: ocelad.dask needs Dask's dataframes: pip install 'ocelad[dask]' (")
