"""The reviews are read as they are written, refused where they are damaged, and split so that nothing is seen twice."""

from __future__ import annotations

import gzip
import io
import os
import tarfile
from hashlib import sha256
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from threading import Thread

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from made_reviews import DOMAINS, SENTIMENTS, WORDS, made_counts, write_original, write_stars, write_top5000
from scipy.sparse import issparse

from ocelad.evaluation.streams import Reviews, download_reviews, load_reviews
from ocelad.evaluation.streams.reviews import QUESTIONS
from ocelad.evaluation.streams.reviews.download import MEMBER_DIGESTS
from ocelad.evaluation.streams.reviews.reviews import PREPROCESSINGS

REAL = os.environ.get("OCELAD_DATA")
real = pytest.mark.skipif(not REAL, reason="OCELAD_DATA does not name a folder with the reviews")


@pytest.fixture(autouse=True)
def _nothing_from_outside(monkeypatch, tmp_path):
    monkeypatch.delenv("OCELAD_DATA", raising=False)
    monkeypatch.setenv("OCELAD_CACHE", str(tmp_path / "cache"))


@pytest.fixture
def reviews(tmp_path):
    return load_reviews(write_top5000(tmp_path / "top5000"))


def bag(reviews):
    """Every review as its named counts and labels, in any order."""
    rows = reviews.counts.toarray().astype(int)
    return sorted(
        (domain, sentiment, tuple(sorted((reviews.words[k], int(row[k])) for k in np.flatnonzero(row))))
        for domain, sentiment, row in zip(reviews.domains, reviews.sentiment, rows, strict=True)
    )


def expected_bag(single_words=False):
    chosen = [k for k, word in enumerate(WORDS) if not single_words or ("_" not in word and word != "<num>")]
    return sorted(
        (domain, sentiment, tuple(sorted((WORDS[k], int(row[k])) for k in chosen if row[k])))
        for (domain, sentiment), rows in made_counts().items()
        for row in rows
    )


# reading


@pytest.mark.parametrize("above", [".", "..", "multi"])
def test_svmlight_files_are_read_as_they_are_written_wherever_they_are(tmp_path, above):
    place = tmp_path / "multi-domain-sentiment" / "top5000"
    write_top5000(place)
    folder = {".": place, "..": place.parent, "multi": tmp_path}[above]
    reviews = load_reviews(folder)
    assert reviews.source == "top5000"
    assert reviews.words == WORDS
    assert bag(reviews) == expected_bag()  # the one without words is left out
    assert reviews.stars is None


def test_the_originals_own_files_say_the_same(tmp_path):
    top, original = write_top5000(tmp_path / "a"), write_original(tmp_path / "b" / "processed_acl")
    write_stars(tmp_path / "c" / "processed_stars")
    by_original = load_reviews(original, n_words=1000)
    assert by_original.source == "processed_acl"
    assert bag(by_original) == bag(load_reviews(top, n_words=1000)) == expected_bag(single_words=True)
    with_stars = load_reviews(tmp_path / "c", n_words=1000)
    assert with_stars.source == "processed_stars"
    assert bag(with_stars) == expected_bag(single_words=True)  # and none of three stars
    assert set(with_stars.stars[with_stars.sentiment == "positive"]) == {4, 5}
    assert set(with_stars.stars[with_stars.sentiment == "negative"]) == {1, 2}


def test_words_are_split_off_at_the_last_colon(tmp_path):
    for domain in DOMAINS:
        for sentiment in SENTIMENTS:
            path = tmp_path / domain / f"{sentiment}.review"
            path.parent.mkdir(exist_ok=True)
            path.write_bytes(b"a:b:2 :):1 caf\xe9:3 #label#:" + sentiment.encode() + b"\n")
    reviews = load_reviews(tmp_path)
    assert dict(zip(reviews.words, reviews.counts.toarray()[0].tolist(), strict=True)) == {
        "a:b": 2,
        ":)": 1,
        "caf\\xe9": 3,
    }


@given(seed=st.integers(0, 100), n_words=st.integers(1, 45))
def test_the_words_of_the_most_reviews_are_chosen(tmp_path_factory, seed, n_words):
    top = write_top5000(tmp_path_factory.mktemp("reviews"), seed)
    everything, some = load_reviews(top), load_reviews(top, n_words=n_words)
    reviews_with = dict(zip(everything.words, (everything.counts > 0).sum(axis=0).tolist(), strict=True))
    single = [word for word in WORDS if word not in ("<num>", "very_good") and reviews_with[word]]
    assert list(some.words) == sorted(single, key=lambda word: (-reviews_with[word], word))[:n_words]


def test_the_folder_comes_from_the_environment_or_a_sentence_says_what_to_do(tmp_path, monkeypatch):
    with pytest.raises(
        FileNotFoundError, match=r"give their folder .*, or set OCELAD_DATA to it, or fetch them once with"
    ):
        load_reviews()
    write_original(tmp_path / "cache" / "multi-domain-sentiment" / "processed_acl")
    assert load_reviews().source == "processed_acl"
    write_top5000(tmp_path / "data" / "top5000")
    monkeypatch.setenv("OCELAD_DATA", str(tmp_path / "data"))
    assert load_reviews().source == "top5000"
    monkeypatch.setenv("OCELAD_DATA", str(tmp_path / "gone"))
    with pytest.raises(FileNotFoundError, match="gone, which OCELAD_DATA names"):
        load_reviews()


def cut(path, share=0.5):
    path.write_bytes(path.read_bytes()[: int(share * path.stat().st_size)])


def replace_line(path, line, text):
    lines = path.read_bytes().splitlines(keepends=True)
    lines[line - 1] = text.encode()
    path.write_bytes(b"".join(lines))


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("2 0:1\n", r"line 7: the label is '2'; accepted: 1 \(positive\) or -1 \(negative\)"),
        ("nan 0:1\n", "line 7: the label is 'nan'"),
        ("\n", "line 7: the label is ''"),
        ("1 0:1 42:1\n", "line 7: column '42' is beyond the 42 words"),
        ("1 0:1 99999999999999999999999:1\n", "line 7: column '99999999999999999999999' is beyond"),
        ("1 0:1 -1:1\n", "line 7: '-1:1' is no column and count"),
        ("1 0:1 3\n", "line 7: '3' is no column and count"),
        ("1 0:1 3:\n", "line 7: '3:' is no column and count"),
        ("1 0:nan\n", "line 7: '0:nan' is no column and count"),
        ("1 0:inf\n", "line 7: '0:inf' is no column and count"),
        ("1 0:1.5\n", "line 7: '0:1.5' is no column and count"),
        ("1 0:0\n", "line 7: '0:0' is no column and count"),
        ("1 0:1000000000000\n", "line 7: '0:1000000000000' is no column and count"),
        ("1 4:1 3:1\n", "line 7: column 3 comes after column 4"),
        ("1 4:1 4:1\n", "line 7: column 4 comes after column 4"),
        ("1 good:1\n", "line 7: 'good:1' is no column and count"),
        ("\x00\x01\n", "line 7: the label is"),
    ],
)
def test_a_wrong_line_of_svmlight_is_named(tmp_path, text, why):
    write_top5000(tmp_path)
    replace_line(tmp_path / "electronics_test.svmlight", 7, text)
    with pytest.raises(ValueError, match=rf"electronics_test.svmlight, {why}"):
        load_reviews(tmp_path)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("good:1\n", "line 3: it ends with 'good:1'; accepted: #label#: with one of positive, negative"),
        ("good:1 #label#:5.0\n", "line 3: it ends with '#label#:5.0'"),
        ("good:1 #label#:\n", "line 3: it ends with '#label#:'"),
        ("\n", "line 3: it ends with ''"),
        ("good #label#:negative\n", "line 3: 'good' is no word and count"),
        ("good:nan #label#:negative\n", "line 3: 'good:nan' is no word and count"),
        ("good:0 #label#:negative\n", "line 3: 'good:0' is no word and count"),
        ("good:99999999999999999999 #label#:negative\n", "line 3: 'good:99999999999999999999' is no word and count"),
        (":1 #label#:negative\n", "line 3: ':1' is no word and count"),
        ("good:1  bad:1 #label#:negative\n", "line 3: '' is no word and count"),
    ],
)
def test_a_wrong_line_of_the_original_is_named(tmp_path, text, why):
    write_original(tmp_path)
    replace_line(tmp_path / "books" / "negative.review", 3, text)
    with pytest.raises(ValueError, match=rf"negative.review, {why}"):
        load_reviews(tmp_path)


@pytest.mark.parametrize("share", [0.3, 0.9, 0.999])
def test_truncated_files_are_refused(tmp_path, share):
    write_top5000(tmp_path)
    cut(tmp_path / "books_train.svmlight.gz", share)
    with pytest.raises(ValueError, match=r"books_train.svmlight.gz is damaged or truncated"):
        load_reviews(tmp_path)
    write_top5000(tmp_path)
    cut(tmp_path / "electronics_train.svmlight", share)
    with pytest.raises(ValueError, match=r"electronics_train.svmlight, line \d+: it does not end with its line"):
        load_reviews(tmp_path)


def test_what_is_missing_or_empty_is_named(tmp_path):
    write_top5000(tmp_path)
    (tmp_path / "books_test.svmlight").write_bytes(b"")
    with pytest.raises(ValueError, match=r"books_test.svmlight is empty"):
        load_reviews(tmp_path)
    (tmp_path / "books_test.svmlight").unlink()
    with pytest.raises(ValueError, match=r"books_test.svmlight is missing, and so is books_test.svmlight.gz"):
        load_reviews(tmp_path)
    write_top5000(tmp_path)
    (tmp_path / "vocabulary.txt").unlink()
    with pytest.raises(ValueError, match=r"vocabulary.txt is missing"):
        load_reviews(tmp_path)
    with pytest.raises(FileNotFoundError, match="has no reviews; accepted: a folder with processed_stars"):
        load_reviews(tmp_path, source="processed_stars")
    (tmp_path / "vocabulary.txt").write_text("a\nb\na\n")
    with pytest.raises(ValueError, match=r"vocabulary.txt, line 3: 'a' is no name, or was there before"):
        load_reviews(tmp_path)


@pytest.mark.parametrize(
    ("settings", "why"),
    [
        ({"source": "top500"}, "source must be one of 'top5000', 'processed_acl', 'processed_stars'; got 'top500'"),
        ({"n_words": 0}, "n_words must be a whole number of at least 1; got 0"),
        ({"domains": "books"}, "domains must be some names of product types; got 'books'"),
        ({"domains": []}, r"domains must be some names of product types; got \[\]"),
        ({"domains": ["dvd"]}, "dvd_train.svmlight is missing"),
        ({"folder": 3}, "folder must be a path; got 3"),
    ],
)
def test_wrong_settings_are_refused(tmp_path, settings, why):
    folder = write_top5000(tmp_path)
    with pytest.raises((ValueError, TypeError), match=why):
        load_reviews(**{"folder": folder, **settings})


# points, labels, splits, pairs


def test_points_are_what_their_names_say(reviews):
    counts = reviews.counts.toarray()
    train, _ = reviews.split()
    for name in PREPROCESSINGS:
        points = reviews.points(name, idf_from=train)
        assert issparse(points)
        assert points.format == "csr"
        expected = counts if name.startswith("raw") else (counts > 0).astype(float)
        if ".idf" in name:
            seen = counts[train] > 0
            expected = expected * (1 + np.log((1 + len(seen)) / (1 + seen.sum(axis=0))))
        if name.endswith("l2"):
            expected = expected / np.linalg.norm(expected, axis=1, keepdims=True)
        np.testing.assert_allclose(points.toarray(), expected, rtol=1e-13)
    with pytest.raises(ValueError, match=r"preprocessing must be one of 'raw', 'raw\.idf', .*; got 'idf'"):
        reviews.points("idf")


def test_idf_does_not_look_at_held_out_reviews(reviews):
    train, held_out = reviews.split()
    other = reviews.counts.toarray()
    other[held_out] = np.roll(other[held_out], 5, axis=1)
    changed = Reviews(other, reviews.words, reviews.domains, reviews.sentiment)
    seen, also = (each.points("bin.idf.l2", idf_from=train)[train] for each in (reviews, changed))
    assert (seen != also).nnz == 0
    assert (reviews.points("bin.idf")[train] != changed.points("bin.idf")[train]).nnz > 0


def test_labels_answer_the_four_questions(reviews, tmp_path):
    assert set(reviews.labels("type")) == set(DOMAINS)
    assert set(reviews.labels("sentiment")) == set(SENTIMENTS)
    both = [f"{domain}, {sentiment}" for domain, sentiment in zip(reviews.domains, reviews.sentiment, strict=True)]
    assert reviews.labels("both").tolist() == both
    with pytest.raises(ValueError, match="the reviews of top5000 come without stars; accepted: 'type'"):
        reviews.labels("star")
    with pytest.raises(ValueError, match="question must be one of"):
        reviews.labels("stars")
    with_stars = load_reviews(write_stars(tmp_path / "processed_stars"))
    assert with_stars.labels("star").tolist() == [str(star) for star in with_stars.stars]
    assert len(QUESTIONS) == 4


def test_groups_are_those_of_equal_rows(reviews):
    rows = [tuple(row) for row in reviews.counts.toarray()]
    for i in range(0, len(rows), 7):
        same = [rows[i] == row for row in rows]
        assert same == (reviews.groups == reviews.groups[i]).tolist()
    assert reviews.groups.max() + 1 == len(set(rows)) < len(rows)


@given(share=st.floats(0.05, 0.95), seed=st.integers(0, 2**40))
def test_no_group_is_on_both_sides(share, seed):
    draw = np.random.default_rng(seed)
    counts = draw.integers(3, size=(60, 3)) + np.array([0, 0, 1])  # many are equal
    reviews = Reviews(counts, ("a", "b", "c"), ["books"] * 60, ["positive"] * 60)
    train, held_out = reviews.split(share, seed)
    assert sorted([*train, *held_out]) == list(range(60))
    assert not set(reviews.groups[train]) & set(reviews.groups[held_out])
    largest = np.bincount(reviews.groups).max()
    assert share * 60 - largest - 1 <= len(held_out) <= share * 60
    again = reviews.split(share, seed)
    assert (again[0] == train).all()
    assert (again[1] == held_out).all()


@pytest.mark.parametrize("share", [0, 1, 1e-9, 1.5, -1, float("nan"), "half"])
def test_a_split_needs_both_sides(reviews, share):
    with pytest.raises((ValueError, TypeError), match="held_out must"):
        reviews.split(share)


def test_wrong_pairs_are_refused(reviews):
    rows = np.arange(10)
    for wrong, why in (([], "rows must be"), ([0.5], "rows must be"), ([0, 10**6], "rows goes from 0 to 1000000")):
        with pytest.raises(ValueError, match=why):
            reviews.pairs(wrong, "type", 5)
    with pytest.raises(ValueError, match="n_pairs must be a whole number of at least 1; got 0"):
        reviews.pairs(rows, "sentiment", 0)
    with pytest.raises(ValueError, match="the same label"):
        reviews.pairs(np.flatnonzero(reviews.domains == "books"), "type", 5)


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"counts": [[1, 0], [0, 0]]}, "the review at position 1 has no word"),
        ({"counts": [[1, 0], [0, -1]]}, "whole numbers of 0 or above"),
        ({"counts": [[1, 0], [0, 0.5]]}, "whole numbers of 0 or above"),
        ({"counts": [[1, 0], [0, np.nan]]}, "only finite numbers are accepted"),
        ({"words": ("a",)}, "words has 1 names for 2 columns"),
        ({"domains": ["books"]}, r"domains has shape \(1,\) for 2 reviews"),
        ({"stars": [1, 2, 3]}, r"stars has shape \(3,\) for 2 reviews"),
    ],
)
def test_reviews_are_checked(changes, why):
    good = {"counts": [[1, 0], [0, 2]], "words": ("a", "b"), "domains": ["x", "y"], "sentiment": ["p", "n"]}
    Reviews(**good)
    with pytest.raises(ValueError, match=why):
        Reviews(**{**good, **changes})


def test_the_fingerprint_tells_reviews_apart(tmp_path):
    prints = {load_reviews(write_top5000(tmp_path / str(seed), seed)).fingerprint() for seed in (0, 0, 1)}
    assert len(prints) == 2
    small = {"counts": [[1, 0], [0, 2]], "words": ("a", "b"), "domains": ["x", "y"], "sentiment": ["p", "n"]}
    others = [{"counts": [[1, 0], [0, 1]]}, {"words": ("a", "c")}, {"domains": ["x", "x"]}, {"stars": [1, 5]}]
    assert len({Reviews(**{**small, **change}).fingerprint() for change in [{}, *others]}) == 5


def test_reviews_cannot_be_changed(reviews):
    with pytest.raises(AttributeError):
        reviews.words = ()
    for array in (reviews.counts.data, reviews.domains, reviews.groups):
        with pytest.raises(ValueError, match="read-only"):
            array[0] = array[1]
    reviews.labels("type")[0] = "films"  # a copy
    reviews.points("raw").data[:] = 7
    assert "films" not in reviews.domains
    assert reviews.counts.data.max() < 7


# fetching


class _Server:
    """Serves one archive on this machine, as told."""

    def __init__(self, content, status=200, claimed=None):
        self.asked = 0
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self):
                outer.asked += 1
                self.send_response(status)
                self.send_header("Content-Length", str(claimed or len(content)))
                self.end_headers()
                self.wfile.write(content)

            def log_message(self, *_):
                pass

        self._server = HTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}/processed_acl.tar.gz"
        self._thread = Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)

    def __enter__(self):
        self._thread.start()
        return self

    def __exit__(self, *_):
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


def archive_of(folder, extra=()):
    """A made-up archive, and the digests of its members."""
    content, digests = io.BytesIO(), {}
    with tarfile.open(fileobj=content, mode="w:gz") as archive:
        for path in sorted(folder.glob("*/*.review")):
            name = path.relative_to(folder).as_posix()
            archive.add(path, f"processed_acl/{name}")
            digests[name] = sha256(path.read_bytes()).hexdigest()
        for name, kind in extra:
            member = tarfile.TarInfo(name)
            member.type, member.linkname = kind, "/etc/passwd"
            archive.addfile(member, io.BytesIO())
    return content.getvalue(), digests


@pytest.fixture
def original(tmp_path):
    folder = write_original(tmp_path / "original")
    for path in folder.glob("*/*.gz"):  # the archive's members are not zipped
        path.with_suffix("").write_bytes(gzip.decompress(path.read_bytes()))
        path.unlink()
    return folder


def test_what_was_fetched_is_loaded_and_not_fetched_again(original, tmp_path):
    content, digests = archive_of(original)
    seen = []
    with _Server(content) as server:
        home = download_reviews(
            progress=lambda done, total: seen.append((done, total)), url=server.url, digests=digests
        )
        assert seen[-1] == (len(content), len(content))
        assert download_reviews(url=server.url, digests=digests) == home
        assert server.asked == 1
        damaged = home / "processed_acl" / "books" / "positive.review"
        damaged.write_bytes(b"")
        download_reviews(url=server.url, digests=digests)
        assert server.asked == 2
    assert home == tmp_path / "cache" / "multi-domain-sentiment"
    assert [path.name for path in home.iterdir()] == ["processed_acl"]
    assert load_reviews().fingerprint() == load_reviews(original).fingerprint()


def refused(why, tmp_path, url, digests, error=ValueError):
    with pytest.raises(error, match=why) as caught:
        download_reviews(tmp_path / "kept", url=url, digests=digests)
    assert "\n" not in str(caught.value)
    assert not [path for path in (tmp_path / "kept").rglob("*") if path.is_file()]


def test_an_archive_with_another_content_is_refused(original, tmp_path):
    content, digests = archive_of(original)
    with _Server(content) as server:
        wrong = {**digests, "books/negative.review": "0" * 64}
        refused("is not what it was: books/negative.review has the sha256", tmp_path, server.url, wrong)
        refused("dvd/positive.review is missing", tmp_path, server.url, {"dvd/positive.review": ""})


def test_a_transfer_that_breaks_off_is_refused(original, tmp_path):
    content, digests = archive_of(original)
    half = content[: len(content) // 2]
    with _Server(half, claimed=len(content)) as server:
        refused("came only in part|cannot be fetched", tmp_path, server.url, digests, ConnectionError)
    with _Server(half) as server:
        refused("is no whole tar.gz archive", tmp_path, server.url, digests)
    with _Server(b"<html>moved</html>") as server:
        refused("is no whole tar.gz archive", tmp_path, server.url, digests)


def test_a_server_that_says_no_is_quoted(tmp_path):
    with _Server(b"", status=404) as server:
        refused("the server says 404", tmp_path, server.url, {}, ConnectionError)
    refused("cannot be fetched", tmp_path, server.url, {}, ConnectionError)  # there is none any more


@pytest.mark.parametrize("name", ["../outside", "/outside", "processed_acl/../../outside/x.review", "a\\..\\b"])
def test_members_that_point_outside_are_refused(original, tmp_path, name):
    content, digests = archive_of(original, [(name, tarfile.REGTYPE)])
    with _Server(content) as server:
        refused("which points outside", tmp_path, server.url, digests)
    assert not (tmp_path / "outside").exists()


def test_links_and_other_files_are_left_out(original, tmp_path):
    extra = [("processed_acl/books/link.review", tarfile.SYMTYPE), ("readme", tarfile.REGTYPE)]
    content, digests = archive_of(original, extra)
    with _Server(content) as server:
        home = download_reviews(tmp_path / "kept", url=server.url, digests=digests)
    names = {path.relative_to(home / "processed_acl").as_posix() for path in home.rglob("*") if path.is_file()}
    assert names == set(digests)


# the real ones


@real
def test_the_real_reviews_are_those_that_are_known():
    reviews = load_reviews(REAL, source="top5000")
    assert len(reviews) == 14_143  # of 14,146 three have no word
    both, counts = np.unique(reviews.labels("both"), return_counts=True)
    assert both.tolist() == [f"{domain}, {sentiment}" for domain in DOMAINS for sentiment in sorted(SENTIMENTS)]
    assert counts.tolist()[:2] == [3201, 3264]
    assert counts[2:].sum() == 7678
    distinct = [len(np.unique(reviews.groups[reviews.domains == domain])) for domain in DOMAINS]
    assert distinct == [5888, 7376]
    assert len(load_reviews(REAL, source="top5000", n_words=10**6).words) == 2369  # as many as the paper has
    assert reviews.fingerprint() == "f14d80658cd8f6262825f111c3fcab8781aed5d24ab4c98c76ef66aae143e62e"


@real
def test_the_real_original_has_the_digests_that_downloads_are_held_to():
    folder = next(Path(REAL).rglob("processed_acl"), None)
    if folder is None:
        pytest.skip("OCELAD_DATA has no processed_acl")
    for name, expected in MEMBER_DIGESTS.items():
        assert sha256(gzip.decompress((folder / f"{name}.gz").read_bytes())).hexdigest() == expected
    reviews = load_reviews(folder)
    assert len(reviews) == 4000
    assert len(reviews.words) == 2369
