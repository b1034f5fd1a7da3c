"""Functions as data: a pure function of scalars, traced from plain Python, one file per target.

* ``types``: what an event may be, and its scalar leaves
* ``node``: the expression DAG, its simplification and its failures
* ``symbolic``, ``shadow``, ``purity``, ``trace``: from a Python function to expressions
* ``function``: the pair of the two, plain and traced
* ``evaluate``: the reference evaluator; ``checked``: plain Python with 64-bit integers
* ``codegen``: statements for the fused loops of the engine
"""
