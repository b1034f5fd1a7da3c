"""What formulas mean, as directly as it can be written: the reference for every engine.

LTL on a lasso (a run that ends in a loop) and on a finite trace.  None of this is fast; all of it is meant to be seen
to be right.

Finite traces (LTLf): ``X p`` is *strong*, so false in the last step; ``F p`` and ``p U q`` must be met before the end;
``G p``, ``p W q`` and ``p R q`` need to hold up to the end only.  Past operators mean the same everywhere: ``Y p`` is
false in the first step.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from pellucid.check.formula.nodes import CTL, PAST, Formula
from pellucid.errors import UsageError

Labels = Mapping[Formula, bool] | Collection[Formula]


def _holds(atom: Formula, label: Labels) -> bool:
    return bool(label.get(atom, False)) if isinstance(label, Mapping) else atom in label


def past_depth(formula: Formula) -> int:
    """How many past operators stand inside one another at most.

    >>> from pellucid.check.formula.parse import parse
    >>> past_depth(parse("G (a -> O (b & Y c))"))
    2
    """
    return max((past_depth(arg) for arg in formula.args), default=0) + (formula.op in PAST)


def evaluate_lasso(formula: Formula, trace: Sequence[Labels], loop: int) -> bool:
    """Whether an LTL formula holds on the run whose steps from ``loop`` on repeat for ever.

    Each step is a mapping from atoms to truth (or the set of those that hold).

    >>> from pellucid.check.formula.parse import parse
    >>> p = parse("p")
    >>> evaluate_lasso(parse("G F p"), [{p: False}, {p: True}], loop=0)
    True
    >>> evaluate_lasso(parse("F G p"), [{p: False}, {p: True}], loop=0)
    False
    """
    _check(formula)
    if not 0 <= loop < len(trace):
        raise UsageError(f"the loop must start within the trace's {len(trace)} steps, found {loop}")
    # A past operator sees how often the loop has been gone round, but only up to its depth: unroll that often.
    turns = past_depth(formula)
    steps = [*trace, *[label for _ in range(turns) for label in trace[loop:]]]
    return _linear(formula, steps, len(steps) - (len(trace) - loop), {})[0]


def evaluate_finite(formula: Formula, trace: Sequence[Labels]) -> bool:
    """Whether an LTL formula holds on a trace that ends, in the finite reading described above.

    >>> from pellucid.check.formula.parse import parse
    >>> p = parse("p")
    >>> [evaluate_finite(parse(text), [{p: False}, {p: True}]) for text in ("X p", "X X p", "X !X p", "G p", "G F p")]
    [True, False, True, False, True]
    """
    _check(formula)
    if not trace:
        raise UsageError("an empty trace has no first step to evaluate a formula in: give at least one step")
    return _linear(formula, trace, None, {})[0]


def _linear(f: Formula, steps: Sequence[Labels], loop: int | None, known: dict[Formula, list[bool]]) -> list[bool]:
    """The truth of ``f`` in each step; after the last comes step ``loop``, or nothing."""
    if f in known:
        return known[f]
    n = len(steps)
    parts = [_linear(arg, steps, loop, known) for arg in f.args]
    p = parts[0] if parts else [False] * n
    q = parts[-1] if parts else [False] * n
    op = f.op
    if op == "atom":
        out = [_holds(f, label) for label in steps]
    elif op in ("true", "false"):
        out = [op == "true"] * n
    elif op in ("!", "&", "|", "->", "<->"):
        out = [_boolean(op, a, b) for a, b in zip(p, q, strict=True)]
    elif op == "X":
        out = [p[i + 1] if i + 1 < n else loop is not None and p[loop] for i in range(n)]
    elif op in PAST:
        # Y p: the step before; O p = true S p; H p = not (true S not p).
        out = []
        for i in range(n):
            before = i > 0 and out[i - 1]
            out.append(
                {
                    "Y": i > 0 and p[i - 1],
                    "O": p[i] or before,
                    "H": p[i] and (i == 0 or before),
                    "S": q[i] or (p[i] and before),
                }[op]
            )
    else:
        # now = good or (stay and next), from below for F and U, from above for the rest.
        strong = op in ("F", "U")
        out = [not strong] * n
        for _ in range(2 if loop is not None else 1):  # twice round a loop is enough
            for i in reversed(range(n)):
                after = out[i + 1] if i + 1 < n else out[loop] if loop is not None else not strong
                out[i] = {
                    "F": p[i] or after,
                    "G": p[i] and after,
                    "U": q[i] or (p[i] and after),
                    "W": q[i] or (p[i] and after),
                    "R": q[i] and (p[i] or after),
                }[op]
    known[f] = out
    return out


def _boolean(op: str, a: bool, b: bool) -> bool:
    return {"!": not a, "&": a and b, "|": a or b, "->": not a or b, "<->": a == b}[op]


def _check(formula: Formula) -> None:
    for part in formula.walk():
        if part.op in CTL:
            raise UsageError(f"an LTL formula was expected, found {part.op} in {formula}")
