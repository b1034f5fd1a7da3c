"""What a group says of its members, in errors and in warnings."""

from __future__ import annotations

import warnings
from contextlib import suppress

from pellucid.errors import DataError, Unreachable, from_outside
from pellucid.sinks.group.member import Member


def at_the_start(member: Member, error: Exception) -> Exception:
    """What is said of a member that is away when a query begins; of one that says no, what it says.

    >>> from pellucid import sinks
    >>> shop = Member("shop", sinks.sqlite("shop.db", "t"), keeps_open=True)
    >>> print(at_the_start(shop, Unreachable("no route to host")))
    together: member 'shop' (...) cannot be reached (no route to host). Nothing is lost: ...
    """
    if not isinstance(error, Unreachable):
        return of_member(member, error)
    return Unreachable(
        f"together: {member} cannot be reached ({error}). Nothing is lost: when it is up, start the query again, and "
        "what is decided is committed first"
    )


def of_member(member: Member, error: Exception) -> Exception:
    """An error of a member, to be told: what the machine refuses names the member.

    >>> from pellucid import sinks
    >>> shop = Member("shop", sinks.sqlite("shop.db", "t"), keeps_open=True)
    >>> print(of_member(shop, OSError(28, "No space left on device", "shop.db")))
    member 'shop' (...): shop.db: No space left on device
    """
    found = from_outside(error) if isinstance(error, OSError) else None
    return error if found is None else DataError(f"{member}: {found}")


def undecided(query: str, batch: int) -> str:
    """How a message begins about a batch that is given up.

    >>> undecided("shop", 3)
    "batch 3 of query 'shop' is not decided, so nobody has it: "
    """
    return f"batch {batch} of query {query!r} is not decided, so nobody has it: "


def warned(text: str) -> None:
    """Tell it as a warning.

    >>> import warnings
    >>> with warnings.catch_warnings(record=True) as told:
    ...     warnings.simplefilter("always")
    ...     warned("batch 3 is in doubt")
    >>> str(told[0].message)
    'together: batch 3 is in doubt'
    """
    with suppress(Warning):  # where warnings are errors, a decided batch is committed all the same
        warnings.warn(f"together: {text}", UserWarning, stacklevel=3)
