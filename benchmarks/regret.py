"""Compare the regret of the adaptive method with its bound, on every interval of ten streams of each suite.

    python benchmarks/regret.py [--seed 3000]

The regret is the sum of the log losses of the predictions minus that of an expert, on an interval. The table has, per
stream: the largest ratio of a regret to its bound, over all intervals and experts, in percent; the largest regret
against the calibrated Euclidean distance ("doing nothing"), with its interval; and the regret against it over the whole
stream.
"""

from __future__ import annotations

import argparse
from functools import partial
from typing import Any

import numpy as np
from results import save, show
from rich.console import Console

from ocelad._typing import Floats
from ocelad.adaptive.calibration import log_loss
from ocelad.adaptive.mixture import Mixture
from ocelad.adaptive.precompile import precompile_engines
from ocelad.adaptive.weights import regret_bound
from ocelad.evaluation.regret import Regret
from ocelad.lab.compare.few_answers import BENCHMARKS as FEW_ANSWERS
from ocelad.lab.compare.few_answers.held_out_split import draw_split
from ocelad.lab.compare.suite import BENCHMARKS, FIRST_TEST_SEED
from ocelad.lab.trials import map_trials
from ocelad.pairs import Events

STREAMS = ("S1", "S2", "S4", "S5", "S6", "S7", "S8", "wine", "switching-digits", "image-segments")
ANSWERS = (
    "digits-pca/natural",
    "digits-parity/balanced",
    "digits-rotated/natural",
    "breast-cancer/natural",
    "wine/balanced",
    "iris/natural",
    "image-segments/balanced",
    "phishing/natural",
    "rare-0.2%/balanced",
    "isotropic/natural",
)
N_ROUNDS, N_ANSWERS = 2000, 1000


def stream(name: str, seed: int) -> Events:
    """Return the first rounds of a benchmark of either suite."""
    if name in ANSWERS:
        benchmark = FEW_ANSWERS[name]
        return draw_split(benchmark.load(seed), N_ANSWERS, seed, balanced=benchmark.balanced).answers.events
    return next(iter(BENCHMARKS[name].stream.blocks(seed, every=N_ROUNDS + 1))).events[:N_ROUNDS]


def largest_share_of_the_bound(regrets: Floats, n_candidates: int, scales: list[float]) -> float:
    """Return the largest ratio of a regret to its bound, over all intervals and experts; ``scales`` is R per round."""
    of_one_round = np.array([regret_bound(1, last, n_candidates, scale) for last, scale in enumerate(scales, start=1)])
    sums, worst = np.vstack([np.zeros(regrets.shape[1]), np.cumsum(regrets, axis=0)]), 0.0
    for length in range(1, len(sums)):
        largest = (sums[length:] - sums[:-length]).max(axis=1)
        worst = max(worst, float((largest / (np.sqrt(length) * of_one_round[length - 1 :])).max()))
    return worst


def trial(name: str, seed: int) -> dict[str, Any]:
    """Return the row of a stream."""
    events, regrets, scales = stream(name, seed), [], []
    mixture = Mixture(events.n_features, compiled=True)
    for t in range(len(events)):
        prediction, y = mixture.play(events[t : t + 1]), float(events.y[t])
        regrets.append(log_loss(prediction, y) - log_loss(mixture.aggregator.log_odds, y))
        scales.append(mixture.aggregator.regret_scale)
    table = np.array(regrets)
    worst = Regret(table[:, 0], np.zeros(len(table))).worst_intervals()
    at = int(np.argmax(worst.regret))
    share = largest_share_of_the_bound(table, table.shape[1] + 1, scales)
    return {
        "stream": name,
        "largest share of the bound, %": round(100.0 * share, 2),
        "worst regret against Euclidean": round(float(worst.regret[at]), 1),
        "rounds": f"{worst.first[at]} to {worst.last[at]}",
        "whole stream": round(float(table[:, 0].sum()), 1),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=FIRST_TEST_SEED)
    arguments = parser.parse_args()
    precompile_engines()
    rows = map_trials(partial(trial, seed=arguments.seed), [*STREAMS, *ANSWERS])
    console = Console(width=120)
    show(console, "Regret in nats on every interval", rows)
    console.print(f"Written to {save('regret', {'seed': arguments.seed}, rows)}")


if __name__ == "__main__":
    main()
