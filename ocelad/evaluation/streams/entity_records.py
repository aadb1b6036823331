"""A table of records with known entities: names, cities, years, prices and telephone numbers, with errors."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import numpy as np

from ocelad._typing import Floats
from ocelad._validation import check_integer, check_number

#: The largest number of records of one entity. Sizes k from 1 on have probabilities proportional to 1 / k.
MAX_RECORDS = 6
#: The columns of a record.
COLUMNS = ("name", "city", "year", "price", "phone")
#: How often a record has each error. "missing" is per column; a name is never missing.
ERROR_RATES = {"typo": 0.4, "dropped word": 0.2, "swapped": 0.04, "rounded": 0.3, "wrong digit": 0.1, "missing": 0.12}
#: The share of entities that are branches: they have the name and the year of another one, in another city.
BRANCH_SHARE = 0.2
#: Dimensions of a name, of a city and of a telephone number in a point.
TEXT_DIMENSIONS = {"name": 32, "city": 8, "phone": 12}

_KINDS = (
    "bakery",
    "books",
    "cafe",
    "clinic",
    "cycles",
    "garage",
    "garden",
    "hotel",
    "kitchen",
    "music",
    "shoes",
    "toys",
)
_STARTS = ("b", "d", "f", "g", "k", "l", "m", "n", "p", "r", "s", "t", "v", "z", "br", "dr", "kl", "st", "tr")
_VOWELS, _ENDS = ("a", "e", "i", "o", "u"), ("", "l", "m", "n", "r", "s")
_N_WORDS, _N_CITIES = 200, 40
_YEARS = (1900, 2020)
_N_HASHED = 2**12

#: A record: the values of its columns; None: missing.
Record: TypeAlias = dict[str, Any]


class EntityRecords:
    """Records of entities, several of some of them, as a table merged from several sources has them.

    An entity has a name of two or three words, a city, a year, a price and a telephone number. It has 1 to 6 records.
    Each record has errors of its own: typing errors in the name, a missing word, name and city swapped, rounded
    numbers, wrong digits, missing values. Some entities are branches of others: the same name in another city, so that
    names do not decide.

    The points are those that a user would make: character n-grams of each text, hashed and reduced by a truncated
    singular value decomposition, then standardized numbers, and whether a value is missing.

    Parameters
    ----------
    n_entities : int
        The number of entities, at least 40.
    error_rate : float
        A factor of all rates of errors, from 0 to 2.
    seed : int
        The same seed gives the same records.

    Attributes
    ----------
    entities : array of int of shape (n_records,)
        The entity of each record; numbers from 0 to n_entities - 1.
    records : dict of list
        The columns "name", "city" and "phone" (texts), "year" and "price" (numbers); None where a value is missing.
    points : array of shape (n_records, n_features)
        The features of each record.
    feature_names : tuple of str

    Examples
    --------
    >>> table = EntityRecords(n_entities=50, seed=1)
    >>> len(table), table.points.shape, sorted(table.records)
    (124, (124, 58), ['city', 'name', 'phone', 'price', 'year'])
    """

    def __init__(self, *, n_entities: int = 300, error_rate: float = 1.0, seed: int = 0) -> None:
        self.n_entities = check_integer(n_entities, "n_entities", at_least=_N_CITIES)
        self.error_rate = check_number(error_rate, "error_rate", at_least=0, at_most=2)
        self.seed = check_integer(seed, "seed", at_least=0)
        rng = np.random.default_rng(self.seed)
        originals = _draw_entities(self.n_entities, rng)
        self.entities = rng.permutation(np.repeat(np.arange(self.n_entities), _draw_sizes(self.n_entities, rng)))
        rates = {error: min(1.0, self.error_rate * rate) for error, rate in ERROR_RATES.items()}
        rows = [_with_errors(originals[entity], rates, rng) for entity in self.entities.tolist()]
        self.records: dict[str, list[Any]] = {column: [row[column] for row in rows] for column in COLUMNS}
        self.points, self.feature_names = _make_points(self.records)

    def __len__(self) -> int:
        return len(self.entities)


def _draw_sizes(n_entities: int, rng: np.random.Generator) -> np.ndarray:
    """Draw the number of records of each entity."""
    weights = 1.0 / np.arange(1, MAX_RECORDS + 1)
    return rng.choice(np.arange(1, MAX_RECORDS + 1), size=n_entities, p=weights / weights.sum())


def _draw_entities(n_entities: int, rng: np.random.Generator) -> list[Record]:
    """Draw entities without errors; the last ones are branches of earlier ones."""
    words, cities = draw_words(_N_WORDS, rng), draw_words(_N_CITIES, rng)
    common = 1.0 / np.arange(10, _N_WORDS + 10)  # some words occur in many names
    entities: list[Record] = []
    n_branches = int(BRANCH_SHARE * n_entities)
    for k in range(n_entities):
        city = cities[int(rng.integers(_N_CITIES))]
        price = float(np.round(np.exp(rng.normal(3.0, 1.0)), 2))
        phone = "".join(map(str, rng.integers(10, size=8).tolist()))
        if k < n_entities - n_branches:
            n_words = int(rng.integers(1, 3))
            chosen = rng.choice(_N_WORDS, size=n_words, replace=False, p=common / common.sum()).tolist()
            name = " ".join([*(words[at] for at in chosen), _KINDS[int(rng.integers(len(_KINDS)))]])
            year = int(rng.integers(*_YEARS))
        else:
            parent = entities[int(rng.integers(n_entities - n_branches))]
            name, year = parent["name"], parent["year"]
            city = next(cities[at] for at in rng.permutation(_N_CITIES).tolist() if cities[at] != parent["city"])
        entities.append({"name": name, "city": city, "year": year, "price": price, "phone": phone})
    return entities


def draw_words(count: int, rng: np.random.Generator) -> list[str]:
    """Draw different words of two or three syllables."""
    words: dict[str, None] = {}
    while len(words) < count:
        syllables = [
            part[int(rng.integers(len(part)))]
            for _ in range(int(rng.integers(2, 4)))
            for part in (_STARTS, _VOWELS, _ENDS)
        ]
        words["".join(syllables)] = None
    return list(words)


def _with_errors(entity: Record, rates: dict[str, float], rng: np.random.Generator) -> Record:
    """Return a record of an entity."""
    record = dict(entity)

    def happens(error: str) -> bool:
        return bool(rng.random() < rates[error])

    words = record["name"].split()
    if happens("dropped word") and len(words) > 1:
        del words[int(rng.integers(len(words)))]
    record["name"] = " ".join(words)
    if happens("typo"):
        record["name"] = mistype(record["name"], rng)
    if happens("wrong digit"):
        at, digit = int(rng.integers(len(record["phone"]))), str(int(rng.integers(10)))
        record["phone"] = record["phone"][:at] + digit + record["phone"][at + 1 :]
    if happens("rounded"):
        record["price"] = float(f"{record['price']:.0e}")
        record["year"] = 5 * round(record["year"] / 5)
    for column in COLUMNS[1:]:
        if happens("missing"):
            record[column] = None
    if happens("swapped") and record["city"] is not None:
        record["name"], record["city"] = record["city"], record["name"]
    return record


def mistype(text: str, rng: np.random.Generator) -> str:
    """Insert, delete or replace a letter, or exchange two neighbouring ones."""
    at = int(rng.integers(len(text) - 1))
    letter = chr(ord("a") + int(rng.integers(26)))
    edits: tuple[Callable[[], str], ...] = (
        lambda: text[:at] + letter + text[at:],
        lambda: text[:at] + text[at + 1 :],
        lambda: text[:at] + letter + text[at + 1 :],
        lambda: text[:at] + text[at + 1] + text[at] + text[at + 2 :],
    )
    return edits[int(rng.integers(len(edits)))]()


def _make_points(records: dict[str, list[Any]]) -> tuple[Floats, tuple[str, ...]]:
    """Return one point per record, and the names of the features."""
    parts, names = [], []
    for column, n_dimensions in TEXT_DIMENSIONS.items():
        part = _embed_texts([value or "" for value in records[column]], n_dimensions)
        parts.append(part)
        names += [f"{column} {k}" for k in range(part.shape[1])]
    years, prices = (_numbers(records[column]) for column in ("year", "price"))
    parts.append(np.column_stack([_standardize(years), _standardize(np.log1p(prices))]))
    names += ["year", "log price"]
    missing = [[value is None for value in records[column]] for column in COLUMNS[1:]]
    parts.append(0.5 * np.array(missing, dtype=float).T)
    names += [f"no {column}" for column in COLUMNS[1:]]
    return np.hstack(parts), tuple(names)


def _embed_texts(texts: Sequence[str], n_dimensions: int) -> Floats:
    """Return the leading directions of hashed character n-grams; missing texts are at the mean of the others."""
    from sklearn.decomposition import TruncatedSVD  # these imports take a second
    from sklearn.feature_extraction.text import HashingVectorizer

    hashed = HashingVectorizer(analyzer="char_wb", ngram_range=(2, 3), n_features=_N_HASHED).transform(texts)
    embedded = TruncatedSVD(n_dimensions, random_state=0).fit_transform(hashed)
    present = np.array([bool(text) for text in texts])
    return np.asarray(np.where(present[:, None], embedded - embedded[present].mean(axis=0), 0.0))


def _numbers(values: Sequence[float | None]) -> Floats:
    return np.array([np.nan if value is None else value for value in values])


def _standardize(values: Floats) -> Floats:
    """Return values with mean 0 and variance 1; those that are missing become 0."""
    centered = values - np.nanmean(values)
    return np.asarray(np.nan_to_num(centered / max(float(np.nanstd(values)), 1e-12)))
