"""Finds the reviews in a folder, and reads them."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from scipy.sparse import vstack

from ocelad._validation import check_choice, check_integer
from ocelad.evaluation.streams.reviews.download import SET, cache_folder
from ocelad.evaluation.streams.reviews.formats import OriginalReader, existing, needed, read_svmlight, read_words
from ocelad.evaluation.streams.reviews.reviews import Reviews

#: The paper's two product types, and how many words it counts.
PAPER_DOMAINS = ("books", "electronics")
PAPER_WORDS = 2369
_STARS = ("1.0", "2.0", "3.0", "4.0", "5.0")
# All stars of one product type in one file, or in two.
_STAR_FILES = (("all_balanced",), ("balanced",), ("train", "test"), ("train",))


class _Found(NamedTuple):
    """What a reader has read, before words are chosen and reviews without any are left out."""

    counts: Any
    words: Sequence[str]
    domains: Any
    sentiment: Any
    stars: Any = None


def load_reviews(
    folder: str | os.PathLike[str] | None = None,
    *,
    source: str | None = None,
    domains: Sequence[str] = PAPER_DOMAINS,
    n_words: int | None = None,
) -> Reviews:
    """The product reviews of Blitzer, Dredze and Pereira (ACL 2007), as word counts.

    Reviews without a word are left out.

    Parameters
    ----------
    folder : path or None
        Where they are, or the folder above it. None: the folder that the environment variable OCELAD_DATA names, or
        else what ``download_reviews`` has fetched.
    source : {"top5000", "processed_acl", "processed_stars"} or None
        Which of the sets; None: the first of these that is there.

        - "top5000": counts of 5000 words and pairs of words, in svmlight files, as other studies share them;
        - "processed_acl": the original, ``DOMAIN/positive.review``, ``negative.review``, and ``unlabeled.review``
          where that is there: its reviews do have labels, and with them the reviews are those of "top5000";
        - "processed_stars": the original with stars, which the paper used; reviews of three stars are left out.
    domains : sequence of str
        The product types.
    n_words : int or None
        Only so many words: those that are in the most reviews, without pairs of words and without ``<num>``, which
        stands for any number. None: everything in "top5000", and of the original, which has hundreds of thousands,
        as many as the paper: 2369.

    Returns
    -------
    Reviews

    Examples
    --------
    >>> load_reviews("/nowhere")
    Traceback (most recent call last):
        ...
    FileNotFoundError: there is no folder /nowhere; accepted: the folder of the reviews or the one above it
    """
    if n_words is not None:
        n_words = check_integer(n_words, "n_words", at_least=1)
    if source is not None:
        check_choice(source, "source", _SOURCES)
    if isinstance(domains, str) or not domains or not all(isinstance(name, str) for name in domains):
        raise ValueError(f"domains must be some names of product types; got {domains!r}")
    name, place = _place(folder, source)
    found = _SOURCES[name].read(place, domains)
    if n_words is None and name != "top5000":
        n_words = PAPER_WORDS
    return _reviews(found, n_words, name)


def find_reviews(folder: str | os.PathLike[str] | None = None) -> Path:
    """The folder that ``load_reviews`` would read, so that other processes, or machines, need not look for it."""
    return _place(folder, None)[1].absolute()


@lru_cache(maxsize=2)
def reviews_known(folder: str, fingerprint: str, n_words: int | None) -> Reviews:
    """The reviews in a folder, which must be those with this fingerprint; read once in a process."""
    reviews = load_reviews(folder, n_words=n_words)
    if reviews.fingerprint() != fingerprint:
        raise ValueError(f"the reviews in {folder} have changed while they were worked with; start again")
    return reviews


def _reviews(found: _Found, n_words: int | None, source: str) -> Reviews:
    counts, words = found.counts, np.array(found.words, dtype=str)
    if n_words is not None:
        chosen = _frequent(counts, words, n_words)
        counts, words = counts[:, chosen], words[chosen]
    kept = np.diff(counts.indptr) > 0
    if found.stars is not None:
        kept &= found.stars != 3  # neither positive nor negative
    if not kept.any():
        raise ValueError(f"no review of {source} has a word; accepted: at least one that has")
    stars = None if found.stars is None else found.stars[kept]
    return Reviews(counts[kept], tuple(words.tolist()), found.domains[kept], found.sentiment[kept], stars, source)


def _frequent(counts: Any, words: Any, n_words: int) -> Any:
    """The columns of single words that are in the most reviews, those first; of equal ones by their names."""
    reviews_with = np.bincount(counts.indices, minlength=len(words))
    single = np.flatnonzero((reviews_with > 0) & (np.char.find(words, "_") < 0) & (words != "<num>"))
    return single[np.lexsort((words[single], -reviews_with[single]))][:n_words]


def _place(given: str | os.PathLike[str] | None, source: str | None) -> tuple[str, Path]:
    """Which of the sets is read, and the folder that it is in."""
    try:
        folder = Path(given or os.environ.get("OCELAD_DATA") or cache_folder())
        is_there = folder.is_dir()
    except (TypeError, ValueError):
        raise TypeError(f"folder must be a path; got {given!r}") from None
    names = _SOURCES if source is None else [source]
    for name in names if is_there else ():
        for place in (folder, folder / name, folder / SET, folder / SET / name):
            if _SOURCES[name].is_in(place):
                return name, place
    if not given and not os.environ.get("OCELAD_DATA"):
        raise FileNotFoundError(
            "no reviews are here: give their folder (--data), or set OCELAD_DATA to it, or fetch them once with "
            "ocelad.evaluation.streams.reviews.download_reviews() (--download)"
        )
    if is_there:
        accepted = f"a folder with {' or '.join(names)}, or itself one of those"
        raise FileNotFoundError(f"{folder} has no reviews; accepted: {accepted}")
    where = "" if given else ", which OCELAD_DATA names"
    accepted = "the folder of the reviews or the one above it"
    raise FileNotFoundError(f"there is no folder {folder}{where}; accepted: {accepted}")


def _has_original(folder: Path, *names: str) -> bool:
    return folder.is_dir() and any(existing(part, *names) for part in folder.iterdir() if part.is_dir())


def _is_top5000(folder: Path) -> bool:
    return (folder / "vocabulary.txt").is_file() or any(folder.glob("*.svmlight*"))


def _is_processed_acl(folder: Path) -> bool:
    return _has_original(folder, "positive.review", "negative.review")


def _is_processed_stars(folder: Path) -> bool:
    names = [name for names in _STAR_FILES for name in names]
    return _has_original(folder, *(f"{name}.review" for name in names), *names)


def _read_top5000(folder: Path, domains: Sequence[str]) -> _Found:
    words = read_words(needed(folder, "vocabulary.txt"))
    names = [(domain, f"{domain}_{part}.svmlight") for domain in domains for part in ("train", "test")]
    paths = [needed(folder, name) for _, name in names]
    counts, sentiment = zip(*(read_svmlight(path, len(words)) for path in paths), strict=True)
    of = [np.full(len(labels), domain) for (domain, _), labels in zip(names, sentiment, strict=True)]
    return _Found(vstack(counts, format="csr"), words, np.concatenate(of), np.concatenate(sentiment))


def _read_processed_acl(folder: Path, domains: Sequence[str]) -> _Found:
    paths = []
    for domain in domains:
        paths += [(domain, needed(folder / domain, f"{part}.review")) for part in ("positive", "negative")]
        if unlabeled := existing(folder / domain, "unlabeled.review"):
            paths.append((domain, unlabeled))
    reader, of = _read_original(paths, ("positive", "negative"))
    return _Found(reader.counts(), _names(reader), of, np.array(reader.found))


def _read_processed_stars(folder: Path, domains: Sequence[str]) -> _Found:
    paths = [(domain, path) for domain in domains for path in _star_files(folder / domain)]
    reader, of = _read_original(paths, _STARS)
    stars = np.array([int(float(label)) for label in reader.found])
    return _Found(reader.counts(), _names(reader), of, np.where(stars > 3, "positive", "negative"), stars)


def _star_files(folder: Path) -> list[Path]:
    for names in _STAR_FILES:
        paths = [path for name in names if (path := existing(folder, f"{name}.review", name))]
        if len(paths) == len(names):
            return paths
    raise ValueError(f"{folder} has no reviews with stars; accepted: a file all_balanced, balanced or train in it")


def _read_original(paths: list[tuple[str, Path]], labels: Sequence[str]) -> tuple[OriginalReader, Any]:
    reader = OriginalReader(labels)
    return reader, np.repeat([domain for domain, _ in paths], [reader.read(path) for _, path in paths])


def _names(reader: OriginalReader) -> list[str]:
    return [word.decode(errors="backslashreplace") for word in reader.words]


class _Source(NamedTuple):
    is_in: Callable[[Path], bool]
    read: Callable[[Path, Sequence[str]], _Found]


_SOURCES = {
    "top5000": _Source(_is_top5000, _read_top5000),
    "processed_acl": _Source(_is_processed_acl, _read_processed_acl),
    "processed_stars": _Source(_is_processed_stars, _read_processed_stars),
}
