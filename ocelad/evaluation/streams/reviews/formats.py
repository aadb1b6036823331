"""The two formats that the reviews come in, read strictly: what is wrong is named with its file and line."""

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

# No word is in a review more often; a larger count is a damaged one.
MOST_COUNT = 10**6
_LABEL = b"#label#"


def existing(folder: Path, *names: str) -> Path | None:
    """The first of these files that is there, as it is or gzipped."""
    paths = (folder / f"{name}{end}" for name in names for end in ("", ".gz"))
    return next((path for path in paths if path.is_file()), None)


def needed(folder: Path, name: str) -> Path:
    """The file, as it is or gzipped, or a sentence that says that it is missing."""
    path = existing(folder, name)
    if path is None:
        raise ValueError(f"{folder / name} is missing, and so is {name}.gz; accepted: one of them")
    return path


def read_bytes(path: Path) -> bytes:
    """The whole file, unzipped."""
    try:
        content = path.read_bytes()
        if content.startswith(b"\x1f\x8b"):
            content = gzip.decompress(content)
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise ValueError(f"{path} is damaged or truncated: it cannot be unzipped ({error})") from None
    except OSError as error:
        raise ValueError(f"{path} cannot be read: {error.strerror or error}") from None
    if not content:
        raise ValueError(f"{path} is empty; accepted: one review a line")
    if not content.endswith(b"\n"):
        line = content.count(b"\n") + 1
        raise ValueError(f"{path}, line {line}: it does not end with its line; the file may be truncated")
    return content


def read_words(path: Path) -> tuple[str, ...]:
    """The names of the columns, one a line."""
    words = tuple(read_bytes(path).decode(errors="backslashreplace").splitlines())
    seen = set[str]()
    for line, word in enumerate(words, 1):
        if not word.strip() or word in seen:
            raise ValueError(
                f"{path}, line {line}: {word!r} is no name, or was there before; accepted: one name a line"
            )
        seen.add(word)
    return words


def read_svmlight(path: Path, n_words: int) -> tuple[Any, npt.NDArray[np.str_]]:
    """Counts, and "positive" or "negative", of a file of lines ``1 0:2 7:1``: columns are counted from 0."""
    from sklearn.datasets import load_svmlight_file  # which takes a second

    content = read_bytes(path)
    try:
        counts, labels = load_svmlight_file(BytesIO(content), n_features=n_words, zero_based=True)
        values = counts.data
        good = bool(
            (np.abs(labels) == 1).all()
            and ((values >= 1) & (values <= MOST_COUNT) & (values == np.round(values))).all()
            and len(labels) == content.count(b"\n")
        )
    except (ValueError, OverflowError):
        good = False
    if not good:
        for line, text in enumerate(content.splitlines(), 1):
            if why := _wrong(text, n_words):
                raise ValueError(f"{path}, line {line}: {why}")
        raise ValueError(f"{path} cannot be read as lines like '1 0:2 7:1'")
    return csr_array(counts), np.where(labels > 0, "positive", "negative")


def _wrong(text: bytes, n_words: int) -> str | None:
    """What is wrong with a line, if anything is: what is accepted, written down once more and slowly."""
    label, *tokens = text.split() or [b""]
    if label not in (b"1", b"+1", b"-1"):
        return f"the label is {_shown(label)}; accepted: 1 (positive) or -1 (negative)"
    last = -1
    for token in tokens:
        column, _, count = token.partition(b":")
        if not (column.isdigit() and count.isdigit() and 1 <= int(count) <= MOST_COUNT):
            return f"{_shown(token)} is no column and count; accepted: such as 7:1, with counts of 1 to {MOST_COUNT}"
        if int(column) >= n_words:
            return f"column {_shown(column)} is beyond the {n_words} words of the vocabulary; they are counted from 0"
        if int(column) <= last:
            return f"column {int(column)} comes after column {last}; accepted: each once, in ascending order"
        last = int(column)
    return None


@dataclass
class OriginalReader:
    """The words of the original's own files: lines ``good:2 very_good:1 ... #label#:positive``.

    Only single words are kept, no pairs of words (``very_good``), and not ``<num>``, which stands for any number.

    Parameters
    ----------
    labels : collection of str
        Which labels are accepted.
    """

    labels: Collection[str]
    words: dict[bytes, int] = field(default_factory=dict)
    found: list[str] = field(default_factory=list)  # the label of each review
    columns: array[int] = field(default_factory=lambda: array("q"))
    values: array[int] = field(default_factory=lambda: array("q"))
    ends: array[int] = field(default_factory=lambda: array("q", [0]))

    def read(self, path: Path) -> int:
        """Add the reviews of a file; how many there are."""
        lines = read_bytes(path).splitlines()
        for line, text in enumerate(lines, 1):
            if why := self._add(text):
                raise ValueError(f"{path}, line {line}: {why}")
        return len(lines)

    def counts(self) -> Any:
        """Of all reviews that were read, one column for each of ``words``."""
        shape = len(self.found), max(len(self.words), 1)
        return csr_array((np.array(self.values, dtype=np.float64), self.columns, self.ends), shape=shape)

    def _add(self, text: bytes) -> str | None:
        *tokens, last = text.split(b" ")
        mark, _, label = last.rpartition(b":")
        if mark != _LABEL or label.decode("latin-1") not in self.labels:
            return f"it ends with {_shown(last)}; accepted: {_LABEL.decode()}: with one of {', '.join(self.labels)}"
        for token in tokens:
            word, _, count = token.rpartition(b":")
            if not (word and count.isdigit() and 1 <= int(count[:9]) <= MOST_COUNT):
                return f"{_shown(token)} is no word and count; accepted: such as good:1, counts of 1 to {MOST_COUNT}"
            if b"_" not in word and word != b"<num>":
                self.columns.append(self.words.setdefault(word, len(self.words)))
                self.values.append(int(count))
        self.ends.append(len(self.columns))
        self.found.append(label.decode())
        return None


def _shown(token: bytes) -> str:
    text = token[:41].decode(errors="backslashreplace")
    return repr(text if len(token) <= 40 else f"{text[:37]}...")
