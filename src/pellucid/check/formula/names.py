"""Which stream a name in a formula means.

A source goes by its parameter's name, the single source also as ``in``; an output by its name, a single one also as
``out``; any step by its id. ``x.value.price`` and ``x.price`` are the same; ``value`` alone is ``out.value``, and
``a.value`` is ``a.out.value`` where a system has the streams of two pipelines ``a`` and ``b``.

A name that could mean two things is refused, with the ways to say which: ``stream("full")``, ``source("out")``,
``output("out")``, ``step("in")``, ``flag("full")``.
"""

from __future__ import annotations

import difflib
import json
from collections.abc import Iterable
from typing import NoReturn

from pellucid.check.formula.terms import Flag, Ref
from pellucid.check.system.build import HIDDEN, System
from pellucid.errors import UsageError

Found = tuple[str, tuple[str, ...]]  # a stream by its key in the system, and what of it


class Names:
    """The names of a system's streams.

    >>> from pellucid import pipeline
    >>> from pellucid.check.system.domains import domain_of
    >>> from pellucid.check.system.build import build_system
    >>> s = build_system(pipeline(lambda x: x.map(abs, id="size").trim(1, id="rest"), x=int).graph, domain_of(None))
    >>> names = Names(s)
    >>> names.find(Ref("in", ("value",))), names.find(Ref("size")), names.identity("out")
    (('x', ('value',)), ('size', ()), 'rest')
    """

    def __init__(self, system: System) -> None:
        self.system = system
        self.sources = [name for name, _ in system.own_sources]
        self._found: dict[tuple[str, str, bool, tuple[str, ...]], Found | None] = {}

    def identity(self, key: str) -> str:
        """The same for all names of one stream: the id of the source or step that it is."""
        return self.system.outputs.get(key, key.removeprefix(HIDDEN))

    def find(self, ref: Ref, missing: bool = False) -> Found | None:
        """The stream that a reference means, and the rest of its path.  One that means none is refused; with
        ``missing`` it is None."""
        asked = ref.name, ref.kind, ref.exact, ref.path
        if asked not in self._found:
            self._found[asked] = self._find(ref)
        found = self._found[asked]
        if found is None and not missing:
            self._refuse(ref)
        return found

    def _find(self, ref: Ref) -> Found | None:
        found = {(self.identity(key), rest): (key, rest) for key, rest in self._candidates(ref)}
        if len(found) > 1:
            self._ambiguous(str(ref), [self._way(key, rest) for key, rest in found.values()])
        return next(iter(found.values()), None)

    def _candidates(self, ref: Ref) -> list[Found]:
        """Every stream that a reference could mean."""
        streams, outputs = self.system.streams, self.system.outputs
        if ref.kind:
            keys = {
                "source": [self.system.node(ref.name)] if ref.name in self.sources else [],
                "output": [ref.name] if ref.name in outputs else [],
                "step": [self.system.node(ref.name)] if self._is_step(ref.name) else [],
            }[ref.kind]
            return [(key, ref.path) for key in keys]
        words = (ref.name, *ref.path)
        out: list[Found] = []
        for k in range(1 if ref.exact else len(words), 0, -1):
            name = ".".join(words[:k])
            own = [key for key in (name, f"{HIDDEN}{name}") if key in streams]
            if not (own and ref.exact):  # the short forms
                if name == "in" and len(self.sources) == 1:
                    own.append(self.system.node(self.sources[0]))
                if name == "out" and len(outputs) == 1 and "out" not in outputs:
                    own += outputs
            out += [(key, words[k:]) for key in own]
        if "value" in words and not ref.exact:
            k = words.index("value")
            name = ".".join((*words[:k], "out"))
            if name in streams and (k == 0 or not out):
                out.append((name, words[k:]))
        return out

    def _is_step(self, id: str) -> bool:
        return id not in self.sources and self.system.node(id) in self.system.streams

    def shown(self, key: str) -> str:
        """A stream for people."""
        return key.removeprefix(HIDDEN)

    def _way(self, key: str, rest: tuple[str, ...]) -> str:
        """How to say that this stream is meant."""
        id = self.identity(key)
        kind = "source" if id in self.sources else "output" if key in self.system.outputs else "step"
        name = key if kind == "output" else id
        return ".".join((f"{kind}({json.dumps(name, ensure_ascii=False)})", *rest))

    def refuse_ambiguous(self, flag: Flag) -> None:
        """A flag where a stream has its name, unless it was said that the flag is meant."""
        keys = [key for key in (flag.name, f"{HIDDEN}{flag.name}") if key in self.system.streams]
        if keys and not flag.exact:
            self._ambiguous(flag.name, [*(self._way(key, ()) for key in keys), f'flag("{flag.name}")'])

    def _ambiguous(self, text: str, ways: list[str]) -> NoReturn:
        raise UsageError(
            f"{text} could mean several things in {self.system.name}: write {' or '.join(dict.fromkeys(ways))}"
        )

    def _refuse(self, ref: Ref) -> NoReturn:
        if not ref.kind:
            self.unknown("stream", ".".join((ref.name, *ref.path)), self.system.streams)
        known = {
            "source": self.sources,
            "output": list(self.system.outputs),
            "step": [
                key.removeprefix(HIDDEN) for key in self.system.streams if self._is_step(key.removeprefix(HIDDEN))
            ],
        }[ref.kind]
        self.unknown(ref.kind, ref.name, known)

    def unknown(self, what: str, name: str, known: Iterable[str]) -> NoReturn:
        """There is nothing of that name."""
        names = list(dict.fromkeys(key.removeprefix(HIDDEN) for key in known if not key.startswith("Y ")))
        pool, also, near = names, "", []
        if what == "stream":
            pool = [*names, "in"] if len(self.sources) == 1 else names
            also = f", and 'in' for {self.sources[0]}" if len(self.sources) == 1 else ""
            if name.split(".")[0] == "in":
                raise UsageError(
                    f"{self.system.name} has {len(self.sources)} sources, so 'in' is none of them: write "
                    f"{' or '.join(self.sources)}"
                )
            # `outt.value` is like `out`: what comes before the first dot counts as well
            near = difflib.get_close_matches(name.split(".")[0], pool, 1)
        near = difflib.get_close_matches(name, pool, 1) or near
        hint = f": did you mean {near[0]!r}? It has" if near else ": it has"
        raise UsageError(f"{self.system.name} has no {what} {name!r}{hint} {', '.join(names) or 'none'}{also}")
