"""Checks that speak of times: pipelines by event time as machines for the shared search.

A run is what comes: events of a small domain, in any order, in batches; sources that fall silent or end; and the end of
all input.  The literal engine (`engine.timed.literal`) takes each step; what it holds is the state, in a
canonical form.

* ``inputs``: which events, times and moves there are
* ``machine``: the literal engine as a machine, with what is watched of each step
* ``meaning``: what each timed step means on rows that are all there, written from the rules alone
* ``promises``, ``question``: ``check.times``
* ``compare``: ``check.equivalent`` of two pipelines by event time; ``endless``: the same in runs of any length
* ``formulas``: ``check.holds``
* ``held``: ``check.buffers``, what joins and the other timed steps hold
* ``found``: counterexamples
"""
