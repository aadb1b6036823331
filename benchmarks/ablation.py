"""Take each part out of the adaptive method, and halve and double each of its constants.

    python benchmarks/ablation.py [--seeds 8] [--jobs -1]

A row is a variant of ``AdaptiveConfig``. The columns are differences to the method as it is, paired by seed: the k-NN
error of drifting streams, and the mean k-NN error, ranking error and log loss of several data sets after 100 and 1000
answers. An asterisk marks a significant difference (95 %); a positive one means that the variant is worse. The last
columns name the cells in which a variant loses and gains most: a part pays if it pays somewhere. "No restarts" reports
no changes and stores no memories, either. The seeds, from 5000 on, are used for nothing else. The row of the reviews
needs their folder in ``OCELAD_DATA``. All cells are in the file of results.
"""

from __future__ import annotations

import argparse
import os
from dataclasses import fields, replace
from functools import partial
from typing import Any

import numpy as np
from results import save
from rich.console import Console
from rich.table import Table

from ocelad.adaptive.adaptive_tracker import AdaptiveTracker
from ocelad.adaptive.config import AdaptiveConfig
from ocelad.lab.compare.adapters import EnsembleAdapter
from ocelad.lab.compare.few_answers.answer_benchmarks import ANSWER_BENCHMARKS
from ocelad.lab.compare.few_answers.checkpoint_trial import run_checkpoints
from ocelad.lab.compare.methods import Method, StreamInfo
from ocelad.lab.compare.suite.benchmarks import BENCHMARKS
from ocelad.lab.compare.trial import run_trial
from ocelad.lab.statistics import estimate_mean
from ocelad.lab.trials import map_trials

FIRST_SEED = 5000
STREAMS = ("S1", "S5", "S8", "wine")
FEW_ANSWERS = (
    "digits-pca/natural",
    "digits-parity/natural",
    "breast-cancer/balanced",
    "image-segments/natural",
    "isotropic/natural",
    "reviews-300-sentiment/natural",
)
MEASURES = ("k-NN", "ranking", "log loss")
CHECKPOINTS = (100, 1000)
BASE = AdaptiveConfig()
#: Parts that can be taken out, with the constants that take them out.
PARTS: dict[str, dict[str, Any]] = {
    "no windows": {"windows": (), "scaled_windows": ()},
    "no scaled windows": {"scaled_windows": ()},
    "one COMID learner": {"comid_steps": BASE.comid_steps[1:2], "low_rank_steps": BASE.low_rank_steps[1:2]},
    "one memory": {"n_memories": 1},
    "no restarts": {"detection_level": 1e9},
    "no handicap": {"handicap": 0.0},
    "no trust in the prior": {"trust_exponent": 1e3},
    "full trust in the prior": {"trust_exponent": 0.0},
    "no expert without prior": {"no_prior_penalty": 1e3},
    "no combination with the prior": {"prior_parts": 1e9},
    "no recalibration": {"recalibration_pseudo_count": 1e9},
    "no limit of outliers": {"winsor_limit": 1e9},
}
# Their halves and doubles would be other data structures, not other constants.
UNSCALED = ("max_moment_features", "n_memories")


def variants() -> dict[str, AdaptiveConfig]:
    """Return all configurations by name; the first is the method as it is."""
    configs = {"as it is": BASE} | {name: replace(BASE, **constants) for name, constants in PARTS.items()}
    for field in fields(BASE):
        if field.name not in UNSCALED:
            value = getattr(BASE, field.name)
            for name, factor in (("half", 0.5), ("double", 2.0)):
                configs[f"{name} {field.name}"] = replace(BASE, **{field.name: _scaled(value, factor)})
    return configs


def _scaled(value: Any, factor: float) -> Any:
    if isinstance(value, tuple):
        return tuple(_scaled(each, factor) for each in value)
    return max(1, round(factor * value)) if isinstance(value, int) else factor * value


def _make(config: AdaptiveConfig, info: StreamInfo) -> Any:
    return Odds(AdaptiveTracker(info.n_features, sparse=info.sparse, config=config))


class Odds(EnsembleAdapter):
    """Runs the tracker of a variant."""

    def log_odds(self, X: Any, Z: Any) -> Any:
        return self._ensemble.log_odds(X - Z)  # type: ignore[union-attr]


def trial(task: tuple[str, str, int]) -> dict[str, float]:
    """Return the scores of a variant on a benchmark and seed."""
    variant, benchmark, seed = task
    method = Method(variant, variant, partial(_make, variants()[variant]))
    if benchmark in STREAMS:
        (record,) = run_trial(BENCHMARKS[benchmark].stream, [method], seed, 100, score_pairs=False)
        return {f"{benchmark} error": 100 * float(np.nanmean(record.values("knn_error")))}
    (scores,) = run_checkpoints(ANSWER_BENCHMARKS[benchmark], [method], seed, CHECKPOINTS)
    result = {}
    for at, n_answers in enumerate(CHECKPOINTS):
        result[f"{benchmark} {n_answers} k-NN"] = 100 * float(scores.values("knn_error")[at])
        result[f"{benchmark} {n_answers} ranking"] = 100 * float(scores.values("distance_ranking_error")[at])
        result[f"{benchmark} {n_answers} log loss"] = float(scores.values("log_loss")[at])
    return result


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=8)
    parser.add_argument("--jobs", type=int, default=-1)
    arguments = parser.parse_args()
    seeds = range(FIRST_SEED, FIRST_SEED + arguments.seeds)
    names, benchmarks = list(variants()), [*STREAMS, *FEW_ANSWERS]
    if "OCELAD_DATA" not in os.environ:
        benchmarks.remove("reviews-300-sentiment/natural")
    tasks = [(name, benchmark, seed) for name in names for benchmark in benchmarks for seed in seeds]
    results = dict(zip(tasks, map_trials(trial, tasks, n_jobs=arguments.jobs), strict=True))
    rows: list[dict[str, Any]] = []
    for name in names:
        row: dict[str, Any] = {"variant": name}
        for benchmark in benchmarks:
            for measure in results[names[0], benchmark, seeds[0]]:
                own = np.array([results[name, benchmark, seed][measure] for seed in seeds])
                base = np.array([results[names[0], benchmark, seed][measure] for seed in seeds])
                result = estimate_mean(own if name == names[0] else own - base)
                row[measure] = [result.mean, result.standard_error, result.significant_sign]
        rows.append(row)
    _show(rows)
    print(f"Written to {save('ablation', {'seeds': [seeds[0], seeds[-1]]}, rows)}")


def _show(rows: list[dict[str, Any]]) -> None:
    table = Table(title="Ablation: differences to the method as it is", box=None, padding=(0, 1, 0, 0))
    table.add_column("variant")
    columns = [f"{at} {measure}" for at in CHECKPOINTS for measure in MEASURES]
    for name in (*STREAMS, *columns):
        table.add_column(name, justify="right")
    table.add_column("largest loss")
    table.add_column("largest gain")
    for row in rows:
        first = row is rows[0]
        cells = [_cell(*row[f"{stream} error"][:2], first) for stream in STREAMS]
        for column in columns:
            means, errors = np.array([row[measure][:2] for measure in row if measure.endswith(f" {column}")]).T
            cells.append(_cell(means.mean(), float(np.sqrt(np.sum(errors**2))) / len(errors), first))
        extremes = ["", ""] if first else [_extreme(row, sign) for sign in (1, -1)]
        table.add_row(row["variant"], *cells, *extremes)
    Console(width=220).print(table)


def _cell(mean: float, error: float, first: bool) -> str:
    if first:
        return f"{mean:.3f}"
    return f"{mean:+.3f}{'*' if abs(mean) > 1.96 * error > 0.0 else ' '}"


def _extreme(row: dict[str, Any], sign: int) -> str:
    """Return the significant cell with the largest difference of this sign, in points of error."""
    cells = {name: value for name, value in row.items() if name != "variant" and "log loss" not in name}
    significant = {name: value[0] for name, value in cells.items() if value[2] == sign}
    if not significant:
        return ""
    name = max(significant, key=lambda each: sign * significant[each])
    return f"{significant[name]:+.2f} {name.replace('/natural', '').replace('/balanced', '')}"


if __name__ == "__main__":
    main()
