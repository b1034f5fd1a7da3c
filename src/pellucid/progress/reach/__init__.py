"""Could-result-in (section 3): which pointstamp may lead to which.

* ``relation``: links, paths, proofs, transitivity, the universal time, closure
* ``exact``: Definition 1, from the nodes' local histories; ``declared``: by summaries
* ``conditions``: Conditions 1 and 2, and cycles on which no time passes
* ``recursion``: graphs that call themselves, with stacks as times
"""
