"""Atomic failure: transactions at places that commit as a set or are undone (Duggan, *Atomic Failure in Wide-Area
Computation*), typed, executable, checked.

`parse` reads the text form, `typecheck` gives the types or says which rule does not apply, `run` runs a network by a
seed.  `Atomic` is its machine, with a method for every rule; `explore` goes through all its states, and `check.atomic`
asks questions about them.  The paper as printed and mutants of its
rules are asked for by name (`rules`).
"""

from pellucid.atomic.explore import Explored, explore
from pellucid.atomic.machine import Atomic, Step
from pellucid.atomic.printing import network_text
from pellucid.atomic.reading import parse, read
from pellucid.atomic.rules import Rules, rules_of
from pellucid.atomic.running import NetworkRun, run
from pellucid.atomic.typing import IllTyped, counterexample_to_lemma_1, typecheck

__all__ = [
    "Atomic", "Explored", "IllTyped", "NetworkRun", "Rules", "Step", "counterexample_to_lemma_1", "explore",
    "network_text", "parse", "read", "rules_of", "run", "typecheck",
]  # fmt: skip
