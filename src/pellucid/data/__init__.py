"""Data in and out.

* ``memory``: lists, NumPy, pandas and Arrow in; the same kind out
* ``bind``: which column feeds which leaf of which source
* ``arrow``: Arrow arrays to the engine's leaf columns and back
* ``files``, ``text``, ``exact``: files read in chunks, and the exact place of a bad value
* ``feed``: one or several inputs, in lock-step, as batches for an engine
* ``writers``: files that appear whole or not at all
"""
