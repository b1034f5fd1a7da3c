"""The transition system of a pipeline: its Kripke structure, as expressions.

One push is one step (seed 001, section 3.1).  In a step every source pushes any event of its domain or stays
silent; the **state** is the processors' states and queues; **observations** are the presence and value of every
stream in the step, the lengths of queues after it, overflow and failure.  Everything is an expression over the
state's variables followed by the inputs', built by running the graph once on symbolic events: so explicit search,
SMT solvers and exporters all read the same system, and the users' functions are the traced ones.

A queue of bound Q holds up to Q events.  A push that would need more leads to the **overflow** state: nothing is
dropped or overwritten; ``overflow`` stays true from there on, and all streams are silent.  A push on which a
function fails leads to ``failed`` in the same way.

Integers are exact, unless the system is **strict**: then an integer that leaves 64 bits is a failure, as it is for every engine that runs
the pipeline.  A question that mentions ``failed`` is asked of the strict system; others are asked of the exact one, which is simpler.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from pellucid.check.domains import Domain
from pellucid.check.guess import Guess, is_guess
from pellucid.check.queues import Room
from pellucid.check.run import Run
from pellucid.check.slot import FALSE, TRUE, Slot
from pellucid.check.variable import Variable
from pellucid.errors import UsageError
from pellucid.expr import node as n
from pellucid.expr.node import Expr
from pellucid.expr.rewrite import substitute
from pellucid.expr.types import BOOL, INT, Type, simplest
from pellucid.graph.model import Graph

__all__ = ["HIDDEN", "System", "Variable", "build_system"]

HIDDEN = "\0"  # in front of a step's name, among the streams, where an output of that name is another stream


@dataclass(frozen=True)
class System:
    """A transition system: ``next[i]`` is the new value of ``state[i]``, over state and input variables."""

    name: str
    domain: Domain
    state: tuple[Variable, ...]
    inputs: tuple[Variable, ...]
    next: tuple[Expr, ...]
    streams: Mapping[str, tuple[Type, tuple[Slot, ...]]]  # by name: sources, outputs and steps
    lengths: Mapping[str, Expr]  # of each queue after the step
    bounds: Mapping[str, int]  # of each queue
    overflow: Expr
    failed: Expr
    sources: tuple[tuple[str, Type], ...] = ()
    strict: bool = False  # leaving 64 bits is a failure
    wide: Expr = FALSE  # in this push an integer leaves 64 bits; of a strict system only
    assume: Expr = TRUE  # what is taken for granted of every push: others are in no run
    outputs: Mapping[str, str] = field(default_factory=dict)  # the step (or source) that each output is
    graph: Graph | None = None  # whose system it is, so that a proof can be tried on the interpreter
    lead: tuple[Mapping[str, Any], ...] = ()  # pushes that lead the pipeline to this system's start, if that is not its own

    def mapped(self, change: Callable[[list[Expr]], list[Expr]]) -> System:
        """The system with all its expressions changed, the variables apart."""
        slots = [s for _, many in self.streams.values() for s in many]
        flat = [*self.next, *self.lengths.values(), self.overflow, self.failed, self.wide, self.assume]
        done = iter(change([*flat, *(e for s in slots for e in (s.present, *s.leaves))]))
        following = tuple(next(done) for _ in self.next)
        lengths = {id: next(done) for id in self.lengths}
        overflow, failed, wide, assume = (next(done) for _ in range(4))
        streams = {
            name: (t, tuple(Slot(next(done), tuple(next(done) for _ in s.leaves)) for s in many))
            for name, (t, many) in self.streams.items()
        }
        return dataclasses.replace(
            self, next=following, streams=streams, lengths=lengths, overflow=overflow, failed=failed, wide=wide, assume=assume
        )

    @property
    def own_sources(self) -> list[tuple[str, Type]]:
        """The pipeline's sources: without those that stand for what is guessed."""
        return [(name, t) for name, t in self.sources if not is_guess(name)]

    @property
    def full(self) -> Expr:
        """Some queue has reached its bound, or would have had to grow beyond it."""
        out = self.overflow
        for id, length in self.lengths.items():
            out = n.or_(out, n.eq(length, n.const(self.bounds[id])))
        return out

    def present(self, stream: str) -> Expr:
        """Whether the stream carries an event in this step."""
        out = FALSE
        for slot in self.streams[stream][1]:
            out = n.or_(out, slot.present)
        return out

    def value(self, stream: str) -> tuple[Expr, ...]:
        """The leaves of its event, of a stream that carries at most one in a push; of others ask for each, the first or the last."""
        return self.last(stream)

    def first(self, stream: str) -> tuple[Expr, ...]:
        """The leaves of its first event in this step."""
        return _chosen(self.streams[stream][1][::-1], self.streams[stream][0])

    def last(self, stream: str) -> tuple[Expr, ...]:
        """The leaves of its last event in this step."""
        return _chosen(self.streams[stream][1], self.streams[stream][0])

    def count(self, stream: str) -> Expr:
        """How many events it carries in this step."""
        out: Expr = n.const(0)
        for slot in self.streams[stream][1]:
            out = n.add(out, n.int_of_bool(slot.present))
        return out

    def node(self, id: str) -> str:
        """Under which name the stream of a source or step stands in ``streams``: an output of its name goes before it."""
        return f"{HIDDEN}{id}" if self.outputs.get(id, id) != id else id


def _chosen(slots: Sequence[Slot], t: Type) -> tuple[Expr, ...]:
    """The leaves of the last of these that is there."""
    leaves = slots[0].leaves if slots else tuple(n.const(simplest(kind)) for _, kind in t.leaves())
    for slot in slots[1:]:
        leaves = tuple(n.ite(slot.present, a, b) for a, b in zip(slot.leaves, leaves, strict=True))
    return leaves


@n.values_only()
def build_system(
    graph: Graph, domain: Domain, queue: int | Mapping[str, int] | Room = 3, lossy: Sequence[str] = (), *, strict: bool = False
) -> System:
    """The transition system of a pipeline, with this bound for every queue, or for each by its id, or with another `Room`.

    The streams named in ``lossy`` may lose any of their events (seed 001, section 7); ``strict`` makes leaving 64 bits a failure.
    """
    for id in lossy:
        if id not in graph.position:
            raise UsageError(f"{graph.name} has no stream {id!r} to lose events: it has {', '.join(graph.position)}")
    known = {id for id, _, _ in graph.queues()}
    room = queue if isinstance(queue, Room) else Room(queue)
    if isinstance(room.bounds, Mapping):
        for id in room.bounds:
            if id not in known:
                raise UsageError(f"{graph.name} has no queue {id!r}: it has {', '.join(sorted(known)) or 'none'}")

    inputs: list[Variable] = []
    sources: dict[int, list[tuple[int, Type]]] = {}
    for at in graph.sources:
        node = graph.nodes[at]
        inputs.append(Variable(f"{node.id}.present", BOOL, role="present", of=node.id))
        sources[at] = [(len(inputs) - 1, BOOL)]
        for j, (path, t) in enumerate(node.type.leaves()):
            inputs.append(Variable(f"{node.id}.{path or 'value'}", t, role="leaf", of=node.id, at=j))
            sources[at].append((len(inputs) - 1, t))
    losses = {}
    for id in lossy:
        losses[id] = len(inputs)
        inputs.append(Variable(f"lost.{id}", BOOL, role="lost", of=id))
    # State variables are found while the graph is run; inputs are numbered from a mark, and moved behind them.
    mark = 1_000_000
    state: list[Variable] = []

    def fresh(step: str, label: str, t: Type, start: Any, size: int | None, role: str, of: str) -> Expr:
        state.append(Variable(f"{step}:{label}", t, start, size, role, of))
        order.append((step, label))
        return n.var(len(state) - 1, t)

    order: list[tuple[str, str]] = []
    types = {graph.nodes[at].id: graph.nodes[at].type for at in graph.sources}
    guess = Guess(domain, state, inputs, types, mark, 2 * mark)
    run = Run(domain, strict=strict, fresh=fresh, room=room, guess=guess, lost={id: n.var(mark + i, BOOL) for id, i in losses.items()})
    stopped = fresh("", "stopped", INT, 0, 3, "stopped", "")  # 0 running, 1 overflow, 2 failed
    running = n.eq(stopped, n.const(0))
    slots = {
        at: [
            Slot(
                n.and_(running, n.var(mark + parts[0][0], BOOL)),
                tuple(n.var(mark + i, t) for i, t in parts[1:]),
            )
        ]
        for at, parts in sources.items()
    }
    streams = run.step(graph, slots)
    stop = n.ite(n.or_(run.failed, run.wide), n.const(2), n.ite(run.overflow, n.const(1), stopped))
    halted = n.not_(n.eq(stop, n.const(0)))
    following = [stop]
    for i, (step, label) in enumerate(order[1:], 1):
        # A push that stops the system leaves the rest as it was: one state for each reason is enough.
        following.append(n.ite(halted, n.var(i, state[i].type), run.cells[step, label]))
    leaves = [n.var(i, v.type) for i, v in enumerate(state)]
    # What is guessed stands behind the sources, before what is lost.
    own = len(inputs) - len(losses)
    behind = [mark + i for i in range(own)] + [2 * mark + i for i in range(len(guess.inputs))] + [mark + i for i in range(own, len(inputs))]
    inputs[own:own] = guess.inputs
    moved = {old: n.var(len(state) + i, inputs[i].type) for i, old in enumerate(behind)}
    outputs = {name: graph.nodes[i].id for name, i in graph.outputs}
    place = {node.id: i for i, node in enumerate(graph.nodes)}
    place |= {f"{HIDDEN}{id}": i for id, i in place.items() if outputs.get(id, id) != id} | dict(graph.outputs)
    named: dict[str, list[Slot]] = {name: streams[i] for name, i in place.items()}
    kinds = {name: graph.nodes[i].type for name, i in place.items()}
    live = n.not_(halted)
    flat: list[Expr] = [*following, *run.lengths.values(), n.eq(stop, n.const(1)), n.eq(stop, n.const(2)), run.wide]
    for s in (s for slots_ in named.values() for s in slots_):
        flat += [n.and_(live, s.present), *s.leaves]
    done = iter(substitute(flat, _Leaves(leaves, moved)))
    following = [next(done) for _ in following]
    lengths = {id: next(done) for id in run.lengths}
    full, failed, wide = next(done), next(done), next(done)
    final: dict[str, tuple[Type, tuple[Slot, ...]]] = {}
    for name, slots_ in named.items():
        final[name] = kinds[name], tuple(Slot(next(done), tuple(next(done) for _ in s.leaves)) for s in slots_)
    system = System(
        graph.name,
        domain,
        tuple(state),
        tuple(inputs),
        tuple(following),
        final,
        lengths,
        {id: room.of(id) for id in lengths},
        full,
        failed,
        (*types.items(), *guess.sources),
        strict,
        wide,
        outputs=outputs,
        # An interpreter beside it does the same, unless something is guessed, or a queue may overflow unseen.
        graph=graph if room.beyond == "overflow" and (room.watch is None or known <= room.watch) else None,
    )
    if not domain.assume:
        return system
    from pellucid.check.assume import attach  # it is made of formulas, and they speak of systems

    return attach(system)


class _Leaves(list[Expr]):
    """Variables by number: the state's own, then the inputs' behind them."""

    def __init__(self, state: list[Expr], inputs: dict[int, Expr]) -> None:
        super().__init__(state)
        self.inputs = inputs

    def __getitem__(self, i: Any) -> Any:
        return self.inputs[i] if i in self.inputs else super().__getitem__(i)
