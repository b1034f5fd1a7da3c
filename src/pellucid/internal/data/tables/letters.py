"""The dead letters of a run over data in memory: rows that were set aside, in the order in which they came."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pellucid.errors import StepError, UsageError
from pellucid.internal.data.tables.bad import (
    COLUMNS,
    BadOption,
    BadRow,
    BadRows,
    as_text,
    of_row,
    row_text,
    schema,
    table_of,
)
from pellucid.internal.data.tables.inputs import Input
from pellucid.internal.data.tables.ready import Ready

#: What the output of bad rows is called, where they are kept.
KEPT = "bad"


def refuse_kept(outputs: Sequence[str], bad: BadOption) -> None:
    """Two outputs of one name would be one too few."""
    if bad.to == "keep" and KEPT in outputs:
        raise UsageError(
            "bad='keep' gives the rows that are set aside as an output called 'bad', and there is one: rename it, or "
            "give a file"
        )


def letters(run: Ready, failed: Sequence[StepError], pushed: Sequence[int] | None, bad: BadOption) -> list[BadRow]:
    """The rows that cannot be read, and those in whose push a step failed; ``pushed`` tells the push of each row of
    the engine, where silent ones were left out."""
    if not bad:
        return []
    found: list[tuple[int, BadRow]] = []
    if run.apart:
        for name, place in run.places.items():
            found += [(i, _letter(run, name, i, *note)) for i, note in sorted((place.bad or {}).items())]
    elif run.lineup is None:
        for i in sorted({i for place in run.places.values() for i in place.bad or ()}):
            whys = (f"{p.at(i)}: {p.bad[i][1]}" for p in run.places.values() if p.bad and i in p.bad)
            why = f"its push has a row that cannot be read: {next(whys)}"
            for name in run.places:
                if _is_there(run, name, i):
                    found.append((i, _letter(run, name, i, *(run.places[name].bad or {}).get(i, (None, why)))))
    else:
        for name, place in run.places.items():
            found += [(-1, _letter(run, name, i, *note)) for i, note in sorted((place.bad or {}).items())]
    for error in failed:
        push = error.position if pushed is None else pushed[error.position]
        for name in run.places:
            row = int(run.rows(name, [push])[0])
            if row >= 0 and _is_there(run, name, row):
                found.append((push, _letter(run, name, row, None, error.why, error.step)))
    rows = [row for _, row in sorted(found, key=lambda one: one[0])]
    BadRows(bad.most).add(rows)
    return rows


def _is_there(run: Ready, name: str, row: int) -> bool:
    """Whether an input has this row, and it is no silence."""
    from pellucid.internal.graph.stream import silent

    data = run.inputs[name].data
    return row < len(data) and not (isinstance(data, (list, tuple)) and data[row] is silent)


def _letter(run: Ready, name: str, row: int, column: str | None, why: str, step: str | None = None) -> BadRow:
    letter = of_row(run.places[name], row, why, column=column, step=step)
    return BadRow(letter.file, letter.row, column, step, letter.reason, _text(run.inputs[name], row))


def _text(one: Input, i: int) -> str:
    """A row of an input as text."""
    data = one.data
    if one.kind == "DataFrame":
        return as_text(dict(zip(map(str, data.columns), data.iloc[i].tolist(), strict=True)))
    if one.kind == "polars":
        try:
            return as_text(data.row(i, named=True))
        except (ValueError, OverflowError):  # a time that Python does not have
            return row_text(data.slice(i, 1).to_arrow(), 0)
    if one.kind in ("Table", "RecordBatch"):
        return row_text(data, i)
    if one.kind == "Series":
        return as_text(data.iloc[i])
    return as_text(data[i].as_py() if hasattr(data[i], "as_py") else data[i])


def shown_letters(rows: Sequence[BadRow], shows: str) -> Any:
    """Dead letters as a table of the kind of the first input; for lists, as dicts."""
    if shows in ("DataFrame", "Series"):
        return table_of(rows).to_pandas()
    if shows.startswith("polars"):
        import polars as pl

        return pl.from_arrow(table_of(rows))
    if shows in ("Table", "RecordBatch", "Array", "ChunkedArray"):
        import pyarrow as pa

        return pa.Table.from_batches([table_of(rows)])
    return [{name: getattr(row, name) for name in COLUMNS} for row in rows]


def write_letters(rows: Sequence[BadRow], path: str) -> None:
    """A file of dead letters, which appears whole."""
    from pellucid.internal.data.writers import open_writer

    with open_writer(path, schema(), None) as writer:
        if rows:
            writer.write(table_of(rows))
