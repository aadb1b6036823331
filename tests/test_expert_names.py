"""Words for experts: each expert of the package has some, and groups lose no weight."""

import numpy as np
import pytest

from ocelad.adaptive.expert_names import OTHERS, describe_expert, expert_group, group_weights
from ocelad.adaptive.mixture import Mixture
from ocelad.ensemble.schedule import Schedule

MIXTURES = (
    {"n_features": 5},
    {"n_features": 5, "n_curved": 2, "discriminants": ("groups", "curved groups")},
    {"n_features": 200},
    {"n_features": 200, "sparse": True},
    {"n_features": 5, "events": "relatives"},
)


@pytest.mark.parametrize("settings", MIXTURES, ids=str)
def test_every_expert_has_words_of_its_own_and_a_group(settings):
    names = Mixture(**settings).expert_names
    words = [describe_expert(name) for name in names]
    assert not set(words) & set(names), "a technical name has no words"
    assert len(set(words)) == len(names)
    groups = {expert_group(name) for name in names}
    assert not groups & set(names)
    assert len(groups) <= 9


def test_every_scale_has_words_of_its_own_and_a_group():
    lengths = [str(Schedule().scale(j).length) for j in range(30)]
    assert len({describe_expert(length) for length in lengths} - set(lengths)) == 30
    groups = {expert_group(length) for length in lengths}
    assert len(groups) == 5
    for group in groups - {"intervals of 4096 pairs or more"}:  # the name says which lengths belong to it
        low, high = group.removeprefix("intervals of ").removesuffix(" pairs").split("–")
        inside = [length for length in lengths if int(low) <= int(length) <= int(high)]
        assert inside == [length for length in lengths if expert_group(length) == group]


def test_an_expert_of_the_user_keeps_its_name():
    assert describe_expert("my distance") == expert_group("my distance") == "my distance"


def test_groups_lose_no_weight_and_small_ones_are_others():
    names = [*Mixture(5).expert_names, "own"]
    weights = np.random.default_rng(0).random((20, len(names)))
    weights[:, names.index("memory 1") : names.index("memory 3") + 1] = 1e-4
    weights[:, names.index("COMID 9.5") : names.index("COMID 0.6") + 1] = 1e-4
    weights[3, names.index("COMID 2.4")] = 3.0  # large in one row only, which a picture must show
    weights /= weights.sum(axis=1, keepdims=True)
    groups, sums = group_weights(names, weights)
    np.testing.assert_allclose(sums.sum(axis=1), 1.0)
    assert groups[-1] == OTHERS
    assert "earlier distances" not in groups
    assert {"own", "gradient steps (COMID)"} <= set(groups)
