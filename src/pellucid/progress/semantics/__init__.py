"""What a graph does (section 4): its state machine, what must be true of every run, graphs put together.

* ``machine``: the actions `InitProp`, `Mess`, `Not`, `Inp`, `Outp`
* ``properties``: Propositions 7 to 9, Theorem 2, completeness of notifications, liveness
* ``running``: one behaviour, for any times, with the incremental clock
* ``compose``: two graphs as one, and `Spec₁₂`
"""
