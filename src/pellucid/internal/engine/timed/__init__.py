"""Pipelines by event time, here.

* ``plan``: a graph cut at its timed steps: segments of ordinary steps, and the timed steps between them, in order
* ``clock``: how far event time has come, for each stream
* ``calendar``: the days of time zones
* ``order``: the one order of events with equal times
* ``literal``: the meaning, word by word, one function per timed kind; the oracle for the rest
* ``engine``: the same over columns, fast; ``stages`` are its stages, ``flows`` the streams between them, ``columns``
  the windows, joins and so on, and how rows wait, are sorted and found
* ``running``: which engine runs a graph, and data through it

The one idea: a *batch* of rows comes in; all its rows are judged by the clock at its beginning; the clock moves once at
its end; then what that completed comes out.  A run over data that ends is one batch, and then the end of the input, at
which every time is complete: so nothing is late in it.
"""
