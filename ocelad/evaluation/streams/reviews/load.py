"""Search for the reviews in folders, and loading."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from scipy.sparse import vstack

from ocelad._validation import check_choice, check_integer
from ocelad.evaluation.streams.reviews.download import DATASET_NAME, cache_folder
from ocelad.evaluation.streams.reviews.formats import OriginalReader, find_file, read_svmlight, read_words, require_file
from ocelad.evaluation.streams.reviews.reviews import Reviews

#: The two product types of the paper, and its number of words.
PAPER_DOMAINS = ("books", "electronics")
PAPER_N_WORDS = 2369
_STARS = ("1.0", "2.0", "3.0", "4.0", "5.0")
# The file names of the reviews with stars of one product type: one file, or two.
_STAR_FILES = (("all_balanced",), ("balanced",), ("train", "test"), ("train",))


class _Parsed(NamedTuple):
    """The content of the files, before words are selected and reviews without words are dropped."""

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
    """Load the product reviews of Blitzer, Dredze and Pereira (ACL 2007) as word counts.

    Reviews without a word are dropped.

    Parameters
    ----------
    folder : path or None
        The folder of the reviews, or its parent folder. None: the folder in the environment variable OCELAD_DATA, or
        otherwise the folder of ``download_reviews``.
    source : {"top5000", "processed_acl", "processed_stars"} or None
        The data set; None: the first of these that exists.

        - "top5000": counts of 5000 words and pairs of words, in svmlight files, as shared by other studies;
        - "processed_acl": the original, ``DOMAIN/positive.review`` and ``negative.review``, and ``unlabeled.review`` if
          it exists: its reviews do have labels, and with them the reviews are those of "top5000";
        - "processed_stars": the original with stars, which the paper used; reviews of three stars are dropped.
    domains : sequence of str
        The product types.
    n_words : int or None
        The number of words to keep: those in the most reviews, without pairs of words and without ``<num>``, which
        stands for any number. None: all words of "top5000", and 2369 words, as in the paper, of the original, which has
        hundreds of thousands.

    Returns
    -------
    Reviews

    Examples
    --------
    >>> load_reviews("/nowhere")
    Traceback (most recent call last):
        ...
    FileNotFoundError: the folder /nowhere does not exist; accepted: the folder of the reviews or its parent folder
    """
    if n_words is not None:
        n_words = check_integer(n_words, "n_words", at_least=1)
    if source is not None:
        check_choice(source, "source", _SOURCES)
    if isinstance(domains, str) or not domains or not all(isinstance(name, str) for name in domains):
        raise ValueError(f"domains must be a sequence of product types; got {domains!r}")
    name, source_folder = _find_source(folder, source)
    parsed = _SOURCES[name].read(source_folder, domains)
    if n_words is None and name != "top5000":
        n_words = PAPER_N_WORDS
    return _select(parsed, n_words, name)


def find_review_folder(folder: str | os.PathLike[str] | None = None) -> Path:
    """Return the folder that ``load_reviews`` would read, for other processes or machines."""
    return _find_source(folder, None)[1].absolute()


def find_domains(folder: str | os.PathLike[str] | None = None) -> tuple[str, ...]:
    """Return the product types of the reviews that ``load_reviews`` would read, in alphabetical order."""
    name, source_folder = _find_source(folder, None)
    return tuple(sorted(_SOURCES[name].domains(source_folder)))


@lru_cache(maxsize=2)
def load_verified_reviews(
    folder: str, fingerprint: str, n_words: int | None, domains: tuple[str, ...] = PAPER_DOMAINS
) -> Reviews:
    """Load the reviews in a folder, and check their fingerprint; cached within a process."""
    reviews = load_reviews(folder, n_words=n_words, domains=domains)
    if reviews.fingerprint() != fingerprint:
        raise ValueError(f"the reviews in {folder} have changed since the start; start again")
    return reviews


def _select(parsed: _Parsed, n_words: int | None, source: str) -> Reviews:
    counts, words = parsed.counts, np.array(parsed.words, dtype=str)
    if n_words is not None:
        chosen = _select_frequent(counts, words, n_words)
        counts, words = counts[:, chosen], words[chosen]
    rows = np.diff(counts.indptr) > 0
    if parsed.stars is not None:
        rows &= parsed.stars != 3  # neither positive nor negative
    if not rows.any():
        raise ValueError(f"no review of {source} has a word; accepted: at least one review with a word")
    stars = None if parsed.stars is None else parsed.stars[rows]
    return Reviews(counts[rows], tuple(words.tolist()), parsed.domains[rows], parsed.sentiment[rows], stars, source)


def _select_frequent(counts: Any, words: Any, n_words: int) -> Any:
    """Return the columns of the single words in the most reviews, in decreasing order; ties in order of the words."""
    reviews_with = np.bincount(counts.indices, minlength=len(words))
    single = np.flatnonzero((reviews_with > 0) & (np.char.find(words, "_") < 0) & (words != "<num>"))
    return single[np.lexsort((words[single], -reviews_with[single]))][:n_words]


def _find_source(given: str | os.PathLike[str] | None, source: str | None) -> tuple[str, Path]:
    """Return the name of the data set and its folder."""
    try:
        folder = Path(given or os.environ.get("OCELAD_DATA") or cache_folder())
        exists = folder.is_dir()
    except (TypeError, ValueError):
        raise TypeError(f"folder must be a path; got {given!r}") from None
    names = _SOURCES if source is None else [source]
    for name in names if exists else ():
        for candidate in (folder, folder / name, folder / DATASET_NAME, folder / DATASET_NAME / name):
            if _SOURCES[name].is_in(candidate):
                return name, candidate
    if not given and not os.environ.get("OCELAD_DATA"):
        raise FileNotFoundError(
            "the reviews are missing: name their folder (--data), or set OCELAD_DATA to it, or download them once "
            "with ocelad.evaluation.streams.reviews.download_reviews() (--download)"
        )
    if exists:
        accepted = f"{' or '.join(names)}, or a folder that contains it"
        raise FileNotFoundError(f"{folder} has no reviews; accepted: {accepted}")
    origin = "" if given else " (OCELAD_DATA)"
    accepted = "the folder of the reviews or its parent folder"
    raise FileNotFoundError(f"the folder {folder}{origin} does not exist; accepted: {accepted}")


def _has_original(folder: Path, *names: str) -> bool:
    return folder.is_dir() and any(find_file(part, *names) for part in folder.iterdir() if part.is_dir())


def _is_top5000(folder: Path) -> bool:
    return (folder / "vocabulary.txt").is_file() or any(folder.glob("*.svmlight*"))


def _is_processed_acl(folder: Path) -> bool:
    return _has_original(folder, "positive.review", "negative.review")


def _is_processed_stars(folder: Path) -> bool:
    names = [name for names in _STAR_FILES for name in names]
    return _has_original(folder, *(f"{name}.review" for name in names), *names)


def _read_top5000(folder: Path, domains: Sequence[str]) -> _Parsed:
    words = read_words(require_file(folder, "vocabulary.txt"))
    names = [(domain, f"{domain}_{part}.svmlight") for domain in domains for part in ("train", "test")]
    paths = [require_file(folder, name) for _, name in names]
    counts, sentiment = zip(*(read_svmlight(path, len(words)) for path in paths), strict=True)
    domain_names = [np.full(len(labels), domain) for (domain, _), labels in zip(names, sentiment, strict=True)]
    return _Parsed(vstack(counts, format="csr"), words, np.concatenate(domain_names), np.concatenate(sentiment))


def _read_processed_acl(folder: Path, domains: Sequence[str]) -> _Parsed:
    paths = []
    for domain in domains:
        paths += [(domain, require_file(folder / domain, f"{part}.review")) for part in ("positive", "negative")]
        if unlabeled := find_file(folder / domain, "unlabeled.review"):
            paths.append((domain, unlabeled))
    reader, domain_names = _read_original(paths, ("positive", "negative"))
    return _Parsed(reader.counts(), _words(reader), domain_names, np.array(reader.review_labels))


def _read_processed_stars(folder: Path, domains: Sequence[str]) -> _Parsed:
    paths = [(domain, path) for domain in domains for path in _star_files(folder / domain)]
    reader, domain_names = _read_original(paths, _STARS)
    stars = np.array([int(float(label)) for label in reader.review_labels])
    sentiment = np.where(stars > 3, "positive", "negative")
    return _Parsed(reader.counts(), _words(reader), domain_names, sentiment, stars)


def _star_files(folder: Path) -> list[Path]:
    for names in _STAR_FILES:
        paths = [path for name in names if (path := find_file(folder, f"{name}.review", name))]
        if len(paths) == len(names):
            return paths
    raise ValueError(f"{folder} has no reviews with stars; accepted: a file all_balanced, balanced or train")


def _read_original(paths: list[tuple[str, Path]], labels: Sequence[str]) -> tuple[OriginalReader, Any]:
    reader = OriginalReader(labels)
    return reader, np.repeat([domain for domain, _ in paths], [reader.read(path) for _, path in paths])


def _words(reader: OriginalReader) -> list[str]:
    return [word.decode(errors="backslashreplace") for word in reader.words]


def _domains_of_top5000(folder: Path) -> set[str]:
    return {path.name.partition("_train.svmlight")[0] for path in folder.glob("*_train.svmlight*")}


def _domains_of_original(folder: Path) -> set[str]:
    """Return the subfolders with reviews of either form."""
    names = ["positive.review", "negative.review"]
    names += [name + suffix for files in _STAR_FILES for name in files for suffix in (".review", "")]
    return {part.name for part in folder.iterdir() if part.is_dir() and find_file(part, *names)}


class _Source(NamedTuple):
    is_in: Callable[[Path], bool]
    read: Callable[[Path, Sequence[str]], _Parsed]
    domains: Callable[[Path], set[str]]


_SOURCES = {
    "top5000": _Source(_is_top5000, _read_top5000, _domains_of_top5000),
    "processed_acl": _Source(_is_processed_acl, _read_processed_acl, _domains_of_original),
    "processed_stars": _Source(_is_processed_stars, _read_processed_stars, _domains_of_original),
}
