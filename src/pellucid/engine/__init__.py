"""The local runtime.

* ``interpreter``: the literal meaning, one obvious function per processor; the oracle for the rest
* ``layout``, ``emit``, ``emit_state``, ``emit_window``: a pipeline as one fused loop
* ``compile``, ``prims``: the loop as machine code, kept on disk
* ``kernel``: the engine that runs it in chunks; ``state``: its state, saved and loaded
"""
