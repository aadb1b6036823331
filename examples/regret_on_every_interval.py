"""Compute the regret on every interval of the paper's drifting stream, against the true metric and fixed metrics.

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
    # The hinge loss requires a margin of 1 on both sides; twice the true metric gives most pairs that margin.
    truth = [Metric.from_trusted_matrix(2 * m.true_metric().matrix, 2 * m.true_metric().threshold) for m in steps]
    run = regret.Regret.from_run(track_metric(25, loss="hinge", step_size=3e-3), events, truth, loss)
    worst = run.worst_intervals()

    # Static regret: the comparator is the best of 12 fixed metrics, the true ones at rounds 1, 501, 1001, ...
    candidates = np.array([[loss(metric, event) for metric in truth[::500]] for event in events])
    static = regret.Regret(run.losses, candidates).worst_intervals()

    print("worst interval of each length: dynamic regret, its rounds, path length of the true metric,")
    print("ratio to the bound of Theorem 1 (with C = 0), and static regret")
    print(f"{'length':>7}{'dynamic':>10}{'rounds':>14}{'path':>8}{'ratio':>10}{'static':>10}")
    for length in LENGTHS:
        index = length - 1
        rounds = f"{worst.first[index]}-{worst.last[index]}"
        numbers = f"{worst.path_length[index]:8.1f}{worst.ratio[index]:10.1%}{static.regret[index]:10.1f}"
        print(f"{length:>7}{worst.regret[index]:10.1f}{rounds:>14}{numbers}")
    print(f"largest ratio to the bound on any of the {run.n_rounds * (run.n_rounds + 1) // 2:,} intervals: ", end="")
    print(f"{worst.ratio.max():.1%}, at length {worst.length[worst.ratio.argmax()]}")
    regret.plot_worst_intervals(worst).figure.savefig(picture, dpi=120)
    print(f"Picture: {picture}")


if __name__ == "__main__":
    main(*sys.argv[1:2])
