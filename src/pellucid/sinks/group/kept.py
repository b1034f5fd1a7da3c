"""The rows of an attempt, kept beside the log until every member has them: for members that cannot keep what they have
prepared.  They are written once, whatever gave them, and each member reads its own from there."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from pellucid.errors import DataError, StateError
from pellucid.internal.base.files import Draft, beside, make_lasting, sync
from pellucid.sinks.group.log import DecisionLog
from pellucid.sinks.rows import rows_of


def keep(
    log: DecisionLog, data: Any, attempt: str, names: list[str], *, by: str | None, outputs: list[str]
) -> tuple[dict[str, Path], dict[str, int]]:
    """Write the rows of an attempt: of each member its own, or with the name "" those of all; the files and how many
    rows each has.  They last when `make_last` has returned.

    >>> import pyarrow as pa, tempfile
    >>> log = DecisionLog(tempfile.mkdtemp())
    >>> files, counts = keep(log, pa.table({"x": [1, 2]}), "a1", [""], by=None, outputs=[])
    >>> counts, reader(files[""])().to_pydict()
    ({'': 2}, {'x': [1, 2]})
    """
    import pyarrow as pa

    make_lasting(log.folder / "rows")
    rows = rows_of(data)
    schemas = {name: _own_schema(rows.schema, name, by, outputs) for name in names}
    if by is not None and by not in rows.schema.names:
        raise DataError(f"together: there is no column {by!r}; there are {', '.join(rows.schema.names)}")
    files = {name: log.rows_file(attempt, name) for name in names}
    drafts = {name: Draft(beside(files[name])) for name in names}
    counts = dict.fromkeys(names, 0)
    try:
        writers = {name: pa.ipc.new_stream(drafts[name].file, schemas[name]) for name in names}
        for batch in rows:
            for name, own in _routed(batch, by, outputs, names):
                counts[name] += own.num_rows
                writers[name].write_batch(own.select(schemas[name].names))
        for name in names:
            writers[name].close()
            drafts[name].place(files[name], lasting=False)
    finally:
        for draft in drafts.values():
            draft.discard()
    return files, counts


def make_last(files: list[Path]) -> None:
    """Have the rows on the disk: no attempt is decided before."""
    for path in files:
        sync(path)
    for folder in {path.parent for path in files}:
        sync(folder)


def reader(path: Path) -> Callable[[], Any]:
    """What gives the rows anew, as often as it is called."""

    def read() -> Any:
        import pyarrow as pa

        try:
            with pa.memory_map(str(path)) as file:
                return pa.ipc.open_stream(file).read_all()
        except FileNotFoundError:
            raise StateError(
                f"{path}: the rows of this attempt are gone: another driver of this group has begun meanwhile, or "
                "somebody has deleted them. Stop one of the two, or write the batch again"
            ) from None
        except pa.ArrowInvalid as error:
            raise StateError(
                f"{path}: the rows that are kept here are damaged ({error}): bring the file back from a copy"
            ) from None

    return read


def _own_schema(schema: Any, name: str, by: str | None, outputs: list[str]) -> Any:
    import pyarrow as pa

    if by is None:
        return schema
    return pa.schema(
        [field for field in schema if field.name != by and (field.name == name or field.name not in outputs)]
    )


def _routed(batch: Any, by: str | None, outputs: list[str], names: list[str]) -> Iterator[tuple[str, Any]]:
    if by is None:
        yield "", batch
        return
    import pyarrow as pa
    import pyarrow.compute as pc

    column = batch.column(batch.schema.get_field_index(by))
    for found in column.unique().to_pylist():
        if found not in outputs:
            raise DataError(
                f"together: column {by!r} names the output {found!r}, which is no member; there are "
                f"{', '.join(outputs)} (give it None to leave its rows out)"
            )
        if found in names:
            yield found, batch.filter(pc.equal(column, pa.scalar(found, column.type)))
