"""A judge of the calculus of atomic failure that shares nothing with the product but the text form.

`terms` are networks as plain tuples with a normal form by brute force, `rec` are recursive types, `text` reads and
writes them, `meaning` has the rules of reduction, `claims` the properties by their definitions over all states, `waits`
the messages that wait for ever, `types` both systems of types, `draw` draws networks, `spoil` spoils them, and `held`
holds the product to all of it.  For more say ``python -m tests.judge.atomic --minutes 5 --seed 1``.
"""
