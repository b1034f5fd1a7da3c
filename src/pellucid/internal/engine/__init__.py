"""The local runtime.

* ``interpreter``: the literal meaning, one obvious function per processor; the oracle for the rest
* ``kernel``: a pipeline as one fused loop: ``layout`` and ``emit`` write it, ``compile`` makes machine code of it and
  keeps that on disk, ``engine`` runs it in chunks (columns in and out: ``exchange``; what it has
  Python do: ``calls``), ``buckets`` on all cores
* ``state``: what a kernel remembers; ``saved``: the same as bytes, and carried over to a changed pipeline
* ``in_memory``: lists, arrays and frames through a kernel; ``cores``: whether a run per key uses several cores
* ``epochs``: the runtime that survives ``kill -9``
"""
