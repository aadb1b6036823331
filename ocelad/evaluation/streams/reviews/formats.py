"""Strict parsers of the two file formats of the reviews. Error messages name the file and the line."""

from __future__ import annotations

import gzip
import zlib
from array import array
from collections.abc import Collection
from dataclasses import dataclass, field
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.sparse import csr_array

# An upper limit for the count of a word in a review; a larger count indicates a damaged file.
MAX_COUNT = 10**6
_LABEL = b"#label#"


def find_file(folder: Path, *names: str) -> Path | None:
    """Return the first of these files that exists, plain or gzipped, or None."""
    paths = (folder / f"{name}{end}" for name in names for end in ("", ".gz"))
    return next((path for path in paths if path.is_file()), None)


def require_file(folder: Path, name: str) -> Path:
    """Return the file, plain or gzipped, or raise ValueError if it is missing."""
    path = find_file(folder, name)
    if path is None:
        raise ValueError(f"{folder / name} is missing; accepted: this file or {name}.gz")
    return path


def read_bytes(path: Path) -> bytes:
    """Return the decompressed content of a file."""
    try:
        content = path.read_bytes()
        if content.startswith(b"\x1f\x8b"):
            content = gzip.decompress(content)
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise ValueError(f"{path} is damaged or truncated: it cannot be unzipped ({error})") from None
    except OSError as error:
        raise ValueError(f"{path} cannot be read: {error.strerror or error}") from None
    if not content:
        raise ValueError(f"{path} is empty; accepted: one review per line")
    if not content.endswith(b"\n"):
        line = content.count(b"\n") + 1
        raise ValueError(f"{path}, line {line}: the line has no end; the file may be truncated")
    return content


def read_words(path: Path) -> tuple[str, ...]:
    """Return the names of the columns, one per line."""
    words = tuple(read_bytes(path).decode(errors="backslashreplace").splitlines())
    seen = set[str]()
    for line, word in enumerate(words, 1):
        if not word.strip() or word in seen:
            raise ValueError(f"{path}, line {line}: {word!r} is blank or a duplicate; accepted: one name per line")
        seen.add(word)
    return words


def read_svmlight(path: Path, n_words: int) -> tuple[Any, npt.NDArray[np.str_]]:
    """Return the counts and the labels "positive" or "negative" of lines ``1 0:2 7:1``; columns are counted from 0."""
    from sklearn.datasets import load_svmlight_file  # this import takes a second

    content = read_bytes(path)
    try:
        counts, labels = load_svmlight_file(BytesIO(content), n_features=n_words, zero_based=True)
        values = counts.data
        valid = bool(
            (np.abs(labels) == 1).all()
            and ((values >= 1) & (values <= MAX_COUNT) & (values == np.round(values))).all()
            and len(labels) == content.count(b"\n")
        )
    except (ValueError, OverflowError):
        valid = False
    if not valid:
        for line, text in enumerate(content.splitlines(), 1):
            if reason := _find_error(text, n_words):
                raise ValueError(f"{path}, line {line}: {reason}")
        raise ValueError(f"{path} cannot be read as lines like '1 0:2 7:1'")
    return csr_array(counts), np.where(labels > 0, "positive", "negative")


def _find_error(text: bytes, n_words: int) -> str | None:
    """Return the error of a line, or None: a second, slow implementation of the accepted format."""
    label, *tokens = text.split() or [b""]
    if label not in (b"1", b"+1", b"-1"):
        return f"the label is {_quote(label)}; accepted: 1 (positive) or -1 (negative)"
    last = -1
    for token in tokens:
        column, _, count = token.partition(b":")
        if not (column.isdigit() and count.isdigit() and 1 <= int(count) <= MAX_COUNT):
            return f"{_quote(token)} is not COLUMN:COUNT; accepted: such as 7:1, with counts of 1 to {MAX_COUNT}"
        if int(column) >= n_words:
            return f"column {_quote(column)} exceeds the vocabulary; accepted: 0 to {n_words - 1}"
        if int(column) <= last:
            return f"column {int(column)} follows column {last}; accepted: each column once, in ascending order"
        last = int(column)
    return None


@dataclass
class OriginalReader:
    """Reader of the original files, with lines ``good:2 very_good:1 ... #label#:positive``.

    It keeps single words only: no pairs of words (``very_good``), and not ``<num>``, which stands for any number.

    Parameters
    ----------
    labels : collection of str
        The accepted labels.
    """

    labels: Collection[str]
    words: dict[bytes, int] = field(default_factory=dict)
    review_labels: list[str] = field(default_factory=list)
    columns: array[int] = field(default_factory=lambda: array("q"))
    values: array[int] = field(default_factory=lambda: array("q"))
    ends: array[int] = field(default_factory=lambda: array("q", [0]))

    def read(self, path: Path) -> int:
        """Read the reviews of a file, and return their number."""
        lines = read_bytes(path).splitlines()
        for line, text in enumerate(lines, 1):
            if reason := self._add(text):
                raise ValueError(f"{path}, line {line}: {reason}")
        return len(lines)

    def counts(self) -> Any:
        """Return the counts of all reviews read so far, with one column for each of ``words``."""
        shape = len(self.review_labels), max(len(self.words), 1)
        return csr_array((np.array(self.values, dtype=np.float64), self.columns, self.ends), shape=shape)

    def _add(self, text: bytes) -> str | None:
        *tokens, last = text.split(b" ")
        mark, _, label = last.rpartition(b":")
        if mark != _LABEL or label.decode("latin-1") not in self.labels:
            return f"the line ends with {_quote(last)}; accepted: {_LABEL.decode()}: and {' or '.join(self.labels)}"
        for token in tokens:
            word, _, count = token.rpartition(b":")
            if not (word and count.isdigit() and 1 <= int(count[:9]) <= MAX_COUNT):
                return f"{_quote(token)} is not WORD:COUNT; accepted: such as good:1, with counts of 1 to {MAX_COUNT}"
            if b"_" not in word and word != b"<num>":
                self.columns.append(self.words.setdefault(word, len(self.words)))
                self.values.append(int(count))
        self.ends.append(len(self.columns))
        self.review_labels.append(label.decode())
        return None


def _quote(token: bytes) -> str:
    text = token[:41].decode(errors="backslashreplace")
    return repr(text if len(token) <= 40 else f"{text[:37]}...")
