"""What a run has put out, and how two runs differ: files byte by byte, tables row by row."""

from __future__ import annotations

import contextlib
import json
import os
import random
import signal
import sqlite3
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any
from zlib import crc32

from pellucid.errors import DataError, UsageError, nearest, option
from pellucid.failures.audit import Audit, audit
from pellucid.internal.address import Address
from pellucid.internal.base.faults import POINTS, RUNTIME, VARIABLE
from pellucid.internal.engine.epochs.task import die_with
from pellucid.internal.model import Judgement, Status

__all__ = ["Command", "CrashReport", "RoundOutcome", "crash"]


def is_table(place: str) -> bool:
    """Whether an output is a table of a database.

    >>> is_table("sqlite:a.db#t"), is_table("out.csv")
    (True, False)
    """
    return Address.of(place).is_table


def read_output(place: str) -> bytes | list[str]:
    """The bytes of a file, or the rows of a table in their order; nothing if it was never made."""
    return read_existing(place) or ([] if is_table(place) else b"")


def read_existing(place: str, login: str | None = None) -> bytes | list[str] | None:
    """The bytes of a file, or the rows of a table in their order; None if it is not there.  A password that the
    address has not is that of ``login``, an address of the same user on the same server.
    """
    if not is_table(place):
        path = Path(place)
        return path.read_bytes() if path.is_file() else None
    rows = _rows(Address.of(place), None if login is None else Address.of(login))
    # A table has no order of its own: its rows are compared as they are, sorted.
    return None if rows is None else sorted(str(row) for row in rows)


def _rows(found: Address, login: Address | None) -> list[tuple[Any, ...]] | None:
    """Read without the code that wrote it."""
    table = found.table
    quoted = ".".join('"' + part.replace('"', '""') + '"' for part in table.split("."))
    if found.kind == "sqlite":
        if not Path(found.file).exists():
            return None
        with contextlib.closing(sqlite3.connect(found.file)) as db:
            known = db.execute("SELECT 1 FROM sqlite_master WHERE name = ?", (table,)).fetchone()
            return list(db.execute(f"SELECT * FROM {quoted}")) if known else None
    with _connected(found, login) as connection:
        there = connection.execute("SELECT to_regclass(%s)", (quoted,)).fetchone()
        if not (there and there[0]):
            return None
        return list(connection.execute(f"SELECT * FROM {quoted}"))  # type: ignore[arg-type, unused-ignore]


def _connected(address: Address, login: Address | None = None) -> Any:
    import psycopg
    from psycopg.conninfo import conninfo_to_dict

    for one in (address, login):
        wrong = None if one is None else one.misspelt()
        if wrong is not None:
            raise UsageError(f"{one}: {wrong}")
    try:
        settings = conninfo_to_dict(address.connection)
        if login is not None and address.same_login(login):
            more = conninfo_to_dict(login.connection).items()
            settings = {k: v for k, v in more if k not in ("dbname", "options", "service")} | settings
        return psycopg.connect(**settings, autocommit=True)
    except psycopg.Error as error:
        raise DataError(
            f"{address}: cannot be reached: {address.clean(error)}; a password that is not in the address is taken "
            "from PGPASSWORD, or from ~/.pgpass"
        ) from None


def drop_table(place: str) -> None:
    """Take a table that a test has made out of a PostgreSQL database, and what was written down of its epochs; files
    go with their folder.

    >>> drop_table("out.csv"), drop_table("sqlite:out.db#t")
    (None, None)
    """
    if Address.of(place).kind != "postgres":
        return
    from pellucid.sinks.postgres_sink import has, quoted, target_of

    found = Address.of(place)
    with _connected(found) as connection:
        target = target_of(connection, found.table)
        if target is not None:
            connection.execute(f"DROP TABLE {quoted(found.table)}")  # type: ignore[arg-type, unused-ignore]
        if target is not None and has(connection, "target"):
            connection.execute("DELETE FROM pellucid_epochs WHERE target = ANY(%s)", (target.spellings(),))


def difference(wanted: bytes | list[str], found: bytes | list[str], name: str = "output") -> str | None:
    """How what was found differs from what was wanted, in words; None if it does not.

    >>> difference(b"a\\nb\\n", b"a\\nb\\n")
    >>> difference(b"a\\nb\\nc\\n", b"a\\nb\\nb\\nc\\n")
    "output: 4 rows instead of 3: 1 is there again (b'b'), from row 3 on: an epoch was written twice, as by a sink that
    appends"
    >>> difference(b"a\\nb\\n", b"a\\n")
    "output: 1 row instead of 2: 1 is lost (b'b'), from row 2 on"
    >>> difference(b"1\\n", b"2\\n")
    "output: row 1 is b'2' instead of b'1': other values, as from a task that is not deterministic"
    """
    if wanted == found:
        return None
    rows, have = (w.splitlines() if isinstance(w, bytes) else w for w in (wanted, found))
    if rows == have:
        return f"{name}: the same rows, but other bytes ({len(found):,} instead of {len(wanted):,})"
    at = next((i for i, (a, b) in enumerate(zip(rows, have, strict=False)) if a != b), min(len(rows), len(have)))
    lost, extra = Counter(rows) - Counter(have), Counter(have) - Counter(rows)
    size = f"{len(have):,} row{'s' * (len(have) != 1)} instead of {len(rows):,}"
    if extra and not lost and set(extra) <= set(rows):
        return (f"{name}: {size}: {_some(extra)} there again ({_first(extra)}), from row {at + 1:,} on: an epoch was "
                "written twice, as by a sink that "
                "appends")  # fmt: skip
    if lost and not extra:
        return f"{name}: {size}: {_some(lost)} lost ({_first(lost)}), from row {at + 1:,} on"
    if not lost and not extra:
        return f"{name}: the same rows in another order, from row {at + 1:,} on"
    if len(rows) == len(have):
        return (
            f"{name}: row {at + 1:,} is {have[at]!r} instead of {rows[at]!r}: other values, as from a task that is "
            "not deterministic"
        )
    return (
        f"{name}: {size}: {lost.total():,} lost (such as {_first(lost)}), {extra.total():,} that should not be "
        f"there (such as {_first(extra)}), from row {at + 1:,} on"
    )


def _some(rows: Counter[Any]) -> str:
    return f"{rows.total():,} {'is' if rows.total() == 1 else 'are'}"


def _first(rows: Counter[Any]) -> str:
    return repr(next(iter(rows)))


# What a crash test kills, and when: drawn from a seed, written down, and played again.
#
# A *strike* is one kill -9.  It hits either at a named point of the runtime (between two lines of code, as in "the
# snapshot is durable, but the coordinator has not heard of it"), or at a moment of the clock.  A *round* is one run of
# the pipeline from its first event to its last, with one strike for each generation: the strike ends the generation,
# the recovery begins the next.  Strikes at points hit at the same place whenever they are played again; one at a moment
# may come a little earlier or later.

VICTIMS = ("task", "coordinator", "tree")
MOMENT = "moment"

# What a user asks for, and the points that belong to it.
GROUPS: dict[str, tuple[str, ...]] = {
    "snapshot": tuple(p for p in RUNTIME if p.startswith("snapshot:")),
    "commit": ("sink:write", "sink:staged", "sink:before-commit", "sink:after-commit", "sink:merge", "sink:merged",
               "coordinator:complete", "coordinator:committed", "coordinator:recorded"),
    "recovery": ("recover:load", "recover:loaded", "source:replay", "coordinator:start", "coordinator:fork",
                 "coordinator:forked", "coordinator:recover"),
    "work": ("source:read", "source:border", "worker:event", "worker:border"),
    "finish": ("sink:finish", "sink:finished", "coordinator:finish", "coordinator:finished"),
    MOMENT: (MOMENT,),
}  # fmt: skip


@dataclass(frozen=True)
class Strike:
    """One kill -9: at a point of the runtime, or of a victim at a share of the time that a run takes.

    >>> Strike("sink:before-commit", "tree", hit=2).fault(3)
    'sink:before-commit=tree@2/3'
    >>> str(Strike("moment", "coordinator", share=0.25))
    'coordinator at 25%'
    """

    point: str
    victim: str = "task"
    hit: int = 1
    share: float = 0.0
    task: str | None = None  # which, if not any

    def fault(self, generation: int) -> str | None:
        """How the runtime gets it (PELLUCID_FAULTS); None for a moment of the clock."""
        if self.point == MOMENT:
            return None
        action = "tree" if self.victim == "tree" else "kill"
        own = f"{self.point}={action}@{self.hit}/{generation}"
        # There is a recovery within a generation only if something else has failed first.
        return f"worker:event=kill@1/{generation};{own}" if self.point == "coordinator:recover" else own

    def __str__(self) -> str:
        if self.point == MOMENT:
            return f"{self.task or self.victim} at {self.share:.0%}"
        return f"{self.point}{'+tree' if self.victim == 'tree' else ''}@{self.hit}"


@dataclass
class Round:
    """One run with its strikes, one for each generation; ``hits`` and ``seconds`` are known afterwards."""

    strikes: list[Strike]
    hits: int = 0
    starts: int = 0
    seconds: float = 0.0


def points_of(names: Sequence[str]) -> list[str]:
    """Points from groups and points; all of them from nothing.

    >>> points_of(["finish"])
    ['sink:finish', 'sink:finished', 'coordinator:finish', 'coordinator:finished']
    >>> points_of(["comit"])
    Traceback (most recent call last):
    pellucid.errors.UsageError: points='comit': no such point or group; did you mean 'commit'? Groups: snapshot,
    commit, recovery, work, finish, moment
    """
    out: list[str] = []
    for name in names or list(GROUPS):
        found = GROUPS.get(name) or ((name,) if name in POINTS else ())
        if not found:
            hint = nearest(name, [*GROUPS, *POINTS])
            raise UsageError(
                f"{option('points', name)}: no such point or group{hint or '.'} Groups: {', '.join(GROUPS)}"
            )
        out += [point for point in found if point not in out]
    return out


def draw(rng: random.Random, points: Sequence[str], tasks: Sequence[str]) -> Strike:
    """The next strike: a third at a moment of the clock (if that is wanted), the others at points."""
    named = [p for p in points if p != MOMENT]
    if MOMENT in points and (not named or rng.random() < 0.34):
        victim = rng.choice(VICTIMS)
        return Strike(
            MOMENT,
            victim,
            share=round(rng.random(), 3),
            task=rng.choice(list(tasks)) if victim == "task" and tasks else None,
        )
    point = rng.choice(named)
    victim = "tree" if rng.random() < 0.3 else "coordinator" if point.startswith("coordinator:") else "task"
    return Strike(point, victim, hit=rng.choice((1, 1, 1, 2, 2, 3)) if _often(point) else 1)


def _often(point: str) -> bool:
    """Whether a point comes more than once in a generation."""
    once = (*GROUPS["recovery"], *GROUPS["finish"])
    return point not in once


def save_rounds(path: Path, seed: int, rounds: Sequence[Round]) -> None:
    """Write a schedule down."""
    document = {"pellucid": 1, "seed": seed, "rounds": [[asdict(s) for s in r.strikes] for r in rounds]}
    path.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")


def load_rounds(path: str | Path) -> tuple[int, list[Round]]:
    """Read a schedule."""
    try:
        document: Any = json.loads(Path(path).read_text(encoding="utf-8"))
        rounds = [Round([Strike(**strike) for strike in strikes]) for strikes in document["rounds"]]
        seed = int(document["seed"])
    except OSError as error:
        raise UsageError(f"{path}: cannot be read: {error.strerror}") from None
    except (ValueError, KeyError, TypeError) as error:
        raise DataError(f"{path}: is no schedule of pellucid crash ({type(error).__name__}: {error})") from None
    for r in rounds:
        for strike in r.strikes:
            if strike.point != MOMENT and strike.point not in POINTS:
                raise DataError(f"{path}: there is no point {strike.point!r}{nearest(strike.point, list(POINTS))}")
    return seed, rounds


# Run a pipeline for real under kill -9, again and again, and compare with the run in which nothing happened.
#
# The promise of `pellucid run --epoch-size` is that a crash does not show.  Here it is tried: the pipeline runs as a
# user would run it (the same command, in processes of its own), tasks, the coordinator or the whole tree are killed at
# points of the protocol where it hurts and at random moments, and whenever the command dies it is started again as it
# was.  In the end the output must be that of the failure-free run, byte by byte, and the recorded trace must pass the
# audit.  Whatever goes wrong is reported with its schedule, so that it can be played again.
#
# Where the output differs, the failure-free run is made once more: if that differs, too, a task is not deterministic,
# and no recovery can help; else an epoch was lost, written twice or mixed up.

# strikes in one run: enough for crashes during the recovery of others, few enough to find the one at fault
PER_ROUND = 6
TRIES = 3  # strikes for each kill that is wanted: some come too late
LONGEST = 60.0  # seconds that a round may take at least


@dataclass(frozen=True)
class Command:
    """The run that is to survive: what a user would type after ``pellucid run``.

    ``outputs`` has an address for each output, in which ``{folder}`` stands for the folder of a run and ``{run}`` for
    its name. Faults that the ``environment`` arms (PELLUCID_FAULTS) are armed in the runs that are struck, beside the
    strikes.
    """

    target: str
    inputs: tuple[str, ...]
    outputs: Mapping[str, str] = field(repr=False)  # may have a password in them
    pushes: int  # in an epoch
    chunk: int
    more: tuple[str, ...] = ()
    environment: Mapping[str, str] = field(default_factory=dict)

    def places(self, folder: Path) -> dict[str, str]:
        """Where a run in this folder puts its outputs."""
        # tables of another test may be in the same database
        run = f"{crc32(str(folder.parent.absolute()).encode()):08x}_{folder.name.replace('-', '_')}"
        return {
            name: place.replace("{folder}", str(folder)).replace("{run}", run) for name, place in self.outputs.items()
        }

    def argv(self, folder: Path) -> list[str]:
        """The command line of a run in this folder; what has a password in it goes by the environment, see
        `secrets`."""
        out = [sys.executable, "-m", "pellucid", "run", self.target]
        for given in self.inputs:
            out += ["--in", given]
        places = self.places(folder)
        hidden = {place: f"env:{variable}" for variable, place in self.secrets(folder).items()}
        for name, place in ((name, hidden.get(place, place)) for name, place in places.items()):
            out += ["--out", f"{name}={place}" if len(places) > 1 else place]
        return [
            *out,
            "--epoch-size",
            str(self.pushes),
            "--chunk",
            str(self.chunk),
            "--state",
            str(folder / "state"),
            "--record",
            "--retries",
            "1000",
            *self.more,
        ]

    def secrets(self, folder: Path) -> dict[str, str]:
        """Addresses with a password in them, by the variables in which the run gets them: all the machine can see its
        arguments."""
        found = [place for place in self.places(folder).values() if Address.of(place).secrets()]
        return {f"PELLUCID_OUT_{i}": place for i, place in enumerate(found)}


@dataclass
class RoundOutcome:
    """One round: what was struck, and what came out."""

    round: Round
    folder: Path
    differences: list[str] = field(default_factory=list)
    audit: Audit | None = None
    stopped: str | None = None  # why the run did not come to its end

    @property
    def right(self) -> bool:
        """Nothing shows."""
        return not self.differences and self.stopped is None and (self.audit is None or self.audit.proved)

    def lines(self) -> list[str]:
        """What is wrong, in words."""
        out = [*([self.stopped] if self.stopped else []), *self.differences]
        if self.audit is not None and not self.audit.proved:
            out += [f"audit, {v.check}: {v}" for v in self.audit.violations[:8]]
        return out


@dataclass
class CrashReport(Judgement):
    """The answer of a crash test: refuted if a kill shows; else bounded by the kills that hit, for others were not
    tried."""

    target: str
    seed: int
    wanted: int
    outcomes: list[RoundOutcome]
    advice: list[str]
    seconds: float
    schedule: Path | None = None
    epochs: int = 0  # of the run in which nothing happened

    @property
    def hits(self) -> int:
        """Kills that hit."""
        return sum(o.round.hits for o in self.outcomes)

    @property
    def missed(self) -> int:
        """Strikes that came too late, or whose point was not reached: they are no evidence."""
        return sum(1 for o in self.outcomes if o.round.hits < len(o.round.strikes))

    @property
    def status(self) -> Status:
        """Bounded: all outputs were right and all traces passed the audit; unknown if no kill hit."""
        if not all(o.right for o in self.outcomes):
            return "refuted"
        return "bounded" if self.hits else "unknown"

    @property
    def bound(self) -> str:
        """What was tried."""
        return f"kills that hit: {self.hits}, runs: {len(self.outcomes)}"

    def __str__(self) -> str:
        starts = sum(o.round.starts for o in self.outcomes)
        steps = sum(o.audit.steps for o in self.outcomes if o.audit is not None)
        lines = [f"{self.target}: {self.hits} kills hit, {self.missed} came too late; {len(self.outcomes)} runs, "
                 f"{starts} starts, {steps:,} steps audited, "
                 f"{self.seconds:.1f} s, seed {self.seed}"]  # fmt: skip
        for number, outcome in enumerate(self.outcomes):
            if not outcome.right:
                struck = ", ".join(f"{g}: {s}" for g, s in enumerate(outcome.round.strikes[: outcome.round.hits]))
                lines += [
                    f"run {number} (kills by generation: {struck or 'none'}):",
                    *(f"  {line}" for line in outcome.lines()),
                ]
        lines += self.advice
        if not self.refuted:
            lines.append(
                "No crash shows: every output is that of the failure-free run, byte by byte. Only these kills were "
                "tried: it is no proof for others."
                if self.hits
                else "Nothing was hit: this says nothing."
            )
            if self.hits and self.epochs == 1:
                lines.append(
                    "The input is one epoch, so no recovery went back to a snapshot: --epoch-size makes them smaller."
                )
        elif self.schedule is not None:
            lines.append(f"The schedule is in {self.schedule}: play it again with --replay {self.schedule}")
        return "\n".join(lines)

    def document(self) -> dict[str, Any]:
        """The same for a program."""
        rounds = [{"strikes": [str(s) for s in o.round.strikes], "hits": o.round.hits, "starts": o.round.starts,
                   "seconds": round(o.round.seconds, 3), "right": o.right, "wrong": o.lines(),
                   "steps": o.audit.steps if o.audit else None} for o in self.outcomes]  # fmt: skip
        return {"target": self.target, "seed": self.seed, "status": self.status, "bound": self.bound,
                "kills": self.hits, "missed": self.missed, "rounds": rounds, "advice": self.advice,
                "schedule": str(self.schedule) if self.schedule else None, "seconds": round(self.seconds, 3),
                }  # fmt: skip


def crash(command: Command, folder: Path, *, kills: int = 50, seed: int | None = None, points: Sequence[str] = (),
          replay: Sequence[Round] | None = None, keep_going: bool = False,
          say: Callable[[str], None] = lambda text: None,
          idle: Callable[[], None] = lambda: None) -> CrashReport:  # fmt: skip
    """Kill the run so often, and compare.  It ends with the first run that is wrong, unless told to keep going.
    ``idle`` is called again and again meanwhile."""
    began = time.monotonic()
    chosen = points_of(points)
    number = random.randrange(1 << 32) if seed is None else seed
    folder.mkdir(parents=True, exist_ok=True)
    reference = _Run(command, folder / "reference", [], None, idle)
    reference.go()
    if reference.stopped:
        raise UsageError(f"without any crash the run does not come to its end: {reference.stopped}")
    wanted = {name: read_output(place) for name, place in command.places(reference.folder).items()}
    report = CrashReport(command.target, number, kills, [], [], 0.0, folder / "schedule.json", reference.epochs)
    say(f"seed {number}; without a crash: {reference.seconds:.1f} s")
    rng = random.Random(number)
    tasks = list(_status(reference.folder).get("tasks", {}))
    planned = list(replay or [])
    drawn = 0
    while planned or (replay is None and report.hits < kills and drawn < TRIES * kills + PER_ROUND):
        if planned:
            this = Round(list(planned.pop(0).strikes))
        else:
            this = Round([draw(rng, chosen, tasks) for _ in range(min(PER_ROUND, kills - report.hits))])
        drawn += len(this.strikes)
        run = _Run(command, folder / f"run-{len(report.outcomes)}", this.strikes, reference, idle)
        run.go()
        this.hits, this.starts, this.seconds = min(run.generation, len(this.strikes)), run.starts, run.seconds
        outcome = RoundOutcome(this, run.folder, stopped=run.stopped)
        if not run.stopped:
            found = {name: read_output(place) for name, place in command.places(run.folder).items()}
            outcome.differences = [
                d for name in wanted if (d := difference(wanted[name], found[name], name)) is not None
            ]
        with contextlib.suppress(UsageError):
            outcome.audit = audit(run.folder / "state")
        report.outcomes.append(outcome)
        assert report.schedule is not None
        save_rounds(report.schedule, number, [o.round for o in report.outcomes])
        say(f"run {len(report.outcomes) - 1}: {this.hits} of {len(this.strikes)} kills hit "
            f"({', '.join(map(str, this.strikes[: this.hits])) or 'none'}): "
            f"{'right' if outcome.right else 'WRONG'}; {report.hits} of {kills}")  # fmt: skip
        if not outcome.right and not keep_going:
            break
    if not report.refuted:
        for run_folder in [reference.folder, *(o.folder for o in report.outcomes)]:
            for place in command.places(run_folder).values():
                drop_table(place)
    else:
        report.advice = _advice(command, folder, wanted, report, idle)
    report.seconds = time.monotonic() - began
    return report


def _advice(
    command: Command, folder: Path, wanted: Mapping[str, Any], report: CrashReport, idle: Callable[[], None]
) -> list[str]:
    """Whose fault it is, with the evidence."""
    out = []
    if any(o.differences for o in report.outcomes):
        again = _Run(command, folder / "reference-again", [], None, idle)
        again.go()
        found = {name: read_output(place) for name, place in command.places(again.folder).items()}
        other = [d for name in wanted if (d := difference(wanted[name], found[name], name)) is not None]
        if other:
            out.append(f"Two runs without any crash differ as well ({other[0]}): a task is not deterministic (a clock, "
                       "a random number, the order of a set). "
                       "No recovery can hide that: make it a function of its state and its events.")  # fmt: skip
    replays = [v for o in report.outcomes if o.audit is not None for v in o.audit.violations if v.check == "replay"]
    if replays and not out:
        out.append(f"{replays[0].task} does not do the same again after a recovery ({replays[0].why}).")
    if any("written twice" in d for o in report.outcomes for d in o.differences):
        out.append(
            "Rows are there twice: the sink appends what it is given, also what it has already. It must know the "
            "epochs that it has committed."
        )
    return out


def _status(folder: Path) -> dict[str, Any]:
    """Which processes there are now, as the coordinator wrote it down."""
    with contextlib.suppress(OSError, ValueError):
        found: dict[str, Any] = json.loads((folder / "state" / "tasks.json").read_text())
        return found
    return {}


def _number(folder: Path, name: str, field: str) -> int:
    with contextlib.suppress(OSError, ValueError, TypeError, KeyError):
        return int(json.loads((folder / "state" / name).read_text())[field])
    return 0


class _Run:
    """One run to its end, started again whenever it is killed."""

    def __init__(
        self,
        command: Command,
        folder: Path,
        strikes: Sequence[Strike],
        reference: _Run | None,
        idle: Callable[[], None],
    ) -> None:
        self.command, self.folder, self.strikes, self.idle = command, folder, strikes, idle
        self.folder.mkdir(parents=True)
        self.starts, self.seconds, self.work = 0, 0.0, 0.0
        self.generation, self.epochs = 0, 0
        self.stopped: str | None = None
        self.reference = reference
        self._seen: tuple[int, float] = (-1, 0.0)
        self._struck: set[int] = set()

    def go(self) -> None:
        """Until it comes to its end, or something else than a kill stops it."""
        began = time.monotonic()
        longest = max(LONGEST, 20 * self.reference.seconds * (1 + len(self.strikes))) if self.reference else 3600.0
        faults = [fault for generation, strike in enumerate(self.strikes) if (fault := strike.fault(generation))]
        armed = [
            *faults,
            *([self.command.environment[VARIABLE]] if VARIABLE in self.command.environment and self.strikes else []),
        ]
        environment = {
            **os.environ,
            "PYTHONUNBUFFERED": "1",
            **self.command.environment,
            **self.command.secrets(self.folder),
            VARIABLE: ";".join(armed),
        }
        while self.stopped is None and self.starts <= 2 * len(self.strikes) + 2:
            self.starts += 1
            code = self._once(environment, began + longest)
            if code == 0:
                break
            if code is None:
                self.stopped = f"after {longest:.0f} s it had not come to its end: it hangs{self._last_words()}"
            elif code != -signal.SIGKILL:
                self.stopped = f"it stopped with the exit code {code}{self._last_words()}"
        else:
            self.stopped = (
                self.stopped or f"it was started {self.starts} times and did not come to its end{self._last_words()}"
            )
        self.seconds = time.monotonic() - began
        self.generation = _number(self.folder, "generation", "generation")
        self.epochs = _number(self.folder, "progress.json", "epoch")

    def _once(self, environment: Mapping[str, str], until: float) -> int | None:
        with open(self.folder / "log", "ab") as log:
            here = os.getpid()
            process = subprocess.Popen(self.command.argv(self.folder), env=dict(environment), stdin=subprocess.DEVNULL,
                                       stdout=log, stderr=log, start_new_session=True,
                                       preexec_fn=lambda: die_with(here))  # fmt: skip
        first: float | None = None
        try:
            while True:
                code = process.poll()
                if code is not None:
                    if first is not None:
                        self.work = time.monotonic() - first
                    return code
                if time.monotonic() > until:
                    return None
                status = _status(self.folder)
                if status.get("coordinator") == process.pid:
                    first = first or time.monotonic()
                    self._strike(process, status)
                self.idle()
                time.sleep(0.005)
        finally:
            if process.poll() is None:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)  # the group that we started, and nothing else
                process.wait()

    def _strike(self, process: subprocess.Popen[bytes], status: Mapping[str, Any]) -> None:
        """The strike of this generation, if it is one at a moment of the clock, and the moment has come."""
        generation = int(status["generation"])
        if generation >= len(self.strikes) or generation in self._struck or self.strikes[generation].point != MOMENT:
            return
        if self._seen[0] != generation:
            self._seen = (generation, time.monotonic())
        strike = self.strikes[generation]
        left = 1.0
        if self.reference is not None and self.reference.epochs:
            left = max(1 - _number(self.folder, "progress.json", "epoch") / self.reference.epochs, 0.05)
        if time.monotonic() - self._seen[1] < strike.share * left * (self.reference.work if self.reference else 1.0):
            return
        self._struck.add(generation)
        tasks = {str(name): int(pid) for name, pid in status["tasks"].items()}
        if strike.victim == "coordinator":
            victims = [process.pid]
        elif strike.victim == "tree":
            victims = [process.pid, *tasks.values()]
        else:
            victims = [tasks.get(strike.task or "", next(iter(tasks.values())))]
        for pid in victims:
            if pid == process.pid or _parent(pid) in (process.pid, 1):
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)

    def _last_words(self) -> str:
        with contextlib.suppress(OSError):
            lines = [line for line in (self.folder / "log").read_text(errors="replace").splitlines() if line.strip()]
            return ": " + " | ".join(lines[-3:]) if lines else ""
        return ""


def _parent(pid: int) -> int | None:
    """The parent of a process; 1 where the system does not say, so that a number that we were just told is believed."""
    try:
        return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
    except FileNotFoundError:
        return None if Path("/proc/self/stat").exists() else 1
    except (OSError, ValueError, IndexError):
        return None


def default_outputs(names: Sequence[str], given: Mapping[str, str]) -> dict[str, str]:
    """Where a crash test writes: places like the given ones, but its own, so that no file or table of the user's is
    touched.

    >>> default_outputs(["out"], {}), default_outputs(["out"], {"out": "data/totals.csv.gz"})
    ({'out': '{folder}/out.jsonl'}, {'out': '{folder}/out.csv.gz'})
    >>> default_outputs(["out"], {"out": "sqlite:totals.db#t"})
    {'out': 'sqlite:{folder}/out.db#t'}
    >>> default_outputs(["out"], {"out": "postgresql://me@host/shop#t"})
    {'out': 'postgresql://me@host/shop#t_crash_{run}'}
    """
    out = {}
    for name in names:
        place = given.get(name, ".jsonl")
        if Address.of(place).kind == "sqlite":
            out[name] = f"sqlite:{{folder}}/{name}.db#{place.partition('#')[2]}"
        elif is_table(place):
            out[name] = f"{place}_crash_{{run}}"
        else:
            ending = place[place.rfind("/") + 1 :].partition(".")[2]
            if not ending:
                raise UsageError(f"{option('out', place)}: the ending of the name says the format, as in {name}.csv")
            out[name] = f"{{folder}}/{name}.{ending}"
    return out
