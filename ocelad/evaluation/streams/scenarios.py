"""Named streams for comparisons of methods: each shows another kind of change."""

from __future__ import annotations

from dataclasses import dataclass

from ocelad.evaluation.streams.drifting_clusters import PAPER_PHASES, DriftingClusters, Phase


@dataclass(frozen=True, slots=True)
class Scenario:
    """What is drawn, but for the seed.

    Attributes
    ----------
    description : str
        One line.
    phases : tuple of Phase
    flipped : float
        Probability that an answer is the wrong one.
    turned : bool
        Whether the data are turned at random before the first round, so that no feature is special.
    noise, units
        As of ``DriftingClusters``.

    Examples
    --------
    >>> stream = SCENARIOS["switching"].stream(seed=1)
    >>> len(stream), [phase.name for phase in stream.phases[:2]]
    (3000, ['A, from round 1', 'B, from round 301'])
    """

    description: str
    phases: tuple[Phase, ...]
    flipped: float = 0.0
    turned: bool = True
    noise: str = "normal"
    units: bool = False

    def stream(self, seed: int) -> DriftingClusters:
        """The stream of a seed."""
        return DriftingClusters(
            self.phases, flipped=self.flipped, turned=self.turned, noise=self.noise, units=self.units, seed=seed
        )


def _switching(length: int, every: int) -> tuple[Phase, ...]:
    """A, B, A, B, ...; each so many rounds."""
    begins = range(0, length, every)
    return tuple(
        Phase(f"{'AB'[i % 2]}, from round {begin + 1}", "AB"[i % 2], 0.0, every) for i, begin in enumerate(begins)
    )


# "paper" is the paper's own; "noisy" differs from it in the wrong answers alone. Each of "turned", and those after it,
# differs from "turned" in one thing.
SCENARIOS: dict[str, Scenario] = {
    "paper": Scenario("clustering A, then B with three rates of drift, then A again", PAPER_PHASES, turned=False),
    "static": Scenario("clustering A, nothing changes", (Phase("A, static", "A", 0.0, 3000),)),
    "slow": Scenario("clustering A, slow drift", (Phase("A, slow drift", "A", 0.003, 3000),)),
    "fast": Scenario("clustering A, very fast drift", (Phase("A, very fast drift", "A", 0.1, 3000),)),
    "switching": Scenario("A and B in turns of 300 rounds, no drift", _switching(3000, 300)),
    "noisy": Scenario("the paper's, with 10 % wrong answers", PAPER_PHASES, flipped=0.1, turned=False),
    "turned": Scenario("the paper's, turned at random before the first round", PAPER_PHASES),
    "turned-noisy": Scenario("the same, with 10 % wrong answers", PAPER_PHASES, flipped=0.1),
    "heavy-tailed": Scenario("the same, with Student's t noise of 3 degrees of freedom", PAPER_PHASES, noise="t3"),
    "units": Scenario("the same, with features in very different units", PAPER_PHASES, units=True),
}
