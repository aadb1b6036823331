"""ocelad warm: compile ahead."""

from __future__ import annotations

import click


@click.command(short_help="Compile the fast engine's kernels ahead of their first use.")
def warm() -> None:
    """Compile the kernels of the fast engine and of diagonal metrics now, so that the first use does not wait.

    It takes about half a minute. What is compiled is kept on disk, beside the package or in NUMBA_CACHE_DIR.

    \b
    Example:
      ocelad warm
    """
    from time import perf_counter

    start = perf_counter()
    from ocelad.online.warm import warm as compile_all

    compile_all()
    click.echo(f"The kernels are compiled ({perf_counter() - start:.1f} s).")
