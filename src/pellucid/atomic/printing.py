"""Networks, processes, values and types as text: what `parse` reads back as the same data."""

from __future__ import annotations

from pellucid.atomic import syntax as s


def type_text(t: s.Type) -> str:
    """A type.

    >>> type_text(s.ChanType(s.ContType(s.CapType(s.PlaceType()))))
    'Chan[Cap[Place] -> ()]'
    """
    match t:
        case s.PlaceType():
            return "Place"
        case s.TransType():
            return "Trans"
        case s.ChanType(of):
            return f"Chan[{type_text(of)}]"
        case s.KeyType(of):
            return f"Key[{type_text(of)}]"
        case s.PacketType(of):
            return f"Packet[{type_text(of)}]"
        case s.CapType(of):
            return f"Cap[{type_text(of)}]"
        case s.TupleType(parts):
            return f"<{', '.join(map(type_text, parts))}>"
        case s.ContType(of):
            inner = type_text(of)
            return f"({inner}) -> ()" if isinstance(of, (s.ContType, s.RecType)) else f"{inner} -> ()"
        case s.RecType(name, body):
            return f"rec {name}. {type_text(body)}"
        case s.TypeName(name):
            return name


def value_text(v: s.Value) -> str:
    """A value.

    >>> value_text(s.Path((s.Out(s.Param("p")), s.In(s.Param("c")))))
    'out p.in c'
    """
    match v:
        case s.Param(name):
            return name
        case s.In(of):
            return f"in {value_text(of)}"
        case s.Out(of):
            return f"out {value_text(of)}"
        case s.Path(parts):
            return ".".join(map(value_text, parts))
        case s.Packet(key, value):
            return f"{value_text(key)}[{value_text(value)}]"
        case s.Tuple(parts):
            return f"<{', '.join(map(value_text, parts))}>"


def cont_text(f: s.Cont) -> str:
    """A continuation."""
    typed = "" if f.type is None else f": {type_text(f.type)}"
    return f"({f.name}{typed}) {process_text(f.body)}"


def process_text(p: s.Process) -> str:
    """A process.

    >>> process_text(s.Par((s.Send(s.In(s.Param("c")), s.Tuple()), s.Commit())))
    'send(in c, <>) | commit'
    """
    match p:
        case s.Send(to, what):
            return f"send({value_text(to)}, {cont_text(what) if isinstance(what, s.Cont) else value_text(what)})"
        case s.Receive(source, then, otherwise):
            return f"receive({value_text(source)}, {cont_text(then)}, {process_text(otherwise)})"
        case s.Crypt(key, value, then):
            return f"crypt({value_text(key)}, {value_text(value)}, {cont_text(then)})"
        case s.Decrypt(key, value, then):
            return f"decrypt({value_text(key)}, {value_text(value)}, {cont_text(then)})"
        case s.Continue(cont, value):
            return f"({cont_text(cont)})({value_text(value)})"
        case s.Let(names, value, body):
            return f"let <{', '.join(names)}> = {value_text(value)} in {process_text(body)}"
        case s.Replicate(body):
            return f"!{_alone(body)}"
        case s.Par(parts):
            *first, last = parts
            inner = process_text(last) if not isinstance(last, s.Par) else f"({process_text(last)})"
            return " | ".join([*map(_alone, first), inner])
        case s.NewIn(name, kind, body):
            return f"new {name}: {type_text(kind)}. {process_text(body)}"
        case s.Commit():
            return "commit"
        case s.Abort():
            return "abort"
        case s.Stop():
            return "0"
        case s.Forward(source, to, then, otherwise):
            words = [value_text(source), value_text(to), process_text(then), process_text(otherwise)]
            return f"forward({', '.join(words)})"
        case s.Open(source, give, then, otherwise):
            words = [value_text(source), value_text(give), process_text(then), process_text(otherwise)]
            return f"open({', '.join(words)})"
        case s.Child(body):
            return f"child({process_text(body)})"


def _alone(p: s.Process) -> str:
    """In brackets, if it would reach further to the right."""
    text = process_text(p)
    return f"({text})" if isinstance(p, (s.Par, s.NewIn, s.Let)) else text


def network_text(n: s.Network, *, indent: int | None = None, depth: int = 0) -> str:
    """A network on one line, or with a line for each of its parts.

    >>> from pellucid.atomic import parse
    >>> network_text(parse("new t: Trans. new p: Place. p[t{commit} | t{0}] | 0"))
    'new t: Trans. new p: Place. p[ t{commit} | t{0} ] | 0'
    >>> print(network_text(parse("new t: Trans. new p: Place. p[t{commit} | p[0]]"), indent=2))
    new t: Trans.
    new p: Place.
    p[
      t{commit}
      | p[ 0 ]
    ]
    """
    lines = indent is not None
    pad = "\n" + " " * ((indent or 0) * depth) if lines else " "
    match n:
        case s.Place(name, log, body):
            deeper = "\n" + " " * ((indent or 0) * (depth + 1)) if lines else " "
            short = isinstance(body, (s.Empty, s.Running)) and not log
            inner = network_text(body, indent=indent, depth=depth + 1)
            if short:
                return f"{name}[ {inner} ]"
            entries = f";{deeper}".join(_entry(entry) for entry in log)
            said = f"{entries},{deeper}" if log else ""
            return f"{name}[{deeper}{said}{inner}{pad}]"
        case s.Running(trans, process):
            return f"{trans}{{{process_text(process)}}}"
        case s.Wire(parts):
            *first, last = (_brackets(part, network_text(part, indent=indent, depth=depth)) for part in parts)
            end = parts[-1]
            final = network_text(end, indent=indent, depth=depth) if isinstance(end, s.New) else last
            return f"{pad}| ".join([*first, final])
        case s.New(name, kind, body):
            return f"new {name}: {type_text(kind)}.{pad}{network_text(body, indent=indent, depth=depth)}"
        case s.Empty():
            return "0"


def _brackets(n: s.Network, text: str) -> str:
    return f"({text})" if isinstance(n, (s.Wire, s.New)) else text


def _entry(n: s.Network) -> str:
    return network_text(n)
