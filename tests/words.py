"""The words of the Python that runs: its versions tell the same error in different ones."""

from __future__ import annotations

from collections.abc import Callable


def python_says(call: Callable[[], object]) -> str:
    """The error of a call as Python tells it, such as ``ZeroDivisionError: division by zero``."""
    try:
        call()
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    raise AssertionError("it did not fail")


DIVISION = python_says(lambda: 1 // 0)
