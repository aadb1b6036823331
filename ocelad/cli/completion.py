"""ocelad completion: the script with which a shell completes commands, options, methods and files."""

from __future__ import annotations

import os
from pathlib import Path

import click

from ocelad.cli.output import check_output

SHELLS = ("bash", "zsh", "fish")


@click.command(short_help="Print the script with which a shell completes commands.")
@click.argument("shell", type=click.Choice(SHELLS), required=False)
@click.option(
    "-o",
    "--output",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Write the script to this file instead of standard output.",
)
def completion(shell: str | None, output: Path | None) -> None:
    """Print the completion script of SHELL, by default of the login shell, which the variable $SHELL names.

    The script lets the Tab key complete commands, options, methods, streams, figures, settings and files. Put it where
    your shell looks for it, and open a new shell:

    \b
      bash   ocelad completion bash -o ~/.local/share/bash-completion/completions/ocelad
             (with the package bash-completion; otherwise write it to ~/.ocelad-completion.bash,
             and add the line ". ~/.ocelad-completion.bash" to ~/.bashrc)
      zsh    ocelad completion zsh -o ~/.zfunc/_ocelad
             (with "fpath+=~/.zfunc" before "compinit" in ~/.zshrc)
      fish   ocelad completion fish -o ~/.config/fish/completions/ocelad.fish

    \b
    Examples:
      ocelad completion bash
      eval "$(ocelad completion bash)"        completes in this shell only
    """
    from click.shell_completion import get_completion_class

    shell = shell or _current_shell()
    found = get_completion_class(shell)
    assert found is not None
    script = found(click.get_current_context().find_root().command, {}, "ocelad", "_OCELAD_COMPLETE").source()
    if output is None:
        click.echo(script)
        return
    output.parent.mkdir(parents=True, exist_ok=True)
    check_output(output)
    output.write_text(script)
    click.echo(f"Saved: {output}. Open a new shell to use it.")


def _current_shell() -> str:
    """Return the user's login shell, as the environment names it."""
    name = Path(os.environ.get("SHELL", "")).name
    if name not in SHELLS:
        raise click.UsageError(f"name a shell: {', '.join(SHELLS)}")
    return name
