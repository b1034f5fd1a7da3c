"""Random pipelines with times, as text that stands alone, each beside the same in plain rules, and rows for them."""

from __future__ import annotations

import random
from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta
from datetime import time as clock
from decimal import Decimal
from typing import Any, NamedTuple
from zoneinfo import ZoneInfo

from tests.judge.time.folds import EVENTS, TASKS, WINDOWS, Fold
from tests.judge.time.rules import AsOf, At, Dedup, Each, Early, Join, Merge, Node, Row, Sessions, Timers, Windows

__all__ = ["Case", "Clockface", "draw_case"]

HEAD = """\
import enum
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Annotated, NamedTuple

from pellucid import Scale, as_of, join, lookup, merge, pipeline, silent


class Color(enum.Enum):
    RED = "z"
    GREEN = "a"
    BLUE = "m"


class R(NamedTuple):
    x: float
    y: int | None


class E(NamedTuple):
{fields}

"""

# the types of fields, and what they may be; t is the time
FIELDS: dict[str, tuple[str, Callable[[random.Random, dict[str, Any]], Any]]] = {
    "k": ("str", lambda draw, _: draw.choice(["a", "b", "c"])),
    "n": ("int", lambda draw, _: draw.randint(0, 9)),
    "v": ("float | None", lambda draw, _: draw.choice([None, 0.0, -0.0, 0.1, 0.2, 1e16, -1e16, 2.5])),
    "s": ("str | None", lambda draw, _: draw.choice([None, None, "", "a", "b", "Z", "ä", "\U0001d11e", "\uffff"])),
    "b": ("bool", lambda draw, _: draw.random() < 0.5),
    "c": ("Color | None", lambda draw, space: draw.choice([None, *space["Color"]])),
    "d": ("Annotated[Decimal, Scale(2)]", lambda draw, _: Decimal(draw.choice(["0.00", "-1.50", "10.25", "9.99"]))),
    "y": ("date | None", lambda draw, _: draw.choice([None, date(1969, 7, 20), date(2024, 2, 29)])),
    "r": ("R", lambda draw, space: space["R"](draw.choice([0.0, -0.0, 1.5, -2.0]), draw.choice([None, 0, -1]))),
}


# time zones, and moments shortly before their days are longer or shorter
ZONES = [
    ("America/New_York", datetime(2024, 3, 9, tzinfo=UTC)),
    ("America/New_York", datetime(2024, 11, 2, tzinfo=UTC)),
    ("Europe/Berlin", datetime(2024, 10, 25, tzinfo=UTC)),
    ("America/Sao_Paulo", datetime(2018, 2, 16, tzinfo=UTC)),  # at midnight
    ("America/Sao_Paulo", datetime(2018, 11, 3, tzinfo=UTC)),
    ("Australia/Lord_Howe", datetime(2024, 4, 5, tzinfo=UTC)),  # by half an hour
    ("Asia/Kolkata", datetime(1969, 12, 30, tzinfo=UTC)),
]
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def days_of(zone: str, size: int, every: int) -> Callable[[int], list[tuple[int, int]]]:
    """Windows of so many days of a time zone, counted from 1970-01-01."""
    there = ZoneInfo(zone)

    def midnight(day: int) -> int:
        start = datetime.combine(date(1970, 1, 1) + timedelta(days=day), clock(), there)
        return (start.astimezone(UTC) - EPOCH) // timedelta(microseconds=1)

    def windows(time: int) -> list[tuple[int, int]]:
        today = ((EPOCH + timedelta(microseconds=time)).astimezone(there).date() - date(1970, 1, 1)).days
        return [(midnight(s), midnight(s + size)) for s in range(today - size + 1, today + 1) if s % every == 0]

    return windows


class Clockface(NamedTuple):
    """What times are in a case: whole numbers, or datetimes of some unit."""

    kind: str  # "int", "naive" or "aware"
    unit: int  # one step of the drawn times: 1, or so many microseconds
    start: int

    @property
    def hint(self) -> str:
        return {"int": "int", "naive": "datetime", "aware": "Annotated[datetime, UTC]"}[self.kind]

    def time(self, ticks: int) -> Any:
        """A drawn time as the event has it."""
        at = self.ticks(ticks)
        if self.kind == "int":
            return at
        return datetime(1970, 1, 1, tzinfo=UTC if self.kind == "aware" else None) + timedelta(microseconds=at)

    def ticks(self, ticks: int) -> int:
        """The same as the rules have it."""
        return self.start + ticks * self.unit

    def size(self, ticks: int) -> str:
        """A length of time, as text."""
        if self.kind == "int":
            return str(ticks * self.unit)
        return f"timedelta(microseconds={ticks * self.unit})"

    def moment(self, ticks: int) -> str:
        """A time as text (without the start)."""
        if self.kind == "int":
            return str(ticks * self.unit)
        zone = "tzinfo=UTC" if self.kind == "aware" else ""
        return f"datetime(1970, 1, 1, {zone}) + timedelta(microseconds={ticks * self.unit})"


class Both(NamedTuple):
    """A stream as text and as a node; what its events are: "E", "int" windows, "other" windows, "pairs"."""

    name: str
    node: Node
    what: str
    keyed: bool = False


class Case:
    """A pipeline, its rules and how rows are made for it."""

    pipeline: Any
    space: dict[str, Any]

    def __init__(self, seed: str, draw: random.Random) -> None:
        self.seed, self.draw = seed, draw
        kind = draw.choice(["int", "int", "naive", "aware"])
        unit = 1 if kind == "int" else draw.choice([1, 1_000_000, 3_600_000_000])
        start = draw.choice([0, 0, -20, 100]) * unit
        self.zone = ""
        if kind == "aware" and draw.random() < 0.4:
            self.zone, moment = draw.choice(ZONES)
            unit, start = 3_600_000_000, (moment - EPOCH) // timedelta(microseconds=1)
        self.face = Clockface(kind, unit, start)
        self.subs: list[str] = []
        self.lines: list[str] = []
        self.nodes: list[Node] = []
        self.sources: dict[str, At] = {}
        self.outputs: dict[str, tuple[Node, bool, bool]] = {}  # of which node, the late ones?, is the order known
        self.policies: dict[Node, str] = {}
        self.results: list[str] = []
        more = [name for name in ("b", "c", "d", "y", "r") if draw.random() < 0.25]
        self.fields = ["t", "k", "n", "v", "s", *more]
        if draw.random() < 0.5:
            draw.shuffle(self.fields)
        self.together = draw.random() < 0.3  # pushes that bring events of several sources
        self.many = draw.random() < 0.5  # many events of one time

    def line(self, text: str, node: Node, what: str, keyed: bool = False) -> Both:
        name = f"s{len(self.lines)}"
        self.lines.append(f"    {name} = {text}")
        self.nodes.append(node)
        return Both(name, node, what, keyed)

    def source(self, name: str, idle: bool = False) -> Both:
        """A source whose events have times."""
        ticks = self.draw.choice([0, 0, 1, 3, 8])
        at = At(ticks * self.face.unit)
        self.sources[name] = at
        lateness = f", lateness={self.face.size(ticks)}" if ticks or self.draw.random() < 0.3 else ""
        field = self.draw.choice(["lambda e: e.t", '"t"'])
        quiet = f", idle={'timedelta(seconds=5)'}" if idle else ""
        return self.line(f"{name}.at({field}{lateness}{quiet})", at, "E")

    def sub(self, fold: Fold) -> str:
        name = f"sub{len(self.subs)}"
        self.subs.append(f"def {name}(x):\n    return {fold.text}\n")
        return name

    # ------------------------------------------------------------ ordinary steps

    def some(self, x: Both) -> Both:
        """Perhaps a filter or a map, which times go through."""
        chance = self.draw.random()
        if x.what != "E" or chance < 0.6:
            return x
        if chance < 0.68 and len(x.node.at) == 1:  # else the order of what arrives from several counts
            return self.counted(x)
        if chance < 0.8:
            node = Each(x.node, lambda row: [row] if row.value.n != 3 else [])
            return self.line(f"{x.name}.filter(lambda e: e.n != 3)", node, x.what, x.keyed)
        node = Each(x.node, lambda row: [row._replace(value=row.value._replace(n=row.value.n + 1))])
        return self.line(f"{x.name}.map(lambda e: e._replace(n=e.n + 1))", node, x.what, x.keyed)

    def counted(self, x: Both) -> Both:
        """A step that remembers: which event of its key this is, by arrival."""
        seen: dict[Any, int] = {}

        def change(row: Row) -> list[Row]:
            seen[row.key] = seen.get(row.key, 0) + 1
            return [row._replace(value=row.value._replace(n=row.value.n + seen[row.key] % 2))]

        count = "task(lambda c, e: (c + 1, [e._replace(n=e.n + (c + 1) % 2)]), initial=0)"
        return self.line(f"{x.name}.{count}", Each(x.node, change), x.what, x.keyed)

    def summed(self, x: Both) -> Both:
        """What stands behind windows and remembers, too: it shows in which order their answers come."""
        sums: dict[Any, int] = {}

        def change(row: Row) -> list[Row]:
            sums[row.key] = (sums.get(row.key, 1) * 31 + row.value.value) % 1000003
            return [row._replace(value=sums[row.key])]

        text = f"{x.name}.cumulate(lambda a, w: (a * 31 + w.value) % 1000003, start=1)"
        return self.line(text, Each(x.node, change), "number", x.keyed)

    def key(self, x: Both, how: str) -> Both:
        keys: dict[str, Callable[[Any], Any]] = {
            "e.k": lambda e: e.k,
            "e.n % 3": lambda e: e.n % 3,
            "(e.k, e.n % 2)": lambda e: (e.k, e.n % 2),
            "e.s": lambda e: e.s,
        }
        if not how:
            return x
        of = keys[how]
        node = Each(x.node, lambda row: [row._replace(key=of(row.value))])
        return self.line(f"{x.name}.key_by(lambda e: {how})", node, x.what, keyed=True)

    # ------------------------------------------------------------ steps that wait for the clock

    def window(self, x: Both, corrected: bool = False) -> Both:
        """Windows; `corrected`: perhaps their answers come again, which no other step by time may read."""
        draw, face = self.draw, self.face
        if x.what == "E":
            fold = EVENTS[draw.choice(list(EVENTS))]
        elif x.what == "int":
            fold = WINDOWS[draw.choice(list(WINDOWS))]
        else:
            fold = EVENTS["count"]
        sub = self.sub(fold)
        kind, late = draw.choice(["tumbling", "sliding", "session"]), self.late()
        size = draw.randint(1, 7)
        origin = draw.choice([None, None, 0, 1, -3, 50])
        start = "" if origin is None else f", origin={face.moment(origin)}"
        at = (origin or 0) * face.unit
        what = "int" if fold.number else "other"
        allowed = draw.choice([0, 2, 6]) if corrected and draw.random() < 0.5 else 0
        early = draw.choice([None, None, "event", 4])
        soon = None if early is None else early if early == "event" else early * face.unit
        so_far = "" if early is None else ', early="event"' if early == "event" else f", early={face.size(early)}"
        more = {"allowed": allowed * face.unit, "early": soon}
        late_, late = late, f"{late}{so_far}"
        held = f", allowed_lateness={face.size(allowed)}" if allowed or (corrected and draw.random() < 0.1) else ""
        if self.zone and draw.random() < 0.8:
            size, every = draw.choice([(1, 1), (2, 1), (3, 2), (7, 7)])
            node: Any = Windows(x.node, 0, 0, fold.meaning, windows=days_of(self.zone, size, every), **more)
            long, step = f"timedelta(days={size})", f"timedelta(days={every})"
            call = f"tumbling({long}, {sub}" if size == every else f"sliding({long}, {step}, {sub}"
            text = f'{x.name}.{call}, tz="{self.zone}"{late}{held})'
        elif kind == "session":
            node = Sessions(x.node, size * face.unit, fold.meaning, soon)
            text = f"{x.name}.session({face.size(size)}, {sub}{late})"
        elif kind == "tumbling":
            node = Windows(x.node, size * face.unit, size * face.unit, fold.meaning, at, **more)
            text = f"{x.name}.tumbling({face.size(size)}, {sub}{start}{late}{held})"
        else:
            every = draw.randint(1, size)
            node = Windows(x.node, size * face.unit, every * face.unit, fold.meaning, at, **more)
            text = f"{x.name}.sliding({face.size(size)}, {face.size(every)}, {sub}{start}{late}{held})"
        found = self.said(self.line(text, node, what, x.keyed), late_)
        if early is not None:
            other = self.line(f"{found.name}.early", Early(node), what, x.keyed)
            self.out(f"so_far_{found.name}", other.name, other.node, order=True)
        return found

    def late(self) -> str:
        """What is said about late rows: nothing, that they are dropped, or that they are taken."""
        return self.draw.choice(["", ', late="drop"', " ", " ", " "])

    def said(self, x: Both, late: str) -> Both:
        self.policies[x.node] = {"": "fail", " ": "take"}.get(late, "drop")
        if late == " ":
            self.out(f"late_{x.name}", f"{x.name}.late", x.node, late=True)
        return x

    def out(self, name: str, text: str, node: Node, late: bool = False, order: bool = False) -> None:
        self.outputs[name] = (node, late, order)
        self.results.append(f'"{name}": {text}')

    def pair(self, a: Both, b: Both) -> Both:
        draw, face, late = self.draw, self.face, self.late()
        kind = draw.choice(["join", "join", "as_of"])
        if kind == "as_of":
            within, how = draw.choice([None, 1, 4]), draw.choice(["left", "inner"])
            node: Node = AsOf(a.node, b.node, None if within is None else within * face.unit, how)
            most = "" if within is None else f", within={face.size(within)}"
            way = f', how="{how}"' if how != "left" or draw.random() < 0.5 else ""
            return self.said(self.line(f"as_of({a.name}, {b.name}{most}{way}{late})", node, "pairs", a.keyed), late)
        how = draw.choice(["inner", "left", "full"])
        if draw.random() < 0.4:
            hi = draw.randint(1, 4)
            lo, text = -hi, face.size(hi)
        else:
            lo = draw.randint(-4, 3)
            hi = lo + draw.randint(0, 4)
            text = f"({face.size(lo)}, {face.size(hi)})"
        way = f', how="{how}"' if how != "inner" or draw.random() < 0.5 else ""
        node = Join(a.node, b.node, lo * face.unit, hi * face.unit, how)
        return self.said(self.line(f"join({a.name}, {b.name}, within={text}{way}{late})", node, "pairs", a.keyed), late)

    def lookup(self, a: Both, b: Both) -> Both:
        late = self.late()
        node = AsOf(a.node, b.node, None, "left")
        return self.said(self.line(f"lookup({a.name}, {b.name}{late})", node, "pairs", a.keyed), late)

    def dedup(self, x: Both) -> Both:
        late, within = self.late(), self.draw.randint(1, 5)
        bys: list[tuple[str, Callable[[Any], Any]]] = [
            ("e.k", lambda e: e.k),
            ("e.n", lambda e: e.n),
            ("(e.k, e.s)", lambda e: (e.k, e.s)),
        ]
        text, by = self.draw.choice(bys)
        node = Dedup(x.node, by, within * self.face.unit)
        line = f"{x.name}.dedup(by=lambda e: {text}, within={self.face.size(within)}{late})"
        return self.said(self.line(line, node, x.what, x.keyed), late)

    def timers(self, x: Both) -> Both:
        """A task that is told of times."""
        late, how, gap = self.late(), self.draw.choice(list(TASKS)), self.draw.randint(1, 6)
        task = TASKS[how]
        by = gap * self.face.unit
        node = Timers(
            x.node, task.start, lambda s, row: task.on_row(s, row, by), lambda s, time: task.on_time(s, time, by)
        )
        first, then = (text.replace("GAP", self.face.size(gap)) for text in (task.first, task.then))
        line = f"{x.name}.task(lambda s, e: {first}, {task.start!r}, on_time=lambda s, t: {then}{late})"
        return self.said(self.line(line, node, task.what, x.keyed), late)

    # ------------------------------------------------------------ the whole

    @property
    def text(self) -> str:
        subs = "\n".join(self.subs)
        names = ", ".join(self.sources)
        types = ", ".join(f"{name}=E" for name in self.sources)
        lines = "\n".join(self.lines)
        results = ", ".join(self.results)
        body = f"{subs}\n\ndef f({names}):\n{lines}\n    return {{{results}}}\n\n\np = pipeline(f, {types})\n"
        types = {"t": self.face.hint, **{name: hint for name, (hint, _) in FIELDS.items()}}
        return HEAD.format(fields="\n".join(f"    {name}: {types[name]}" for name in self.fields)) + "\n" + body

    def rows(self, large: bool = False) -> list[tuple[str, int, Any]]:
        """Events in the order of their arrival: the source, the time, the event as the pipeline gets it."""
        draw = self.draw
        now, found = 0, []
        within = draw.random() < 0.35  # no later than was said
        tops: dict[str, int] = {}
        names = [f"k{i}" for i in range(draw.choice([3, 40, 400]))]
        for _ in range(draw.choice([200, 800, 2500]) if large else draw.choice([0, 1, 3, 6, 12, 25])):
            now += draw.choice([0, 0, 0, 0, 0, 9] if self.many else [0, 0, 1, 1, 2, 3, 17])
            source = draw.choice(list(self.sources))
            ticks = now - draw.choice([0, 0, 0, 1, 2, 4, draw.randint(0, 15)])
            if within and source in tops:
                ticks = max(ticks, tops[source] - self.sources[source].lateness // self.face.unit)
            tops[source] = max(tops.get(source, ticks), ticks)
            drawn = {name: make(draw, self.space) for name, (_, make) in FIELDS.items()}
            drawn["t"] = self.face.time(ticks)
            if large:
                drawn["k"] = draw.choice(names)
            event = self.space["E"](**{name: drawn[name] for name in self.fields})
            found.append((source, self.face.ticks(ticks), event))
            while draw.random() < 0.1:
                found.append((source, self.face.ticks(ticks), event))
        return found


def draw_case(seed: str, build: bool = True) -> Case:
    """One case; its pipeline is made by running its text."""
    draw = random.Random(f"time {seed}")
    case = Case(seed, draw)
    key = draw.choice(["", "e.k", "e.k", "e.n % 3", "(e.k, e.n % 2)", "e.s"])
    shape = draw.choice(["window", "window", "merged", "pair", "pair", "self", "dedup", "lookup", "mixed"])
    if random.Random(f"timers {seed}").random() < 0.15:
        shape = "timers"
    x = case.some(case.source("x"))
    if shape in ("merged", "pair", "lookup", "mixed"):
        y = case.some(case.source("y", idle=shape == "lookup"))
        if shape == "merged":
            others = [y, case.source("z")] if draw.random() < 0.4 else [y]
            names = ", ".join(one.name for one in (x, *others))
            x = case.line(f"merge({names})", Merge(x.node, *(one.node for one in others)), "E")
        elif shape == "mixed":  # answers of windows beside events
            x = case.pair(case.window(case.key(x, key)), case.key(y, key))
        elif shape == "pair":
            x = case.pair(case.key(x, key), case.key(y, key))
        else:
            key = key or "e.k"
            x = case.lookup(case.key(x, key), case.key(y, key))
    elif shape == "self":
        x = case.key(x, key)
        x = case.pair(x, case.some(x))
    if shape in ("window", "merged", "dedup", "timers"):
        x = case.some(case.key(x, key))
        if shape == "timers":
            x = case.timers(x)
        elif shape == "dedup" or draw.random() < 0.1:
            x = case.dedup(x)
        else:
            x = case.window(x, corrected=True)
    case.out("first", x.name, x.node, order=isinstance(x.node, (Windows, Sessions, Timers)))
    if x.what == "int" and draw.random() < 0.2:
        y = case.summed(x)
        case.out("sums", y.name, y.node, order=True)
    if draw.random() < 0.5 and not getattr(x.node, "allowed", 0):
        y = case.window(x)
        case.out("then", y.name, y.node, order=True)
    if build:
        case.space = {"__name__": "case"}
        exec(compile(case.text, "<case>", "exec", dont_inherit=True), case.space)
        case.pipeline = case.space["p"]
    return case


def as_rows(rows: list[tuple[str, int, Any]], keyed: bool = False) -> dict[str, list[Row]]:
    """Rows of each source as the rules take them; `keyed`: under a key that comes with them."""
    found: dict[str, list[Row]] = {}
    for source, time, event in rows:
        found.setdefault(source, []).append(Row(time, event.k if keyed else None, event))
    return found
