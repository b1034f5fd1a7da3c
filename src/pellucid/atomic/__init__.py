"""Atomic failure: transactions at places that commit as a set or are undone (Duggan, *Atomic Failure in Wide-Area
Computation*), typed, executable, checked.

`parse` reads the text form, `typecheck` gives the types or says which rule does not apply, `Atomic` is the machine of a
network, with a method for every rule, and `explore` goes through its states.  The paper as printed and mutants of its
rules are asked for by name (`rules`).
"""

from pellucid.atomic.explore import Explored, explore
from pellucid.atomic.machine import Atomic, Step
from pellucid.atomic.printing import network_text
from pellucid.atomic.reading import parse, read
from pellucid.atomic.rules import Rules, rules_of
from pellucid.atomic.typing import IllTyped, counterexample_to_lemma_1, typecheck

__all__ = [
    "Atomic", "Explored", "IllTyped", "Rules", "Step", "counterexample_to_lemma_1", "explore", "network_text", "parse",
    "read", "rules_of", "typecheck",
]  # fmt: skip
