"""Two tables of records, persons or companies, in which some records describe the same entity, with known truth."""

from __future__ import annotations

from typing import Any, Literal, TypeAlias

import numpy as np

from ocelad._validation import check_choice, check_integer, check_number
from ocelad.evaluation.streams.entity_records import draw_words, mistype

#: What the records describe.
Subject: TypeAlias = Literal["persons", "companies"]
#: The columns of each table, beside "id".
COLUMNS: dict[str, tuple[str, ...]] = {
    "persons": ("name", "street", "city", "born", "phone"),
    "companies": ("name", "street", "city", "founded", "employees", "phone"),
}
#: How often a record has each error, at error rate 1. The left table has a third of them.
ERROR_RATES = {
    "typo": 0.3,
    "second typo": 0.1,
    "other name": 0.3,
    "reversed": 0.1,
    "abbreviated": 0.25,
    "moved": 0.12,
    "wrong date": 0.12,
    "rounded": 0.3,
    "other phone": 0.15,
    "format of phone": 0.3,
    "missing": 0.1,
}
#: The share of entities that resemble another one: a relative in the same household, a branch of a company elsewhere.
RELATED_SHARE = 0.3

# First names and how people shorten them.
_NICKNAMES = (
    "alexander/alex alice/ally andrew/andy anna/annie anthony/tony barbara/barb benjamin/ben catherine/kate "
    "charles/charlie christine/chris daniel/dan david/dave deborah/debbie edward/ted elizabeth/liz emma/em "
    "eric/rick florence/flo frances/fran frederick/fred george/geo helen/nell henry/harry isabel/bella "
    "jacob/jake james/jim jennifer/jenny john/jack joseph/joe judith/judy karen/kaz laura/lori lawrence/larry "
    "leonard/len lucy/lu margaret/peggy maria/mia martin/marty matthew/matt michael/mike nancy/nan "
    "nicholas/nick oliver/ollie pamela/pam patricia/pat paul/paulie peter/pete rebecca/becky richard/dick "
    "robert/bob ruth/ruthie samuel/sam sarah/sally stephen/steve susan/sue theodore/theo thomas/tom "
    "victoria/vicky walter/walt william/bill zachary/zach"
)
_FIRST_NAMES = dict(pair.split("/") for pair in _NICKNAMES.split())
_STREETS = ("street", "road", "lane", "avenue", "square", "way")
_SHORT_STREETS = {"street": "st", "road": "rd", "lane": "ln", "avenue": "ave", "square": "sq", "way": "wy"}
_TRADES = (
    "bakery",
    "builders",
    "consulting",
    "foods",
    "garage",
    "insurance",
    "logistics",
    "media",
    "motors",
    "textiles",
)
_FORMS = ("ltd", "limited", "inc", "gmbh", "llc", "group")
_N_SURNAMES, _N_STREET_NAMES, _N_CITIES, _N_COMPANY_WORDS = 2000, 300, 60, 3000
_FIRST_DAY, _LAST_DAY = np.datetime64("1935-01-01"), np.datetime64("2005-01-01")

#: A record: the values of its columns; None: missing.
Record: TypeAlias = dict[str, Any]


class LinkedTables:
    """Two tables of persons or companies, as a shop and a register have them, and which records are the same.

    No entity occurs twice in one table. Records of the same entity differ: typing errors, nicknames, reversed or
    abbreviated names, an old address, another telephone number, exchanged day and month, rounded numbers, missing
    values. And records that resemble each other are not always the same: relatives share surname, address and often the
    telephone number; branches of a company share its name. Surnames, first names and cities have skewed frequencies.

    Parameters
    ----------
    subject : "persons" or "companies"
    n_rows : int
        The number of rows of each table, at least 10.
    overlap : float
        The share of entities of the left table that occur in the right one.
    error_rate : float
        A factor of all rates of errors, from 0 to 3.
    seed : int
        The same seed gives the same tables.

    Attributes
    ----------
    left, right : dict of list
        Columns by name, beginning with "id"; all values are texts or numbers, None where a value is missing.
    links : array of int of shape (n_links, 2)
        The rows of the left and of the right table that describe the same entity.

    Examples
    --------
    >>> tables = LinkedTables("persons", n_rows=100, seed=1)
    >>> list(tables.left), len(tables.left["id"]), tables.links.shape
    (['id', 'name', 'street', 'city', 'born', 'phone'], 100, (60, 2))
    """

    def __init__(
        self,
        subject: Subject = "persons",
        *,
        n_rows: int = 1000,
        overlap: float = 0.6,
        error_rate: float = 1.0,
        seed: int = 0,
    ) -> None:
        check_choice(subject, "subject", tuple(COLUMNS))
        n_rows = check_integer(n_rows, "n_rows", at_least=10)
        n_common = round(n_rows * check_number(overlap, "overlap", at_least=0, at_most=1))
        error_rate = check_number(error_rate, "error_rate", at_least=0, at_most=3)
        rng = np.random.default_rng(check_integer(seed, "seed", at_least=0))
        draw = _Persons(rng) if subject == "persons" else _Companies(rng)
        n_entities = 2 * n_rows - n_common
        entities: list[Record] = []
        for _ in range(n_entities):
            related = entities and rng.random() < RELATED_SHARE
            entities.append(draw.related(entities[int(rng.integers(len(entities)))]) if related else draw.entity())
        order = rng.permutation(n_entities)
        rows = {"left": rng.permutation(order[:n_rows]), "right": rng.permutation(order[n_rows - n_common :])}
        tables = {}
        for side, factor in (("left", error_rate / 3.0), ("right", error_rate)):
            rates = {error: min(1.0, factor * rate) for error, rate in ERROR_RATES.items()}
            records = [draw.with_errors(entities[at], rates) for at in rows[side].tolist()]
            ids = [f"{side[0].upper()}{k:05d}" for k in range(n_rows)]
            tables[side] = {"id": ids, **{name: [row[name] for row in records] for name in COLUMNS[subject]}}
        self.left: dict[str, list[Any]] = tables["left"]
        self.right: dict[str, list[Any]] = tables["right"]
        _, at_left, at_right = np.intersect1d(rows["left"], rows["right"], return_indices=True)
        self.links = np.column_stack([at_left, at_right])[np.argsort(at_left)]


class _Places:
    """Draws addresses and telephone numbers, and the errors that persons and companies have in common."""

    def __init__(self, rng: np.random.Generator) -> None:
        self._rng = rng
        self._cities = draw_words(_N_CITIES, rng)
        self._street_names = draw_words(_N_STREET_NAMES, rng)

    def one_of(self, words: list[str] | tuple[str, ...], skew: float = 0.0) -> str:
        """Return one of some words; with a positive skew the first ones are more frequent."""
        u = self._rng.random() ** (1.0 + skew)
        return words[int(u * len(words))]

    def happens(self, rate: float) -> bool:
        return bool(self._rng.random() < rate)

    def street(self) -> str:
        return f"{int(self._rng.integers(1, 150))} {self.one_of(self._street_names, 1.0)} {self.one_of(_STREETS)}"

    def city(self) -> str:
        return self.one_of(self._cities, 1.0)

    def phone(self) -> str:
        digits = "".join(map(str, self._rng.integers(10, size=7).tolist()))
        return f"0{int(self._rng.integers(20, 60))} {digits}"

    def mistyped(self, text: str, rates: dict[str, float]) -> str:
        for error in ("typo", "second typo"):
            if len(text) > 2 and self.happens(rates[error]):
                text = mistype(text, self._rng)
        return text

    def place_errors(self, record: Record, rates: dict[str, float]) -> None:
        if self.happens(rates["moved"]):
            record["street"] = self.street()
            record["city"] = self.city() if self.happens(0.5) else record["city"]
        if self.happens(rates["abbreviated"]):
            words = record["street"].split()
            record["street"] = " ".join([*words[:-1], _SHORT_STREETS[words[-1]]])
        if self.happens(rates["second typo"]):
            record["street"] = mistype(record["street"], self._rng)
        if self.happens(rates["other phone"]):
            record["phone"] = self.phone()
        if self.happens(rates["format of phone"]):
            record["phone"] = "+44 " + record["phone"][1:].replace(" ", "-")
        for column in list(record)[1:]:
            if self.happens(rates["missing"]):
                record[column] = None


class _Persons(_Places):
    def __init__(self, rng: np.random.Generator) -> None:
        super().__init__(rng)
        self._surnames = draw_words(_N_SURNAMES, rng)
        self._first_names = list(_FIRST_NAMES)
        rng.shuffle(self._first_names)

    def _born(self) -> str:
        days = int((_LAST_DAY - _FIRST_DAY).astype(int))
        return str(_FIRST_DAY + int(self._rng.integers(days)))

    def entity(self) -> Record:
        name = f"{self.one_of(self._first_names, 1.0)} {self.one_of(self._surnames, 2.0)}"
        return {"name": name, "street": self.street(), "city": self.city(), "born": self._born(), "phone": self.phone()}

    def related(self, other: Record) -> Record:
        """Return a relative: another first name and date of birth, often the same telephone number."""
        name = f"{self.one_of(self._first_names, 1.0)} {other['name'].split()[1]}"
        phone = other["phone"] if self.happens(0.5) else self.phone()
        return {**other, "name": name, "born": self._born(), "phone": phone}

    def with_errors(self, entity: Record, rates: dict[str, float]) -> Record:
        record = dict(entity)
        first, last = record["name"].split()
        if self.happens(rates["other name"]):
            first = _FIRST_NAMES[first] if self.happens(0.7) else first[0] + "."
        first, last = self.mistyped(first, rates), self.mistyped(last, rates)
        record["name"] = f"{last}, {first}" if self.happens(rates["reversed"]) else f"{first} {last}"
        if self.happens(rates["wrong date"]):
            year, month, day = record["born"].split("-")
            if int(day) <= 12 and self.happens(0.5):
                month, day = day, month
            else:
                year = str(int(year) + int(self._rng.choice([-10, -1, 1, 10])))
            record["born"] = f"{year}-{month}-{min(int(day), 28):02d}"
        self.place_errors(record, rates)
        return record


class _Companies(_Places):
    def __init__(self, rng: np.random.Generator) -> None:
        super().__init__(rng)
        self._words = draw_words(_N_COMPANY_WORDS, rng)

    def entity(self) -> Record:
        words = [self.one_of(self._words, 1.0) for _ in range(1 + self.happens(0.4))]
        return {
            "name": " ".join([*words, self.one_of(_TRADES), self.one_of(_FORMS)]),
            "street": self.street(),
            "city": self.city(),
            "founded": int(2020 - 100 * self._rng.random() ** 2),
            "employees": int(np.exp(self._rng.normal(3.5, 1.5))) + 1,
            "phone": self.phone(),
        }

    def related(self, other: Record) -> Record:
        """Return a branch: the same name and year elsewhere; or another trade by the same founder."""
        new = self.entity()
        if self.happens(0.5):
            return {**new, "name": other["name"], "founded": other["founded"]}
        words = other["name"].split()
        new["name"] = " ".join([*words[:-2], *new["name"].split()[-2:]])
        return {**new, "street": other["street"], "city": other["city"]} if self.happens(0.5) else new

    def with_errors(self, entity: Record, rates: dict[str, float]) -> Record:
        record = dict(entity)
        words = record["name"].split()
        if self.happens(rates["other name"]):
            words[-1:] = [] if self.happens(0.7) else [self.one_of(_FORMS)]
        if self.happens(rates["abbreviated"]):
            words[1] = words[1][: int(self._rng.integers(2, 5))]
        words[0] = self.mistyped(words[0], rates)
        if self.happens(rates["reversed"]):
            words = [*words[1:], words[0]]
        record["name"] = " ".join(words)
        if self.happens(rates["rounded"]):
            record["employees"] = int(float(f"{record['employees']:.0e}"))
        elif self.happens(rates["wrong date"]):
            record["employees"] = round(record["employees"] * float(np.exp(self._rng.normal(0.0, 0.4)))) + 1
        if self.happens(rates["wrong date"]):
            record["founded"] += int(self._rng.choice([-10, -1, 1]))
        self.place_errors(record, rates)
        return record
