"""``pellucid completion``: the script that lets a shell complete verbs and options."""

from __future__ import annotations

import click
from click.shell_completion import get_completion_class


@click.command()
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@click.pass_context
def completion(ctx: click.Context, shell: str) -> None:
    """Print the completion script of a shell.

    \b
    Examples:
      eval "$(pellucid completion bash)"                                    in ~/.bashrc
      eval "$(pellucid completion zsh)"                                     in ~/.zshrc
      pellucid completion fish > ~/.config/fish/completions/pellucid.fish
    """
    found = get_completion_class(shell)
    assert found is not None
    complete = found(ctx.find_root().command, {}, "pellucid", "_PELLUCID_COMPLETE")
    # Not source(): it starts a bash to ask for its version.
    click.echo(complete.source_template % complete.source_vars())
