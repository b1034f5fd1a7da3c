"""The table of processors: each kind once, with what every back-end asks about it.

What a kind *is* stands here: how its inputs come, how many events it puts out, what it remembers, where a stream can be
cut at it, what it looks like.  What a back-end *does* with a kind stands in a table of that back-end (``STEPS``), which
is asked through `pellucid.errors.known`: a kind that it does not name is refused by name, never taken for another.

>>> PROCESSORS["trim"].keeps, PROCESSORS["apply"].inputs, PROCESSORS["merge"].inputs
('count', 'together', 'apart')

To add a kind: a row here, a method of `Stream`, and a row in the tables of the interpreter, the kernel
(``kernel/emit/steps.py``), the checks (``check/system/run.py``, ``check/functions/arguments.py``), NuSMV
(``export/smv/modules.py`` and ``kinds.py``) and the pictograms; `tests/graph/test_table.py` says what is missing.
A timed kind, which waits for event time, has its meaning in ``engine/timed/literal.py``; a back-end that knows no event
time refuses it by name (`refuse_timed`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

_WAITS = " waits for its inputs: what waits depends on all that came before"
_TIMES = " waits for event time, which all events before have moved"
_ROUND = " is a loop: how often events go round depends on all that came before"


@dataclass(frozen=True)
class Processor:
    """One kind of processor."""

    words: str  # what it puts out
    #: Its colour in pictures: without memory, with memory, a frame around others, a router of events, by event time.
    family: str
    shape: tuple[str, str]  # what opens and closes its box in Mermaid
    #: How events come to it: ``none`` (a source), ``one`` input, several ``together`` (it waits for one of each), or
    #: ``apart`` (each as it comes).
    inputs: str = "one"
    #: What it puts out for an event that comes: one for ``each``, one for ``some``, as ``many`` as its function says.
    puts: str = "each"
    #: Whose events it hands on as they are: those of its ``first`` input, those of ``all``, or none's.
    passes: str = ""
    #: What it remembers: its last ``value``, a ``count`` of its events, its last ``events``, a ``state``, events
    #: by their ``times``, or nothing.
    keeps: str = ""
    idle: int | None = None  # the k with which it lets every event through and remembers nothing
    counted: Callable[[int, int], int] | None = None  # what is left of the count of n events, given k
    beside: int = 0  # of one that keeps events: at how many more than k, the present one among them, it looks
    keyed: bool = False  # it makes the key of what follows
    forgets: bool = False  # and gives up what is kept for a key of which k events have not been
    #: How a chunk of its events is summed up, so that a stream can be cut at it: a ``count``, a ``tail`` of events, a
    #: ``fold``; or the end of a sentence that says why it cannot be.
    cut: str = ""

    #: It works by event time, or is a loop: engines cut the graph at it, and tell it when times are complete.
    timed: bool = False
    #: What becomes of the times of events: it ``makes`` them, ``drops`` them, hands them on where there are some
    #: (``may``), or else wants some and hands them on.
    clock: str = ""
    #: Of a timed one: whether an event can come too late for it, so that it has a ``late`` stream.
    judges: bool = False

    @property
    def starts(self) -> bool:
        """Whether it begins with a start value of the user's."""
        return self.keeps in ("value", "state")

    @property
    def plain(self) -> bool:
        """Whether what it does with an event depends on that event alone, whatever its parameters, and puts out one at
        most."""
        return self.inputs == "one" and self.puts != "many" and not self.keeps and not self.keyed and not self.timed


PROCESSORS = {
    "source": Processor("events come in", "edge", ("([", "])"), inputs="none"),  # a stadium
    "map": Processor("a function of each event", "plain", ("[", "]")),
    "filter": Processor(  # a funnel: wide above, narrow below
        "the events for which a predicate holds", "plain", ("[\\", "/]"), puts="some", passes="first",
    ),
    "filter_by": Processor(
        "the events whose partner in a Boolean stream is true", "plain", ("{", "}"),
        inputs="together", puts="some", passes="first", cut=_WAITS,
    ),
    "apply": Processor(
        "a function of one event from each input, synchronously", "plain", ("[[", "]]"), inputs="together", cut=_WAITS,
    ),
    "cumulate": Processor(
        "the successive values of a binary function", "state", ("(", ")"), keeps="value", cut="fold",
    ),
    "decimate": Processor(
        "one event in k", "state", (">", "]"),
        puts="some", passes="first", keeps="count", idle=1, counted=lambda n, k: n % k, cut="count",
    ),
    "trim": Processor(
        "all but the first k events", "state", ("[/", "/]"),
        puts="some", passes="first", keeps="count", idle=0, counted=min, cut="count",
    ),
    "lag": Processor(
        "each event beside the one k events before it", "state", ("[\\", "\\]"),
        puts="some", keeps="events", beside=1, cut="tail",
    ),
    "window": Processor(
        "the last event of a sub-pipeline over each k successive events", "frame", ("[", "]"),
        puts="some", keeps="events", idle=1, cut="tail",
    ),
    "task": Processor(  # a store
        "the general stateful task: state and event to state and events", "state", ("[(", ")]"),
        puts="many", keeps="state", cut=" is a general task: its state can be anything",
    ),
    "explode": Processor("each element of a list, in order", "plain", ("[/", "\\]"), puts="many"),  # it widens
    "merge": Processor("the events of all inputs, as they come", "route", ("((", "))"), inputs="apart", passes="all"),
    "key_by": Processor(
        "the same events, with what follows kept apart by key", "route", ("{{", "}}"), passes="first", keyed=True,
    ),
    "forget": Processor(
        "the same events, kept apart by key, where a key begins anew after k events that are not its own",
        "route", ("(((", ")))"), passes="first", keyed=True, forgets=True,
    ),
    "at": Processor(  # a flag on an axis
        "the same events, each with its time", "time", (">", "]"),
        passes="first", timed=True, clock="makes", cut=_TIMES,
    ),
    "tumbling": Processor(
        "the last event of a sub-pipeline over each window of time, once, when the window is complete",
        "time", ("[", "]"), puts="many", keeps="times", timed=True, judges=True, cut=_TIMES,
    ),
    "sliding": Processor(
        "the same over windows of time that overlap", "time", ("[", "]"),
        puts="many", keeps="times", timed=True, judges=True, cut=_TIMES,
    ),
    "session": Processor(
        "the last event of a sub-pipeline over events that are no further apart than a gap",
        "time", ("[", "]"), puts="many", keeps="times", timed=True, judges=True, cut=_TIMES,
    ),
    "join": Processor(
        "pairs of events whose times are within an interval", "time", ("[[", "]]"),
        inputs="apart", puts="many", keeps="times", timed=True, judges=True, cut=_TIMES,
    ),
    "as_of": Processor(
        "each event beside the latest of another stream that is not after it", "time", ("[[", "]]"),
        inputs="apart", puts="many", keeps="times", timed=True, judges=True, cut=_TIMES,
    ),
    "lookup": Processor(
        "each event beside what a table that changes held at its time", "time", ("[(", ")]"),
        inputs="apart", puts="many", keeps="times", timed=True, judges=True, cut=_TIMES,
    ),
    "dedup": Processor(
        "the events of which there was no like one shortly before", "time", ("{", "}"),
        puts="many", keeps="times", timed=True, judges=True, cut=_TIMES,
    ),
    "timers": Processor(
        "the general stateful task by event time, which is told of the times that it asks for", "time", ("[(", ")]"),
        puts="many", keeps="times", timed=True, judges=True, cut=_TIMES,
    ),
    "late": Processor(
        "the events that came too late for a step", "time", ("[/", "\\]"),
        puts="many", timed=True, clock="drops", cut=_TIMES,
    ),
    "early": Processor(
        "the answers that windows have so far, before they are complete", "time", ("[\\", "/]"),
        puts="many", timed=True, clock="drops", cut=_TIMES,
    ),
    "iterate": Processor(
        "what goes round through a sub-pipeline until nothing changes, or to a bound", "frame", ("[", "]"),
        puts="many", keeps="times", timed=True, clock="may", judges=True, cut=_ROUND,
    ),
}  # fmt: skip
