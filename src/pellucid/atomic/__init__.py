"""Atomic failure: transactions at places that commit as a set or are undone (Duggan, *Atomic Failure in Wide-Area
Computation*), typed, executable, checked.

`parse` reads the text form, `typecheck` gives the types or says which rule does not apply, `run` runs a network by a
seed.  `Atomic` is its machine, with a method for every rule; `explore` goes through all its states, and `check.atomic`
asks questions about them.  The paper as printed and mutants of its
rules are asked for by name (`rules`).
"""

from pellucid.atomic.machine import Atomic, Rules, Step, rules_of
from pellucid.atomic.question import Explored, explore
from pellucid.atomic.running import NetworkRun, run
from pellucid.atomic.syntax import network_text, parse, read
from pellucid.atomic.typing import IllTyped, counterexample_to_lemma_1, typecheck

__all__ = [
    "Atomic", "Explored", "IllTyped", "NetworkRun", "Rules", "Step", "counterexample_to_lemma_1", "explore",
    "network_text", "parse", "read", "rules_of", "run", "typecheck",
]  # fmt: skip
