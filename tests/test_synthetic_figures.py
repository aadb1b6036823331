"""Figures 1, 2 and "regret": their data against independent programs, their pictures, and their claims."""

from __future__ import annotations

from itertools import combinations, pairwise, product

import numpy as np
import pytest
import reference
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from matplotlib.text import Text

from ocelad import Metric, Ocelad, track_metric
from ocelad.evaluation.picture_style import pyplot
from ocelad.evaluation.streams import DriftingClusters, Phase
from ocelad.lab.baselines.saol import saol
from ocelad.lab.demo import scale_phases
from ocelad.lab.experiments.intervals import BLOCK, StartRecorder
from ocelad.lab.experiments.margins import POINTS_PER_CLASS, draw_points, is_violated, map_points
from ocelad.lab.experiments.regret import fit_scale, table_lengths
from ocelad.lab.figures import FIGURES, FigureData
from ocelad.lab.figures.intervals import Interval, all_intervals, lineage
from ocelad.lab.runner import Runner

SMALL = {
    "1": {"trials": 5, "first_seed": 1, "pairs": 200},
    "2": {"trials": 2, "first_seed": 5, "shown_rounds": 31, "rounds": 250},
    "regret": {"trials": 2, "first_seed": 3, "rounds": 60},
}


@pytest.fixture(scope="module")
def small():
    runner = Runner(backend="threads", n_jobs=1)
    return {name: FIGURES[name].compute(runner, **settings) for name, settings in SMALL.items()}


@pytest.fixture(params=SMALL)
def name(request):
    return request.param


def with_columns(data, table, **changes):
    """Return the data with other columns in one table."""
    return FigureData(data.metadata, {**data.tables, table: {**data.tables[table], **changes}})


def drawn_numbers(figure):
    """Return the numbers that the lines, points and images of a picture are made of."""
    found = []
    for ax in figure.axes:
        found += [np.asarray(line.get_xydata()) for line in ax.get_lines()]
        found += [np.asarray(collection.get_offsets()) for collection in ax.collections]
        found += [np.asarray(image.get_array()) for image in ax.images]
    return found


def visible_texts(figure):
    return [text for text in figure.findobj(Text) if text.get_visible() and text.get_text()]


def test_data_do_not_depend_on_the_run_or_the_number_of_jobs(small, name):
    again = FIGURES[name].compute(Runner(backend="threads", n_jobs=2), **SMALL[name])
    assert again.tables.keys() == small[name].tables.keys()
    for table, columns in again.tables.items():
        for column, values in columns.items():
            np.testing.assert_array_equal(values, small[name].tables[table][column])


def test_saved_data_give_the_same_picture(small, name, tmp_path):
    small[name].save(tmp_path)
    loaded = FigureData.load(tmp_path)
    fresh, again = FIGURES[name].draw(small[name]), FIGURES[name].draw(loaded)
    for one, other in zip(drawn_numbers(fresh), drawn_numbers(again), strict=True):
        np.testing.assert_array_equal(one, other)
    assert [text.get_text() for text in visible_texts(fresh)] == [text.get_text() for text in visible_texts(again)]
    assert FIGURES[name].claims(loaded) == FIGURES[name].claims(small[name])
    assert FIGURES[name].summarize(loaded) == FIGURES[name].summarize(small[name])
    pyplot().close("all")


def test_pictures_are_legible(small, name):
    figure = FIGURES[name].draw(small[name])
    figure.canvas.draw()
    assert min(text.get_fontsize() for text in visible_texts(figure)) >= 8
    for ax in figure.axes:
        assert ax.get_ylabel() or ax.get_shared_y_axes().get_siblings(ax)
    for text in (*figure.legends, *(ax.xaxis.label for ax in figure.axes)):
        box = text.get_window_extent()
        assert box.x0 >= 0
        assert box.x1 <= figure.bbox.width
    pyplot().close("all")


@pytest.mark.parametrize(
    ("name", "changed", "sentence"),
    [
        ("1", {"trials": 0}, "trials must be a whole number of at least 1"),
        ("1", {"pairs": 0}, "pairs must be a whole number of at least 1"),
        ("1", {"first_seed": -1}, "first_seed must be a whole number of at least 0"),
        ("1", {"pairs": "many"}, "pairs of figure 1 must be int, such as 300; got 'many'"),
        ("2", {"rounds": 199}, "rounds must be a whole number of at least 200"),
        ("2", {"shown_rounds": 1}, "shown_rounds must be a whole number of at least 2"),
        ("2", {"shown_rounds": 129}, "shown_rounds must be a whole number of at most 128"),
        ("regret", {"rounds": 59}, "rounds must be a whole number of at least 60"),
        ("regret", {"trials": 0}, "trials must be a whole number of at least 1"),
    ],
)
def test_wrong_settings_are_rejected(name, changed, sentence):
    with pytest.raises((ValueError, TypeError), match=sentence):
        FIGURES[name].compute(Runner(), **changed)


# Figure 1


@given(
    arrays(np.float64, (2, 2), elements=st.floats(-3, 3)),
    arrays(np.float64, (5, 2), elements=st.floats(-10, 10)),
)
def test_mapped_points_have_the_distances_of_the_metric(root, points):
    metric = Metric(root.T @ root)
    mapped = map_points(metric, points)
    assert mapped[0].tolist() == [0, 0]
    for first, second in combinations(range(5), 2):
        expected = np.linalg.norm(root @ (points[first] - points[second]))
        assert np.linalg.norm(mapped[first] - mapped[second]) == pytest.approx(expected, rel=1e-6, abs=1e-5)


def test_the_map_is_the_symmetric_positive_root():
    M = np.array([[3.0, 1.0], [1.0, 2.0]])
    root = map_points(Metric(M), np.array([[0.0, 0.0], [1.0, 0.0], [0.0, 1.0]]))[1:]
    np.testing.assert_allclose(root @ root, M, rtol=1e-9)
    np.testing.assert_allclose(root, root.T, rtol=1e-9)
    assert np.linalg.eigvalsh(root)[0] > 0


def test_the_first_point_is_the_one_nearest_to_the_centre_of_its_class():
    points, classes = draw_points(seed=4)
    assert classes[0] == 0
    lengths = np.linalg.norm(points[classes == 0], axis=1)  # the centre of its class is the origin
    assert lengths[0] == lengths.min()
    assert np.bincount(classes).tolist() == [POINTS_PER_CLASS] * 3


def test_violated_constraints_are_those_of_equation_2(small):
    metrics, points = small["1"].tables["metrics"], small["1"].tables["points"]
    X = np.stack([points["x1"], points["x2"]], axis=1)
    for at, when in enumerate(("before", "after")):
        M = np.array([[metrics["M11"][at], metrics["M12"][at]], [metrics["M12"][at], metrics["M22"][at]]])
        mu, broken = metrics["threshold"][at], {True: [], False: []}
        for i, j in combinations(range(len(X)), 2):
            similar, d2 = points["class"][i] == points["class"][j], (X[i] - X[j]) @ M @ (X[i] - X[j])
            broken[bool(similar)].append(d2 > mu - 1 if similar else d2 < mu + 1)
            if i == 0:
                assert points[f"{when}_violated"][j] == broken[bool(similar)][-1]
        row = small["1"].where("violated", trial=1, when=when)
        assert row["similar"][0] == pytest.approx(np.mean(broken[True]))
        assert row["dissimilar"][0] == pytest.approx(np.mean(broken[False]))
        assert row["all"][0] == pytest.approx(np.mean(broken[True] + broken[False]))
        assert not points[f"{when}_violated"][0]


def test_a_pair_on_the_margin_is_not_violated():
    assert not is_violated(np.array([1.0, 3.0]), np.array([True, False]), threshold=2.0).any()


def test_the_learned_metric_is_that_of_an_independent_program(small):
    metrics, points = small["1"].tables["metrics"], small["1"].tables["points"]
    X, rng = np.stack([points["x1"], points["x2"]], axis=1), np.random.default_rng([1, 200])
    M, mu = metrics["M11"][0] * np.eye(2), metrics["threshold"][0]
    assert (metrics["M12"][0], metrics["M22"][0]) == (0, metrics["M11"][0])
    for _ in range(200):
        i, j = rng.choice(len(X), size=2, replace=False)
        y = 1.0 if points["class"][i] == points["class"][j] else -1.0
        plain = {"loss": "hinge", "rho": 0.0, "regularizer": None, "divergence": "frobenius", "max_norm": None}
        M, mu = reference.comid_step(M, mu, X[i] - X[j], y, 0.02, **plain)
    learned = [metrics[entry][1] for entry in ("M11", "M12", "M22", "threshold")]
    np.testing.assert_allclose(learned, [M[0, 0], M[0, 1], M[1, 1], mu], rtol=1e-9)


def test_figure_1_draws_the_points_and_the_circles(small):
    left, right = FIGURES["1"].draw(small["1"]).axes
    points, metrics = small["1"].tables["points"], small["1"].tables["metrics"]
    for at, (ax, when) in enumerate(((left, "before"), (right, "after"))):
        radii = {round(patch.radius, 9) for patch in ax.patches}
        mu = metrics["threshold"][at]
        assert radii == {round(np.sqrt(mu - 1), 9), round(np.sqrt(mu + 1), 9)}
        offsets = np.concatenate([collection.get_offsets() for collection in ax.collections])
        expected = np.stack([points[f"{when}_x1"], points[f"{when}_x2"]], axis=1)
        assert sorted(offsets.tolist()) == sorted(expected.tolist())
        assert f"{points[f'{when}_violated'].sum()} of the 47" in ax.get_title(loc="left")
    pyplot().close("all")


def test_claims_of_figure_1_can_be_false(small):
    data = small["1"]
    assert [claim.agrees for claim in FIGURES["1"].claims(data)] == [True, True]
    when = data.tables["violated"]["when"]
    backwards = with_columns(data, "violated", when=np.where(when == "before", "after", "before"))
    assert [claim.agrees for claim in FIGURES["1"].claims(backwards)] == [False, False]
    single = FIGURES["1"].compute(Runner(backend="threads"), **{**SMALL["1"], "trials": 1})
    assert [claim.agrees for claim in FIGURES["1"].claims(single)] == [False, False]  # one trial is not significant


# Figure 2


def test_weights_are_those_of_an_independent_program(small):
    weights = small["2"].tables["weights"]
    stream = DriftingClusters([Phase("", "A", 0.0, 31)], seed=5)
    events = [(event.u, event.y) for event in stream.events()]
    states = reference.run(events, 25)[:31]
    expected = np.concatenate([np.array(state.weights) / sum(state.weights) for state in states])
    np.testing.assert_allclose(weights["share"], expected, rtol=1e-6)
    assert weights["round"].tolist() == [t for t, state in enumerate(states, 1) for _ in state.weights]


def test_intervals_and_starts_are_those_of_the_definition(small):
    expected = {Interval(i.level, i.first, min(i.last, 31)) for i in reference.all_intervals(31, 1, None)}
    found = all_intervals(small["2"])
    assert set(found) == expected
    assert len(found) == len(expected)
    starts = small["2"].tables["starts"]
    for t, scale, source in zip(starts["round"], starts["scale"], starts["source"], strict=True):
        assert t % 2**scale == 0
        assert source == (scale - 1 if scale else (0 if t > 1 else -1))
    np.testing.assert_allclose(small["2"].tables["scales"]["step_size"], 3e-3 / np.sqrt([1, 2, 4, 8, 16]))


@pytest.mark.parametrize(("starts", "finest"), [("scratch", "carry"), ("ensemble", "carry"), ("below", "reset")])
def test_a_start_from_another_source_is_not_recorded_as_one_from_below(starts, finest):
    recorded = []
    tracker = Ocelad(
        StartRecorder(recorded, start=Metric(np.eye(25) / 25), step_size=3e-3, starts=starts, finest=finest)
    )
    for step in DriftingClusters([Phase("", "A", 0.0, 20)], seed=0):
        tracker.step(step.event())
    below = {source == scale - 1 for _, scale, source in recorded if scale > 0}
    carried = {source == 0 for t, scale, source in recorded if scale == 0 and t > 1}
    assert below == {starts == "below"}
    assert carried == {finest == "carry"}


def test_lineages(small):
    line = lineage(small["2"], Interval(4, 16, 31))
    assert [(one.scale, one.first, one.last) for one in line] == [
        (4, 16, 31),
        (3, 8, 15),
        (2, 4, 7),
        (1, 2, 3),
        (0, 1, 1),
    ]
    line = lineage(small["2"], Interval(3, 24, 31))
    assert [one.first for one in line] == [24, 20, 18, 17]


def test_shares_and_losses_of_long_runs_are_means_over_rounds_and_trials(small):
    rounds, scales = 250, 8
    shares, losses = np.zeros((2, 2, rounds, scales))
    for trial, seed in enumerate((5, 6)):
        events = DriftingClusters(scale_phases(rounds), seed=seed).events()
        states = reference.run([(event.u, event.y) for event in events], 25)[:rounds]
        for t, state in enumerate(states):
            shares[trial, t, : len(state.weights)] = np.array(state.weights) / sum(state.weights)
            losses[trial, t, : len(state.weights)] = state.losses
    long = small["2"].tables["long"]
    assert np.unique(long["last_round"]).tolist() == [100, 200, 250]
    for row in range(len(long["share"])):
        last, scale = long["last_round"][row], int(np.log2(long["length"][row]))
        first = (last - 1) // BLOCK * BLOCK
        assert long["share"][row] == pytest.approx(shares[:, first:last, scale].mean(), rel=1e-6)
        if first + 1 >= 2**scale:
            assert long["loss"][row] == pytest.approx(losses[:, first:last, scale].mean(), rel=1e-6)
        else:
            assert np.isnan(long["loss"][row])


def test_the_summary_uses_the_rounds_in_which_all_scales_are_active(small):
    columns, rows = FIGURES["2"].summarize(small["2"])
    # The last block of 250 rounds starts with round 201. Length 128 was not active in round 101.
    assert "from round 201 on" in columns[0]
    last = small["2"].where("long", last_round=250)
    numbers = zip(last["length"], last["share"], last["loss"], strict=True)
    assert rows == [[str(length), f"{share:.1%}", f"{loss:.3f}"] for length, share, loss in numbers]


def test_claims_of_figure_2_can_be_true_and_false(small):
    data = small["2"]
    active, sources, selects = FIGURES["2"].claims(data)
    assert (active.agrees, sources.agrees) == (False, True)
    assert "floor(log2 t) + 1" in active.ours
    starts = data.tables["starts"]
    wrong = np.where(starts["scale"] == 2, 0, starts["source"])
    assert FIGURES["2"].claims(with_columns(data, "starts", source=wrong))[1].agrees is False
    weights = data.tables["weights"]
    fewer = {column: values[weights["scale"] > 0] for column, values in weights.items()}
    assert FIGURES["2"].claims(with_columns(data, "weights", **fewer))[0].agrees is True
    long = data.tables["long"]
    best = np.where(long["length"] == 4, 0.0, long["loss"])
    heavy = np.where(long["length"] == 4, 1.0, 0.0)
    assert FIGURES["2"].claims(with_columns(data, "long", loss=best, share=heavy))[2].agrees is True
    assert FIGURES["2"].claims(with_columns(data, "long", loss=best, share=1 - heavy))[2].agrees is False
    assert selects.paper


# Regret


@given(
    arrays(np.float64, 12, elements=st.floats(0, 10)),
    arrays(np.bool_, 12),
    st.floats(0, 5),
    st.floats(1, 20),
)
def test_no_other_scale_and_threshold_have_a_smaller_loss(squared, similar, other_scale, other_threshold):
    y = np.where(similar, 1.0, -1.0)

    def total_loss(c, mu):
        return sum(max(0.0, 1.0 - label * (mu - c * d2)) for d2, label in zip(squared, y, strict=True))

    c, mu = fit_scale(squared, y)
    assert c >= 0
    assert mu >= 1
    assert total_loss(c, mu) <= total_loss(other_scale, other_threshold) + 1e-6


@pytest.mark.parametrize("scale", [1e-6, 1e6])
def test_the_best_scale_is_inverse_to_the_distances(scale):
    rng = np.random.default_rng(0)
    squared, y = rng.uniform(0, 4, size=40), np.where(rng.random(40) < 0.5, 1.0, -1.0)
    squared += np.where(y > 0, 0.0, 1.0)
    c, mu = fit_scale(squared, y)
    assert c > 0.1
    np.testing.assert_allclose(fit_scale(scale * squared, y), [c / scale, mu], rtol=1e-6)


def test_table_lengths_range_from_one_round_to_all():
    for rounds in (1, 2, 60, 6000):
        lengths = table_lengths(rounds)
        assert (lengths[0], lengths[-1]) == (1, rounds)
        assert lengths == sorted(set(lengths))


def make_trackers(seed):
    return {
        "rice-hinge": track_metric(25, loss="hinge", step_size=3e-3, engine="dense"),
        "comid": track_metric(25, loss="hinge", step_size=2e-3, n_scales=1, engine="dense"),
        "saol": saol(25, loss="hinge", step_size=3e-2, seed=seed, engine="dense"),
    }


def played_losses(steps, seed):
    """Return the loss of each round: the metric is evaluated on the pair before it learns from it."""
    found = {name: [] for name in make_trackers(seed)}
    for name, tracker in make_trackers(seed).items():
        for step in steps:
            (u, y), metric = step.event(), tracker.play()
            found[name].append(max(0.0, 1.0 - y * (metric.threshold - u @ metric.matrix @ u)))
            tracker.step(step.event())
    return found


def brute_force(played, compared, movements):
    """Return, for each length, the largest regret, the path lengths of the comparator, and the largest ratio.

    There is one path length for each interval that has the largest regret up to rounding.
    """
    T, worst = len(played), {}
    for length in range(1, T + 1):
        intervals = [(q, q + length - 1) for q in range(1, T - length + 2)]
        regrets = [max(sum(played[q - 1 : s]) - sum(column[q - 1 : s]) for column in compared) for q, s in intervals]
        shares = [r / (40 * np.log(s + 1) * np.sqrt(length)) for r, (_, s) in zip(regrets, intervals, strict=True)]
        largest = max(regrets)
        moved = [
            sum(movements[q - 1 : s - 1]) for r, (q, s) in zip(regrets, intervals, strict=True) if r > largest - 1e-9
        ]
        worst[length] = (largest, moved, max(shares))
    return worst


def test_worst_regrets_are_those_of_brute_force(small):
    data, found = small["regret"], {}
    for trial, seed in enumerate((3, 4)):
        steps = list(DriftingClusters(scale_phases(60), seed=seed))
        truth = data.where("truth", trial=seed)
        c, mu = truth["scale"][0], truth["threshold"][0]
        matrices = [c * step.true_metric().matrix for step in steps]
        movements = [np.linalg.norm(after - before) for before, after in pairwise(matrices)]
        assert truth["path_length"][0] == pytest.approx(sum(movements))

        def losses(metrics, steps=steps, mu=mu):
            events = [step.event() for step in steps]
            return [max(0.0, 1 - y * (mu - u @ M @ u)) for (u, y), M in zip(events, metrics, strict=True)]

        against = {
            "moving": ([losses(matrices)], movements),
            # The middles of the phases, which have 10, 10, 10, 10 and 20 rounds.
            "still": ([losses([matrices[t - 1]] * 60) for t in (5, 15, 25, 35, 50)], [0.0] * 59),
        }
        for method, played in played_losses(steps, seed).items():
            for comparator, others in against.items():
                found[method, comparator, trial] = brute_force(played, *others)
                row = data.where("trials", trial=seed, method=method, comparator=comparator)
                worst = found[method, comparator, trial]
                assert row["loss"][0] == pytest.approx(np.mean(played), rel=1e-6)
                assert row["total"][0] == pytest.approx(worst[60][0], rel=1e-6)
                assert row["share"][0] == pytest.approx(max(share for _, _, share in worst.values()), rel=1e-6)
                assert worst[row["length"][0]][2] == pytest.approx(row["share"][0], rel=1e-6)
    table = data.tables["worst"]
    for at, length in enumerate(table["length"]):
        both = [found[table["method"][at], table["comparator"][at], trial][length] for trial in (0, 1)]
        regrets, moved, shares = zip(*both, strict=True)
        np.testing.assert_allclose(
            [table[column][at] for column in ("regret", "regret_min", "regret_max", "share", "share_max")],
            [np.mean(regrets), min(regrets), max(regrets), np.mean(shares), max(shares)],
            rtol=1e-6,
            atol=1e-9,
        )
        assert any(table["path_length"][at] == pytest.approx(np.mean(paths), abs=1e-9) for paths in product(*moved))


def test_the_figure_of_the_regret_draws_methods_and_the_bound(small):
    figure = FIGURES["regret"].draw(small["regret"])
    left, right = figure.axes[:2]
    labels = {line.get_label(): line for line in left.get_lines()}
    worst = small["regret"].where("worst", method="saol", comparator="moving")
    positive = worst["regret_min"] > 0
    np.testing.assert_array_equal(labels["SAOL"].get_ydata(), worst["regret"][positive])
    lengths = np.unique(worst["length"])
    dashed = next(line for line in left.get_lines() if line.get_linestyle() == "--")
    np.testing.assert_allclose(dashed.get_ydata(), 40 * np.log(lengths + 1) * np.sqrt(lengths))
    assert "2 trials" in figure.legends[0].get_title().get_text()
    assert left.get_xscale() == left.get_yscale() == right.get_yscale() == "log"
    pyplot().close("all")


def test_the_summary_of_the_regret_has_the_lengths_nearest_to_powers_of_ten(small):
    data = small["regret"]
    columns, rows = FIGURES["regret"].summarize(data)
    lengths = np.unique(data.tables["worst"]["length"])
    wanted = [1, *(int(lengths[np.abs(lengths - power).argmin()]) for power in (10, 100) if power < lengths[-1])]
    assert columns[2:] == [f"|I| = {length}" for length in [*wanted, lengths[-1]]]
    worst = data.where("worst", method="rice-hinge", comparator="moving", length=1)
    assert rows[0][2] == f"{worst['regret'][0]:.0f} ({worst['share_max'][0]:.1%})"
    assert len(rows) == 6
    longest = np.where(data.tables["worst"]["length"] == lengths[-1], 100, data.tables["worst"]["length"])
    columns, _ = FIGURES["regret"].summarize(with_columns(data, "worst", length=longest))
    assert columns[-1] == "|I| = 100"  # once, though it is the last length and a power of ten
    assert len(set(columns)) == len(columns)


def test_claims_of_the_regret_can_be_false(small):
    data = small["regret"]
    moving, still, *_ = FIGURES["regret"].claims(data)
    assert moving.agrees
    assert still.agrees
    trials = data.tables["trials"]
    one_too_large = trials["share"].copy()
    one_too_large[np.flatnonzero((trials["method"] == "rice-hinge") & (trials["comparator"] == "moving"))[0]] = 1.01
    moving, still, *_ = FIGURES["regret"].claims(with_columns(data, "trials", share=one_too_large))
    assert (moving.agrees, still.agrees) == (False, True)
    for total, agrees in ((10.0, True), (-10.0, False)):
        ours = np.where(trials["method"] == "rice-hinge", 0.0, total)
        claims = FIGURES["regret"].claims(with_columns(data, "trials", total=ours))
        assert [claim.agrees for claim in claims[3:]] == [agrees, agrees]
    worst = data.tables["worst"]
    faster = with_columns(data, "worst", regret=worst["length"] ** 2.0, path_length=np.zeros(len(worst["length"])))
    slower = with_columns(data, "worst", regret=worst["length"] ** 0.4, path_length=np.zeros(len(worst["length"])))
    assert FIGURES["regret"].claims(faster)[2].agrees is False
    assert FIGURES["regret"].claims(slower)[2].agrees is True
    assert "|I|^2.00" in FIGURES["regret"].claims(faster)[2].ours
