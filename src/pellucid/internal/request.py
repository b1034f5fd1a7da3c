"""What a run is asked for, as one record: `Request`.

Each field says its type, its flag, its help, in which modes it holds, and why not in the others.  The calls in Python
(``p(…)``, ``p.run_epochs``, ``p.spark``), the command line and its help, the table in the docs and the refusals come
from it.

>>> about("cores").where()
'p(…), files'
>>> asked(Mode.EPOCHS, {"key": "user", "cores": 2})
Traceback (most recent call last):
...
pellucid.errors.UsageError: cores= goes with a run without epochs: here workers=N shares the keys among processes
"""

# ruff: noqa: RUF009 - a field is made by a function that takes what is known of it
from __future__ import annotations

import enum
import math
from collections.abc import Callable, Mapping
from dataclasses import Field, dataclass, field, fields, replace
from types import MappingProxyType
from typing import Any

from pellucid.errors import UsageError, nearest, option
from pellucid.internal.data.bind import BadOption, key_columns, said_bad, said_keep
from pellucid.internal.data.cells import said_formats, said_nulls
from pellucid.internal.graph.model import Graph, why_cut


class Mode(enum.Flag):
    """How a pipeline is run."""

    CALL = enum.auto()  # p(…), on data in memory
    FILES = enum.auto()  # pellucid run
    EPOCHS = enum.auto()  # p.run_epochs, and pellucid run --epoch-size
    BATCH = enum.auto()  # p.spark of a DataFrame, and pellucid run --on spark
    STREAM = enum.auto()  # p.spark of a streaming DataFrame, and pellucid run --on spark --stream


CALL, FILES, EPOCHS, BATCH, STREAM = Mode
NONE, HERE, SPARK = Mode(0), CALL | FILES | EPOCHS, BATCH | STREAM
_NAMES = {CALL: "p(…)", FILES: "files", EPOCHS: "epochs", BATCH: "Spark batch", STREAM: "Spark stream"}


class Kind(enum.Enum):
    """What may be given for a field."""

    TEXT = "a text"
    TEXTS = "one text or several"
    COLUMNS = "a column, or several"
    CHOICE = "one of some words"
    WHOLE = "a whole number"
    NUMBER = "a number"
    SWITCH = "yes or no"


@dataclass(frozen=True)
class About:
    """What is known of a field."""

    name: str
    help: str
    flag: str | None  # None: Python alone has it
    kind: Kind
    metavar: str | None
    choices: tuple[str, ...]
    least: float | None
    python: Mode  # in which modes a call in Python takes it
    command: Mode  # in which modes the command line does
    why: Mapping[Mode, str]  # why it does not hold in another mode
    timed: Mapping[Mode, str]  # why it does not go with event time
    default: Any

    @property
    def modes(self) -> Mode:
        """Where it holds, in Python or on the command line."""
        return self.python | self.command

    def where(self) -> str:
        """The modes in words."""
        return ", ".join(word for mode, word in _NAMES.items() if mode in self.modes)


def _field(
    default: Any,
    flag: str | None,
    modes: Mode,
    help: str,
    *,
    kind: Kind = Kind.TEXT,
    metavar: str | None = None,
    choices: tuple[str, ...] = (),
    least: float | None = None,
    python: Mode | None = None,
    command: Mode | None = None,
    why: Mapping[Mode, str] = MappingProxyType({}),
    timed: Mapping[Mode, str] = MappingProxyType({}),
) -> Any:
    """A field of `Request`, with what is known of it."""
    known = {
        "help": help,
        "flag": flag,
        "kind": Kind.CHOICE if choices else kind,
        "metavar": metavar,
        "choices": choices,
        "least": least,
        "python": modes & ~FILES if python is None else python,
        "command": (modes & ~CALL if flag else NONE) if command is None else command,
        "why": why,
        "timed": timed,
        "default": default,
    }
    made = {"default_factory": dict} if default == {} else {"default": default}
    return field(**made, metadata=known)


_FORMATS = ("csv", "tsv", "jsonl", "parquet", "arrow")
_NOT_HERE = "with --on spark give --stream --checkpoint FOLDER"
_OF_MANY = "an answer is of many rows: put the fields that you want into the events"
_ONE_WORKER = "such a pipeline is one worker, in which the clock moves"
_SAID_AT_STEP = "what becomes of late events is declared at the step (late='drop', or its stream .late)"
_NO_ORDER = "the order of rows is no part of its answers"
_NO_BAD = "bad rows are not set aside there yet; leave them out before"
_ON_SPARK = {SPARK: _NOT_HERE}


# fmt: off
@dataclass(frozen=True)
class Request:
    """What a run is asked for, besides the pipeline."""

    inputs: Any = _field(
        (), "--in", FILES | EPOCHS | SPARK,
        "Events to read: a file, a folder, a pattern such as '2013-*.csv', several in order; - is stdin, the default.",
        kind=Kind.TEXTS, metavar="[SOURCE=]FILE", python=NONE,
    )
    outputs: Any = _field(
        (), "--out", FILES | EPOCHS | SPARK, "Where to write; - is stdout (the default).",
        kind=Kind.TEXTS, metavar="[OUTPUT=]FILE", python=NONE,
    )
    limit: int | None = _field(
        None, "--head", FILES | EPOCHS, "Stop after the first N pushes.", kind=Kind.WHOLE, metavar="N", least=0,
        why={SPARK: "Spark has no first rows"},
    )
    key: tuple[str, ...] = _field(
        (), "--key", HERE | SPARK,
        "Run once for each value of this column, or of several: a,b or --key a --key b.",
        kind=Kind.COLUMNS, metavar="COLUMN,…",
    )
    value: str | None = _field(
        None, "--value", FILES | EPOCHS | SPARK, "The column that holds the events of a scalar source.",
        metavar="COLUMN",
    )
    short: str = _field(
        "fail", "--uneven", HERE, "An input that ends before the others.", choices=("fail", "silent"),
        why={SPARK: "on Spark the rows of several inputs are lined up by {order}, not by their number"},
    )
    nan: str = _field(
        "fail", "--nan", HERE | SPARK, "A NaN in a column of floats: an error, or a value like others.",
        choices=("fail", "keep"),
    )
    nulls: tuple[str, ...] = _field(
        (), "--null", FILES | EPOCHS | SPARK,
        "A cell of a CSV file that says nothing, as NA or -999: None where T | None is declared, as an empty cell is.",
        kind=Kind.TEXTS, metavar="WORD", python=EPOCHS,
        why={
            CALL: "it names cells of CSV files: in a table that is here put None in their place, as in "
            "frame.replace({{'NA': None}})",
            SPARK: "it names cells of CSV files: pellucid.spark.read_csv has it",
        },
    )
    in_format: str | None = _field(
        None, "--in-format", FILES | EPOCHS | SPARK, "Instead of the ending of the name; stdin is jsonl.",
        choices=_FORMATS, python=EPOCHS,
    )
    out_format: str | None = _field(
        None, "--out-format", FILES | EPOCHS | SPARK, "Instead of the ending of the name; stdout is jsonl.",
        choices=_FORMATS, python=EPOCHS,
    )
    chunk: int = _field(
        1 << 17, "--chunk", FILES | EPOCHS, "Rows at a time.", kind=Kind.WHOLE, metavar="N", least=1,
        why={SPARK: "Spark chooses how many rows go at a time"},
    )
    cores: int | None = _field(
        None, "--cores", CALL | FILES,
        "How many cores to use; by default all, and for the keys of --key as many as pay. The output is the same.",
        kind=Kind.WHOLE, metavar="N", least=1,
        why={SPARK: "Spark uses those of --master", EPOCHS: "here {workers} shares the keys among processes"},
    )
    order: tuple[str, ...] = _field(
        (), "--order", HERE | SPARK,
        "The columns that put rows in order: they are sorted by them; two rows of a key with one order are an error.",
        kind=Kind.COLUMNS, metavar="COLUMN,…",
        timed={HERE: "rows count by their times, and else in the order in which they come: sort them before"},
    )
    late: str = _field(
        "fail", "--late", HERE | SPARK, "A row that comes after a later one, or twice.",
        choices=("fail", "drop", "keep"), timed={FILES | SPARK: _SAID_AT_STEP},
    )
    keep: Any = _field(
        (), "--keep-columns", HERE | SPARK,
        "Columns of the row that put an event out, as they are; all for all of them.",
        kind=Kind.COLUMNS, metavar="[SOURCE=]COLUMN,…", timed={HERE | SPARK: _OF_MANY},
    )
    bad: Any = _field(
        "fail", "--bad", HERE | SPARK,
        "Where rows go that cannot be read, or on which a step fails; else the first of them ends the run.",
        metavar="FILE",
        timed={EPOCHS: "with epochs rows are not set aside by event time yet; a run without epochs sets those aside "
               "that cannot be read", SPARK: _NO_BAD},
    )
    max_bad: int | None = _field(
        None, "--max-bad", HERE | SPARK, "Give up when there are more than N of them.", kind=Kind.WHOLE, metavar="N",
        least=0, timed={SPARK: _NO_BAD},
    )
    time_format: Mapping[str, str] = _field(
        {}, "--time-format", HERE | SPARK,
        "How times are spelled in a column of texts, if not as in ISO 8601: when='%d/%m/%Y %H:%M'.",
        kind=Kind.TEXTS, metavar="COLUMN=FORM",
    )
    exists: str | None = _field(
        None, "--exists", FILES | EPOCHS | BATCH,
        "An output file that is there already: refuse it (on Spark the default), overwrite it (here), or add to it.",
        choices=("refuse", "overwrite", "append"), python=EPOCHS,
    )
    measure: str | None = _field(
        None, "--measure", FILES, "Write rates, times of steps and lag there, for pellucid capacity.", metavar="FILE",
        python=NONE,
        why={SPARK: "a Spark query tells of itself: pellucid capacity reads its StreamingQueryProgress"},
        timed={FILES: "what it would write down is of steps that no clock holds back"},
    )

    # with epochs
    pushes: int | None = _field(
        None, "--epoch-size", EPOCHS, "Survive crashes: an epoch ends after N pushes (with --state).", kind=Kind.WHOLE,
        metavar="N", least=1, why=_ON_SPARK,
    )
    every: float | None = _field(
        None, "--every", EPOCHS, "Epochs: one ends after so many seconds; with --epoch-size, whatever comes first.",
        kind=Kind.NUMBER, metavar="SECONDS", least=0.001, why=_ON_SPARK,
    )
    state: str | None = _field(
        None, "--state", EPOCHS, "Epochs: where the run keeps its snapshots; the same command resumes from there.",
        metavar="FOLDER", python=EPOCHS | STREAM, why=_ON_SPARK,
    )
    workers: int = _field(
        1, "--workers", EPOCHS, "Epochs: share the keys among N processes (with --key).", kind=Kind.WHOLE, metavar="N",
        least=1, why=_ON_SPARK, timed={EPOCHS: _ONE_WORKER},
    )
    cut: tuple[str, ...] = _field(
        (), "--cut", EPOCHS, "Epochs: cut the pipeline after this step, into several processes.", kind=Kind.TEXTS,
        metavar="STEP", why=_ON_SPARK, timed={EPOCHS: _ONE_WORKER},
    )
    record: bool = _field(
        False, "--record", EPOCHS, "Epochs: record the trace of the run, for pellucid audit.", kind=Kind.SWITCH,
        why=_ON_SPARK,
    )
    snapshots: int = _field(
        3, "--snapshots", EPOCHS, "Epochs: keep the last N of each task (3).", kind=Kind.WHOLE, metavar="N", least=1,
        why=_ON_SPARK,
    )
    patience: float | None = _field(
        None, "--patience", EPOCHS,
        "Epochs: a task that is busy for longer hangs (120); several --out: try a commit again for so long.",
        kind=Kind.NUMBER, metavar="SECONDS", least=0.1, command=EPOCHS | STREAM,
    )
    retries: int = _field(
        10, "--retries", EPOCHS, "Epochs: give up after N crashes without a new epoch (10).", kind=Kind.WHOLE,
        metavar="N", least=0, why=_ON_SPARK,
    )
    from_start: bool = _field(
        False, "--from-start", EPOCHS,
        "Epochs: if no snapshot is whole any more, or committed rows are lost, read all input again.",
        kind=Kind.SWITCH, why=_ON_SPARK,
    )
    changed: tuple[str, ...] = _field(
        (), "--allow-changed", EPOCHS,
        "Epochs: resume although what this step's function calls or reads has changed.", kind=Kind.TEXTS,
        metavar="STEP", why=_ON_SPARK,
        timed={EPOCHS: "a state by event time is of one pipeline: start again in another folder"},
    )

    # on Spark
    master: str | None = _field(
        None, "--master", SPARK,
        "Spark: the cluster, as in spark://host:7077; all cores of this machine by default.", metavar="URL",
        python=NONE,
    )
    conf: tuple[str, ...] = _field(
        (), "--conf", SPARK, "Spark: a setting of its own.", kind=Kind.TEXTS, metavar="NAME=VALUE", python=NONE,
    )
    partitions: int | None = _field(
        None, "--partitions", BATCH, "Spark: into how many parts a batch goes.", kind=Kind.WHOLE, metavar="N", least=1,
        python=SPARK,
    )
    stream: bool = _field(
        False, "--stream", STREAM, "Spark: a query that runs on as files are added to the input folder.",
        kind=Kind.SWITCH, python=NONE,
    )
    checkpoint: str | None = _field(
        None, "--checkpoint", STREAM,
        "Spark, --stream: how far it has come; the same command resumes from there.", metavar="FOLDER", python=NONE,
    )
    trigger: str | None = _field(
        None, "--trigger", STREAM, "Spark, --stream: once (all there is, then end), or '10 seconds'.", metavar="WHEN",
        python=NONE,
    )
    wait: Any = _field(
        None, "--wait", STREAM, "Spark, --stream: hold rows back until the order has advanced by so much.",
        metavar="TIME", timed={SPARK: "how late events may come is declared at the step at, with lateness="},
    )
    sequence: int | None = _field(
        None, "--sequence", SPARK, "Spark: the order counts up by one from N; a gap is an error.", kind=Kind.WHOLE,
        metavar="N", timed={SPARK: _NO_ORDER},
    )
    gaps: str = _field(
        "fail", "--gaps", STREAM, "Spark, --stream: if a number is missing.", choices=("fail", "wait"),
        why={BATCH: "in a batch, what is missing does not come any more"}, timed={SPARK: _NO_ORDER},
    )
    drop: tuple[str, ...] = _field(
        (), "--drop", STREAM, "Spark, --stream: give up the state of a step that is gone.", kind=Kind.TEXTS,
        metavar="STEP", python=SPARK,
        timed={SPARK: "what a step keeps of its times cannot be given up yet; begin with a new state folder and a new "
               "checkpoint"},
    )
    added: tuple[str, ...] = _field(
        (), "--added", STREAM,
        "Spark, --stream: a target that is new among several that commit together; it begins with the next rows.",
        kind=Kind.TEXTS, metavar="OUTPUT", python=NONE,
    )
    removed: tuple[str, ...] = _field(
        (), "--removed", STREAM,
        "Spark, --stream: a target that is not given any more among several that commit together.", kind=Kind.TEXTS,
        metavar="OUTPUT", python=NONE,
    )
    tag: str | None = _field(
        None, None, SPARK, "Give all outputs as one DataFrame with this column, which names the output of a row.",
    )
    nth: str | None = _field(
        None, None, SPARK, "The column that numbers the events of one push.",
        timed={SPARK: "a row that comes out is the answer of many rows, which no push numbers"},
    )
    native: str = _field("auto", None, SPARK, "Whether Spark's own expressions are used.", choices=("auto", "off"))
    store: str = _field(
        "own", None, SPARK, "Who keeps the state of a stream: snapshots in state=, or Spark.", choices=("own", "spark"),
    )
    buckets: int | None = _field(
        None, None, STREAM, "Into how many parts the keys of a stream go.", kind=Kind.WHOLE, least=1,
    )

    # fmt: on
    @property
    def aside(self) -> BadOption:
        """What becomes of bad rows; a sink is known by its address."""
        return said_bad(getattr(self.bad, "identity", self.bad), self.max_bad)

    @property
    def sets_aside(self) -> bool:
        """Whether bad rows are set aside, and do not end the run."""
        return self.bad is not None and self.bad != "fail"

    @property
    def busy_at_most(self) -> float:
        """The seconds for which a task of a run with epochs may be busy, or a disk full."""
        return 120.0 if self.patience is None else self.patience

    @property
    def nan_is_value(self) -> bool:
        """Whether NaN is a value of float."""
        return self.nan == "keep"

    def given(self) -> list[str]:
        """The names of the fields that are not as they are by default.

        >>> Request(order=("seq",), stream=True).given()
        ['order', 'stream']
        """
        return [name for name, one in FIELDS.items() if getattr(self, name) != one.default]


def _about(one: Field[Any]) -> About:
    return About(one.name, **one.metadata)


#: What is known of each field, in the order of the help.
FIELDS = {one.name: _about(one) for one in fields(Request)}
_CALLS = {CALL: "p(…)", EPOCHS: "run_epochs", BATCH: "p.spark", STREAM: "p.spark"}
_NOTHING = Request()


def about(name: str) -> About:
    """What is known of a field."""
    return FIELDS[name]


def in_python(name: str) -> bool:
    """Whether some call in Python takes a field of this name."""
    return name in FIELDS and bool(FIELDS[name].python)


def words_of(mode: Mode = CALL) -> list[str]:
    """The keywords of a call in Python."""
    return [name for name, one in FIELDS.items() if mode in one.python]


def asked(mode: Mode, given: Mapping[str, Any], *, command: bool = False) -> Request:
    """The request that these values make, each read as its field says; refused where one does not hold.  ``command``:
    it comes from the command line, and not from a call in Python.

    >>> asked(CALL, {"key": "user", "late": "drop", "order": ["day", "id"]}).order
    ('day', 'id')
    >>> asked(CALL, {"late": "drop"})
    Traceback (most recent call last):
    ...
    pellucid.errors.UsageError: late='drop' needs order=, the columns that say which row comes first
    """
    if not given:
        return _NOTHING
    values: dict[str, Any] = {}
    for name, value in given.items():
        one = FIELDS.get(name)
        if one is None or not (command or one.python):
            known = words_of(mode)
            raise UsageError(
                f"{_CALLS[mode]} has no option {name!r}: it has {', '.join(known)}{nearest(name, known)}"
            )
        if value is None and (one.default in (None, (), {}) or name == "bad"):
            continue
        if type(value) is type(one.default) and value == one.default:
            continue
        if mode not in (one.command if command else one.python):
            raise UsageError(refusal(one, mode, command=command))
        values[name] = _read(one, value)
    made = replace(_NOTHING, **values)
    _ = made.aside
    if mode in HERE and made.late != "fail":
        _check_late(made, mode)
    return made


def refusal(one: About, mode: Mode, *, command: bool = False) -> str:
    """Why a field does not hold in a mode, and where it does.

    >>> refusal(FIELDS["workers"], CALL)
    'workers= is for a run with epochs: p.run_epochs has it'
    """
    places = one.command if command else one.python
    if mode in SPARK and places & SPARK and command:
        goes = "does not go with --stream" if mode is STREAM else "goes with --stream"
    elif mode in SPARK and places & SPARK:
        goes = "is for streaming DataFrames, and this one is not"
    elif mode in SPARK:
        goes = "goes with the local engine"
    elif not places & HERE:
        goes = "goes with --on spark" if command else "goes with p.spark"
    elif mode is EPOCHS:
        goes = "goes with a run without epochs"
    else:
        size, every = option("pushes", any="N"), option("every", any="SECONDS")
        goes = f"is for a run with epochs: {f'give {size}, or {every}' if command else 'p.run_epochs has it'}"
    why = next((text for modes, text in one.why.items() if mode in modes), "")
    why = why.format(workers=option("workers", any="N"), order=option("order"))
    return f"{option(one.name)} {goes}{': ' if why else ''}{why}"


def by_time(graph: Graph, request: Request, mode: Mode, *, but: str = "") -> Request:
    """The request for a pipeline by event time, where inputs meet by time and need not be of one length; refused where
    a field (``but`` for one) does not go with that."""
    for name in request.given():
        why = next((text for modes, text in FIELDS[name].timed.items() if mode in modes), "")
        if why and name != but:
            raise UsageError(f"{option(name)} does not go with {graph.name}, which {why_cut(graph)}: {why}")
    return replace(request, short="silent")


# ------------------------------------------------------------------ what a field may be


def _read(one: About, value: Any) -> Any:
    """A value as its field holds it."""
    if one.name in _READ:
        return _READ[one.name](value)
    if one.kind is Kind.TEXTS:
        return (value,) if isinstance(value, str) else tuple(value)
    if one.kind is Kind.CHOICE and value not in one.choices:
        *others, last = one.choices
        raise UsageError(f"{option(one.name, value)}: expected {', '.join(others)} or {last}")
    if one.kind in (Kind.WHOLE, Kind.NUMBER):
        _check_number(one, value)
    return value


def _check_number(one: About, value: Any) -> None:
    whole = one.kind is Kind.WHOLE
    fits = isinstance(value, int if whole else (int, float)) and not isinstance(value, bool) and not math.isnan(value)
    if not fits or (one.least is not None and value < one.least):
        least = "" if one.least is None else f", at least {one.least:g}"
        what = "whole number" if whole else "number of seconds"
        raise UsageError(f"{option(one.name, value)}: expected a {what}{least}")


_READ: dict[str, Callable[[Any], Any]] = {
    "key": lambda value: key_columns(value, who=option("key")),
    "order": lambda value: key_columns(value, who=option("order")),
    "keep": lambda value: said_keep(value, who=option("keep")),
    "nulls": said_nulls,
    "time_format": lambda value: said_formats(value, who=option("time_format")),
}


def _check_late(request: Request, mode: Mode) -> None:
    """Refuse a policy that a run here does not have, or one without an order."""
    if request.late == "keep":
        raise UsageError(
            f"{option('late', 'keep')}: an output of the late rows is for Spark: here a table is sorted first, so that "
            "only a row that is there twice is late; say fail or drop"
        )
    if not request.order:
        by_event_time = " (what is late by event time is declared at the step: its late='drop', or its stream .late)"
        raise UsageError(
            f"{option('late', request.late)} needs {option('order')}, the columns that say which row comes first"
            + ("" if mode is CALL else by_event_time)
        )
