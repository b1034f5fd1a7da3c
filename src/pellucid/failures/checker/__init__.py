"""Whether crashes can be seen from outside: decided by search.

* ``question``: what `check.failures` asks, its input, and a counterexample in words and as a picture
* ``system``: what is explored, literally: rules, sinks, and the user's functions, each called once for each case (and
  again); ``microbatch``: Spark's protocol
* ``search``: the fast search, the literal one that it is held against, dead ends and fair cycles
"""
