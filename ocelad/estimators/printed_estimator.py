"""PrintedEstimator: an estimator of scikit-learn whose parameters are printed in short, also if they hold tables."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Any

from sklearn.base import BaseEstimator

from ocelad._validation import is_sparse
from ocelad.io import dataframes

# The modules of scikit-learn that print estimators as text, and the one whose method makes the table in HTML.
_TEXT_PRINTER, _HTML_PRINTER = "sklearn.utils._pprint", ("sklearn.base", "_get_params_html")


class PrintedEstimator(BaseEstimator):  # type: ignore[misc]
    """Prints an array, a table or a mapping among its parameters as one short description.

    >>> import numpy as np
    >>> from ocelad import MetricTracker
    >>> MetricTracker(preprocessor=np.zeros((1797, 64)))
    MetricTracker(preprocessor=<array of shape (1797, 64)>)
    """

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Return the parameters by name; see ``sklearn.base.BaseEstimator.get_params``."""
        params: dict[str, Any] = super().get_params(deep)
        # scikit-learn prints an estimator, also one within a pipeline or a search, from the values of this method, and
        # prints a whole table among them. Overriding __repr__ would change neither nested estimators nor HTML.
        caller = sys._getframe(1)
        module = caller.f_globals.get("__name__")
        if module == _TEXT_PRINTER or (module, caller.f_code.co_name) == _HTML_PRINTER:
            return {name: Described(value) if _is_table(value) else value for name, value in params.items()}
        return params


class Described:
    """Stands for a table where an estimator is printed."""

    def __init__(self, value: Any) -> None:
        self._value = value

    def __repr__(self) -> str:
        return f"<{describe_table(self._value)}>"


def describe_table(value: Any) -> str:
    """Describe an array, a sparse matrix, a dataframe, a list or a mapping in a few words.

    >>> describe_table({"a": [0.0, 1.0]}), describe_table([[0.0, 1.0], [2.0, 3.0]])
    ('mapping of 1 item', 'list of 2 points')
    """
    if isinstance(value, Mapping):
        return f"mapping of {len(value)} item{'s' if len(value) != 1 else ''}"
    if isinstance(value, list | tuple):
        return f"{type(value).__name__} of {len(value)} point{'s' if len(value) != 1 else ''}"
    if is_sparse(value):
        return f"sparse matrix of shape {value.shape}"
    if dataframes.is_dataframe(value):
        return f"{type(value).__module__.partition('.')[0]} table of shape {tuple(value.shape)}"
    return f"array of shape {tuple(value.shape)}"


def _is_table(value: Any) -> bool:
    return isinstance(value, Mapping | list | tuple) or (
        hasattr(value, "shape") and not isinstance(value, type) and len(value.shape) > 0
    )
