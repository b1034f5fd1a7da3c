"""The outputs of a run over files: written as they come, and there whole or not at all."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from pellucid.errors import UsageError
from pellucid.internal.data.tables.bad import BadOption, BadRows

if TYPE_CHECKING:
    from pellucid.internal.data.columns import Output
    from pellucid.internal.data.feed import Fed, Feed
    from pellucid.internal.data.tables.bad import BadRow
    from pellucid.internal.data.writers import Writer
    from pellucid.internal.graph.model import Graph


class Writing:
    """The writers of all outputs; several outputs on stdout share its lines, in the order of the pushes."""

    def __init__(
        self,
        graph: Graph,
        sinks: dict[str, str],
        out_format: str | None,
        exists: str,
        feed: Feed,
        stdout: Any,
        stack: contextlib.ExitStack,
    ) -> None:
        from pellucid.internal.data.writers import open_writer

        key = feed.key
        types = {name: graph.nodes[i].type for name, i in graph.outputs}
        self.counts = dict.fromkeys(types, 0)
        self._key, self._along, self._timed = key, feed.along, graph.timed
        self._schemas = {name: feed.along.schema(types[name], name, key) for name in sinks}
        shared = [name for name, path in sinks.items() if path == "-"]
        self._shared = shared if len(shared) > 1 else []
        if self._shared and out_format not in (None, "jsonl"):
            raise UsageError(f"{graph.name} has several outputs: on stdout only jsonl can hold them together")
        self.needs_positions = bool(self._shared) or bool(key) or bool(feed.along)
        self._letters: Any = None
        self._writers: dict[str, Writer] = {}
        for name, path in sinks.items():
            if name in self._shared and name != self._shared[0]:
                self._writers[name] = self._writers[self._shared[0]]
                continue
            writer = open_writer(path, self._schemas[name], out_format, stdout=stdout, exists=exists)
            self._writers[name] = stack.enter_context(writer)

    def open_bad(self, bad: BadOption, exists: str, stack: contextlib.ExitStack) -> None:
        """Where rows go that are set aside: beside the outputs, and with them whole or not at all."""
        self.bad = BadRows(bad.most)
        if bad.address is not None:
            from pellucid.internal.data.tables.bad import schema
            from pellucid.internal.data.writers import open_writer

            self._letters = stack.enter_context(open_writer(bad.address, schema(), None, exists=exists))

    def set_aside(self, rows: list[BadRow]) -> None:
        """Write rows down that were not pushed."""
        from pellucid.internal.data.tables.bad import table_of

        self.bad.add(rows)
        self._letters.write(table_of(rows))

    def __call__(self, outputs: list[Output], fed: Fed | None) -> None:
        import numpy as np

        lines: list[tuple[int, int, str]] = []
        ready: list[tuple[str, Any]] = []  # written when all of them are whole
        for at, output in enumerate(outputs):
            self.counts[output.name] += len(output)
            if output.name not in self._writers or not len(output):
                continue
            rows: Any = ()
            if self._along and fed is not None:
                rows = np.asarray(output.positions, dtype=np.int64) - fed.first
            along = fed.along if fed is not None else {}
            where = _where(output, fed) if fed is not None and not self._timed else None
            batch = self._along.batch(output, self._key, along, rows, self._schemas[output.name], where)
            if output.name in self._shared:
                texts = _shared_lines(output.name, batch)
                lines += [(int(p), at, text) for p, text in zip(output.positions, texts, strict=True)]
            else:
                ready.append((output.name, batch))
        for name, batch in ready:
            self._writers[name].write(batch)
        if lines:
            lines.sort(key=lambda line: line[:2])
            self._writers[self._shared[0]].write_lines([text for _, _, text in lines])

    def at_the_end(self, outputs: list[Output], pushes: int) -> None:
        """Write what the end of the input puts out, after so many pushes."""
        import numpy as np

        for output in outputs:
            output.positions = np.full(len(output), pushes, dtype=np.int64)
        self(outputs, None)

    def prepare(self) -> None:
        """Finish every file before the first takes its name: all of them appear, or none."""
        for writer in [*self._writers.values(), *([self._letters] if self._letters is not None else [])]:
            writer.prepare()


def _where(output: Output, fed: Fed) -> Callable[[int], str]:
    """Names the rows whose push put the i-th event out."""

    def at(i: int) -> str:
        push = int(output.positions[i]) - fed.first
        return "; ".join(place.at(push) for place in fed.places)

    return at


def _shared_lines(name: str, batch: Any) -> list[str]:
    """Lines that say which output they are of: ``{"sums": 3}``, ``{"trades": {"price": 1.5}}``."""
    from pellucid.internal.data.writers import json_texts

    names = batch.schema.names
    columns = [json_texts(column, n) for n, column in zip(names, batch.columns, strict=True)]
    label = json.dumps(name)
    if names == [name]:
        return [f"{{{label}: {text}}}" for text in columns[0]]
    form = f"{{{label}: {{" + ", ".join(json.dumps(n).replace("%", "%%") + ": %s" for n in names) + "}}"
    return [form % row for row in zip(*columns, strict=True)]
