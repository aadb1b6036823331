"""``Method``: how a method is created, what it requires, and which of its settings are tuned."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from math import exp, log
from typing import Any, NamedTuple, Protocol

import numpy as np

from ocelad.lab.compare.block_streams import EvalSet, SideInformation
from ocelad.lab.compare.scoring import BlockLearner, OddsLearner


class StreamProperties(Protocol):
    """What decides whether a method can run on a stream; see ``Stream``."""

    @property
    def name(self) -> str: ...
    @property
    def n_features(self) -> int: ...
    @property
    def rounds(self) -> int: ...
    @property
    def sparse(self) -> bool: ...
    @property
    def provides(self) -> frozenset[SideInformation]: ...


class StreamInfo(NamedTuple):
    """What a method knows about the stream before the first round.

    Attributes
    ----------
    n_features : int
    rounds : int
        The length of the stream, for methods that require "length".
    seed : int
        The seed of the stream, for methods that draw random numbers.
    initial_points : EvalSet or None
        The labelled points before the first round, for methods that require "labels".
    sparse : bool
        Whether the points are sparse.
    items : array or None
        Points without labels, for methods that require "items".
    """

    n_features: int
    rounds: int
    seed: int
    initial_points: EvalSet | None
    sparse: bool = False
    items: Any = None


class LogUniform(NamedTuple):
    """The search space of a hyperparameter that is tuned on a logarithmic scale."""

    low: float
    high: float

    def sample(self, rng: np.random.Generator) -> float:
        """Draw a value log-uniformly, rounded to three significant digits so that it can be read and typed."""
        return float(f"{exp(rng.uniform(log(self.low), log(self.high))):.3g}")


class Categorical(NamedTuple):
    """The search space of a hyperparameter that is tuned over a few values."""

    values: tuple[Any, ...]

    def sample(self, rng: np.random.Generator) -> Any:
        """Draw a value uniformly."""
        return self.values[rng.integers(len(self.values))]


@dataclass(frozen=True)
class Method:
    """A method that can be compared.

    Parameters
    ----------
    name : str
        Its name on the command line.
    description : str
        One line about it.
    factory : callable (info, settings as keywords) -> BlockLearner or OddsLearner
        Creates the learner from a ``StreamInfo`` and the settings. It may be both; an ``OddsLearner`` without ``play``
        can take part in the few-answers suite only.
    defaults : mapping
        The hyperparameters with their default values. Only these can be changed.
    search_space : mapping from name to LogUniform or Categorical
        The hyperparameters that are tuned, and the values that are tried.
    requires : frozenset of SideInformation
        The side information that the stream must provide besides its pairs.
    sparse : bool
        Whether it accepts sparse points.
    group : str
        Its group in ``--list``.
    overrides : mapping
        The settings that differ from the defaults; set by ``with_settings``.
    built_in : bool
        Whether the method is part of this package. Any error of another method is a failure, which the comparison
        reports. An unexpected error of a built-in method is a bug, and propagates.

    Examples
    --------
    >>> from ocelad import Metric
    >>> from ocelad.lab.compare.adapters import FixedAdapter
    >>> first = Method("first", "only the first feature", lambda info: FixedAdapter(
    ...     Metric.from_diagonal(np.eye(info.n_features)[0])))
    >>> first.label
    'first'
    """

    name: str
    description: str
    factory: Callable[..., BlockLearner | OddsLearner]
    defaults: Mapping[str, Any] = field(default_factory=dict)
    search_space: Mapping[str, LogUniform | Categorical] = field(default_factory=dict)
    requires: frozenset[SideInformation] = frozenset()
    sparse: bool = False
    group: str = "others"
    overrides: Mapping[str, Any] = field(default_factory=dict)
    built_in: bool = False

    @property
    def label(self) -> str:
        """Its name, followed by the settings that differ from the defaults."""
        if not self.overrides:
            return self.name
        return f"{self.name}:{','.join(f'{key}={_format_value(value)}' for key, value in self.overrides.items())}"

    @property
    def settings(self) -> dict[str, Any]:
        """The values of all hyperparameters."""
        return {**self.defaults, **self.overrides}

    def with_settings(self, **overrides: Any) -> Method:
        """Return the method with other hyperparameters.

        >>> Method("m", "", print, {"step_size": 1.0}).with_settings(step_size=0.5).label
        'm:step_size=0.5'
        """
        for key in overrides:
            if key not in self.defaults:
                accepted = ", ".join(self.defaults) or "none"
                raise ValueError(f"{self.name} has no setting {key!r}; accepted: {accepted}")
        return replace(self, overrides={**self.overrides, **overrides})

    def create(self, info: StreamInfo) -> BlockLearner | OddsLearner:
        """Create the learner before the first round."""
        return self.factory(info, **self.settings)

    def check_settings(self, stream: StreamProperties, *, needs_play: bool = True) -> None:
        """Create the learner once on random points, to raise ValueError for a bad setting before any trial runs.

        With ``needs_play`` a learner that has log odds only is refused, too.
        """
        rng = np.random.default_rng(0)
        points = (
            EvalSet(rng.normal(size=(60, stream.n_features)), np.arange(60) % 3) if "labels" in self.requires else None
        )
        try:
            learner = self.create(StreamInfo(stream.n_features, stream.rounds, 0, points, stream.sparse))
        except (TypeError, ValueError) as error:
            raise ValueError(f"{self.label}: {error}") from error
        kind = type(learner).__name__
        if callable(getattr(learner, "loss", None)):  # its update would be called with a block
            raise ValueError(
                f"{self.label}: factory returned a {kind}, which learns from single events (it has a loss); "
                "wrap it in LearnerAdapter of ocelad.lab.compare.adapters"
            )
        if isinstance(learner, BlockLearner) or (isinstance(learner, OddsLearner) and not needs_play):
            return
        lacking = "play and update" if needs_play else "play or log_odds, and update"
        raise ValueError(
            f"{self.label}: factory returned a {kind}, which has no {lacking}; see ocelad.lab.compare.adapters"
        )

    def incompatibility(self, stream: StreamProperties) -> str | None:
        """Return the reason why the method cannot run on the stream, or None if it can."""
        names = {
            "labels": "the classes of the points",
            "changes": "the rounds of concept changes",
            "truth": "the true metric",
            "length": "the length of the stream",
            "items": "points without labels",
        }
        lacking = [names[requirement] for requirement in sorted(self.requires - stream.provides)]
        if lacking:
            return f"it requires {' and '.join(lacking)}"
        if stream.sparse and not self.sparse:
            return f"it does not accept sparse points ({stream.n_features:,} features)"
        return None


def parse_method(text: str, methods: Mapping[str, Method]) -> Method:
    """Return the method that ``name`` or ``name:key=value,key=value`` denotes.

    >>> known = {"comid": Method("comid", "", print, {"step_size": 0.01, "loss": "hinge"})}
    >>> parse_method("comid:step_size=1e-3,loss=logistic", known).settings
    {'step_size': 0.001, 'loss': 'logistic'}
    """
    check_known([text], methods)
    name, _, rest = text.partition(":")
    method = methods[name]
    overrides = {}
    for part in filter(None, rest.split(",")):
        key, equals, value = part.partition("=")
        if not equals:
            raise ValueError(f"{text!r}: {part!r} is not a setting; accepted: {name}:key=value,key=value")
        if key.strip() in overrides:
            raise ValueError(f"{text!r} sets {key.strip()} twice; accepted: each setting once")
        overrides[key.strip()] = _parse_value(value.strip())
    return method.with_settings(**overrides)


def check_known(texts: Iterable[str], methods: Mapping[str, Method]) -> None:
    """Raise ValueError that lists all names, each possibly followed by settings, that denote no method.

    >>> check_known(["comdi", "rice:step_size=1"], {"comid": Method("comid", "", print)})
    Traceback (most recent call last):
        ...
    ValueError: there is no method 'comdi' (did you mean 'comid'?), and no method 'rice'; accepted: comid
    """
    names = dict.fromkeys(text.partition(":")[0] for text in texts)
    unknown = ", and no method ".join(f"{name!r}{_hint(name, methods)}" for name in names if name not in methods)
    if unknown:
        raise ValueError(f"there is no method {unknown}; accepted: {', '.join(methods)}")


def _hint(name: str, methods: Mapping[str, Method]) -> str:
    if "," in name:
        return " (on the command line, separate names by spaces)"
    similar = difflib.get_close_matches(name, methods, n=1)
    return f" (did you mean {similar[0]!r}?)" if similar else ""


def check_stream(methods: Iterable[Method], stream: StreamProperties) -> None:
    """Raise ValueError if a method cannot run on the stream."""
    reasons = {method.label: method.incompatibility(stream) for method in methods}
    rejected = [f"{label}: {reason}" for label, reason in reasons.items() if reason is not None]
    if rejected:
        compatible = [label for label, reason in reasons.items() if reason is None]
        hint = f"; these can: {', '.join(compatible)}" if compatible else ""
        raise ValueError(f"not every method can run on the stream {stream.name!r} ({'; '.join(rejected)}){hint}")


def _parse_value(text: str) -> Any:
    """Parse the value of a setting: none, a boolean, a number, several values separated by /, or a string.

    >>> [_parse_value(text) for text in ("none", "true", "12", "1e-3", "1/2.5", "hinge")]
    [None, True, 12, 0.001, (1, 2.5), 'hinge']
    """
    constants = {"none": None, "true": True, "false": False}
    if text.lower() in constants:
        return constants[text.lower()]
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            pass
    if "/" in text:
        return tuple(_parse_value(part) for part in text.split("/"))
    return text


def _format_value(value: Any) -> str:
    if isinstance(value, tuple):
        return "/".join(_format_value(part) for part in value)
    return str(value)
