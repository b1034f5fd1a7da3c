"""Names: which are free, what is put for them, and binders with names that depend on nothing but their bodies.

The variables of continuations and ``let``, and names that a process makes later, are called by their *height*: how many
binders stand below them.  A binder's name is then the same wherever it stands, so processes that differ in the names of
bound variables only are equal, and a closed value can be put in without a clash: no value has such a name in it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping

from pellucid.atomic import syntax as s

Swap = Mapping[str, s.Value]


# ---------------------------------------------------------------- values


def value_names(v: s.Value) -> Iterator[str]:
    """The names in a value, as often as they stand there."""
    match v:
        case s.Param(name):
            yield name
        case s.In(of) | s.Out(of):
            yield from value_names(of)
        case s.Path(parts) | s.Tuple(parts):
            for part in parts:
                yield from value_names(part)
        case s.Packet(key, value):
            yield from value_names(key)
            yield from value_names(value)


def path_of(parts: tuple[s.Value, ...]) -> s.Value:
    """Capabilities one after another, flat.

    >>> path_of((s.Path((s.Out(s.Param("p")), s.In(s.Param("q")))), s.In(s.Param("c")))) == s.Path(
    ...     (s.Out(s.Param("p")), s.In(s.Param("q")), s.In(s.Param("c"))))
    True
    """
    flat = tuple(q for p in parts for q in (p.parts if isinstance(p, s.Path) else (p,)))
    return flat[0] if len(flat) == 1 else s.Path(flat)


def value_with(v: s.Value, swap: Swap) -> s.Value:
    """A value with other values for some names."""
    match v:
        case s.Param(name):
            return swap.get(name, v)
        case s.In(of):
            return s.In(value_with(of, swap), v.at)
        case s.Out(of):
            return s.Out(value_with(of, swap), v.at)
        case s.Path(parts):
            return path_of(tuple(value_with(part, swap) for part in parts))
        case s.Packet(key, value):
            return s.Packet(value_with(key, swap), value_with(value, swap), v.at)
        case s.Tuple(parts):
            return s.Tuple(tuple(value_with(part, swap) for part in parts), v.at)


# ---------------------------------------------------------------- processes


def rebuild(
    p: s.Process, value: Callable[[s.Value], s.Value], cont: Callable[[s.Cont], s.Cont],
    process: Callable[[s.Process], s.Process],
) -> s.Process:  # fmt: skip
    """A process whose parts were changed; ``let`` and ``new``, which bind, are the caller's."""
    match p:
        case s.Send(to, what):
            return s.Send(value(to), cont(what) if isinstance(what, s.Cont) else value(what), p.at)
        case s.Receive(source, then, otherwise):
            return s.Receive(value(source), cont(then), process(otherwise), p.at)
        case s.Crypt(key, inside, then):
            return s.Crypt(value(key), value(inside), cont(then), p.at)
        case s.Decrypt(key, inside, then):
            return s.Decrypt(value(key), value(inside), cont(then), p.at)
        case s.Continue(f, given):
            return s.Continue(cont(f), value(given), p.at)
        case s.Replicate(body):
            return s.Replicate(process(body), p.at)
        case s.Par(parts):
            return s.Par(tuple(process(part) for part in parts), p.at)
        case s.Forward(source, to, then, otherwise):
            return s.Forward(value(source), value(to), process(then), process(otherwise), p.at)
        case s.Open(source, give, then, otherwise):
            return s.Open(value(source), value(give), process(then), process(otherwise), p.at)
        case s.Child(body):
            return s.Child(process(body), p.at)
        case s.Let() | s.NewIn():
            raise AssertionError("a binder")
        case _:
            return p


def put(p: s.Process, swap: Swap) -> s.Process:
    """{V/x}P: closed values for variables.

    >>> put(s.Send(s.In(s.Param("x")), s.Param("y")), {"x": s.Param("c")})
    Send(to=In(of=Param(name='c')), what=Param(name='y'))
    """
    if not swap:
        return p
    match p:
        case s.Let(names, value, body):
            return s.Let(names, value_with(value, swap), put(body, _without(swap, *names)), p.at, p.said)
        case s.NewIn(name, kind, body):
            return s.NewIn(name, kind, put(body, _without(swap, name)), p.at, p.said)
        case _:
            return rebuild(p, lambda v: value_with(v, swap), lambda f: put_cont(f, swap), lambda q: put(q, swap))


def put_cont(f: s.Cont, swap: Swap) -> s.Cont:
    """The same in a continuation."""
    return s.Cont(f.name, f.type, put(f.body, _without(swap, f.name)), f.at, f.said)


def _without(swap: Swap, *names: str) -> Swap:
    return {name: v for name, v in swap.items() if name not in names} if any(n in swap for n in names) else swap


def free(p: s.Process) -> Iterator[str]:
    """The free names of a process, as often as they stand there, from left to right."""
    match p:
        case s.Send(to, what):
            yield from value_names(to)
            yield from free_cont(what) if isinstance(what, s.Cont) else value_names(what)
        case s.Receive(source, then, otherwise):
            yield from value_names(source)
            yield from free_cont(then)
            yield from free(otherwise)
        case s.Crypt(key, value, then) | s.Decrypt(key, value, then):
            yield from value_names(key)
            yield from value_names(value)
            yield from free_cont(then)
        case s.Continue(cont, value):
            yield from free_cont(cont)
            yield from value_names(value)
        case s.Let(names, value, body):
            yield from value_names(value)
            yield from (name for name in free(body) if name not in names)
        case s.Replicate(body) | s.Child(body):
            yield from free(body)
        case s.Par(parts):
            for part in parts:
                yield from free(part)
        case s.NewIn(name, _, body):
            yield from (other for other in free(body) if other != name)
        case s.Forward(source, value, then, otherwise) | s.Open(source, value, then, otherwise):
            yield from value_names(source)
            yield from value_names(value)
            yield from free(then)
            yield from free(otherwise)


def free_cont(f: s.Cont) -> Iterator[str]:
    """The free names of a continuation."""
    return (name for name in free(f.body) if name != f.name)


# ---------------------------------------------------------------- binders by their height


def height(p: s.Process) -> int:
    """How many binders stand in each other."""
    match p:
        case s.Let(_, _, body) | s.NewIn(_, _, body):
            return 1 + height(body)
        case s.Send(_, what):
            return 1 + height(what.body) if isinstance(what, s.Cont) else 0
        case s.Receive(_, then, otherwise):
            return max(1 + height(then.body), height(otherwise))
        case s.Crypt(_, _, then) | s.Decrypt(_, _, then) | s.Continue(then, _):
            return 1 + height(then.body)
        case s.Replicate(body) | s.Child(body):
            return height(body)
        case s.Par(parts):
            return max((height(part) for part in parts), default=0)
        case s.Forward(_, _, then, otherwise) | s.Open(_, _, then, otherwise):
            return max(height(then), height(otherwise))
        case _:
            return 0


def by_height(p: s.Process) -> s.Process:
    """The process with canonical names for what it binds.

    >>> from pellucid.atomic.reading import parse
    >>> a, b = (parse(f"t{{receive(out c, ({x}: <>) send(in c, {x}), 0)}}") for x in "xy")
    >>> a == b, by_height(a.process) == by_height(b.process)
    (False, True)
    """
    match p:
        case s.Let(names, value, body):
            new = tuple(f"x'{height(body) + 1}'{i}" for i in range(len(names)))
            return s.Let(new, value, _bound(body, names, new), p.at, p.said or names)
        case s.NewIn(name, kind, body):
            new = (f"n'{height(body) + 1}",)
            return s.NewIn(new[0], kind, _bound(body, (name,), new), p.at, p.said or name)
        case _:
            return rebuild(p, lambda v: v, cont_by_height, by_height)


def cont_by_height(f: s.Cont) -> s.Cont:
    """A continuation with canonical names for what it binds."""
    name = f"x'{height(f.body) + 1}"
    return s.Cont(name, f.type, _bound(f.body, (f.name,), (name,)), f.at, f.said or f.name)


def _bound(body: s.Process, names: tuple[str, ...], new: tuple[str, ...]) -> s.Process:
    """A body with canonical names, also for what is bound around it.  The names in the text may look like canonical
    ones: they are replaced before those of the inside come, by names that no text can have."""
    between = [f"\0{height(body)}.{i}" for i in range(len(names))]
    apart = put(body, {old: s.Param(name) for old, name in zip(names, between, strict=True)})
    return put(by_height(apart), {old: s.Param(name) for old, name in zip(between, new, strict=True)})


# ---------------------------------------------------------------- binders as they were written


def spoken(p: s.Process) -> s.Process:
    """The process with the names of the text for what it binds, from outside in; where such a name would be taken for
    another one that stands there, it gets a number.

    >>> from pellucid.atomic.reading import parse
    >>> spoken(by_height(parse("t{receive(out c, (paid: <>) send(in c, paid), 0)}").process)).then.name
    'paid'
    """
    match p:
        case s.Let(names, value, body, at, said):
            new: list[str] = []
            for own, name in zip(names, said or names, strict=True):
                new.append(_apart(name, {*free(body)} - {own} | {*new}))
            swap = {old: s.Param(name) for old, name in zip(names, new, strict=True)}
            return s.Let(tuple(new), value, spoken(put(body, swap)), at)
        case s.NewIn(name, kind, body, at, said):
            own = _apart(said or name, {*free(body)} - {name})
            return s.NewIn(own, kind, spoken(put(body, {name: s.Param(own)})), at)
        case _:
            return rebuild(p, lambda v: v, spoken_cont, spoken)


def spoken_cont(f: s.Cont) -> s.Cont:
    """A continuation with the names of the text."""
    own = _apart(f.said or f.name, {*free(f.body)} - {f.name})
    return s.Cont(own, f.type, spoken(put(f.body, {f.name: s.Param(own)})), f.at)


def _apart(name: str, taken: set[str]) -> str:
    if re.match(r"[nx]'\d", name):  # looks canonical: others inside may be called so until their turn comes
        name = name.replace("'", "_")
    own, count = name, 1
    while own in taken:
        count += 1
        own = f"{name}_{count}"
    return own
