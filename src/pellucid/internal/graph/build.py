"""From a Python function over streams to a graph.

Step ids: a given ``id`` is kept (inside a called pipeline it gets that pipeline's name in front).  Others
are the kind and a digest of what the step does to which streams, such as ``cumulate-3fa2c1``: so a
step keeps its id when unrelated parts are added, moved or renamed, and loses it when its own
meaning or its inputs change, where a saved state would not fit any more.

Steps that are called wrongly: Python's own `TypeError` says which argument is too many or missing, and not what to
write.  Where a pipeline is built, the message here says it.

>>> from pellucid import pipeline
>>> pipeline(lambda x: x.at(lambda v: v).tumbling(5), x=int)
Traceback (most recent call last):
pellucid.errors.UsageError: tumbling (...): sub is missing: write tumbling(size, sub), as in
x.tumbling(timedelta(hours=1), total) with a pipeline total
"""

from __future__ import annotations

import inspect
import os
import re
import sys
import typing
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

from pellucid.errors import CycleError, PipelineError, TypeMismatch, UsageError, nearest
from pellucid.internal import PACKAGE
from pellucid.internal.expr.tracing.mistakes import refuse_undone, refuse_undone_value
from pellucid.internal.expr.types import Type, type_of
from pellucid.internal.graph.model import Graph, Node, node_shape
from pellucid.internal.graph.stream import Step, Stream, caller, inside_of, scope, widened
from pellucid.internal.graph.timing import swapped

_SAID = re.compile(r"(?P<name>(?:\w+\.)?(?P<step>\w+))\(\) (?P<what>.*)", re.DOTALL)
_UNKNOWN = re.compile(r"got an unexpected keyword argument '(\w+)'")
_EXAMPLES = {
    "at": "x.at('when', lateness=timedelta(minutes=5))",
    "tumbling": "x.tumbling(timedelta(hours=1), total) with a pipeline total",
    "sliding": "x.sliding(timedelta(hours=1), timedelta(minutes=10), total) with a pipeline total",
    "session": "x.session(timedelta(minutes=30), total) with a pipeline total",
    "dedup": "x.dedup(by='order', within=timedelta(days=1))",
    "key_by": "x.key_by('user'), or x.key_by(lambda e: e.user)",
    "forget": "x.key_by('user').forget(after=1000)",
    "cumulate": "x.cumulate(lambda total, e: total + e.price, start=0)",
}
_ELSEWHERE = {
    "lateness": "how late events may come is given where their times are, as in x.at('when', lateness=…)",
    "idle": "it is given where times are, as in x.at('when', idle=timedelta(seconds=10))",
    "key": "keys are given before, as in x.key_by('user')",
}


def explained(error: TypeError) -> UsageError | None:
    """The message for a call of a step that Python refuses; None if it is another mistake, which is the user's own."""
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    found = _SAID.fullmatch(str(error))
    if trace is None or found is None or trace.tb_frame.f_code.co_filename.startswith(PACKAGE):
        return None
    f = _called(found["name"], found["step"], trace.tb_frame)
    if f is None:
        return None
    takes = [p for p in inspect.signature(f).parameters.values() if p.name != "self"]
    needed = [p.name if p.kind is p.POSITIONAL_OR_KEYWORD else f"{p.name}=…" for p in takes if _must(p)]
    others = [f"{p.name}=" for p in takes if not _must(p)]
    step = found["step"]
    where = f"{os.path.basename(trace.tb_frame.f_code.co_filename)}:{trace.tb_lineno}"
    write = f"write {step}({', '.join(needed)})"
    unknown = _UNKNOWN.match(found["what"])
    if unknown is not None:
        given = unknown[1]
        names = [p.name for p in takes]
        hint = f"; {_ELSEWHERE[given]}" if given in _ELSEWHERE else nearest(given, names)
        return UsageError(f"{step} ({where}): there is no {given}= here: {write}, with {', '.join(others)}{hint}")
    example = f", as in {_EXAMPLES[step]}" if step in _EXAMPLES else ""
    if found["what"].startswith("missing"):
        missing = re.findall(r"'(\w+)'", found["what"])
        verb = "is" if len(missing) == 1 else "are"
        return UsageError(f"{step} ({where}): {' and '.join(missing)} {verb} missing: {write}{example}")
    rest = f"; the others by their names: {', '.join(others)}" if others else ""
    return UsageError(f"{step} ({where}): {found['what']}: {write}{example}{rest}")


def _must(p: inspect.Parameter) -> bool:
    return p.default is p.empty and p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD)


def _called(name: str, step: str, frame: Any) -> Any:
    """The function of Pellucid that is called so; None if it is another one."""
    public = sys.modules.get("pellucid")
    owner = getattr(public, "Stream", None) if "." in name else public
    f = getattr(owner, step, None)
    if not inspect.isfunction(f) or f.__qualname__ != name or not f.__module__.startswith("pellucid."):
        return None
    seen = {**frame.f_globals, **frame.f_locals}.get(name, f)
    return f if seen is f else None


class Built:
    """What ``@pipeline`` makes of a function, for the rooms below the class that users see."""

    graph: Graph


def source(name: str, t: Type) -> Stream[Any]:
    """A stream whose events come from outside."""
    return Stream(Step("source", (), t, id=name))


def stream_types(
    fn: Callable[..., Any], name: str, given: Mapping[str, Any], local: Mapping[str, Any]
) -> dict[str, Type]:
    """The types of a pipeline's sources, by parameter name."""
    parameters = inspect.signature(fn).parameters
    try:
        hints = (
            typing.get_type_hints(fn, localns={**local, **_closure(fn)}, include_extras=True)
            if fn.__annotations__
            else {}
        )
    except NameError as error:
        raise PipelineError(f"pipeline {name}: the type of a parameter is not known here: {error}") from None
    types: dict[str, Type] = {}
    for p in parameters.values():
        if p.kind in (p.VAR_POSITIONAL, p.VAR_KEYWORD):
            raise PipelineError(f"pipeline {name}: *{p.name} is not possible: name each source")
        if p.name in given:
            types[p.name] = type_of(given[p.name])
            continue
        hint = hints.get(p.name)
        if p.default is not p.empty and typing.get_origin(hint) is not Stream:
            continue  # a constant of the pipeline, such as k: int = 3
        if hint is None:
            raise PipelineError(f"pipeline {name}: the source {p.name!r} has no type: write {p.name}: Stream[int]")
        args = typing.get_args(hint)
        if typing.get_origin(hint) is not Stream or len(args) != 1:
            raise PipelineError(f"pipeline {name}: the source {p.name!r} must be a Stream[…], found {hint!r}")
        try:
            types[p.name] = type_of(args[0])
        except TypeMismatch as error:
            raise TypeMismatch(f"pipeline {name}: the source {p.name!r}: {error}") from None
    for source, t in types.items():
        wrong = swapped(t)
        if wrong is not None:
            raise TypeMismatch(f"pipeline {name}: the source {source!r}: {wrong}")
    if not types:
        raise PipelineError(f"pipeline {name} has no source: give it a parameter such as x: Stream[int]")
    return types


def _closure(fn: Callable[..., Any]) -> dict[str, Any]:
    cells = getattr(fn, "__closure__", None) or ()
    names = fn.__code__.co_freevars
    found = {}
    for name, cell in zip(names, cells, strict=True):
        try:
            found[name] = cell.cell_contents
        except ValueError:
            continue
    return found


#: The functions of the pipelines being called right now, with their names; two may have one name.
_calls: ContextVar[tuple[tuple[Any, str], ...]] = ContextVar("pellucid_calls", default=())


@contextmanager
def _running(fn: Callable[..., Any], name: str) -> Iterator[None]:
    outer = _calls.get()
    at = next((i for i, (other, _) in enumerate(outer) if other is fn), None)
    if at is not None:
        path = " → ".join([*(other for _, other in outer[at:]), name])
        raise CycleError(f"pipeline {name} calls itself: {path}; a pipeline must not have a cycle")
    token = _calls.set((*outer, (fn, name)))
    try:
        yield
    finally:
        _calls.reset(token)


def call(fn: Callable[..., Any], name: str, /, *streams: Stream[Any], **constants: Any) -> Any:
    """Call a pipeline's function on streams (and constants), refusing one that calls itself."""
    refuse_undone(fn, f"pipeline {name}")
    token = scope.set((*scope.get(), name))
    try:
        with _running(fn, name):
            result = fn(*streams, **constants)
            refuse_undone_value(f"pipeline {name}", result)
            return result
    except NameError as error:
        missing = getattr(error, "name", None)
        if missing == name:
            raise CycleError(
                f"pipeline {name} calls itself: {name} → {name}; a pipeline must not have a cycle"
            ) from None
        raise PipelineError(f"pipeline {name}: {error} (where the pipeline is built)") from error
    except TypeError as error:
        said = explained(error)
        if said is None:
            raise
        raise said from None
    finally:
        scope.reset(token)


def as_declared(result: Any, returns: Any) -> Any:
    """What a pipeline's function returned, with ``T`` as ``T | None`` where that is what it declares."""
    wanted = typing.get_args(returns) if typing.get_origin(returns) is tuple else (returns,)
    streams = result if type(result) is tuple else (result,)
    if len(wanted) != len(streams) or not all(isinstance(s, Stream) for s in streams):
        return result
    if any(typing.get_origin(w) is not Stream for w in wanted):
        return result
    fitted = tuple(widened(s, type_of(typing.get_args(w)[0])) for s, w in zip(streams, wanted, strict=True))
    return fitted if type(result) is tuple else fitted[0]


def build(fn: Callable[..., Any], name: str, types: Mapping[str, Type], returns: Any = None) -> tuple[Graph, type]:
    """The graph of a pipeline's function, and what the function returned: a stream, a tuple or a dict."""
    sources = {p: source(p, t) for p, t in types.items()}
    result = as_declared(call(fn, name, **sources), returns)
    return assemble(name, list(sources.values()), _named_outputs(name, result)), type(result)


def _named_outputs(name: str, result: Any) -> dict[str, Stream[Any]]:
    if isinstance(result, Stream):
        return {"out": result}
    if isinstance(result, dict) and result:
        outputs = result
    elif isinstance(result, tuple) and result:
        names = getattr(result, "_fields", [f"out{i + 1}" for i in range(len(result))])
        outputs = dict(zip(names, result, strict=True))
    else:
        raise PipelineError(f"pipeline {name} must return a stream (or a tuple or dict of streams), found {result!r}")
    for key, value in outputs.items():
        if not isinstance(value, Stream):
            raise PipelineError(
                f"pipeline {name}: its output {key!r} is no stream but {type(value).__name__} {value!r}"
            )
    return outputs


def sub_graph(sub: Any, t: Type, title: str) -> Graph:
    """The graph of a window's sub-pipeline over events of this type."""
    if not callable(sub):
        raise PipelineError(f"{title}: the sub-pipeline must be a pipeline or a function of a stream, found {sub!r}")
    refuse_undone(sub, f"{title}: the sub-pipeline")
    name = str(getattr(sub, "name", None) or getattr(sub, "__name__", "sub"))
    name = "sub" if name == "<lambda>" else name
    event = source("in", t)
    token = scope.set(())  # ids inside stand on their own
    frame = inside_of.set(title)
    try:
        if hasattr(sub, "__wrapped__"):  # a pipeline, which looks after itself
            result = sub(event)
        else:
            with _running(sub, name):
                result = sub(event)
    except TypeError as error:
        said = explained(error)
        if said is None:
            raise
        raise said from None
    finally:
        scope.reset(token)
        inside_of.reset(frame)
    refuse_undone_value(f"{title}: the sub-pipeline", result)
    if not isinstance(result, Stream):
        raise PipelineError(f"{title}: the sub-pipeline must return one stream, found {result!r}")
    return assemble(name, [event], {"out": result}, title)


def assemble(name: str, sources: list[Stream[Any]], outputs: Mapping[str, Stream[Any]], inside: str = "") -> Graph:
    """Number the steps, name them, and put them in order."""
    order = _order([*sources, *outputs.values()])
    position = {id(s): i for i, s in enumerate(order)}
    own = set(map(id, sources))
    nodes: list[Node] = []
    marks: list[str] = []  # what a step is called in the digests of its readers: the same wherever its twins stand
    used: set[str] = {s._step.id for s in order if s._step.id is not None and "/" not in s._step.id}
    for s in order:
        step = s._step
        if step.kind == "source" and id(s) not in own:
            where = inside or f"pipeline {name}"
            raise PipelineError(
                f"{where} uses the stream {step.id!r} of another pipeline; inside a sub-pipeline only its own input "
                "can be used"
            )
        inputs = tuple(position[id(i)] for i in step.inputs)
        node = Node(
            "", step.kind, inputs, step.type, step.fn, step.k, step.start, step.state, step.sub, step.key, step.where,
            step.timing, step.on_time,
        )  # fmt: skip
        label = step.id
        marks.append(label or "")
        if label is None or "/" in label:
            mark = node_shape(node, [marks[i] for i in inputs])[:6]
            base = label or f"{step.kind}-{mark}"
            marks[-1] = f"{base}-{mark}" if label else base
            label = base if base not in used else f"{base}-{mark}" if step.id else base
            more = 2
            while label in used:
                label, more = f"{base}-{more}", more + 1
            used.add(label)
        nodes.append(Node(label, *[getattr(node, f) for f in _FIELDS]))
    return Graph(
        name,
        tuple(nodes),
        tuple(position[id(s)] for s in sources),
        tuple((key, position[id(s)]) for key, s in outputs.items()),
    )


_FIELDS = ("kind", "inputs", "type", "fn", "k", "start", "state", "sub", "key", "where", "timing", "on_time")


def _order(roots: list[Stream[Any]]) -> list[Stream[Any]]:
    """Inputs before the steps that read them; otherwise as the pipeline mentions them."""
    out: list[Stream[Any]] = []
    seen: set[int] = set()
    stack: list[tuple[Stream[Any], bool]] = [(r, False) for r in reversed(roots)]
    while stack:
        s, done = stack.pop()
        if done:
            out.append(s)
        elif id(s) not in seen:
            seen.add(id(s))
            stack.append((s, True))
            stack.extend((i, False) for i in reversed(s._step.inputs) if id(i) not in seen)
    return out


def check_call(name: str, types: Mapping[str, Type], streams: tuple[Any, ...]) -> list[Stream[Any]]:
    """The streams as the arguments of a pipeline; refused if they cannot be."""
    if len(streams) != len(types):
        raise PipelineError(f"{caller()}: pipeline {name} has {len(types)} source(s), but got {len(streams)}")
    fitted = []
    for (p, t), given in zip(types.items(), streams, strict=True):
        if not isinstance(given, Stream):
            raise PipelineError(f"{caller()}: pipeline {name}: mixes streams and data; {p!r} is {type(given).__name__}")
        s = widened(given, t)
        if s.type != t:
            raise TypeMismatch(f"{caller()}: pipeline {name} wants {p}: Stream[{t}]: expected {t}, found {s.type}")
        fitted.append(s)
    return fitted


def instantiate(
    graph: Graph,
    sources: list[Stream[Any]],
    *,
    bypass: Mapping[int, int | None] | None = None,
    ids: bool = True,
    prefix: tuple[str, ...] = (),
) -> dict[str, Stream[Any]]:
    """A graph's steps once more, over other sources; returns its outputs.

    The copies are under the keys of the streams that they read now: a pipeline that is called on a keyed stream keeps
    its states apart by that key, as if its steps were written in the caller.
    ``bypass`` leaves steps out: each is replaced by the stream it is mapped to (an input of its own); None takes the
    step out of the merges that read it.  Without ``ids`` the copies get derived ids; given ids get the ``prefix`` in
    front.
    """
    bypass = bypass or {}
    made: dict[int, Stream[Any] | None] = dict(zip(graph.sources, sources, strict=True))
    for i, node in enumerate(graph.nodes):
        if i in made:
            continue
        if i in bypass:
            other = bypass[i]
            made[i] = None if other is None else made[other]
            continue
        inputs = tuple(s for s in (made[j] for j in node.inputs) if s is not None)
        if not inputs or (len(inputs) < len(node.inputs) and node.processor.inputs != "apart"):
            made[i] = None
            continue
        label = "/".join([*prefix, node.id]) if ids and not _derived(node) else None
        try:
            made[i] = Stream(
                Step(
                    node.kind, inputs, node.type, node.fn, node.k, node.start, node.state, node.sub, label, node.where,
                    node.timing, node.on_time,
                )
            )  # fmt: skip
        except PipelineError as error:  # the streams that it is called on are keyed differently
            raise type(error)(f"{caller()}: pipeline {graph.name}: {error}") from None
    outputs = {name: made[i] for name, i in graph.outputs}
    return {name: s for name, s in outputs.items() if s is not None}


def _derived(node: Node) -> bool:
    return re.fullmatch(rf"{node.kind}-[0-9a-f]{{6}}(-\d+)?", node.id) is not None
