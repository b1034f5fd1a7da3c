"""Failure transparency (Failure Transparency in Stateful Dataflow Systems, 2024); docs/explanation/failures.md tells
the argument.

* ``model``: the paper's rules and definitions by their names; ``model.tasks`` makes tasks of a pipeline,
  ``model.trace`` applies and reorders traces, ``model.explain`` builds the failure-free execution that explains a
  faulty one, ``model.cut`` judges snapshots, ``model.notation`` writes runs as short texts
* ``checker``: every interleaving with crashes, and whether it can be explained; broken variants of the rules
* ``audit``: what a recorded run must satisfy, and its explanation
* ``crash``: a pipeline run for real under ``kill -9``; ``testing``: the same for one's own tests
"""
