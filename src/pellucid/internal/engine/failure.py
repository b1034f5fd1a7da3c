"""A step that fails on an event: what the user is told.

The message names the step, the event and its position, and the line of the user's own code.
"""

from __future__ import annotations

import linecache
import os
from collections.abc import Sequence
from typing import Any

from pellucid.errors import Control, IntOverflow, PellucidError, StepError
from pellucid.internal import PACKAGE
from pellucid.internal.expr.function import Function
from pellucid.internal.expr.operations import Overflow64
from pellucid.internal.graph.model import Node


def call(node: Node, fn: Function, args: Sequence[Any], position: int) -> Any:
    """Call a step's function as the meaning has it; a failure becomes a ``StepError``."""
    try:
        return fn.call(*args)
    except (PellucidError, Control, KeyboardInterrupt):
        raise
    except BaseException as error:  # also sys.exit(), which would end the program as if all were done
        raise step_error(node, args, position, error) from error


def step_error(node: Node, args: Sequence[Any], position: int, error: BaseException) -> StepError:
    """The error for a step that failed with ``error`` on these arguments."""
    overflow = isinstance(error, Overflow64) or (isinstance(error, ValueError) and "64 bits" in str(error))
    what = "an integer left the signed 64-bit range" if overflow else f"{type(error).__name__}: {error}"
    if overflow and "does not fit" in str(error):
        what += f" ({error})"
    shown = ", ".join(short(a) for a in args)
    arguments = "on the event" if len(args) == 1 else "on the arguments"
    why = f"{arguments} {shown}: {what}{_line(error)}"
    cls = IntOverflow if overflow else StepError
    return cls(f"{node.describe()} failed at push {position:,} {why}", step=node.id, position=position, why=why)


def short(value: Any) -> str:
    """A value for a message, of at most 80 characters.

    >>> short("ada")
    "'ada'"
    """
    text = repr(value)
    return text if len(text) <= 80 else text[:77] + "…"


def _line(error: BaseException) -> str:
    """The last line of the user's own code that the error passed through."""
    found, tb = None, error.__traceback__
    while tb is not None:
        name = tb.tb_frame.f_code.co_filename
        if not name.startswith((PACKAGE, "<pellucid ")):
            found = (name, tb.tb_lineno, tb.tb_frame.f_code.co_name)
        tb = tb.tb_next
    if found is None:
        return ""
    name, number, function = found
    code = linecache.getline(name, number).strip()
    place = f"{os.path.basename(name)}:{number}"
    return f"\n  {place}, in {function}" + (f": {code}" if code else "")
