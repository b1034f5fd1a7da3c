"""Several ``--out`` of a streaming query, one of them a table: a micro-batch is in all of them, or in none.

The decisions are in ``CHECKPOINT/pellucid-together``.  What cannot be one of a group (a Kafka topic, the standard
output, the rows that ``--bad`` sets aside) is written beside it, once, as before.
"""

from __future__ import annotations

import math
import os
from collections.abc import Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from pellucid import sinks
from pellucid.errors import UsageError
from pellucid.internal.address import Address, alike
from pellucid.internal.cli.progress import tell
from pellucid.sinks.address import absolute, on_this_machine, sink_of
from pellucid.sinks.group.log import DecisionLog
from pellucid.spark.job import BAD

if TYPE_CHECKING:
    from pellucid.internal.cli.spark.options import SparkOptions
    from pellucid.internal.cli.spark.run import Places, Work

FOLDER = "pellucid-together"  # in the checkpoint
_TAG = "output"


def can_be_members(places: Places) -> list[str]:
    """The targets that commit together; none if there are fewer than two, or if none of them is a table."""
    known = {name: Address.of(places.outputs[name]).kind for name in places.members or () if name in places.outputs}
    fit = [name for name, kind in known.items() if kind != "kafka" and places.outputs[name] != "-" and name != BAD]
    return fit if len(fit) > 1 and any(known[name] for name in fit) else []


def refuse_group(places: Places, o: SparkOptions) -> None:
    """Refuse, before Spark starts, what does not go with several targets that commit together, or needs them."""
    fit = can_be_members(places) if o.stream else []
    if not fit:
        for name in ("patience", "added", "removed"):
            if getattr(o, name):
                raise UsageError(
                    f"--{name} is for several --out that commit together, of which at least one is a table, with "
                    "--stream"
                )
        if _all_get_all(places.members):
            raise UsageError(
                "several --out of one output are for targets that commit together: at least one is a table "
                "(sqlite:FILE#TABLE, postgresql://…#TABLE, delta:FOLDER), and none is a topic or the standard output"
            )
        return
    for name in places.members or ():
        if name not in fit and _all_get_all(places.members):
            what = "the standard output" if places.outputs[name] == "-" else "a Kafka topic"
            raise UsageError(
                f"--out {Address.of(places.outputs[name])}: {what} cannot be one of several targets that commit "
                "together: write to it from a query of its own"
            )
    if o.patience is not None and math.isnan(o.patience):
        raise UsageError("--patience nan: expected a number of seconds")
    there: dict[str, str] = {}
    for name in fit:
        place = places.outputs[name]
        other = there.setdefault(alike(Address.of(place).identity) if Address.of(place).kind else absolute(place), name)
        if other != name:
            raise UsageError(f"--out: {other!r} and {name!r} are the same target: name it once")
    if not on_this_machine(o.checkpoint or ""):
        raise UsageError(
            f"--checkpoint {o.checkpoint}: outputs that commit together keep their decisions there, and need a folder "
            "of this machine, or one that is mounted; or give each output a query of its own"
        )


def _all_get_all(members: Mapping[str, str] | None) -> bool:
    """Whether all targets are of one output."""
    return bool(members) and any(name != output for name, output in (members or {}).items())


def group_of(work: Work) -> Any:
    """What ``foreachBatch`` gets; None if the outputs do not commit together."""
    o, places = work.options, work.places
    fit = can_be_members(places)
    folder = absolute(str(o.checkpoint))
    log = os.path.join(folder, FOLDER)
    if not fit:
        _refuse_alone(log, str(o.checkpoint))
        return None
    if not os.path.isdir(log):
        offsets = os.path.join(folder, "offsets")
        if os.path.isdir(offsets) and any(name.isdigit() for name in os.listdir(offsets)):
            if _all_get_all(places.members):
                raise UsageError(f"--checkpoint {o.checkpoint}: is of a query with one --out: give a new one")
            tell(
                "this query began when its outputs were not committed together: each of them has a micro-batch once, "
                "and not all at once; a new checkpoint, with new targets, begins with that",
            )
            return None
        os.makedirs(log, mode=0o700)  # before the first offset: so a start that was killed is told from an old query
    parts: dict[str, Any] = {name: _patient(sink_of(places.outputs[name]), o.patience) for name in fit}
    settings: dict[str, Any] = {"log": log, "added": o.added, "removed": o.removed}
    if o.patience is not None:
        settings["patience"] = o.patience
    same, rest = _all_get_all(places.members), [n for n in work.outputs() if n in places.outputs and n not in fit]
    if not same:
        settings["by"] = _TAG
        parts = {**dict.fromkeys(work.outputs()), **parts}
    group = sinks.together(parts, **settings)
    group.say = lambda text: tell(f"pellucid: {text}")
    return Outputs(group, rest, work, same=same)


def _refuse_alone(log: str, checkpoint: str) -> None:
    """A query whose outputs commit together does not go on with one of them: the others would stay behind."""
    found = DecisionLog(log).read() if os.path.isdir(log) else None
    if found is not None:
        known = ", ".join(f"{name}: {place}" for name, (place, _) in found.members.items())
        raise UsageError(
            f"--checkpoint {checkpoint}: the outputs of this query commit together ({known}): give at least two of "
            "them, or begin with a new checkpoint"
        )


def _patient(sink: Any, patience: float | None) -> Any:
    if patience is not None:
        sink.wait_at_most(patience)
    return sink


class Outputs:
    """A group, and beside it the outputs that cannot be members; what a sink is to who counts rows."""

    def __init__(self, group: Any, rest: list[str], work: Work, *, same: bool) -> None:
        from pellucid.internal.cli.spark.stream import place_of

        self.group, self._same = group, same
        self.last_written: Any = None
        known: dict[str, Any] = dict.fromkeys(work.outputs())
        others = {name: place_of(work, work.places.outputs[name]) for name in rest}
        self.rest = sinks.split(_TAG, sinks={**known, **others}) if rest else None
        self._output = next(iter((work.places.members or {}).values()))

    def __call__(self, df: Any, batch: int) -> None:
        if self.rest is None:
            self.group(df, batch)
            self.last_written = self.group.last_written
            return
        df.persist()  # computed once, for both
        try:
            self.group(self._own(df), batch)
            self.rest(df, batch)
        finally:
            df.unpersist()
        mine, others = self.group.last_written, self.rest.last_written
        assert mine is not None
        assert others is not None
        count = sum(done.rows for done in (mine, others) if not done.skipped)
        self.last_written = sinks.Written(mine.query, batch, count, mine.skipped and others.skipped)

    def _own(self, df: Any) -> Any:
        """The rows of the group: with a column that names the member, or all of the one output."""
        if not self._same:
            return df
        from pyspark.sql import functions as F

        return df.where(F.col(_TAG) == self._output).drop(_TAG, BAD)

    def close(self) -> None:
        """Let go of connections."""
        for sink in (self.group, self.rest):
            with suppress(Exception):
                if sink is not None:
                    sink.close()
