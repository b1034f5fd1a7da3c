"""Array-based systems as plain data: drawn by chance, written in Cubicle's language, explored for a few processes.

What is written here is Cubicle's published meaning: the processes of a transition are distinct, ``forall_other`` speaks
of the processes that are none of them, all updates read the state before, a ``case`` takes its first branch that
applies, ``.`` gives any value, and what the initial formula leaves open may be anything.
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

Term = tuple[Any, ...]  # ("const", text) ("var", X) ("at", A, (p, q)) ("proc", p) ("plus", X, 1)
Literal = tuple[str, Term, Term]  # (op, term, term)
Formula = list[list[Literal]]  # a conjunction of disjunctions


@dataclass
class Transition:
    """Its processes, what it needs (also of all others), and what it does."""

    name: str
    params: tuple[str, ...]
    guard: Formula
    others: Formula
    globals: dict[str, Term | None]
    #: array -> indices and branches, each a condition (a conjunction) and a value
    arrays: dict[str, tuple[tuple[str, ...], list[tuple[list[Literal], Term]]]]


@dataclass
class System:
    """Types of variables (``var`` without, ``array`` with so many indices), and the rest."""

    enums: dict[str, list[str]]
    variables: dict[str, str]
    arrays: dict[str, tuple[int, str]]
    init: list[Literal]
    init_params: tuple[str, ...]
    unsafe: list[tuple[tuple[str, ...], list[Literal]]]
    transitions: list[Transition] = field(default_factory=list)

    def values(self, kind: str, n: int) -> list[Any]:
        """All values of a type, for so many processes."""
        if kind == "proc":
            return list(range(n))
        return ["True", "False"] if kind == "bool" else self.enums[kind]


# --- as text


def term_text(t: Term) -> str:
    kind = t[0]
    if kind == "at":
        return f"{t[1]}[{','.join(t[2])}]"
    return f"{t[1]} {'+' if t[2] > 0 else '-'} {abs(t[2])}" if kind == "plus" else str(t[1])


def literal_text(x: Literal) -> str:
    return f"{term_text(x[1])} {x[0]} {term_text(x[2])}"


def formula_text(f: Formula) -> str:
    return " && ".join(
        "(" + " || ".join(map(literal_text, part)) + ")" if len(part) > 1 else literal_text(part[0]) for part in f
    )


def text(s: System) -> str:
    """The file."""
    lines = [f"type {name} = {' | '.join(values)}" for name, values in s.enums.items()]
    lines += [f"var {x} : {kind}" for x, kind in s.variables.items()]
    lines += [f"array {a}[{', '.join(['proc'] * size)}] : {kind}" for a, (size, kind) in s.arrays.items()]
    lines.append(f"init ({' '.join(s.init_params)}) {{ {formula_text([[x] for x in s.init])} }}")
    lines += [f"unsafe ({' '.join(ps)}) {{ {formula_text([[x] for x in body])} }}" for ps, body in s.unsafe]
    for t in s.transitions:
        parts = [formula_text(t.guard)] if t.guard else []
        if t.others:
            parts.append(f"forall_other o. ({formula_text(t.others)})")
        lines.append(f"transition {t.name} ({' '.join(t.params)})")
        if parts:
            lines.append(f"requires {{ {' && '.join(parts)} }}")
        updates = [f"{x} := {'.' if v is None else term_text(v)}" for x, v in t.globals.items()]
        for a, (index, branches) in t.arrays.items():
            if index and index[0] in t.params:
                updates.append(f"{a}[{','.join(index)}] := {term_text(branches[0][1])}")
            else:
                cases = " ".join(
                    f"| {formula_text([[x] for x in c]) if c else '_'} : {term_text(v)}" for c, v in branches
                )
                updates.append(f"{a}[{','.join(index)}] := case {cases}")
        lines.append(f"{{ {'; '.join(updates)} }}")
    return "\n".join(lines) + "\n"


# --- what it does


State = tuple[tuple[tuple[str, Any], ...], ...]


class Explorer:
    """Forwards, for n processes."""

    def __init__(self, system: System, n: int) -> None:
        self.system, self.n = system, n
        self.keys = [(x,) for x in system.variables]
        for a, (size, _) in system.arrays.items():
            self.keys += [(a, *i) for i in itertools.product(range(n), repeat=size)]
        self.place = {k: i for i, k in enumerate(self.keys)}
        self.known = {v for values in system.enums.values() for v in values} | {"True", "False"}

    def value(self, t: Term, state: tuple[Any, ...], env: dict[str, int]) -> Any:
        kind = t[0]
        if kind == "const":
            return t[1] if t[1] in self.known else int(t[1])
        if kind == "proc":
            return env[t[1]]
        if kind == "plus":
            return state[self.place[t[1],]] + t[2]
        if kind == "var":
            return state[self.place[t[1],]]
        return state[self.place[(t[1], *(env[i] for i in t[2]))]]

    def true(self, x: Literal, state: tuple[Any, ...], env: dict[str, int]) -> bool:
        a, b = self.value(x[1], state, env), self.value(x[2], state, env)
        op = x[0]
        return bool(a == b if op == "=" else a != b if op == "<>" else a < b if op == "<" else a <= b)

    def formula(self, f: Formula, state: tuple[Any, ...], env: dict[str, int]) -> bool:
        return all(any(self.true(x, state, env) for x in part) for part in f)

    def envs(self, params: tuple[str, ...]) -> Iterator[dict[str, int]]:
        """Distinct processes."""
        for chosen in itertools.permutations(range(self.n), len(params)):
            yield dict(zip(params, chosen, strict=True))

    def starts(self) -> Iterator[tuple[Any, ...]]:
        """All states that the initial formula allows, for all its processes (those may be equal)."""
        s = self.system
        fixed: dict[Any, Any] = {}
        domains = []
        for key in self.keys:
            kind = s.variables[key[0]] if len(key) == 1 and key[0] in s.variables else s.arrays[key[0]][1]
            domains.append([None] if kind == "int" else s.values(kind, self.n))
        rest = []
        for x in s.init:
            if x[0] == "=" and x[2][0] == "const" and x[1][0] in ("var", "at"):
                fixed[x[1][1]] = self.value(x[2], (), {})
            else:
                rest.append(x)
        domains = [[fixed[k[0]]] if k[0] in fixed else d for k, d in zip(self.keys, domains, strict=True)]
        everyone = list(itertools.product(range(self.n), repeat=len(s.init_params)))
        for state in itertools.product(*domains):
            if all(self.true(x, state, dict(zip(s.init_params, e, strict=True))) for e in everyone for x in rest):
                yield state

    def steps(self, state: tuple[Any, ...]) -> Iterator[tuple[str, tuple[int, ...], tuple[Any, ...]]]:
        """All that can happen."""
        for t in self.system.transitions:
            for env in self.envs(t.params):
                if not self.formula(t.guard, state, env):
                    continue
                others = [p for p in range(self.n) if p not in env.values()]
                if not all(self.formula(t.others, state, {**env, "o": p}) for p in others):
                    continue
                for after in self.after(t, state, env):
                    yield t.name, tuple(env.values()), after

    def after(self, t: Transition, state: tuple[Any, ...], env: dict[str, int]) -> Iterator[tuple[Any, ...]]:
        new: list[list[Any]] = [[v] for v in state]
        for x, v in t.globals.items():
            new[self.place[x,]] = (
                self.system.values(self.system.variables[x], self.n) if v is None else [self.value(v, state, env)]
            )
        for a, (index, branches) in t.arrays.items():
            if index[0] in t.params:
                new[self.place[(a, *(env[i] for i in index))]] = [self.value(branches[0][1], state, env)]
                continue
            for place in itertools.product(range(self.n), repeat=len(index)):
                here = {**env, **dict(zip(index, place, strict=True))}
                for condition, v in branches:
                    if all(self.true(x, state, here) for x in condition):
                        new[self.place[(a, *place)]] = [self.value(v, state, here)]
                        break
        yield from itertools.product(*new)

    def bad(self, state: tuple[Any, ...]) -> bool:
        return any(
            all(self.true(x, state, env) for x in body)
            for params, body in self.system.unsafe
            for env in self.envs(params)
        )

    def shortest(self, budget: int = 20_000) -> int | str | None:
        """The fewest steps to an unsafe state; None if there is none; ``"?"`` beyond the budget."""
        now = list(dict.fromkeys(itertools.islice(self.starts(), budget)))
        seen, length = set(now), 0
        while now:
            if any(map(self.bad, now)):
                return length
            after = []
            for state in now:
                for _, _, s in self.steps(state):
                    if s not in seen:
                        seen.add(s)
                        after.append(s)
            if len(seen) > budget:
                return "?"
            now, length = after, length + 1
        return None

    def seen(self, state: tuple[Any, ...]) -> dict[str, str]:
        """As it is told: processes from #1 on."""
        told = {}
        for key, v in zip(self.keys, state, strict=True):
            kind = self.system.variables[key[0]] if key[0] in self.system.variables else self.system.arrays[key[0]][1]
            name = key[0] if len(key) == 1 else f"{key[0]}[{','.join(f'#{i + 1}' for i in key[1:])}]"
            told[name] = f"#{v + 1}" if kind == "proc" else str(v)
        return told


# --- by chance


def draw(r: random.Random) -> System:
    """A small system, mostly one that is not unsafe from the start on."""
    for _ in range(8):
        s = system(r)
        if not any(
            e.bad(state) for e in (Explorer(s, 1), Explorer(s, 3)) for state in itertools.islice(e.starts(), 200)
        ):
            break
    return s


def system(r: random.Random) -> System:
    """Of two to five transitions."""
    enums = {"t": ["A", "B", "C"][: r.choice((2, 3, 3))]}
    variables: dict[str, str] = {}
    for x in ("X", "Y"):
        if r.random() < 0.5:
            variables[x] = r.choice(("bool", "t", "proc", "proc"))
    if r.random() < 0.25:
        variables["N"] = "int"
    arrays = {"P": (1, "t")}
    if r.random() < 0.4:
        arrays["Q"] = (1, r.choice(("bool", "t", "proc")))
    if r.random() < 0.15:
        arrays["R"] = (2, "bool")
    s = System(enums, variables, arrays, [], ("p", "q") if "R" in arrays else ("p",), [])
    for x, kind in variables.items():
        if kind == "int":
            s.init.append(("=", ("var", x), ("const", "0")))
        elif kind != "proc" and r.random() < 0.8:
            s.init.append(("=", ("var", x), ("const", r.choice(s.values(kind, 0)))))
    for a, (size, kind) in arrays.items():
        if kind != "proc" and (a == "P" or r.random() < 0.8):
            op = "=" if r.random() < 0.85 else "<>"
            s.init.append((op, ("at", a, s.init_params[:size]), ("const", r.choice(s.values(kind, 0)))))
    for _ in range(r.choice((1, 1, 2))):
        params = ("p", "q", "s")[: r.choice((1, 2, 2, 3))]
        body = [literal(r, s, [p]) for p in params]
        body += [literal(r, s, list(params))] if r.random() < 0.3 else []
        s.unsafe.append((params, body))
    for i in range(r.choice((2, 2, 3, 3, 4, 5))):
        s.transitions.append(transition(r, s, f"t{i}"))
    return s


def places(s: System, kind: str, names: list[str], r: random.Random) -> list[Term]:
    """Terms of a type."""
    found: list[Term] = [("var", x) for x, k in s.variables.items() if k == kind]
    for a, (size, k) in s.arrays.items():
        if k == kind and names:
            found.append(("at", a, tuple(r.choice(names) for _ in range(size))))
    if kind == "proc":
        found += [("proc", p) for p in names]
    return found


def literal(r: random.Random, s: System, names: list[str]) -> Literal:
    """A comparison that mostly speaks of the last of these processes."""
    last = names[-1:] if names and r.random() < 0.8 else names
    kinds = sorted(set(s.variables.values()) | {k for _, k in s.arrays.values()})
    for _ in range(20):
        kind = r.choice(kinds)
        if kind == "int":
            if r.random() < 0.3:
                return (r.choice(("=", "<>", "<", "<=")), ("var", "N"), ("const", r.choice("0123")))
            continue
        left = places(s, kind, last, r)
        if kind == "proc":
            if not left or not names:
                continue
            a, b = r.choice(left), r.choice(places(s, kind, names, r))
            if a[0] == b[0] == "proc" and a != b and r.random() < 0.3:
                return (r.choice(("<", "<=")), a, b)
            if a == b or (a[0] == b[0] == "proc"):
                continue
            return (r.choice(("=", "=", "<>")), a, b)
        if left:
            return (r.choice(("=", "=", "=", "<>")), r.choice(left), ("const", r.choice(s.values(kind, 0))))
    return ("=", ("at", "P", (names[-1],)), ("const", "A"))


def transition(r: random.Random, s: System, name: str) -> Transition:
    """What it needs and does."""
    params = ("x", "y")[: r.choice((1, 1, 1, 2))]
    guard: Formula = [[literal(r, s, [params[0]])]]
    for _ in range(r.choice((0, 1, 1, 2))):
        guard.append([literal(r, s, list(params)) for _ in range(r.choice((1, 1, 1, 2)))])
    others: Formula = []
    if r.random() < 0.35:
        others = [[literal(r, s, [*params, "o"]) for _ in range(r.choice((1, 1, 2)))]]
        others = [[("<>" if x[0] == "<>" else x[0], x[1], x[2]) for x in part] for part in others]
    t = Transition(name, params, guard, others, {}, {})
    for x, kind in s.variables.items():
        if r.random() < 0.5:
            continue
        if kind == "int":
            by = r.choice((1, 1, -1))
            t.globals[x] = ("plus", x, by)
            t.guard.append([("<", ("var", x), ("const", "3"))] if by > 0 else [("<", ("const", "0"), ("var", x))])
        elif r.random() < 0.12:
            t.globals[x] = None
        else:
            t.globals[x] = value(r, s, kind, list(params))
    for a, (size, kind) in s.arrays.items():
        if a != "P" and r.random() < 0.5:
            continue
        if size == 2 and len(params) < 2:
            continue
        if r.random() < 0.6:
            index = tuple(r.sample(params, size))
            t.arrays[a] = (index, [([], value(r, s, kind, list(params)))])
        else:
            index = ("j", "k")[:size]
            branches: list[tuple[list[Literal], Term]] = []
            if size == 1:
                for p in params:
                    if r.random() < 0.7:
                        branches.append(([("=", ("proc", "j"), ("proc", p))], value(r, s, kind, list(params))))
                if r.random() < 0.6:
                    branches.append(([literal(r, s, ["j"])], value(r, s, kind, [*params, "j"])))
            else:
                branches.append(
                    (
                        [("=", ("proc", "j"), ("proc", params[0])), ("=", ("proc", "k"), ("proc", params[1]))],
                        value(r, s, kind, list(params)),
                    )
                )
            keep: Term = ("at", a, index)
            branches.append(([], keep if r.random() < 0.75 else value(r, s, kind, [*params, *index])))
            t.arrays[a] = (index, branches)
    return t


def value(r: random.Random, s: System, kind: str, names: list[str]) -> Term:
    """What is assigned."""
    found = places(s, kind, names, r)
    if kind == "proc":
        return r.choice(found)
    if found and r.random() < 0.2:
        return r.choice(found)
    return ("const", r.choice(s.values(kind, 0)))


# Protocols whose verdicts are known: safe (None), or the fewest steps to an unsafe state and of how many processes.

LOCK = """
type place = Out | In
var Locked : bool
array At[proc] : place
init (p) { At[p] = Out && Locked = False }
unsafe (p q) { At[p] = In && At[q] = In }
transition enter (p) requires { At[p] = Out && Locked = False } { At[p] := In; Locked := True }
transition leave (p) requires { At[p] = In } { At[p] := Out; Locked := False }
"""

LOOK_FIRST = """
type place = Out | Free | In
var Locked : bool
array At[proc] : place
init (p) { At[p] = Out && Locked = False }
unsafe (p q) { At[p] = In && At[q] = In }
transition look (p) requires { At[p] = Out && Locked = False } { At[p] := Free }
transition enter (p) requires { At[p] = Free } { At[p] := In; Locked := True }
transition leave (p) requires { At[p] = In } { At[p] := Out; Locked := False }
"""

ANYBODY_UNLOCKS = LOCK + "transition rob (p) requires { At[p] = Out && Locked = True } { Locked := False }\n"

OWNER = """
type place = Out | In
var Owner : proc
var Free : bool
array At[proc] : place
init (p) { At[p] = Out && Free = True }
unsafe (p q) { At[p] = In && At[q] = In }
unsafe (p) { At[p] = In && Owner <> p }
transition own (p) requires { Free = True } { Free := False; Owner := p }
transition enter (p) requires { Owner = p && Free = False } { At[p] := In }
transition leave (p) requires { At[p] = In } { At[p] := Out; Free := True }
"""

OWNER_GIVES = OWNER + "transition give (p q) requires { Owner = p && At[q] = Out } { Owner := q }\n"

TURNS = """
type place = Out | In
var Turn : proc
array At[proc] : place
init (p) { At[p] = Out }
unsafe (p q) { At[p] = In && At[q] = In }
transition enter (p) requires { Turn = p } { At[p] := In }
transition pass (p q) requires { Turn = p && At[p] = In } { At[p] := Out; Turn := q }
transition lost (p) requires { Turn = p && At[p] = Out } { Turn := . }
"""

TURN_LOST_INSIDE = TURNS.replace("At[p] = Out } { Turn := . }", "At[p] = In } { Turn := . }")

SMALLEST_LEADS = """
array Leads[proc] : bool
array Up[proc] : bool
init (p) { Leads[p] = False && Up[p] = False }
unsafe (p q) { Leads[p] = True && Leads[q] = True }
transition boot (p) requires { Up[p] = False && forall_other o. Leads[o] = False } { Up[p] := True }
transition lead (p) requires { Up[p] = True && forall_other o. (Up[o] = False || p < o) } { Leads[p] := True }
transition stop (p) requires { Up[p] = True } { Up[p] := False; Leads[p] := False }
"""

SMALLEST_LEADS_BOOTS_LATE = SMALLEST_LEADS.replace(" && forall_other o. Leads[o] = False", "")

READERS = """
type place = Out | Reads | Writes
var Readers : int
var Writer : bool
array At[proc] : place
init (p) { At[p] = Out && Readers = 0 && Writer = False }
unsafe (p q) { At[p] = Writes && At[q] = Reads }
unsafe (p q) { At[p] = Writes && At[q] = Writes }
transition read (p) requires { At[p] = Out && Writer = False } { At[p] := Reads; Readers := Readers + 1 }
transition read_end (p) requires { At[p] = Reads } { At[p] := Out; Readers := Readers - 1 }
transition write (p) requires { At[p] = Out && Readers = 0 && Writer = False } { At[p] := Writes; Writer := True }
transition write_end (p) requires { At[p] = Writes } { At[p] := Out; Writer := False }
"""

READERS_WRONG_COUNT = READERS.replace("At[p] := Out; Readers := Readers - 1", "At[p] := Out; Readers := 0")

THREE_TOO_MANY = """
type count = Zero | One | Two | Three
var N : count
array In[proc] : bool
init (p) { In[p] = False && N = Zero }
unsafe () { N = Three }
transition first (p) requires { In[p] = False && N = Zero } { In[p] := True; N := One }
transition second (p) requires { In[p] = False && N = One } { In[p] := True; N := Two }
transition third (p) requires { In[p] = False && N = Two } { In[p] := True; N := Three }
"""

EXCLUSIVE_LINE = """
type line = I | S | E
array L[proc] : line
init (p) { L[p] = I }
unsafe (p q) { L[p] = E && L[q] <> I }
transition share (p) requires { L[p] = I } { L[j] := case | j = p : S | L[j] = E : S | _ : L[j] }
transition take (p) requires { L[p] <> E } { L[j] := case | j = p : E | _ : I }
transition drop (p) requires { L[p] <> I } { L[p] := I }
"""

EXCLUSIVE_LINE_KEEPS = EXCLUSIVE_LINE.replace("| j = p : S | L[j] = E : S | _ : L[j]", "| j = p : S | _ : L[j]")

COMMIT = """
type vote = Open | Yes | No
type end = Waits | Committed | Aborted
array V[proc] : vote
array D[proc] : end
var Decided : end
init (p) { V[p] = Open && D[p] = Waits && Decided = Waits }
unsafe (p q) { D[p] = Committed && D[q] = Aborted }
unsafe (p) { Decided = Committed && V[p] = No }
transition yes (p) requires { V[p] = Open } { V[p] := Yes }
transition no (p) requires { V[p] = Open } { V[p] := No }
transition commit () requires { Decided = Waits && forall_other o. V[o] = Yes } { Decided := Committed }
transition abort (p) requires { Decided = Waits && V[p] = No } { Decided := Aborted }
transition hear (p) requires { Decided <> Waits && D[p] = Waits } { D[p] := Decided }
"""

COMMIT_BY_ONE = COMMIT.replace(
    "commit () requires { Decided = Waits && forall_other o. V[o] = Yes",
    "commit (p) requires { Decided = Waits && V[p] = Yes",
)

#: name -> text, None or (steps, processes)
KNOWN: dict[str, tuple[str, tuple[int, int] | None]] = {
    "a lock taken in one step": (LOCK, None),
    "a lock that is looked at first": (LOOK_FIRST, (4, 2)),
    "a lock that anybody opens": (ANYBODY_UNLOCKS, (3, 2)),
    "a lock with an owner": (OWNER, None),
    "an owner who gives it away inside": (OWNER_GIVES, (3, 2)),
    "turns": (TURNS, None),
    "a turn lost by who is inside": (TURN_LOST_INSIDE, (3, 2)),
    "the smallest leads": (SMALLEST_LEADS, None),
    "the smallest boots late": (SMALLEST_LEADS_BOOTS_LATE, (4, 2)),
    "readers who forget the others": (READERS_WRONG_COUNT, (4, 2)),
    "three of them": (THREE_TOO_MANY, (3, 3)),
    "a line of a cache": (EXCLUSIVE_LINE, None),
    "a line that is kept": (EXCLUSIVE_LINE_KEEPS, (2, 2)),
    "a commit": (COMMIT, None),
    "a commit by one vote": (COMMIT_BY_ONE, (3, 2)),
}
