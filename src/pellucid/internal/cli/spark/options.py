"""The options of ``run`` that are for Spark, without Spark: every run looks at them."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class SparkOptions:
    """The options of ``run`` that are for Spark."""

    master: str | None = None
    conf: tuple[str, ...] = ()
    order: tuple[str, ...] = ()
    late: str = "fail"
    wait: str | None = None
    sequence: int | None = None
    gaps: str = "fail"
    partitions: int | None = None
    stream: bool = False
    trigger: str | None = None
    checkpoint: str | None = None
    drop: tuple[str, ...] = ()
    exists: str | None = None
    patience: float | None = None
    added: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()
    verbose: bool = False

    def given(self) -> list[str]:
        """The names of those that differ from their defaults.

        >>> SparkOptions(order=("seq",), verbose=True).given()
        ['order']
        """
        return [
            name for name, value in vars(self).items() if value != getattr(SparkOptions, name) and name != "verbose"
        ]
