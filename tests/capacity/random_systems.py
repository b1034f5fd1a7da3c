"""Small systems in Cubicle's language, made by chance from a number: always the same one for the same number."""

from __future__ import annotations

from random import Random

STATES = ("A", "B", "C")


def random_system(seed: int) -> str:
    """The text of a system with an array of states, a flag for each process, and sometimes a flag for all, somebody's
    turn, a count, or values that can only be compared."""
    r = Random(seed)
    values = STATES[: r.choice((2, 3, 3))]
    flag, turn, count, flags, data = (r.random() < p for p in (0.5, 0.45, 0.25, 0.4, 0.2))
    lines = [f"type t = {' | '.join(values)}"]
    lines += ["type data", "var V : data", "array D[proc] : data"] if data else []
    lines += ["var F : bool"] if flag else []
    lines += ["var T : proc"] if turn else []
    lines += ["var N : int"] if count else []
    lines += ["array X[proc] : t"] + (["array Y[proc] : bool"] if flags else [])

    def literal(names: list[str], *, about: str | None = None) -> str:
        kinds = ["X", "X", *("F" * flag), *("T" * turn), *("N" * count), *("Y" * flags), *("D" * data)]
        p = about or r.choice(names)
        match r.choice(kinds if about is None else [k for k in kinds if k in "XYTD"]):
            case "X":
                return f"X[{p}] {r.choice(('=', '=', '<>'))} {r.choice(values)}"
            case "Y":
                return f"Y[{p}] = {r.choice(('True', 'False'))}"
            case "F":
                return f"F = {r.choice(('True', 'False'))}"
            case "T":
                return f"T {r.choice(('=', '<>'))} {p}"
            case "D":
                return f"D[{p}] {r.choice(('=', '<>'))} V"
            case _:
                return f"N {r.choice(('=', '<', '>'))} {r.choice((0, 1, 2))}"

    def formula(names: list[str], most: int, about: str | None = None) -> str:
        parts = [literal(names, about=about) for _ in range(r.randint(1, most))]
        return (" || " if r.random() < 0.2 else " && ").join(parts)

    start = [f"X[z] = {values[0]}"] + (["F = False"] if flag and r.random() < 0.8 else [])
    start += ["Y[z] = False"] * flags + ["N = 0"] * count + (["D[z] = V"] if data else [])
    lines.append(f"init (z) {{ {' && '.join(start)} }}")
    for _ in range(r.choice((1, 1, 2))):
        names = ["x", "y"][: r.choice((1, 2, 2))]
        cube = " && ".join(f"X[{n}] = {r.choice(values[1:])}" for n in names)
        lines.append(f"unsafe ({' '.join(names)}) {{ {cube}{' && ' + literal(names) if r.random() < 0.4 else ''} }}")
    for i in range(r.randint(2, 5)):
        names = ["x", "y"][: r.choice((1, 1, 2))]
        guard = f"({formula(names, 3)})"
        if r.random() < 0.35:
            guard += f" && forall_other j. ({formula(names, 2, 'j')})"
        updates = []
        if r.random() < 0.9:
            updates.append(f"X[{r.choice(names)}] := {r.choice(values)}")
        elif r.random() < 0.7:
            case = f"case | j = x : {r.choice(values)} | X[j] = {r.choice(values)} : {r.choice(values)} | _ : X[j]"
            updates.append(f"X[j] := {case}")
        if flag and r.random() < 0.5:
            updates.append(f"F := {r.choice(('True', 'False', '.'))}")
        if turn and r.random() < 0.5:
            updates.append(f"T := {r.choice((*names, '.'))}")
        if count and r.random() < 0.5:
            updates.append(f"N := {r.choice(('N + 1', 'N - 1', '0'))}")
        if flags and r.random() < 0.5:
            updates.append(f"Y[{r.choice(names)}] := {r.choice(('True', 'False'))}")
        if data and r.random() < 0.5:
            updates.append(r.choice(("V := .", f"D[{names[0]}] := V", f"V := D[{names[0]}]")))
        lines.append(f"transition t{i} ({' '.join(names)}) requires {{ {guard} }} {{ {'; '.join(updates)} }}")
    return "\n".join(lines) + "\n"
