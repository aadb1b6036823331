"""What a method is to the comparison: how it is made, what it needs, and what may be tuned."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from math import exp, log
from typing import Any, NamedTuple

import numpy as np

from ocelad.lab.compare.comparison_streams import EvalSet, SideInformation, Stream
from ocelad.lab.compare.scoring import Contender


class Setting(NamedTuple):
    """What a method is told before the first round.

    Attributes
    ----------
    n_features : int
    rounds : int
        How long the stream is, for methods that must know.
    seed : int
        For methods that draw.
    opening : Scene or None
        Points with their classes before the first round, for methods that need "labels".
    sparse : bool
        Whether points are sparse.
    """

    n_features: int
    rounds: int
    seed: int
    opening: EvalSet | None
    sparse: bool = False


class Between(NamedTuple):
    """A hyperparameter that is tuned over a range of orders of magnitude."""

    low: float
    high: float

    def draw(self, rng: np.random.Generator) -> float:
        """A value, all magnitudes equally likely; of three digits, so that it can be read and typed."""
        return float(f"{exp(rng.uniform(log(self.low), log(self.high))):.3g}")


class OneOf(NamedTuple):
    """A hyperparameter that is tuned over a few values."""

    values: tuple[Any, ...]

    def draw(self, rng: np.random.Generator) -> Any:
        """A value, all equally likely."""
        return self.values[rng.integers(len(self.values))]


@dataclass(frozen=True)
class Method:
    """A method as it can be compared.

    Parameters
    ----------
    name : str
        What it is called on the command line.
    about : str
        One line.
    make : callable
        Of a ``Setting`` and the settings by their names; it makes a ``Contender``.
    settings : mapping
        The hyperparameters with their defaults; of those, and of no others, ``make`` takes other values.
    search : mapping from name to Between or OneOf
        Which of them are tuned, and where.
    needs : frozenset of Gift
        What a stream must tell beside its pairs.
    sparse : bool
        Whether it takes sparse points.
    group : str
        What ``--list`` puts it under.
    changed : mapping
        What differs from the defaults; ``with_settings`` sets it.

    Examples
    --------
    >>> from ocelad import Metric
    >>> from ocelad.lab.compare.contestants import Fixed
    >>> first = Method("first", "the first feature alone", lambda setting: Fixed(
    ...     Metric.from_diagonal(np.eye(setting.n_features)[0])))
    >>> first.label
    'first'
    """

    name: str
    metadata: str
    make: Callable[..., Contender]
    settings: Mapping[str, Any] = field(default_factory=dict)
    search: Mapping[str, Between | OneOf] = field(default_factory=dict)
    needs: frozenset[SideInformation] = frozenset()
    sparse: bool = False
    group: str = "others"
    changed: Mapping[str, Any] = field(default_factory=dict)

    @property
    def label(self) -> str:
        """Its name, with what differs from the defaults."""
        if not self.changed:
            return self.name
        return f"{self.name}:{','.join(f'{key}={_shown(value)}' for key, value in self.changed.items())}"

    @property
    def values(self) -> dict[str, Any]:
        """All hyperparameters."""
        return {**self.settings, **self.changed}

    def with_settings(self, **changed: Any) -> Method:
        """The same with other hyperparameters.

        >>> Method("m", "", print, {"step_size": 1.0}).with_settings(step_size=0.5).label
        'm:step_size=0.5'
        """
        for key in changed:
            if key not in self.settings:
                accepted = ", ".join(self.settings) or "none"
                raise ValueError(f"{self.name} has no setting {key!r}; accepted: {accepted}")
        return replace(self, changed={**self.changed, **changed})

    def contender(self, setting: Setting) -> Contender:
        """It, before the first round."""
        return self.make(setting, **self.values)

    def tried(self, stream: Stream) -> None:
        """Make it once, on made-up points: a setting that it does not take is refused now and not in every trial."""
        rng = np.random.default_rng(0)
        opening = (
            EvalSet(rng.normal(size=(60, stream.n_features)), np.arange(60) % 3) if "labels" in self.needs else None
        )
        try:
            made = self.contender(Setting(stream.n_features, stream.rounds, 0, opening, stream.sparse))
        except (TypeError, ValueError) as error:
            raise ValueError(f"{self.label}: {error}") from error
        if not all(callable(getattr(made, name, None)) for name in ("play", "update")):
            raise ValueError(f"{self.label}: make returned a {type(made).__name__}, which has no play and update")

    def why_not(self, stream: Stream) -> str | None:
        """Why it cannot take the stream, if so."""
        words = {
            "labels": "the classes of the points",
            "changes": "to be told when the question changes",
            "truth": "the true metric",
            "length": "to know how long the stream is",
        }
        lacking = [words[need] for need in sorted(self.needs - stream.gives)]
        if lacking:
            return f"it needs {' and '.join(lacking)}"
        if stream.sparse and not self.sparse:
            return f"it does not take sparse points ({stream.n_features:,} features)"
        return None


def parsed(text: str, methods: Mapping[str, Method]) -> Method:
    """The method that ``name`` or ``name:key=value,key=value`` names.

    >>> known = {"comid": Method("comid", "", print, {"step_size": 0.01, "loss": "hinge"})}
    >>> parsed("comid:step_size=1e-3,loss=logistic", known).values
    {'step_size': 0.001, 'loss': 'logistic'}
    """
    name, _, rest = text.partition(":")
    if name not in methods:
        near = difflib.get_close_matches(name, methods, n=1)
        also = f" (did you mean {near[0]!r}?)" if near else ""
        raise ValueError(f"there is no method {name!r}{also}; accepted: {', '.join(methods)}")
    method = methods[name]
    changed = {}
    for part in filter(None, rest.split(",")):
        key, equals, value = part.partition("=")
        if not equals:
            raise ValueError(f"{text!r}: {part!r} is no setting; accepted: {name}:key=value,key=value")
        if key.strip() in changed:
            raise ValueError(f"{text!r} says {key.strip()} twice; accepted: every setting once")
        changed[key.strip()] = _value(value.strip())
    return method.with_settings(**changed)


def check_stream(methods: Iterable[Method], stream: Stream) -> None:
    """Refuse, before anything is computed, methods that cannot take the stream."""
    reasons = {method.label: method.why_not(stream) for method in methods}
    refused = [f"{label}: {reason}" for label, reason in reasons.items() if reason is not None]
    if refused:
        fitting = [label for label, reason in reasons.items() if reason is None]
        also = f"; these can: {', '.join(fitting)}" if fitting else ""
        raise ValueError(f"not every method can take the stream {stream.name!r} ({'; '.join(refused)}){also}")


def _value(text: str) -> Any:
    """What a setting's text says: nothing, truth, a number, several with / between, or a word.

    >>> [_value(text) for text in ("none", "true", "12", "1e-3", "1/2.5", "hinge")]
    [None, True, 12, 0.001, (1, 2.5), 'hinge']
    """
    words = {"none": None, "true": True, "false": False}
    if text.lower() in words:
        return words[text.lower()]
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            pass
    if "/" in text:
        return tuple(_value(part) for part in text.split("/"))
    return text


def _shown(value: Any) -> str:
    if isinstance(value, tuple):
        return "/".join(_shown(part) for part in value)
    return str(value)
