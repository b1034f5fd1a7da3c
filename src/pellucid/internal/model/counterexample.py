"""Counterexamples: the steps that break a property, and all the forms in which they are shown.

A room says what happened (`Counterexample.sheet`: a row for what is watched, a column for each step), as plain data
(`document`), as lines of a test (`test`), and how to see it happen again (`replay`).  The table for a terminal, the
picture, the JSON document and the test file are the same for all.  `Run` is the counterexample of any `Machine`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

from pellucid.errors import UsageError
from pellucid.internal.graph.model import Graph
from pellucid.internal.model.picture import sheet_svg
from pellucid.internal.model.pytest_file import Case, Imports, literal, pytest_file
from pellucid.internal.model.search import Machine
from pellucid.internal.model.sheet import Row, Sheet, as_json, sheet_text, versioned


@dataclass(frozen=True)
class Counterexample:
    """Steps that break a property; from ``loop`` on they repeat for ever (None: they end)."""

    graphs: tuple[Graph, ...] = ()  # the pipelines that it is about, if it is about any
    steps: tuple[Any, ...] = ()
    loop: int | None = None
    why: str = ""  # in words: what is wrong in the last step

    def sheet(self, question: str = "", *, everything: bool = False) -> Sheet:
        """What is shown: what the question names, or everything that has a name."""
        raise NotImplementedError

    def document(self) -> dict[str, Any]:
        """As plain data, to stand inside a larger document."""
        raise NotImplementedError

    def test(self, case: Case, imports: Imports) -> list[str]:
        """The lines of a test that makes it happen again."""
        raise NotImplementedError

    def replay(self) -> bool:
        """Whether it happens again, step by step."""
        raise NotImplementedError

    def text(self, question: str = "", *, width: int | None = None) -> str:
        """A table for a terminal; ``width`` is the terminal's unless given."""
        return sheet_text(self.sheet(question), width=width)

    def picture(self, question: str = "") -> str:
        """An SVG; the question stands above it."""
        return sheet_svg(self.sheet(question, everything=True), title=question)

    def __str__(self) -> str:
        return self.text()

    def _repr_html_(self) -> str:
        return self.picture()

    def to_json(self, *, indent: int | None = None) -> str:
        """A versioned document: what happened in each step."""
        return versioned({"counterexample": self.document()}, indent=indent)

    def as_pytest(
        self,
        question: str,
        *,
        file: str | Sequence[str],
        name: str | Sequence[str] = "",
        test: str = "",
        folder: str = ".",
    ) -> str:
        """The text of a test file that reproduces it; ``file`` and ``name`` say where the pipeline stands (two of each
        for two), as a path or a module's dotted name.

        ``folder`` is where the test will be written: a path to ``file`` is then given from there.

        >>> from pellucid import check, pipeline
        >>> late = pipeline(lambda x: x.trim(1), x=int)
        >>> example = check.holds(late, "G (x -> out)").counterexample
        >>> print(example.as_pytest("G (x -> out)", file="shop.late", name="late"))
        # Written by Pellucid: what refuted the properties below, run on the real engine.
        from shop.late import late
        <BLANKLINE>
        <BLANKLINE>
        def test_late_G_x_out() -> None:
            # Broken: G (x -> out)
            # On every run, in every step, if x carries an event, then out carries an event.
            x = [0]
            assert late.trace(x) == [[]]
        <BLANKLINE>
        """
        files = (file,) if isinstance(file, str) else tuple(file)
        names = (name,) if isinstance(name, str) else tuple(name)
        names = tuple(n or g.name for n, g in zip(names, self.graphs, strict=False)) or names
        return pytest_file([Case(self, question, files, names, test)], folder=folder)


@dataclass(frozen=True)
class Run(Counterexample):
    """A run of any machine: ``steps`` are its labels.

    What the machine `see`s of a state is shown: a row for each entry of a mapping, where it changes.

    >>> class Lamp:
    ...     def start(self): return 0
    ...     def steps(self, at, *, failures=True): return [("press", (at + 1) % 3), ("wait", at)]
    ...     def see(self, at): return {"light": ("off", "dim", "bright")[at]}
    ...     def complete(self, at): return True
    >>> run = Run((), ("press", "wait", "press"), None, "it dazzles", Lamp())
    >>> print(run)
    step   0      1     2
           press  wait  press
    light  'dim'        'bright'
                        ^ it dazzles
    >>> run.replay(), Run((), ("jump",), None, "", Lamp()).replay()
    (True, False)
    """

    machine: Machine | None = field(default=None, compare=False, repr=False)

    def _seen(self) -> list[dict[str, Any]]:
        assert self.machine is not None
        seen = [self.machine.see(at) for at in follow(self.machine, self.steps)]
        return [dict(s) if isinstance(s, Mapping) else {"seen": s} for s in seen]

    def sheet(self, question: str = "", *, everything: bool = False) -> Sheet:
        """The labels, and what is seen where it changes."""
        seen, count = self._seen(), len(self.steps)
        rows = [Row("label", "", tuple([str(label)] for label in self.steps), "edge")]
        for name in dict.fromkeys(name for view in seen for name in view):
            cells = [[b.get(name)] if a.get(name) != b.get(name) else [] for a, b in pairwise(seen)]
            rows.append(Row("state", str(name), tuple(cells), "edge"))
        marks = (count - 1,) if count and self.loop is None else ()
        return Sheet(tuple(rows), count, self.loop, marks, self.why or "here", unit="step")

    def document(self) -> dict[str, Any]:
        """The labels and what was seen after each."""
        before, *after = self._seen()
        steps = [{"step": str(label), "seen": as_json(s)} for label, s in zip(self.steps, after, strict=True)]
        return {"loop": self.loop, "why": self.why, "start": as_json(before), "steps": steps}

    def replay(self) -> bool:
        """Whether the machine still takes these steps."""
        try:
            return len(self._seen()) == len(self.steps) + 1
        except UsageError:
            return False

    def test(self, case: Case, imports: Imports) -> list[str]:
        """It follows the labels on the machine that has this name."""
        imports.need(case.files[0], case.names[0])
        imports.ours.add("from pellucid.internal.model import follow")
        labels = ", ".join(literal(label, case.files[0], imports) for label in self.steps)
        last = literal(self._seen()[-1], case.files[0], imports)
        return [
            f"    *_, last = follow({case.names[0]}, [{labels}])",
            f"    assert {case.names[0]}.see(last) == {last}",
        ]


def follow(machine: Machine, labels: Iterable[Any]) -> list[Any]:
    """The states on the way that these labels name; a label that is not possible where it comes is refused.

    >>> from types import SimpleNamespace
    >>> counter = SimpleNamespace(start=lambda: 0, steps=lambda at: [("more", at + 1)])
    >>> follow(counter, ["more", "more"])
    [0, 1, 2]
    >>> follow(counter, ["less"])
    Traceback (most recent call last):
    pellucid.errors.UsageError: step 0: 'less' is not possible there: 'more' is
    """
    path = [machine.start()]
    for i, label in enumerate(labels):
        others: list[str] = []
        for given, then in machine.steps(path[-1]):  # one by one: there may be very many
            if given == label:
                path.append(then)
                break
            others += [repr(given)] if len(others) < 8 else []
        else:
            raise UsageError(f"step {i}: {label!r} is not possible there: {', '.join(others) or 'nothing'} is")
    return path
