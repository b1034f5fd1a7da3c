"""Formulas on what really happened: the pushes are run on the interpreter, and each atom is judged on what every stream
carried.

No queue has a bound here, and nothing is made symbolic but the names: in each push a stream has as many places as it
carried events.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from pellucid.check.counterexample.replay import WatchedInterpreter
from pellucid.check.formula import Formula, resolve, terms
from pellucid.check.formula.terms import Flag
from pellucid.check.system.build import HIDDEN, System
from pellucid.check.system.domains import Domain
from pellucid.check.system.variable import Slot
from pellucid.errors import StepError, UsageError
from pellucid.internal.expr import node as n
from pellucid.internal.expr.evaluate import evaluate
from pellucid.internal.expr.node import Expr
from pellucid.internal.expr.types import BOOL, INT, Type
from pellucid.internal.graph.model import Graph


def atoms_on(
    graph: Graph, formula: Formula, pushes: Sequence[Mapping[str, Any]], *, bounds: Mapping[str, int] | None = None
) -> list[dict[Formula, bool]]:
    """For each push, which atoms of the formula hold.

    With ``bounds`` for the queues a push that needs a longer one is the last: there is an overflow, and silence from
    there on.

    >>> from pellucid import pipeline
    >>> from pellucid.check.formula.parse import parse
    >>> p = pipeline(lambda x: x.task(lambda s, v: (s, [v, v + 1]), 0), x=int)
    >>> f = parse("any(out.value > 3) & out.value > 3 & out.count = 2")
    >>> [list(holds.values()) for holds in atoms_on(p.graph, f, [{"x": 3}, {}, {"x": 4}])]
    [[True, False, True], [False, False, False], [True, True, True]]
    """
    for term in terms(formula):
        if isinstance(term, Flag) and term.name != "failed" and bounds is None:
            raise UsageError(
                f"{formula}: one stream is run with queues of any length, so nothing is ever full: "
                "compare queue(ID).length, or ask check.holds with queue="
            )
    run, failed, out = WatchedInterpreter(graph), False, []
    before: dict[str, Any] = {}  # the last event of each stream in an earlier push
    lengths = dict.fromkeys(run.queues, 0)
    over = False
    for push in pushes:
        carried: Mapping[str, list[Any]] = {}
        now = lengths
        if not failed and not over:
            run.lost = frozenset(key[5:] for key in push if key.startswith("lost."))
            try:
                run.push(
                    {
                        name: event
                        for name, event in push.items()
                        if not name.startswith("lost.") and name not in run.lost
                    }
                )
                now = run.lengths()
                over = bounds is not None and any(length > bounds[id] for id, length in now.items())
            except StepError:
                failed = True
            if not failed and not over:
                carried, lengths = run.carried, now
        seen = _Seen()
        system = seen.system(graph, carried, before, now, failed)
        if bounds is not None:
            system = dataclasses.replace(system, bounds=bounds, overflow=seen.var(BOOL, over))
        out.append(_judged(formula, seen, system))
        before = {**before, **{id: events[-1] for id, events in carried.items() if events}}
    return out


@dataclass
class _Seen:
    """The values that were seen in a push, as variables of a system."""

    values: list[Any] = field(default_factory=list)

    def var(self, t: Type, value: Any) -> Expr:
        self.values.append(value)
        return n.var(len(self.values) - 1, t)

    def slots(self, t: Type, events: Sequence[Any]) -> tuple[Slot, ...]:
        kinds = [kind for _, kind in t.leaves()]
        return tuple(Slot(n.TRUE, tuple(map(self.var, kinds, t.flatten(event)))) for event in events)

    def system(
        self,
        graph: Graph,
        carried: Mapping[str, list[Any]],
        before: Mapping[str, Any],
        lengths: Mapping[str, int],
        failed: bool,
    ) -> System:
        """A system whose only push is this one."""
        outputs = {name: graph.nodes[i].id for name, i in graph.outputs}
        place = dict(graph.position)
        place |= {f"{HIDDEN}{id}": i for id, i in place.items() if outputs.get(id, id) != id} | dict(graph.outputs)
        streams = {}
        for name, i in place.items():
            node = graph.nodes[i]
            streams[name] = node.type, self.slots(node.type, carried.get(node.id, []))
            streams[f"Y {name}"] = node.type, self.slots(node.type, [before[node.id]] if node.id in before else [])
        sources = tuple((graph.nodes[i].id, graph.nodes[i].type) for i in graph.sources)
        shown = {id: self.var(INT, length) for id, length in lengths.items()}
        return System(
            graph.name,
            Domain(),
            (),
            (),
            (),
            streams,
            shown,
            {},
            n.FALSE,
            self.var(BOOL, failed),
            sources,
            strict=True,
            outputs=outputs,
        )


def _judged(formula: Formula, seen: _Seen, system: System) -> dict[Formula, bool]:
    out = {}
    memo: dict[int, Any] = {}
    for atom in formula.atoms():
        found = resolve(atom, system)
        if found.op != "atom":
            out[atom] = found.op == "true"
            continue
        assert isinstance(found.body, Expr)
        try:
            out[atom] = bool(evaluate(found.body, seen.values, memo, exact=True))
        except (ArithmeticError, ValueError):  # an atom whose own calculation fails does not hold
            out[atom] = False
    return out
