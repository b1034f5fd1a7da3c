"""A progress bar on stderr, only where a person is looking."""

from __future__ import annotations

import contextlib
import sys
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import click

from pellucid.errors import UsageError, printable

if TYPE_CHECKING:
    from rich.live import Live

    from pellucid.internal.model.verdict import Outcome

_UNKNOWN: Mapping[str, float] = MappingProxyType({})
_NO_VERBS: Mapping[str, str] = MappingProxyType({})


def count_text(count: int, word: str) -> str:
    """A count with its word.

    >>> count_text(1, "event"), count_text(1234, "event")
    ('1 event', '1,234 events')
    """
    return f"{count:,} {word}{'s' * (count != 1)}"


def tell(text: str) -> None:
    """Put a message on stderr: nothing that steers a terminal, whatever name or value is in it."""
    click.echo(printable(text), err=True)


def rate_text(rate: float) -> str:
    """A rate that fits in a line.

    >>> rate_text(950), rate_text(12_345_678)
    ('950 events/s', '12.3 M events/s')
    """
    for size, letter in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if rate >= size:
            return f"{rate / size:.1f} {letter} events/s"
    return f"{rate:.0f} events/s"


class TellPlain:
    """Says of each step that keeps a pipeline from being compiled that it does, and why: once, when some events have
    gone through; and which part of the time of all steps it took, where that was measured.

    Not before: where a run fails at its start, its error stands alone.
    """

    def __init__(self, why: str | None, steps: Sequence[str] = ()) -> None:
        self._lines = (why or "").splitlines()
        self._steps = steps  # of each line, where they are known

    def __call__(self, shares: Mapping[str, float] = _UNKNOWN) -> None:
        lines, self._lines = self._lines, []
        for i, line in enumerate(lines):
            share = shares.get(self._steps[i]) if i < len(self._steps) else None
            part = "" if share is None else f"; it took {100 * share:.0f} % of the time of all steps so far"
            tell(f"slower, as it runs in plain Python: {line}{part}")


def tell_left_out(outputs: Collection[str], wanted: Collection[str]) -> None:
    """A line about outputs that go nowhere: it may have been forgotten."""
    left = [name for name in outputs if name not in wanted]
    if left:
        tell(f"not written: {', '.join(left)} (no --out {left[0]}=…)")


class StatusLine:
    """A line on stderr that is drawn over itself, only where a person is looking."""

    def __init__(self) -> None:
        self._stream = sys.stderr
        self.shown = bool(getattr(self._stream, "isatty", lambda: False)())
        self._begin, self._last = time.monotonic(), 0.0
        self._live: Live | None = None

    @property
    def seconds(self) -> float:
        """Since the start."""
        return time.monotonic() - self._begin

    def due(self) -> bool:
        """Whether it is time to draw it again: a few times a second."""
        now = time.monotonic()
        if not self.shown or now - self._last < 0.2:
            return False
        self._last = now
        return True

    def draw(self, *parts: Any) -> None:
        """Draw it with these parts: texts, or what rich draws."""
        from rich.console import Console
        from rich.live import Live
        from rich.table import Table
        from rich.text import Text

        line = Table.grid(padding=(0, 2))
        line.add_row(*(Text(printable(part), no_wrap=True) if isinstance(part, str) else part for part in parts))
        if self._live is None:
            console = Console(file=self._stream)
            self._live = Live(
                console=console, auto_refresh=False, transient=True, redirect_stdout=False, redirect_stderr=False
            )
            self._live.start()
            console.show_cursor(True)  # a signal may end the process at any moment
        self._live.update(line, refresh=True)

    def clear(self) -> None:
        """Take it away."""
        live, self._live = self._live, None
        if live is not None:
            with contextlib.suppress(OSError):  # the terminal may be gone
                live.stop()


class Progress(StatusLine):
    """Events, rate and position."""

    def update(self, events: int, share: float | None) -> None:
        """Draw the line again, if it is time to."""
        if not self.due():
            return
        seconds = max(self.seconds, 1e-9)
        parts: list[Any] = [count_text(events, "event"), rate_text(events / seconds)]
        if share is not None:
            from rich.progress_bar import ProgressBar

            parts[:0] = [f"{100 * min(share, 1.0):3.0f}%", ProgressBar(total=1.0, completed=min(share, 1.0), width=20)]
            if share > 0.01 and seconds > 1:
                left = int(seconds / share - seconds)
                parts.append(f"{left // 60}:{left % 60:02} left")
        self.draw(*parts)


# Options that are given twice, or by a name of old: no value is lost without a word; and what verbs that give verdicts
# share: an option, and the table of exit codes.
#
# Click lets the last of several values win.  Here an option either takes several values, and uses them all, or refuses
# the second one.

#: Of every verb that gives verdicts: its exit code is 0 for *bounded* as well.
bounded_is_enough = click.option(
    "--bounded-is-enough", "enough", is_flag=True, help="Let a bounded answer pass: nothing found within a bound."
)


#: Of each status its exit code; *error* is a question that could not be asked.
CODES = {"proved": 0, "refuted": 1, "error": 2, "bounded": 3, "unknown": 3}
_WORST_FIRST = ("error", "refuted", "unknown", "bounded")


def code_of(statuses: Iterable[str], *, bounded_is_enough: bool = False) -> int:
    """The exit code of the worst status; 0 for none.

    >>> code_of(["proved", "bounded"]), code_of(["bounded", "refuted"]), code_of(["refuted", "error"])
    (3, 1, 2)
    >>> code_of(["bounded"], bounded_is_enough=True), code_of([])
    (0, 0)
    """
    found = set(statuses) - ({"bounded"} if bounded_is_enough else set())
    return CODES[next((status for status in _WORST_FIRST if status in found), "proved")]


def exit_code(outcomes: Iterable[Outcome]) -> int:
    """The exit code of the worst outcome that did not pass."""
    return code_of(o.status for o in outcomes if not o.passed)


class Verbs(click.Group):
    """A group of verbs in which no option is lost to its repetition; ``old`` has names that verbs had before."""

    def __init__(self, *args: Any, old: Mapping[str, str] = _NO_VERBS, **more: Any) -> None:
        super().__init__(*args, **more)
        self._old = old

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args and args[0] in self._old:
            new = self._old[args[0]]
            tell(f"pellucid: {args[0]} is called {new} now")
            args = [new, *args[1:]]
        name, verb, rest = super().resolve_command(ctx, args)
        if verb is not None:
            rest = by_new_names(verb, rest)
            refuse_repetition(verb, ctx, rest)
        return name, verb, rest


def refuse_repetition(command: click.Command, parent: click.Context, args: Sequence[str]) -> None:
    """Refuse a second value of an option that takes one; of every verb, before it is run."""
    context = click.Context(command, info_name=command.name, parent=parent)
    try:
        _, _, given = command.make_parser(context).parse_args(list(args))
    except click.UsageError:
        return  # the verb itself will say what is wrong
    for i, option in enumerate(given):
        if not isinstance(option, click.Option) or option.multiple or option.count:
            continue
        if option.is_flag and not option.secondary_opts:  # said twice it means what it meant
            continue
        if option in given[:i]:
            name = max(option.opts, key=len)
            raise UsageError(f"{name} is given twice, and takes one value: leave one out")


def renamed(old: str, new: str) -> Callable[[Any], Any]:
    """For a verb: the name that an option had before is taken for the one that it has now, and that is said."""

    def mark(verb: Any) -> Any:
        verb.renamed = {**getattr(verb, "renamed", {}), old: new}
        return verb

    return mark


def gone(name: str, why: str) -> Callable[[Any], Any]:
    """For a verb: an option that it had before is refused in one line that says what holds now."""

    def mark(verb: Any) -> Any:
        verb.gone = {**getattr(verb, "gone", {}), name: why}
        return verb

    return mark


def by_new_names(command: click.Command, args: Sequence[str]) -> list[str]:
    """The arguments of a verb with the names that its options have now; one that is gone is refused."""
    out, told, names = [], set(), getattr(command.callback, "renamed", {})
    for arg in args:
        name, equals, value = arg.partition("=")
        if name in getattr(command.callback, "gone", {}):
            raise UsageError(f"{name} is gone: {command.callback.gone[name]}")  # type: ignore[union-attr]
        if name in names:
            if name not in told:
                tell(f"pellucid: {name} is called {names[name]} now")
            told.add(name)
            arg = names[name] + equals + value  # a new name may bring its value: --exists=overwrite
        out.append(arg)
    return out


def once(pairs: Iterable[tuple[str, str]], option: str) -> dict[str, str]:
    """Names and their values, as of ``--conf NAME=VALUE``; a name that comes twice is refused.

    >>> once([("a", "1"), ("a", "2")], "--conf")
    Traceback (most recent call last):
    ...
    pellucid.errors.UsageError: --conf: 'a' is given twice: leave one out
    """
    out: dict[str, str] = {}
    for name, value in pairs:
        if name in out:
            what = f"{option}: {name!r}" if name else option
            raise UsageError(f"{what} is given twice: leave one out")  # not its values: one may be a password
        out[name] = value
    return out


def columns(given: str | Sequence[str] | None, option: str) -> tuple[str, ...]:
    """Columns that an option names: with commas, by repetition, or both; one that comes twice is refused.

    >>> columns(["shop,user", "day"], "--key"), columns("time, id", "--order"), columns(None, "--order")
    (('shop', 'user', 'day'), ('time', 'id'), ())
    >>> columns(["user", "user"], "--key")
    Traceback (most recent call last):
    ...
    pellucid.errors.UsageError: --key: the column 'user' is named twice
    """
    from pellucid.internal.data.bind import key_columns

    texts = [given] if isinstance(given, str) else list(given or ())
    found = [part.strip() for text in texts for part in text.split(",")]
    if any(not name for name in found):
        raise UsageError(f"{option} {','.join(texts) or repr('')}: expected names of columns, as in {option} shop,user")
    return key_columns(found or None, who=option)
