"""A data folder and a backup that an earlier version wrote can still be opened, with the same results.

``saved_before/expected.json`` lists the results of the version that wrote the files.
"""

from __future__ import annotations

import gzip
import json
import tarfile
from pathlib import Path

import numpy as np
import pytest

from ocelad.service import serialize
from ocelad.service.entries import NewEntry
from ocelad.service.service import Service
from ocelad.service.settings import Settings
from ocelad.service.store import Store, open_tokens, restore
from ocelad.service.token_secret import hash_secret

SAVED = Path(__file__).parent / "saved_before"
CONTENT = json.loads((SAVED / "expected.json").read_text())
SECRET = CONTENT["about"]["token_secret"]
DATA, BACKUP = "service_data.tar.gz", "service_backup.sqlite3.gz"
# The first request in the log, with its idempotency key.
FIRST_REQUEST = [
    NewEntry(0, 1, "same", "random"),
    NewEntry(2, 3, "different", "active"),
    NewEntry(4, 5, "same", "given"),
]
PERSON, KEY = "ann", "request 1"
# Other processors round differently.
RTOL = 1e-9


@pytest.fixture
def data(tmp_path):
    """The saved data folder."""
    with tarfile.open(SAVED / DATA) as archive:
        archive.extractall(tmp_path, filter="data")
    return tmp_path / "ocelad-data"


@pytest.fixture
def restored(tmp_path):
    """A data folder that was restored from the saved backup."""
    (tmp_path / "backup").write_bytes(gzip.decompress((SAVED / BACKUP).read_bytes()))
    summary = restore(tmp_path / "backup", tmp_path / "restored")
    assert [summary.n_projects, summary.n_entries] == CONTENT["files"][BACKUP]["restored"]
    return tmp_path / "restored"


@pytest.fixture(params=[DATA, BACKUP])
def saved(request):
    """A data folder and what is expected of it."""
    folder = request.getfixturevalue("data" if request.param == DATA else "restored")
    return folder, CONTENT["files"][request.param]


def assert_close(actual, expected):
    np.testing.assert_allclose(actual, np.array(expected, dtype=np.float64), rtol=RTOL, atol=1e-12)


def test_the_store_reads_the_project_and_its_log(saved):
    folder, expected = saved
    with Store.open(folder) as store:
        (project,) = store.projects()
        assert [project.id, project.title, project.n_items, project.seq, project.digest] == expected["project"]
        log = [
            [entry.seq, entry.kind, entry.left, entry.right, entry.source, entry.person, entry.undoes]
            for entry in store.entries("flowers")
        ]
    assert log == expected["log"]


def test_the_store_reads_the_items_and_the_settings(data):
    expected = CONTENT["files"][DATA]
    with Store.open(data) as store:
        items, settings = store.items("flowers"), store.project("flowers").settings
    ids, features, names, factors, fields = expected["items"]
    assert (list(items.ids), list(items.feature_names), items.fields) == (ids, names, fields)
    assert items.features.tolist() == [[float(value) for value in row] for row in features]
    assert items.scaling.factors.tolist() == [float(value) for value in factors]
    assert items.display == "features"
    assert {name: repr(value) if isinstance(value, float) else value for name, value in settings.items()} == (
        expected["settings"]
    )


def test_an_earlier_request_is_recognized_by_its_key(saved):
    folder, expected = saved
    assert expected["the_same_request_is_a_repetition"]
    with Store.open(folder) as store:
        result = store.append("flowers", FIRST_REQUEST, PERSON, KEY).result(20)
        assert result.repeated
        assert [entry.seq for entry in result.entries] == [1, 2, 3]
        assert store.project("flowers").seq == len(expected["log"])


def test_tokens_stay_valid(saved):
    folder, expected = saved
    with open_tokens(folder) as tokens:
        assert [token.name for token in tokens.all()] == expected["tokens"]
        found = tokens.find(hash_secret(SECRET))
    assert [found.name, found.permissions] == CONTENT["files"][DATA]["token"]
    assert found.revoked_at is None


def test_the_service_continues_with_the_same_state(saved, caplog):
    folder, expected = saved
    service = Service.open(Settings(folder=folder, port=0))
    try:
        project = service.project("flowers")
        if "begun_with_entry" in expected:  # its snapshot does not say which pairs were random: all is learned again
            assert "a snapshot cannot be used" in caplog.text
        assert project.learner.wait(len(expected["log"]), 60)
        view, learned = project.view, expected["learned"]
        assert (view.seq, view.n_answers) == (learned["seq"], learned["answers"])
        assert_close(view.metric.threshold, learned["threshold"])
        assert_close(view.distances(view.points[:4], view.points[4:]), learned["distances"])
        assert view.neighbors(0, 3)[0].tolist() == learned["neighbors"]
        undone = [serialize.log_entry(project, entry).undone for entry in project.entries(0, 100)]
        assert undone == learned["undone"]
        timeline = serialize.timeline(view)
        rows = np.array(learned["timeline"], dtype=np.float64).round(6)
        assert timeline.n_answers == rows[:, 0].tolist()
        for column, values in enumerate([timeline.loss, timeline.accuracy, timeline.drift, *timeline.shares], start=1):
            np.testing.assert_allclose(values, rows[:, column], rtol=0, atol=1e-6)
        assert [timeline.random_pairs.n, timeline.random_pairs.n_correct] == learned["honest"]
        store = service.store
        assert store.append("flowers", [NewEntry(6, 7, "same")], PERSON).result(20).entries[0].seq == view.seq + 1
        assert project.learner.wait(view.seq + 1, 60)
    finally:
        service.close()
