"""Product reviews: file formats, damaged files, preprocessing, splits without duplicates, and the download."""

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
from scipy.sparse import issparse
from synthetic_reviews import DOMAINS, SENTIMENTS, WORDS, draw_counts, write_original, write_stars, write_top5000

from ocelad.evaluation.streams import Reviews, download_reviews, load_reviews
from ocelad.evaluation.streams.reviews import QUESTIONS
from ocelad.evaluation.streams.reviews.download import MEMBER_DIGESTS
from ocelad.evaluation.streams.reviews.reviews import PREPROCESSINGS

REAL = os.environ.get("OCELAD_DATA")
real = pytest.mark.skipif(not REAL, reason="OCELAD_DATA does not name a folder with the reviews")


@pytest.fixture(autouse=True)
def _isolated_environment(monkeypatch, tmp_path):
    monkeypatch.delenv("OCELAD_DATA", raising=False)
    monkeypatch.setenv("OCELAD_CACHE", str(tmp_path / "cache"))


@pytest.fixture
def reviews(tmp_path):
    return load_reviews(write_top5000(tmp_path / "top5000"))


def bag(reviews):
    """Return the named counts and the labels of every review, sorted."""
    rows = reviews.counts.toarray().astype(int)
    return sorted(
        (domain, sentiment, tuple(sorted((reviews.words[k], int(row[k])) for k in np.flatnonzero(row))))
        for domain, sentiment, row in zip(reviews.domains, reviews.sentiment, rows, strict=True)
    )


def expected_bag(single_words=False):
    chosen = [k for k, word in enumerate(WORDS) if not single_words or ("_" not in word and word != "<num>")]
    return sorted(
        (domain, sentiment, tuple(sorted((WORDS[k], int(row[k])) for k in chosen if row[k])))
        for (domain, sentiment), rows in draw_counts().items()
        for row in rows
    )


# reading


@pytest.mark.parametrize("level", ["folder", "parent", "grandparent"])
def test_svmlight_files_are_found_and_read_exactly(tmp_path, level):
    folder = tmp_path / "multi-domain-sentiment" / "top5000"
    write_top5000(folder)
    reviews = load_reviews({"folder": folder, "parent": folder.parent, "grandparent": tmp_path}[level])
    assert reviews.source == "top5000"
    assert reviews.words == WORDS
    assert bag(reviews) == expected_bag()  # without the review that has no words
    assert reviews.stars is None


def test_the_original_files_hold_the_same_reviews(tmp_path):
    top, original = write_top5000(tmp_path / "a"), write_original(tmp_path / "b" / "processed_acl")
    write_stars(tmp_path / "c" / "processed_stars")
    by_original = load_reviews(original, n_words=1000)
    assert by_original.source == "processed_acl"
    assert bag(by_original) == bag(load_reviews(top, n_words=1000)) == expected_bag(single_words=True)
    with_stars = load_reviews(tmp_path / "c", n_words=1000)
    assert with_stars.source == "processed_stars"
    assert bag(with_stars) == expected_bag(single_words=True)  # without reviews of three stars
    assert set(with_stars.stars[with_stars.sentiment == "positive"]) == {4, 5}
    assert set(with_stars.stars[with_stars.sentiment == "negative"]) == {1, 2}


def test_words_may_contain_colons_and_bytes_that_are_not_utf8(tmp_path):
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
def test_the_words_in_the_most_reviews_are_selected(tmp_path_factory, seed, n_words):
    top = write_top5000(tmp_path_factory.mktemp("reviews"), seed)
    everything, some = load_reviews(top), load_reviews(top, n_words=n_words)
    reviews_with = dict(zip(everything.words, (everything.counts > 0).sum(axis=0).tolist(), strict=True))
    single = [word for word in WORDS if word not in ("<num>", "very_good") and reviews_with[word]]
    assert list(some.words) == sorted(single, key=lambda word: (-reviews_with[word], word))[:n_words]


def test_the_folder_comes_from_the_environment_or_the_message_explains_the_options(tmp_path, monkeypatch):
    with pytest.raises(
        FileNotFoundError, match=r"name their folder .*, or set OCELAD_DATA to it, or download them once with"
    ):
        load_reviews()
    write_original(tmp_path / "cache" / "multi-domain-sentiment" / "processed_acl")
    assert load_reviews().source == "processed_acl"
    write_top5000(tmp_path / "data" / "top5000")
    monkeypatch.setenv("OCELAD_DATA", str(tmp_path / "data"))
    assert load_reviews().source == "top5000"
    monkeypatch.setenv("OCELAD_DATA", str(tmp_path / "gone"))
    with pytest.raises(FileNotFoundError, match=r"gone \(OCELAD_DATA\) does not exist"):
        load_reviews()


def truncate(path, share=0.5):
    path.write_bytes(path.read_bytes()[: int(share * path.stat().st_size)])


def replace_line(path, line, text):
    lines = path.read_bytes().splitlines(keepends=True)
    lines[line - 1] = text.encode()
    path.write_bytes(b"".join(lines))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("2 0:1\n", r"line 7: the label is '2'; accepted: 1 \(positive\) or -1 \(negative\)"),
        ("nan 0:1\n", "line 7: the label is 'nan'"),
        ("\n", "line 7: the label is ''"),
        ("1 0:1 42:1\n", "line 7: column '42' exceeds the vocabulary; accepted: 0 to 41"),
        ("1 0:1 99999999999999999999999:1\n", "line 7: column '99999999999999999999999' exceeds"),
        ("1 0:1 -1:1\n", "line 7: '-1:1' is not COLUMN:COUNT"),
        ("1 0:1 3\n", "line 7: '3' is not COLUMN:COUNT"),
        ("1 0:1 3:\n", "line 7: '3:' is not COLUMN:COUNT"),
        ("1 0:nan\n", "line 7: '0:nan' is not COLUMN:COUNT"),
        ("1 0:inf\n", "line 7: '0:inf' is not COLUMN:COUNT"),
        ("1 0:1.5\n", "line 7: '0:1.5' is not COLUMN:COUNT"),
        ("1 0:0\n", "line 7: '0:0' is not COLUMN:COUNT"),
        ("1 0:1000001\n", "line 7: '0:1000001' is not COLUMN:COUNT"),
        ("1 0:1000000000000\n", "line 7: '0:1000000000000' is not COLUMN:COUNT"),
        ("1 4:1 3:1\n", "line 7: column 3 follows column 4"),
        ("1 4:1 4:1\n", "line 7: column 4 follows column 4"),
        ("1 good:1\n", "line 7: 'good:1' is not COLUMN:COUNT"),
        ("\x00\x01\n", "line 7: the label is"),
    ],
)
def test_the_message_names_the_invalid_line_of_svmlight_files(tmp_path, text, message):
    write_top5000(tmp_path)
    replace_line(tmp_path / "electronics_test.svmlight", 7, text)
    with pytest.raises(ValueError, match=rf"electronics_test.svmlight, {message}"):
        load_reviews(tmp_path)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("good:1\n", "line 3: the line ends with 'good:1'; accepted: #label#: and positive or negative"),
        ("good:1 #label#:5.0\n", "line 3: the line ends with '#label#:5.0'"),
        ("good:1 #label#:\n", "line 3: the line ends with '#label#:'"),
        ("\n", "line 3: the line ends with ''"),
        ("good #label#:negative\n", "line 3: 'good' is not WORD:COUNT"),
        ("good:nan #label#:negative\n", "line 3: 'good:nan' is not WORD:COUNT"),
        ("good:0 #label#:negative\n", "line 3: 'good:0' is not WORD:COUNT"),
        ("good:99999999999999999999 #label#:negative\n", "line 3: 'good:99999999999999999999' is not WORD:COUNT"),
        ("good:1000001 #label#:negative\n", "line 3: 'good:1000001' is not WORD:COUNT"),
        (":1 #label#:negative\n", "line 3: ':1' is not WORD:COUNT"),
        ("good:1  bad:1 #label#:negative\n", "line 3: '' is not WORD:COUNT"),
    ],
)
def test_the_message_names_the_invalid_line_of_original_files(tmp_path, text, message):
    write_original(tmp_path)
    replace_line(tmp_path / "books" / "negative.review", 3, text)
    with pytest.raises(ValueError, match=rf"negative.review, {message}"):
        load_reviews(tmp_path)


def test_the_largest_count_is_accepted(tmp_path):
    write_original(tmp_path / "a")
    replace_line(tmp_path / "a" / "books" / "negative.review", 3, "good:1000000 #label#:negative\n")
    write_top5000(tmp_path / "b")
    replace_line(tmp_path / "b" / "electronics_test.svmlight", 7, "1 0:1000000\n")
    for folder in ("a", "b"):
        assert load_reviews(tmp_path / folder).counts.max() == 10**6


@pytest.mark.parametrize("share", [0.3, 0.9, 0.999])
def test_truncated_files_raise_an_error(tmp_path, share):
    write_top5000(tmp_path)
    truncate(tmp_path / "books_train.svmlight.gz", share)
    with pytest.raises(ValueError, match=r"books_train.svmlight.gz is damaged or truncated"):
        load_reviews(tmp_path)
    write_top5000(tmp_path)
    truncate(tmp_path / "electronics_train.svmlight", share)
    with pytest.raises(ValueError, match=r"electronics_train.svmlight, line \d+: the line has no end"):
        load_reviews(tmp_path)


def test_the_message_names_missing_and_empty_files(tmp_path):
    write_top5000(tmp_path)
    (tmp_path / "books_test.svmlight").write_bytes(b"")
    with pytest.raises(ValueError, match=r"books_test.svmlight is empty"):
        load_reviews(tmp_path)
    (tmp_path / "books_test.svmlight").unlink()
    with pytest.raises(
        ValueError, match=r"books_test.svmlight is missing; accepted: this file or books_test.svmlight.gz"
    ):
        load_reviews(tmp_path)
    write_top5000(tmp_path)
    (tmp_path / "vocabulary.txt").unlink()
    with pytest.raises(ValueError, match=r"vocabulary.txt is missing"):
        load_reviews(tmp_path)
    with pytest.raises(FileNotFoundError, match="has no reviews; accepted: processed_stars, or a folder"):
        load_reviews(tmp_path, source="processed_stars")
    (tmp_path / "vocabulary.txt").write_text("a\nb\na\n")
    with pytest.raises(ValueError, match=r"vocabulary.txt, line 3: 'a' is blank or a duplicate"):
        load_reviews(tmp_path)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"source": "top500"}, "source must be one of 'top5000', 'processed_acl', 'processed_stars'; got 'top500'"),
        ({"n_words": 0}, "n_words must be a whole number of at least 1; got 0"),
        ({"domains": "books"}, "domains must be a sequence of product types; got 'books'"),
        ({"domains": []}, r"domains must be a sequence of product types; got \[\]"),
        ({"domains": ["dvd"]}, "dvd_train.svmlight is missing"),
        ({"folder": 3}, "folder must be a path; got 3"),
    ],
)
def test_invalid_settings_raise_an_error(tmp_path, settings, message):
    folder = write_top5000(tmp_path)
    with pytest.raises((ValueError, TypeError), match=message):
        load_reviews(**{"folder": folder, **settings})


# points, labels, splits, pairs


def test_points_follow_the_name_of_the_preprocessing(reviews):
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


def test_idf_does_not_depend_on_held_out_reviews(reviews):
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
    with pytest.raises(ValueError, match="the reviews of top5000 have no stars; accepted: 'type'"):
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


def test_invalid_rows_raise_an_error(reviews):
    rows = np.arange(10)
    n = len(reviews)
    invalid = (
        ([], "rows must be"),
        ([0.5], "rows must be"),
        ([[0, 1]], "rows must be"),
        ([0, n], f"rows ranges from 0 to {n}; accepted: 0 to {n - 1}"),
        ([-1, 0], "rows ranges from -1 to 0"),
    )
    for wrong, message in invalid:
        with pytest.raises(ValueError, match=message):
            reviews.pairs(wrong, "type", 5)
    with pytest.raises(ValueError, match="n_pairs must be a whole number of at least 1; got 0"):
        reviews.pairs(rows, "sentiment", 0)
    with pytest.raises(ValueError, match="the same label"):
        reviews.pairs(np.flatnonzero(reviews.domains == "books"), "type", 5)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"counts": [[1, 0], [0, 0]]}, "the review at position 1 has no word"),
        ({"counts": [[1, 0], [0, -1]]}, "whole numbers of 0 or above"),
        ({"counts": [[1, 0], [0, 0.5]]}, "whole numbers of 0 or above"),
        ({"counts": [[1, 0], [0, np.nan]]}, "only finite numbers are accepted"),
        ({"words": ("a",)}, "words has 1 names for 2 columns"),
        ({"domains": ["books"]}, r"domains has shape \(1,\); accepted: one entry for each of 2"),
        ({"stars": [1, 2, 3]}, r"stars has shape \(3,\); accepted: one entry for each of 2"),
    ],
)
def test_reviews_are_validated(changes, message):
    valid = {"counts": [[1, 0], [0, 2]], "words": ("a", "b"), "domains": ["x", "y"], "sentiment": ["p", "n"]}
    Reviews(**valid)
    with pytest.raises(ValueError, match=message):
        Reviews(**{**valid, **changes})


def test_different_reviews_have_different_fingerprints(tmp_path):
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


# download


class _Server:
    """A local server of one archive, with a given status and Content-Length."""

    def __init__(self, content, status=200, claimed=None):
        self.n_requests = 0
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self):
                outer.n_requests += 1
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


def make_archive(folder, extra=()):
    """Return an archive of the reviews in a folder, and the digests of its members."""
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
    for path in folder.glob("*/*.gz"):  # the members of the archive are not gzipped
        path.with_suffix("").write_bytes(gzip.decompress(path.read_bytes()))
        path.unlink()
    return folder


def test_a_download_is_cached_until_it_is_damaged(original, tmp_path):
    content, digests = make_archive(original)
    seen = []
    with _Server(content) as server:
        folder = download_reviews(
            progress=lambda done, total: seen.append((done, total)), url=server.url, digests=digests
        )
        assert seen[-1] == (len(content), len(content))
        assert download_reviews(url=server.url, digests=digests) == folder
        assert server.n_requests == 1
        damaged = folder / "processed_acl" / "books" / "positive.review"
        damaged.write_bytes(b"")
        download_reviews(url=server.url, digests=digests)
        assert server.n_requests == 2
    assert folder == tmp_path / "cache" / "multi-domain-sentiment"
    assert [path.name for path in folder.iterdir()] == ["processed_acl"]
    assert load_reviews().fingerprint() == load_reviews(original).fingerprint()


def assert_discarded(message, tmp_path, url, digests, error=ValueError):
    with pytest.raises(error, match=message) as caught:
        download_reviews(tmp_path / "cache", url=url, digests=digests)
    assert "\n" not in str(caught.value)
    assert not [path for path in (tmp_path / "cache").rglob("*") if path.is_file()]


def test_an_archive_with_other_content_is_discarded(original, tmp_path):
    content, digests = make_archive(original)
    with _Server(content) as server:
        wrong = {**digests, "books/negative.review": "0" * 64}
        message = "has changed: books/negative.review has the SHA-256 digest"
        assert_discarded(message, tmp_path, server.url, wrong)
        assert_discarded("dvd/positive.review is missing", tmp_path, server.url, {"dvd/positive.review": ""})


def test_an_incomplete_download_is_discarded(original, tmp_path):
    content, digests = make_archive(original)
    half = content[: len(content) // 2]
    with _Server(half, claimed=len(content)) as server:
        assert_discarded("is incomplete|cannot be downloaded", tmp_path, server.url, digests, ConnectionError)
    with _Server(half) as server:
        assert_discarded("is not a complete tar.gz archive", tmp_path, server.url, digests)
    with _Server(b"<html>moved</html>") as server:
        assert_discarded("is not a complete tar.gz archive", tmp_path, server.url, digests)


def test_the_message_quotes_the_http_status(tmp_path):
    with _Server(b"", status=404) as server:
        assert_discarded("HTTP 404", tmp_path, server.url, {}, ConnectionError)
    assert_discarded("cannot be downloaded", tmp_path, server.url, {}, ConnectionError)  # the server has stopped


@pytest.mark.parametrize("name", ["../outside", "/outside", "processed_acl/../../outside/x.review", "a\\..\\b"])
def test_an_archive_with_unsafe_members_is_discarded(original, tmp_path, name):
    content, digests = make_archive(original, [(name, tarfile.REGTYPE)])
    with _Server(content) as server:
        assert_discarded("has the unsafe member", tmp_path, server.url, digests)
    assert not (tmp_path / "outside").exists()


def test_links_and_other_files_are_not_unpacked(original, tmp_path):
    extra = [("processed_acl/books/link.review", tarfile.SYMTYPE), ("readme", tarfile.REGTYPE)]
    content, digests = make_archive(original, extra)
    with _Server(content) as server:
        folder = download_reviews(tmp_path / "cache", url=server.url, digests=digests)
    names = {path.relative_to(folder / "processed_acl").as_posix() for path in folder.rglob("*") if path.is_file()}
    assert names == set(digests)


# the real reviews


@real
def test_the_real_reviews_have_the_known_sizes_and_fingerprint():
    reviews = load_reviews(REAL, source="top5000")
    assert len(reviews) == 14_143  # three of 14,146 have no word
    both, counts = np.unique(reviews.labels("both"), return_counts=True)
    assert both.tolist() == [f"{domain}, {sentiment}" for domain in DOMAINS for sentiment in sorted(SENTIMENTS)]
    assert counts.tolist()[:2] == [3201, 3264]
    assert counts[2:].sum() == 7678
    distinct = [len(np.unique(reviews.groups[reviews.domains == domain])) for domain in DOMAINS]
    assert distinct == [5888, 7376]
    assert len(load_reviews(REAL, source="top5000", n_words=10**6).words) == 2369  # as in the paper
    assert reviews.fingerprint() == "f14d80658cd8f6262825f111c3fcab8781aed5d24ab4c98c76ef66aae143e62e"


@real
def test_the_real_original_has_the_digests_of_the_download():
    folder = next(Path(REAL).rglob("processed_acl"), None)
    if folder is None:
        pytest.skip("OCELAD_DATA has no processed_acl")
    for name, expected in MEMBER_DIGESTS.items():
        assert sha256(gzip.decompress((folder / f"{name}.gz").read_bytes())).hexdigest() == expected
    reviews = load_reviews(folder)
    assert len(reviews) == 4000
    assert len(reviews.words) == 2369
