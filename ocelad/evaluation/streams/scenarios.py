"""Named scenarios for the comparison of methods, each with another kind of change."""

from __future__ import annotations

from dataclasses import dataclass

from ocelad.evaluation.streams.drifting_clusters import PAPER_PHASES, DriftingClusters, Phase


@dataclass(frozen=True, slots=True)
class Scenario:
    """The parameters of a ``DriftingClusters`` stream without its seed.

    Attributes
    ----------
    description : str
        One line.
    phases : tuple of Phase
    label_noise : float
        The probability that a label is wrong.
    random_rotation : bool
        Whether the data are rotated at random before the first round, so that no feature is special.
    feature_noise, random_units
        As in ``DriftingClusters``.

    Examples
    --------
    >>> stream = SCENARIOS["switching"].stream(seed=1)
    >>> len(stream), [phase.name for phase in stream.phases[:2]]
    (3000, ['A, from round 1', 'B, from round 301'])
    """

    description: str
    phases: tuple[Phase, ...]
    label_noise: float = 0.0
    random_rotation: bool = True
    feature_noise: str = "normal"
    random_units: bool = False

    def stream(self, seed: int) -> DriftingClusters:
        """Return the stream of a seed."""
        return DriftingClusters(
            self.phases,
            label_noise=self.label_noise,
            random_rotation=self.random_rotation,
            feature_noise=self.feature_noise,
            random_units=self.random_units,
            seed=seed,
        )


def _switching(length: int, every: int) -> tuple[Phase, ...]:
    """Return phases that alternate between A and B after every ``every`` rounds."""
    begins = range(0, length, every)
    return tuple(
        Phase(f"{'AB'[i % 2]}, from round {begin + 1}", "AB"[i % 2], 0.0, every) for i, begin in enumerate(begins)
    )


# "noisy" differs from "paper" only in the wrong labels. The scenarios after "rotated" differ from it in one parameter.
SCENARIOS: dict[str, Scenario] = {
    "paper": Scenario(
        "clustering A, then B with three rates of drift, then A again", PAPER_PHASES, random_rotation=False
    ),
    "static": Scenario("clustering A, no change", (Phase("A, static", "A", 0.0, 3000),)),
    "slow": Scenario("clustering A, slow drift", (Phase("A, slow drift", "A", 0.003, 3000),)),
    "fast": Scenario("clustering A, very fast drift", (Phase("A, very fast drift", "A", 0.1, 3000),)),
    "switching": Scenario("A and B alternate every 300 rounds, no drift", _switching(3000, 300)),
    "noisy": Scenario(
        "the paper's scenario with 10 % wrong labels", PAPER_PHASES, label_noise=0.1, random_rotation=False
    ),
    "rotated": Scenario("the paper's scenario, rotated at random before the first round", PAPER_PHASES),
    "rotated-noisy": Scenario("rotated, with 10 % wrong labels", PAPER_PHASES, label_noise=0.1),
    "heavy-tailed": Scenario(
        "rotated, with Student's t noise of 3 degrees of freedom", PAPER_PHASES, feature_noise="t3"
    ),
    "units": Scenario("rotated, with features in very different units", PAPER_PHASES, random_units=True),
}
