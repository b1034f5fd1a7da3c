"""Data in and out.

* ``kinds``, ``events``: NumPy, pandas, Arrow and lists as columns, and results of the same kind
* ``bind``: which column feeds which leaf of which source
* ``arrow``: Arrow arrays to the engine's leaf columns; ``formats.outputs``: and back
* ``files``, ``text``, ``exact``, ``formats``: files read in chunks, and the exact place of a bad value
* ``feed``: one or several inputs, in lock-step, as batches for an engine
* ``writers``: files that appear whole or not at all
* ``tables``: frames, lists of dicts, folders of files; the order of rows, the passthrough columns
"""
