"""Shell completion: prints what the shell has to read."""

from __future__ import annotations

import click
from click.shell_completion import get_completion_class


@click.command()
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@click.pass_context
def completion(context: click.Context, shell: str) -> None:
    """Print the completion script of a shell.

    \b
    bash:  eval "$(anytimebp completion bash)"     in ~/.bashrc
    zsh:   eval "$(anytimebp completion zsh)"      in ~/.zshrc
    fish:  anytimebp completion fish > ~/.config/fish/completions/anytimebp.fish
    """  # noqa: D301  (\\b keeps click from rewrapping)
    kind = get_completion_class(shell)
    if kind is None:
        raise click.UsageError(f"there is no completion for {shell}")  # noqa: EM102, TRY003
    click.echo(kind(context.find_root().command, {}, "anytimebp", "_ANYTIMEBP_COMPLETE").source())
