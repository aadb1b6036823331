"""AnswerColumns: which columns of a DataFrame hold the answers."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias, get_args

from ocelad._validation import check_choice, check_integer
from ocelad.adaptive.adaptive_tracker import MAX_DIFFERENCE
from ocelad.fleet.packed_trackers import Form

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.types import StructField

#: The column with the points of one side, an array of numbers, or its numeric columns.
PointColumns: TypeAlias = str | Sequence[str]

#: Names of the columns that ``track_stream`` returns, beside the key.
OUTPUT_COLUMNS = ("n_answers", "n_new", "n_skipped", "drift", "n_changes", "last_change", "state")
#: Names of the columns between the reading of answers and learning.
ANSWER, TIME, ID = "ocelad_answer", "ocelad_time", "ocelad_id"

# From the smallest to the largest: a cast to a later one keeps the value.
_WHOLE = ("tinyint", "smallint", "int", "bigint")
_NUMBERS = (*_WHOLE, "float", "double", "decimal")
_IDS = (*_WHOLE, "string", "binary")
_KEYS = (*_IDS, "boolean", "date", "timestamp")


class AnswerColumns(NamedTuple):
    """Names of the columns that hold answers, checked against a DataFrame.

    Attributes
    ----------
    key : tuple of str
    left, right : str or tuple of str
    same : str
    n_features : int
    event_time : str or None
    id : str or None
    max_difference : float
        Points may not differ by more in any feature.
    """

    key: tuple[str, ...]
    left: str | tuple[str, ...]
    right: str | tuple[str, ...]
    same: str
    n_features: int
    event_time: str | None = None
    id: str | None = None
    max_difference: float = MAX_DIFFERENCE

    @property
    def names(self) -> list[str]:
        """The names of all columns that are read, each once."""
        sides = [name for side in (self.left, self.right) for name in _as_tuple(side)]
        others = [name for name in (self.same, self.event_time, self.id) if name is not None]
        return list(dict.fromkeys([*self.key, *sides, *others]))


def check_columns(
    df: DataFrame,
    *,
    key: str | Sequence[str],
    left: PointColumns,
    right: PointColumns,
    same: str,
    n_features: int | None,
    event_time: str | None,
    id: str | None,
    form: Form = "exact",
) -> AnswerColumns:
    """Return the columns if the DataFrame has them in types that are accepted."""
    types = dict(df.dtypes)
    keys = check_key(df, key)
    taken = [name for name in keys if name.lower() in (*OUTPUT_COLUMNS, ANSWER, TIME, ID)]
    if taken:
        raise ValueError(f"the key column {taken[0]!r} has the name of a column of the result; rename it")
    n_features = check_points(df, {"left": left, "right": right}, n_features)
    _check_type(types, same, "same", ("boolean", *_NUMBERS), "booleans, or numbers: +1, and -1 or 0")
    if event_time is not None:
        cast = " (a cast to 'timestamp' makes them)" if types.get(event_time) in ("timestamp_ntz", "date") else ""
        _check_type(types, event_time, "event_time", ("timestamp",), f"timestamps{cast}")
    if id is not None:
        _check_type(types, id, "id", _IDS, "strings, whole numbers or binary")
    sides = [side if isinstance(side, str) else tuple(side) for side in (left, right)]
    limit = MAX_DIFFERENCE
    if check_choice(form, "form", get_args(Form)) == "compact":
        from ocelad.fleet.keyed_pairs import MAX_COMPACT_DIFFERENCE  # imports scikit-learn

        limit = MAX_COMPACT_DIFFERENCE
    return AnswerColumns(keys, sides[0], sides[1], same, n_features, event_time, id, limit)


def check_key(df: DataFrame, key: str | Sequence[str]) -> tuple[str, ...]:
    """Return the key columns of a DataFrame."""
    _check_names(key, "key")
    keys, types = _as_tuple(key), dict(df.dtypes)
    if not keys:
        raise ValueError("key names no column; accepted: the name of a column, or a list of names")
    for name in keys:
        if "." in name or "`" in name:
            raise ValueError(f"the key column {name!r} has a dot or a backtick in its name; rename it")
        _check_type(types, name, "key", _KEYS, "strings, whole numbers, booleans, dates, timestamps or binary")
    if len(set(keys)) < len(keys):
        twice = next(name for name in keys if keys.count(name) > 1)
        raise ValueError(f"key names the column {twice!r} twice; accepted: each column once")
    return keys


def states_by_key(
    states: DataFrame, df: DataFrame, keys: tuple[str, ...], role: str, *, narrows: bool = False
) -> DataFrame:
    """Return the key columns and ``state`` of a table of trackers, without rows that have no state.

    The keys have the types of those of ``df``: Spark would compare others after a cast, or keep them as other keys.

    Parameters
    ----------
    states, df : DataFrame
    keys : tuple of str
    role : str
        The name of the argument, for errors.
    narrows : bool
        Whether keys of ``states`` may be whole numbers of more bytes than those of ``df``. They are not cast.
    """
    check_spark_table(states, role)
    check_key(states, keys)
    found, wanted = dict(states.dtypes), dict(df.dtypes)
    if found.get("state") != "binary":
        raise ValueError(f"{role} has no binary column 'state'; accepted: the key columns and state")
    columns = []
    for name in keys:
        ours, theirs = wanted[name], found[name]
        both_whole = ours in _WHOLE and theirs in _WHOLE
        is_wider = both_whole and _WHOLE.index(theirs) < _WHOLE.index(ours)
        if ours != theirs and not is_wider and not (both_whole and narrows):
            raise TypeError(
                f"the key column {name!r} has the type {ours} in df and {theirs} in {role}; accepted: the same type, "
                f"as {role}.withColumn({name!r}, {role}[{name!r}].cast({ours!r})) makes it"
            )
        columns.append(column(name).cast(ours).alias(name) if is_wider else column(name))
    return states.select(*columns, "state").where("state IS NOT NULL")


def check_spark_table(df: Any, role: str) -> None:
    """Refuse what is no DataFrame of Spark."""
    from pyspark.sql import DataFrame

    if not isinstance(df, DataFrame):
        kind = f"{type(df).__module__.split('.')[0]}.{type(df).__qualname__}"
        raise TypeError(f"{role} is a {kind}; accepted: a DataFrame of Spark, such as spark.createDataFrame({role})")


def check_points(df: DataFrame, sides: dict[str, PointColumns], n_features: int | None) -> int:
    """Return the number of features of points in a DataFrame, which lists of columns or the argument give."""
    types = dict(df.dtypes)
    for role, side in sides.items():
        _check_names(side, role)
    counts = {role: len(side) for role, side in sides.items() if not isinstance(side, str)}
    for role, side in sides.items():
        if isinstance(side, str):
            arrays = [f"array<{number}>" for number in _NUMBERS]
            _check_type(types, side, role, arrays, "arrays of numbers (pyspark.ml's vector_to_array makes them)")
        else:
            for name in side:
                _check_type(types, name, role, _NUMBERS, "numbers")
    if n_features is not None:
        counts["n_features"] = check_integer(n_features, "n_features", at_least=1)
    if not counts:
        raise ValueError("n_features is needed, because a column of arrays does not say their length")
    if len(set(counts.values())) > 1 or not min(counts.values()):
        said = ", ".join(f"{role}: {count}" for role, count in counts.items())
        raise ValueError(f"the numbers of features differ or are 0 ({said}); accepted: the same number for both sides")
    return next(iter(counts.values()))


def column(name: str) -> Any:
    """Return the column of this name, which may have dots."""
    from pyspark.sql.functions import col

    return col(quoted(name))


def map_in_arrow(
    df: DataFrame, function: Callable[[Iterator[Any]], Iterator[Any]], fields: Sequence[StructField]
) -> DataFrame:
    """Return ``df.mapInArrow(function, fields)``, which Spark refuses if the name of a column has a dot or a space."""
    from pyspark.sql.types import StructType

    names = df.columns

    def with_names(batches: Iterator[Any]) -> Iterator[Any]:
        return function(batch.rename_columns(names) for batch in batches)

    return df.toDF(*(f"c{at}" for at in range(len(names)))).mapInArrow(with_names, StructType(list(fields)))


def quoted(name: str) -> str:
    """Return the name of a column as Spark's SQL reads it.

    >>> quoted("user id")
    '`user id`'
    """
    return "`" + name.replace("`", "``") + "`"


def fields_of(df: DataFrame, names: Sequence[str]) -> list[StructField]:
    """Return the names and types of columns. DDL could not express all of them, such as the vectors of pyspark.ml."""
    from pyspark.sql.types import StructField

    types = {field.name: field.dataType for field in df.schema.fields}
    return [StructField(name, types[name]) for name in names]


def field(name: str, kind: str) -> StructField:
    """Return a field of a type that has this name in SQL."""
    from pyspark.sql import types

    kinds: dict[str, Any] = {
        "INT": types.IntegerType(),
        "BIGINT": types.LongType(),
        "DOUBLE": types.DoubleType(),
        "STRING": types.StringType(),
        "BINARY": types.BinaryType(),
        "TIMESTAMP": types.TimestampType(),
        "ARRAY<DOUBLE>": types.ArrayType(types.DoubleType()),
    }
    return types.StructField(name, kinds[kind])


def unused_name(df: DataFrame, name: str) -> str:
    """Return the name, with underscores at its end until no column has it."""
    while find_column(df, name) is not None:
        name += "_"
    return name


def find_column(df: DataFrame, name: str) -> str | None:
    """Return the column that Spark finds by this name, without regard to case; None if it finds no column."""
    return next((other for other in df.columns if other.lower() == name.lower()), None)


def _as_tuple(names: str | Sequence[str]) -> tuple[str, ...]:
    return (names,) if isinstance(names, str) else tuple(names)


def _check_names(names: object, role: str) -> None:
    is_list = isinstance(names, Sequence) and all(isinstance(name, str) for name in names)
    if not is_list:  # text is a sequence of text
        raise TypeError(f"{role} is {names!r}; accepted: the name of a column, or a list of names")


def _check_type(types: dict[str, str], name: str, role: str, accepted: Sequence[str], words: str) -> None:
    if name not in types:
        raise ValueError(f"{role} is {name!r}, which is no column; the columns are {', '.join(map(repr, types))}")
    kind = re.sub(r"\([^)]*\)", "", types[name])  # decimal(20,10) is a decimal
    if kind not in accepted:
        raise TypeError(f"{role} is the column {name!r} of type {types[name]}; accepted: {words}")
