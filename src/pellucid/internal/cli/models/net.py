"""``pellucid net``: networks of transactions that commit as a set or are undone: run them, check them, draw them."""

from __future__ import annotations

import contextlib
import json
import math
import os
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from pellucid.errors import DataError, UsageError
from pellucid.internal.cli.terminal import (
    Verbs,
    bounded_is_enough,
    count_text,
    exit_code,
    gone,
    tell,
)

if TYPE_CHECKING:
    import pyarrow as pa

    from pellucid.atomic import Atomic, Step
    from pellucid.atomic.logs import Cascade, Committable, Cycles, Log, Names
    from pellucid.atomic.question import AtomicVerdict
    from pellucid.atomic.state import State

# ``pellucid net committable|cascade|cycles``: questions about the logs of real transactions.

_SHOWN = 20  # rows that are printed
_FORMS = {".parquet": "parquet", ".csv": "csv", ".jsonl": "json", ".ndjson": "json"}


def _common(command: Callable[..., None]) -> Callable[..., None]:
    """What all three take."""
    for option in (
        click.option("--json", "as_json", is_flag=True, help="Put a report on stdout, and every other line on stderr."),
        *(gone(name, "logs are read on this machine") for name in ("--on", "--master", "--conf", "--work", "--fit")),
        click.option(
            "--unknown", type=click.Choice(["block", "refuse"]), default="block", show_default=True,
            help="A dependency on an id that is in no row of TRANSACTIONS: its readers cannot commit; or an error.",
        ),
        click.option("--who", default="who", show_default=True, metavar="COLUMN", help="Who took a message."),
        click.option("--needs", default="needs", show_default=True, metavar="COLUMN", help="Of whom."),
        click.option("--status", default="status", show_default=True, metavar="COLUMN", help="Of the transaction."),
        click.option("--id", "key", default="id", show_default=True, metavar="COLUMN", help="Of the transaction."),
        click.option("--out", metavar="FILE", help="All rows: .parquet, .csv or .jsonl."),
        click.argument("dependencies", metavar="DEPENDENCIES"),
        click.argument("transactions", metavar="TRANSACTIONS"),
    ):  # fmt: skip
        command = option(command)
    return command


@dataclass
class _Asked:
    """The tables."""

    verb: str
    transactions: str
    dependencies: str
    names: Names
    unknown: str
    out: str | None
    as_json: bool
    nothing: str = "none"  # what is printed for an empty path

    @classmethod
    def of(cls, verb: str, options: dict[str, Any]) -> _Asked:
        from pellucid.atomic.logs import Names

        take = options.pop
        names = Names(take("key"), take("status"), take("needs"), take("who"))
        made = cls(verb, names=names, **options)
        if made.out is not None and _form(made.out) is None:
            raise UsageError(f"--out {made.out}: expected a name that ends in .parquet, .csv or .jsonl")
        if made.out is not None:
            for what, path in (("TRANSACTIONS", made.transactions), ("DEPENDENCIES", made.dependencies)):
                _refuse_own(made.out, what, path)
        return made

    def read(self) -> Log:
        """The log."""
        from pellucid.atomic.logs import read_log

        return read_log(self.transactions, self.dependencies, names=self.names, unknown=self.unknown)


def _refuse_own(out: str, what: str, path: str) -> None:
    """Whether the answer would be written over a table, by whatever name, or into its folder."""
    with contextlib.suppress(OSError, ValueError):  # one of them is not there, or not on this machine
        if os.path.exists(out) and os.path.samefile(out, path):
            raise UsageError(f"--out {out}: is the file of {what} ({path}): choose another name, or it would be lost")
        if os.path.isdir(path):
            folder, inside = os.path.realpath(path), os.path.dirname(os.path.realpath(out))
            if os.path.commonpath([folder, inside]) == folder:
                raise UsageError(
                    f"--out {out}: is in the folder of {what} ({path}): choose another place, or it would be a part of "
                    "the table"
                )


@click.command("committable")
@_common
@click.option("--why", metavar="ID", help="Whom this one waits for: a way from one that is not to be committed.")
def committable_verb(why: str | None, **options: Any) -> None:
    """The largest set of pending transactions that can commit now, in the order in which its parts can.

    TRANSACTIONS has the columns id and status (active, pending, committed, aborted), DEPENDENCIES needs and who: who
    took a message of needs. What can commit is what is pending, minus whatever depends, through any number of others,
    on one that is neither pending nor committed. It falls into least sets; those of one level can commit at the same
    time.

    \b
    Examples:
      pellucid net committable transactions.parquet dependencies.parquet --out now.parquet
      pellucid net committable transactions.csv dependencies.csv --why t17

    Exit codes: 0 done, 1 a committed one depends on one that is not (the log breaks A3), 2 bad usage or bad input.
    """
    asked = _Asked.of("committable", options)
    from pellucid.atomic.logs import WORDS, Committable

    begin = time.monotonic()
    log = asked.read()
    found = Committable(log)
    more = {} if why is None else {"why": found.why(_value(log, why))}
    if why is not None:
        word = WORDS[log.status[log.number(_value(log, why))]]
        asked.nothing = "nothing: it can commit" if word == "pending" else f"nothing: it is {word}, not pending"
    _report(asked, found, begin, more)


@click.command("cascade")
@_common
@click.option("--abort", multiple=True, required=True, metavar="ID", help="What aborts; repeat it for more.")
@click.option("--path", "path_to", metavar="ID", help="A shortest way by which the abort reaches this one.")
def cascade_verb(abort: tuple[str, ...], path_to: str | None, **options: Any) -> None:
    """What is undone if these transactions abort: they, and all that took a message of one that is undone.

    \b
    Examples:
      pellucid net cascade transactions.parquet dependencies.parquet --abort t17 --out undone.parquet
      pellucid net cascade transactions.csv dependencies.csv --abort t17 --path t99

    Exit codes: 0 done, 1 a committed one depends on one that is not (the log breaks A3; if the abort reaches it, it
    would have to be undone), 2 bad usage or bad input.
    """
    asked = _Asked.of("cascade", options)
    from pellucid.atomic.logs import Cascade, roots_of

    begin = time.monotonic()
    log = asked.read()
    found = Cascade(log, roots_of(log, [_value(log, one) for one in abort]))
    more = {} if path_to is None else {"path": found.path(_value(log, path_to))}
    asked.nothing = f"none: the abort does not reach {path_to}"
    _report(asked, found, begin, more)


@click.command("cycles")
@_common
def cycles_verb(**options: Any) -> None:
    """Transactions that depend on each other: they commit together or not at all.

    \b
    Examples:
      pellucid net cycles transactions.parquet dependencies.parquet

    Exit codes: 0 done, 1 a committed one depends on one that is not (the log breaks A3), 2 bad usage or bad input.
    """
    asked = _Asked.of("cycles", options)
    from pellucid.atomic.logs import Cycles

    begin = time.monotonic()
    found = Cycles(asked.read())
    _report(asked, found, begin, {})


VERBS = (committable_verb, cascade_verb, cycles_verb)


# ---------------------------------------------------------------- ids


def _value(log: Log, text: str) -> Any:
    """An id as the log has it."""
    import pyarrow as pa

    kind = log.ids.type
    if pa.types.is_integer(kind):
        return _number(text)
    return text.encode() if pa.types.is_large_binary(kind) else text


def _number(text: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise UsageError(f"{text!r}: the ids of this log are whole numbers") from None


# ---------------------------------------------------------------- messages


def _report(asked: _Asked, found: Committable | Cascade | Cycles, begin: float, more: dict[str, list[Any]]) -> None:
    table, counts = found.table(), found.counts()
    if asked.out is not None:
        _write(asked.out, table)
    rows = table.slice(0, _SHOWN).to_pylist() if asked.out is None else []
    seconds, broken = time.monotonic() - begin, found.broken_ids()
    for words in _warnings(counts, broken):
        tell(f"pellucid: warning: {words}")
    if asked.as_json:
        document: dict[str, Any] = {"pellucid": 1, "verb": f"net {asked.verb}", "counts": counts, **more}
        document |= {"broken": broken} if counts.get("broken") else {}
        document |= {"out": asked.out} if asked.out is not None else {"rows": rows, "more": table.num_rows - len(rows)}
        document["seconds"] = round(seconds, 3)
        click.echo(json.dumps(document, indent=2, ensure_ascii=False, default=str))
    else:
        for line in _table(rows):
            click.echo(line)
        if rows and table.num_rows > len(rows):
            click.echo(f"… {table.num_rows - len(rows):,} more rows: --out FILE has all of them")
        for what, way in more.items():
            click.echo(f"{what}: {' ⇝ '.join(map(str, way)) or asked.nothing}")
        click.echo(("\n" if rows else "") + _line(asked, counts))
        needs = f"{counts['dependencies']:,} dependenc{'y' if counts['dependencies'] == 1 else 'ies'}"
        click.echo(f"{count_text(counts['transactions'], 'transaction')}, {needs}, {seconds:.1f} s")
    if counts.get("broken"):
        raise click.exceptions.Exit(1)


def _line(asked: _Asked, c: dict[str, int]) -> str:
    """The answer in a sentence."""
    if asked.verb == "committable":
        on = f"{count_text(c['sets'], 'set')} on {count_text(c['levels'], 'level')}"
        sets = f", as {on} (the largest has {c['largest set']:,})" if c["sets"] else ""
        return (
            f"{c['committable']:,} of {c['pending']:,} pending can commit{sets}; {c['blocked']:,} cannot yet, or never"
        )
    if asked.verb == "cascade":
        undone, back = c["undone"] - c["committed undone"], c["committed undone"]
        done = f"; {back:,} committed, and would have to be undone" if back else ""
        return (
            f"{undone:,} {'is' if undone == 1 else 'are'} undone: {c['asked']:,} asked for, the farthest "
            f"{count_text(c['farthest'], 'step')} away{done}"
        )
    if not c["cycles"]:
        return "none: no transactions depend on each other"
    inside = f"{count_text(c['in cycles'], 'transaction')} (the largest has {c['largest']:,})"
    return f"{count_text(c['cycles'], 'cycle')} with {inside}"


def _warnings(c: dict[str, int], broken: list[Any]) -> Iterator[str]:
    if c["unknown"]:
        yield (
            f"{c['unknown']:,} id{' of DEPENDENCIES is' if c['unknown'] == 1 else 's of DEPENDENCIES are'} in no row "
            "of TRANSACTIONS: neither pending nor committed, so that what needs one cannot commit"
        )
    if c["self-dependencies"]:
        many = "y" if c["self-dependencies"] == 1 else "ies"
        yield f"{c['self-dependencies']:,} dependenc{many} of a transaction on itself left out: it asks for nothing"
    if c["repeated"]:
        rows = "row of TRANSACTIONS says" if c["repeated"] == 1 else "rows of TRANSACTIONS say"
        yield f"{c['repeated']:,} {rows} once more what another row said"
    if c.get("broken"):
        yield (
            f"{c['broken']:,} committed transaction{' depends' if c['broken'] == 1 else 's depend'} on one that is "
            f"not: the log breaks A3 (what is committed is closed under what it needs): {', '.join(map(str, broken))}"
            f"{', …' if c['broken'] > len(broken) else ''}"
        )


def _table(rows: list[dict[str, Any]]) -> list[str]:
    if not rows:
        return []
    names = list(rows[0])
    cells = [names, *(["" if row[name] is None else str(row[name]) for name in names] for row in rows)]
    widths = [max(len(line[i]) for line in cells) for i in range(len(names))]
    return ["  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip() for line in cells]


def _form(path: str) -> str | None:
    return _FORMS.get(os.path.splitext(path.rstrip("/"))[1].lower())


def _write(path: str, table: pa.Table) -> None:
    """Whole, or not at all."""
    import pyarrow.csv as pacsv
    import pyarrow.parquet as pq

    from pellucid.internal.base.files import output_draft

    if os.path.isdir(path):
        raise DataError(f"--out {path}: is a folder: expected the name of a file to write")
    target = os.path.realpath(path)
    try:
        with output_draft(target) as draft:
            if _form(path) == "parquet":
                pq.write_table(table, draft.file)
            elif _form(path) == "csv":
                pacsv.write_csv(table, draft.file)
            else:
                for batch in table.to_batches(max_chunksize=1 << 16):
                    lines = (json.dumps(row, ensure_ascii=False, default=str) for row in batch.to_pylist())
                    draft.file.write("".join(f"{line}\n" for line in lines).encode())
            draft.place(target)
    except OSError as error:
        raise DataError(f"--out {path}: cannot be written: {error.strerror or error}") from None


_MUCH = 500_000  # characters, read in some seconds
_SHOWN_NET = 40  # next steps that are listed
_ENDS = 12  # outcomes that are listed


def _common_net(command: Callable[..., None]) -> Callable[..., None]:
    """What all three take."""
    for option in (
        click.option("--json", "as_json", is_flag=True, help="Put a report on stdout, and every other line on stderr."),
        click.option(
            "--system", type=click.Choice(["corrected", "printed"]), default="corrected", help="Of types.",
            show_default=True,
        ),
        click.argument("file", metavar="FILE.atf"),
    ):  # fmt: skip
        command = option(command)
    return command


def _steps(command: Callable[..., None]) -> Callable[..., None]:
    """What those take in which steps are taken."""
    for option in (
        click.option(
            "--unfold", type=click.IntRange(min=0), default=2, show_default=True,
            help="How often ! unfolds in a run, all of them together.",
        ),
        click.option(
            "--rules", default="corrected", show_default=True, metavar="NAME",
            help="corrected, printed, printed_commit_context, cascade, crash, or a mutant by name.",
        ),
    ):  # fmt: skip
        command = option(command)
    return command


@click.group(cls=Verbs, old={"doubt": "unresolved"})
def net() -> None:
    """Transactions that commit as a set or are undone: designs as a text (check, run, show), logs of real ones
    (committable, cascade, cycles), and real ones over processes (new, up, down, status, unresolved, metrics, commit,
    abort, accept; `pellucid audit DIR` audits them).

    \b
    Examples:
      pellucid net check booking.atf
      pellucid net run booking.atf --seed 7 --svg run.svg
      pellucid net run booking.atf --take 1 --take 2
      pellucid net show booking.atf
      pellucid net committable transactions.parquet dependencies.parquet
      pellucid net new trips --place agent=answers --place airline=requests,seats
      pellucid net up trips                           each place as a process with a durable log
      pellucid net unresolved trips                   who waits for whom, and what would resolve it

    Exit codes: 0 done or proved, 1 refuted, 2 bad usage or bad input, 3 unknown or bounded, 4 internal error.
    """


for _verb in VERBS:
    net.add_command(_verb)


def _machine(file: str, options: dict[str, Any]) -> Atomic:
    from pellucid.atomic import Atomic, parse
    from pellucid.atomic.state import nowhere
    from pellucid.atomic.syntax import text_in

    text = text_in(file)
    _tell_of_much(file, text)
    machine = Atomic(parse(text, file), text=text, name=file, **options)
    for words in nowhere(machine.layout):
        tell(f"pellucid: warning: {words}")
    return machine


def _tell_of_much(file: str, text: str) -> None:
    """Who waits for a large file is told why."""
    if len(text) > _MUCH:
        tell(f"pellucid: {file}: reading {len(text) / 1e6:.1f} MB")


def _print(verb: str, document: dict[str, Any]) -> None:
    whole = {"pellucid": 1, "verb": f"net {verb}", **document}
    click.echo(json.dumps(whole, indent=2, ensure_ascii=False, allow_nan=False))


# ---------------------------------------------------------------- run


@net.command("run")
@_common_net
@_steps
@click.option("--svg", metavar="FILE", help="Draw the run: places as lanes, messages as arrows.")
@click.option("--seed", type=click.IntRange(min=0), help="Draw each step by this seed; 0 unless --take is given.")
@click.option("--steps", type=click.IntRange(min=0), default=1000, show_default=True, help="At most so many.")
@click.option(
    "--take", "takes", multiple=True, type=click.IntRange(min=1), metavar="N",
    help="Take the N-th of the next steps by hand; repeat it for more. What is next is listed.",
)  # fmt: skip
@click.option("--ask", is_flag=True, help="List the next steps and ask which to take, until there is none.")
@click.option(
    "--patient", is_flag=True, help="No transaction gives up waiting, or crashes, while anything else can happen."
)
def run_verb(
    file: str, seed: int | None, steps: int, takes: tuple[int, ...], ask: bool, patient: bool, svg: str | None,
    as_json: bool, **options: Any,
) -> None:  # fmt: skip
    """Run a network: by a seed, by hand, or by hand and then by a seed.

    \b
    Examples:
      pellucid net run booking.atf --seed 7
      pellucid net run booking.atf --patient              none gives up waiting
      pellucid net run booking.atf --take 1 --take 3      two steps, then what is next
      pellucid net run booking.atf --ask
    """
    from pellucid.atomic import NetworkRun
    from pellucid.atomic.machine import gracefully
    from pellucid.atomic.question import lost
    from pellucid.atomic.running import offers

    if ask and (as_json or seed is not None or patient):
        raise UsageError("--ask goes by hand: leave --json, --seed and --patient out")
    machine = _machine(file, options)
    with gracefully(file):
        at, taken = _taken(machine, takes)
        if ask:
            at = _by_hand(machine, at, taken, steps)
        elif seed is not None or patient or not takes:
            at = _by_seed(machine, at, taken, steps, seed or 0, patient)
        offered, more = offers(machine, at)
    following = [str(step) for step, _ in offered]
    many = f"{'more than ' * more}{len(following):,} step{'s are' if len(following) > 1 else ' is'} possible next"
    found = NetworkRun((), tuple(taken), None, many if following else "no step is left", machine, ended=True)
    for words in dict.fromkeys(words for place in range(len(at.soups)) for words in lost(machine, at, place)):
        tell(f"pellucid: warning: {words}")
    committed, aborted = found.outcome()
    if svg is not None:
        from pellucid.internal.base.files import write_whole

        write_whole(svg, found.picture(f"{Path(file).name}: {machine.rules.name} rules"))
    if as_json:
        outcome = {"committed": committed, "aborted": aborted, "next": following}
        _print("run", {"file": file, "rules": machine.rules.name, **outcome, "run": found.document()})
        return
    from pellucid.atomic.picture import nested_text

    for n, step in enumerate(taken):
        click.echo(f"{n:4}  {step}")
    click.echo(f"\n{nested_text(machine, at)}\n")
    undecided = [t for t in (*machine.transactions, *machine.children(at)) if t not in {*committed, *aborted}]
    for word, names in (("committed", committed), ("aborted", aborted), ("undecided", undecided)):
        if names:
            click.echo(f"{word:10} {', '.join(names)}")
    if following:
        shown = following if len(following) <= _SHOWN_NET else [*following[:_SHOWN_NET]]
        lines = [f"{i}  {words}" for i, words in enumerate(shown, 1)]
        lines += [f"…  {many}"] if len(following) > _SHOWN_NET else []
        click.echo("next       " + "\n           ".join(lines))


def _taken(machine: Atomic, takes: Sequence[int]) -> tuple[State, list[Step]]:
    """By hand, by numbers."""
    from pellucid.atomic.running import offers

    at, taken = machine.start(), []
    for n, number in enumerate(takes, 1):
        offered, _ = offers(machine, at)
        if number > len(offered):
            words = ", ".join(f"{i} {step}" for i, (step, _) in enumerate(offered[:_SHOWN_NET], 1)) or "no step is left"
            words += ", …" if len(offered) > _SHOWN_NET else ""
            raise UsageError(f"--take {number}: step {n} has {len(offered)} choices: {words}")
        step, at = offered[number - 1]
        taken.append(step)
    return at, taken


def _by_seed(machine: Atomic, at: State, taken: list[Step], steps: int, seed: int, patient: bool) -> State:
    import random

    from pellucid.atomic.running import drawn

    chance = random.Random(seed)
    while len(taken) < steps and (one := drawn(machine, at, chance, patient=patient)):
        step, at = one
        taken.append(step)
    return at


def _by_hand(machine: Atomic, at: State, taken: list[Step], steps: int) -> State:
    """Ask for each step; where the answers end, the run does."""
    from pellucid.atomic.picture import nested_text
    from pellucid.atomic.running import offers

    while len(taken) < steps and (offered := offers(machine, at)[0]):
        click.echo(nested_text(machine, at))
        for i, (step, _) in enumerate(offered[:_SHOWN_NET], 1):
            click.echo(f"  {i}  {step}")
        if len(offered) > _SHOWN_NET:
            click.echo(f"  …  up to {len(offered):,}")
        try:
            number = click.prompt("step (0 ends)", type=click.IntRange(0, len(offered)))
        except click.Abort as end:
            if isinstance(end.__context__, KeyboardInterrupt):
                raise KeyboardInterrupt from None
            click.echo()
            break
        if not number:
            break
        step, at = offered[number - 1]
        taken.append(step)
    return at


# ---------------------------------------------------------------- check


@net.command("check")
@_common_net
@_steps
@click.option("--svg", metavar="FOLDER", help="Draw each counterexample into this folder.")
@click.option("--about", "questions", multiple=True, metavar="QUESTION", help="Only this; repeat it for more.")
@bounded_is_enough
@click.option(
    "--timeout", type=click.FloatRange(min=0, min_open=True), default=60.0, metavar="SECONDS", help="In all.",
    show_default=True,
)  # fmt: skip
@click.option(
    "--max-states", type=click.IntRange(min=1), default=200_000, metavar="N", help="More give unknown.",
    show_default=True,
)  # fmt: skip
def check_verb(
    file: str, questions: Sequence[str], timeout: float, max_states: int, svg: str | None, as_json: bool, **options: Any
) -> None:
    """Ask about all runs of a network; a no comes with a shortest run.

    The questions: A1, A2, A3, C1, C2 (causal consistency is C1 and C2), types (subject reduction), place, and progress:
    can each transaction always still be decided, and why does it stick? By name also F0 and F1, which are false.

    \b
    Examples:
      pellucid net check booking.atf
      pellucid net check booking.atf --rules printed --about C1
      pellucid net check booking.atf --rules crash --about progress
    """
    from pellucid.atomic.question import USUAL_QUESTION as USUAL
    from pellucid.atomic.question import atomic
    from pellucid.atomic.syntax import text_in
    from pellucid.internal.cli.check import _draw, _Printer
    from pellucid.internal.cli.terminal import StatusLine
    from pellucid.internal.model.verdict import Outcome, outcomes_document

    enough = options.pop("enough")
    if math.isnan(timeout):
        raise UsageError("--timeout nan: expected a number of seconds above 0")
    text = text_in(file)
    _tell_of_much(file, text)
    status = StatusLine()

    def tell(counts: dict[str, Any]) -> None:
        if status.seconds > 1 and status.due():
            status.draw(f"{status.seconds:.0f} s", f"{counts['states']:,} states")

    try:
        verdict = atomic(
            text, about=questions or USUAL, name=file, timeout=timeout, max_states=max_states,
            progress=tell, **options,
        )  # fmt: skip
    finally:
        status.clear()
    show = _Printer(as_json)
    for note in verdict.notes[: len(verdict.notes) - len(verdict.parts)]:
        show.log(note)
    outcomes = [Outcome(part, file, found, bounded_is_enough=enough) for part, found in verdict.parts.items()]
    for outcome in outcomes:
        show.line(outcome)
    for line in _outcomes(verdict):
        show.echo(line)
    show.counterexamples(outcomes)
    show.summary(outcomes)
    if svg is not None:
        _draw(svg, outcomes)
    if as_json:
        document = {**outcomes_document((file,), outcomes), "verb": "net check", "question": verdict.question}
        click.echo(json.dumps({**document, "details": dict(verdict.details)}, indent=2, ensure_ascii=False))
    raise click.exceptions.Exit(exit_code(outcomes))


def _outcomes(verdict: AtomicVerdict) -> list[str]:
    """What runs end with, as lines."""
    ends = verdict.details["outcomes"]
    lines = []
    for end in ends[:_ENDS]:
        words = [f"{word} {', '.join(end[word])}" for word in ("committed", "aborted", "undecided") if end[word]]
        lines.append(" · ".join(words) or "nothing was decided")
    lines += [f"and {len(ends) - _ENDS:,} more"] if len(ends) > _ENDS else []
    head = "ends     " if verdict.details["complete"] else "ends found so far  "
    return [(head if not k else " " * len(head)) + line for k, line in enumerate(lines)]


# ---------------------------------------------------------------- show


@net.command("show")
@_common_net
@click.option("--svg", metavar="FILE", help="Draw it as nested boxes.")
def show_verb(file: str, svg: str | None, as_json: bool, **options: Any) -> None:
    """Draw a network as nested places; the types of its names below.

    \b
    Examples:
      pellucid net show booking.atf
      pellucid net show booking.atf --svg places.svg
    """
    from pellucid.atomic import network_text
    from pellucid.atomic.picture import nested_svg, nested_text
    from pellucid.atomic.syntax import type_text

    machine = _machine(file, options)
    if svg is not None:
        from pellucid.internal.base.files import write_whole

        write_whole(svg, nested_svg(machine, title=Path(file).name))
    names = {name: type_text(kind) for name, kind in machine.layout.gamma.items()}
    if as_json:
        places = {label: machine.layout.labels[parent] if parent >= 0 else None
                  for label, parent in zip(machine.layout.labels, machine.layout.parents, strict=True)}  # fmt: skip
        homes = {t: machine.layout.labels[place] for t, place in machine.homes.items()}
        _print("show", {"file": file, "network": network_text(machine.network), "names": names, "places": places,
                        "transactions": homes})  # fmt: skip
        return
    click.echo(nested_text(machine))
    kinds: dict[str, list[str]] = {}
    for name, kind in names.items():
        kinds.setdefault(kind, []).append(name)
    click.echo("\n" + "\n".join(f"{', '.join(group)}: {kind}" for kind, group in kinds.items()))
