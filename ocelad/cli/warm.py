"""ocelad warm: compile the kernels ahead of their first use."""

from __future__ import annotations

import click


@click.command(short_help="Compile all kernels ahead of their first use.")
def warm() -> None:
    """Compile the kernels of all engines, of the adaptive method, of fleets, of the scores and of LMNN.

    Without this, the first use of each compiles it. It takes one to two minutes, once per installation. The compiled
    kernels are cached on disk, next to the package or in the folder NUMBA_CACHE_DIR.

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
