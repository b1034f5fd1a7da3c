"""Sinks together: an epoch is a transaction over all of them.

``log`` keeps decisions, ``kept`` rows of an attempt, ``member`` what a member can do, ``sink`` is
`pellucid.sinks.together`, ``read`` is `pellucid.sinks.read_together`, ``doubt`` says what is decided and not
everywhere. The epochs runtime has a process for each member and the same log.
"""
