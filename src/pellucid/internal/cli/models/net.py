"""``pellucid net``: networks of transactions that commit as a set or are undone: run them, check them, draw them."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from pellucid.errors import UsageError
from pellucid.internal.cli.models.logs import VERBS as OF_LOGS
from pellucid.internal.cli.progress import tell
from pellucid.internal.cli.repeated import bounded_is_enough, by_new_names, exit_code, refuse_repetition

if TYPE_CHECKING:
    from pellucid.atomic import Atomic, Step
    from pellucid.atomic.question import AtomicVerdict
    from pellucid.atomic.state import State

_MUCH = 500_000  # characters, read in some seconds
_SHOWN = 40  # next steps that are listed
_ENDS = 12  # outcomes that are listed


class _Nested(click.Group):
    """Verbs below a verb: no option is lost to its repetition here either."""

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        name, verb, rest = super().resolve_command(ctx, args)
        if verb is not None:
            rest = by_new_names(verb, rest)
            refuse_repetition(verb, ctx, rest)
        return name, verb, rest


def _common(command: Callable[..., None]) -> Callable[..., None]:
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


@click.group(cls=_Nested)
def net() -> None:
    """Transactions that commit as a set or are undone: designs as a text (check, run, show), logs of real ones
    (committable, cascade, cycles), and real ones over processes (new, up, down, status, doubt, metrics, commit, abort,
    accept; `pellucid audit DIR` audits them).

    \b
    Examples:
      pellucid net check booking.atf
      pellucid net run booking.atf --seed 7 --svg run.svg
      pellucid net run booking.atf --take 1 --take 2
      pellucid net show booking.atf
      pellucid net committable transactions.parquet dependencies.parquet
      pellucid net new trips --place agent=answers --place airline=requests,seats
      pellucid net up trips                           each place as a process with a durable log
      pellucid net doubt trips                        who waits for whom, and what would resolve it

    Exit codes: 0 done or proved, 1 refuted, 2 bad usage or bad input, 3 unknown or bounded, 4 internal error.
    """


for _verb in OF_LOGS:
    net.add_command(_verb)


def _machine(file: str, options: dict[str, Any]) -> Atomic:
    from pellucid.atomic import Atomic, parse
    from pellucid.atomic.layout import nowhere
    from pellucid.atomic.reading import text_in

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
@_common
@_steps
@click.option("--svg", metavar="FILE", help="Draw the run: places as lanes, messages as arrows.")
@click.option("--seed", type=click.IntRange(min=0), help="Draw each step by this seed; 0 unless --take is given.")
@click.option("--steps", type=click.IntRange(min=0), default=1000, show_default=True, help="At most so many.")
@click.option(
    "--take", "takes", multiple=True, type=click.IntRange(min=1), metavar="N",
    help="Take the N-th of the next steps by hand; repeat it for more. What is next is listed.",
)  # fmt: skip
@click.option("--ask", is_flag=True, help="List the next steps and ask which to take, until there is none.")
@click.option("--patient", is_flag=True, help="Nobody gives up waiting, or crashes, where anything else can happen.")
def run_verb(
    file: str, seed: int | None, steps: int, takes: tuple[int, ...], ask: bool, patient: bool, svg: str | None,
    as_json: bool, **options: Any,
) -> None:  # fmt: skip
    """Run a network: by a seed, by hand, or by hand and then by a seed.

    \b
    Examples:
      pellucid net run booking.atf --seed 7
      pellucid net run booking.atf --patient              nobody gives up waiting
      pellucid net run booking.atf --take 1 --take 3      two steps, then what is next
      pellucid net run booking.atf --ask
    """
    from pellucid.atomic import NetworkRun
    from pellucid.atomic.machine import gracefully
    from pellucid.atomic.running import offers
    from pellucid.atomic.sticking import lost

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
        shown = following if len(following) <= _SHOWN else [*following[:_SHOWN]]
        lines = [f"{i}  {words}" for i, words in enumerate(shown, 1)]
        lines += [f"…  {many}"] if len(following) > _SHOWN else []
        click.echo("next       " + "\n           ".join(lines))


def _taken(machine: Atomic, takes: Sequence[int]) -> tuple[State, list[Step]]:
    """By hand, by numbers."""
    from pellucid.atomic.running import offers

    at, taken = machine.start(), []
    for n, number in enumerate(takes, 1):
        offered, _ = offers(machine, at)
        if number > len(offered):
            words = ", ".join(f"{i} {step}" for i, (step, _) in enumerate(offered[:_SHOWN], 1)) or "no step is left"
            words += ", …" if len(offered) > _SHOWN else ""
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
        for i, (step, _) in enumerate(offered[:_SHOWN], 1):
            click.echo(f"  {i}  {step}")
        if len(offered) > _SHOWN:
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
@_common
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
    from pellucid.atomic.question import USUAL, atomic
    from pellucid.atomic.reading import text_in
    from pellucid.internal.cli.check import _draw, _Printer
    from pellucid.internal.cli.progress import StatusLine
    from pellucid.internal.model.show.outcomes import Outcome, outcomes_document

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
@_common
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
    from pellucid.atomic.printing import type_text

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
