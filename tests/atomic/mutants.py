"""Rules of reduction that a checker must refute, and others that no property can refute, each by its name."""

from __future__ import annotations

from pellucid.atomic.machine import Rules

MUTANTS = {
    rules.name: rules
    for rules in (
        Rules("receive_after_commit", receiver_not_committed=False),
        Rules("commit_ignores_dependencies", commit="any"),
        Rules("commit_waits_only_for_no_abort", commit="none aborted"),
        Rules("commit_one_of_cycle", commit="all pending"),
        Rules("abort_no_restore", restore="nothing"),
        Rules("abort_restore_as_set", restore="set"),
        Rules("abort_of_committed", abort_committed=True),
        Rules("no_log_predicate_for_forward_open", mobile_received=False),
    )
}
EQUIVALENT = {
    rules.name: rules
    for rules in (
        # who reads from an aborted one can never commit anyway: the check only avoids such readers
        Rules("no_check_of_sender", sender_not_aborted=False),
        # what an aborted one takes is undone with it, and it never commits
        Rules("no_check_of_receivers_abort", receiver_not_aborted=False),
        # what is left of an aborted one never commits, and whoever reads from it is doomed
        Rules("no_kill", kill=False),
        # a message of an aborted one can only doom its reader: without it there are fewer runs
        Rules("drop_dead_messages", drop_messages=True),
    )
}


def mutant(name: str) -> Rules | str:
    """The rules of this name; a name that the product knows stays as it is.

    >>> mutant("no_kill").kill, mutant("crash")
    (False, 'crash')
    """
    return (MUTANTS | EQUIVALENT).get(name, name)
