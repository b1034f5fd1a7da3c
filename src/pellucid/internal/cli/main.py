"""The command ``pellucid``: a group of verbs, and what happens when one of them fails."""

from __future__ import annotations

import atexit
import contextlib
import os
import sys
import threading
import traceback
from collections.abc import Iterator
from typing import Any, NoReturn

import click
from click.shell_completion import get_completion_class

import pellucid
from pellucid.errors import DataError, PellucidError, from_outside, out_of_memory, printable, speaking_to
from pellucid.internal.cli.first import begin
from pellucid.internal.cli.signals import Stopped, checkpoint, settle
from pellucid.internal.cli.terminal import Verbs
from pellucid.internal.secrets import redact

# ``pellucid completion``: the script that lets a shell complete verbs and options.


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


class _Failure(click.ClickException):
    """A message for the user and an exit code; nothing else."""

    def __init__(self, message: str, code: int) -> None:
        super().__init__(message)
        self.exit_code = code  # type: ignore[misc]

    def show(self, file: Any = None) -> None:
        settle(self.exit_code)
        lines = self.message.split("\n") if self.exit_code == 4 else [self.message]  # with a traceback, maybe
        text = click.style("pellucid:", fg="red", bold=True) + " " + "\n".join(map(printable, lines))
        with contextlib.suppress(OSError):  # where nobody can read it, the exit code still tells
            click.echo(text, err=True, color=False if os.environ.get("NO_COLOR") else None)


@contextlib.contextmanager
def _shown() -> Iterator[None]:
    """What click has against the command line repeats what was written there."""
    try:
        yield
    except click.ClickException as error:
        if not isinstance(error, _Failure):
            error.message = printable(error.message)  # type: ignore[misc]
        raise


def _no_reader() -> click.exceptions.Exit:
    """The end where the reader of a pipe went away.  Python flushes stdout once more: that goes nowhere."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    return click.exceptions.Exit(141)


class _Verbs(Verbs):
    """A group whose verbs fail with one clear message: a user's mistake shows no traceback, and no option is lost to
    its repetition."""

    def make_context(self, *args: Any, **extra: Any) -> click.Context:
        with _shown():
            try:
                return super().make_context(*args, **extra)
            except BrokenPipeError:  # of --help and --version: click makes 1 of it
                raise _no_reader() from None

    def invoke(self, ctx: click.Context) -> Any:
        try:
            checkpoint()
            with speaking_to("command line"), _shown():
                result = super().invoke(ctx)
                sys.stdout.flush()
                return result
        except PellucidError as error:
            raise _Failure(str(error), 2) from None
        except BrokenPipeError:
            raise _no_reader() from None
        except (Stopped, KeyboardInterrupt) as error:  # the latter from z3, which has a handler of its own
            stop = error if isinstance(error, Stopped) else Stopped()
            raise _Failure(stop.word, stop.code) from None
        except (click.ClickException, click.exceptions.Exit, click.Abort):
            raise
        except MemoryError as error:
            raise _Failure(out_of_memory(error), 2) from None
        except Exception as error:
            if ctx.params.get("verbose") or os.environ.get("PELLUCID_DEBUG"):
                click.echo(redact(traceback.format_exc()), err=True, nl=False)
            outside = _unwritten(error) or from_outside(error)
            if outside is not None:
                raise _Failure(str(outside), 2) from None
            raise _Failure(
                redact(f"internal error: {type(error).__name__}: {error}") + "\n"
                "This is a bug in Pellucid, not in your pipeline. Please report it with what "
                "`pellucid --verbose …` shows.",
                4,
            ) from None


@click.group(
    cls=_Verbs,
    old={"tables": "schema"},
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110},
)
@click.version_option(pellucid.__version__, prog_name="pellucid")
@click.option(
    "--verbose", is_flag=True, help="Say more: of run the time of each step; of an internal error the traceback."
)
def cli(verbose: bool) -> None:
    """Write a stateful stream pipeline once, as plain Python; run it, draw it, check it.

    \b
    Examples:
      pellucid init demo                                start a small project
      pellucid schema flights.parquet                   the record class for a file
      pellucid run demo/pipeline.py:totals --in demo/events.csv
      pellucid show demo/pipeline.py:totals
      pellucid explain demo/pipeline.py:totals          what becomes of each step, here and on Spark
      pellucid check demo/pipeline.py                   prove or refute what the file declares
      pellucid check demo/pipeline.py:totals            ask the usual questions of one pipeline
      pellucid progress graph.py:daily                  does a graph with times keep its promises?
      pellucid capacity shop.toml --queue-limit enrich=10     how many workers does this step need?
      pellucid net check booking.atf                    do these transactions fail as one?
      pellucid export demo/pipeline.py:running --ints mod:4
      pellucid crash demo/pipeline.py:totals --in demo/events.csv --kills 20
      pellucid audit state/                             did a recorded run keep its promise?

    Exit codes: 0 done or proved, 1 refuted, 2 bad usage or bad input, 3 unknown or bounded, 4 internal error.

    Reference: docs/reference/cli.md, and docs/reference/check-cli.md for check.
    """


def _add_verbs() -> None:
    from pellucid.internal.cli.check import check
    from pellucid.internal.cli.crash import audit, crash
    from pellucid.internal.cli.init import init, schema
    from pellucid.internal.cli.models.capacity import capacity
    from pellucid.internal.cli.models.places import net
    from pellucid.internal.cli.models.progress import progress
    from pellucid.internal.cli.run import run
    from pellucid.internal.cli.show import explain, export, show

    for verb in (run, check, progress, capacity, net, crash, audit, show, explain, export, init, schema, completion):
        cli.add_command(verb)


_add_verbs()


def main() -> NoReturn:
    """The entry point of the command."""
    begin()
    # Chunks of one size come and go: the system's allocator uses the memory of the last one again, where that of Arrow
    # gives it back and asks for it anew.  Arrow looks here when it is loaded.
    os.environ.setdefault("ARROW_DEFAULT_MEMORY_POOL", "system")
    try:
        cli(prog_name="pellucid")
    except SystemExit as end:
        _leave(end.code if isinstance(end.code, int) else 0 if end.code is None else 1)
    except OSError as error:  # of --help and --version: the verbs tell theirs
        _Failure(str(_unwritten(error) or error), 2).show()
        _leave(2)
    _leave(0)


def _unwritten(error: Exception) -> PellucidError | None:
    """The words for a standard output that takes nothing: of a disk that is full, or closed."""
    if isinstance(error, OSError) and error.filename is None:
        place = traceback.extract_tb(error.__traceback__)[-1].filename
        if place in (click.utils.__file__, __file__):  # who writes there; files are written elsewhere
            return DataError(f"standard output: cannot be written: {error.strerror or error}")
    return None


def _leave(code: int) -> NoReturn:
    """End with this code, whatever threads of libraries are doing.

    Everything that is to be done at the end is done.  What is left out is the destruction of the libraries themselves:
    where a message ends a run while a thread of Arrow is just being made, that ends the process with a signal, and the
    exit code would not tell the truth.
    """
    settle(code)
    threading._shutdown()  # type: ignore[attr-defined]  # as Python does: wait for threads, then atexit, then flush
    atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, ValueError):
            stream.flush()
    os._exit(code)


if __name__ == "__main__":
    main()
