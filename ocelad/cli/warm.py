"""ocelad warm: compile ahead."""

from __future__ import annotations

import click


@click.command(short_help="Compile the fast engine's kernels ahead of their first use.")
def warm() -> None:
    """Compile the kernels of the fast engine, of diagonal metrics, of scores and of LMNN now; the first use will not
    wait.

    It takes about a minute. What is compiled is kept on disk, beside the package or in NUMBA_CACHE_DIR.

    \b
    Example:
      ocelad warm
    """
    from time import perf_counter

    start = perf_counter()
    from ocelad.adaptive.precompile import precompile_engines
    from ocelad.evaluation.scores.precompile import precompile_scores
    from ocelad.lab.baselines.precompile import precompile_baselines

    precompile_engines()
    precompile_scores()
    precompile_baselines()
    click.echo(f"The kernels are compiled ({perf_counter() - start:.1f} s).")
