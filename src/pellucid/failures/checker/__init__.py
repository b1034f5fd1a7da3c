"""Whether crashes can be seen from outside: decided by search.

* ``question``: what `check.failures` asks; ``given``, ``calls``: its input, and the user's functions, each called once
  for each case (and again)
* ``system``, ``rules``, ``sinks``: what is explored, literally; ``unaligned``, ``microbatch``: other protocols;
  ``variants``: mistakes to be found
* ``packed``, ``explore``, ``reduce``, ``candidates``: the fast search; ``literal``: the slow one that it is held
  against
* ``liveness``: dead ends and fair cycles; ``story``: a counterexample in words and as a picture
"""
