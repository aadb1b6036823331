"""Regret on every interval of the paper's drifting stream, against the true metric and against fixed ones.

.venv/bin/python examples/regret_on_every_interval.py [picture.png]
"""

from __future__ import annotations

import sys

import numpy as np

from ocelad import Metric, track_metric
from ocelad.evaluation import regret
from ocelad.evaluation.streams import DriftingClusters

LENGTHS = (1, 10, 100, 1000, 6000)


def main(picture: str = "regret.png", seed: int = 0) -> None:
    steps = list(DriftingClusters(seed=seed))
    events = [step.event() for step in steps]
    loss = regret.margin_loss("hinge")
    # The hinge asks for a margin of 1 on both sides; twice the true metric gives most pairs that margin.
    truth = [Metric.from_trusted_matrix(2 * m.true_metric().matrix, 2 * m.true_metric().threshold) for m in steps]
    run = regret.Regret.from_run(track_metric(25, loss="hinge", step_size=3e-3), events, truth, loss)
    worst = run.worst_intervals()

    # Static regret: the best of some metrics that never change, the truth at the start of each 500 rounds.
    candidates = np.array([[loss(metric, event) for metric in truth[::500]] for event in events])
    static = regret.Regret(run.losses, candidates).worst_intervals()

    print("worst interval of each length: regret, where, how far the truth moved, share of Theorem 1's bound (C = 0)")
    print(f"{'length':>7}{'dynamic':>10}{'rounds':>14}{'moved':>8}{'of bound':>10}{'static':>10}")
    for length in LENGTHS:
        at = length - 1
        where = f"{worst.first[at]}-{worst.last[at]}"
        numbers = f"{worst.path_length[at]:8.1f}{worst.ratio[at]:10.1%}{static.regret[at]:10.1f}"
        print(f"{length:>7}{worst.regret[at]:10.1f}{where:>14}{numbers}")
    print(f"largest share of the bound on any of the {run.n_rounds * (run.n_rounds + 1) // 2:,} intervals: ", end="")
    print(f"{worst.ratio.max():.1%}, at length {worst.length[worst.ratio.argmax()]}")
    regret.plot_worst_intervals(worst).figure.savefig(picture, dpi=120)
    print(f"Picture: {picture}")


if __name__ == "__main__":
    main(*sys.argv[1:2])
