"""FleetSettings: what the file of a fleet says about its answers and its trackers."""

from __future__ import annotations

import json
from hashlib import sha256
from typing import NamedTuple

import numpy as np

from ocelad._validation import is_encodable
from ocelad.adaptive.shared_prior import SharedPrior
from ocelad.fleet.packed_trackers import Form
from ocelad.metric import Metric


class FleetSettings(NamedTuple):
    """The settings of a fleet.

    Attributes
    ----------
    n_features : int or None
        None: that of the first pairs.
    form : {"exact", "compact"}
    shared : str
        What ``kind_of_prior`` returned.
    feature_names : tuple of str, or None
        The names of the columns, if the first pairs came in tables.
    dissimilar_label : float or None
        The number that stands for "different": 0 or -1; None: unknown yet.
    """

    n_features: int | None
    form: Form
    shared: str
    feature_names: tuple[str, ...] | None = None
    dissimilar_label: float | None = None

    @property
    def has_fixed_prior(self) -> bool:
        """Whether new keys begin with a prior that was given, and stays as it is."""
        return self.shared not in ("learned", "none")

    def to_json(self) -> bytes:
        """Return the settings as JSON.

        >>> settings = FleetSettings(3, "exact", "none", ("a", "b", "c"), -1.0)
        >>> FleetSettings.from_json(settings.to_json()) == settings
        True
        """
        return json.dumps(self._asdict()).encode()

    @classmethod
    def from_json(cls, data: bytes) -> FleetSettings:
        """Return the settings of which ``to_json`` returned the JSON."""
        settings = cls(**json.loads(data))
        names = settings.feature_names
        return settings._replace(feature_names=None if names is None else tuple(names))

    def check_file(self, of_file: FleetSettings, name: str) -> None:
        """Refuse a file of a fleet with other settings than these, which were asked for."""
        n = self.n_features
        if n is not None and of_file.n_features is not None and n != of_file.n_features:
            raise ValueError(
                f"{name} has a fleet of {of_file.n_features} features; got n_features={n}; accepted: "
                f"{of_file.n_features}, or None"
            )
        if of_file.form != self.form:
            raise ValueError(
                f"{name} has a fleet of the form {of_file.form!r}; got form={self.form!r}; accepted: the same form"
            )
        if of_file.shared != self.shared:
            words = {"learned": "shared=True", "none": "shared=False"}
            raise ValueError(
                f"{name} has a fleet with {words.get(of_file.shared, 'another prior as shared')}; accepted: the same "
                "prior"
            )


def check_note(note: str) -> str:
    """Return a note, after checking it."""
    if not isinstance(note, str):
        raise TypeError(f"note is a {type(note).__name__}; accepted: a text")
    if not is_encodable(note):
        raise ValueError("note cannot be encoded as UTF-8; accepted: a text")
    return note


def kind_of_prior(shared: bool | SharedPrior) -> str:
    """Return "learned" or "none", or a text that stands for the fixed prior."""
    if not isinstance(shared, SharedPrior):
        return "learned" if shared else "none"
    metric = shared.metric
    values = [metric.threshold, metric.round, shared.log_weight]
    arrays = {name: np.asarray(array).tolist() for name, array in metric.arrays().items()}
    return "fixed: " + sha256(json.dumps([values, arrays]).encode()).hexdigest()


def prior_to_bytes(prior: SharedPrior) -> bytes:
    """Return a fixed prior as bytes.

    >>> prior = SharedPrior(Metric.from_diagonal([4.0, 0.0]), log_weight=-1.0)
    >>> prior_from_bytes(prior_to_bytes(prior)) == prior
    True
    """
    from safetensors.numpy import save

    values = [prior.metric.threshold, prior.metric.round, prior.log_weight]
    return save({name: np.array(array) for name, array in prior.metric.arrays().items()}, {"prior": json.dumps(values)})


def prior_from_bytes(data: bytes) -> SharedPrior:
    """Return the prior of which ``prior_to_bytes`` returned the bytes."""
    from safetensors.numpy import load

    length = int.from_bytes(data[:8], "little")
    threshold, round, log_weight = json.loads(json.loads(data[8 : 8 + length])["__metadata__"]["prior"])
    return SharedPrior(Metric.from_arrays(load(data), threshold, round), log_weight)
